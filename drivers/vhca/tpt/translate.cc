// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Address Translation and Protection". Adapter's lock held. Never allocates, never touches
// client memory.
#include "vhca/tpt/translate.hh"

#include <algorithm>

#include "vhca/tpt/list.hh"

namespace kilim::vhca {

namespace {

bool in_bounds(const Mkey& m, uint64_t offset, uint64_t bytes) noexcept {
  if (m.length64) return true;
  return offset <= m.len && bytes <= m.len - offset;
}

}  // namespace

uint8_t inner_rights(uint8_t rights) noexcept {
  uint32_t r = 0;
  if ((rights & (prm::mkey::local_read | prm::mkey::remote_read)) != 0) r |= prm::mkey::local_read;
  if ((rights & (prm::mkey::local_write | prm::mkey::remote_write | prm::mkey::atomic)) != 0)
    r |= prm::mkey::local_write;
  return static_cast<uint8_t>(r);
}

const char* deny_name(Deny d) noexcept {
  switch (d) {
    case Deny::none:
      return "allowed";
    case Deny::no_key:
      return "no such key";
    case Deny::tag:
      return "stale key";
    case Deny::free:
      return "free key";
    case Deny::pd:
      return "key of another protection domain";
    case Deny::qpn:
      return "key of another queue";
    case Deny::rights:
      return "right not granted";
    case Deny::bounds:
      return "out of bounds";
    case Deny::depth:
      return "too many keys of keys";
    case Deny::list:
      return "hole in the list";
    case Deny::steps:
      return "more pieces than a request may have";
    case Deny::fault:
      return "memory is gone";
    case Deny::handler:
      return "the kernel does not find the missing page through the key";
    case Deny::page:
      return "page is not there yet";
    case Deny::signature:
      return "a signed key cannot be used so";
  }
  return "";
}

Deny check_key(const Mkey* m, uint32_t key, const Access& need) noexcept {
  if (m == nullptr) return Deny::no_key;
  if (m->key != key) return Deny::tag;
  if (m->free) return Deny::free;
  if (m->pd != need.pd) return Deny::pd;
  if (m->qpn != prm::mkey::any_qpn && m->qpn != need.qpn) return Deny::qpn;
  if ((m->rights & need.rights) != need.rights) return Deny::rights;
  return Deny::none;
}

// NOLINTNEXTLINE(readability-function-size): six parameters
Deny find_direct(const KeyTable& keys, uint32_t key, uint64_t address, uint64_t bytes,
                 const Access& need, Piece& piece) noexcept {
  const Mkey* m = keys.at(key >> 8);
  if (Deny d = check_key(m, key, need); d != Deny::none) return d;
  // Its bounds are those of the wire where it is signed.
  if (m->mode != KeyMode::direct) return Deny::list;
  uint64_t offset = address - m->start;
  if (!in_bounds(*m, offset, bytes)) return Deny::bounds;
  piece = {m->va + offset, bytes, m->paged.get()};
  return Deny::none;
}

// NOLINTNEXTLINE(readability-function-size): six parameters
Deny Walk::open(const KeyTable& keys, uint8_t max_indirection, uint32_t key, uint64_t address,
                uint64_t bytes, const Access& need) noexcept {
  keys_ = &keys;
  limit_ = static_cast<uint8_t>(std::min<std::size_t>(max_indirection, walk_depth - 1));
  depth_ = 0;
  signed_ = false;
  denied_ = Deny::none;
  inner_ = need;
  inner_.rights = inner_rights(need.rights);
  if (bytes == 0) return Deny::none;
  denied_ = enter(key, address, bytes, need);
  return denied_;
}

Deny Walk::enter(uint32_t key, uint64_t address, uint64_t bytes, const Access& need) noexcept {
  Mkey* m = keys_->at(key >> 8);
  if (Deny d = check_key(m, key, need); d != Deny::none) return d;
  uint64_t offset = address - m->start;
  if (m->is_signed()) [[unlikely]]
    return enter_signed(*m, offset, bytes);
  if (!in_bounds(*m, offset, bytes)) return Deny::bounds;
  // Frames below this one are all lists: their number is the depth of indirection.
  if (m->mode != KeyMode::direct && depth_ >= limit_) return Deny::depth;
  frames_[depth_++] = {m, offset, bytes};
  return Deny::none;
}

// Bytes of the wire are asked for: the memory behind them is entered.
Deny Walk::enter_signed(Mkey& m, uint64_t offset, uint64_t bytes) noexcept {
  const Signature& s = *m.signature;
  if (depth_ > 0 || !inner_.may_fault || !keys_->has_psv(s.wire, m.pd) ||
      !keys_->has_psv(s.mem, m.pd))
    return Deny::signature;
  if (!s.holds(offset, bytes)) return Deny::bounds;
  const Signature::Range memory = s.memory_of(offset, bytes);
  if (!in_bounds(m, memory.begin, memory.bytes)) return Deny::bounds;
  if (limit_ == 0) return Deny::depth;
  frames_[depth_++] = {&m, memory.begin, memory.bytes};
  signed_ = true;
  return Deny::none;
}

// NOLINTNEXTLINE(readability-function-size): five parameters
void Walk::open_memory(const KeyTable& keys, uint8_t max_indirection, Mkey& m,
                       Signature::Range range, const Access& need) noexcept {
  keys_ = &keys;
  limit_ = static_cast<uint8_t>(std::min<std::size_t>(max_indirection, walk_depth - 1));
  denied_ = Deny::none;
  inner_ = need;
  inner_.rights = inner_rights(need.rights);
  frames_[0] = {&m, range.begin, range.bytes};
  depth_ = 1;
}

bool Walk::next(Piece& piece) noexcept {
  while (depth_ > 0 && denied_ == Deny::none) {
    Frame& f = frames_[depth_ - 1u];
    if (f.left == 0) {
      depth_--;
      continue;
    }
    if (f.key->mode == KeyMode::direct) {
      piece = {f.key->va + f.at, f.left, f.key->paged.get()};
      depth_--;
      return true;
    }
    if (++steps_ > most_steps) {
      denied_ = Deny::steps;
      break;
    }
    ListPlace place;
    if (!find_in_list(*f.key, f.at, place)) {
      denied_ = Deny::list;
      break;
    }
    uint64_t n = std::min(place.bytes, f.left);
    f.at += n;
    f.left -= n;
    denied_ = enter(place.key, place.address, n, inner_);
  }
  return false;
}

// NOLINTNEXTLINE(readability-function-size): six parameters
Deny check_range(const KeyTable& keys, uint8_t max_indirection, uint32_t key, uint64_t address,
                 uint64_t bytes, const Access& need) noexcept {
  Piece piece;
  Deny d = find_direct(keys, key, address, bytes, need, piece);
  if (bytes == 0 || d == Deny::none) return Deny::none;
  if (d != Deny::list) return d;
  Walk walk;
  if (d = walk.open(keys, max_indirection, key, address, bytes, need); d != Deny::none) return d;
  while (walk.next(piece)) {
  }
  return walk.denied();
}

}  // namespace kilim::vhca
