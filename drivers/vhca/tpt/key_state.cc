// SPDX-License-Identifier: BSD-3-Clause
// Sources: [kernel] is Linux drivers/infiniband/hw/mlx5, [rdma-core] is providers/mlx5.
#include "vhca/tpt/key_state.hh"

#include <algorithm>
#include <array>

#include "vhca/tpt/protection.hh"

namespace kilim::vhca::tpt {

namespace {

using prm::Syndrome;

constexpr uint8_t bit(KeyKind k) noexcept {
  return static_cast<uint8_t>(1u << static_cast<unsigned>(k));
}
constexpr uint8_t fixed = bit(KeyKind::fixed), window_1 = bit(KeyKind::window_1),
                  window_2 = bit(KeyKind::window_2), mkey = bit(KeyKind::mkey),
                  remote = bit(KeyKind::mkey_remote);
constexpr uint8_t umr_en = window_1 | window_2 | mkey | remote, every = fixed | umr_en;

constexpr Verdict yes{};
constexpr Verdict no_access = protection::free;
constexpr Verdict no_umr{Syndrome::mw_bind, "UMR of a key that allows none"};
constexpr Verdict is_free{Syndrome::mw_bind, "the key is free"};
constexpr Verdict not_free{Syndrome::mw_bind, "the key is not free"};
constexpr Verdict no_local{Syndrome::mw_bind, protection::rights.why};
constexpr Verdict free_local{Syndrome::mw_bind, protection::free.why};
// Verdicts for the receive WQE (IBTA 9.9, errors of the responder); the requester hears of a remote
// access error.
constexpr Verdict no_remote{Syndrome::local_access, protection::rights.why};
constexpr Verdict free_remote{Syndrome::local_access, protection::free.why};

// clang-format off
constexpr KeyRule rules[] = {
    // PRM "Memory Key Context", free: no access. IBTA 10.6.7.2: nor through a window that is not bound.
    {KeyOp::access,       every,                    no_access,   yes},
    // PRM, umr_en. A region has it where the kernel itself changes it by UMR (mr.c), never its user.
    {KeyOp::umr,          fixed,                    no_umr,      no_umr},
    // [rdma-core] qp.c, set_umr_control_seg(): no check for IBV_MW_TYPE_1. [kernel] wr.c, set_linv_umr_seg().
    {KeyOp::umr,          umr_en,                   yes,         yes},
    {KeyOp::umr_if_free,  fixed,                    no_umr,      no_umr},
    // [rdma-core] qp.c: CHECK_FREE with IBV_MW_TYPE_2. [kernel] umr.c, MLX5_UMR_CHECK_NOT_FREE: "fail if not free".
    {KeyOp::umr_if_free,  umr_en,                   yes,         not_free},
    {KeyOp::umr_if_valid, fixed,                    no_umr,      no_umr},
    // [kernel] umr.c, mlx5r_umr_set_update_xlt_ctrl_seg(), MLX5_UMR_CHECK_FREE: "fail if free".
    {KeyOp::umr_if_valid, umr_en,                   is_free,     yes},
    // IBTA 10.6.7.2: type 1 is bound anew or deallocated, and a region of ibv_reg_mr() is never invalidated.
    {KeyOp::local_inval,  fixed | window_1,         no_local,    no_local},
    // [kernel] wr.c, set_linv_mkey_seg(): MLX5_MKEY_STATUS_FREE. IBTA 11.4.1.1: of what is free already, an error.
    {KeyOp::local_inval,  window_2 | mkey | remote, free_local,  yes, true},
    // PRM, en_rinval. [kernel] mr.c, mlx5_ib_alloc_mw(): en_rinval is set for IB_MW_TYPE_2.
    {KeyOp::remote_inval, fixed | window_1 | mkey,  no_remote,   no_remote},
    {KeyOp::remote_inval, window_2 | remote,        free_remote, yes, true},
    // [kernel] mr.c, mlx5_ib_dealloc_mw() and mlx5_ib_dereg_mr() destroy it whatever its state.
    {KeyOp::destroy,      every,                    yes,         yes},
};
// clang-format on

constexpr std::size_t kinds = 5, ops = 7;
using Places = std::array<std::array<uint8_t, kinds>, ops>;
constexpr uint8_t nowhere = 0xff;

// For each operation and kind the one row, nowhere if there are none or two.
constexpr Places find_rules() noexcept {
  Places places{};
  for (std::size_t op = 0; op < ops; op++) {
    for (std::size_t kind = 0; kind < kinds; kind++) {
      uint8_t found = nowhere;
      unsigned count = 0;
      for (std::size_t i = 0; i < std::size(rules); i++) {
        const KeyRule& r = rules[i];
        if (static_cast<std::size_t>(r.op) != op || (r.kinds >> kind & 1) == 0) continue;
        found = static_cast<uint8_t>(i);
        count++;
      }
      places[op][kind] = count == 1 ? found : nowhere;
    }
  }
  return places;
}
constexpr Places rule_places = find_rules();
static_assert(std::all_of(rule_places.begin(), rule_places.end(), [](const auto& of_op) {
  return std::find(of_op.begin(), of_op.end(), nowhere) == of_op.end();
}));

}  // namespace

KeyKind kind_of(const Mkey& m) noexcept {
  if (!m.umr_enabled) return KeyKind::fixed;
  if (m.window == WindowType::type_1) return KeyKind::window_1;
  if (m.window == WindowType::type_2) return KeyKind::window_2;
  return m.remote_invalidates ? KeyKind::mkey_remote : KeyKind::mkey;
}

const KeyRule& key_rule(KeyKind kind, KeyOp op) noexcept {
  return rules[rule_places[static_cast<std::size_t>(op)][static_cast<std::size_t>(kind)]];
}

Verdict check_state(const Mkey& m, KeyOp op) noexcept {
  const KeyRule& r = key_rule(kind_of(m), op);
  return m.free ? r.if_free : r.if_valid;
}

}  // namespace kilim::vhca::tpt
