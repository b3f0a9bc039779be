// SPDX-License-Identifier: BSD-3-Clause
// Why a verb is refused: a row for each reason, with the number that was asked for and what is
// allowed, for the journal's event `refused` and, where it was asked for, a sentence on standard
// error. What a card's driver answers stays what it is: an errno. Adapter's lock held.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "vhca/hca/hca.hh"

namespace kilim::vhca::hca {

enum class VerbRefusal : uint8_t {
  modify_no_transition,
  modify_missing,
  modify_excess,
  modify_cur_state,
  modify_port,
  modify_pkey,
  modify_mtu,
  modify_rd_atomic,
  modify_dest_rd_atomic,
  modify_alt_path,
  modify_not_global,
  modify_sgid,
  modify_path_port,
  modify_no_route,
  modify_rate,
  cq_entries,
  cq_vector,
  qp_send_wr,
  qp_recv_wr,
  mr_remote_needs_local,
  mr_access,
  mr_odp,
  mr_empty,
  mr_wraps,
  mr_iova,
  mr_unmapped,
  mr_locked,
  flow_flags,
  flow_priority,
  flow_specs,
  flow_not_raw,
  flow_port,
  flow_ttl,
  flow_hop_limit,
  flow_layer_twice,
  flow_ether_type,
  flow_tag,
  pd_busy,
  cq_busy,
  srq_busy,
  qp_in_group,
  srq_wr,
  srq_sge,
  ah_sgid,
  ah_no_route,
};

struct VerbRefusalRow {
  VerbRefusal why;
  // {0d}, {0}: what was asked for, in decimal or hex; {1d}, {1}: what is allowed.
  const char* sentence;
};
std::span<const VerbRefusalRow> verb_refusal_rows() noexcept;

struct Refused {
  VerbRefusal why;
  uint64_t asked = 0, limit = 0;
  std::string_view detail{};  // goes on behind the sentence
};
// Tells of it; returns `error`, which is negative.
int refuse_verb(Hca&, int error, const Refused&) noexcept;

// A call ends with this error, 0: none. Tells why, where a place of it has said so
// (core/refusal.hh) and nobody has told it. `verb` lives for ever; `more` goes on behind the
// sentence.
void tell_refusal(Hca&, const char* verb, int error, std::string_view more = {}) noexcept;

// A transition that the table does not allow, in words. `from`, `to` and `mask` as it was asked
// for.
int refuse_transition(Hca&, const wq::Qp&, QpState to, uint32_t mask) noexcept;

}  // namespace kilim::vhca::hca
