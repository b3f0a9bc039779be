// SPDX-License-Identifier: BSD-3-Clause
// The WQEs with which Kilim encrypts a key, signed or not, are those that libmlx5 writes for the
// same rule: random rules, byte for byte, the queue pair's number aside. Both queues work on one
// key, its PSVs and its encryption key.
#include <random>
#include <string>

#include "kilim/detail/umr/crypto.hh"
#include "mlx5/encryption_key.hh"
#include "twins_fixture.hh"
#include "ut.hh"

namespace crypto_golden_ut {
namespace {

using namespace kilim;
using test::first_difference;
using test::Twins;
using umr::CryptoOrder;
using umr::CryptoPlace;
using umr::CryptoUnit;

struct Request {
  std::vector<ibv_sge> sges;
  umr::CryptoRule rule;
  bool signs = false;
  umr::SignRule sign;
};

constexpr struct {
  CryptoUnit ours;
  mlx5dv_block_size theirs;
  uint32_t bytes;
} units[] = {{CryptoUnit::bytes_512, MLX5DV_BLOCK_SIZE_512, 512},
             {CryptoUnit::bytes_520, MLX5DV_BLOCK_SIZE_520, 520},
             {CryptoUnit::bytes_4048, MLX5DV_BLOCK_SIZE_4048, 4048},
             {CryptoUnit::bytes_4096, MLX5DV_BLOCK_SIZE_4096, 4096},
             {CryptoUnit::bytes_4160, MLX5DV_BLOCK_SIZE_4160, 4160}};

mlx5dv_block_size unit_of(CryptoUnit unit) {
  for (const auto& u : units)
    if (u.ours == unit) return u.theirs;
  return MLX5DV_BLOCK_SIZE_512;
}

struct Encrypted : Twins {
  bool both;
  mlx5dv_mkey* plain = nullptr;
  mlx5dv_dek* dek = nullptr;
  uint32_t dek_number = 0;
  umr::SignedKey psvs;

  Encrypted(const char* name, const char* profile, bool signs) : Twins(name, profile), both(signs) {
    if (!ok()) return;
    plain = key;
    mlx5dv_mkey_init_attr attr{};
    attr.pd = device.pd;
    attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO;
    if (signs) attr.create_flags |= MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE;
    attr.max_entries = max_entries;
    key = mlx5dv_create_mkey(&attr);
    mlx5dv_dek_init_attr init{};
    init.pd = device.pd;
    init.key_purpose = MLX5DV_CRYPTO_KEY_PURPOSE_AES_XTS;
    init.comp_mask = MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN;
    init.key[5] = 1;
    dek = mlx5dv_dek_create(device.context, &init);
  }
  ~Encrypted() {
    if (key != nullptr) mlx5dv_destroy_mkey(std::exchange(key, plain));
    if (dek != nullptr) mlx5dv_dek_destroy(dek);
  }

