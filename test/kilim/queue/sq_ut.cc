// SPDX-License-Identifier: BSD-3-Clause
// The send queue and its cursor over an array.
#include <cstring>

#include "kilim/detail/queue/error_log.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "ring_fixture.hh"
#include "ut.hh"

namespace sq_ut {
namespace {

using namespace kilim;
using namespace kilim::queue;
using kilim::test::SqRing;

constexpr Remote to{0x1122334455667788, Rkey{0xa1b2c3d4}};
const Sge piece{0x99aabbccddeeff00, 0x1234, Lkey{0x01020304}};

uint32_t post_writes(Sq& sq, uint32_t n, uint64_t first_id) {
  WqeCursor c{sq};
  uint32_t done = 0;
  while (done < n && rdma_write(c, to, piece, {.id = first_id + done})) done++;
  c.commit();
  return done;
}

void full_queue() {
  SqRing<8> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  EQUAL(post_writes(sq, 20, 100), 8);
  EQUAL(sq.credits().value(), 0);
  EQUAL(post_writes(sq, 1, 0), 0);
  EQUAL(ring.record.host(), 8);
}

void retire_gives_credits() {
  SqRing<8> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  post_writes(sq, 8, 100);
  EQUAL(sq.retire(2), 102);
  EQUAL(sq.credits().value(), 3);
  EQUAL(post_writes(sq, 8, 200), 3);
  EQUAL(sq.retire(10), 202);
  CU_ASSERT_TRUE(sq.idle());
}

// Over the ring's end; a flush is no error to note, and nothing was noted before.
void a_failed_request_is_noted_with_its_bytes() {
  SqRing<4> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  post_writes(sq, 3, 0);
  sq.retire(2);
  const Sge many[7] = {piece, piece, piece, piece, piece, piece, piece};
  WqeCursor c{sq};
  CU_ASSERT_TRUE(rdma_write(c, to, std::span{many}, {.id = 1}));  // blocks 3, 0 and 1
  c.commit();
  ErrorLog log;
  NotedError e;
  CU_ASSERT_FALSE(log.read(e));
  Completion failed;
  failed.opcode = prm::CqeOpcode::req_err;
  failed.syndrome = prm::Syndrome::wr_flush;
  failed.wqe_counter = 3;
  log.note_send(failed, sq.geometry());
  CU_ASSERT_FALSE(log.read(e));
  failed.syndrome = prm::Syndrome::local_prot;
  log.note_send(failed, sq.geometry());
  CU_ASSERT_TRUE_FATAL(log.read(e));
  EQUAL(e.number, 1);
  EQUAL(e.completion.syndrome, prm::Syndrome::local_prot);
  EQUAL(e.bytes().size(), 9 * 16);
  const std::byte* buf = sq.geometry().buf;
  EQUAL(std::memcmp(e.wqe.data(), buf + 3 * 64, 64), 0);
  EQUAL(std::memcmp(e.wqe.data() + 64, buf, 80), 0);
}

void retire_counts_blocks_of_long_wqes() {
  SqRing<8> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  const Sge many[7] = {piece, piece, piece, piece, piece, piece, piece};
  WqeCursor c{sq};
  CU_ASSERT_TRUE(rdma_write(c, to, std::span{many}, {.id = 1}));  // 9 octowords: 3 blocks
  CU_ASSERT_TRUE(send(c, piece, {.id = 2}));
  c.commit();
  EQUAL(ring.record.host(), 4);
  EQUAL(sq.retire(0), 1);
  EQUAL(sq.credits().value(), 7);
  EQUAL(sq.retire(3), 2);
  CU_ASSERT_TRUE(sq.idle());
}

void retire_to_a_position() {
  SqRing<8> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  const Sge many[7] = {piece, piece, piece, piece, piece, piece, piece};
  for (uint32_t end = 0; end < 40; end += 4) {
    WqeCursor c{sq};
    CU_ASSERT_TRUE(rdma_write(c, to, std::span{many}, {.id = 1}));  // 3 blocks
    CU_ASSERT_TRUE(send(c, piece, {.id = 2}));
    c.commit();
    EQUAL(sq.posted(), end + 4);
    sq.retire_to(end + 3);
    EQUAL(sq.credits().value(), 7);
    sq.retire_to(end + 4);
    CU_ASSERT_TRUE(sq.idle());
  }
}

// Numbers go with their WQEs, those without one included, from one cursor to the next.
void wr_ids_follow_the_blocks() {
  SqRing<8> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  for (uint32_t end = 0; end < 60; end += 4) {
    WqeCursor c{sq};
    c.control(prm::Opcode::nop, Octowords{8}, 0, 0);
    c.advance(2);
    WqeCursor aside = c.aside();
    CU_ASSERT_TRUE(send(aside, piece, {.id = 1000 + end}));
    c.resume(aside);
    CU_ASSERT_TRUE(send(c, piece, {.id = 2000 + end}));
    c.commit();
    EQUAL(sq.retire(static_cast<uint16_t>(end + 2)), 1000 + end);
    EQUAL(sq.retire(static_cast<uint16_t>(end + 3)), 2000 + end);
    CU_ASSERT_TRUE(sq.idle());
  }
}

void counters_wrap() {
  SqRing<8> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  uint32_t posted = 0;
  while (posted < 0x20007) {
    EQUAL_FATAL(post_writes(sq, 1, posted), 1);
    EQUAL_FATAL(ring.record.host(), (posted + 1) & 0xffff);
    EQUAL_FATAL(sq.retire(static_cast<uint16_t>(posted)), posted);
    posted++;
  }
  EQUAL(sq.credits().value(), 8);
}

void wqe_wraps_over_the_end() {
  SqRing<4> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  post_writes(sq, 3, 0);
  sq.retire(2);
  const Sge many[3] = {{1, 11, Lkey{21}}, {2, 12, Lkey{22}}, {3, 13, Lkey{23}}};
  WqeCursor c{sq};
  CU_ASSERT_TRUE(rdma_write(c, to, std::span{many}, {.id = 9}));
  c.commit();
  const uint8_t third[16] = {0, 0, 0, 13, 0, 0, 0, 23, 0, 0, 0, 0, 0, 0, 0, 3};
  EQUAL(std::memcmp(ring.block(0), third, 16), 0);
  EQUAL(ring.block(3)[7], 5);  // ds
  EQUAL(sq.retire(3), 9);
  CU_ASSERT_TRUE(sq.idle());
}

void one_doorbell() {
  SqRing<8> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  WqeCursor c{sq};
  (void)rdma_write(c, to, piece, {});
  (void)send(c, piece, {});
  EQUAL(ring.record.host(), 0);
  c.signal_last();
  c.commit();
  EQUAL(ring.record.host(), 2);
  const uint8_t last_ctrl[8] = {0, 0, 1, 0x0a, 0xab, 0xcd, 0xef, 2};
  EQUAL(std::memcmp(ring.doorbell.data(), last_ctrl, 8), 0);
  EQUAL(ring.block(0)[11], 0);
  EQUAL(ring.block(1)[11], prm::ctrl::cq_update);
  ring.doorbell.fill(std::byte{0});
  c.commit();
  EQUAL(ring.doorbell[3], std::byte{0});
}

void dropped_cursor_posts_nothing() {
  SqRing<8> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  {
    WqeCursor c{sq};
    (void)rdma_write(c, to, piece, {});
    c.fence_next(prm::ctrl::small_fence);
  }
  CU_ASSERT_TRUE(sq.idle());
  EQUAL(ring.record.host(), 0);
  WqeCursor c{sq};
  EQUAL(c.pending_fence(), 0);
}

// With a fence of its own the WQE has what holds both.
void fences_are_joined(SqRing<8>& ring, WqeCursor& c) {
  c.fence_next(prm::ctrl::strong_fence);  // waits for more than the one that is asked for
  (void)send(c, piece, {.flags = WrFlags::fence | WrFlags::solicited});
  c.commit();
  EQUAL(ring.block(4)[11], prm::ctrl::strong_fence | prm::ctrl::solicited);
  // One that waits for answers alone lets a UMR go on: Linux wr.c writes both.
  c.fence_next(prm::ctrl::small_fence);
  (void)send(c, piece, {.flags = prm::ctrl::answer_fence | WrFlags::signalled});
  (void)send(c, piece, {.flags = prm::ctrl::answer_fence});
  c.commit();
  EQUAL(ring.block(5)[11], prm::ctrl::fence | prm::ctrl::cq_update);
  EQUAL(ring.block(6)[11], prm::ctrl::answer_fence);
}

void fence_goes_to_the_next() {
  SqRing<8> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  {
    WqeCursor c{sq};
    (void)send(c, piece, {});
    c.fence_next(prm::ctrl::small_fence);
    c.commit();
  }
  WqeCursor c{sq};
  (void)send(c, piece, {});
  (void)send(c, piece, {});
  c.fence_next(prm::ctrl::small_fence);
  (void)send(c, piece, {.flags = WrFlags::fence | WrFlags::solicited});
  c.commit();
  EQUAL(ring.block(0)[11], 0);
  EQUAL(ring.block(1)[11], prm::ctrl::small_fence);
  EQUAL(ring.block(2)[11], 0);
  EQUAL(ring.block(3)[11], prm::ctrl::fence | prm::ctrl::solicited);
  fences_are_joined(ring, c);
}

void reset_starts_over() {
  SqRing<8> ring;
  Sq sq{ring.geometry(), ring.wr_ids};
  post_writes(sq, 5, 0);
  sq.reset();
  CU_ASSERT_TRUE(sq.idle());
  EQUAL(ring.record.host(), 0);
  EQUAL(post_writes(sq, 1, 77), 1);
  EQUAL(ring.wr_ids[0], 77);
}

const kilim::test::Case cases[] = {
    {"a failed request is noted with its bytes", a_failed_request_is_noted_with_its_bytes},
    {"a full queue takes a short count and then nothing", full_queue},
    {"retiring a WQE frees it and all before it", retire_gives_credits},
    {"retiring a long WQE frees all its blocks", retire_counts_blocks_of_long_wqes},
    {"retire to a position", retire_to_a_position},
    {"wr ids follow the blocks", wr_ids_follow_the_blocks},
    {"producer and completion counters wrap at 16 bits", counters_wrap},
    {"a WQE may begin at the ring's end and go on at its start", wqe_wraps_over_the_end},
    {"a commit is one record and one doorbell with the last WQE's head", one_doorbell},
    {"a cursor dropped without commit posts nothing", dropped_cursor_posts_nothing},
    {"a pending fence goes into the next WQE only", fence_goes_to_the_next},
    {"a reset queue starts over", reset_starts_over},
};

}  // namespace
}  // namespace sq_ut

KILIM_TEST_SUITE(sq, sq_ut::cases)
