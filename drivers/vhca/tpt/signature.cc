// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Byte Stream Format". Reads a BSF out of a UMR WQE: whatever the adapter does not do is
// refused. Pure values; the bytes are untrusted.
#include "vhca/tpt/signature.hh"

#include <cstring>

#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/crypto_seg.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::vhca::tpt {

namespace {

namespace bsf = prm::bsf;

// 0: no such size.
uint32_t block_bytes(uint8_t selector, const Profile& p) noexcept {
  switch (selector) {
    case bsf::block_512:
      return 512;
    case bsf::block_520:
      return 520;
    case bsf::block_4096:
      return 4096;
    case bsf::block_4160:
      return 4160;
    case bsf::block_4048:
      return p.signature_4048 ? 4048 : 0;
    default:
      return 0;
  }
}

SignKind crc_kind(uint8_t format, const Profile& p) noexcept {
  switch (format & bsf::format_mask) {
    case bsf::crc32:
      return SignKind::crc32;
    case bsf::crc32c:
      return p.signature_crc32c ? SignKind::crc32c : SignKind::none;
    case bsf::crc64_xp10:
      return p.signature_crc64 ? SignKind::crc64 : SignKind::none;
    default:
      return SignKind::none;
  }
}

const char* decode_dif(const prm::BsfInline& in, SignDomain& d) noexcept {
  constexpr uint8_t known_seed = bsf::repeat_block | bsf::seed_ones;
  constexpr uint8_t known_checks = bsf::count_ref_tag | bsf::app_escape | bsf::app_ref_escape;
  const uint16_t valid = in.valid_refresh.host();
  if ((valid & ~(bsf::valid | bsf::refresh)) != 0 || (in.repeat_seed & ~known_seed) != 0 ||
      (in.checks & ~known_checks) != 0)
    return "unknown bits in an inline section";
  if (in.guard_type != bsf::guard_crc && in.guard_type != bsf::guard_checksum)
    return "no such block guard";
  if ((in.repeat_seed & bsf::repeat_block) == 0) return "blocks that do not repeat";
  d.kind = in.guard_type == bsf::guard_crc ? SignKind::dif_crc : SignKind::dif_checksum;
  d.refresh = (valid & bsf::refresh) != 0;
  d.ones = (in.repeat_seed & bsf::seed_ones) != 0;
  d.count_ref = (in.checks & bsf::count_ref_tag) != 0;
  d.escape_app = (in.checks & bsf::app_escape) != 0;
  d.escape_app_ref = (in.checks & bsf::app_ref_escape) != 0;
  d.app_tag = in.app_tag.host();
  d.app_mask = in.app_mask.host();
  d.ref_tag = in.ref_tag.host();
  return nullptr;
}

struct RawDomain {
  uint8_t format, block;
  uint32_t psv;
  const prm::BsfInline& in;
};

const char* decode_domain(const RawDomain& r, const Profile& p, SignDomain& d) noexcept {
  const bool dif = (r.in.valid_refresh.host() & bsf::valid) != 0;
  if (!dif && r.format == 0) {
    if (r.psv != 0 || r.block != 0) return "a domain without a format";
    return nullptr;
  }
  d.psv = r.psv;
  d.block = block_bytes(r.block, p);
  if (d.block == 0) return "no such size of a block";
  if (dif) return r.format == 0 ? decode_dif(r.in, d) : "two formats for a domain";
  d.kind = crc_kind(r.format, p);
  if (d.kind == SignKind::none) return "no such format of a block";
  if ((r.format & bsf::repeat) == 0) return "blocks that do not repeat";
  d.ones = (r.format & bsf::zero_seed) == 0;
  return nullptr;
}

// SPDK, lib/mlx5/mlx5_umr.c, mlx5_set_umr_sig_bsf_seg(): one CRC-32C behind all of the data, of one
// domain. Of those that take several UMRs the sum under way would have to be kept: refused.
const char* decode_transaction(const prm::Bsf& b, const Profile& p, SignDomain& mem,
                               SignDomain& wire) noexcept {
  const bool of_wire = b.wire_transaction.host() != 0;
  const uint32_t format =
      of_wire ? bsf::wire_transaction_format::get(b) : bsf::mem_transaction_format::get(b);
  const uint32_t raw = b.raw_data_size.host();
  if (of_wire == (b.mem_transaction.host() != 0)) return "a transaction of one domain";
  if (b.wire_format.host() != 0 || b.mem_format.host() != 0 || b.wire_block != 0 ||
      b.mem_block != 0 || b.epilogue_size.host() != 0)
    return "a transaction of blocks";
  if (b.init_size.host() !=
      (of_wire ? bsf::wire_begins | bsf::wire_checks : bsf::mem_begins | bsf::mem_checks))
    return "a transaction begins and ends in its request";
  if ((format & ~uint32_t{bsf::zero_seed}) != bsf::crc32c || !p.signature_crc32c)
    return "no such format of a transaction";
  if (raw == 0 || raw > prm::umr::max_piece_bytes) return "no such size of a transaction";
  SignDomain& d = of_wire ? wire : mem;
  d.kind = SignKind::crc32c;
  d.transaction = true;
  d.ones = (format & bsf::zero_seed) == 0;
  d.block = raw;
  d.psv = of_wire ? bsf::wire_transaction_psv::get(b) : bsf::mem_transaction_psv::get(b);
  return nullptr;
}

// Both domains' blocks.
const char* decode_blocks(const prm::Bsf& b, const Profile& p, Signature& n) noexcept {
  if (b.init_size.host() != 0 || b.epilogue_size.host() != 0 || b.wire_transaction.host() != 0 ||
      b.mem_transaction.host() != 0)
    return "a transaction of blocks";
  n.same_blocks = (b.size_sbs & bsf::same_blocks) != 0;
  n.copy_mask = n.same_blocks ? b.wire_block : 0;
  const uint8_t wire_block = n.same_blocks ? b.mem_block : b.wire_block;
  if (const char* why = decode_domain(
          {static_cast<uint8_t>(bsf::mem_format::get(b)), b.mem_block, bsf::mem_psv::get(b), b.mem},
          p, n.mem))
    return why;
  return decode_domain(
      {static_cast<uint8_t>(bsf::wire_format::get(b)), wire_block, bsf::wire_psv::get(b), b.wire},
      p, n.wire);
}

bool same_structure(const SignDomain& a, const SignDomain& b) noexcept {
  return a.dif() ? b.dif() : a.kind == b.kind && a.kind != SignKind::none;
}

}  // namespace

