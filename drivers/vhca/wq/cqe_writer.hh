// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CQE Ownership". Writes completions and detects overrun.
// Adapter's lock held. Never allocates; a CQ whose memory is gone gets its error event and falls
// silent.
#pragma once

#include <array>
#include <cstdint>

#include "kilim/prm/cqe.hh"
#include "kilim/prm/syndrome.hh"
#include "kilim/prm/tag_matching.hh"
#include "vhca/core/verdict.hh"
#include "vhca/wq/cq.hh"
#include "vhca/wq/cq_events.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"

namespace kilim::vhca::wq {

// Writes `cqe` as the next entry; owner and opcode, timestamp and signature are filled in here,
// bits in op_own that say what the entry carries stay. False: the CQ is in error (now or before),
// the caller takes its queue to error.
bool write_cqe(EngineContext&, Cq&, prm::Cqe& cqe, prm::CqeOpcode op, bool solicited) noexcept;

// The steps of write_cqe(), for blocks (wq/compression.hh): whether there is a free entry (false:
// the CQ is in error), the time that an entry carries, where the last 64 bytes of entry `index`
// are, and storing `cqe` as the next one, with its op_own as the last of all.
bool claim_entry(EngineContext&, Cq&) noexcept;
uint64_t stamp(const EngineContext&, const Cq&) noexcept;
uint64_t entry_address(const Cq&, uint32_t index) noexcept;
bool store_entry(const EngineContext&, const Cq&, const prm::Cqe&) noexcept;

// For how many entries there is room up to the end of the ring. 0 as well where the record is gone.
uint32_t straight_room(Cq&) noexcept;

// The completion of a send WQE.
struct SendCompletion {
  uint8_t wqe_opcode = 0;
  uint16_t wqe_index = 0;
  uint32_t bytes = 0;     // of a READ or an atomic, else 0
  bool in_entry = false;  // EngineContext::entry_data is the answer
  bool event = false;     // asked for by the WQE (prm::ctrl::cq_update_and_event)
};
bool complete_send(EngineContext&, Qp&, const SendCompletion&) noexcept;

struct RecvCompletion {
  prm::CqeOpcode op = prm::CqeOpcode::resp_send;
  uint16_t wqe_index = 0;
  uint32_t bytes = 0;
  uint32_t imm_raw = 0;  // as it came, in the order of the wire
  uint32_t remote_qpn = 0;
  uint16_t slid = 0;  // InfiniBand: where it came from, and its service level
  uint8_t sl = 0;
  bool solicited = false;
  bool grh = false;       // the data opens with the 40 bytes of a global header
  bool in_entry = false;  // EngineContext::entry_data is the data
  prm::TagNews news = prm::TagNews::none;
};
bool complete_recv(EngineContext&, Qp&, const RecvCompletion&) noexcept;

// What happens to a matching list; the entry goes to its shared queue's completion queue.
struct TagCompletion {
  prm::CqeOpcode op = prm::CqeOpcode::no_packet;
  prm::TagNews news = prm::TagNews::none;
  uint16_t place = 0;      // of the entry of the list
  uint16_t wqe_index = 0;  // of a list operation
  uint32_t bytes = 0;
  uint32_t imm_raw = 0;
  bool solicited = false;
  std::array<std::byte, 16> head{};  // a prm::TagCqe or a prm::Tmh
};
bool complete_tag(EngineContext&, Qp&, const TagCompletion&) noexcept;

// An error entry (13) of a send WQE, unless its completion mode wants none.
struct SendFailure {
  uint8_t wqe_opcode = 0;
  uint16_t wqe_index = 0;
  uint8_t fm_ce_se = 0;  // of the WQE
  Verdict verdict{prm::Syndrome::wr_flush, "flushed"};
};
bool complete_failed_send(EngineContext&, Qp&, const SendFailure&) noexcept;
// An error entry (14) of a receive WQE.
bool complete_failed_recv(EngineContext&, Qp&, uint16_t wqe_index, const Verdict&) noexcept;

// Whether the client has taken any entry so far, as its record says; true too where that is gone.
bool client_has_read(Cq&) noexcept;

// The ring becomes another one: an entry that says so is the last of the old ring, and counts.
// False: the old ring has no room for it, or is gone.
bool change_ring(EngineContext&, Cq&, Va buf, uint32_t cqe_count) noexcept;

}  // namespace kilim::vhca::wq
