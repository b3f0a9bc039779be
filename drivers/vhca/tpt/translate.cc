// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Address Translation and Protection". Adapter's lock held. Never allocates, never touches
// client memory.
#include "vhca/tpt/translate.hh"

#include <algorithm>

#include "vhca/tpt/key_state.hh"
#include "vhca/tpt/list.hh"

namespace kilim::vhca::tpt {

namespace {

bool in_bounds(const Mkey& m, uint64_t offset, uint64_t bytes) noexcept {
  if (m.length64) return true;
  return offset <= m.len && bytes <= m.len - offset;
}

// Behind the null key: what is read, and where goes what is written. An atomic reads there too, and
// finds zeros all the same.
constexpr uint64_t null_bytes = uint64_t{64} << 10, atomic_bytes = 8;
alignas(64) std::byte zeros[null_bytes];  // never written
alignas(64) std::byte sink[null_bytes];   // never read, but by an atomic

Piece null_piece(uint64_t bytes, uint8_t rights) noexcept {
  const bool writes = (rights & prm::mkey::local_write) != 0;
  if (writes && bytes <= atomic_bytes) std::fill_n(sink, atomic_bytes, std::byte{0});
  return {reinterpret_cast<uint64_t>(writes ? sink : zeros), std::min(bytes, null_bytes), nullptr};
}

}  // namespace

uint8_t inner_rights(uint8_t rights) noexcept {
  uint32_t r = 0;
  if ((rights & (prm::mkey::local_read | prm::mkey::remote_read)) != 0) r |= prm::mkey::local_read;
  if ((rights & (prm::mkey::local_write | prm::mkey::remote_write | prm::mkey::atomic)) != 0)
    r |= prm::mkey::local_write;
  return static_cast<uint8_t>(r);
}

Verdict check_key(const Mkey* m, uint32_t key, const Access& need) noexcept {
  if (m == nullptr) return protection::no_key;
  if (m->key != key) return protection::tag;
  if (m->free) return check_state(*m, KeyOp::access);
  if (m->pd != need.pd) return protection::pd;
  if (m->qpn != prm::mkey::any_qpn && m->qpn != need.qpn) return protection::qpn;
  if ((m->rights & need.rights) != need.rights) return protection::rights;
  return {};
}

// NOLINTNEXTLINE(readability-function-size): six parameters
bool find_direct(const KeyTable& keys, uint32_t key, uint64_t address, uint64_t bytes,
                 const Access& need, Piece& piece) noexcept {
  const Mkey* m = keys.at(key >> 8);
  // The bounds of a signed key are those of the wire: it is no direct one.
  if (!check_key(m, key, need).ok() || m->mode != KeyMode::direct) return false;
  const uint64_t offset = address - m->start;
  if (!in_bounds(*m, offset, bytes)) return false;
  piece = {m->va + offset, bytes, m->paged.get()};
  return true;
}

// NOLINTNEXTLINE(readability-function-size): six parameters
Verdict Walk::open(const KeyTable& keys, uint8_t max_indirection, uint32_t key, uint64_t address,
                   uint64_t bytes, const Access& need) noexcept {
  keys_ = &keys;
  limit_ = static_cast<uint8_t>(std::min<std::size_t>(max_indirection, walk_depth - 1));
  depth_ = 0;
  signed_ = false;
  denied_ = {};
  inner_ = need;
  inner_.rights = inner_rights(need.rights);
  if (bytes == 0) return {};
  denied_ = enter(key, address, bytes, need);
  return denied_;
}

Verdict Walk::enter(uint32_t key, uint64_t address, uint64_t bytes, const Access& need) noexcept {
  Mkey* m = keys_->at(key >> 8);
  if (Verdict d = check_key(m, key, need); !d.ok()) return enter_null(key, bytes, need, d);
  uint64_t offset = address - m->start;
  if (m->converts()) [[unlikely]]
    return enter_converted(*m, offset, bytes);
  if (!in_bounds(*m, offset, bytes)) return protection::bounds;
  // Frames below this one are all lists: their number is the depth of indirection.
  if (m->mode != KeyMode::direct && depth_ >= limit_) return protection::depth;
  frames_[depth_++] = {m, offset, bytes};
  return {};
}

// What the table does not have may be the null key.
Verdict Walk::enter_null(uint32_t key, uint64_t bytes, const Access& need, Verdict other) noexcept {
  Mkey* m = keys_->null_named(key);
  if (m == nullptr) return other;
  if ((need.rights & ~m->rights) != 0) return protection::rights;
  frames_[depth_++] = {m, 0, bytes};
  return {};
}

// Bytes of the wire are asked for: the memory behind them is entered.
Verdict Walk::enter_converted(Mkey& m, uint64_t offset, uint64_t bytes) noexcept {
  if (m.is_signed()) {
    const Signature& s = *m.signature;
    if (depth_ > 0 || !inner_.may_fault || !keys_->has_psv(s.wire, m.pd) ||
        !keys_->has_psv(s.mem, m.pd))
      return protection::signature;
    if (!s.holds(offset, bytes)) return protection::bounds;
  }
  if (m.crypto != nullptr) {
    // mlx5dv_wr_set_mkey_crypto(3): before it is called traffic fails.
    if (depth_ > 0 || !inner_.may_fault || !m.crypto->set || !keys_->has_dek(*m.crypto, m.pd))
      return protection::crypto;
    if (!m.crypto->holds(offset, bytes)) return protection::bounds;
  }
  const Signature::Range memory = m.memory_of(offset, bytes);
  if (!in_bounds(m, memory.begin, memory.bytes)) return protection::bounds;
  if (limit_ == 0) return protection::depth;
  frames_[depth_++] = {&m, memory.begin, memory.bytes};
  signed_ = true;
  return {};
}

// NOLINTNEXTLINE(readability-function-size): five parameters
void Walk::open_memory(const KeyTable& keys, uint8_t max_indirection, Mkey& m,
                       Signature::Range range, const Access& need) noexcept {
  keys_ = &keys;
  limit_ = static_cast<uint8_t>(std::min<std::size_t>(max_indirection, walk_depth - 1));
  denied_ = {};
  inner_ = need;
  inner_.rights = inner_rights(need.rights);
  frames_[0] = {&m, range.begin, range.bytes};
  depth_ = 1;
}

bool Walk::next(Piece& piece) noexcept {
  while (depth_ > 0 && denied_.ok()) {
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
    if (f.key->mode == KeyMode::null) [[unlikely]] {
      piece = null_piece(f.left, inner_.rights);
      f.left -= piece.bytes;
      return true;
    }
    if (++steps_ > most_steps) {
      denied_ = protection::steps;
      break;
    }
    ListPlace place;
    if (!find_in_list(*f.key, f.at, place)) {
      denied_ = protection::list;
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
Verdict check_range(const KeyTable& keys, uint8_t max_indirection, uint32_t key, uint64_t address,
                    uint64_t bytes, const Access& need) noexcept {
  Piece piece;
  if (bytes == 0 || find_direct(keys, key, address, bytes, need, piece)) return {};
  Walk walk;
  if (Verdict d = walk.open(keys, max_indirection, key, address, bytes, need); !d.ok()) return d;
  while (walk.next(piece)) {
  }
  return walk.denied();
}

}  // namespace kilim::vhca::tpt
