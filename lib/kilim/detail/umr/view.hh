// SPDX-License-Identifier: BSD-3-Clause
// View: the pieces of memory that one key presents as a single range, in order. Pieces may overlap
// and may lie under any keys, indirect ones included.
// Values, any thread; the pieces belong to the caller and are read only while a WQE is built.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/prm/umr_seg.hh"

#if defined(__SSSE3__)
#include <emmintrin.h>
#endif

namespace kilim::inline v1::umr {

// Not empty and at most prm::umr::max_piece_bytes long.
using Piece = queue::Sge;

// The pieces are the caller's and are not copied.
struct View {
  const Piece* pieces = nullptr;
  uint32_t count = 0;
  uint64_t length = 0;  // the sum over all pieces

  // A view of the caller's pieces. If one is empty or longer than 2 GiB, the view has no pieces,
  // and every builder refuses it; `length` is then that piece's. 2 GiB is the limit of a KLM
  // (mlx5_wqe_umr_klm_seg in rdma-core's mlx5dv.h, MLX5_MAX_KLM_BYTE_COUNT in DPDK's mlx5_prm.h).
  static View of(std::span<const Piece> pieces) noexcept {
    View v{pieces.data(), static_cast<uint32_t>(pieces.size()), 0};
    for (const Piece& p : pieces) {
      if (p.length == 0 || p.length > prm::umr::max_piece_bytes) return View{nullptr, 0, p.length};
      v.length += p.length;
    }
    return v;
  }
};

// Collects up to Capacity pieces. Empty pieces are skipped; pieces over 2 GiB are split.
template <uint32_t Capacity>
class PieceList {
 public:
  // False, and nothing is added: the list is full, or the range wraps.
  bool add(Lkey key, uint64_t address, uint64_t length) noexcept {
    if (length > prm::umr::max_piece_bytes) [[unlikely]]
      return add_split(key, address, length);
    if (length == 0) return true;
    if (count_ == Capacity) return false;
    store(count_++, key, address, static_cast<uint32_t>(length));
    length_ += length;
    return true;
  }
  // Empties the list, for the next view.
  void clear() noexcept {
    count_ = 0;
    length_ = 0;
  }
  [[nodiscard]] uint32_t count() const noexcept { return count_; }
  // The collected pieces, valid until the list changes.
  [[nodiscard]] View view() const noexcept { return View{pieces_.data(), count_, length_}; }

 private:
  // In one store: the WQE builder reads a piece in one load, and store forwarding needs equal
  // sizes.
  void store(uint32_t i, Lkey key, uint64_t address, uint32_t length) noexcept {
#if defined(__SSSE3__)
    const uint64_t high = uint64_t{key.value()} << 32 | length;
    _mm_store_si128(reinterpret_cast<__m128i*>(&pieces_[i]),
                    _mm_set_epi64x(static_cast<long long>(high), static_cast<long long>(address)));
#else
    pieces_[i] = Piece{address, length, key};
#endif
  }
  bool add_split(Lkey key, uint64_t address, uint64_t length) noexcept {
    constexpr uint64_t step = prm::umr::max_piece_bytes;
    if ((length - 1) / step + 1 > Capacity - count_ || address + length < address) return false;
    for (uint64_t left = length; left != 0;) {
      const uint64_t n = left < step ? left : step;
      store(count_++, key, address, static_cast<uint32_t>(n));
      address += n;
      left -= n;
    }
    length_ += length;
    return true;
  }

  uint32_t count_ = 0;
  uint64_t length_ = 0;
  // A multiple of four: GCC 12 cannot prove that the builder reads no piece behind the last.
  std::array<Piece, (Capacity + 3) / 4 * 4> pieces_;
};

}  // namespace kilim::inline v1::umr
