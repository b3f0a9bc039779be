// SPDX-License-Identifier: BSD-3-Clause
// Queues over arrays and the few bytes that a device would write into them. Test only, one thread.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "kilim/detail/burst/rx.hh"
#include "kilim/detail/burst/tx.hh"

namespace kilim::test {

struct CqMemory {
  static constexpr uint32_t count = 64;
  alignas(64) std::array<prm::Cqe, 2 * count> cqes{};
  uint32_t entry_bytes = 64;  // or 128, of which the last 64 are the CQE
  be32 record{0};
  uint32_t produced = 0;

  CqMemory() {
    for (prm::Cqe& e : cqes) e.op_own = prm::cqe::invalid_op_own;
  }
  queue::CqGeometry geometry() {
    return {reinterpret_cast<std::byte*>(cqes.data()), count, entry_bytes, &record, Cqn{1}};
  }
  // The device's hand: the fields of a good completion.
  prm::Cqe& write(prm::CqeOpcode op, uint16_t wqe_counter, uint32_t bytes = 0) {
    prm::Cqe& e = cqes[(produced % count + 1) * (entry_bytes / 64) - 1];
    e = {};
    e.wqe_counter = be16{wqe_counter};
    e.byte_cnt = be32{bytes};
    e.op_own = prm::cqe::op_own(op, false, (produced / count & 1) != 0);
    // The other half is data of the device's (PRM: "Scatter to CQE"), here what looks like a CQE.
    if (entry_bytes != 64) (&e)[-1] = e;
    produced++;
    return e;
  }
  void write_error(prm::CqeOpcode op, uint16_t wqe_counter, prm::Syndrome s) {
    auto& e = reinterpret_cast<prm::ErrCqe&>(write(op, wqe_counter));
    e.syndrome = static_cast<uint8_t>(s);
  }
};

struct RxMemory {
  static constexpr uint32_t wqes = 32;
  alignas(64) std::array<prm::DataSeg, wqes> ring{};
  be32 record{0};
  std::array<uint64_t, wqes> ids{};
  std::array<uint32_t, wqes> indices{};
  CqMemory cq;
  queue::RqGeometry geometry() {
    return {reinterpret_cast<std::byte*>(ring.data()), wqes, 16, &record};
  }
};

struct TxMemory {
  static constexpr uint32_t blocks = 64;
  struct alignas(64) Block {
    std::array<std::byte, 64> b;
  };
  std::array<Block, blocks> ring{};
  be32 record{0};
  uint64_t doorbell = 0;
  std::array<uint64_t, blocks> ids{};
  std::array<pool::Handle, 4 * blocks> handles{};
  std::array<burst::SentRing::Burst, blocks> bursts{};
  CqMemory cq;
  queue::SqGeometry geometry() {
    return {reinterpret_cast<std::byte*>(ring.data()), blocks, &record,
            reinterpret_cast<std::byte*>(&doorbell), Qpn{0x123}};
  }
  prm::CtrlSeg& ctrl(uint32_t block) {
    return reinterpret_cast<prm::CtrlSeg&>(ring[block % blocks]);
  }
  prm::DataSeg& data(uint32_t block, uint32_t i = 0) {
    auto* bytes =
        reinterpret_cast<std::byte*>(ring.data()) + (block * 64 + 32 + i * 16) % (64 * blocks);
    return *reinterpret_cast<prm::DataSeg*>(bytes);
  }
};

}  // namespace kilim::test
