// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Byte Stream Format" of type crypto. Reads it out of a UMR WQE: whatever the adapter does
// not do is refused. Pure values; the bytes are untrusted.
#include "vhca/tpt/crypto.hh"

#include <cstring>

#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/crypto_seg.hh"

namespace kilim::vhca::tpt {

namespace {

namespace bsf = prm::bsf;

// 0: no such size.
uint32_t unit_bytes(uint8_t selector) noexcept {
  switch (selector) {
    case bsf::block_512:
      return 512;
    case bsf::block_520:
      return 520;
    case bsf::block_4048:
      return 4048;
    case bsf::block_4096:
      return 4096;
    case bsf::block_4160:
      return 4160;
    case prm::crypto::unit_1_mib:
      return 1u << 20;
    default:
      return 0;
  }
}

bool reserves(const prm::CryptoBsf& b) noexcept {
  const auto set = [](uint8_t byte) { return byte != 0; };
  return b.rsvd0 != 0 || std::any_of(std::begin(b.rsvd1), std::end(b.rsvd1), set) ||
         std::any_of(std::begin(b.rsvd2), std::end(b.rsvd2), set) ||
         std::any_of(std::begin(b.rsvd3), std::end(b.rsvd3), set) || b.dek.host() >> 24 != 0;
}

// mlx5dv_wr_set_mkey_crypto(3): what happens in memory's direction, and on which side of the
// signatures. libmlx5, get_crypto_order(): the raw orders do not go with signatures in both
// domains.
void decode_order(uint8_t order, Crypto& n) noexcept {
  namespace crypto = prm::crypto;
  n.encrypts_tx = order == crypto::wire_signature || order == crypto::raw_wire;
  n.by_memory = order == crypto::memory_signature || order == crypto::raw_wire;
  n.raw = order == crypto::raw_wire || order == crypto::raw_memory;
}

}  // namespace

AesBlock Crypto::number(uint64_t index) const noexcept {
  AesBlock sum = tweak;
  for (std::size_t i = 0; i < sum.size() && index > 0; i++) {
    index += sum[i];
    sum[i] = static_cast<uint8_t>(index);
    index >>= 8;
  }
  return sum;
}

const char* decode_crypto_bsf(std::span<const std::byte> bytes, CryptoBsfForm form,
                              const Profile& p, Crypto& c) noexcept {
  prm::CryptoBsf b;
  if (bytes.size() != sizeof b) return "a crypto BSF has 64 bytes";
  std::memcpy(&b, bytes.data(), sizeof b);
  const uint8_t size = form.with_signature ? prm::crypto::with_signature : bsf::size_with_inline;
  if (b.size_type != (size | prm::crypto::type)) return "a crypto BSF of another size or type";
  if (reserves(b)) return "a reserved bit of a crypto BSF is set";
  if (b.standard != 0) return "no such encryption standard";
  if (b.order > prm::crypto::raw_memory) return "no such order of encryption";
  Crypto n;
  decode_order(b.order, n);
  if (n.raw && form.both_domains) return "raw encryption with signatures in both domains";
  n.unit = unit_bytes(b.unit);
  if (n.unit == 0) return "no such size of a data unit";
  n.dek = b.dek.host();
  const uint32_t raw = b.raw_data_size.host();
  n.data_bytes = raw == bsf::any_raw_size ? ~uint64_t{0} : raw;
  std::memcpy(n.tweak.data(), b.tweak, sizeof b.tweak);
  if (p.crypto_tweak == CryptoTweak::big_endian) std::reverse(n.tweak.begin(), n.tweak.end());
  n.set = true;
  c = n;
  return nullptr;
}

bool tag_fits(std::span<const std::byte> bytes, const Dek& dek) noexcept {
  prm::CryptoBsf b;
  if (bytes.size() != sizeof b) return false;
  std::memcpy(&b, bytes.data(), sizeof b);
  return !dek.has_tag || std::memcmp(b.keytag, dek.tag.data(), sizeof b.keytag) == 0;
}

}  // namespace kilim::vhca::tpt
