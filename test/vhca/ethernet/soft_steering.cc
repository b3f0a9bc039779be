// SPDX-License-Identifier: BSD-3-Clause
// Part of steering_ut. Steering by software: entries written by hand, each field at the bit where
// rdma-core v44 (providers/mlx5/mlx5_ifc.h, ste_*) has it, and what becomes of frames.
#include "vhca/ethernet/soft_steering.hh"

#include <memory>
#include <random>
#include <string_view>

#include "soft_steering_fixture.hh"
#include "vhca/ethernet/ste_lookup.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace soft_steering_ut {
namespace {

using test::Bytes;

// zlib's polynomial, no inversions, the bytes of the sum turned round: bit by bit.
uint32_t place_by_hand(const std::array<uint8_t, 16>& masked, uint32_t entries) {
  uint32_t crc = 0;
  for (uint8_t byte : masked) {
    crc ^= byte;
    for (int i = 0; i < 8; i++) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  }
  const uint32_t turned = crc >> 24 | (crc >> 8 & 0xff00) | (crc << 8 & 0xff0000) | crc << 24;
  return turned % entries;
}

void a_hash_leads_to_the_entry_whose_tag_a_frame_has() {
  constexpr uint16_t source = 0xfc00;  // its six bytes
  Bench bench;
  for (uint8_t last = 0; last < 20; last++) {
    Bytes f = make_frame({});
    f[11] = std::byte{last};
    std::array<uint8_t, 16> masked{};
    for (std::size_t i = 0; i < 6; i++) masked[i] = std::to_integer<uint8_t>(f[6 + i]);
    bench.put(0, entry_of(receives).hit(bench.at(16), 16, l2_src_d, source).miss(drop));
    for (std::size_t i = 16; i < 32; i++) bench.put(i, missing(receives, drop).looks_at(l2_src_d));
    const uint32_t place = place_by_hand(masked, 16);
    Entry e = entry_of(receives).looks_at(l2_src_d).wants(0, std::span(f).subspan(6, 6));
    e.hit(bench.to_tir(), 1)
        .miss(drop)
        .set(0x80, 32, 1u << 31 | 0x123u)
        .set(0xb0, 16, bench.counter);
    bench.put(16 + place, e);
    CU_ASSERT(bench.comes(f, f, 0x123));
    EQUAL(bench.count->packets, last + 1u);
    f[6] ^= std::byte{0x40};
    CU_ASSERT(bench.walk(f).empty());
  }
  EQUAL(bench.count->bytes, 20 * make_frame({}).size());
}

void entries_that_do_not_match_lead_on() {
  Bench bench;
  const Bytes f = make_frame({.tcp = false});
  // IPv4's addresses and ports, and the protocol at the end.
  Entry e = entry_of(receives).looks_at(tuple_d).hit(bench.to_tir(), 1).miss(bench.at(1));
  e.wants(0, std::span(f).subspan(30, 4)).wants(4, std::span(f).subspan(26, 4));
  e.wants(8, std::span(f).subspan(34, 4));
  const std::array udp{std::byte{17}};
  e.wants(15, udp);
  bench.put(0, e);
  bench.put(1, missing(receives, drop));
  CU_ASSERT(bench.comes(f, f));
  CU_ASSERT(bench.walk(make_frame({})).empty());
  CU_ASSERT(bench.soft->why() == std::string_view("a steering entry drops it"));
  bench.put(1, entry_of(receives).hit(bench.to_tir(), 1));
  const Bytes tcp = make_frame({});
  CU_ASSERT(bench.comes(tcp, tcp));
}

void a_chain_without_an_end_ends() {
  Bench bench;
  const Bytes f = make_frame({});
  bench.put(0, missing(receives, bench.at(1)));
  bench.put(1, entry_of(receives).hit(bench.at(0), 1));
  CU_ASSERT(bench.walk(f).empty());
  CU_ASSERT(bench.soft->why() == std::string_view("a chain of steering entries has no end"));
  // By way of a table of the firmware's that leads back twice.
  const uint32_t first = bench.table;
  FlowTable* both = bench.make(false, false);
  both->has_entry = true;
  both->entry.to = {{true, first}, {true, first}};
  bench.put(0,
            entry_of(receives).hit(ethernet::icm_end::address_of(IcmEnd::table, both->number), 1));
  CU_ASSERT(bench.walk(f).empty());
}

void what_is_not_there_is_no_way() {
  Bench bench;
  const Bytes f = make_frame({});
  const uint64_t nowhere[] = {0,
                              bench.at(64),
                              ethernet::Icm::rewrite_start,
                              ethernet::icm_end::start,
                              ethernet::icm_end::address_of(IcmEnd::tir, 0x55),
                              ethernet::icm_end::address_of(IcmEnd::table, 0x55),
                              ethernet::icm_end::address_of(IcmEnd::sampler, 0x55),
                              allow};
  for (const uint64_t address : nowhere) {
    bench.put(0, entry_of(receives).hit(address, 1));
    CU_ASSERT(bench.walk(f).empty());
    bench.put(0, missing(receives, address));
    CU_ASSERT(bench.walk(f).empty());
  }
  bench.put(0, entry_of(sends).hit(bench.to_tir(), 1));
  CU_ASSERT(bench.walk(f).empty());
  bench.put(0, entry_of(receives).looks_at(0x7e).hit(bench.to_tir(), 1));
  CU_ASSERT(bench.walk(f).empty());
  CU_ASSERT(bench.soft->why() ==
            std::string_view("a steering entry asks for what the adapter does not have"));
}

// Entries of any bytes whose ways mostly lie in the same block.
void any_bytes_end_somewhere() {
  std::mt19937_64 dice(7);
  for (const bool egress : {false, true}) {
    Bench bench(egress);
    const IcmBlock lists = *bench.soft->icm.rewrite.alloc(4096);
    for (std::size_t i = 0; i < 512; i++) {
      const uint64_t word = dice();
      std::memcpy(reinterpret_cast<void*>(lists.va + 8 * i), &word, 8);
    }
    for (int round = 0; round < 2000; round++) {
      for (std::size_t i = 0; i < 64; i++) {
        Entry e;
        for (uint8_t& b : e.bytes) b = static_cast<uint8_t>(dice());
        constexpr unsigned types[] = {sends, receives, rewrites};
        if (dice() % 8 != 0) e.set(0, 4, types[dice() % 3]).set(0x60, 16, dice() % 40);
        if (dice() % 8 != 0) e.hit(bench.at(dice() % 64), 1u << dice() % 3, e.bytes[6], 0xffff);
        if (dice() % 8 != 0) e.miss(bench.at(dice() % 64));
        if (dice() % 2 != 0) std::fill(e.bytes.begin() + 32, e.bytes.end(), uint8_t{0});
        if (dice() % 8 == 0) e.hit(egress ? allow : bench.to_tir(), 1);
        if (dice() % 2 != 0) e.set(0x80, 32, dice() % 64);
        bench.put(i, e);
      }
      const Bytes f = make_frame({.ipv6 = dice() % 2 != 0, .tags = static_cast<int>(dice() % 3)});
      CU_ASSERT(bench.walk(f).size() <= 1);
    }
  }
}

void tags_are_pushed_and_popped() {
  Bench out(true), in;
  const Bytes f = make_frame({}), tagged = with_tag(f);
  out.put(0, entry_of(sends).set(0x66, 3, 1).set(0x80, 32, 0x81002064).hit(allow, 1));
  const auto sent = out.walk(f);
  EQUAL_FATAL(sent.size(), 1);
  EQUAL_FATAL(sent[0].to.qp, nullptr);
  CU_ASSERT(Bytes(sent[0].frame.begin(), sent[0].frame.end()) == tagged);
  in.put(0, entry_of(receives).set(0xa1, 3, 4).hit(in.to_tir(), 1));
  CU_ASSERT(in.comes(tagged, f) && in.comes(f, f));
}

void headers_are_rewritten_and_their_sums() {
  Bench bench;
  const IcmBlock lists = *bench.soft->icm.rewrite.alloc(4096);
  // Sets the source address (L3_0, 31:0), does nothing, adds 255 to the time to live (L3_1, 15:8),
  // copies the low bytes of the destination's MAC address over the source's.
  constexpr uint8_t list[] = {2, 0x03, 0, 0, 10, 1, 2, 3,   0, 0, 0, 0,  0, 0, 0, 0,
                              3, 0x04, 8, 8, 0,  0, 0, 255, 1, 1, 0, 16, 0, 0, 0, 0};
  std::memcpy(reinterpret_cast<void*>(lists.va + 64), list, sizeof list);
  bench.put(0, entry_of(rewrites).set(0x60, 16, 4).set(0x80, 32, 1).hit(bench.to_tir(), 1));
  for (const bool tcp : {true, false}) {
    const FrameSpec spec{.tcp = tcp};
    const Bytes f = make_frame(spec);
    const auto got = bench.walk(f);
    CU_ASSERT_FATAL(got.size() == 1);
    const Bytes g(got[0].frame.begin(), got[0].frame.end());
    EQUAL(get16(g, 26) << 16 | get16(g, 28), 0x0a010203);
    EQUAL(g[22], std::byte(std::to_integer<unsigned>(f[22]) - 1));
    EQUAL(g[10], f[4]);
    EQUAL(g[11], f[5]);
    EQUAL(g[9], f[9]);
    EQUAL(l3_check(g, spec), 0xffff);
    EQUAL(l4_check(g, spec), 0xffff);
  }
  bench.put(0, entry_of(rewrites).set(0x60, 16, 3).set(0x80, 32, 64).hit(bench.to_tir(), 1));
  CU_ASSERT(bench.walk(make_frame({})).empty());  // the list would lie behind the block
}

void a_table_of_the_firmware_has_many_destinations() {
  Bench bench;
  const Bytes plain = make_frame({}), tagged = with_tag(plain);
  const uint32_t pops = bench.table;
  bench.put(0, entry_of(receives).set(0xa1, 3, 4).hit(bench.to_tir(), 1));
  FlowTable* both = bench.make(false, false);
  both->has_entry = true;
  both->entry.tag = 9;
  both->entry.counters = {bench.counter};
  both->entry.to = {{false, bench.tirn}, {true, pops}};
  const auto got = bench.walk(tagged, 5);
  CU_ASSERT_FATAL(got.size() == 2);
  std::size_t whole = 0, popped = 0;
  for (const Arrival& a : got) {
    const Bytes f(a.frame.begin(), a.frame.end());
    whole += f == tagged && a.to.tag == 9;
    popped += f == plain && a.to.tag == 9;
  }
  EQUAL(whole, 1);
  EQUAL(popped, 1);
  EQUAL(bench.count->packets, 1);
}

// Behind an entry that has changed the frame already.
void destinations_do_not_see_what_others_do() {
  Bench bench;
  const Bytes plain = make_frame({}), tagged = with_tag(plain), twice = with_tag(tagged);
  bench.put(1, entry_of(receives).set(0xa1, 3, 4).hit(bench.to_tir(), 1));
  FlowTable* pops = bench.make(false, true);
  pops->root = bench.at(1);
  FlowTable* both = bench.make(false, false);
  both->has_entry = true;
  both->entry.to = {{true, pops->number}, {false, bench.tirn}, {true, pops->number}};
  FlowTable* root = bench.make(false, true);
  bench.put(0, entry_of(receives)
                   .set(0xa1, 3, 4)
                   .hit(ethernet::icm_end::address_of(IcmEnd::table, both->number), 1));
  EQUAL(root->root, bench.at(0));
  std::size_t once = 0, none = 0;
  for (const Arrival& a : bench.walk(twice)) {
    const Bytes f(a.frame.begin(), a.frame.end());
    once += f == tagged;
    none += f == plain;
  }
  EQUAL(once, 1);
  EQUAL(none, 2);
}

void a_sampler_takes_one_of_so_many() {
  Bench bench;
  const Bytes f = make_frame({});
  bench.put(0, missing(receives, drop));
  const uint32_t nothing = bench.table;
  FlowTable* samples = bench.make(false, false);
  samples->has_entry = true;
  samples->entry.to = {{false, bench.tirn}};
  uint32_t number = 0;
  ethernet::FlowSampler* sampler = bench.soft->samplers.create(number);
  sampler->ratio = 4;
  sampler->sample = samples->number;
  sampler->otherwise = nothing;
  FlowTable* root = bench.make(false, true);
  root->root = bench.at(1);
  bench.put(1, entry_of(receives).hit(ethernet::icm_end::address_of(IcmEnd::sampler, number), 1));
  std::size_t taken = 0;
  for (int i = 0; i < 40; i++) taken += bench.walk(f).size();
  EQUAL(taken, 10);
  EQUAL(sampler->seen.packets, 40);
}

void memory_is_given_out_in_aligned_blocks() {
  ethernet::IcmArea area(uint64_t{1} << 36, 16);
  std::vector<IcmBlock> blocks;
  EQUAL(area.alloc(0).error().code, EINVAL);
  EQUAL(area.alloc(65537).error().code, EINVAL);
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{16384}, uint64_t{4097}, uint64_t{32768}}) {
    const Result<IcmBlock> b = area.alloc(bytes);
    CU_ASSERT_FATAL(b.ok());
    CU_ASSERT(b->bytes >= bytes);
    EQUAL(b->address % b->bytes, 0);
    for (const IcmBlock& o : blocks)
      CU_ASSERT(b->address + b->bytes <= o.address || o.address + o.bytes <= b->address);
    blocks.push_back(*b);
  }
  EQUAL(area.alloc(32768).error().code, ENOMEM);
  const uint64_t last = blocks[1].address + blocks[1].bytes;
  EQUAL(area.at(last - 64, 64).size(), 64);
  CU_ASSERT(area.at(last - 63, 64).empty());
  area.dealloc(blocks[1]);
  CU_ASSERT(area.at(last - 64, 64).empty());
  CU_ASSERT(area.alloc(16384).ok());
}

constexpr Case of_software[] = {
    {"a hash leads to the entry whose tag a frame has",
     a_hash_leads_to_the_entry_whose_tag_a_frame_has},
    {"entries that do not match lead on", entries_that_do_not_match_lead_on},
    {"a chain without an end ends", a_chain_without_an_end_ends},
    {"what is not there is no way", what_is_not_there_is_no_way},
    {"any bytes end somewhere", any_bytes_end_somewhere},
    {"tags are pushed and popped", tags_are_pushed_and_popped},
    {"headers are rewritten, and their sums", headers_are_rewritten_and_their_sums},
    {"a table of the firmware has many destinations",
     a_table_of_the_firmware_has_many_destinations},
    {"destinations do not see what others do", destinations_do_not_see_what_others_do},
    {"a sampler takes one of so many", a_sampler_takes_one_of_so_many},
    {"memory is given out in aligned blocks", memory_is_given_out_in_aligned_blocks},
};

}  // namespace
}  // namespace soft_steering_ut

std::span<const kilim::test::Case> kilim::test::soft_steering_cases() {
  return soft_steering_ut::of_software;
}
