// SPDX-License-Identifier: BSD-3-Clause
// Lengths, sums and counts at their ends: beyond 32 bits, around 64 bits, and lists that are small
// to write and endless to read.
#include <array>

#include "ut.hh"
#include "vhca_fixture.hh"

namespace bounds_ut {
namespace {

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;

struct Bench {
  Bench() : memory(65536), keys(rig.reg(memory, rw_access)), list(rig.make_key(16)) {}
  // What the key shows from now on.
  Syndrome show(uint64_t start, uint64_t len, std::span<const prm::Klm> entries) {
    UmrShape shape;
    shape.mask |= prm::umr::mask_start_addr;
    shape.start = start;
    shape.len = len;
    return rig.run_one(rig.a, umr_wqe(list, shape, entries)).syndrome;
  }
  // A WRITE out of the list into the second half of the region.
  Syndrome copy(uint64_t from, uint32_t bytes) {
    return rig
        .run_one(rig.a, Wqe(Opcode::rdma_write)
                            .raddr(memory.at(32768), keys.rkey.value())
                            .data(from, bytes, list))
        .syndrome;
  }
  Rig rig;
  Pages memory;
  MrKeys keys;
  uint32_t list;
};

// Each piece of 2 GiB, which may be written as 0, is longer than its region: only what is asked for
// must lie inside.
void a_key_longer_than_32_bits_finds_its_pieces() {
  Bench t;
  constexpr uint32_t two_gib = 0x80000000;
  std::array<prm::Klm, 4> pieces;
  for (uint32_t i = 0; i < 4; i++)
    pieces[i] = klm(t.memory.at(i * 64), i % 2 == 0 ? two_gib : 0, t.keys.lkey.value());
  EQUAL_FATAL(t.show(0, uint64_t{4} * two_gib, pieces), Syndrome::none);
  for (uint32_t i = 0; i < 4; i++) {
    std::memset(t.memory.data() + i * 64, static_cast<int>(i + 1), 64);
    EQUAL(t.copy(uint64_t{i} * two_gib, 64), Syndrome::none);
    EQUAL(t.memory.data()[32768 + 63], static_cast<std::byte>(i + 1));
  }
  EQUAL(t.copy(uint64_t{4} * two_gib - 64, 64), Syndrome::local_prot);
}

void a_key_past_its_end_is_out_of_bounds_above_32_bits() {
  Bench t;
  constexpr uint32_t two_gib = 0x80000000;
  std::array<prm::Klm, 3> pieces;
  for (prm::Klm& p : pieces) p = klm(t.memory.at(0), two_gib, t.keys.lkey.value());
  constexpr uint64_t len = (uint64_t{1} << 32) + 64;
  EQUAL_FATAL(t.show(0, len, pieces), Syndrome::none);
  EQUAL(t.copy(len - 64, 64), Syndrome::none);
  EQUAL(t.copy(len - 63, 64), Syndrome::local_prot);
}

// Addresses of a key may go around the end of 64 bits; its length may not be passed there.
void addresses_go_around_64_bits() {
  Bench t;
  std::array<prm::Klm, 1> piece{klm(t.memory.at(0), 128, t.keys.lkey.value())};
  EQUAL_FATAL(t.show(~uint64_t{0} - 63, 128, piece), Syndrome::none);
  EQUAL(t.copy(~uint64_t{0} - 63, 128), Syndrome::none);
  EQUAL(t.copy(0, 64), Syndrome::none);
  EQUAL(t.copy(1, 64), Syndrome::local_prot);
}

// A gigabyte in pieces of one byte, written down in three entries.
void a_billion_pieces_are_refused() {
  Bench t;
  std::array<prm::Klm, 2> strided{repeat_head(1, 1u << 30, 1),
                                  repeat_entry(0, 1, t.keys.lkey.value(), t.memory.at(0))};
  EQUAL_FATAL(t.show(0, 1u << 30, strided), Syndrome::none);
  uint64_t before = t.rig.journal.pieces();
  MrKeys far = t.keys;
  uint32_t into = t.rig.make_key(16);
  UmrShape shape;
  shape.len = 1u << 30;
  std::array<prm::Klm, 2> same{repeat_head(32768, 1u << 15, 1),
                               repeat_entry(0, 32768, far.lkey.value(), t.memory.at(32768))};
  t.rig.to_state(t.rig.b, QpState::rts);
  EQUAL_FATAL(t.rig.run_one(t.rig.a, umr_wqe(into, shape, same)).syndrome, Syndrome::none);
  Completion c =
      t.rig.run_one(t.rig.a, Wqe(Opcode::rdma_write).raddr(0, into).data(0, 1u << 30, t.list));
  EQUAL(c.syndrome, Syndrome::local_prot);
  EQUAL(t.rig.journal.pieces(), before);
}

const kilim::test::Case cases[] = {
    {"a key longer than 32 bits finds its pieces", a_key_longer_than_32_bits_finds_its_pieces},
    {"a key past its end is out of bounds above 32 bits",
     a_key_past_its_end_is_out_of_bounds_above_32_bits},
    {"addresses go around 64 bits", addresses_go_around_64_bits},
    {"a billion pieces are refused", a_billion_pieces_are_refused},
};

}  // namespace
}  // namespace bounds_ut

KILIM_TEST_SUITE(bounds, bounds_ut::cases)
