// SPDX-License-Identifier: BSD-3-Clause
// Blocks and their signatures on the way through one key. Adapter's lock held. Never allocates;
// client memory only by the guarded copy.
#include "vhca/tpt/signature_stream.hh"

#include <algorithm>
#include <cstring>

#include "kilim/prm/bsf_seg.hh"

namespace kilim::vhca::tpt {

void SignedStream::Side::begin(uint64_t block) noexcept {
  index = block;
  done = 0;
  if (domain->kind != SignKind::none) sum = RunningSum(domain->kind, seed_of(*domain, *psv, index));
}

void SignedStream::Side::begin_at(uint64_t data) noexcept {
  const uint64_t block = domain->block;
  begin(block == 0 ? 0 : data / block);
  done = block == 0 ? 0 : static_cast<uint32_t>(data % block);
}

uint64_t SignedStream::Side::straight(uint64_t n) const noexcept {
  return domain->block == 0 ? n : std::min<uint64_t>(n, domain->block - done);
}

bool SignedStream::Side::add(const std::byte* data, uint64_t n) noexcept {
  if (domain->block == 0) return false;
  sum.add({data, n});
  done += static_cast<uint32_t>(n);
  return done == domain->block;
}

bool SignedStream::open(const Translator& t, const Segment& s, const Access& need, bool reading,
                        Transfer& result) noexcept {
  t_ = &t;
  key_ = t.keys->at(s.key >> 8);
  reading_ = reading;
  const Signature& sign = *key_->signature;
  place_ = s.addr - key_->start;
  wire_.domain = &sign.wire;
  wire_.psv = t.keys->psvs().at(sign.wire.psv);
  mem_.domain = &sign.mem;
  mem_.psv = t.keys->psvs().at(sign.mem.psv);
  const uint64_t first = sign.first_data(place_), data = sign.wire.data_before(place_);
  wire_.begin_at(first);
  mem_.begin_at(first);
  memory_.open(t, *key_, sign.memory_of(place_, s.bytes), {need, reading, result});
  in_signature_ =
      sign.wire.block != 0 && place_ % (sign.wire.block + sign.wire.bytes()) >= sign.wire.block;
  known_ = true;
  has_input_ = false;
  return catch_up(first, data) && (!in_signature_ || resume_signature());
}

// Sums over the part of the blocks that went through before. Signatures on the way were dealt with
// then.
bool SignedStream::catch_up(uint64_t from, uint64_t to) noexcept {
  std::byte window[512];
  while (from < to) {
    const uint64_t n = wire_.straight(mem_.straight(std::min<uint64_t>(to - from, sizeof(window))));
    if (!memory_.copy(window, n, true)) return false;
    from += n;
    const bool last = from == to && in_signature_;
    if (wire_.add(window, n) && !last) wire_.begin(wire_.index + 1);
    if (!mem_.add(window, n)) continue;
    const bool pending = last && !reading_ && waits_for_wire();
    if (pending) return true;
    if (!memory_.copy(window, mem_.domain->bytes(), true)) return false;
    input_ = load_signature(*mem_.domain, window);
    has_input_ = last && reading_;
    mem_.begin(mem_.index + 1);
  }
  return true;
}

// The place is within, or right before, the signature of a block on the wire.
bool SignedStream::resume_signature() noexcept {
  const Signature& sign = *key_->signature;
  signature_done_ =
      static_cast<uint32_t>(place_ % (sign.wire.block + sign.wire.bytes()) - sign.wire.block);
  if (reading_) {
    store_signature(sign.wire, merged(wire_.made()), signature_);
    return true;
  }
  known_ = signature_done_ == 0 || sign.held_place == place_;
  std::memcpy(signature_, sign.held, sizeof(signature_));
  return true;
}

uint64_t SignedStream::merged(uint64_t made) const noexcept {
  const Signature& s = *key_->signature;
  if (!s.same_blocks || !has_input_) return made;
  const uint64_t mask = spread_mask(s.copy_mask);
  return (input_ & mask) | (made & ~mask);
}

// Guard, application tag, reference tag: the first one that is wrong is told of.
void SignedStream::check(const Side& side, uint64_t value, uint8_t domain) noexcept {
  Signature& s = *key_->signature;
  const SignDomain& d = *side.domain;
  SignErrors& errors = t_->keys->sign_errors();
  if (!s.armed || errors.count == SignErrors::most) return;
  uint64_t mask = spread_mask(s.check_mask);
  if (d.dif()) {
    constexpr uint64_t app_ones = uint64_t{0xffff} << 32;
    const bool app = (value & app_ones) == app_ones, ref = (value & 0xffffffff) == 0xffffffff;
    if (app && (d.escape_app || (d.escape_app_ref && ref))) return;
    mask &= ~(app_ones & ~(uint64_t{d.app_mask} << 32));
  }
  const uint64_t made = side.made();
  const uint64_t wrong = (value ^ made) & mask;
  if (wrong == 0) return;
  uint16_t syndrome = prm::sig_err::guard;
  if (d.dif() && wrong >> 48 == 0)
    syndrome = wrong >> 32 != 0 ? prm::sig_err::app_tag : prm::sig_err::ref_tag;
  s.armed = false;
  errors.list[errors.count++] = {key_->key, syndrome, domain, d.transaction,
                                 !reading_, value,    made,   side.index * (d.block + d.bytes())};
}

bool SignedStream::end_mem_block_read() noexcept {
  std::byte raw[8]{};
  if (!memory_.copy(raw, mem_.domain->bytes(), true)) return false;
  input_ = load_signature(*mem_.domain, raw);
  has_input_ = true;
  check(mem_, input_, prm::sig_err::memory);
  mem_.begin(mem_.index + 1);
  return true;
}

bool SignedStream::end_mem_block_write() noexcept {
  std::byte raw[8]{};
  store_signature(*mem_.domain, merged(mem_.made()), raw);
  if (!memory_.copy(raw, mem_.domain->bytes(), false)) return false;
  mem_.begin(mem_.index + 1);
  return true;
}

bool SignedStream::read(std::byte* to, uint64_t bytes) noexcept {
  while (bytes > 0) {
    uint64_t n = 0;
    if (in_signature_) {
      n = std::min<uint64_t>(bytes, wire_.domain->bytes() - signature_done_);
      std::memcpy(to, signature_ + signature_done_, n);
      signature_done_ += static_cast<uint32_t>(n);
      if (signature_done_ == wire_.domain->bytes()) end_signature();
    } else {
      n = wire_.straight(mem_.straight(bytes));
      if (!memory_.copy(to, n, true)) return false;
      const bool whole = wire_.add(to, n);
      if (mem_.add(to, n) && !end_mem_block_read()) return false;
      if (whole) {
        store_signature(*wire_.domain, merged(wire_.made()), signature_);
        in_signature_ = true;
        signature_done_ = 0;
      }
    }
    to += n;
    place_ += n;
    bytes -= n;
  }
  return true;
}

void SignedStream::end_signature() noexcept {
  in_signature_ = false;
  has_input_ = false;
  wire_.begin(wire_.index + 1);
}

bool SignedStream::write_signature(const std::byte* from, uint64_t n) noexcept {
  std::memcpy(signature_ + signature_done_, from, n);
  signature_done_ += static_cast<uint32_t>(n);
  if (signature_done_ < wire_.domain->bytes()) {
    std::memcpy(key_->signature->held, signature_, sizeof(signature_));
    key_->signature->held_place = place_ + n;
    return true;
  }
  if (known_) {
    input_ = load_signature(*wire_.domain, signature_);
    has_input_ = true;
    check(wire_, input_, prm::sig_err::wire);
  }
  if (waits_for_wire() && !end_mem_block_write()) return false;
  end_signature();
  return true;
}

// The sums are over what comes, which memory may have encrypted.
bool SignedStream::write(std::byte* from, uint64_t bytes) noexcept {
  while (bytes > 0) {
    uint64_t n = 0;
    if (in_signature_) {
      n = std::min<uint64_t>(bytes, wire_.domain->bytes() - signature_done_);
      if (!write_signature(from, n)) return false;
    } else {
      n = wire_.straight(mem_.straight(bytes));
      const bool wire_ends = wire_.add(from, n), mem_ends = mem_.add(from, n);
      if (!memory_.copy(from, n, false)) return false;
      if (wire_ends) {
        in_signature_ = known_ = true;
        signature_done_ = 0;
      }
      if (mem_ends && !waits_for_wire() && !end_mem_block_write()) return false;
    }
    from += n;
    place_ += n;
    bytes -= n;
  }
  return true;
}

}  // namespace kilim::vhca::tpt
