// SPDX-License-Identifier: BSD-3-Clause
// Keys whose blocks are signed, bound by Kilim on a virtual device: random rules and layouts
// against a plain reference, both ways through the key; guards, application and reference tags that
// are wrong; the end of signing; the sentence for an error.
#include <algorithm>
#include <cstring>
#include <random>

#include "kilim/detail/diag/explain.hh"
#include "signature_fixture.hh"
#include "ut.hh"

namespace kilim::test {
namespace signature_e2e_ut {
namespace {

class Trial {
 public:
  Trial(Rig& rig, uint64_t seed) : rig_(rig), random_(seed) {}

  bool round(bool out) {
    const SignRule rule = any_rule();
    const ref::Domain memory = plain(rule.memory), wire = plain(rule.wire);
    const ref::Domain &from = out ? memory : wire, &to = out ? wire : memory;
    ref::Bytes data(1 + any(6000));
    if (from.block != 0 && any(2) == 0) data.resize(from.block * (1 + any(3)));
    for (uint8_t& b : data) b = static_cast<uint8_t>(random_());
    ref::Bytes input = ref::join(from, data);
    if (any(2) == 0) spoil(input, from);
    const ref::Parts parts = ref::split(from, input);
    const bool same = umr::detail::same_blocks(rule.memory, rule.wire);
    const uint8_t copy =
        rule.has_copy ? rule.copy : umr::detail::same_bytes(rule.memory, rule.wire);
    const ref::Bytes expected =
        ref::join(to, parts.data, same ? ref::bits_of(copy) : 0, parts.signatures);
    const ref::Bytes &inside = out ? input : expected, &flat = out ? expected : input;
    const std::vector<umr::Piece> pieces = any_pieces(inside.size());
    std::memset(rig_.arena(), 0x77, Rig::arena_bytes + Rig::flat_bytes);
    if (out) put(pieces, input);
    if (!out) std::memcpy(rig_.flat(), flat.data(), flat.size());
    rig_.errors.clear();
    const auto n = static_cast<uint32_t>(flat.size());
    if (!rig_.show(pieces, rule)) return false;
    if (!(out ? rig_.write_out(n, rule) : rig_.read_in(n, rule))) return false;
    const ref::Bytes got = out ? bytes(rig_.flat(), n) : get(pieces);
    return got == expected && errors_fit(rule, from, parts, out);
  }
  unsigned guards = 0, app_tags = 0, ref_tags = 0;

