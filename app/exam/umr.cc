// SPDX-License-Identifier: BSD-3-Clause
#include "umr.hh"

#include <utility>

namespace kilim::exam {
namespace {

constexpr std::size_t entries_of_granule = prm::umr::granule_bytes / sizeof(prm::Klm);

}  // namespace

mlx5dv_mkey* make_key(const Device& device, uint16_t entries) {
  mlx5dv_mkey_init_attr attr{};
  attr.pd = device.pd;
  attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  attr.max_entries = entries;
  mlx5dv_mkey* key = mlx5dv_create_mkey(&attr);
  if (key == nullptr) give_up(*device.answer, "an indirect key is refused");
  return key;
}

prm::Klm klm(const void* at, uint32_t bytes, uint32_t lkey) {
  return {be32{bytes}, be32{lkey}, be64{place(at)}};
}

UmrWish covering(const Device& device, const mlx5dv_mkey* key, std::vector<prm::Klm> list) {
  UmrWish wish;
  wish.key = key->lkey;
  if (!device.umr_sets_atomics) wish.mask &= ~prm::umr::mask_atomic;
  wish.new_tag = static_cast<uint8_t>(key->lkey);
  for (const prm::Klm& k : list) wish.len += k.byte_count.host();
  wish.list = std::move(list);
  return wish;
}

Wqe umr(const UmrWish& wish) {
  std::vector<prm::Klm> list = wish.list;
  list.resize((list.size() + entries_of_granule - 1) / entries_of_granule * entries_of_granule);
  prm::UmrCtrlSeg control{};
  control.flags = wish.flags;
  control.klm_octowords = be16{static_cast<uint16_t>(list.size())};
  if (wish.patch_at >= 0) {
    control.flags = static_cast<uint8_t>(control.flags | prm::umr::has_translation_offset);
    control.translation_offset = be16{static_cast<uint16_t>(wish.patch_at)};
    control.translation_offset_47_16 = be32{static_cast<uint32_t>(wish.patch_at >> 16)};
  }
  control.mkey_mask = be64{wish.mask};
  prm::MkeyContextSeg context{};
  context.free = wish.free ? prm::mkey::free : uint8_t{0};
  context.access_flags = wish.access;
  context.qpn_mkey = be32{wish.qpn << 8 | wish.new_tag};
  context.start_addr = be64{wish.start};
  context.len = be64{wish.len};
  context.log_page_size = wish.log_entity;
  Wqe wqe{.opcode = MLX5_OPCODE_UMR, .imm = wish.key, .body = {}};
  wqe.add(control).add(context);
  for (const prm::Klm& k : list) wqe.add(k);
  return wqe;
}

}  // namespace kilim::exam
