// SPDX-License-Identifier: BSD-3-Clause
// Collecting pieces into views.
#include "kilim/detail/umr/view.hh"
#include "ut.hh"

namespace view_ut {
namespace {

using namespace kilim;
using namespace kilim::umr;

void collects() {
  PieceList<3> list;
  CU_ASSERT_TRUE(list.add(Lkey{7}, 0x123456789abc, 10));
  CU_ASSERT_TRUE(list.add(Lkey{8}, 1, 0));
  CU_ASSERT_TRUE(list.add(Lkey{0xffffffff}, 2, 0x80000000));
  const View v = list.view();
  EQUAL(v.count, 2);
  EQUAL(v.length, 0x8000000a);
  EQUAL(v.pieces[0].address, 0x123456789abc);
  EQUAL(v.pieces[0].length, 10);
  EQUAL(v.pieces[0].key, Lkey{7});
  EQUAL(v.pieces[1].key, Lkey{0xffffffff});
  EQUAL(v.pieces[1].length, 0x80000000);
  list.clear();
  EQUAL(list.view().count, 0);
  EQUAL(list.view().length, 0);
}

void overflow() {
  PieceList<2> list;
  CU_ASSERT_TRUE(list.add(Lkey{1}, 0, 1));
  CU_ASSERT_TRUE(list.add(Lkey{1}, 0, 1));
  CU_ASSERT_FALSE(list.add(Lkey{1}, 0, 1));
  CU_ASSERT_TRUE(list.add(Lkey{1}, 0, 0));
  EQUAL(list.view().length, 2);
}

void splits() {
  PieceList<4> list;
  CU_ASSERT_TRUE(list.add(Lkey{1}, 100, 0x1'8000'0001));  // 2 + 2 + 2 GiB + 1 byte: four pieces
  EQUAL(list.count(), 4);
  const View v = list.view();
  EQUAL(v.length, 0x1'8000'0001);
  EQUAL(v.pieces[2].length, 0x80000000);
  EQUAL(v.pieces[3].address, 100 + 0x1'8000'0000);
  EQUAL(v.pieces[3].length, 1);
  PieceList<4> shorter;
  CU_ASSERT_TRUE(shorter.add(Lkey{1}, 0, 1));
  CU_ASSERT_FALSE(shorter.add(Lkey{1}, 100, 0x1'8000'0001));
  EQUAL(shorter.count(), 1);
  CU_ASSERT_FALSE(shorter.add(Lkey{1}, ~uint64_t{0} - 5, 0x8000'0001));
  CU_ASSERT_FALSE(shorter.add(Lkey{1}, 0, ~uint64_t{0}));
}

void ready_pieces() {
  const Piece good[2] = {{1, 5, Lkey{1}}, {2, 0x80000000, Lkey{2}}};
  const View v = View::of(good);
  EQUAL(v.count, 2);
  EQUAL(v.length, 0x80000005);
  const Piece empty[2] = {{1, 5, Lkey{1}}, {2, 0, Lkey{2}}};
  EQUAL(View::of(empty).count, 0);
  const Piece long_one[1] = {{1, 0x80000001, Lkey{1}}};
  EQUAL(View::of(long_one).count, 0);
}

const kilim::test::Case cases[] = {
    {"pieces are collected, empty ones left out", collects},
    {"a full list takes no more", overflow},
    {"a piece beyond 2 GiB is split, or refused whole", splits},
    {"ready pieces are summed; a bad one empties the view", ready_pieces},
};

}  // namespace
}  // namespace view_ut

KILIM_TEST_SUITE(view, view_ut::cases)
