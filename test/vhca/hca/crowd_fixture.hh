// SPDX-License-Identifier: BSD-3-Clause
// Many queues of one UAR page: send queues that do nothing but NOPs, and completion queues to be
// armed. Rings and records lie side by side in two pieces of memory. Owner: one test case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kilim/detail/base/mmio.hh"
#include "kilim/prm/doorbell.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {

class Crowd {
 public:
  Crowd(std::size_t queues, std::size_t cqs)
      : rings_(queues * ring_bytes + 64),
        records_((queues + cqs + 1) * 8),
        cq_memory_(cq_entries * 64),
        posted_(queues),
        arms_(cqs) {
    for (std::size_t i = 0; i < queues; i++) add_queue();
    for (std::size_t i = 0; i < cqs; i++) add_cq();
  }

  // A NOP without a completion stands in the ring, and in the record.
  void post(std::size_t i) {
    prm::CtrlSeg ctrl{};
    ctrl.opmod_idx_opcode = be32{prm::ctrl::opcode::at(static_cast<uint8_t>(Opcode::nop))};
    prm::ctrl::wqe_index::set(ctrl, posted_[i]);
    ctrl.qpn_ds = be32{prm::ctrl::qpn::at(qpns[i].value()) | prm::ctrl::ds::at(1u)};
    std::byte* at = rings_.data() + i * ring_bytes + std::size_t{posted_[i]} % wqebbs * 64;
    std::memcpy(at, &ctrl, sizeof(ctrl));
    posted_[i]++;
    record_store(record_of(i) + 1, be32{posted_[i]});
  }
  // What an allocator may leave in a record that nobody has written.
  void leave_garbage(std::size_t i) { record_store(record_of(i) + 1, be32{0x3e3e3e3e}); }
  // Stored into the `word`-th half register, over whatever stands there.
  void ring(std::size_t i, std::size_t word = 0) { ring_number(qpns[i].value(), word); }
  void ring_number(uint32_t qpn, std::size_t word = 0) {
    mmio_store(rig.uar + prm::uar::blueflame + word * prm::uar::blueflame_bytes,
               be64{uint64_t{qpn} << 8 | 1});
  }
  [[nodiscard]] bool done(std::size_t i) {
    return rig.hca->qps.at(qpns[i].value())->sq.ci == posted_[i];
  }
  // Asks for an event with the next entry.
  void arm(std::size_t i) {
    const uint32_t word = ++arms_[i] << prm::arm::sn_shift;
    record_store(record_of(posted_.size() + i) + 1, be32{word});
    mmio_store(rig.uar + prm::uar::cq_doorbell, be64{uint64_t{word} << 32 | cqns[i].value()});
  }
  [[nodiscard]] bool armed(std::size_t i) { return rig.hca->cqs.at(cqns[i].value())->armed; }
  std::size_t turn() { return rig.hca->run(); }

  static constexpr uint32_t wqebbs = 4, ring_bytes = wqebbs * 64, cq_entries = 8;
  Rig rig;
  std::vector<Qpn> qpns;
  std::vector<Cqn> cqns;

 private:
  be32* record_of(std::size_t place) {
    return reinterpret_cast<be32*>(records_.data() + place * 8);
  }
  void add_queue() {
    const std::size_t i = qpns.size();
    QpSpec spec;
    spec.pd = rig.pd;
    spec.send_cq = spec.recv_cq = rig.cq_a.cqn;
    spec.buf = Va{rings_.at(i * ring_bytes)};
    spec.record = Va{records_.at(i * 8)};
    spec.sq_wqebbs = wqebbs;
    spec.uar_page = rig.uar_page;
    const Result<Qpn> made = hca::create_qp(*rig.hca, spec, &rig.events);
    if (!made) std::abort();
    qpns.push_back(*made);
    rig.hca->qps.at(made->value())->state = QpState::rts;
  }
  void add_cq() {
    CqSpec spec;
    spec.buf = cq_memory_.va();
    spec.record = Va{records_.at((posted_.size() + cqns.size()) * 8)};
    spec.cqe_count = cq_entries;
    spec.uar_page = rig.uar_page;
    const Result<Cqn> made = hca::create_cq(*rig.hca, spec, &rig.events);
    if (!made) std::abort();
    cqns.push_back(*made);
  }

  Pages rings_, records_, cq_memory_;
  std::vector<uint16_t> posted_;
  std::vector<uint32_t> arms_;
};

}  // namespace kilim::vhca::test
