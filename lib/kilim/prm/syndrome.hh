// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Completion with Error", syndromes, and the names of the verbs statuses that libmlx5 returns
// for them (rdma-core providers/mlx5/cq.c, mlx5_handle_error_cqe()). What each status means: IBTA
// vol. 1, "Completion Return Status". Pure values, any thread.
#pragma once

#include <cstdint>

namespace kilim::inline v1::prm {

enum class Syndrome : uint8_t {
  none = 0x00,
  local_length = 0x01,
  local_qp_op = 0x02,
  local_prot = 0x04,
  wr_flush = 0x05,
  mw_bind = 0x06,
  bad_resp = 0x10,
  local_access = 0x11,
  remote_inval_req = 0x12,
  remote_access = 0x13,
  remote_op = 0x14,
  transport_retry_exc = 0x15,
  rnr_retry_exc = 0x16,
  remote_aborted = 0x22,
};

struct SyndromeRow {
  Syndrome code;
  const char* verbs_name;  // of the enumerator of ibv_wc_status
};

// clang-format off
inline constexpr SyndromeRow syndrome_rows[] = {
    {Syndrome::none,                "IBV_WC_SUCCESS"},
    {Syndrome::local_length,        "IBV_WC_LOC_LEN_ERR"},
    {Syndrome::local_qp_op,         "IBV_WC_LOC_QP_OP_ERR"},
    {Syndrome::local_prot,          "IBV_WC_LOC_PROT_ERR"},
    {Syndrome::wr_flush,            "IBV_WC_WR_FLUSH_ERR"},
    {Syndrome::mw_bind,             "IBV_WC_MW_BIND_ERR"},
    {Syndrome::bad_resp,            "IBV_WC_BAD_RESP_ERR"},
    {Syndrome::local_access,        "IBV_WC_LOC_ACCESS_ERR"},
    {Syndrome::remote_inval_req,    "IBV_WC_REM_INV_REQ_ERR"},
    {Syndrome::remote_access,       "IBV_WC_REM_ACCESS_ERR"},
    {Syndrome::remote_op,           "IBV_WC_REM_OP_ERR"},
    {Syndrome::transport_retry_exc, "IBV_WC_RETRY_EXC_ERR"},
    {Syndrome::rnr_retry_exc,       "IBV_WC_RNR_RETRY_EXC_ERR"},
    {Syndrome::remote_aborted,      "IBV_WC_REM_ABORT_ERR"},
};
// clang-format on

// The name of the verbs status; "IBV_WC_GENERAL_ERR" for other codes, as in libmlx5.
constexpr const char* verbs_name(Syndrome s) noexcept {
  for (const SyndromeRow& row : syndrome_rows) {
    if (row.code == s) return row.verbs_name;
  }
  return "IBV_WC_GENERAL_ERR";
}

}  // namespace kilim::inline v1::prm
