// SPDX-License-Identifier: BSD-3-Clause
// On-demand paging behind a wire: both ends' memory comes page by page, or is not there; the
// responder answers a fault with an RNR NAK; a bad wire changes nothing.
#include <vector>

#include <sys/mman.h>

#include "ut.hh"
#include "vhca/hca/state.hh"
#include "wire_rig.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

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
  return r.hca->state().paging.stats().read(OdpCounter::num_page_faults);
}
Syndrome outcome(const std::optional<Completion>& c) {
  return c.has_value() ? c->syndrome : Syndrome::remote_aborted;
}

void every_operation_faults_at_both_ends(const std::string& more) {
  WireRig w({.left_wire = more, .right_wire = more, .mtu = 5});
  Sides s(w);
  s.fill(s.near, 7);
  CU_ASSERT(outcome(w.post(s.rdma(Opcode::rdma_write, 100, 20000))) == Syndrome::none);
  CU_ASSERT(s.same(100, 20000) && faults(w.left) >= 1 && faults(w.right) >= 1);

  s.fill(s.far, 11);
  ::madvise(s.near.data(), area, MADV_DONTNEED);
  ::madvise(s.far.data() + 8192, 4096, MADV_DONTNEED);
  uint64_t near_before = faults(w.left), far_before = faults(w.right);
  CU_ASSERT(outcome(w.post(s.rdma(Opcode::rdma_read, 100, 20000))) == Syndrome::none);
  CU_ASSERT(s.same(100, 20000) && s.near.data()[101] != std::byte{0});
  CU_ASSERT(faults(w.left) > near_before && faults(w.right) > far_before);

  ::madvise(s.far.data(), area, MADV_DONTNEED);
  far_before = faults(w.right);
  w.right.a.recv(s.far.at(0), 30000, s.far_key.lkey.value());
  Wqe send(Opcode::send);
  send.data(s.near.at(0), 30000, s.near_key.lkey.value());
  CU_ASSERT(outcome(w.post(send)) == Syndrome::none);
  CU_ASSERT(s.same(0, 30000) && faults(w.right) > far_before);

  ::madvise(s.far.data(), 4096, MADV_DONTNEED);
  far_before = faults(w.right);
  Wqe atomic(Opcode::atomic_fa);
  atomic.raddr(s.far.at(8), s.far_key.rkey.value())
      .atomic(5, 0)
      .data(s.near.at(40960), 8, s.near_key.lkey.value());
  CU_ASSERT(outcome(w.post(atomic)) == Syndrome::none);
  CU_ASSERT(s.far.data()[8] == std::byte{5} && faults(w.right) > far_before);
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
  CU_ASSERT(outcome(w.post(s.rdma(Opcode::rdma_write, 0, 8))) == Syndrome::rnr_retry_exc);
  CU_ASSERT(faults(w.right) == 1);
}

void far_memory_that_is_gone_is_refused() {
  WireRig w;
  Sides s(w);
  s.far.unmap();
  CU_ASSERT(outcome(w.post(s.rdma(Opcode::rdma_write, 0, 5000))) == Syndrome::remote_access);
}

void own_memory_that_is_gone_is_a_protection_error() {
  WireRig w;
  Sides s(w);
  s.near.unmap();
  CU_ASSERT(outcome(w.post(s.rdma(Opcode::rdma_write, 0, 5000))) == Syndrome::local_prot);
}

const Case cases[] = {
    {"every operation faults at both ends of a wire", on_a_good_wire},
    {"every operation faults at both ends of a bad wire", on_a_bad_wire},
    {"a fault at the responder is an RNR NAK", a_fault_is_an_rnr_nak},
    {"far memory that is gone is refused", far_memory_that_is_gone_is_refused},
    {"own memory that is gone is a protection error",
     own_memory_that_is_gone_is_a_protection_error},
};

}  // namespace

KILIM_UT_MAIN("paged_wire", cases)
