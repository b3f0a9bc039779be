// SPDX-License-Identifier: BSD-3-Clause
// Nic: the device's side of one receive and one send queue of raw packets, over queue memory of any
// owner: it fills posted receives with packets of one size and completes what was sent. It reads
// and writes what a card does: doorbell records, WQEs, CQEs; so that each driver's queues get the
// same. One thread; its work lies outside of what is measured.
#pragma once

#include <cstdint>

#include "kilim/prm/cqe.hh"
#include "kilim/queue.hh"

namespace kilim::race {

struct Rings {
  queue::RqGeometry rq;
  queue::CqGeometry rx_cq;
  queue::SqGeometry sq;
  queue::CqGeometry tx_cq;
};

class Nic {
 public:
  explicit Nic(const Rings& rings) noexcept : rings_(rings) {}
  // Completes what a doorbell record announced, then receives: TCP over IPv4 with a hash and good
  // checksums. Returns how many packets found a receive.
  uint32_t turn(uint32_t packets, uint32_t bytes) noexcept;
  // Packets of the last turn's WQEs: an enhanced multi-packet WQE has one in each data segment.
  [[nodiscard]] uint32_t sent() const noexcept { return sent_; }

 private:
  prm::Cqe& next(const queue::CqGeometry& cq, uint32_t& produced, prm::CqeOpcode op,
                 uint32_t wqe) noexcept;
  void complete_sent() noexcept;

  Rings rings_;
  uint32_t filled_ = 0, received_ = 0;      // receives, CQEs of them
  uint32_t completed_ = 0, signalled_ = 0;  // WQEBBs, CQEs of sends
  uint32_t sent_ = 0;
};

}  // namespace kilim::race
