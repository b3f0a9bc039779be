// SPDX-License-Identifier: BSD-3-Clause
// Keys between fences.
#include "kilim/diag/follow.hh"

#include <algorithm>

#include "kilim/prm/data_seg.hh"

namespace kilim::diag {

namespace {

using prm::Opcode;
using prm::lint::Rule;

constexpr uint8_t mode_small = prm::ctrl::small_fence >> 5;
constexpr uint8_t mode_answers = 2;
constexpr uint8_t mode_strong = prm::ctrl::strong_fence >> 5;
constexpr uint8_t mode_both = prm::ctrl::fence >> 5;

uint8_t mode_of(const prm::CtrlSeg& c) noexcept {
  return static_cast<uint8_t>(c.fm_ce_se >> 5);
}

KeyTraffic::Place place_of(const prm::CtrlSeg& c) noexcept {
  return {prm::ctrl::qpn::get(c), static_cast<uint16_t>(prm::ctrl::wqe_index::get(c))};
}

}  // namespace

uint8_t Follow::wanted() const noexcept {
  if (fence_ == prm::UmrFence::none) return 0;
  return fence_ == prm::UmrFence::small ? mode_small : mode_strong;
}

void Follow::take_fence(uint8_t mode) {
  const bool small = mode == mode_small || mode == mode_both || mode == mode_strong;
  const bool enough = wanted() == mode_strong ? mode == mode_strong : small;
  const bool answers = mode == mode_answers || mode == mode_both || mode == mode_strong;
  if (enough) changed_.clear();
  std::erase_if(used_, [&](const auto& u) { return u.second.answers ? answers : enough; });
}

void Follow::use(uint32_t key, const prm::CtrlSeg& c, bool answers, prm::lint::Findings& f) {
  const uint32_t index = key >> 8;
  if (!indirect_.contains(index)) return;
  if (const auto at = changed_.find(index); at != changed_.end() && wanted() != 0)
    f.add(Rule::unfenced_key, key, at->second.index, wanted(), mode_of(c));
  used_[index] = {static_cast<uint16_t>(prm::ctrl::wqe_index::get(c)), answers};
}

void Follow::use_local(uint32_t key, const prm::CtrlSeg& c, bool answers, prm::lint::Findings& f) {
  use(key, c, answers, f);
  if (traffic_ != nullptr) traffic_->use(key, place_of(c), f);
}

void Follow::change(prm::lint::Bytes wqe, const prm::CtrlSeg& c, prm::lint::Findings& f) {
  uint32_t key = c.imm.host();
  const uint32_t index = key >> 8;
  indirect_.insert(index);
  if (const auto at = changed_.find(index); at != changed_.end() && wanted() != 0)
    f.add(Rule::unfenced_key, key, at->second.index, wanted(), mode_of(c));
  if (const auto at = used_.find(index); at != used_.end() && (wanted() != 0 || at->second.answers))
    f.add(Rule::key_in_flight, key, at->second.index, prm::ctrl::qpn::get(c));
  changed_[index] = {static_cast<uint16_t>(prm::ctrl::wqe_index::get(c)), false};
  used_.erase(index);
  if (traffic_ == nullptr) return;
  bool frees = static_cast<Opcode>(prm::ctrl::opcode::get(c)) == Opcode::local_inval;
  if (!frees && wqe.size() >= prm::lint::detail::list_at) {
    const auto u = prm::lint::segment_at<prm::UmrCtrlSeg>(wqe, prm::lint::detail::umr_ctrl_at);
    const auto m = prm::lint::segment_at<prm::MkeyContextSeg>(wqe, prm::lint::detail::mkey_at);
    const uint64_t mask = u.mkey_mask.host();
    if ((mask & prm::umr::mask_mkey) != 0) key = (key & ~0xffu) | prm::mkey::tag::get(m);
    frees = (mask & prm::umr::mask_free) != 0 && (m.free & prm::mkey::free) != 0;
  }
  traffic_->change(key, frees, place_of(c), f);
}

void Follow::ended(uint16_t until) noexcept {
  const auto over = [until](const auto& k) { return lies_before(k.second.index, until); };
  std::erase_if(changed_, over);
  std::erase_if(used_, over);
}

prm::lint::Findings Follow::next(prm::lint::Bytes wqe) {
  prm::lint::Findings f = prm::lint::check_wqe(wqe, kind_);
  if (wqe.size() < sizeof(prm::CtrlSeg) || f.has(Rule::ds_mismatch)) return f;
  const auto c = prm::lint::segment_at<prm::CtrlSeg>(wqe, 0);
  wqe = wqe.first(std::min<std::size_t>(wqe.size(), prm::ctrl::ds::get(c) * 16));
  take_fence(mode_of(c));
  const auto op = static_cast<Opcode>(prm::ctrl::opcode::get(c));
  if (op == Opcode::umr || op == Opcode::local_inval) {
    change(wqe, c, f);
    return f;
  }
  const auto head = prm::lint::detail::head_of(op);
  if (!head.data) return f;
  if (head.remote) {
    const std::size_t at = prm::lint::detail::remote_at(wqe, kind_);
    use(prm::lint::segment_at<prm::RaddrSeg>(wqe, at).rkey.host(), c, head.answer, f);
  }
  std::size_t at = prm::lint::detail::data_at(wqe, op, kind_);
  while (at + sizeof(prm::DataSeg) <= wqe.size()) {
    const auto d = prm::lint::segment_at<prm::DataSeg>(wqe, at);
    const uint32_t n = d.byte_count.host();
    const bool inlined = (n & prm::inline_flag) != 0;
    if (!inlined) use_local(d.lkey.host(), c, head.answer, f);
    at += inlined ? round_up((n & prm::inline_length_mask) + 4, 16) : sizeof(d);
  }
  return f;
}

}  // namespace kilim::diag
