// SPDX-License-Identifier: BSD-3-Clause
// For tests: a shared receive queue of an adapter, its WQEs linked in the order of their places.
// Owner: one test case, one thread.
#pragma once

#include <cstring>
#include <optional>

#include "kilim/detail/base/mmio.hh"
#include "kilim/prm/av_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {

// A shared receive queue with a completion queue of its own; with a domain: an XRC queue.
struct SharedQueue {
  static constexpr uint32_t wqes = 16, stride = 32;
  explicit SharedQueue(Rig& rig, std::optional<uint32_t> xrcd = {}, uint32_t cqe_bytes = 64)
      : ring(wqes * stride), record(64), cq(64, cqe_bytes), rig_(rig) {
    CqSpec c;
    c.buf = cq.memory.va();
    c.record = cq.record.va();
    c.cqe_count = cq.entries;
    c.cqe_bytes = cqe_bytes;
    c.uar_page = rig.uar_page;
    cq.cqn = *hca::create_cq(*rig.hca, c, &rig.events);
    SrqSpec s;
    s.pd = rig.pd;
    s.buf = ring.va();
    s.record = record.va();
    s.wqes = wqes;
    s.wqe_shift = 5;
    s.xrc = xrcd.has_value();
    s.xrcd = xrcd.value_or(0);
    s.cq = cq.cqn;
    s.uidx = 0x77;
    srqn = *hca::create_srq(*rig.hca, s, &rig.events);
  }
  void recv(uint64_t addr, uint32_t bytes, uint32_t lkey) {
    std::byte* at = ring.data() + std::size_t{head % wqes} * stride;
    prm::SrqNextSeg link{};
    link.next_wqe_index = be16{static_cast<uint16_t>((head + 1) % wqes)};
    prm::DataSeg data{be32{bytes}, be32{lkey}, be64{addr}};
    std::memcpy(at, &link, sizeof(link));
    std::memcpy(at + sizeof(link), &data, sizeof(data));
    record_store(reinterpret_cast<be32*>(record.data()), be32{++head});
  }
  int destroy() { return hca::destroy_srq(*rig_.hca, srqn); }
  Pages ring, record;
  TestCq cq;
  uint32_t head = 0;
  uint32_t srqn = 0;

 private:
  Rig& rig_;
};

}  // namespace kilim::vhca::test
