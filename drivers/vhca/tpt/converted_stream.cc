// SPDX-License-Identifier: BSD-3-Clause
// Memory, signatures, encryption, in the order of a key. Adapter's lock held. Never allocates;
// client memory only by the guarded copy.
#include "vhca/tpt/converted_stream.hh"

namespace kilim::vhca::tpt {

// NOLINTNEXTLINE(readability-function-size): five parameters
bool ConvertedStream::open(const Translator& t, const Segment& s, const Access& need, bool reading,
                           Transfer& result) noexcept {
  Mkey& key = *t.keys->at(s.key >> 8);
  signs_ = key.is_signed();
  crypto_ = nullptr;
  Segment below = s;
  if (key.crypto_by_wire()) {
    crypto_ = key.crypto.get();
    const XtsKey& keys = t.keys->deks().at(crypto_->dek)->keys;
    const uint64_t place = s.addr - key.start;
    if (reading) {
      stage_.open_read(*crypto_, keys, place);
    } else if (!stage_.open_write(*crypto_, keys, place)) {
      result.target = protection::crypto_begin;
      result.bad_key = key.key;
      return false;
    }
    const uint64_t begin = crypto_->floor(place);
    below.addr = key.start + begin;
    below.bytes = crypto_->ceil(place + s.bytes) - begin;
  }
  if (signs_) return signed_.open(t, below, need, reading, result);
  memory_.open(t, key, {below.addr - key.start, below.bytes}, {need, reading, result});
  return true;
}

bool ConvertedStream::read_below(std::byte* to, uint64_t bytes) noexcept {
  return signs_ ? signed_.read(to, bytes) : memory_.copy(to, bytes, true);
}

bool ConvertedStream::write_below(std::byte* from, uint64_t bytes) noexcept {
  return signs_ ? signed_.write(from, bytes) : memory_.copy(from, bytes, false);
}

bool ConvertedStream::read(std::byte* to, uint64_t bytes) noexcept {
  if (crypto_ == nullptr) return read_below(to, bytes);
  return stage_.read(to, bytes, {this, [](void* self, std::byte* at, uint64_t n) noexcept {
                                   return static_cast<ConvertedStream*>(self)->read_below(at, n);
                                 }});
}

bool ConvertedStream::write(std::byte* from, uint64_t bytes) noexcept {
  if (crypto_ == nullptr) return write_below(from, bytes);
  return stage_.write(*crypto_, from, bytes,
                      {this, [](void* self, std::byte* at, uint64_t n) noexcept {
                         return static_cast<ConvertedStream*>(self)->write_below(at, n);
                       }});
}

}  // namespace kilim::vhca::tpt
