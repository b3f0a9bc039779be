// SPDX-License-Identifier: BSD-3-Clause
// On-demand paging behind a wire: both ends' memory comes page by page, or is not there; the
// responder answers a fault with an RNR NAK; a bad wire changes nothing.
#include <vector>

#include <sys/mman.h>

#include "ut.hh"
#include "vhca/hca/hca.hh"
#include "vhca/transport/requester.hh"
#include "wire_fixture.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace paged_wire_ut {
namespace {

constexpr uint32_t odp = rw_access | access::on_demand;
constexpr std::size_t area = 64 * 4096;

struct Sides {
  Pages near{area}, far{area};
  MrKeys near_key, far_key;
  explicit Sides(WireRig& w) : near_key(w.left.reg(near, odp)), far_key(w.right.reg(far, odp)) {}
  void fill(Pages& p, unsigned by) {
    for (std::size_t i = 0; i < area; i++) p.data()[i] = static_cast<std::byte>(i * by + i / 4096);
  }
  Wqe rdma(Opcode op, std::size_t at, uint32_t n) const {
    return Wqe(op)
        .raddr(far.at(at), far_key.rkey.value())
        .data(near.at(at), n, near_key.lkey.value());
  }
  [[nodiscard]] bool same(std::size_t at, std::size_t n) const {
    return std::memcmp(near.data() + at, far.data() + at, n) == 0;
  }
};

uint64_t faults(Rig& r) {
  return r.hca->paging.stats().read(tpt::OdpCounter::num_page_faults);
}
Syndrome outcome(const std::optional<Completion>& c) {
  return c.has_value() ? c->syndrome : Syndrome::remote_aborted;
}

void an_atomic_faults(WireRig& w, Sides& s) {
  ::madvise(s.far.data(), 4096, MADV_DONTNEED);
  const uint64_t far_before = faults(w.right);
  Wqe atomic(Opcode::atomic_fa);
  atomic.raddr(s.far.at(8), s.far_key.rkey.value())
      .atomic(5, 0)
      .data(s.near.at(40960), 8, s.near_key.lkey.value());
  EQUAL(outcome(w.post(atomic)), Syndrome::none);
  EQUAL(s.far.data()[8], std::byte{5});
  CU_ASSERT(faults(w.right) > far_before);
}

void every_operation_faults_at_both_ends(const std::string& more) {
  WireRig w({.left_wire = more, .right_wire = more, .mtu = 5});
  Sides s(w);
  s.fill(s.near, 7);
  EQUAL(outcome(w.post(s.rdma(Opcode::rdma_write, 100, 20000))), Syndrome::none);
  CU_ASSERT(s.same(100, 20000));
  CU_ASSERT(faults(w.left) >= 1);
  CU_ASSERT(faults(w.right) >= 1);

  s.fill(s.far, 11);
  ::madvise(s.near.data(), area, MADV_DONTNEED);
  ::madvise(s.far.data() + 8192, 4096, MADV_DONTNEED);
  uint64_t near_before = faults(w.left), far_before = faults(w.right);
  EQUAL(outcome(w.post(s.rdma(Opcode::rdma_read, 100, 20000))), Syndrome::none);
  CU_ASSERT(s.same(100, 20000));
  CU_ASSERT(s.near.data()[101] != std::byte{0});
  CU_ASSERT(faults(w.left) > near_before);
  CU_ASSERT(faults(w.right) > far_before);

  ::madvise(s.far.data(), area, MADV_DONTNEED);
  far_before = faults(w.right);
  w.right.a.recv(s.far.at(0), 30000, s.far_key.lkey.value());
  Wqe send(Opcode::send);
  send.data(s.near.at(0), 30000, s.near_key.lkey.value());
  EQUAL(outcome(w.post(send)), Syndrome::none);
  CU_ASSERT(s.same(0, 30000));
  CU_ASSERT(faults(w.right) > far_before);

  an_atomic_faults(w, s);
}

void on_a_good_wire() {
  every_operation_faults_at_both_ends("");
}

void on_a_bad_wire() {
  every_operation_faults_at_both_ends("+fault:drop:0.1:dup:0.1:reorder:0.1:corrupt:0:seed:3");
}

// A requester that bears no RNR NAK hears of the responder's fault.
void a_fault_is_an_rnr_nak() {
  WireRig w({.rnr_retry = 0});
  Sides s(w);
  s.fill(s.near, 3);
  EQUAL(outcome(w.post(s.rdma(Opcode::rdma_write, 0, 8))), Syndrome::rnr_retry_exc);
  EQUAL(faults(w.right), 1);
}

void far_memory_that_is_gone_is_refused() {
  WireRig w;
  Sides s(w);
  s.far.unmap();
  EQUAL(outcome(w.post(s.rdma(Opcode::rdma_write, 0, 5000))), Syndrome::remote_access);
}

void own_memory_that_is_gone_is_a_protection_error() {
  WireRig w;
  Sides s(w);
  s.near.unmap();
  EQUAL(outcome(w.post(s.rdma(Opcode::rdma_write, 0, 5000))), Syndrome::local_prot);
}

// A key over the left side's memory whose pages the kernel's fault handler does not find: within a
// repetition it takes the head for a pinned piece.
uint32_t strided_key(WireRig& w, Sides& s) {
  prm::Mkc c{};
  c.flags = be32{prm::mkc::local_read::at(1u) |
                 prm::mkc::access_mode_1_0::at(uint32_t{prm::mkc::access_mode_klm})};
  c.qpn_mkey = be32{0xffffff00u};
  c.flags_pd = be32{w.left.pd.value()};
  c.len = be64{256};
  c.translations_octword_size = be32{4};
  const std::vector<prm::Klm> blocks = {
      repeat_head(64, 4, 1), repeat_entry(4096, 64, s.near_key.lkey.value(), s.near.at(0))};
  Result<tpt::Mkey*> made =
      w.left.hca->keys.create_mkey(c, std::as_bytes(std::span(blocks)), w.left.hca->config.profile);
  return made ? (*made)->key : 0;
}

wq::Qp& requester_of(WireRig& w) {
  return *w.left.hca->qps.at(w.left.a.qpn.value());
}

// The last looks of the many that a queue takes: all of them last a second.
void a_page_that_is_never_found_is_a_protection_error() {
  for (const char* order : {"strict", "weak"}) {
    WireRig w({.order = order_of(order)});
    Sides s(w);
    Wqe write(Opcode::rdma_write);
    write.raddr(s.far.at(0), s.far_key.rkey.value()).data(0, 64, strided_key(w, s));
    requester_of(w).stalls = transport::most_stalls - 3;
    EQUAL(outcome(w.post(write)), Syndrome::local_prot);
    EQUAL(requester_of(w).stalls, 0);
    EQUAL(faults(w.left), 0);
  }
}

void a_reset_forgets_how_long_a_queue_waited() {
  const LinkShape shape;
  WireRig w(shape);
  requester_of(w).stalls = transport::most_stalls;
  QpAttr reset;
  reset.state = QpState::reset;
  EQUAL(hca::modify_qp(*w.left.hca, w.left.a.qpn, reset, qp_mask::state), 0);
  EQUAL(requester_of(w).stalls, 0);
  WireRig::connect(w.left, {w.left.a, w.right.a.qpn, QpType::rc}, right_mac, shape, shape.left_psn,
                   shape.right_psn);
  Sides s(w);
  EQUAL(outcome(w.post(s.rdma(Opcode::rdma_write, 0, 5000))), Syndrome::none);
  CU_ASSERT(faults(w.left) > 0);
  EQUAL(requester_of(w).stalls, 0);
}

const Case cases[] = {
    {"every operation faults at both ends of a wire", on_a_good_wire},
    {"every operation faults at both ends of a bad wire", on_a_bad_wire},
    {"a fault at the responder is an RNR NAK", a_fault_is_an_rnr_nak},
    {"far memory that is gone is refused", far_memory_that_is_gone_is_refused},
    {"own memory that is gone is a protection error",
     own_memory_that_is_gone_is_a_protection_error},
    {"a page that is never found is a protection error",
     a_page_that_is_never_found_is_a_protection_error},
    {"a reset forgets how long a queue waited", a_reset_forgets_how_long_a_queue_waited},
};

}  // namespace
}  // namespace paged_wire_ut

KILIM_TEST_SUITE(paged_wire, paged_wire_ut::cases)
