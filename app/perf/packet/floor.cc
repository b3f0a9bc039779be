// SPDX-License-Identifier: BSD-3-Clause
#include "perf/packet/floor.hh"

#include "kilim/detail/base/barrier.hh"
#include "kilim/detail/base/mmio.hh"
#include "kilim/detail/burst/packet_words.hh"
#include "kilim/prm/opcode.hh"

namespace kilim::perf {
namespace {

int word(const std::byte* at) noexcept {
  int w;
  std::memcpy(&w, at, sizeof w);
  return w;
}
// A word of four CQEs.
__m128i words(const std::byte* cqe, std::size_t offset) noexcept {
  cqe += offset;
  return _mm_setr_epi32(word(cqe), word(cqe + 64), word(cqe + 128), word(cqe + 192));
}
__m128i load(const void* at) noexcept {
  return _mm_loadu_si128(static_cast<const __m128i*>(at));
}
void store(void* at, __m128i value) noexcept {
  _mm_storeu_si128(static_cast<__m128i*>(at), value);
}

}  // namespace

Floor::Floor(EmulatedNic& nic)
    : rq_(nic.rq().buf),
      rx_cqes_(nic.rx_cq().buf),
      sq_(nic.sq().buf),
      tx_cqes_(nic.tx_cq().buf),
      memory_(nic.arena().memory().data()),
      rq_record_(nic.rq().record),
      rx_record_(nic.rx_cq().record),
      sq_record_(nic.sq().record),
      tx_record_(nic.tx_cq().record),
      doorbell_(nic.sq().doorbell),
      sides_(nic.arena().sides()) {
  const uint32_t opcode = uint32_t{static_cast<uint8_t>(prm::Opcode::send)} << 16;
  qpn_word_ = nic.sq().qpn.value() << 8;
  control_ = _mm_setr_epi32(static_cast<int>(opcode),
                            static_cast<int>(be32{nic.sq().qpn.value() << 8 | 3}.raw()),
                            static_cast<int>(be32{prm::ctrl::only_first_error}.raw()), 0);
  key_ = _mm_set1_epi32(static_cast<int>(be32{packet_key.value()}.raw()));
  for (top_ = 0; top_ < packet_buffers; top_++) free_[top_] = top_;
  for (uint32_t i = 0; i < packet_ring; i++)
    queue::store_pointer(rq_ + std::size_t{i} * 16, 0, stride, packet_key);
  refill(packet_ring);
}

inline void Floor::refill(uint32_t count) noexcept {
  uint32_t* const buffers = &received_[posted_ & mask];
  std::byte* wqe = rq_ + std::size_t{posted_ & mask} * 16 + 8;
  top_ -= count;
  const __m128i base = _mm_set1_epi64x(static_cast<long long>(reinterpret_cast<uint64_t>(memory_)));
  const __m128i strides = _mm_set1_epi64x(stride);
  for (uint32_t i = 0; i < count; i += 4, wqe += 64) {
    const __m128i four = load(&free_[top_ + i]);
    store(buffers + i, four);
    const __m128i low = _mm_shuffle_epi8(
        _mm_add_epi64(_mm_mul_epu32(_mm_cvtepu32_epi64(four), strides), base), swap64_);
    const __m128i high = _mm_shuffle_epi8(
        _mm_add_epi64(_mm_mul_epu32(_mm_unpackhi_epi32(four, _mm_setzero_si128()), strides), base),
        swap64_);
    _mm_storel_pd(reinterpret_cast<double*>(wqe), _mm_castsi128_pd(low));
    _mm_storeh_pd(reinterpret_cast<double*>(wqe + 16), _mm_castsi128_pd(low));
    _mm_storel_pd(reinterpret_cast<double*>(wqe + 32), _mm_castsi128_pd(high));
    _mm_storeh_pd(reinterpret_cast<double*>(wqe + 48), _mm_castsi128_pd(high));
  }
  posted_ += count;
  before_doorbell_record();
  record_store(rq_record_, be32{posted_ & 0xffff});
}

// Side records of four packets. Their lengths are summed up by turn().
template <Way W>
inline void Floor::receive_four(const std::byte* cqe, const uint32_t* buffers) noexcept {
  const __m128i big = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
  const __m128i hash = _mm_shuffle_epi8(words(cqe, 12), big);
  const __m128i info = words(cqe, 28);
  const auto type = [cqe](std::size_t i) noexcept {
    return static_cast<int>(burst::packet_types[static_cast<uint8_t>(cqe[i * 64 + 29])]);
  };
  const __m128i types = _mm_setr_epi32(type(0), type(1), type(2), type(3));
  const __m128i none = _mm_cmpeq_epi32(hash, _mm_setzero_si128());
  __m128i flags = _mm_or_si128(_mm_and_si128(_mm_slli_epi32(info, 6), _mm_set1_epi32(0x180)),
                               _mm_andnot_si128(none, _mm_set1_epi32(2)));
  __m128i vlan = _mm_setzero_si128();
  if constexpr (W.received.vlan) {
    vlan = _mm_shuffle_epi8(
        info, _mm_setr_epi8(3, 2, -1, -1, 7, 6, -1, -1, 11, 10, -1, -1, 15, 14, -1, -1));
    const __m128i stripped = _mm_srai_epi32(_mm_slli_epi32(info, 23), 31);
    flags = _mm_or_si128(flags, _mm_and_si128(stripped, _mm_set1_epi32(burst::vlan_flags)));
  }
  const __m128i a = _mm_unpacklo_epi32(hash, types), b = _mm_unpackhi_epi32(hash, types);
  const __m128i c = _mm_unpacklo_epi32(flags, vlan), d = _mm_unpackhi_epi32(flags, vlan);
  store(&sides_[buffers[0]], _mm_unpacklo_epi64(a, c));
  store(&sides_[buffers[1]], _mm_unpackhi_epi64(a, c));
  store(&sides_[buffers[2]], _mm_unpacklo_epi64(b, d));
  store(&sides_[buffers[3]], _mm_unpackhi_epi64(b, d));
  if constexpr (W.received.timestamp)
    for (std::size_t i = 0; i < 4; i++)
      sides_[buffers[i]].timestamp =
          reinterpret_cast<const prm::Cqe*>(cqe + i * 64)->timestamp.host();
}

// Two packets from `wqe` on; returns the place of the next.
template <Way W>
inline std::byte* Floor::send_two(std::byte* wqe, __m128i heads, __m128i addresses) noexcept {
  const __m128i first = _mm_unpacklo_epi64(heads, addresses);
  const __m128i second = _mm_unpackhi_epi64(heads, addresses);
  if constexpr (W.multi_packet) {
    store(wqe, first);
    store(wqe + 16, second);
    return wqe + 32 == sq_ + std::size_t{packet_ring} * 64 ? sq_ : wqe + 32;
  }
  const __m128i order = _mm_setr_epi8(-1, 1, 0, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m128i one = _mm_cvtsi32_si128(1);
  store(wqe, _mm_shuffle_epi8(control_, order));
  store(wqe + 16, _mm_setzero_si128());
  store(wqe + 32, first);
  control_ = _mm_add_epi16(control_, one);
  store(wqe + 64, _mm_shuffle_epi8(control_, order));
  store(wqe + 80, _mm_setzero_si128());
  store(wqe + 96, second);
  control_ = _mm_add_epi16(control_, one);
  return wqe + 128;
}

// Frees what the oldest completion says, a burst of `count` packets.
inline void Floor::reclaim(uint32_t count) noexcept {
  const auto* cqe = reinterpret_cast<const prm::Cqe*>(tx_cqes_) + (tx_ci_ & mask);
  const bool owner = (tx_ci_ & packet_ring) != 0;
  if (cqe->op_own != prm::cqe::op_own(prm::CqeOpcode::req, false, owner)) return;
  after_owner_bit();
  for (uint32_t i = 0; i < count; i += 4) store(&free_[top_ + i], load(&sent_[(done_ + i) & mask]));
  top_ += count;
  done_ += count;
  statistics_.completed += count;
  tx_ci_++;
  record_store(tx_record_, be32{tx_ci_ & 0xffffff});
}

// Rings for everything up to blocks_, whose last WQE is `last`.
inline void Floor::announce(prm::CtrlSeg& last) noexcept {
  last.fm_ce_se = prm::ctrl::cq_update;
  before_doorbell_record();
  record_store(sq_record_, be32{blocks_ & 0xffff});
  before_doorbell();
  uint64_t first;
  std::memcpy(&first, &last, sizeof first);
  mmio_store64(doorbell_, first);
  flush_write_combining();
}

// The control and the Ethernet segment of a WQE of `count` packets.
inline void Floor::head_of_many(std::byte* wqe, uint32_t count) noexcept {
  auto& control = *reinterpret_cast<prm::CtrlSeg*>(wqe);
  control.opmod_idx_opcode =
      be32{(blocks_ & 0xffff) << 8 | static_cast<uint8_t>(prm::Opcode::enhanced_mpsw)};
  control.qpn_ds = be32{qpn_word_ | (count + 2)};
  store(wqe + 16, _mm_setzero_si128());
}

template <Way W>
inline uint32_t Floor::turn(uint32_t count) noexcept {
  const std::byte* cqe = rx_cqes_ + std::size_t{rx_ & mask} * 64;
  const uint32_t* buffers = &received_[rx_ & mask];
  uint32_t* const sent = &sent_[tx_ & mask];
  std::byte* const first = sq_ + std::size_t{blocks_ & mask} * 64;
  const int good = static_cast<int>(
      uint32_t{prm::cqe::op_own(prm::CqeOpcode::resp_send, false, (rx_ & packet_ring) != 0)} << 24);
  const __m128i base = _mm_set1_epi64x(static_cast<long long>(reinterpret_cast<uint64_t>(memory_)));
  const __m128i strides = _mm_set1_epi64x(stride);
  const __m128i swap32 = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
  __m128i sum = _mm_setzero_si128();
  reclaim(count);
  if constexpr (W.multi_packet) head_of_many(first, count);
  std::byte* wqe = W.multi_packet ? first + 32 : first;
  for (uint32_t i = 0; i < count; i += 4, cqe += 256, buffers += 4) {
    const __m128i owners = _mm_xor_si128(words(cqe, 60), _mm_set1_epi32(good));
    if (_mm_testz_si128(owners, _mm_set1_epi32(static_cast<int>(0xff000000))) == 0) return i;
    after_owner_bit();
    receive_four<W>(cqe, buffers);
    const __m128i lengths = words(cqe, 44);
    sum = _mm_add_epi32(sum, _mm_shuffle_epi8(lengths, swap32));
    const __m128i four = load(buffers);
    store(sent + i, four);
    const __m128i low = _mm_add_epi64(_mm_mul_epu32(_mm_cvtepu32_epi64(four), strides), base);
    const __m128i high =
        _mm_add_epi64(_mm_mul_epu32(_mm_unpackhi_epi32(four, _mm_setzero_si128()), strides), base);
    if constexpr (W.mac) {
      for (const long long at : {_mm_cvtsi128_si64(low), _mm_extract_epi64(low, 1),
                                 _mm_cvtsi128_si64(high), _mm_extract_epi64(high, 1)})
        std::memset(reinterpret_cast<void*>(at), 0, 12);
    }
    wqe = send_two<W>(wqe, _mm_unpacklo_epi32(lengths, key_), _mm_shuffle_epi8(low, swap64_));
    wqe = send_two<W>(wqe, _mm_unpackhi_epi32(lengths, key_), _mm_shuffle_epi8(high, swap64_));
  }
  sum = _mm_add_epi32(sum, _mm_srli_si128(sum, 8));
  const auto bytes = static_cast<uint32_t>(_mm_cvtsi128_si32(sum) + _mm_extract_epi32(sum, 1));
  rx_ += count;
  tx_ += count;
  blocks_ += W.multi_packet ? (count + 2 + 3) / 4 : count;
  statistics_.received += count;
  statistics_.received_bytes += bytes;
  statistics_.sent += count;
  statistics_.sent_bytes += bytes;
  record_store(rx_record_, be32{rx_ & 0xffffff});
  announce(*reinterpret_cast<prm::CtrlSeg*>(W.multi_packet ? first : wqe - 64));
  refill(count);
  return count;
}

template <Way W>
KILIM_AVX2 [[gnu::flatten]] uint32_t Floor::turn_avx2(uint32_t count) noexcept {
  return turn<W>(count);
}

template <Way W>
uint32_t Floor::forward(uint32_t count) noexcept {
  if constexpr (W.simd == burst::Simd::avx2) return turn_avx2<W>(count);
  return turn<W>(count);
}

template uint32_t Floor::forward<ways::sse>(uint32_t) noexcept;
template uint32_t Floor::forward<ways::sse_mac>(uint32_t) noexcept;
template uint32_t Floor::forward<ways::sse_mpw>(uint32_t) noexcept;
template uint32_t Floor::forward<ways::sse_all>(uint32_t) noexcept;
template uint32_t Floor::forward<ways::avx2>(uint32_t) noexcept;
template uint32_t Floor::forward<ways::avx2_mac>(uint32_t) noexcept;
template uint32_t Floor::forward<ways::avx2_mpw>(uint32_t) noexcept;
template uint32_t Floor::forward<ways::avx2_mpw_mac>(uint32_t) noexcept;
template uint32_t Floor::forward<ways::avx2_all>(uint32_t) noexcept;

}  // namespace kilim::perf
