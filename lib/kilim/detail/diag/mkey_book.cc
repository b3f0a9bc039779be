// SPDX-License-Identifier: BSD-3-Clause
// Reads keys out of UMR WQEs.
#include "kilim/detail/diag/mkey_book.hh"

#include <algorithm>

#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kilim/prm/data_seg.hh"

namespace kilim::inline v1::diag {

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

void parse_strided(MkeyRecord& k, prm::lint::Bytes list) {
  const auto head = prm::lint::segment_at<prm::RepeatBlockSeg>(list, 0);
  const std::size_t count = std::min<std::size_t>(head.num_ent.host(), list.size() / 16 - 1);
  k.repeat = head.repeat_count.host();
  k.entries.clear();
  for (std::size_t i = 1; i <= count; i++) {
    const auto e = prm::lint::segment_at<prm::RepeatEntSeg>(list, i * sizeof(prm::RepeatEntSeg));
    k.entries.push_back({e.memkey.host(), e.stride.host(), e.va.host(), e.byte_count.host()});
  }
}

}  // namespace

void MkeyBook::region(const mr::Region& r, const char* name) {
  MkeyRecord& k = keys_[r.lkey.value() >> 8];
  k.key = r.lkey.value();
  k.name = name;
  k.start = r.iova;
  k.length = r.length;
  k.access = rights(r.access);
  k.memory = r.address;
}

void MkeyBook::fixed_key(Lkey key, uint8_t log_entity) {
  MkeyRecord& k = keys_[key.value() >> 8];
  k.key = key.value();
  k.log_entity = log_entity;
}

void MkeyBook::forget(Lkey key) {
  keys_.erase(key.value() >> 8);
}

const MkeyRecord* MkeyBook::find(uint32_t key) const {
  const auto at = keys_.find(key >> 8);
  return at == keys_.end() ? nullptr : &at->second;
}

void MkeyBook::count_fault(uint32_t key) {
  if (const auto at = keys_.find(key >> 8); at != keys_.end()) at->second.faults++;
}

void MkeyBook::learn(prm::lint::Bytes wqe, uint32_t lcore, prm::lint::QueueKind kind) {
  if (wqe.size() < sizeof(prm::CtrlSeg)) return;
  const auto c = prm::lint::segment_at<prm::CtrlSeg>(wqe, 0);
  wqe = wqe.first(std::min<std::size_t>(wqe.size(), prm::ctrl::ds::get(c) * 16));
  const auto op = static_cast<Opcode>(prm::ctrl::opcode::get(c));
  if (op == Opcode::umr) return learn_umr(wqe, c, lcore);
  std::size_t at = prm::lint::data_at(wqe, op, kind);
  for (; at != 0 && at + sizeof(prm::DataSeg) <= wqe.size(); at += sizeof(prm::DataSeg)) {
    const auto d = prm::lint::segment_at<prm::DataSeg>(wqe, at);
    if ((d.byte_count.host() & prm::inline_flag) != 0) return;
    if (const auto k = keys_.find(d.lkey.host() >> 8); k != keys_.end()) k->second.uses++;
  }
}

void MkeyBook::learn_umr(prm::lint::Bytes wqe, const prm::CtrlSeg& c, uint32_t lcore) {
  if (wqe.size() < prm::lint::list_at) return;
  const auto u = prm::lint::segment_at<prm::UmrCtrlSeg>(wqe, prm::lint::umr_ctrl_at);
  const auto m = prm::lint::segment_at<prm::MkeyContextSeg>(wqe, prm::lint::mkey_at);
  const uint64_t mask = u.mkey_mask.host();
  MkeyRecord& k = keys_[c.imm.host() >> 8];
  if (k.key == 0 || (mask & umr::mask_mkey) == 0) k.key = c.imm.host();
  if ((mask & umr::mask_mkey) != 0) k.key = (k.key & ~0xffu) | prm::mkey::tag::get(m);
  if ((mask & umr::mask_free) != 0) k.free = (m.free & prm::mkey::free) != 0;
  if ((mask & umr::mask_len) != 0) k.length = m.len.host();
  if ((mask & umr::mask_start_addr) != 0) k.start = m.start_addr.host();
  if ((mask & umr::mask_access) != 0) k.access = m.access_flags | prm::mkey::local_read;
  if ((mask & umr::mask_page_size) != 0) k.log_entity = m.log_page_size & 0x1f;
  if (k.free) {
    k.invalidations++;
  } else {
    k.binds++;
    k.lcore = lcore;
    k.wqe = static_cast<uint16_t>(prm::ctrl::wqe_index::get(c));
  }
  if (u.klm_octowords.host() != 0) parse_list(k, wqe, u);
}

