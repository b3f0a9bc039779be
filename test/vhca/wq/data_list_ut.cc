// SPDX-License-Identifier: BSD-3-Clause
// The data segments of a WQE's body, read into a list: pointers, inline data, and what no body can
// hold. DS counts 63 octowords at most, so that no WQE reaches the list's own bound.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "equal.hh"
#include "kilim/prm/data_seg.hh"
#include "ut.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::test {
namespace data_list_ut {
namespace {

using Body = std::vector<std::byte>;

void add(Body& body, uint32_t byte_count, uint32_t lkey, uint64_t address) {
  prm::DataSeg seg;
  seg.byte_count = be32(byte_count);
  seg.lkey = be32(lkey);
  seg.addr = be64(address);
  const auto* bytes = reinterpret_cast<const std::byte*>(&seg);
  body.insert(body.end(), bytes, bytes + sizeof(seg));
}

void pointers_and_inline_data_come_in_turn() {
  Body body;
  add(body, 100, 7, 0x1000);
  add(body, prm::inline_flag | 13, 0, 0);
  body.resize(body.size() + 16);
  add(body, 0, 8, 0x2000);
  wq::DataList list;
  CU_ASSERT_FATAL(wq::decode_data(body, 0, list));
  EQUAL(list.count, 3);
  EQUAL(list.total, 100 + 13 + (uint64_t{1} << 31));  // PRM: a byte count of zero is 2^31
  EQUAL(list.segments[0].addr, 0x1000);
  EQUAL(list.segments[1].addr, reinterpret_cast<uint64_t>(body.data() + 16 + 4));
  EQUAL(list.segments[1].bytes, 13);
  EQUAL(list.segments[2].addr, 0x2000);
  CU_ASSERT_FATAL(wq::decode_data(body, 48, list));
  EQUAL(list.count, 1);
}

void a_list_holds_what_it_has_room_for() {
  wq::DataList list;
  Body body;
  for (std::size_t n = 0; n < list.segments.size(); n++) add(body, 1, 7, 0x1000 + n);
  CU_ASSERT_FATAL(wq::decode_data(body, 0, list));
  EQUAL(list.count, list.segments.size());
  EQUAL(list.segments.back().addr, 0x1000 + list.segments.size() - 1);
  add(body, 1, 7, 0x1000);
  EQUAL(wq::decode_data(body, 0, list), false);
}

// Each length that the field has, in bodies that are long enough and an octoword shorter.
void inline_data_end_with_their_body() {
  for (uint32_t bytes = 0; bytes <= prm::inline_length_mask; bytes++) {
    const std::size_t octowords = (sizeof(prm::InlineSeg) + bytes + 15) / 16;
    for (std::size_t given : {octowords, octowords + 1}) {
      Body body;
      add(body, prm::inline_flag | bytes, 0, 0);
      body.resize(given * 16);
      if (given > octowords) std::memset(body.data() + octowords * 16, 0, 16);
      wq::DataList list;
      CU_ASSERT_FATAL(wq::decode_data(body, 0, list));
      EQUAL_FATAL(list.segments[0].bytes, bytes);
      EQUAL_FATAL(list.count, given - octowords + 1);
      if (octowords > 1) {
        body.resize((octowords - 1) * 16);
        EQUAL_FATAL(wq::decode_data(body, 0, list), false);
      }
    }
  }
}

void a_part_of_a_segment_is_none() {
  for (std::size_t bytes = 1; bytes < 16; bytes++) {
    Body body(bytes);
    wq::DataList list;
    EQUAL(wq::decode_data(body, 0, list), false);
  }
}

const kilim::test::Case cases[] = {
    {"pointers and inline data come in turn", pointers_and_inline_data_come_in_turn},
    {"a list holds what it has room for", a_list_holds_what_it_has_room_for},
    {"inline data end with their body", inline_data_end_with_their_body},
    {"a part of a segment is none", a_part_of_a_segment_is_none},
};

}  // namespace
}  // namespace data_list_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(data_list, kilim::vhca::test::data_list_ut::cases)
