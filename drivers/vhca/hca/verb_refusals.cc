// SPDX-License-Identifier: BSD-3-Clause
// The table of reasons, and how one is told. Adapter's lock held.
#include "vhca/hca/verb_refusals.hh"

#include <algorithm>
#include <array>
#include <cerrno>

#include "kilim/prm/text.hh"
#include "vhca/core/journal.hh"
#include "vhca/core/refusal.hh"
#include "vhca/wq/qp_transitions.hh"

namespace kilim::vhca::hca {

namespace {

using enum VerbRefusal;

// clang-format off
constexpr VerbRefusalRow rows[] = {
    {modify_no_transition, "ibv_modify_qp: no such transition"},
    {modify_missing, "ibv_modify_qp: attr_mask is {0}, the transition needs {1} as well"},
    {modify_excess, "ibv_modify_qp: attr_mask is {0}, the transition does not take {1}"},
    {modify_cur_state, "ibv_modify_qp: cur_qp_state is {0d}, the queue is in {1d} (enum ibv_qp_state)"},
    {modify_port, "ibv_modify_qp: port_num is {0d}, the device has ports 1 to {1d}"},
    {modify_pkey, "ibv_modify_qp: pkey_index is {0d}, the table has entry {1d} alone"},
    {modify_mtu, "ibv_modify_qp: path_mtu is {0d}, it must be 1 to {1d} (IBV_MTU_256 to IBV_MTU_4096)"},
    {modify_rd_atomic, "ibv_modify_qp: max_rd_atomic is {0d}, the device has {1d} at most (max_qp_init_rd_atom)"},
    {modify_dest_rd_atomic, "ibv_modify_qp: max_dest_rd_atomic is {0d}, the device has {1d} at most (max_qp_rd_atom)"},
    {modify_alt_path, "ibv_modify_qp: IBV_QP_ALT_PATH is asked for, and the device migrates no paths: leave it out"},
    {modify_not_global, "ibv_modify_qp: ah_attr.is_global is 0, and RoCE addresses by GID: set it, grh.dgid and grh.sgid_index"},
    {modify_sgid, "ibv_modify_qp: grh.sgid_index is {0d}, and that entry of port {1d}'s GID table is empty: ibv_query_gid() tells which are not"},
    {modify_path_port, "ibv_modify_qp: ah_attr.port_num is {0d}, it must be the queue's own port (1 to {1d})"},
    {modify_no_route, "ibv_modify_qp: no neighbour on port {1d}'s wire has this grh.dgid: is the peer's process alive, on the same wire, and was its GID sent in the right byte order?"},
    {modify_rate, "ibv_modify_qp: ah_attr.static_rate is {0d}, it must be 0 or one of 2 to {1d} (enum ibv_rate)"},
    {cq_entries, "ibv_create_cq: cqe is {0d}, it must be 1 to {1d} (max_cqe)"},
    {cq_vector, "ibv_create_cq: comp_vector is {0d}, it must be below {1d} (num_comp_vectors)"},
    {qp_send_wr, "ibv_create_qp: cap.max_send_wr is {0d}, the device has {1d} at most (max_qp_wr)"},
    {qp_recv_wr, "ibv_create_qp: cap.max_recv_wr is {0d}, the device has {1d} at most (max_qp_wr)"},
    {mr_remote_needs_local, "ibv_reg_mr: access is {0}: who lets peers write or do atomics needs IBV_ACCESS_LOCAL_WRITE ({1}) as well"},
    {mr_access, "ibv_reg_mr: access is {0}, the device knows {1}"},
    {mr_odp, "ibv_reg_mr: IBV_ACCESS_ON_DEMAND is asked for, and this profile has no on-demand paging"},
    {mr_empty, "ibv_reg_mr: length is {0d}, it must be {1d} at least"},
    {mr_wraps, "ibv_reg_mr: address {0} and length {1d} reach beyond the address space"},
    {mr_iova, "ibv_reg_mr_iova: iova {0} and the address {1} must be at the same place of a page of 4096 bytes"},
    {mr_unmapped, "ibv_reg_mr: not all of {1d} bytes from {0} on are mapped, with the rights that access asks for: allocated memory? read-only memory with IBV_ACCESS_LOCAL_WRITE?"},
    {mr_locked, "ibv_reg_mr: {0d} bytes are asked for and RLIMIT_MEMLOCK is {1d}: raise it (ulimit -l), or set KILIM_VHCA_MEMLOCK=ignore"},
    {flow_flags, "ibv_create_flow: flags are {0}, the device has {1}: rules that do not trap, and of what leaves, are not there"},
    {flow_priority, "ibv_create_flow: priority is {0d}, it must be 0 to {1d}"},
    {flow_specs, "ibv_create_flow: num_of_specs is {0d}, it must be {1d} at most"},
    {flow_not_raw, "ibv_create_flow: queue {0} is none of IBV_QPT_RAW_PACKET, and rules lead to those alone"},
    {flow_port, "ibv_create_flow: port is {0d}, the device has ports 1 to {1d}"},
    {flow_ttl, "ibv_create_flow: the mask of an IPv4 spec has ttl {0} or flags {1}, which cards do not match: leave them 0"},
    {flow_hop_limit, "ibv_create_flow: the mask of an IPv6 spec has hop_limit {0}, which cards do not match: leave it {1d}"},
    {flow_layer_twice, "ibv_create_flow: a spec of type {0} is there a second time, or is unknown to the device"},
    {flow_ether_type, "ibv_create_flow: ether_type is {0}, and the IP spec behind it wants {1}, with all of its mask"},
    {flow_tag, "ibv_create_flow: tag_id is {0}, it must be below {1}"},
    {pd_busy, "ibv_dealloc_pd: {0d} objects are still made of it (queue pairs, regions, windows, address handles, shared queues): destroy them first"},
    {cq_busy, "ibv_destroy_cq: {0d} queues still complete to it: destroy them first"},
    {srq_busy, "ibv_destroy_srq: {0d} queue pairs still take from it: destroy them first"},
    {qp_in_group, "ibv_destroy_qp: queue {0} is in a multicast group still: ibv_detach_mcast() first"},
    {srq_wr, "ibv_create_srq: attr.max_wr is {0d}, the device has {1d} at most (max_srq_wr)"},
    {srq_sge, "ibv_create_srq: attr.max_sge is {0d}, the device has {1d} at most (max_srq_sge)"},
    {ah_sgid, "ibv_create_ah: grh.sgid_index is {0d}, and that entry of port {1d}'s GID table is empty, or there is no such port"},
    {ah_no_route, "ibv_create_ah: no neighbour on port {1d}'s wire has this grh.dgid: is the peer's process alive, on the same wire, and was its GID sent in the right byte order?"},
};
// clang-format on

// IB_QP_* by their bits (include/rdma/ib_verbs.h); libibverbs calls them alike.
constexpr const char* attributes[] = {"STATE",
                                      "CUR_STATE",
                                      "EN_SQD_ASYNC_NOTIFY",
                                      "ACCESS_FLAGS",
                                      "PKEY_INDEX",
                                      "PORT",
                                      "QKEY",
                                      "AV",
                                      "PATH_MTU",
                                      "TIMEOUT",
                                      "RETRY_CNT",
                                      "RNR_RETRY",
                                      "RQ_PSN",
                                      "MAX_QP_RD_ATOMIC",
                                      "ALT_PATH",
                                      "MIN_RNR_TIMER",
                                      "SQ_PSN",
                                      "MAX_DEST_RD_ATOMIC",
                                      "PATH_MIG_STATE",
                                      "CAP",
                                      "DEST_QPN"};

void put_attributes(prm::Text& t, uint32_t mask) noexcept {
  bool any = false;
  for (std::size_t i = 0; i < std::size(attributes); i++) {
    if ((mask >> i & 1) == 0) continue;
    t.put(any ? ", " : "").put("IBV_QP_").put(attributes[i]);
    any = true;
  }
}

void put_states(prm::Text& t, QpState from, QpState to) noexcept {
  t.put(explain::name_of(from)).put(" to ").put(explain::name_of(to));
}

const VerbRefusalRow& row_of(VerbRefusal why) noexcept {
  return *std::find_if(std::begin(rows), std::end(rows) - 1,
                       [&](const VerbRefusalRow& r) { return r.why == why; });
}

}  // namespace

std::span<const VerbRefusalRow> verb_refusal_rows() noexcept {
  return rows;
}

int refuse_verb(Hca& h, int error, const Refused& r) noexcept {
  const VerbRefusalRow& row = row_of(r.why);
  std::array<char, 600> buffer;
  prm::Text t{buffer};
  const std::array<uint64_t, 2> numbers{r.asked, r.limit};
  t.fill(row.sentence, numbers);
  if (!r.detail.empty()) t.put(": ").put(r.detail);
  h.config.journal->refused(-error, r.asked, r.limit, t.view());
  if (h.explainer) h.explainer->verb_fails(row.sentence, t.view());
  refusal::forget(refusal::Why::told);
  return error;
}

void tell_refusal(Hca& h, const char* verb, int error, std::string_view more) noexcept {
  if (error == 0) return;
  const refusal::Note n = refusal::take();
  const bool bare = n.why == refusal::Why::none && more.empty();
  if (bare || n.why == refusal::Why::told) return;
  const char* const cause = refusal::sentence_of(n.why);
  std::array<char, 600> buffer;
  prm::Text t{buffer};
  const std::array<uint64_t, 2> numbers{n.asked, n.limit};
  t.put(verb).put(": ").put(n.field).fill(cause, numbers);
  t.put(*n.field != '\0' && !more.empty() ? "; " : "").put(more);
  h.config.journal->refused(-error, n.asked, n.limit, t.view());
  if (h.explainer) h.explainer->verb_fails(cause, t.view(), {verb, n.field});
  refusal::forget(refusal::Why::told);
}

int refuse_transition(Hca& h, const wq::Qp& qp, QpState to, uint32_t mask) noexcept {
  const wq::TransitionFault f = wq::find_transition_fault(qp.type, qp.state, to, mask);
  std::array<char, 400> buffer;
  prm::Text t{buffer};
  put_states(t, qp.state, to);
  if (f.missing != 0) {
    t.put(" needs ");
    put_attributes(t, f.missing);
    return refuse_verb(h, -EINVAL, {modify_missing, mask, f.missing, t.view()});
  }
  if (f.excess != 0) {
    t.put(" does not take ");
    put_attributes(t, f.excess);
    return refuse_verb(h, -EINVAL, {modify_excess, mask, f.excess, t.view()});
  }
  t.put("; a queue goes RESET, INIT, RTR, RTS, and from any of them to RESET or ERR");
  return refuse_verb(
      h, -EINVAL,
      {modify_no_transition, static_cast<uint64_t>(to), static_cast<uint64_t>(qp.state), t.view()});
}

}  // namespace kilim::vhca::hca