 private:
  uint32_t any(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  SignDomain any_domain() {
    constexpr SignBlock blocks[] = {SignBlock::bytes_512, SignBlock::bytes_520,
                                    SignBlock::bytes_4048, SignBlock::bytes_4096,
                                    SignBlock::bytes_4160};
    SignDomain d;
    d.kind = static_cast<SignKind>(any(6));
    d.block = blocks[any(2) == 0 ? any(5) : 0];
    d.ones = any(2) != 0;
    d.app_tag = static_cast<uint16_t>(random_());
    d.ref_tag = static_cast<uint32_t>(random_());
    d.count_ref = any(2) != 0;
    return d;
  }
  SignRule any_rule() {
    SignRule r{.memory = any_domain(), .wire = any_domain()};
    if (any(2) == 0) r.wire = r.memory;
    if (r.memory.kind == SignKind::none && r.wire.kind == SignKind::none)
      r.memory.kind = SignKind::t10dif_crc;
    if (any(3) == 0) r.check = static_cast<uint8_t>(random_());
    r.has_copy = umr::detail::same_blocks(r.memory, r.wire) && any(2) == 0;
    r.copy = static_cast<uint8_t>(random_());
    return r;
  }
  // A byte of the first block's data, or of its signature.
  void spoil(ref::Bytes& input, const ref::Domain& from) {
    std::size_t at = any(static_cast<uint32_t>(input.size()));
    if (from.block != 0 && input.size() > from.block && any(2) == 0)
      at = from.block + any(from.bytes());
    input[at] = static_cast<uint8_t>(input[at] ^ 1u << any(8));
  }
  std::vector<umr::Piece> any_pieces(std::size_t total) {
    std::vector<umr::Piece> list;
    for (std::size_t at = 0, i = 0; at < total; i++) {
      const std::size_t left = total - at;
      const std::size_t n = i == 11 ? left : std::min<std::size_t>(left, 1 + any(3000));
      list.push_back({reinterpret_cast<uint64_t>(rig_.arena() + i * 20000 + any(900)),
                      static_cast<uint32_t>(n), rig_.lkey()});
      at += n;
    }
    return list;
  }
  static void put(const std::vector<umr::Piece>& pieces, const ref::Bytes& from) {
    std::size_t at = 0;
    for (const umr::Piece& p : pieces) {
      std::memcpy(reinterpret_cast<void*>(p.address), from.data() + at, p.length);
      at += p.length;
    }
  }
  static ref::Bytes bytes(const std::byte* p, std::size_t n) {
    const auto* b = reinterpret_cast<const uint8_t*>(p);
    return {b, b + n};
  }
  static ref::Bytes get(const std::vector<umr::Piece>& pieces) {
    ref::Bytes all;
    for (const umr::Piece& p : pieces) {
      const auto* b = reinterpret_cast<const uint8_t*>(p.address);
      all.insert(all.end(), b, b + p.length);
    }
    return all;
  }
  bool errors_fit(const SignRule& rule, const ref::Domain& from, const ref::Parts& parts,
                  bool out) {
    for (std::size_t i = 0; i < parts.signatures.size(); i++) {
      const uint64_t said = parts.signatures[i];
      const uint64_t made = ref::signature_of(from, i, parts.data.data() + i * from.block);
      const uint64_t wrong = (said ^ made) & ref::bits_of(rule.check);
      // The rules here have no escapes.
      if (wrong == 0) continue;
      if (rig_.errors.size() != 1) return false;
      const SignError& e = rig_.errors[0];
      SignError::Part part = SignError::Part::guard;
      unsigned shift = from.dif() ? 48 : from.half() ? 32 : 0;
      uint64_t mask = ~uint64_t{0};
      if (from.dif() && wrong >> 48 == 0) {
        const bool app = wrong >> 32 != 0;
        part = app ? SignError::Part::app_tag : SignError::Part::ref_tag;
        shift = app ? 32 : 0;
        mask = app ? 0xffff : 0xffffffff;
      }
      (part == SignError::Part::guard     ? guards
       : part == SignError::Part::app_tag ? app_tags
                                          : ref_tags)++;
      return e.part == part && e.on_wire == !out && e.key == rig_.key.lkey.value() &&
             e.offset == i * (from.block + from.bytes()) && e.expected == (said >> shift & mask) &&
             e.actual == (made >> shift & mask);
    }
    return rig_.errors.empty();
  }

  Rig& rig_;
  std::mt19937_64 random_;
};

void random_rules_and_layouts() {
  Rig rig;
  CU_ASSERT_TRUE_FATAL(rig.ok());
  Trial t{rig, 46};
  constexpr unsigned rounds = 3000;
  for (unsigned i = 0; i < rounds; i++) CU_ASSERT_TRUE_FATAL(t.round(i % 2 == 0));
  CU_ASSERT_TRUE(t.guards > 300);
  CU_ASSERT_TRUE(t.app_tags > 20);
  CU_ASSERT_TRUE(t.ref_tags > 20);
}

const SignRule crc_in_memory{.memory = {.kind = SignKind::crc32c}, .check = umr::SignMask::crc32};

std::vector<umr::Piece> one_piece(Rig& rig, uint64_t bytes) {
  return {{reinterpret_cast<uint64_t>(rig.arena()), static_cast<uint32_t>(bytes), rig.lkey()}};
}

void signing_ends() {
  Rig rig;
  CU_ASSERT_TRUE_FATAL(rig.ok());
  std::memset(rig.arena(), 9, 516);
  CU_ASSERT_TRUE(rig.show(one_piece(rig, 516), crc_in_memory));
  CU_ASSERT_TRUE(rig.write_out(512, crc_in_memory));
  EQUAL(rig.errors.size(), 1);
  CU_ASSERT_TRUE(rig.show_unsigned(one_piece(rig, 516)));
  CU_ASSERT_TRUE(rig.write_out(516, crc_in_memory));
  EQUAL(rig.errors.size(), 1);
  EQUAL(std::memcmp(rig.flat(), rig.arena(), 516), 0);
}

void an_error_has_a_sentence() {
  Rig rig;
  CU_ASSERT_TRUE_FATAL(rig.ok());
  std::memset(rig.arena(), 0, 4096);
  CU_ASSERT_TRUE(rig.show(one_piece(rig, 1032), crc_in_memory));
  CU_ASSERT_TRUE(rig.write_out(1024, crc_in_memory));
  EQUAL_FATAL(rig.errors.size(), 1);
  diag::MkeyBook book;
  char room[512];
  prm::Text text{room};
  diag::explain(text, rig.last, {}, book);
  CU_ASSERT_PTR_NOT_NULL(std::strstr(room, "the guard of the block at 0 of the memory of key "));
  CU_ASSERT_PTR_NOT_NULL(std::strstr(room, "is wrong; the data has been moved all the same"));
}

void a_device_without_makes_no_such_key() {
  VirtualDevice v{config("nosign", "no-signature")};
  CU_ASSERT_TRUE_FATAL(v.device != nullptr);
  CU_ASSERT_FALSE(v.device->caps().signatures);
  std::array<mr::IndirectMkey, 1> made;
  CU_ASSERT_FALSE(v.device->keys().create_mkeys({.max_entries = 4, .sign = true}, made).ok());
  VirtualDevice w{config("withsign")};
  CU_ASSERT_TRUE_FATAL(w.device != nullptr);
  const device::Caps& c = w.device->caps();
  CU_ASSERT_TRUE(c.signatures);
  CU_ASSERT_TRUE(c.signature_crc32c);
  CU_ASSERT_TRUE(c.signature_crc64);
  CU_ASSERT_TRUE(c.signature_4048);
}

const Case cases[] = {
    {"3000 random rules and layouts, good blocks and wrong ones", random_rules_and_layouts},
    {"signing ends", signing_ends},
    {"an error has a sentence", an_error_has_a_sentence},
    {"a device without signatures makes no such key", a_device_without_makes_no_such_key},
};

}  // namespace
}  // namespace signature_e2e_ut
}  // namespace kilim::test

KILIM_TEST_SUITE(signature, kilim::test::signature_e2e_ut::cases)
