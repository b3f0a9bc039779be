// SPDX-License-Identifier: BSD-3-Clause
// The straight way through long lists. Part of plain_ut.
#include "plain_fixture.hh"
#include "ut.hh"

namespace kilim::vhca::test {
namespace plain_lists_ut {
namespace {

using prm::CqeOpcode;

// A key whose entries go over a region in another order: bytes_at() says what lies where.
struct LongList {
  static constexpr uint32_t a_request = 36;  // entries of a UMR
  LongList(Side& side, uint32_t entries, uint32_t entry_bytes, const Pages& region,
           uint32_t region_key)
      : s(side),
        count(entries),
        bytes(entry_bytes),
        memory(region),
        inner(region_key),
        key(side.rig.make_key(entries)) {
    for (uint32_t first = 0; first < count; first += a_request)
      change(first, std::min(a_request, count - first));
  }
  [[nodiscard]] uint32_t place_of(uint32_t i) const { return i * 7 % count * bytes; }
  [[nodiscard]] uint64_t len() const { return uint64_t{count} * bytes; }
  [[nodiscard]] std::byte& at(uint64_t offset) const {
    const auto i = static_cast<uint32_t>(offset / bytes);
    return memory.data()[(i == moved ? 0 : place_of(i)) + offset % bytes];
  }
  void change(uint32_t first, uint32_t n) {
    std::vector<prm::Klm> list;
    for (uint32_t i = first; i < first + n; i++)
      list.push_back(klm(memory.at(i == moved ? 0 : place_of(i)), bytes, inner));
    UmrShape shape{.len = len(), .offset = static_cast<uint16_t>(first)};
    shape.flags |= prm::umr::has_translation_offset;
    EQUAL(s.rig.run_one(s.rig.a, umr_wqe(key, shape, list)).op, CqeOpcode::req);
  }
  Side& s;
  uint32_t count, bytes;
  const Pages& memory;
  uint32_t inner, key;
  uint32_t moved = ~0u;  // this entry shows the region's beginning
};

void expect_read(Side& s, const LongList& l, uint64_t offset, uint32_t n) {
  Wqe write(Opcode::rdma_write);
  write.raddr(s.dst.at(0), s.keys[Side::whole_dst]).data(offset, n, l.key);
  const uint64_t work = work_of(s, write);
  if (n <= 1000) EQUAL(work, exec::plain_work);
  bool same = true;
  for (uint32_t i = 0; i < n; i++) same = same && s.dst.data()[i] == l.at(offset + i);
  CU_ASSERT(same);
}

void long_lists_are_read_from_anywhere() {
  Side s(21, false);
  const LongList l(s, 1000, 16, s.src, s.keys[Side::whole_src]);
  for (uint64_t at = 0; at + 100 <= l.len(); at += 100) expect_read(s, l, at, 100);
  for (uint64_t at = l.len(); at >= 333; at -= 333) expect_read(s, l, at - 333, 333);
  expect_read(s, l, 0, static_cast<uint32_t>(l.len()));
  for (uint32_t i = 0; i < 300; i++) {
    const uint32_t at = i * 7919 % 15000;
    expect_read(s, l, at, 1 + i * 31 % 999);
  }
}

void long_lists_at_both_ends() {
  Side s(22, false);
  const LongList from(s, 900, 16, s.src, s.keys[Side::whole_src]);
  const LongList to(s, 620, 24, s.dst, s.keys[Side::whole_dst]);
  for (const uint32_t n : {14000u, 3000u, 14400u, 1u}) {
    Wqe write(Opcode::rdma_write), read(Opcode::rdma_read);
    write.raddr(5, to.key).data(0, n, from.key);
    EQUAL(s.rig.run_one(s.rig.a, write).op, CqeOpcode::req);
    read.raddr(0, from.key).data(5, n, to.key);
    CU_ASSERT(work_of(s, read) < exec::general_work + n + 2000 * 128);
    bool same = true;
    for (uint32_t i = 0; i < n; i++) same = same && to.at(5 + i) == from.at(i);
    CU_ASSERT(same);
  }
}

void a_changed_list_is_read_anew() {
  Side s(23, false);
  LongList l(s, 1000, 16, s.src, s.keys[Side::whole_src]);
  expect_read(s, l, 12000, 160);
  expect_read(s, l, 400, 160);
  l.moved = 761;
  l.change(756, 8);
  expect_read(s, l, 12160, 160);
  expect_read(s, l, 400, 160);
  expect_read(s, l, 0, 16000);
}

// Entries get shorter, or are none any more: what lies where moves.
void a_list_whose_entries_move_is_read_anew() {
  Side s(25, false);
  const uint32_t key = s.rig.make_key(400);
  const auto change = [&](uint32_t first, uint32_t n, uint32_t bytes, uint64_t len) {
    std::vector<prm::Klm> list;
    for (uint32_t i = first; i < first + n; i++)
      list.push_back(bytes == 0 ? prm::Klm{}
                                : klm(s.src.at(i * 40), bytes, s.keys[Side::whole_src]));
    UmrShape shape{.len = len, .offset = static_cast<uint16_t>(first)};
    shape.flags |= prm::umr::has_translation_offset;
    EQUAL(s.rig.run_one(s.rig.a, umr_wqe(key, shape, list)).op, CqeOpcode::req);
  };
  const auto expect = [&](uint64_t offset, uint32_t entry) {
    Wqe write(Opcode::rdma_write);
    write.raddr(s.dst.at(0), s.keys[Side::whole_dst]).data(offset, 16, key);
    EQUAL(s.rig.run_one(s.rig.a, write).op, CqeOpcode::req);
    EQUAL(std::memcmp(s.dst.data(), s.src.data() + std::size_t{entry} * 40, 16), 0);
  };
  for (uint32_t first = 0; first < 400; first += 40) change(first, 40, 16, 6400);
  expect(784, 49);
  change(0, 4, 8, 6368);
  expect(800, 52);
  expect(768, 50);
  change(8, 4, 0, 6304);
  expect(736, 52);
  expect(5600, 356);
  expect(160, 16);
  expect(5616, 357);
}

// An entry far behind the first ones names a key that is gone: what lies in packets of 4,096 in
// front of it has left.
void what_a_long_list_does_not_allow_does_not_move() {
  Side s(24, false);
  LongList l(s, 1000, 16, s.src, s.keys[Side::whole_src]);
  l.inner = s.keys[Side::foreign];
  l.change(900, 4);
  std::memset(s.dst.data(), 0x55, region_bytes);
  Wqe write(Opcode::rdma_write);
  write.raddr(s.dst.at(0), s.keys[Side::whole_dst]).data(0, 16000, l.key);
  EQUAL(s.rig.run_one(s.rig.a, write).syndrome, Syndrome::local_prot);
  constexpr uint32_t left = 900 * 16 / 4096 * 4096;
  bool same = true;
  for (uint32_t i = 0; i < left; i++) same = same && s.dst.data()[i] == l.at(i);
  for (uint32_t i = left; i < region_bytes; i++) same = same && s.dst.data()[i] == std::byte{0x55};
  CU_ASSERT(same);
}

}  // namespace
}  // namespace plain_lists_ut

void long_lists_are_read_as_they_are() {
  plain_lists_ut::long_lists_are_read_from_anywhere();
  plain_lists_ut::long_lists_at_both_ends();
  plain_lists_ut::a_changed_list_is_read_anew();
  plain_lists_ut::a_list_whose_entries_move_is_read_anew();
  plain_lists_ut::what_a_long_list_does_not_allow_does_not_move();
}

}  // namespace kilim::vhca::test
