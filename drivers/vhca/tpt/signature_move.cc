// SPDX-License-Identifier: BSD-3-Clause
// Both ends of a transfer as streams of the wire's bytes, and a window between them. Adapter's lock
// held. Never allocates; client memory only by the guarded copy.
#include "vhca/tpt/signature_move.hh"

#include <algorithm>

#include "vhca/tpt/converted_stream.hh"

namespace kilim::vhca::tpt {

namespace {

constexpr std::size_t window_bytes = 4096;

// The segments of a list, one after the other.
class EndStream {
 public:
  EndStream(const Translator& t, const SegmentList& list, uint64_t bytes, Transfer& result) noexcept
      : t_(t), list_(list), left_(bytes), result_(result) {}

  bool read(std::byte* to, uint64_t bytes) noexcept { return go(to, bytes, true); }
  bool write(std::byte* from, uint64_t bytes) noexcept { return go(from, bytes, false); }

 private:
  bool go(std::byte* at, uint64_t bytes, bool reading) noexcept {
    while (bytes > 0) {
      if (in_segment_ == 0 && !next(reading)) return false;
      const uint64_t n = std::min(bytes, in_segment_);
      bool ok = false;
      if (!converted_)
        ok = copy(at, n, reading);
      else
        ok = reading ? stream_.read(at, n) : stream_.write(at, n);
      if (!ok) return false;
      at += n;
      bytes -= n;
      in_segment_ -= n;
    }
    return true;
  }

  bool next(bool reading) noexcept {
    Verdict& verdict = reading ? result_.source : result_.target;
    while (in_segment_ == 0) {
      if (at_ == list_.segments.size()) {
        verdict = protection::list;
        return false;
      }
      Segment s = list_.segments[at_++];
      s.bytes = in_segment_ = std::min(s.bytes, left_);
      left_ -= in_segment_;
      if (in_segment_ == 0) continue;
      piece_ = {s.addr, s.immediate ? s.bytes : 0, nullptr};
      const Mkey* m = s.immediate ? nullptr : t_.keys->at(s.key >> 8);
      converted_ = m != nullptr && m->converts();
      if (converted_) return stream_.open(t_, s, list_.need, reading, result_);
      if (s.immediate) return true;
      verdict = walk_.open(*t_.keys, t_.max_indirection, s.key, s.addr, s.bytes, list_.need);
      if (!verdict.ok()) return false;
    }
    return true;
  }

  bool copy(std::byte* at, uint64_t bytes, bool reading) noexcept {
    while (bytes > 0) {
      if (piece_.bytes == 0 && !walk_.next(piece_)) {
        (reading ? result_.source : result_.target) = walk_.denied();
        return false;
      }
      const uint64_t n = std::min(bytes, piece_.bytes);
      const Piece mine{reinterpret_cast<uint64_t>(at), n, nullptr};
      if (!(reading ? copy_piece(mine, piece_, n, result_) : copy_piece(piece_, mine, n, result_)))
        return false;
      piece_ = {piece_.va + n, piece_.bytes - n, piece_.paged};
      at += n;
      bytes -= n;
    }
    return true;
  }

  const Translator& t_;
  const SegmentList& list_;
  uint64_t left_;
  Transfer& result_;
  std::size_t at_ = 0;
  uint64_t in_segment_ = 0;
  bool converted_ = false;
  Walk walk_;
  Piece piece_{0, 0, nullptr};
  ConvertedStream stream_;
};

}  // namespace

void move_signed(const Translator& t, const SegmentList& from, const SegmentList& to,
                 uint64_t bytes, Transfer& result) noexcept {
  EndStream source(t, from, bytes, result), target(t, to, bytes, result);
  std::byte window[window_bytes];
  while (bytes > 0) {
    const uint64_t n = std::min<uint64_t>(bytes, sizeof(window));
    if (!source.read(window, n) || !target.write(window, n)) return;
    bytes -= n;
  }
}

}  // namespace kilim::vhca::tpt
