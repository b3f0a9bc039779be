// SPDX-License-Identifier: BSD-3-Clause
// On-demand paging through the engine: which accesses fault, what is counted, what is refused.
#include "paging_fixture.hh"

namespace kilim::vhca::test {
namespace paging_ut {
namespace {

void a_first_access_faults_and_completes() {
  Bench t;
  Mapping m(8 * page);
  uint32_t key = t.reg(m).rkey.value();
  EQUAL(t.stat(num_odp_mrs), 1);
  EQUAL(t.stat(num_page_faults), 0);
  EQUAL(t.write(m.at(100), key, 2 * page), Syndrome::none);
  EQUAL(std::memcmp(m.bytes() + 100, t.own.data(), 2 * page), 0);
  EQUAL(t.stat(num_page_faults), 1);
  EQUAL(t.stat(num_page_fault_pages), 3);
  EQUAL(t.stat(num_odp_mr_pages), 3);
  EQUAL(t.rig.journal.count(Kind::page_fault), 1);
  EQUAL(t.write(m.at(200), key, page), Syndrome::none);
  EQUAL(t.stat(num_page_faults), 1);
}

void the_requesters_own_memory_faults_too() {
  Bench t;
  Mapping m(4 * page);
  MrKeys k = t.reg(m);
  m.bytes()[0] = 7;
  Wqe w(Opcode::rdma_write);
  w.raddr(t.own.at(0), t.ko.rkey.value()).data(m.at(), page, k.lkey.value());
  EQUAL(t.rig.run_one(t.rig.a, w).syndrome, Syndrome::none);
  EQUAL(t.own.data()[0], std::byte{7});
  EQUAL(t.stat(num_page_faults), 1);
  Wqe r(Opcode::rdma_read);
  r.raddr(t.own.at(0), t.ko.rkey.value()).data(m.at(2 * page), page, k.lkey.value());
  EQUAL(t.rig.run_one(t.rig.a, r).syndrome, Syndrome::none);
  EQUAL(m.bytes()[2 * page], 7);
  EQUAL(t.stat(num_page_faults), 2);
}

void a_receive_buffer_faults() {
  Bench t;
  Mapping m(2 * page);
  MrKeys k = t.reg(m);
  t.rig.b.recv(m.at(), page, k.lkey.value());
  Wqe w(Opcode::send);
  w.data(t.own.at(0), page, t.ko.lkey.value());
  EQUAL(t.rig.run_one(t.rig.a, w).syndrome, Syndrome::none);
  auto c = t.rig.wait(t.rig.cq_b);
  CU_ASSERT(c.has_value() && c->syndrome == Syndrome::none && c->bytes == page);
  EQUAL(t.stat(num_page_faults), 1);
  EQUAL(std::memcmp(m.bytes(), t.own.data(), page), 0);
}

void an_atomic_faults_on_both_sides() {
  Bench t;
  Mapping far(page), near(page);
  uint32_t rkey = t.reg(far).rkey.value();
  uint32_t lkey = t.reg(near).lkey.value();
  uint64_t start = 40, old = 0;
  std::memcpy(far.bytes() + 8, &start, 8);
  Wqe w(Opcode::atomic_fa);
  w.raddr(far.at(8), rkey).atomic(2, 0).data(near.at(16), 8, lkey);
  EQUAL(t.rig.run_one(t.rig.a, w).syndrome, Syndrome::none);
  std::memcpy(&start, far.bytes() + 8, 8);
  std::memcpy(&old, near.bytes() + 16, 8);
  // The answer is in the host's order: requests of one word are not swapped.
  EQUAL(start, 42);
  CU_ASSERT(old == 40 || old == __builtin_bswap64(40));
  EQUAL(t.stat(num_page_faults), 2);
}

// At both ends; other operations of the same queue fault.
void an_atomic_does_not_fault_where_the_card_cannot() {
  for (const bool far_is_paged : {true, false}) {
    for (const bool advised : {false, true}) {
      RigShape shape;
      shape.profile = *find_profile("less-odp");
      Bench t(shape);
      Mapping m(2 * page);
      const MrKeys k = t.reg(m);
      EQUAL(t.write(m.at(page), k.rkey.value(), 8), Syndrome::none);
      EQUAL(t.stat(num_page_faults), 1);
      if (advised)
        EQUAL(t.advise(tpt::Paging::Advice::prefetch_write, true, m.at(), 8, k.lkey.value()), 0);
      const uint64_t far = far_is_paged ? m.at() : t.own.at(64);
      const uint64_t near = far_is_paged ? t.own.at(128) : m.at();
      Wqe w(Opcode::atomic_fa);
      w.raddr(far, (far_is_paged ? k : t.ko).rkey.value()).atomic(2, 0);
      w.data(near, 8, (far_is_paged ? t.ko : k).lkey.value());
      const Syndrome missing = far_is_paged ? Syndrome::remote_access : Syndrome::local_prot;
      EQUAL(t.rig.run_one(t.rig.a, w).syndrome, advised ? Syndrome::none : missing);
      EQUAL(t.stat(num_page_faults), 1);
    }
  }
}

void an_implicit_region_is_the_whole_address_space() {
  Bench t;
  MrSpec spec{t.rig.pd, Va{0}, UINT64_MAX, Iova{0}, odp_access};
  Result<MrKeys> k = hca::reg_mr(*t.rig.hca, spec);
  CU_ASSERT_FATAL(k.ok());
  Mapping m(3 * page);
  EQUAL(t.write(m.at(page), k->rkey.value(), page), Syndrome::none);
  EQUAL(std::memcmp(m.bytes() + page, t.own.data(), page), 0);
  EQUAL(t.stat(num_page_faults), 1);
  EQUAL(t.stat(num_odp_mr_pages), 1);
  EQUAL(hca::dereg_mr(*t.rig.hca, MkeyIndex{k->lkey.value() >> 8}), 0);
  EQUAL(t.stat(num_odp_mr_pages), 0);
  EQUAL(t.stat(num_odp_mrs), 0);
}

void memory_that_is_not_there_is_a_protection_error() {
  Bench t;
  Mapping m(2 * page);
  uint32_t key = t.reg(m).rkey.value();
  uint64_t at = m.at();
  m.unmap();
  EQUAL(t.write(at, key, 8), Syndrome::remote_access);
  EQUAL(t.stat(num_failed_resolutions), 1);
  EQUAL(t.stat(num_page_fault_pages), 0);
}

void the_requesters_missing_memory_is_its_own_protection_error() {
  Bench t;
  Mapping m(2 * page);
  MrKeys k = t.reg(m);
  uint64_t at = m.at();
  m.unmap();
  Wqe w(Opcode::rdma_write);
  w.raddr(t.own.at(0), t.ko.rkey.value()).data(at, 8, k.lkey.value());
  EQUAL(t.rig.run_one(t.rig.a, w).syndrome, Syndrome::local_prot);
}

void a_region_without_right_to_write_is_read_only() {
  Bench t;
  Mapping m(2 * page, MAP_PRIVATE | MAP_ANONYMOUS, -1, PROT_READ);
  uint32_t key = t.reg(m, read_only).rkey.value();
  EQUAL(t.read(m.at(), key, 16), Syndrome::none);
  EQUAL(t.stat(num_page_faults), 1);
  EQUAL(t.write(m.at(), key, 16), Syndrome::remote_access);
}

void a_writable_region_of_read_only_memory_cannot_be_resolved() {
  Bench t;
  Mapping m(2 * page, MAP_PRIVATE | MAP_ANONYMOUS, -1, PROT_READ);
  uint32_t key = t.reg(m).rkey.value();
  EQUAL(t.write(m.at(), key, 16), Syndrome::remote_access);
  EQUAL(t.stat(num_failed_resolutions), 1);
}

void protection_taken_away_is_noticed_by_the_copy() {
  Bench t;
  Mapping m(2 * page);
  uint32_t key = t.reg(m).rkey.value();
  EQUAL(t.write(m.at(), key, 16), Syndrome::none);
  ::mprotect(m.pointer(), page, PROT_NONE);
  EQUAL(t.write(m.at(), key, 16), Syndrome::remote_access);
  EQUAL(t.stat(num_invalidations), 1);
}

void an_adapter_without_paging_refuses() {
  RigShape shape;
  shape.profile = *find_profile("no-odp");
  Bench t(shape);
  Mapping m(page);
  MrSpec spec{t.rig.pd, Va{m.at()}, page, Iova{m.at()}, odp_access};
  CU_ASSERT(!hca::reg_mr(*t.rig.hca, spec).ok());
  EQUAL(t.advise(tpt::Paging::Advice::prefetch, true, m.at(), page, t.ko.lkey.value()),
        -EOPNOTSUPP);
}

void a_list_of_pieces_reaches_paged_memory() {
  Bench t;
  Mapping m(4 * page);
  uint32_t inner = t.reg(m).lkey.value();
  uint32_t key = t.rig.make_key(4);
  std::array<prm::Klm, 2> list = {klm(m.at(3 * page), 100, inner), klm(m.at(), 100, inner)};
  UmrShape shape;
  shape.len = 200;
  EQUAL(t.rig.run_one(t.rig.a, umr_wqe(key, shape, list)).syndrome, Syndrome::none);
  EQUAL(t.write(0, key, 200), Syndrome::none);
  EQUAL(std::memcmp(m.bytes() + 3 * page, t.own.data(), 100), 0);
  EQUAL(std::memcmp(m.bytes(), t.own.data() + 100, 100), 0);
  EQUAL(t.stat(num_page_faults), 2);
}

void an_unreliable_connection_does_not_fault() {
  RigShape shape;
  shape.a.type = shape.b.type = QpType::uc;
  shape.connect = false;
  Bench t(shape);
  // Without a pair of such queues here: the piece is asked for as they ask.
  Mapping m(page);
  uint32_t key = t.reg(m).lkey.value();
  tpt::Segment s{m.at(), 8, key, false};
  std::byte to[8];
  const tpt::Translator& tr = t.rig.hca->context.translator;
  tpt::Access need{t.rig.pd, prm::mkey::any_qpn, prm::mkey::local_read};
  EQUAL(tpt::gather_bytes(tr, {{&s, 1}, need}, to, 8).source, tpt::protection::gone);
  EQUAL(t.advise(tpt::Paging::Advice::prefetch, true, m.at(), 8, key), 0);
  CU_ASSERT(tpt::gather_bytes(tr, {{&s, 1}, need}, to, 8).ok());
}

void a_region_registered_anew_has_an_empty_table() {
  Bench t;
  Mapping m(2 * page), n(2 * page);
  MrKeys k = t.reg(m);
  EQUAL(t.write(m.at(), k.rkey.value(), 2 * page), Syndrome::none);
  MrSpec spec{t.rig.pd, Va{n.at()}, 2 * page, Iova{n.at()}, odp_access};
  EQUAL(hca::rereg_mr(*t.rig.hca, MkeyIndex{k.lkey.value() >> 8}, spec), 0);
  EQUAL(t.stat(num_odp_mrs), 1);
  EQUAL(t.stat(num_odp_mr_pages), 0);
  EQUAL(t.write(n.at(), k.rkey.value(), page), Syndrome::none);
  EQUAL(t.stat(num_page_faults), 2);
  EQUAL(n.bytes()[0], 1);
}

const kilim::test::Case cases[] = {
    {"a first access faults and completes", a_first_access_faults_and_completes},
    {"the requester's own memory faults too", the_requesters_own_memory_faults_too},
    {"a receive buffer faults", a_receive_buffer_faults},
    {"an atomic faults on both sides", an_atomic_faults_on_both_sides},
    {"an atomic does not fault where the card cannot",
     an_atomic_does_not_fault_where_the_card_cannot},
    {"an implicit region is the whole address space",
     an_implicit_region_is_the_whole_address_space},
    {"memory that is not there is a protection error",
     memory_that_is_not_there_is_a_protection_error},
    {"the requester's missing memory is its own protection error",
     the_requesters_missing_memory_is_its_own_protection_error},
    {"a region without right to write is read-only", a_region_without_right_to_write_is_read_only},
    {"a writable region of read-only memory cannot be resolved",
     a_writable_region_of_read_only_memory_cannot_be_resolved},
    {"protection taken away is noticed by the copy", protection_taken_away_is_noticed_by_the_copy},
    {"an adapter without paging refuses", an_adapter_without_paging_refuses},
    {"a list of pieces reaches paged memory", a_list_of_pieces_reaches_paged_memory},
    {"an unreliable connection does not fault", an_unreliable_connection_does_not_fault},
    {"a region registered anew has an empty table", a_region_registered_anew_has_an_empty_table},
};

}  // namespace
}  // namespace paging_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(paging, kilim::vhca::test::paging_ut::cases)
