// SPDX-License-Identifier: BSD-3-Clause
// The formats of the adapter: one struct for each segment of a work request, completion, context
// and command, with fields in the adapter's byte order, and the names and checks of a WQE as
// values. Formats follow the manual and do not change with the library; functions beside them may.
//
// Threads: pure values, any thread.
//
// Errors: none; prm::lint::check_wqe() returns what is wrong with a WQE as Findings.
//
// Example:
//   bool is_umr(std::span<const std::byte> wqe) {
//     if (wqe.size() < sizeof(kilim::prm::CtrlSeg)) return false;
//     const auto ctrl = kilim::prm::lint::segment_at<kilim::prm::CtrlSeg>(wqe, 0);
//     return kilim::prm::ctrl::opcode::get(ctrl) == static_cast<uint8_t>(kilim::prm::Opcode::umr);
//   }
#pragma once

#include "kilim/prm/av_seg.hh"
#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/prm/crypto_seg.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "kilim/prm/dump.hh"
#include "kilim/prm/eth_seg.hh"
#include "kilim/prm/flow_table.hh"
#include "kilim/prm/hca_cap.hh"
#include "kilim/prm/lint.hh"
#include "kilim/prm/lint_recv.hh"
#include "kilim/prm/lint_rules.hh"
#include "kilim/prm/match_param.hh"
#include "kilim/prm/mkc.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/qp_context.hh"
#include "kilim/prm/queue_cmd.hh"
#include "kilim/prm/ste.hh"
#include "kilim/prm/syndrome.hh"
#include "kilim/prm/tag_matching.hh"
#include "kilim/prm/text.hh"
#include "kilim/prm/umr_limits.hh"
#include "kilim/prm/umr_seg.hh"
#include "kilim/prm/vport_mac.hh"
#include "kilim/prm/vport_mtu.hh"
