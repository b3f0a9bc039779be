// SPDX-License-Identifier: BSD-3-Clause
// One key's pieces, one after the other. Adapter's lock held. Never allocates; client memory only
// by the guarded copy.
#include "vhca/tpt/key_memory.hh"

#include <algorithm>
#include <cstring>

namespace kilim::vhca::tpt {

void KeyMemory::open(const Translator& t, Mkey& key, Signature::Range range,
                     const Use& use) noexcept {
  result_ = &use.result;
  key_ = &key;
  reading_ = use.reading;
  piece_.bytes = 0;
  crypto_keys_ = nullptr;
  open_ = Stage::closed;
  place_ = range.begin;
  if (key.crypto_by_memory()) {
    const Crypto& c = *key.crypto;
    crypto_keys_ = &t.keys->deks().at(c.dek)->keys;
    const uint64_t begin = c.floor(range.begin);
    range = {begin, c.ceil(range.begin + range.bytes) - begin};
  }
  walk_.open_memory(*t.keys, t.max_indirection, key, range, use.need);
}

bool KeyMemory::fail(const Verdict& v) noexcept {
  (reading_ ? result_->source : result_->target) = v;
  result_->bad_key = key_->key;
  return false;
}

bool KeyMemory::copy_raw(std::byte* adapter, uint64_t bytes, bool in) noexcept {
  Transfer t;
  while (bytes > 0) {
    if (piece_.bytes == 0 && !walk_.next(piece_)) {
      t.source = !walk_.denied().ok() ? walk_.denied() : protection::list;
      break;
    }
    const uint64_t n = std::min(bytes, piece_.bytes);
    const Piece mine{reinterpret_cast<uint64_t>(adapter), n, nullptr};
    if (!(in ? copy_piece(mine, piece_, n, t) : copy_piece(piece_, mine, n, t))) break;
    piece_ = {piece_.va + n, piece_.bytes - n, piece_.paged};
    adapter += n;
    bytes -= n;
  }
  if (t.ok()) return true;
  result_->fault_va = t.fault_va;
  return fail(!t.source.ok() ? t.source : t.target);
}

bool KeyMemory::read_held(std::byte* to, uint64_t bytes) noexcept {
  const Crypto& c = *key_->crypto;
  if (reading_ || c.held_bytes == 0 || place_ + c.held_bytes < c.held_end ||
      place_ + bytes > c.held_end)
    return false;
  std::memcpy(to, c.held + (place_ + c.held_bytes - c.held_end), bytes);
  return true;
}

bool KeyMemory::copy_crypto(std::byte* adapter, uint64_t bytes, bool in) noexcept {
  Crypto& c = *key_->crypto;
  if (in) {
    if (open_ == Stage::closed) stage_.open_read(c, *crypto_keys_, place_);
    open_ = Stage::reads;
    return stage_.read(adapter, bytes, {this, [](void* self, std::byte* at, uint64_t n) noexcept {
                                          return static_cast<KeyMemory*>(self)->copy_raw(at, n,
                                                                                         true);
                                        }});
  }
  if (open_ != Stage::writes && !stage_.open_write(c, *crypto_keys_, place_))
    return fail(protection::crypto_begin);
  open_ = Stage::writes;
  return stage_.write(c, adapter, bytes, {this, [](void* self, std::byte* at, uint64_t n) noexcept {
                                            return static_cast<KeyMemory*>(self)->copy_raw(at, n,
                                                                                           false);
                                          }});
}

bool KeyMemory::copy(std::byte* adapter, uint64_t bytes, bool in) noexcept {
  if (crypto_keys_ == nullptr) return copy_raw(adapter, bytes, in);
  bool ok = true;
  while (ok && bytes > 0) {
    uint64_t n = bytes;
    if (in && !reading_ && key_->crypto->held_bytes != 0) {
      // Up to the held bytes, then those.
      const uint64_t held = key_->crypto->held_end - key_->crypto->held_bytes;
      if (place_ < held) n = std::min(bytes, held - place_);
    }
    if (!(in && read_held(adapter, n))) ok = copy_crypto(adapter, n, in);
    adapter += n;
    place_ += n;
    bytes -= n;
  }
  return ok;
}

}  // namespace kilim::vhca::tpt
