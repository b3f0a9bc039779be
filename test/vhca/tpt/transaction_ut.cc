// SPDX-License-Identifier: BSD-3-Clause
// One CRC-32C behind all that goes through a key, as SPDK asks for it (lib/mlx5/mlx5_umr.c,
// spdk_mlx5_umr_configure_sig).
#include "sign_fixture.hh"
#include "ut.hh"

namespace kilim::vhca::test {
namespace transaction_ut {
namespace {

constexpr uint32_t data_bytes = 5000;

// What SPDK writes: no bit says that the key signs, it was made so.
struct Transaction {
  bool of_wire = true, ones = true;
  uint32_t init = bsf::wire_begins | bsf::wire_checks;
  uint32_t raw = data_bytes;
};
prm::Bsf bsf_of(const Transaction& t, uint32_t psv) {
  prm::Bsf b{};
  b.size_sbs = bsf::size_extended;
  b.check_mask = 0xff;
  b.raw_data_size = be32{t.raw};
  b.init_size = be32{t.init};
  const be32 word{uint32_t{bsf::crc32c | (t.ones ? 0u : bsf::zero_seed)} << 24 | psv};
  (t.of_wire ? b.wire_transaction : b.mem_transaction) = word;
  return b;
}

struct Bench {
  Bench() {
    for (std::size_t i = 0; i < e.buffer.size(); i++) e.buffer.data()[i] = std::byte(i * 7 + 3);
    for (std::size_t i = 0; i < e.arena.size(); i++) e.arena.data()[i] = std::byte(i * 5 + 1);
  }
  Syndrome configure(const Transaction& t, uint64_t bytes, uint32_t flags = 0) {
    const prm::Klm k = klm(e.arena.at(0), static_cast<uint32_t>(bytes), e.pieces);
    UmrShape shape;
    shape.len = bytes;
    return e.post(with_bsf(umr_wqe(e.key, shape, {&k, 1}), bsf_of(t, e.psv.wire), flags,
                           prm::umr::mask_sig_err));
  }
  // Through the key into the buffer, and the other way.
  Syndrome read(uint64_t at, uint32_t n) {
    Wqe w(Opcode::rdma_write);
    return e.post(w.raddr(e.buffer.at(at), e.plain).data(at, n, e.key));
  }
  Syndrome write(uint64_t at, uint32_t n) {
    Wqe w(Opcode::rdma_read);
    return e.post(w.raddr(e.buffer.at(at), e.plain).data(at, n, e.key));
  }
  // The CRC behind the first bytes of a place.
  static Bytes crc(const Pages& p, bool ones = true) {
    const Domain d{.sign = Sign::crc32c, .block = data_bytes, .ones = ones};
    Bytes b;
    put_signature(d, signature_of(d, 0, reinterpret_cast<const uint8_t*>(p.data())), b);
    return b;
  }
  static bool has(const Pages& p, const Bytes& b) {
    return std::memcmp(p.data() + data_bytes, b.data(), b.size()) == 0;
  }
  static void put(const Pages& p, const Bytes& b) {
    std::memcpy(p.data() + data_bytes, b.data(), b.size());
  }
  [[nodiscard]] bool same_data() const {
    return std::memcmp(e.buffer.data(), e.arena.data(), data_bytes) == 0;
  }
  // One wrong signature was told of, of this domain.
  bool told(uint8_t domain) {
    e.take_errors();
    if (e.errors.size() != 1) return false;
    const prm::SigErrCqe err = e.errors[0];
    return err.type == prm::sig_err::transaction && err.domain == domain &&
           err.syndrome.host() == prm::sig_err::guard && err.offset.host() == 0;
  }
  bool quiet() {
    e.take_errors();
    return e.errors.empty();
  }
  Rig rig;
  End e{rig, rig.a, rig.cq_a};
};

constexpr Transaction in_memory{.of_wire = false, .init = bsf::mem_begins | bsf::mem_checks};

void it_follows_the_data_on_the_wire() {
  for (const bool ones : {true, false}) {
    Bench b;
    EQUAL_FATAL(b.configure({.ones = ones}, data_bytes), Syndrome::none);
    EQUAL(b.read(0, data_bytes + 4), Syndrome::none);
    CU_ASSERT(b.same_data());
    CU_ASSERT(b.has(b.e.buffer, b.crc(b.e.arena, ones)));
    CU_ASSERT(b.quiet());
  }
}

void it_follows_in_parts_too() {
  Bench b;
  EQUAL_FATAL(b.configure({}, data_bytes), Syndrome::none);
  CU_ASSERT(b.read(0, 3000) == Syndrome::none && b.read(3000, 2002) == Syndrome::none);
  EQUAL(b.read(data_bytes + 2, 2), Syndrome::none);
  CU_ASSERT(b.same_data());
  CU_ASSERT(b.has(b.e.buffer, b.crc(b.e.arena)));
}

void it_is_checked_where_it_comes() {
  for (const bool right : {true, false}) {
    Bench b;
    EQUAL_FATAL(b.configure({}, data_bytes), Syndrome::none);
    Bytes crc = b.crc(b.e.buffer);
    crc[2] ^= right ? uint8_t{0} : uint8_t{1};
    b.put(b.e.buffer, crc);
    EQUAL(b.write(0, data_bytes + 4), Syndrome::none);
    CU_ASSERT(b.same_data());
    CU_ASSERT(right ? b.quiet() : b.told(prm::sig_err::wire));
  }
}

void memory_can_have_it() {
  for (const bool right : {true, false}) {
    Bench b;
    EQUAL_FATAL(b.configure(in_memory, data_bytes + 4), Syndrome::none);
    Bytes crc = b.crc(b.e.arena);
    crc[3] ^= right ? uint8_t{0} : uint8_t{1};
    b.put(b.e.arena, crc);
    EQUAL(b.read(0, data_bytes), Syndrome::none);
    CU_ASSERT(b.same_data());
    CU_ASSERT(right ? b.quiet() : b.told(prm::sig_err::memory));
  }
}

void memory_gets_it() {
  Bench b;
  EQUAL_FATAL(b.configure(in_memory, data_bytes + 4), Syndrome::none);
  EQUAL(b.write(0, data_bytes), Syndrome::none);
  CU_ASSERT(b.same_data());
  CU_ASSERT(b.has(b.e.arena, b.crc(b.e.buffer)));
  CU_ASSERT(b.quiet());
}

void nothing_lies_behind_it() {
  Bench b;
  // Though the key has more memory.
  EQUAL_FATAL(b.configure({}, data_bytes + 100), Syndrome::none);
  EQUAL(b.read(0, data_bytes + 5), Syndrome::local_prot);
}

void what_it_has_not_is_refused() {
  const Transaction wrong[] = {{.init = 0},
                               {.init = bsf::wire_begins},
                               {.init = bsf::wire_checks},
                               {.init = bsf::mem_begins | bsf::mem_checks},
                               {.raw = 0},
                               {.raw = bsf::any_raw_size},
                               {.raw = 0x80000001}};
  for (const Transaction& t : wrong) EQUAL(Bench().configure(t, data_bytes), Syndrome::mw_bind);
  using Spoil = void (*)(prm::Bsf&);
  const Spoil spoils[] = {[](prm::Bsf& b) { b.mem_transaction = b.wire_transaction; },
                          [](prm::Bsf& b) { b.wire_transaction = be32{0}; },
                          [](prm::Bsf& b) { b.wire_transaction = be32{0x42000000}; },
                          [](prm::Bsf& b) { b.wire_transaction = be32{0x20000000}; },
                          [](prm::Bsf& b) { b.epilogue_size = be32{4}; },
                          [](prm::Bsf& b) { b.mem_block = bsf::block_512; },
                          [](prm::Bsf& b) { b.size_sbs |= bsf::same_blocks; }};
  for (const Spoil spoil : spoils) {
    prm::Bsf b = bsf_of({}, 0x100);
    tpt::Signature s;
    EQUAL(tpt::decode_bsf(std::as_bytes(std::span(&b, 1)), tpt::BesideBsf::nothing, Profile{}, s),
          nullptr);
    spoil(b);
    CU_ASSERT(tpt::decode_bsf(std::as_bytes(std::span(&b, 1)), tpt::BesideBsf::nothing, Profile{},
                              s) != nullptr);
  }
}

void a_key_that_is_told_so_signs_no_more() {
  Bench b;
  EQUAL_FATAL(b.configure({}, data_bytes), Syndrome::none);
  UmrShape shape;
  shape.mask = prm::umr::mask_bsf_enable;
  EQUAL(b.e.post(umr_wqe(b.e.key, shape, {})), Syndrome::none);
  EQUAL(b.read(0, data_bytes), Syndrome::none);
  CU_ASSERT(b.same_data());
  // It stays so whatever comes, until it is told otherwise.
  EQUAL(b.configure({}, data_bytes), Syndrome::none);
  EQUAL(b.read(0, data_bytes + 4), Syndrome::local_prot);
}

constexpr kilim::test::Case cases[] = {
    {"it follows the data on the wire", it_follows_the_data_on_the_wire},
    {"it follows in parts too", it_follows_in_parts_too},
    {"it is checked where it comes", it_is_checked_where_it_comes},
    {"memory can have it", memory_can_have_it},
    {"memory gets it", memory_gets_it},
    {"nothing lies behind it", nothing_lies_behind_it},
    {"what it has not is refused", what_it_has_not_is_refused},
    {"a key that is told so signs no more", a_key_that_is_told_so_signs_no_more},
};

}  // namespace
}  // namespace transaction_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(transaction, kilim::vhca::test::transaction_ut::cases)
