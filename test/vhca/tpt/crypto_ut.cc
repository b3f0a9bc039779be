// SPDX-License-Identifier: BSD-3-Clause
// Keys whose bytes are encrypted: what a card refuses of their BSFs, objects and uses; the tag of
// an encryption key; both byte orders of a tweak.
#include <algorithm>
#include <functional>

#include "crypto_fixture.hh"
#include "ut.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {
namespace crypto_ut {
namespace {

constexpr uint32_t key_bytes = 1536;

struct Bench : Rig {
  CryptoEnd end{*this, a, cq_a};
  Encryption e;
  explicit Bench(const RigShape& s = {}) : Rig(s) {
    e.xts.keys.assign(32, 7);
    e.xts.keys[3] = 1;
    e.dek = make_dek(*this, e.xts.keys, "a tag 8b");
  }
  [[nodiscard]] prm::CryptoBsf bsf_with_tag() const {
    prm::CryptoBsf made = crypto_bsf_of(e, false);
    std::memcpy(made.keytag, "a tag 8b", sizeof made.keytag);
    return made;
  }
  Syndrome show(const prm::CryptoBsf& how, uint32_t bytes = key_bytes) {
    const prm::Klm k = klm(end.arena.at(0), bytes, end.pieces);
    UmrShape shape;
    shape.len = bytes;
    end.key = end.only;
    return end.post(CryptoEnd::with_bsfs(umr_wqe(end.only, shape, {&k, 1}), nullptr, how));
  }
  // From the key's place `at` to the buffer.
  Syndrome out(uint64_t at, uint32_t n) {
    return end.post(
        Wqe(Opcode::rdma_write).raddr(end.buffer.at(0), end.plain).data(at, n, end.only));
  }
  // From the buffer to the key's place `at`.
  Syndrome in(uint64_t at, uint32_t n) {
    return end.post(
        Wqe(Opcode::rdma_write).raddr(at, end.only).data(end.buffer.at(0), n, end.plain));
  }
  [[nodiscard]] bool encrypted(const Encryption& how) const {
    std::vector<uint8_t> plain(key_bytes);
    std::memcpy(plain.data(), end.arena.data(), key_bytes);
    return std::memcmp(end.buffer.data(), how.xts.run(plain, true).data(), key_bytes) == 0;
  }
};

struct Row {
  const char* what;
  std::function<void(prm::CryptoBsf&)> spoil;
};

void bsfs_that_a_card_refuses() {
  Bench b;
  const Row rows[] = {
      {"no type", [](prm::CryptoBsf& s) { s.size_type = bsf::size_with_inline; }},
      {"the size of both", [](prm::CryptoBsf& s) { s.size_type = crypto::with_signature | 1; }},
      {"order", [](prm::CryptoBsf& s) { s.order = 4; }},
      {"standard", [](prm::CryptoBsf& s) { s.standard = 1; }},
      {"unit 0", [](prm::CryptoBsf& s) { s.unit = 0; }},
      {"unit 7", [](prm::CryptoBsf& s) { s.unit = 7; }},
      {"reserved byte", [](prm::CryptoBsf& s) { s.rsvd0 = 1; }},
      {"reserved bytes behind the unit", [](prm::CryptoBsf& s) { s.rsvd1[6] = 1; }},
      {"reserved bytes behind the key", [](prm::CryptoBsf& s) { s.rsvd2[0] = 1; }},
      {"reserved bytes at the end", [](prm::CryptoBsf& s) { s.rsvd3[15] = 1; }},
      {"number of the key", [](prm::CryptoBsf& s) { s.dek = be32{s.dek.host() + 1}; }},
      {"above the number of the key",
       [](prm::CryptoBsf& s) { s.dek = be32{s.dek.host() | 1u << 24}; }},
      {"tag", [](prm::CryptoBsf& s) { s.keytag[7]++; }},
  };
  CU_ASSERT_TRUE_FATAL(b.end.only != 0);
  CU_ASSERT_TRUE_FATAL(b.e.dek != 0);
  EQUAL(b.show(b.bsf_with_tag()), Syndrome::none);
  for (const Row& row : rows) {
    Bench fresh;
    prm::CryptoBsf s = fresh.bsf_with_tag();
    row.spoil(s);
    const Syndrome got = fresh.show(s);
    if (got != Syndrome::mw_bind) std::printf("%s\n", row.what);
    EQUAL(got, Syndrome::mw_bind);
  }
}

void raw_orders_with_two_signatures() {
  for (const uint8_t order :
       {crypto::wire_signature, crypto::memory_signature, crypto::raw_wire, crypto::raw_memory}) {
    Bench b;
    b.e.dek = make_dek(b, b.e.xts.keys);
    b.e.order = order;
    Layout l = crc_in_memory;
    l.wire = l.mem;
    const prm::Klm k = klm(b.end.arena.at(0), 516, b.end.pieces);
    EQUAL(b.end.encrypt(b.e, &l, {&k, 1}, 516),
          order < crypto::raw_wire ? Syndrome::none : Syndrome::mw_bind);
  }
}

// mlx5dv_wr_set_mkey_crypto(3): traffic before the call fails.
void a_key_without_its_bsf() {
  Bench b;
  const prm::Klm k = klm(b.end.arena.at(0), key_bytes, b.end.pieces);
  UmrShape shape;
  shape.len = key_bytes;
  EQUAL(b.end.post(umr_wqe(b.end.only, shape, {&k, 1})), Syndrome::none);
  EQUAL(b.out(0, 512), Syndrome::local_prot);
}

void a_key_whose_dek_is_gone() {
  Bench b;
  EQUAL(b.show(b.bsf_with_tag()), Syndrome::none);
  EQUAL(b.out(0, 512), Syndrome::none);
  b.hca->keys.deks().destroy(b.e.dek);
  EQUAL(b.out(0, 512), Syndrome::local_prot);
}

void data_end_at_the_raw_size() {
  Bench b;
  b.e.raw_bytes = 1024;
  EQUAL(b.show(b.bsf_with_tag()), Syndrome::none);
  EQUAL(b.out(512, 512), Syndrome::none);
  EQUAL(b.out(512, 528), Syndrome::local_prot);
}

// What begins within a block, with nothing of it known, cannot be worked on; nor what ends there at
// the key's end.
void data_that_are_no_blocks() {
  Bench b;
  EQUAL(b.show(b.bsf_with_tag()), Syndrome::none);
  EQUAL(b.in(16, 32), Syndrome::none);
  EQUAL(b.in(8, 40), Syndrome::remote_access);
  Bench c;
  c.e.xts.unit = 520;
  EQUAL(c.show(c.bsf_with_tag(), 1545), Syndrome::none);
  EQUAL(c.out(0, 1040), Syndrome::none);
  EQUAL(c.out(1040, 496), Syndrome::none);
  EQUAL(c.out(1040, 500), Syndrome::local_prot);
}

// DPDK's crypto driver changes the length and nothing else: the mask does not name the BSF.
void the_mask_need_not_name_it() {
  Bench b;
  for (uint32_t i = 0; i < key_bytes; i++) b.end.arena.data()[i] = static_cast<std::byte>(i * 5);
  const prm::CryptoBsf s = b.bsf_with_tag();
  EQUAL(b.show(s), Syndrome::none);
  prm::CryptoBsf other = s;
  other.tweak[0] = 77;
  const prm::Klm k = klm(b.end.arena.at(0), key_bytes, b.end.pieces);
  UmrShape shape;
  shape.len = key_bytes;
  shape.mask = prm::umr::mask_len;
  Wqe w = CryptoEnd::with_bsfs(umr_wqe(b.end.only, shape, {&k, 1}), nullptr, other);
  const be64 mask{prm::umr::mask_len};
  const be32 flags{0};
  std::memcpy(w.bytes.data() + 16 + 8, &mask, sizeof mask);
  std::memcpy(w.bytes.data() + 64 + 12, &flags, sizeof flags);
  EQUAL(b.end.post(w), Syndrome::none);
  EQUAL(b.out(0, key_bytes), Syndrome::none);
  b.e.xts.number[0] = 77;
  CU_ASSERT_TRUE(b.encrypted(b.e));
}

// libmlx5 turns the tweak over where the adapter says that it wants it so.
void both_orders_of_a_tweak() {
  for (const CryptoTweak order : {CryptoTweak::little_endian, CryptoTweak::big_endian}) {
    RigShape shape;
    shape.profile.crypto_tweak = order;
    Bench b(shape);
    prm::CryptoBsf s = b.bsf_with_tag();
    for (std::size_t i = 0; i < 16; i++) s.tweak[i] = static_cast<uint8_t>(0xf0 + i);
    EQUAL(b.show(s), Syndrome::none);
    EQUAL(b.out(0, key_bytes), Syndrome::none);
    std::copy(s.tweak, s.tweak + 16, b.e.xts.number.begin());
    if (order == CryptoTweak::big_endian)
      std::reverse(b.e.xts.number.begin(), b.e.xts.number.end());
    CU_ASSERT_TRUE(b.encrypted(b.e));
  }
}

void keys_that_a_card_does_not_make() {
  Rig rig;
  const auto made = [&](const std::function<void(prm::Mkc&)>& change) {
    prm::Mkc mkc = crypto_mkc(rig, false);
    change(mkc);
    return static_cast<bool>(rig.hca->keys.create_mkey(mkc, {}, rig.hca->config.profile));
  };
  CU_ASSERT_TRUE(made([](prm::Mkc&) {}));
  CU_ASSERT_FALSE(made([](prm::Mkc& m) { m.crypto = be32{prm::mkc::crypto_en::at(2u)}; }));
  CU_ASSERT_FALSE(made([](prm::Mkc& m) { m.bsf_octword_size = be32{0}; }));
  CU_ASSERT_FALSE(made([](prm::Mkc& m) { m.bsf_octword_size = be32{12}; }));
  CU_ASSERT_FALSE(made([](prm::Mkc& m) { m.flags_pd = be32{m.flags_pd.host() & ~bsf_enable}; }));
  CU_ASSERT_TRUE(made([](prm::Mkc& m) { m.bsf_octword_size = be32{8}; }));
  rig.hca->config.profile.signature = false;
  CU_ASSERT_FALSE(made([](prm::Mkc& m) { m.bsf_octword_size = be32{8}; }));
  CU_ASSERT_TRUE(made([](prm::Mkc&) {}));
  rig.hca->config.profile.crypto_tweak = CryptoTweak::none;
  CU_ASSERT_FALSE(made([](prm::Mkc&) {}));
  EQUAL(make_dek(rig, std::vector<uint8_t>(32)), 0);
}

const kilim::test::Case cases[] = {
    {"what a card refuses of a crypto BSF", bsfs_that_a_card_refuses},
    {"raw orders do not go with signatures in both domains", raw_orders_with_two_signatures},
    {"a key without its BSF moves nothing", a_key_without_its_bsf},
    {"a key whose encryption key is gone moves nothing", a_key_whose_dek_is_gone},
    {"data end at the BSF's size", data_end_at_the_raw_size},
    {"data are whole blocks of units", data_that_are_no_blocks},
    {"a BSF counts although the mask does not name it", the_mask_need_not_name_it},
    {"a tweak in the adapter's byte order", both_orders_of_a_tweak},
    {"keys for encryption that a card does not make", keys_that_a_card_does_not_make},
};

}  // namespace
}  // namespace crypto_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(crypto, kilim::vhca::test::crypto_ut::cases)
