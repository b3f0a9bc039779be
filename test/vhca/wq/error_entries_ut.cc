// SPDX-License-Identifier: BSD-3-Clause
// Error entries byte by byte, as public dumps of cards have them (Linux dump_cqe(), libmlx5,
// DPDK): bytes 48 to 56 and the last without the owner bit. What is between is the queue's own
// number, the WQE's and the signature, of which nobody has told how it is made.
#include <algorithm>
#include <vector>

#include "ut.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {
namespace error_entries_ut {
namespace {

struct Bench {
  Bench() : keys(rig.reg(memory, rw_access)), read_only(rig.reg(memory, access::remote_read)) {
    const MrSpec other{*hca::alloc_pd(*rig.hca), memory.va(), memory.size(), Iova{memory.at(0)},
                       rw_access};
    foreign = *hca::reg_mr(*rig.hca, other);
  }
  // A request with memory of `key`; a remote address where the opcode has one.
  Wqe from(Opcode op, uint32_t key, uint64_t at = 0, uint32_t bytes = 64) {
    Wqe w(op);
    if (op != Opcode::send) w.raddr(memory.at(4096), keys.rkey.value());
    w.data(memory.at(at), bytes, key);
    return w;
  }
  Wqe to(Opcode op, uint32_t rkey) {
    Wqe w(op);
    w.raddr(memory.at(4096), rkey).data(memory.at(0), 64, keys.lkey.value());
    return w;
  }
  // A receive into memory of `key`, and what is sent there.
  Wqe received(uint32_t key, Pages* target = nullptr) {
    rig.b.recv(target != nullptr ? target->at(0) : memory.at(0), 64, key);
    return from(Opcode::send, keys.lkey.value());
  }
  Pages memory{8192}, gone{4096};
  Rig rig;
  MrKeys keys, read_only, foreign{};
};

constexpr uint32_t no_key = 0x12345678;

Wqe into_gone(Bench& t) {
  const MrKeys keys = t.rig.reg(t.gone, rw_access);
  t.gone.unmap();
  heard_of_memory();
  return t.received(keys.lkey.value(), &t.gone);
}

Wqe umr_of(Bench& t, std::size_t entries, uint16_t offset) {
  const std::vector<prm::Klm> list(entries, klm(t.memory.at(0), 64, t.keys.lkey.value()));
  UmrShape shape;
  if (offset != 0) shape.flags |= prm::umr::has_translation_offset;
  shape.offset = offset;
  return umr_wqe(t.rig.make_key(4), shape, list);
}

struct Dump {
  const char* what;  // and whose dump
  Wqe (*make)(Bench&);
  bool receive;                 // the entry is the receiver's
  std::array<uint8_t, 9> from;  // bytes 48 to 56
  uint8_t last;                 // without the owner bit
};

// clang-format off
const Dump dumps[] = {
    // Dumped whole.
    {"READ, remote access (ofiwg/libfabric 4283)", [](Bench& t) { return t.to(Opcode::rdma_read, no_key); }, false, {0, 0, 0, 0, 0, 0, 0x88, 0x13, 0x10}, 0xd2},
    {"WRITE, remote access (Linux, SMC and NFS lists)", [](Bench& t) { return t.to(Opcode::rdma_write, no_key); }, false, {0, 0, 0, 0, 0, 0, 0x88, 0x13, 0x08}, 0xd2},
    {"SEND, no receive", [](Bench& t) { return t.from(Opcode::send, t.keys.lkey.value()); }, false, {0, 0, 0, 0, 0, 0, 0x87, 0x16, 0x0a}, 0xd2},
    {"SEND, key of another domain (spdk/spdk 961)", [](Bench& t) { return t.from(Opcode::send, t.foreign.lkey.value()); }, false, {0, 0, 0, 0, 0x93, 0, 0x52, 0x04, 0x0a}, 0xd2},
    {"SEND, beyond the region (Juniper/warp17 81)", [](Bench& t) { return t.from(Opcode::send, t.keys.lkey.value(), 8190); }, false, {0, 0, 0, 0, 0x9d, 0, 0x53, 0x04, 0x0a}, 0xd2},
    {"UMR of no key (Linux, RDMA/mlx5)", [](Bench&) { return umr_wqe(0x123400, {}, {}); }, false, {0, 0, 0, 0, 0x08, 0, 0x78, 0x06, 0x25}, 0xd2},
    {"UMR, a list longer than its key (Linux, RDMA/mlx5)", [](Bench& t) { return umr_of(t, 8, 0); }, false, {0, 0, 0, 0, 0x0f, 0, 0x78, 0x06, 0x25}, 0xd2},
    {"UMR, a list that is not aligned (Linux, net/mlx5e)", [](Bench& t) { return umr_of(t, 4, 1); }, false, {0, 0, 0, 0, 0x86, 0, 0x68, 0x02, 0x25}, 0xd2},
    {"receive into memory that refuses it (Linux, NVMe-oF)", into_gone, true, {0, 0, 0, 0, 0xa9, 0, 0x56, 0x04, 0}, 0xe2},
    // Told in words or in part.
    {"SEND, unknown key (openucx/ucx 6414)", [](Bench& t) { return t.from(Opcode::send, no_key); }, false, {0, 0, 0, 0, 0x92, 0, 0x52, 0x04, 0x0a}, 0xd2},
    {"WRITE, unknown key", [](Bench& t) { return t.from(Opcode::rdma_write, no_key); }, false, {0, 0, 0, 0, 0x92, 0, 0x52, 0x04, 0x08}, 0xd2},
    {"WRITE, longer than its region", [](Bench& t) { return t.from(Opcode::rdma_write, t.keys.lkey.value(), 8190); }, false, {0, 0, 0, 0, 0x9d, 0, 0x53, 0x04, 0x08}, 0xd2},
    {"READ into memory without LOCAL_WRITE", [](Bench& t) { return t.from(Opcode::rdma_read, t.read_only.lkey.value()); }, false, {0, 0, 0, 0, 0x9d, 0, 0x33, 0x04, 0x10}, 0xd2},
    {"receive, unknown key (openucx/ucx 7801)", [](Bench& t) { return t.received(no_key); }, true, {0, 0, 0, 0, 0x92, 0, 0x32, 0x04, 0}, 0xe2},
    {"receive, key of another domain", [](Bench& t) { return t.received(t.foreign.lkey.value()); }, true, {0, 0, 0, 0, 0x93, 0, 0x32, 0x04, 0}, 0xe2},
    {"SEND, remote operation (openucx/ucx 5472)", [](Bench& t) { return t.received(no_key); }, false, {0, 0, 0, 0, 0, 0, 0x89, 0x14, 0x0a}, 0xd2},
};
// clang-format on

// The entry at a place of the queue's ring.
std::array<uint8_t, 64> entry(const TestCq& cq, uint32_t place) {
  std::array<uint8_t, 64> e;
  std::memcpy(e.data(), cq.memory.data() + (place & (cq.entries - 1)) * cq.entry_bytes, e.size());
  return e;
}

void each_entry_is_as_cards_write_it() {
  for (const Dump& d : dumps) {
    Bench t;
    t.rig.a.put(d.make(t));
    t.rig.a.ring(t.rig.uar);
    const bool sent = t.rig.wait(t.rig.cq_a).has_value();
    const bool received = !d.receive || t.rig.cq_b.poll().has_value();
    CU_ASSERT(sent);
    CU_ASSERT(received);
    const std::array<uint8_t, 64> e = entry(d.receive ? t.rig.cq_b : t.rig.cq_a, 0);
    const bool same = std::equal(d.from.begin(), d.from.end(), e.begin() + 48) &&
                      (e[63] & ~prm::cqe::owner_bit) == d.last;
    if (!same)
      std::printf("\n    %s: %02x%02x%02x%02x %02x, last %02x\n", d.what, e[52], e[53], e[54],
                  e[55], e[56], e[63]);
    CU_ASSERT(same);
  }
}

// unionxic/rdma-fault-characterization: of a queue that software moves to ERR the first entry, and
// what stands behind any first one.
void a_flush_says_what_it_stands_behind() {
  for (const bool moved : {true, false}) {
    Bench t;
    const Wqe first =
        moved ? t.from(Opcode::send, t.keys.lkey.value()) : t.from(Opcode::send, no_key);
    if (moved) EQUAL(t.rig.to_state(t.rig.a, QpState::sqd), 0);
    t.rig.a.put(first);
    t.rig.a.put(t.from(Opcode::send, t.keys.lkey.value()));
    t.rig.a.ring(t.rig.uar);
    t.rig.run();
    if (moved) EQUAL(t.rig.to_state(t.rig.a, QpState::err), 0);
    t.rig.run();
    EQUAL(entry(t.rig.cq_a, 0)[54], moved ? 0xf5 : 0x52);
    EQUAL(entry(t.rig.cq_a, 1)[54], 0xf9);
    EQUAL(entry(t.rig.cq_a, 1)[55], static_cast<uint8_t>(Syndrome::wr_flush));
  }
}

const kilim::test::Case cases[] = {
    {"each entry is as cards write it", each_entry_is_as_cards_write_it},
    {"a flush says what it stands behind", a_flush_says_what_it_stands_behind},
};

}  // namespace
}  // namespace error_entries_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(error_entries, kilim::vhca::test::error_entries_ut::cases)