// A copy of the list that the WQE points to; empty: it does not lie in a region of the book, or is
// not mapped any more. process_vm_readv(2) reads it, as a load of an unmapped page would be a
// SIGSEGV.
std::vector<std::byte> MkeyBook::stored_list(prm::lint::Bytes wqe, std::size_t bytes) const {
  if (prm::lint::list_at + sizeof(prm::DataSeg) > wqe.size()) return {};
  const auto d = prm::lint::segment_at<prm::DataSeg>(wqe, prm::lint::list_at);
  const MkeyRecord* r = find(d.lkey.host());
  const uint64_t at = d.addr.host();
  if (r == nullptr || r->indirect() || r->key != d.lkey.host() || at < r->start) return {};
  const uint64_t offset = at - r->start;
  if (offset > r->length || bytes > r->length - offset) return {};
  std::vector<std::byte> list(bytes);
  iovec to{list.data(), bytes};
  iovec from{reinterpret_cast<void*>(r->memory + offset),
             bytes};  // NOLINT(performance-no-int-to-ptr)
  const ssize_t got = ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0);
  if (got != static_cast<ssize_t>(bytes)) return {};
  return list;
}

// Records the list of a UMR. A list of several WQEs comes as patches of a key that stays free until
// the last one (umr/pointer_wqe.hh).
void MkeyBook::parse_list(MkeyRecord& k, prm::lint::Bytes wqe, const prm::UmrCtrlSeg& u) {
  const bool patches = (u.flags & umr::has_translation_offset) != 0;
  const uint64_t first =
      patches ? u.translation_offset.host() | uint64_t{u.translation_offset_47_16.host()} << 16 : 0;
  std::size_t count = u.klm_octowords.host();
  std::vector<std::byte> stored;
  prm::lint::Bytes list = wqe.subspan(prm::lint::list_at);
  if ((u.flags & umr::inline_list) == 0) {
    stored = stored_list(wqe, count * sizeof(prm::Klm));
    list = stored;
  }
  if (first == 0 && (!patches || k.free)) {
    k.entries.clear();
    k.repeat = 1;
    k.whole = true;
  }
  k.whole =
      k.whole && first <= k.entries.size() && k.repeat == 1 && list.size() >= sizeof(prm::Klm);
  if (!k.whole) return;
  count = std::min(count, list.size() / sizeof(prm::Klm));
  if (prm::lint::segment_at<prm::Klm>(list, 0).mkey.host() == prm::repeat_block_op)
    return parse_strided(k, list.first(count * sizeof(prm::Klm)));
  if (k.entries.size() < first + count) k.entries.resize(first + count);
  for (std::size_t i = 0; i < count; i++) {
    const auto e = prm::lint::segment_at<prm::Klm>(list, i * sizeof(prm::Klm));
    const uint64_t bytes = e.byte_count.host();
    const bool fixed = k.log_entity != 0 && e.mkey.host() != 0;
    k.entries[first + i] = {e.mkey.host(), 0, e.address.host(),
                            fixed ? uint64_t{1} << k.log_entity : bytes};
  }
}

}  // namespace kilim::inline v1::diag
