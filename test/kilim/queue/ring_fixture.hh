// SPDX-License-Identifier: BSD-3-Clause
// Queue geometries over arrays: what a device would give, without one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kilim/detail/queue/geometry.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/syndrome.hh"

namespace kilim::test {

template <uint32_t Wqebbs>
struct SqRing {
  alignas(64) std::array<std::byte, Wqebbs * 64> memory;
  std::array<uint64_t, Wqebbs> wr_ids{};
  be32 record{0};
  alignas(8) std::array<std::byte, 8> doorbell{};
  Qpn qpn{0xabcdef};

  SqRing() { memory.fill(std::byte{0xee}); }
  queue::SqGeometry geometry() {
    return {.buf = memory.data(),
            .wqebb_count = Wqebbs,
            .record = &record,
            .doorbell = doorbell.data(),
            .qpn = qpn};
  }
  // Bytes of block `i` of the ring.
  const uint8_t* block(uint32_t i) const {
    return reinterpret_cast<const uint8_t*>(memory.data()) + i * 64;
  }
  bool block_is(uint32_t i, const uint8_t (&bytes)[64]) const {
    return std::memcmp(block(i), bytes, 64) == 0;
  }
};

template <uint32_t Count, uint32_t CqeBytes = 64>
struct CqRing {
  alignas(64) std::array<std::byte, Count * CqeBytes> memory{};
  be32 record{0};
  uint32_t written = 0;

  CqRing() {
    for (uint32_t i = 0; i < Count; i++) slot(i)->op_own = prm::cqe::invalid_op_own;
  }
  queue::CqGeometry geometry() {
    return {.buf = memory.data(),
            .cqe_count = Count,
            .cqe_bytes = CqeBytes,
            .record = &record,
            .cqn = Cqn{7}};
  }
  prm::Cqe* slot(uint32_t i) {
    std::byte* entry = memory.data() + std::size_t{i % Count} * CqeBytes;
    return reinterpret_cast<prm::Cqe*>(entry + (CqeBytes - 64));
  }
  // As the device does it: everything, then the owner byte with the phase of this pass.
  void write(prm::CqeOpcode op, uint16_t counter, uint32_t bytes = 0) {
    prm::Cqe* e = slot(written);
    e->byte_cnt = be32{bytes};
    e->wqe_counter = be16{counter};
    e->sop_drop_qpn = be32{0x08abcdef};
    e->imm_inval_pkey = be32{0x11223344};
    e->op_own = prm::cqe::op_own(op, false, (written / Count & 1) != 0);
    written++;
  }
  void write_error(prm::CqeOpcode op, prm::Syndrome s, uint16_t counter) {
    auto* e = reinterpret_cast<prm::ErrCqe*>(slot(written));
    e->syndrome = static_cast<uint8_t>(s);
    e->vendor_err_synd = 0x51;
    e->s_wqe_opcode_qpn = be32{0x25abcdef};
    e->wqe_counter = be16{counter};
    e->op_own = prm::cqe::op_own(op, false, (written / Count & 1) != 0);
    written++;
  }
};

}  // namespace kilim::test