const char* decode_bsf(std::span<const std::byte> bytes, BesideBsf beside, const Profile& p,
                       Signature& s) noexcept {
  prm::Bsf b;
  if (bytes.size() != sizeof(b)) return "a BSF has 64 bytes";
  std::memcpy(&b, bytes.data(), sizeof(b));
  const uint8_t size = b.size_sbs & bsf::size_mask;
  const uint8_t flags = size != bsf::size_extended ? bsf::same_blocks : uint8_t{0};
  const uint8_t blocks =
      beside == BesideBsf::crypto ? prm::crypto::with_signature : bsf::size_with_inline;
  if ((size != blocks && (size != bsf::size_extended || beside == BesideBsf::crypto)) ||
      (b.size_sbs & ~(bsf::size_mask | flags)) != 0)
    return "a BSF of another size or type";
  Signature n;
  n.check_mask = b.check_mask;
  const char* why =
      size == bsf::size_extended ? decode_transaction(b, p, n.mem, n.wire) : decode_blocks(b, p, n);
  if (why != nullptr) return why;
  if (n.same_blocks && !same_structure(n.mem, n.wire)) return "the blocks of both are not the same";
  const uint32_t raw = b.raw_data_size.host();
  n.data_bytes = raw == bsf::any_raw_size ? ~uint64_t{0} : raw;
  n.set = true;
  n.enabled = s.enabled;
  n.on = s.on;
  n.armed = s.armed;
  s = n;
  return nullptr;
}

}  // namespace kilim::vhca::tpt
