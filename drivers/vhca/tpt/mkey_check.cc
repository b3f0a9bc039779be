// SPDX-License-Identifier: BSD-3-Clause
#include "vhca/tpt/mkey_check.hh"

#include <algorithm>
#include <cstring>

#include "kilim/detail/base/units.hh"
#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/crypto_seg.hh"
#include "kilim/prm/umr_seg.hh"
#include "vhca/tpt/list.hh"

namespace kilim::vhca::tpt {

namespace {

namespace mkc = prm::mkc;

// What mlx5_ifc_mkc_bits reserves (Linux include/linux/mlx5/mlx5_ifc.h, rdma-core v44
// providers/mlx5/mlx5_ifc.h), word by word.
constexpr uint32_t reserved_in_flags = 1u << 31 | 1u << 29 | 0x3f80000 | 1u << 17 | 0xff;
constexpr uint32_t reserved_in_pd = 3u << 27 | 1u << 25;
constexpr uint32_t reserved_in_page_size = ~0x5fu;
constexpr uint32_t reserved_in_crypto = ~(3u << 27);

bool reserves(const prm::Mkc& c) noexcept {
  const bool middle = std::any_of(std::begin(c.reserved_24), std::end(c.reserved_24),
                                  [](be32 w) { return w.host() != 0; });
  return (c.flags.host() & reserved_in_flags) != 0 || c.reserved_8.host() != 0 || middle ||
         (c.flags_pd.host() & reserved_in_pd) != 0 ||
         (c.log_page_size.host() & reserved_in_page_size) != 0 ||
         (c.crypto.host() & reserved_in_crypto) != 0;
}

// The room for BSFs: 64 bytes for a signature, and for encryption (verbs.c, _mlx5dv_create_mkey()).
const char* descriptors(const prm::Mkc& c, const Profile& profile) noexcept {
  const bool bsf = mkc::bsf_en::get(c) != 0, crypto = mkc::crypto_en::get(c) != 0;
  const uint32_t octowords = c.bsf_octword_size.host();
  if (crypto && profile.crypto_tweak == CryptoTweak::none) return "this adapter encrypts nothing";
  if (mkc::crypto_en::get(c) > 1) return "no such way of encryption";
  if (crypto && !bsf) return "an encrypted key without BSFs";
  const bool both = crypto && octowords == prm::bsf::octowords + prm::crypto::octowords;
  if (bsf && (!crypto || both) && !profile.signature)
    return "this adapter has no signature offload";
  if (!both && octowords != (bsf ? prm::bsf::octowords : 0))
    return "a signature takes 64 bytes, encryption takes 64 bytes, and other keys have none";
  return nullptr;
}

const char* features(const prm::Mkc& c, const Profile& profile) noexcept {
  if (reserves(c)) return "a reserved bit is set";
  if (const char* why = descriptors(c, profile)) return why;
  const bool umr = mkc::umr_en::get(c) != 0;
  if (umr && (!profile.umr || profile.umr_indirect_mkey_disabled))
    return "this adapter changes no list by a send queue";
  return nullptr;
}

// UCX, uct_ib_mlx5_devx_reg_ksm_data_contig(): firmware wants address and length of an indirect key
// for atomics aligned to the largest atomic, and checks that the entries can hold the range.
const char* range(const prm::Mkc& c, uint64_t entries, uint64_t most_of_one) noexcept {
  constexpr uint64_t atomic_bytes = 8;
  const uint64_t start = c.start_addr.host(), len = c.len.host();
  if (mkc::atomic::get(c) != 0 && ((start | len) & (atomic_bytes - 1)) != 0)
    return "a key for atomics begins and ends at a multiple of eight bytes";
  if (mkc::length64::get(c) != 0) return nullptr;
  if (len > entries * most_of_one) return "the key is longer than its entries can be";
  if (len != 0 && start + (len - 1) < start) return "the key wraps";
  return nullptr;
}

// The bytes that a key's own list shows; a later UMR may show others.
uint64_t bytes_of(std::span<const std::byte> list) noexcept {
  const auto entry = [&](std::size_t i, auto& e) noexcept {
    std::memcpy(&e, list.data() + i * octoword_bytes, sizeof e);
  };
  prm::RepeatBlockSeg head;
  entry(0, head);
  if (head.op.host() == prm::repeat_block_op)
    return uint64_t{head.repeat_count.host()} * head.byte_count.host();
  uint64_t sum = 0;
  for (std::size_t i = 0; i < list.size() / octoword_bytes; i++) {
    prm::Klm e;
    entry(i, e);
    const bool padding = e.byte_count.host() == 0 && e.mkey.host() == 0;
    sum += padding ? 0 : e.byte_count.host() != 0 ? e.byte_count.host() : prm::umr::max_piece_bytes;
  }
  return sum;
}

// Firmware checks that what a command lists is as long as it says (UCX, as above); of a key without
// a list of its own nothing is asked before a UMR fills it.
bool falls_short(const prm::Mkc& c, std::span<const std::byte> list) noexcept {
  return !list.empty() && mkc::length64::get(c) == 0 && bytes_of(list) < c.len.host();
}

}  // namespace

const char* mkey_objection(const prm::Mkc& c, std::span<const std::byte> list,
                           const Profile& profile) noexcept {
  const uint32_t mode = mkc::access_mode_4_2::get(c) << 2 | mkc::access_mode_1_0::get(c);
  const bool ksm = mode == mkc::access_mode_ksm;
  if (mode != mkc::access_mode_klm && !ksm)
    return "a key made by command is a list of other keys (KLM or KSM)";
  if (const char* why = features(c, profile)) return why;
  const uint32_t entries = c.translations_octword_size.host();
  if (entries == 0) return "a list needs at least one entry";
  if (entries > 1u << profile.log_max_klm_list_size) return "the list exceeds the adapter's limit";
  if (list.size() > std::size_t{entries} * octoword_bytes) return "more entries than the key holds";
  const uint32_t entity = mkc::log_entity_size::get(c);
  if (ksm && entity < 12) return "entries of fixed size span at least 4096 bytes";
  if (const char* why = range(c, entries, ksm ? uint64_t{1} << entity : prm::umr::max_piece_bytes))
    return why;
  Mkey shape;
  shape.mode = ksm ? KeyMode::ksm : KeyMode::klm;
  const auto octowords = static_cast<uint32_t>(list.size() / octoword_bytes);
  if (const char* why = list_objection(shape, list, 0, octowords, profile)) return why;
  return !ksm && falls_short(c, list) ? "the key is longer than its own list" : nullptr;
}

}  // namespace kilim::vhca::tpt
