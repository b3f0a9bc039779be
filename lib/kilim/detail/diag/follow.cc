// SPDX-License-Identifier: BSD-3-Clause
// Follows keys through a queue's WQEs: which ones were changed or used since the last fence that
// waits for it.
#include "kilim/detail/diag/follow.hh"

#include <algorithm>

#include "kilim/prm/data_seg.hh"

namespace kilim::inline v1::diag {

namespace {

using prm::Opcode;
using prm::lint::Rule;

uint8_t mode_of(const prm::CtrlSeg& c) noexcept {
  return static_cast<uint8_t>(c.fm_ce_se >> 5);
}

MkeyTraffic::Place place_of(const prm::CtrlSeg& c) noexcept {
  return {prm::ctrl::qpn::get(c), static_cast<uint16_t>(prm::ctrl::wqe_index::get(c))};
}

}  // namespace

void Follow::apply_fence(uint8_t mode) {
  if (prm::ctrl::waits_for_local(mode)) {
    changed_.clear();
    bare_ = false;
  }
  if (prm::ctrl::waits_for_answers(mode)) asked_.clear();
  if (prm::ctrl::waits_for_all(mode)) sent_.clear();
}

// The first request behind a UMR needs a fence even if it does not use the key: it may tell a peer
// of the key, who then uses it.
void Follow::want_fence(const prm::CtrlSeg& c, Opcode op, prm::lint::Findings& f) {
  if (!bare_ || op == Opcode::nop) return;
  if (!f.has(Rule::unfenced_key)) f.add(Rule::unfenced_umr, umr_.index, umr_.key, mode_of(c));
  bare_ = false;
}

void Follow::use(uint32_t key, const prm::CtrlSeg& c, bool answers, prm::lint::Findings& f) {
  const uint32_t index = key >> 8;
  if (!indirect_.contains(index)) return;
  if (const auto at = changed_.find(index); at != changed_.end())
    f.add(Rule::unfenced_key, key, at->second, mode_of(c));
  (answers ? asked_ : sent_)[index] = static_cast<uint16_t>(prm::ctrl::wqe_index::get(c));
}

void Follow::use_local(uint32_t key, const prm::CtrlSeg& c, bool answers, prm::lint::Findings& f) {
  use(key, c, answers, f);
  if (traffic_ != nullptr) traffic_->use(key, place_of(c), f);
}

void Follow::change(prm::lint::Bytes wqe, const prm::CtrlSeg& c, prm::lint::Findings& f) {
  uint32_t key = c.imm.host();
  const uint32_t index = key >> 8;
  indirect_.insert(index);
  const auto here = static_cast<uint16_t>(prm::ctrl::wqe_index::get(c));
  if (const auto at = changed_.find(index); at != changed_.end())
    f.add(Rule::unfenced_key, key, at->second, mode_of(c));
  for (Keys* used : {&sent_, &asked_}) {
    if (const auto at = used->find(index); at != used->end())
      f.add(Rule::key_in_flight, key, at->second, prm::ctrl::qpn::get(c));
    used->erase(index);
  }
  changed_[index] = here;
  bool frees = static_cast<Opcode>(prm::ctrl::opcode::get(c)) == Opcode::local_inval;
  if (!frees && wqe.size() >= prm::lint::list_at) {
    const auto u = prm::lint::segment_at<prm::UmrCtrlSeg>(wqe, prm::lint::umr_ctrl_at);
    const auto m = prm::lint::segment_at<prm::MkeyContextSeg>(wqe, prm::lint::mkey_at);
    const uint64_t mask = u.mkey_mask.host();
    if ((mask & prm::umr::mask_mkey) != 0) key = (key & ~0xffu) | prm::mkey::tag::get(m);
    frees = (mask & prm::umr::mask_free) != 0 && (m.free & prm::mkey::free) != 0;
  }
  if (!frees) bare_umr({here, key});  // a free key gives no access, so nobody can be told of it
  if (traffic_ != nullptr) traffic_->change(key, frees, place_of(c), f);
}

void Follow::ended(uint16_t until) noexcept {
  const auto over = [until](const auto& k) { return lies_before(k.second, until); };
  std::erase_if(changed_, over);
  std::erase_if(sent_, over);
  std::erase_if(asked_, over);
  if (bare_ && lies_before(umr_.index, until)) bare_ = false;
}

prm::lint::Findings Follow::next(prm::lint::Bytes wqe) {
  prm::lint::Findings f = prm::lint::check_wqe(wqe, kind_);
  if (wqe.size() < sizeof(prm::CtrlSeg) || f.has(Rule::ds_mismatch)) return f;
  const auto c = prm::lint::segment_at<prm::CtrlSeg>(wqe, 0);
  wqe = wqe.first(std::min<std::size_t>(wqe.size(), prm::ctrl::ds::get(c) * 16));
  apply_fence(prm::ctrl::fence_of(c.fm_ce_se));
  const auto op = static_cast<Opcode>(prm::ctrl::opcode::get(c));
  if (op == Opcode::umr || op == Opcode::local_inval) {
    change(wqe, c, f);
    return f;
  }
  use_all(wqe, c, f);
  want_fence(c, op, f);
  if (op == Opcode::set_psv) bare_umr({place_of(c).wqe, umr_.key});
  return f;
}

void Follow::use_all(prm::lint::Bytes wqe, const prm::CtrlSeg& c, prm::lint::Findings& f) {
  const auto op = static_cast<Opcode>(prm::ctrl::opcode::get(c));
  const auto head = prm::lint::head_of(op);
  if (!head.data) return;
  if (head.remote) {
    const std::size_t at = prm::lint::remote_at(wqe, kind_);
    use(prm::lint::segment_at<prm::RaddrSeg>(wqe, at).rkey.host(), c, head.answer, f);
  }
  std::size_t at = prm::lint::data_at(wqe, op, kind_);
  while (at + sizeof(prm::DataSeg) <= wqe.size()) {
    const auto d = prm::lint::segment_at<prm::DataSeg>(wqe, at);
    const uint32_t n = d.byte_count.host();
    const bool inlined = (n & prm::inline_flag) != 0;
    if (!inlined) use_local(d.lkey.host(), c, head.answer, f);
    at += inlined ? round_up((n & prm::inline_length_mask) + 4, 16) : sizeof(d);
  }
}

}  // namespace kilim::inline v1::diag
