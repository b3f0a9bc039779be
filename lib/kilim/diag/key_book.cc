// SPDX-License-Identifier: BSD-3-Clause
// Reads keys out of UMR WQEs.
#include "kilim/diag/key_book.hh"

#include <algorithm>

#include "kilim/prm/data_seg.hh"

namespace kilim::diag {

namespace {

using prm::Opcode;
namespace umr = prm::umr;

uint32_t rights(uint32_t access) noexcept {
  uint32_t r = prm::mkey::local_read;
  if ((access & mr::Access::local_write) != 0) r |= prm::mkey::local_write;
  if ((access & mr::Access::remote_read) != 0) r |= prm::mkey::remote_read;
  if ((access & mr::Access::remote_write) != 0) r |= prm::mkey::remote_write;
  if ((access & mr::Access::remote_atomic) != 0) r |= prm::mkey::atomic;
  return r;
}

}  // namespace

void KeyBook::region(const mr::Region& r, const char* name) {
  KeyRecord& k = keys_[r.lkey.value() >> 8];
  k.key = r.lkey.value();
  k.name = name;
  k.start = r.iova;
  k.length = r.length;
  k.access = rights(r.access);
}

void KeyBook::forget(Lkey key) {
  keys_.erase(key.value() >> 8);
}

const KeyRecord* KeyBook::find(uint32_t key) const {
  const auto at = keys_.find(key >> 8);
  return at == keys_.end() ? nullptr : &at->second;
}

void KeyBook::count_fault(uint32_t key) {
  if (const auto at = keys_.find(key >> 8); at != keys_.end()) at->second.faults++;
}

void KeyBook::learn(prm::lint::Bytes wqe, uint32_t lcore) {
  if (wqe.size() < sizeof(prm::CtrlSeg)) return;
  const auto c = prm::lint::segment_at<prm::CtrlSeg>(wqe, 0);
  wqe = wqe.first(std::min<std::size_t>(wqe.size(), prm::ctrl::ds::get(c) * 16));
  const auto op = static_cast<Opcode>(prm::ctrl::opcode::get(c));
  if (op == Opcode::umr) return learn_umr(wqe, c, lcore);
  std::size_t at = prm::lint::detail::data_at(wqe, op, prm::lint::QueueKind::connected);
  for (; at != 0 && at + sizeof(prm::DataSeg) <= wqe.size(); at += sizeof(prm::DataSeg)) {
    const auto d = prm::lint::segment_at<prm::DataSeg>(wqe, at);
    if ((d.byte_count.host() & prm::inline_flag) != 0) return;
    if (const auto k = keys_.find(d.lkey.host() >> 8); k != keys_.end()) k->second.uses++;
  }
}

void KeyBook::learn_umr(prm::lint::Bytes wqe, const prm::CtrlSeg& c, uint32_t lcore) {
  if (wqe.size() < prm::lint::detail::list_at) return;
  const auto u = prm::lint::segment_at<prm::UmrCtrlSeg>(wqe, prm::lint::detail::umr_ctrl_at);
  const auto m = prm::lint::segment_at<prm::MkeyContextSeg>(wqe, prm::lint::detail::mkey_at);
  const uint64_t mask = u.mkey_mask.host();
  KeyRecord& k = keys_[c.imm.host() >> 8];
  if (k.key == 0 || (mask & umr::mask_mkey) == 0) k.key = c.imm.host();
  if ((mask & umr::mask_mkey) != 0) k.key = (k.key & ~0xffu) | prm::mkey::tag::get(m);
  if ((mask & umr::mask_free) != 0) k.free = (m.free & prm::mkey::free) != 0;
  if ((mask & umr::mask_len) != 0) k.length = m.len.host();
  if ((mask & umr::mask_start_addr) != 0) k.start = m.start_addr.host();
  if ((mask & umr::mask_access) != 0) k.access = m.access_flags | prm::mkey::local_read;
  if (k.free) {
    k.invalidations++;
  } else {
    k.binds++;
    k.lcore = lcore;
    k.wqe = static_cast<uint16_t>(prm::ctrl::wqe_index::get(c));
  }
  if (u.klm_octowords.host() != 0) take_list(k, wqe, u);
}

void KeyBook::take_list(KeyRecord& k, prm::lint::Bytes wqe, const prm::UmrCtrlSeg& u) {
  const bool patches = (u.flags & umr::has_translation_offset) != 0;
  const std::size_t first = patches ? u.translation_offset.host() : 0;
  std::size_t at = prm::lint::detail::list_at;
  k.whole = (u.flags & umr::inline_list) != 0 && (k.whole || first == 0);
  if (!k.whole || at + sizeof(prm::Klm) > wqe.size()) return;
  if (prm::lint::segment_at<prm::Klm>(wqe, at).mkey.host() == prm::repeat_block_op) {
    k.whole = false;
    return;
  }
  if (first == 0 && !patches) k.entries.clear();
  const std::size_t count = std::min<std::size_t>(u.klm_octowords.host(), (wqe.size() - at) / 16);
  if (k.entries.size() < first + count) k.entries.resize(first + count);
  for (std::size_t i = 0; i < count; i++, at += sizeof(prm::Klm)) {
    const auto e = prm::lint::segment_at<prm::Klm>(wqe, at);
    k.entries[first + i] = {e.mkey.host(), e.address.host(), e.byte_count.host()};
  }
}

}  // namespace kilim::diag
