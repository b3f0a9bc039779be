// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Ethernet Segment", "Send WQE Format for Ethernet". Adapter's lock held. Never allocates; a
// WQE is untrusted.
#include "vhca/ethernet/eth_form.hh"

#include <algorithm>
#include <cstring>

#include "kilim/prm/eth_seg.hh"

namespace kilim::vhca::ethernet {

namespace {

constexpr uint32_t longest_inline_header = 0x3ff;
constexpr uint32_t type_of_c_tag = 0x8100, type_of_s_tag = 0x88a8;

// Linux mlx5e_txwqe_... (en_tx.c, mlx5e_sq_xmit_wqe): a tag is put in only where no byte of the
// frame lies in the WQE, since both have the same place.
bool read_insertion(const prm::EthSeg& seg, uint32_t& tag) noexcept {
  const uint32_t word = seg.inline_hdr_sz.host();
  if ((word & ~uint32_t{prm::eth::insert_vlan | prm::eth::svlan}) != 0) return false;
  be16 tci;
  std::memcpy(&tci, seg.inline_hdr_start, sizeof(tci));
  tag = ((word & prm::eth::svlan) != 0 ? type_of_s_tag : type_of_c_tag) << 16 | tci.host();
  return true;
}

}  // namespace

// The frame's beginning is in the WQE where the adapter steers by that. libmlx5 puts 18 bytes there
// (the Ethernet header with a tag) whatever else it is told (mlx5.c, eth_min_inline_size), so that
// no more can be demanded (Linux en_tx.c, mlx5e_calc_min_inline, MLX5E_MIN_INLINE).
bool has_beginning(const Profile& p, const EthForm& form) noexcept {
  constexpr uint64_t l2_bytes = 18;
  return p.min_inline == 0 ||
         form.head.size() >= std::min(l2_bytes, form.head.size() + form.data.total);
}

bool read_form(const wq::EngineContext& context, const wq::SendWqe& wqe, EthForm& form) noexcept {
  const std::span<const std::byte> body = wqe.body();
  constexpr std::size_t in_segment = sizeof(prm::EthSeg::inline_hdr_start);
  constexpr std::size_t head_at = offsetof(prm::EthSeg, inline_hdr_start);
  prm::EthSeg seg;
  if (body.size() < sizeof(seg)) return false;
  std::memcpy(&seg, body.data(), sizeof(seg));
  std::memcpy(&form.ask, body.data(), sizeof(form.ask));
  if (!is_offered(*context.profile, form.ask)) return false;
  form.mss = seg.mss.host();
  form.tag = 0;
  std::size_t inlined = seg.inline_hdr_sz.host();
  if ((inlined & prm::eth::insert_vlan) != 0) {
    if (!context.profile->vlan_insertion || !read_insertion(seg, form.tag)) return false;
    inlined = 0;
  }
  if (inlined > longest_inline_header) return false;
  const std::size_t spill = inlined > in_segment ? inlined - in_segment : 0;
  const std::size_t behind = sizeof(seg) + (spill + 15) / 16 * 16;
  if (behind > body.size()) return false;
  form.head = body.subspan(head_at, inlined);
  return wq::decode_data(body, behind, form.data);
}

}  // namespace kilim::vhca::ethernet
