// SPDX-License-Identifier: BSD-3-Clause
// The UMR builders over an array; the bytes are written out by hand from the manual's layout.
#include <array>
#include <cstring>

#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/umr/patch.hh"
#include "kilim/detail/umr/umr_wqe.hh"
#include "ut.hh"

namespace umr_wqe_ut {
namespace {

using namespace kilim;
using namespace kilim::umr;

struct Ring {
  static constexpr uint32_t blocks = 64;
  alignas(64) std::array<std::byte, blocks * 64> memory;
  std::array<uint64_t, blocks> wr_ids{};
  be32 record{0};
  alignas(8) std::array<std::byte, 8> doorbell{};
  Ring() { memory.fill(std::byte{0xee}); }
  queue::SqGeometry geometry(uint32_t n = blocks) {
    return {.buf = memory.data(),
            .wqebb_count = n,
            .record = &record,
            .doorbell = doorbell.data(),
            .qpn = Qpn{0xabcdef}};
  }
  const uint8_t* block(uint32_t i) const {
    return reinterpret_cast<const uint8_t*>(memory.data()) + std::size_t{i} * 64;
  }
};

constexpr ListRequest request{.key = Lkey{0x01020304},
                              .max_entries = 64,
                              .new_tag = 0x04,
                              .access = mkey_access(mr::Access::all)};
const std::array<Piece, 56> many = [] {
  std::array<Piece, 56> a;
  for (uint32_t i = 0; i < a.size(); i++)
    a[i] = Piece{0x0708'090a'0b0c'0d00u + i, 0x10203000 + 100 + i, Lkey{0x51525300 + i}};
  return a;
}();

View first(uint32_t n) {
  return View::of(std::span{many}.first(n));
}

void two_pieces() {
  Ring ring;
  queue::Sq sq{ring.geometry(), ring.wr_ids};
  queue::WqeCursor c{sq};
  CU_ASSERT_TRUE(
      umr_list(c, request, first(2), {.id = 5, .flags = queue::WrFlags::signalled}).ok());
  c.commit();
  const uint8_t control[64] = {0, 0, 0, 0x25, 0xab, 0xcd, 0xef, 12, 0, 0, 0, 8, 1, 2, 3, 4,
                               // inline; 4 octowords; FREE|ACCESS|MKEY|LEN
                               0x80, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0x20, 0x3c, 0x20, 1};
  const uint8_t context[64] = {0, 0, 0x78, 0, 0xff, 0xff, 0xff, 4,    0,    0,  0,
                               0, 0, 0,    0, 0,    0,    0,    0,    0,    0,  0,
                               0, 0, 0,    0, 0,    0,    0x20, 0x40, 0x60, 201};
  const uint8_t list[64] = {0x10, 0x20, 0x30, 100, 0x51, 0x52, 0x53, 0, 7, 8, 9, 10, 11, 12, 13, 0,
                            0x10, 0x20, 0x30, 101, 0x51, 0x52, 0x53, 1, 7, 8, 9, 10, 11, 12, 13, 1};
  EQUAL(std::memcmp(ring.block(0), control, 64), 0);
  EQUAL(std::memcmp(ring.block(1), context, 64), 0);
  EQUAL(std::memcmp(ring.block(2), list, 64), 0);
  EQUAL(ring.block(3)[0], 0xee);
  EQUAL(ring.record.host(), 3);
  EQUAL(sq.retire(0), 5);
  CU_ASSERT_TRUE(sq.idle());
}

void every_count_is_padded() {
  for (uint32_t n = 1; n <= max_inline_klms; n++) {
    Ring ring;
    queue::Sq sq{ring.geometry(), ring.wr_ids};
    queue::WqeCursor c{sq};
    CU_ASSERT_TRUE_FATAL(umr_list(c, request, first(n), {}).ok());
    c.commit();
    const uint32_t padded = (n + 3) / 4 * 4;
    EQUAL(ring.block(0)[7], 8 + padded);
    EQUAL(ring.block(0)[21], padded);
    EQUAL(ring.record.host(), 2 + padded / 4);
    for (uint32_t i = 0; i < padded; i++) {
      const uint8_t* klm = ring.block(2) + std::size_t{i} * 16;
      EQUAL_FATAL(klm[3], i < n ? 100 + i : 0);
      EQUAL_FATAL(klm[7], i < n ? i : 0);
      EQUAL_FATAL(klm[15], i < n ? i : 0);
    }
    EQUAL(*(ring.block(2) + std::size_t{padded} * 16), 0xee);
  }
}

void wraps_anywhere() {
  for (uint32_t start = 1; start < 16; start++) {
    Ring ring;
    queue::Sq sq{ring.geometry(16), std::span{ring.wr_ids}.first(16)};
    {
      queue::WqeCursor c{sq};
      for (uint32_t i = 0; i < start; i++) (void)queue::send(c, Piece{1, 1, Lkey{1}}, {});
      c.commit();
    }
    sq.retire(static_cast<uint16_t>(start - 1));
    queue::WqeCursor c{sq};
    CU_ASSERT_TRUE_FATAL(umr_list(c, request, first(52), {}).ok());
    c.commit();
    for (uint32_t i = 0; i < 52; i++) {
      const uint8_t* klm = ring.block((start + 2 + i / 4) % 16) + i % 4 * 16;
      EQUAL_FATAL(klm[7], i);
    }
    EQUAL(ring.block((start + 1) % 16)[7], 4);
  }
}

void options() {
  Ring ring;
  queue::Sq sq{ring.geometry(), ring.wr_ids};
  queue::WqeCursor c{sq};
  ListRequest r = request;
  r.new_tag = 0x77;
  r.has_start = true;
  r.start = 0x1122334455667788;
  r.checks = prm::umr::check_not_free;
  r.access = mkey_access(mr::Access::remote_read);
  CU_ASSERT_TRUE(umr_list(c, r, first(1), {}).ok());
  c.commit();
  EQUAL(ring.block(0)[16], 0xa0);
  EQUAL(ring.block(0)[31], 0x41);  // START_ADDR beside LEN
  EQUAL(ring.block(0)[15], 0x04);  // the key as it was
  EQUAL(ring.block(1)[7], 0x77);
  EQUAL(r.new_key().value(), 0x01020377);
  EQUAL(ring.block(1)[2], prm::mkey::remote_read);
  EQUAL(ring.block(1)[16], 0x11);
  EQUAL(ring.block(1)[23], 0x88);
}

void refusals() {
  Ring ring;
  queue::Sq sq{ring.geometry(4), std::span{ring.wr_ids}.first(4)};
  queue::WqeCursor c{sq};
  Outcome o = umr_list(c, request, first(53), {});
  EQUAL(o.why, Refusal::too_many_inline);
  EQUAL(o.asked, 53);
  EQUAL(o.limit, 52);
  o = umr_list(c, request, View{}, {});
  EQUAL(o.why, Refusal::empty);
  ListRequest small = request;
  small.max_entries = 3;
  o = umr_list(c, small, first(4), {});
  EQUAL(o.why, Refusal::over_key);
  EQUAL(o.asked, 4);
  EQUAL(o.limit, 3);
  // More than a WQE holds inline as well: no other form helps this key.
  o = umr_list(c, small, first(53), {});
  EQUAL(o.why, Refusal::over_key);
  EQUAL(o.asked, 53);
  EQUAL(o.limit, 3);
  o = umr_list(c, request, first(9), {});
  EQUAL(o.why, Refusal::no_room);
  EQUAL(o.asked, 5);
  EQUAL(o.limit, 4);
  CU_ASSERT_TRUE(umr_list(c, request, first(4), {}).ok());
  o = local_invalidate(c, request.key, {});
  EQUAL(o.why, Refusal::no_room);
  EQUAL(o.asked, 2);
  EQUAL(o.limit, 1);
  EQUAL(std::strcmp(text(Refusal::over_key), "the view has more pieces than the key has entries"),
        0);
}

void invalidation() {
  Ring ring;
  queue::Sq sq{ring.geometry(), ring.wr_ids};
  queue::WqeCursor c{sq};
  CU_ASSERT_TRUE(local_invalidate(c, Lkey{0x01020304}, {.id = 3}).ok());
  c.commit();
  const uint8_t control[64] = {0,    0, 0, 0x25, 0xab, 0xcd, 0xef, 8, 0, 0, 0, 0, 1,    2, 3, 4,
                               0x80, 0, 0, 0,    0,    0,    0,    0, 0, 0, 0, 0, 0x20, 0, 0, 0};
  const uint8_t context[64] = {0x40, 0, 0, 0, 0xff, 0xff, 0xff, 4};
  EQUAL(std::memcmp(ring.block(0), control, 64), 0);
  EQUAL(std::memcmp(ring.block(1), context, 64), 0);
  EQUAL(ring.record.host(), 2);
}

void fences() {
  Ring ring;
  queue::Sq sq{ring.geometry(), ring.wr_ids};
  const FencePlanner strong;
  queue::WqeCursor c{sq};
  (void)umr_list(c, request, first(1), {.flags = strong.before_umr(MkeyUse::in_flight)});
  (void)queue::send(c, many[0], {});
  (void)local_invalidate(c, request.key, {});
  (void)queue::send(c, many[0], {});
  (void)queue::send(c, many[0], {});
  c.commit();
  EQUAL(ring.block(0)[11], prm::ctrl::strong_fence);
  EQUAL(ring.block(3)[11], prm::ctrl::small_fence);
  EQUAL(ring.block(4)[11], 0);
  EQUAL(ring.block(6)[11], prm::ctrl::small_fence);
  EQUAL(ring.block(7)[11], 0);
}

// In a list 2 GiB are said as they are: bit 31 has no other meaning there, and 0 is no 2 GiB.
void an_entry_spans_two_gib_and_no_more() {
  Ring ring;
  queue::Sq sq{ring.geometry(), ring.wr_ids};
  queue::WqeCursor c{sq};
  Piece pieces[2] = {{1, 1u << 31, Lkey{7}}, {2, 5, Lkey{7}}};
  CU_ASSERT_TRUE(umr_list(c, request, View::of(pieces), {}).ok());
  const uint8_t count[8] = {0x80, 0, 0, 0, 0, 0, 0, 7};
  EQUAL(std::memcmp(ring.block(2), count, sizeof count), 0);
  const uint8_t length[8] = {0, 0, 0, 0, 0x80, 0, 0, 5};
  EQUAL(std::memcmp(ring.block(1) + 24, length, sizeof length), 0);
  const uint32_t room = c.room().value();
  for (const uint32_t bytes : {(1u << 31) + 1, ~0u}) {
    pieces[1].length = bytes;
    const View bad = View::of(pieces);
    const Patch where{.key = request.key, .max_entries = 4, .first = 0};
    for (const Outcome& o : {umr_list(c, request, bad, {}), patch(c, {}, where, bad, {})}) {
      EQUAL(o.why, Refusal::long_piece);
      EQUAL(o.asked, bytes);
      EQUAL(o.limit, 1u << 31);
      char said[128];
      describe(o, said);
      CU_ASSERT_PTR_NOT_NULL(std::strstr(said, "2147483648"));
    }
  }
  EQUAL(c.room().value(), room);
}

const kilim::test::Case cases[] = {
    {"a list of two pieces, byte for byte", two_pieces},
    {"every count from 1 to 52 is padded to whole lines", every_count_is_padded},
    {"a list wraps at the ring's end wherever it begins", wraps_anywhere},
    {"start address, tag, access and checks", options},
    {"what does not fit is refused with the numbers", refusals},
    {"an entry spans 2 GiB and no more", an_entry_spans_two_gib_and_no_more},
    {"an invalidation, byte for byte", invalidation},
    {"fences before and after a UMR", fences},
};

}  // namespace
}  // namespace umr_wqe_ut

KILIM_TEST_SUITE(umr_wqe, umr_wqe_ut::cases)