  int by_libmlx5(Request& r) {
    ibv_wr_start(theirs->ex);
    theirs->ex->wr_id = 1;
    theirs->ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    mlx5dv_mkey_conf_attr conf{};
    mlx5dv_wr_mkey_configure(theirs->dv, key, r.signs ? 4 : 3, &conf);
    mlx5dv_wr_set_mkey_access_flags(theirs->dv, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    mlx5dv_wr_set_mkey_layout_list(theirs->dv, static_cast<uint16_t>(r.sges.size()), r.sges.data());
    mlx5dv_sig_crc crc{MLX5DV_SIG_CRC_TYPE_CRC32, UINT32_MAX};
    mlx5dv_sig_block_domain domain{};
    domain.sig_type = MLX5DV_SIG_TYPE_CRC;
    domain.sig.crc = &crc;
    domain.block_size = MLX5DV_BLOCK_SIZE_512;
    mlx5dv_sig_block_attr sign{};
    if (r.sign.memory.kind != umr::SignKind::none) sign.mem = &domain;
    if (r.sign.wire.kind != umr::SignKind::none) sign.wire = &domain;
    sign.check_mask = r.sign.check;
    if (r.signs) mlx5dv_wr_set_mkey_sig_block(theirs->dv, &sign);
    mlx5dv_crypto_attr attr{};
    attr.encrypt_on_tx = r.rule.encrypted == CryptoPlace::wire;
    attr.signature_crypto_order = r.rule.order == CryptoOrder::sign_last
                                      ? MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_AFTER_CRYPTO_ON_TX
                                      : MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_BEFORE_CRYPTO_ON_TX;
    attr.data_unit_size = unit_of(r.rule.unit);
    std::memcpy(attr.initial_tweak, r.rule.tweak.data(), sizeof attr.initial_tweak);
    std::memcpy(attr.keytag, r.rule.keytag.data(), sizeof attr.keytag);
    attr.dek = dek;
    mlx5dv_wr_set_mkey_crypto(theirs->dv, &attr);
    return ibv_wr_complete(theirs->ex);
  }
  Outcome by_kilim(const Request& r) {
    std::vector<umr::Piece> pieces;
    for (const ibv_sge& s : r.sges) pieces.push_back({s.addr, s.length, Lkey{s.lkey}});
    queue::WqeCursor c{*sq};
    const umr::ListRequest request{
        .key = Lkey{key->lkey},
        .max_entries = max_entries,
        .new_tag = tag_of(Lkey{key->lkey}),
        .access = umr::mkey_access(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)};
    const umr::UmrWr wr{.flags = queue::WrFlags::signalled};
    const umr::View view = umr::View::of(pieces);
    const Outcome o = r.signs ? umr_signed_crypto(c, request, view, {r.sign, psvs}, r.rule, wr)
                              : umr_crypto(c, request, view, r.rule, wr);
    if (o.ok()) c.commit();
    return o;
  }
  // The numbers that libmlx5 has, learnt from its own bytes.
  bool learn() {
    Request r;
    r.sges = {{0x1000, 512, 5}};
    r.signs = both;
    r.sign.memory.kind = r.sign.wire.kind = umr::SignKind::crc32;
    if (by_libmlx5(r) != 0 || theirs->wait() != IBV_WC_SUCCESS) return false;
    const std::vector<uint8_t> wqe = theirs->blocks(first, both ? 5 : 4);
    prm::CryptoBsf c;
    std::memcpy(&c, wqe.data() + (both ? 256 : 192), sizeof c);
    dek_number = c.dek.host();
    if (both) {
      prm::Bsf b;
      std::memcpy(&b, wqe.data() + 192, sizeof b);
      psvs.memory_psv = prm::bsf::mem_psv::get(b);
      psvs.wire_psv = prm::bsf::wire_psv::get(b);
    }
    r.rule.dek = dek_number;
    return dek_number != 0 && by_kilim(r).ok() && ours->wait() == IBV_WC_SUCCESS;
  }
  // Of each SET_PSV the queue pair's number, and what lies behind its 32 bytes: libmlx5 leaves
  // there what lay in the ring.
  static void blank(std::vector<uint8_t>& blocks) {
    for (std::size_t at = 0; at + 64 <= blocks.size(); at += 64) {
      if (blocks[at + 3] != 0x20 || blocks[at + 7] != 2) continue;
      std::memset(blocks.data() + at + 4, 0, 3);
      std::memset(blocks.data() + at + 12, 0, 4);
      std::memset(blocks.data() + at + 32, 0, 32);
    }
  }
  void compare() {
    auto [libmlx5, kilim] = posted();
    blank(libmlx5);
    blank(kilim);
    CU_ASSERT_TRUE_FATAL(libmlx5.size() >= 256);
    EQUAL_FATAL(first_difference(libmlx5, kilim), -1);
  }
};

Request random_request(std::mt19937_64& random, const Encrypted& t) {
  Request r;
  const auto& unit = units[random() % std::size(units)];
  // With a tweak in little endian libmlx5 takes no more than one unit.
  const uint64_t most = unit.bytes;
  const std::size_t n = 1 + random() % (random() % 4 == 0 ? umr::max_signed_crypto_klms : 6);
  for (std::size_t i = 0; i < n; i++)
    r.sges.push_back({random(), static_cast<uint32_t>(1 + random() % (most / n)),
                      static_cast<uint32_t>(random())});
  r.rule.dek = t.dek_number;
  r.rule.unit = unit.ours;
  r.rule.encrypted = random() % 2 != 0 ? CryptoPlace::wire : CryptoPlace::memory;
  r.rule.order = random() % 2 != 0 ? CryptoOrder::sign_first : CryptoOrder::sign_last;
  for (uint8_t& b : r.rule.tweak) b = static_cast<uint8_t>(random());
  for (uint8_t& b : r.rule.keytag) b = static_cast<uint8_t>(random());
  r.signs = t.both;
  r.sign.check = static_cast<uint8_t>(random());
  const auto which = random() % 3;
  if (which != 0) r.sign.memory.kind = umr::SignKind::crc32;
  if (which != 1) r.sign.wire.kind = umr::SignKind::crc32;
  return r;
}

void random_rules(const char* name, const char* profile, bool signs) {
  Encrypted t{name, profile, signs};
  CU_ASSERT_TRUE_FATAL(t.ok());
  CU_ASSERT_TRUE_FATAL(t.dek != nullptr);
  CU_ASSERT_TRUE_FATAL(t.learn());
  (void)t.posted();
  std::mt19937_64 random{46};
  for (uint32_t i = 0; i < 300; i++) {
    Request r = random_request(random, t);
    r.rule.big_endian_tweak = std::string(profile) == "crypto-be";
    const auto counter = static_cast<uint16_t>(t.first);
    const Outcome o = t.by_kilim(r);
    if (o.why == Refusal::raw_crypto) {
      EQUAL_FATAL(t.by_libmlx5(r), EINVAL);
      continue;
    }
    EQUAL_FATAL(o.why, Refusal::none);
    EQUAL_FATAL(t.ours->wait(), IBV_WC_SUCCESS);
    EQUAL_FATAL(t.by_libmlx5(r), 0);
    EQUAL_FATAL(t.theirs->wait(), IBV_WC_SUCCESS);
    const uint32_t end = t.theirs->posted();
    t.compare();
    // Behind a signed key's UMR comes a SET_PSV of one block; else the UMR is what completes.
    t.sq->retire(signs ? static_cast<uint16_t>(end - 1) : counter);
  }
}

void encrypted_keys() {
  random_rules("crypto0", "cx6dx", false);
}
void the_other_byte_order() {
  random_rules("crypto1", "crypto-be", false);
}
void signed_and_encrypted_keys() {
  random_rules("crypto2", "cx6dx", true);
}

void both_refuse_what_is_too_long() {
  Encrypted t{"crypto3", "cx6dx", false};
  CU_ASSERT_TRUE_FATAL(t.ok());
  CU_ASSERT_TRUE_FATAL(t.learn());
  (void)t.posted();
  Request r;
  r.rule.dek = t.dek_number;
  r.sges.assign(49, {0x1000, 8, 5});
  const Outcome o = t.by_kilim(r);
  EQUAL(o.why, Refusal::too_many_inline);
  EQUAL(o.limit, 48);
  EQUAL(t.by_libmlx5(r), ENOMEM);
  r.sges.clear();
  EQUAL(t.by_kilim(r).why, Refusal::empty);
  r.sges.assign(65, {0x1000, 8, 5});
  EQUAL(t.by_kilim(r).why, Refusal::over_key);
  Encrypted both{"crypto4", "cx6dx", true};
  r.signs = true;
  r.sign.memory.kind = umr::SignKind::crc32;
  r.sges.assign(45, {0x1000, 8, 5});
  const Outcome p = both.by_kilim(r);
  EQUAL(p.why, Refusal::too_many_inline);
  EQUAL(p.limit, 44);
  EQUAL(both.by_libmlx5(r), ENOMEM);
}

// As libmlx5 makes them: an encryption key of ours is found by its number, and has its tag.
void an_encryption_key() {
  Encrypted t{"crypto5", "cx6dx", false};
  CU_ASSERT_TRUE_FATAL(t.ok());
  CU_ASSERT_TRUE_FATAL(t.learn());
  const std::vector<std::byte> keys(64, std::byte{3});
  CU_ASSERT_FALSE(mlx5::EncryptionKey::create(t.device.pd, std::span(keys).first(48)));
  const mlx5::EncryptionKey::Tag tag{1, 2, 3};
  auto made = mlx5::EncryptionKey::create(t.device.pd, keys, tag);
  CU_ASSERT_TRUE_FATAL(static_cast<bool>(made));
  Request r;
  r.sges = {{0x1000, 512, 5}};
  r.rule.dek = made->number();
  r.rule.keytag = tag;
  CU_ASSERT_TRUE(t.by_kilim(r).ok());
  EQUAL(t.ours->wait(), IBV_WC_SUCCESS);
  r.rule.keytag[7] = 1;
  CU_ASSERT_TRUE(t.by_kilim(r).ok());
  EQUAL(t.ours->wait(), IBV_WC_MW_BIND_ERR);
}

const kilim::test::Case cases[] = {
    {"300 random encrypted keys are as libmlx5 writes them, byte for byte", encrypted_keys},
    {"300 with the tweak in the other byte order", the_other_byte_order},
    {"300 signed and encrypted keys are as libmlx5 writes them", signed_and_encrypted_keys},
    {"what is too long is refused", both_refuse_what_is_too_long},
    {"an encryption key is found by its number and has its tag", an_encryption_key},
};

}  // namespace
}  // namespace crypto_golden_ut

KILIM_TEST_SUITE(crypto, crypto_golden_ut::cases)
