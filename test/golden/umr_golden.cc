// SPDX-License-Identifier: BSD-3-Clause
// The UMR WQEs that Kilim writes are those that libmlx5 writes for the same request: random lists
// through both of its interfaces, byte for byte, the queue pair's number aside. Both queues work on
// one key, so its number is compared too. Where Kilim differs on purpose, the bytes are patched one
// by one and the reason stands beside.
#include <random>

#include "kilim/detail/umr/umr_wqe.hh"
#include "twins_fixture.hh"
#include "ut.hh"

namespace umr_golden_ut {
namespace {

using namespace kilim;
using test::first_difference;
using test::GoldenQp;
using test::Twins;

struct Request {
  std::vector<ibv_sge> sges;
  uint32_t access = 0;
  bool signalled = true;
  bool older_interface = false;
  bool layout_first = false;
};

Request random_request(std::mt19937_64& random) {
  Request r;
  const std::size_t n = random() % 3 != 0 ? 1 + random() % 8 : 1 + random() % 52;
  for (std::size_t i = 0; i < n; i++) {
    const auto length = static_cast<uint32_t>(1 + random() % 65536);
    r.sges.push_back({random(), length, static_cast<uint32_t>(random())});
  }
  for (uint32_t bit : {1u, 2u, 4u, 8u}) r.access |= random() % 2 != 0 ? bit : 0;
  r.older_interface = random() % 2 != 0;
  r.layout_first = random() % 2 != 0;
  return r;
}

int by_libmlx5(GoldenQp& q, mlx5dv_mkey* key, Request& r) {
  ibv_wr_start(q.ex);
  q.ex->wr_id = 1;
  q.ex->wr_flags = IBV_SEND_INLINE | (r.signalled ? IBV_SEND_SIGNALED : 0);
  const auto count = static_cast<uint16_t>(r.sges.size());
  if (r.older_interface) {
    mlx5dv_wr_mr_list(q.dv, key, r.access, count, r.sges.data());
    return ibv_wr_complete(q.ex);
  }
  mlx5dv_mkey_conf_attr attr{};
  mlx5dv_wr_mkey_configure(q.dv, key, 2, &attr);
  if (r.layout_first) mlx5dv_wr_set_mkey_layout_list(q.dv, count, r.sges.data());
  mlx5dv_wr_set_mkey_access_flags(q.dv, r.access);
  if (!r.layout_first) mlx5dv_wr_set_mkey_layout_list(q.dv, count, r.sges.data());
  return ibv_wr_complete(q.ex);
}

Outcome by_kilim(queue::Sq& sq, const mlx5dv_mkey* key, uint32_t max_entries, const Request& r) {
  std::vector<umr::Piece> pieces;
  for (const ibv_sge& s : r.sges) pieces.push_back({s.addr, s.length, Lkey{s.lkey}});
  queue::WqeCursor c{sq};
  const umr::ListRequest request{.key = Lkey{key->lkey},
                                 .max_entries = max_entries,
                                 .new_tag = tag_of(Lkey{key->lkey}),
                                 .access = umr::mkey_access(r.access)};
  const uint8_t flags = r.signalled ? queue::WrFlags::signalled : queue::WrFlags::none;
  const Outcome o = umr::umr_list(c, request, pieces, {.flags = flags});
  if (o.ok()) c.commit();
  return o;
}

void random_lists() {
  Twins t{"umr0"};
  CU_ASSERT_TRUE_FATAL(t.ok());
  std::mt19937_64 random{44};
  for (uint32_t i = 0; i < 600; i++) {
    Request r = random_request(random);
    t.key->lkey = (t.key->lkey & ~0xffu) | static_cast<uint32_t>(random() & 0xff);
    EQUAL_FATAL(by_libmlx5(*t.theirs, t.key, r), 0);
    EQUAL_FATAL(t.theirs->wait(), IBV_WC_SUCCESS);
    CU_ASSERT_TRUE_FATAL(by_kilim(*t.sq, t.key, Twins::max_entries, r).ok());
    const uint16_t counter = static_cast<uint16_t>(t.first);
    const auto [libmlx5, kilim] = t.posted();
    CU_ASSERT_TRUE_FATAL(libmlx5.size() >= 192);
    EQUAL_FATAL(first_difference(libmlx5, kilim), -1);
    EQUAL_FATAL(t.ours->wait(), IBV_WC_SUCCESS);
    t.sq->retire(counter);
  }
}

// libmlx5 adds up the pieces in a signed int, so a key of 2 GiB or more gets a length with its sign
// extended. Kilim writes the sum.
void sums_beyond_2_gib() {
  Twins t{"umr1"};
  CU_ASSERT_TRUE_FATAL(t.ok());
  Request r;
  r.sges = {{0x1000, 1500u << 20, 5}, {0x2000, 1500u << 20, 6}};
  EQUAL_FATAL(by_libmlx5(*t.theirs, t.key, r), 0);
  CU_ASSERT_TRUE_FATAL(by_kilim(*t.sq, t.key, Twins::max_entries, r).ok());
  auto [libmlx5, kilim] = t.posted();
  EQUAL_FATAL(libmlx5.size(), 192);
  const uint8_t length[8] = {0, 0, 0, 0, 0xbb, 0x80, 0, 0};
  EQUAL(libmlx5[64 + 24], 0xff);
  EQUAL(std::memcmp(&kilim[64 + 24], length, 8), 0);
  std::memcpy(&libmlx5[64 + 24], length, 8);
  EQUAL(first_difference(libmlx5, kilim), -1);
}

void both_refuse_53() {
  Twins t{"umr2"};
  CU_ASSERT_TRUE_FATAL(t.ok());
  Request r;
  r.sges.assign(53, {0x1000, 16, 5});
  EQUAL(by_libmlx5(*t.theirs, t.key, r), ENOMEM);
  const Outcome o = by_kilim(*t.sq, t.key, Twins::max_entries, r);
  EQUAL(o.why, Refusal::too_many_inline);
  EQUAL(o.asked, 53);
  EQUAL(o.limit, 52);
  EQUAL(t.theirs->posted(), 0);
  EQUAL(t.ours->posted(), 0);
}

// libmlx5 invalidates as a memory window is unbound: it also says "translation offset" and "check
// the queue pair", writes the tag and the queue pair's number, and leaves the rest of the context
// as the ring had it. An indirect key belongs to no queue pair: Kilim changes its state and nothing
// else, as the kernel does for its own keys.
void invalidation() {
  Twins t{"umr3"};
  CU_ASSERT_TRUE_FATAL(t.ok());
  ibv_wr_start(t.theirs->ex);
  t.theirs->ex->wr_id = 1;
  t.theirs->ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_local_inv(t.theirs->ex, t.key->lkey);
  EQUAL_FATAL(ibv_wr_complete(t.theirs->ex), 0);
  CU_ASSERT_NOT_EQUAL(t.theirs->wait(), IBV_WC_GENERAL_ERR);
  queue::WqeCursor c{*t.sq};
  CU_ASSERT_TRUE(
      umr::local_invalidate(c, Lkey{t.key->lkey}, {.flags = queue::WrFlags::signalled}).ok());
  c.commit();
  auto [libmlx5, kilim] = t.posted();
  EQUAL_FATAL(libmlx5.size(), 128);
  EQUAL(libmlx5[16], 0x98);
  libmlx5[16] = 0x80;  // inline only
  EQUAL(libmlx5[30], 0x60);
  libmlx5[30] = 0;                  // mask FREE, without QPN and MKEY
  libmlx5[64 + 7] = kilim[64 + 7];  // the tag, which the mask leaves alone
  std::memset(&libmlx5[64 + 1], 0, 3);
  std::memset(&libmlx5[64 + 8], 0, 56);
  EQUAL(first_difference(libmlx5, kilim), -1);
  EQUAL(t.ours->wait(), IBV_WC_SUCCESS);
}

const kilim::test::Case cases[] = {
    {"600 random lists, both of libmlx5's interfaces, byte for byte", random_lists},
    {"lengths of 2 GiB and more are the sum of the pieces", sums_beyond_2_gib},
    {"53 entries are refused by both", both_refuse_53},
    {"an invalidation changes the key's state and nothing else", invalidation},
};

}  // namespace
}  // namespace umr_golden_ut

KILIM_TEST_SUITE(umr, umr_golden_ut::cases)
