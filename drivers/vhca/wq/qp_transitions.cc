// SPDX-License-Identifier: BSD-3-Clause
// The transition table. One row a transition and type; what is not in it is refused. Reset and
// error can be reached from everywhere but reset itself and need nothing.
#include "vhca/wq/qp_transitions.hh"

namespace kilim::vhca::wq {

namespace {

using namespace qp_mask;

struct Row {
  QpState from;
  QpState to;
  QpType type;
  uint32_t required;
  uint32_t optional;
};

constexpr QpState reset = QpState::reset, init = QpState::init, rtr = QpState::rtr,
                  rts = QpState::rts, sqd = QpState::sqd, sqe = QpState::sqe;
constexpr QpType rc = QpType::rc, uc = QpType::uc, ud = QpType::ud, raw = QpType::raw_packet,
                 ini = QpType::xrc_ini, tgt = QpType::xrc_tgt, dci = QpType::dci, dct = QpType::dct;

constexpr uint32_t to_rtr = path | path_mtu | dest_qpn | rq_psn;
constexpr uint32_t rc_rtr = to_rtr | max_dest_rd_atomic | min_rnr_timer;
constexpr uint32_t rc_rts = timeout | retry_cnt | rnr_retry | sq_psn | max_rd_atomic;
constexpr uint32_t uc_live = qp_mask::cur_state | qp_mask::access | alt_path | path_mig_state;
constexpr uint32_t rc_live = uc_live | min_rnr_timer;
constexpr uint32_t rc_sqd = port | path | timeout | retry_cnt | rnr_retry | max_rd_atomic |
                            max_dest_rd_atomic | alt_path | qp_mask::access | pkey_index |
                            min_rnr_timer | path_mig_state;
constexpr uint32_t ini_sqd = port | path | timeout | retry_cnt | rnr_retry | max_rd_atomic |
                             alt_path | qp_mask::access | pkey_index | path_mig_state;
constexpr uint32_t tgt_sqd = port | path | timeout | max_dest_rd_atomic | alt_path |
                             qp_mask::access | pkey_index | min_rnr_timer | path_mig_state;

// clang-format off
constexpr Row rows[] = {
    // from   to    type required                      optional
    {reset, init, rc,  pkey_index | port | qp_mask::access,   0},
    {reset, init, uc,  pkey_index | port | qp_mask::access,   0},
    {reset, init, ud,  pkey_index | port | qkey,     0},
    {reset, init, raw, port,                         0},
    {init,  init, rc,  0,                            pkey_index | port | qp_mask::access},
    {init,  init, uc,  0,                            pkey_index | port | qp_mask::access},
    {init,  init, ud,  0,                            pkey_index | port | qkey},
    {init,  init, raw, 0,                            0},
    {init,  rtr,  rc,  rc_rtr,                       alt_path | qp_mask::access | pkey_index},
    {init,  rtr,  uc,  to_rtr,                       alt_path | qp_mask::access | pkey_index},
    {init,  rtr,  ud,  0,                            pkey_index | qkey},
    {init,  rtr,  raw, 0,                            0},
    {rtr,   rts,  rc,  rc_rts,                       rc_live},
    {rtr,   rts,  uc,  sq_psn,                       uc_live},
    {rtr,   rts,  ud,  sq_psn,                       qp_mask::cur_state | qkey},
    {rtr,   rts,  raw, 0,                            rate_limit},
    {rts,   rts,  rc,  0,                            rc_live},
    {rts,   rts,  uc,  0,                            uc_live},
    {rts,   rts,  ud,  0,                            qp_mask::cur_state | qkey},
    {rts,   rts,  raw, 0,                            rate_limit},
    {rts,   sqd,  rc,  0,                            en_sqd_async},
    {rts,   sqd,  uc,  0,                            en_sqd_async},
    {rts,   sqd,  ud,  0,                            en_sqd_async},
    {rts,   sqd,  raw, 0,                            0},
    {sqd,   rts,  rc,  0,                            rc_live},
    {sqd,   rts,  uc,  0,                            uc_live},
    {sqd,   rts,  ud,  0,                            qp_mask::cur_state | qkey},
    {sqd,   rts,  raw, 0,                            0},
    {sqd,   sqd,  rc,  0,                            rc_sqd},
    {sqd,   sqd,  uc,  0,                            path | alt_path | qp_mask::access | pkey_index | path_mig_state},
    {sqd,   sqd,  ud,  0,                            pkey_index | qkey},
    {sqd,   sqd,  raw, 0,                            0},
    {sqe,   rts,  uc,  0,                            qp_mask::cur_state | qp_mask::access},
    {sqe,   rts,  ud,  0,                            qp_mask::cur_state | qkey},
    {sqe,   rts,  raw, 0,                            0},
    {reset, init, ini, pkey_index | port | qp_mask::access,   0},
    {init,  init, ini, 0,                            pkey_index | port | qp_mask::access},
    {init,  rtr,  ini, to_rtr,                       alt_path | qp_mask::access | pkey_index},
    {rtr,   rts,  ini, rc_rts,                       uc_live},
    {rts,   rts,  ini, 0,                            uc_live},
    {rts,   sqd,  ini, 0,                            en_sqd_async},
    {sqd,   rts,  ini, 0,                            uc_live},
    {sqd,   sqd,  ini, 0,                            ini_sqd},
    {reset, init, tgt, pkey_index | port | qp_mask::access,   0},
    {init,  init, tgt, 0,                            pkey_index | port | qp_mask::access},
    {init,  rtr,  tgt, rc_rtr,                       alt_path | qp_mask::access | pkey_index},
    {rtr,   rts,  tgt, timeout | sq_psn,             rc_live},
    {rts,   rts,  tgt, 0,                            rc_live},
    {rts,   sqd,  tgt, 0,                            en_sqd_async},
    {sqd,   rts,  tgt, 0,                            rc_live},
    {sqd,   sqd,  tgt, 0,                            tgt_sqd},
    {reset, init, dci, pkey_index | port,            0},
    {init,  init, dci, 0,                            pkey_index | port},
    {init,  rtr,  dci, path_mtu,                     pkey_index | path},
    {rtr,   rts,  dci, rc_rts,                       min_rnr_timer},
    {rts,   rts,  dci, 0,                            min_rnr_timer},
    {reset, init, dct, pkey_index | port | qp_mask::access,   0},
    {init,  rtr,  dct, min_rnr_timer | path | path_mtu, 0},
};
// clang-format on

bool masks_fit(const Row& row, uint32_t mask) noexcept {
  return (mask & row.required) == row.required &&
         (mask & ~(row.required | row.optional | qp_mask::state)) == 0;
}

}  // namespace

bool transition_allowed(QpType type, QpState from, QpState to, uint32_t mask) noexcept {
  // mlx5_ib has a table of its own for dynamic connections: the state is always named, and a target
  // goes up once.
  const bool dynamic = type == dci || type == dct;
  if (dynamic && (mask & qp_mask::state) == 0) return false;
  if (type == dct && (to == QpState::reset || to == QpState::err)) return false;
  if (to == QpState::reset) return (mask & ~qp_mask::state) == 0;
  if (to == QpState::err) return from != QpState::reset && (mask & ~qp_mask::state) == 0;
  for (const Row& row : rows) {
    if (row.from == from && row.to == to && row.type == type) return masks_fit(row, mask);
  }
  return false;
}

TransitionFault find_transition_fault(QpType type, QpState from, QpState to,
                                      uint32_t mask) noexcept {
  for (const Row& row : rows) {
    if (row.from != from || row.to != to || row.type != type) continue;
    return {row.required & ~mask, mask & ~(row.required | row.optional | qp_mask::state)};
  }
  const bool ends = to == QpState::reset || (to == QpState::err && from != QpState::reset);
  return {0, ends ? mask & ~qp_mask::state : 0};
}

}  // namespace kilim::vhca::wq
