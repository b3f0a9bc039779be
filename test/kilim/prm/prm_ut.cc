// SPDX-License-Identifier: BSD-3-Clause
// The few functions among the formats.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <span>

#include "kilim/prm/cqe.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/eth_seg.hh"
#include "kilim/prm/hca_cap.hh"
#include "kilim/prm/lint.hh"
#include "kilim/prm/mkc.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/syndrome.hh"
#include "ut.hh"

namespace prm_ut {
namespace {

using namespace kilim::prm;

void capabilities() {
  std::array<std::byte, 4096> group{};
  cap_set(group, hca_cap::max_indirection, 0xa5);
  EQUAL(group[0x20], std::byte{0xa5});
  cap_set(group, hca_cap::umr_fence, 2);
  EQUAL(group[0x41], std::byte{0x20});
  EQUAL(cap_get(group, hca_cap::umr_fence), 2);
  cap_set(group, hca_cap::umr_fence, 1);
  EQUAL(cap_get(group, hca_cap::umr_fence), 1);
  EQUAL(cap_get(group, hca_cap::max_indirection), 0xa5);
  cap_set(group, hca_cap::max_wqe_sz_sq, 0xffff'0123);
  EQUAL(cap_get(group, hca_cap::max_wqe_sz_sq), 0x0123);
  EQUAL(group[0x50], std::byte{0});
}

void capabilities_outside() {
  std::array<std::byte, 16> shorter{};
  cap_set(shorter, hca_cap::umr_fence, 1);
  EQUAL(cap_get(shorter, hca_cap::umr_fence), 0);
  EQUAL(cap_get({}, hca_cap::log_max_qp), 0);
}

void names() {
  EQUAL(opcode_name(0x25), "UMR");
  CU_ASSERT_PTR_NULL(opcode_name(0x7f));
  EQUAL(verbs_name(Syndrome::wr_flush), "IBV_WC_WR_FLUSH_ERR");
  EQUAL(verbs_name(static_cast<Syndrome>(0x99)), "IBV_WC_GENERAL_ERR");
  for (std::size_t i = 0; i < std::size(opcode_rows); i++) {
    for (std::size_t j = 0; j < i; j++) CU_ASSERT_TRUE(opcode_rows[i].op != opcode_rows[j].op);
  }
}

void owner_bytes() {
  const uint8_t b = cqe::op_own(CqeOpcode::resp_send_imm, true, true);
  EQUAL(b, 0x33);
  EQUAL(cqe::opcode_of(b), CqeOpcode::resp_send_imm);
  EQUAL(cqe::opcode_of(cqe::invalid_op_own), CqeOpcode::invalid);
  EQUAL(cqe::format_of(0x08), 2);
}

// As libmlx5 asks for an indirect key: free, UMR allowed, local read, KLM entries.
void mkey_context() {
  Mkc m;
  std::memset(static_cast<void*>(&m), 0, sizeof m);
  mkc::free::set(m, 1);
  mkc::umr_en::set(m, 1);
  mkc::local_read::set(m, 1);
  mkc::access_mode_1_0::set(m, mkc::access_mode_klm);
  const uint8_t flags[4] = {0x40, 0, 0x86, 0};
  EQUAL(std::memcmp(&m, flags, 4), 0);
}

// MLX5_MKEY_MASK_* of Linux include/linux/mlx5/device.h; 16 of MLNX_OFED's libmlx5, src/wqe.h.
void mask_bits() {
  constexpr uint8_t named[] = {0,  1,  2,  6,  7,  8,  9,  12, 13, 14, 16,
                               17, 18, 19, 20, 21, 23, 25, 29, 42, 47};
  struct {
    CtrlSeg ctrl{};
    UmrCtrlSeg umr{};
    MkeyContextSeg key{};
  } wqe;
  wqe.ctrl.opmod_idx_opcode = kilim::be32{ctrl::opcode::at(static_cast<uint8_t>(Opcode::umr))};
  wqe.ctrl.qpn_ds = kilim::be32{sizeof(wqe) / 16};
  for (uint8_t bit = 0; bit < 64; bit++) {
    wqe.umr.mkey_mask = kilim::be64{uint64_t{1} << bit};
    const bool known = std::find(std::begin(named), std::end(named), bit) != std::end(named);
    const lint::Findings f = lint::check_wqe(std::as_bytes(std::span(&wqe, 1)));
    EQUAL(f.has(lint::Rule::mkey_mask), !known);
  }
}

// Of all WQEs that send frames the data segments are looked at: one of length 0 stands for 2 GiB.
void data_of_frames() {
  for (const Opcode opcode : {Opcode::send, Opcode::enhanced_mpsw, Opcode::tso}) {
    struct {
      CtrlSeg ctrl{};
      EthSeg eth{};
      DataSeg data[2]{};
    } wqe;
    wqe.ctrl.opmod_idx_opcode = kilim::be32{ctrl::opcode::at(static_cast<uint8_t>(opcode))};
    wqe.ctrl.qpn_ds = kilim::be32{sizeof(wqe) / 16};
    wqe.data[0].byte_count = wqe.data[1].byte_count = kilim::be32{60};
    const auto look = [&] {
      return lint::check_wqe(std::as_bytes(std::span(&wqe, 1)), lint::QueueKind::raw_packet);
    };
    EQUAL(look().empty(), true);
    wqe.data[1].byte_count = {};
    EQUAL(look().has(lint::Rule::zero_length), true);
  }
}

const kilim::test::Case cases[] = {
    {"a capability is its bits in the group", capabilities},
    {"a capability beyond the group reads 0", capabilities_outside},
    {"opcodes and syndromes have names, each once", names},
    {"the owner byte of a CQE", owner_bytes},
    {"the flags of an indirect key as libmlx5 writes them", mkey_context},
    {"the fields that a UMR may name", mask_bits},
    {"the linter looks at the data of frames", data_of_frames},
};

}  // namespace
}  // namespace prm_ut

KILIM_TEST_SUITE(prm, prm_ut::cases)
