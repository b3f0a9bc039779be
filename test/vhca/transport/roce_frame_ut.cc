// SPDX-License-Identifier: BSD-3-Clause
// RoCEv2 frames: the ICRC against a packet captured elsewhere and against the CRC done bit by bit,
// headers there and back, and bytes that are no packet.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <zlib.h>

#include "ut.hh"
#include "vhca/memory/valgrind.hh"
#include "vhca/transport/icrc.hh"
#include "vhca/transport/roce_frame.hh"
#include "vhca/wire/crc32.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

namespace roce_frame_ut {
namespace {

using Bytes = std::vector<std::byte>;

Bytes from_hex(const char* text) {
  Bytes b;
  for (; text[0] != '\0'; text += 2) {
    char two[3] = {text[0], text[1], 0};
    b.push_back(static_cast<std::byte>(std::strtoul(two, nullptr, 16)));
  }
  return b;
}

// An RDMA WRITE of 16 bytes over IPv4 as another implementation sent it.
const Bytes captured = from_hex(
    "123456789abc7cb27d62c1ef08004500004c000100004011f54cc0a80201c0a8020201f412b70038ffa6"
    "0a00ffff000000020000000000000000000012300000000000000010000102030405060708090a0b0c0d0e0f"
    "ca47470e");

void the_crc_is_ethernets() {
  const char* text = "123456789";
  auto bytes = std::as_bytes(std::span(text, 9));
  EQUAL(~wire::crc32_add(~0u, bytes), 0xcbf43926);
  std::array<std::byte, 8> ones;
  ones.fill(std::byte{0xff});
  EQUAL(wire::crc32_add(~0u, ones), 0xdebb20e3);
}

// Against zlib, which is nobody of ours: any length, place and state, as a whole and in two pieces.
void every_way_to_the_crc_is_zlibs() {
  using wire::crc32_fold::Way;
  std::vector<Way> ways = {Way::none};
  if (wire::crc32_fold::best() != Way::none) ways.push_back(Way::narrow);
  if (wire::crc32_fold::best() == Way::wide) ways.push_back(Way::wide);
  std::mt19937 rng(7);
  Bytes memory(16 * 1024 + 64);
  for (std::byte& b : memory) b = static_cast<std::byte>(rng());
  for (std::size_t i = 0; i < 4000; i++) {
    const std::size_t bytes = i < 400 ? i : rng() % (16 * 1024), at = rng() % 64;
    const auto piece = std::span<const std::byte>(memory).subspan(at, bytes);
    const uint32_t begun = i % 2 == 0 ? 0 : static_cast<uint32_t>(rng());
    const auto* p = reinterpret_cast<const Bytef*>(piece.data());
    const auto zlibs = static_cast<uint32_t>(::crc32(begun, p, static_cast<uInt>(bytes)));
    EQUAL(~wire::crc32_add(~begun, piece), zlibs);
    for (Way way : ways) EQUAL(~wire::crc32_add_by(way, ~begun, piece), zlibs);
    const std::size_t cut = bytes == 0 ? 0 : rng() % bytes;
    EQUAL(~wire::crc32_add(wire::crc32_add(~begun, piece.first(cut)), piece.subspan(cut)), zlibs);
  }
}

// What the kernel says of the processor; Valgrind's has less.
void the_crc_goes_the_best_way_of_the_processor() {
  using wire::crc32_fold::Way;
  if (memory::under_valgrind()) return;
  std::ifstream about("/proc/cpuinfo");
  const std::string text((std::istreambuf_iterator<char>(about)), {});
  auto has = [&text](const char* word) { return text.find(word) != std::string::npos; };
  const bool wide = has(" vpclmulqdq") && has(" avx2");
  EQUAL(wire::crc32_fold::best(), !has(" pclmulqdq") ? Way::none : wide ? Way::wide : Way::narrow);
}

void a_packet_captured_elsewhere_has_the_icrc_that_it_carries() {
  wire::PacketView v = wire::parse_packet(captured);
  EQUAL(v.l4, wire::L4::udp);
  CU_ASSERT(transport::icrc_good(captured, v));
  for (std::size_t at : {std::size_t{30}, std::size_t{42}, captured.size() - 5}) {
    Bytes b = captured;
    b[at] ^= std::byte{1};
    CU_ASSERT(!transport::icrc_good(b, v));
  }
  // What a router changes: type of service, time to live, checksums, congestion bits.
  for (std::size_t at : {15, 22, 24, 25, 40, 41, 46}) {
    Bytes b = captured;
    b[at] ^= std::byte{0x55};
    CU_ASSERT(transport::icrc_good(b, v));
  }
}

// A congestion notification that a ConnectX-4 Lx sent (Scapy's test/contrib/roce.uts prints it).
void a_packet_of_a_card_has_the_icrc_that_it_carries() {
  const Bytes cards = from_hex(
      "e41d2dab2bc27cfe90643b32080045c2003c718c40004011916"
      "10a0011010a001201000012b7002800008100ffff40000118000000000000000000000000000000000000000082"
      "fd002a");
  wire::PacketView v = wire::parse_packet(cards);
  EQUAL(v.l4, wire::L4::udp);
  CU_ASSERT(transport::icrc_good(cards, v));
}

transport::RocePacket filled(const transport::roce::OpRow& row, std::mt19937& rng) {
  transport::RocePacket p;
  p.op = row.op;
  p.flags = row.flags;
  p.solicited = (rng() & 1) != 0;
  p.ack_request = (rng() & 1) != 0;
  p.dest_qpn = rng() & 0xffffff;
  p.psn = rng() & 0xffffff;
  p.va = uint64_t{rng()} << 32 | rng();
  p.rkey = static_cast<uint32_t>(rng());
  p.length = static_cast<uint32_t>(rng());
  p.swap_add = uint64_t{rng()} << 32 | rng();
  p.compare = uint64_t{rng()} << 32 | rng();
  p.ack_kind = rng() & 3;
  p.ack_value = rng() & 31;
  p.msn = rng() & 0xffffff;
  p.original = uint64_t{rng()} << 32 | rng();
  p.imm_raw = static_cast<uint32_t>(rng());
  return p;
}

const transport::RocePath path{
    .src = {2, 0x4b, 0x4c, 0, 1, 1},
    .dst = {2, 0x4b, 0x4c, 0, 2, 1},
    .sgid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x4b, 0x4c, 0xff, 0xfe, 0, 1, 1},
    .dgid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x4b, 0x4c, 0xff, 0xfe, 0, 2, 1},
    .traffic_class = 3};

Bytes built(const transport::RocePacket& p, std::size_t payload) {
  Bytes b(payload + transport::roce_overhead);
  for (std::size_t i = 0; i < payload; i++)
    b[transport::roce_payload_at(p.flags) + i] = static_cast<std::byte>(i * 7 + 1);
  b.resize(transport::build_roce(path, p, payload, b));
  return b;
}

bool same_headers(const transport::RocePacket& a, const transport::RocePacket& b) {
  bool same = a.op == b.op && a.flags == b.flags && a.solicited == b.solicited &&
              a.ack_request == b.ack_request && a.dest_qpn == b.dest_qpn && a.psn == b.psn;
  auto has = [&](uint16_t f) { return (a.flags & f) != 0; };
  if (has(transport::roce::flag::reth | transport::roce::flag::atomic))
    same = same && a.va == b.va && a.rkey == b.rkey;
  if (has(transport::roce::flag::reth)) same = same && a.length == b.length;
  if (has(transport::roce::flag::atomic))
    same = same && a.swap_add == b.swap_add && a.compare == b.compare;
  if (has(transport::roce::flag::aeth))
    same = same && a.ack_kind == b.ack_kind && a.ack_value == b.ack_value && a.msn == b.msn;
  if (has(transport::roce::flag::atomic_ack)) same = same && a.original == b.original;
  if (has(transport::roce::flag::imm | transport::roce::flag::ieth))
    same = same && a.imm_raw == b.imm_raw;
  return same;
}

void every_opcode_comes_out_as_it_went_in() {
  std::mt19937 rng(7);
  for (const transport::roce::OpRow& row : transport::roce::op_rows) {
    bool carries = (row.flags & transport::roce::flag::payload) != 0;
    for (std::size_t payload : {0, 1, 2, 3, 4, 255, 4096}) {
      if (!carries && payload != 0) continue;
      transport::RocePacket in = filled(row, rng), out;
      Bytes b = built(in, payload);
      EQUAL(transport::parse_roce(b, out), transport::RoceParse::ok);
      CU_ASSERT(same_headers(in, out));
      EQUAL(out.sgid, path.sgid);
      EQUAL(out.payload.size(), payload);
      EQUAL(
          std::memcmp(out.payload.data(), b.data() + transport::roce_payload_at(in.flags), payload),
          0);
    }
  }
}

void a_frame_that_is_cut_or_changed_is_no_packet() {
  std::mt19937 rng(8);
  transport::RocePacket out;
  for (const transport::roce::OpRow& row : transport::roce::op_rows) {
    Bytes whole =
        built(filled(row, rng), (row.flags & transport::roce::flag::payload) != 0 ? 64 : 0);
    for (std::size_t n = 0; n < whole.size(); n++) {
      Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
      CU_ASSERT(transport::parse_roce(cut, out) != transport::RoceParse::ok);
      Bytes short_ip = cut;
      if (n < 62) continue;
      wire::put_be<uint16_t>(short_ip, 18, static_cast<uint16_t>(n - 54));
      wire::put_be<uint16_t>(short_ip, 58, static_cast<uint16_t>(n - 54));
      CU_ASSERT(transport::parse_roce(short_ip, out) != transport::RoceParse::ok);
    }
    for (int i = 0; i < 200; i++) {
      Bytes b = whole;
      std::size_t at = 54 + rng() % (b.size() - 54);
      if (at == 60 || at == 61 || at == 66) continue;  // not covered
      b[at] ^= static_cast<std::byte>(1u << rng() % 8);
      CU_ASSERT(transport::parse_roce(b, out) != transport::RoceParse::ok);
    }
  }
}

void sequence_numbers_go_in_circles() {
  EQUAL(transport::roce::psn_add(0xffffff, 2), 1);
  EQUAL(transport::roce::psn_diff(1, 0xffffff), 2);
  EQUAL(transport::roce::psn_diff(0xffffff, 1), -2);
  EQUAL(transport::roce::psn_diff(5, 5), 0);
}

void a_link_local_gid_holds_its_address() {
  Mac mac;
  CU_ASSERT(transport::mac_of_gid(path.dgid, mac));
  EQUAL(mac, path.dst);
  Gid other = path.dgid;
  other[0] = 0x20;
  CU_ASSERT(!transport::mac_of_gid(other, mac));
}

constexpr Case cases[] = {
    {"the CRC is Ethernet's", the_crc_is_ethernets},
    {"every way to the CRC is zlib's", every_way_to_the_crc_is_zlibs},
    {"the CRC goes the best way of the processor", the_crc_goes_the_best_way_of_the_processor},
    {"a packet captured elsewhere has the ICRC that it carries",
     a_packet_captured_elsewhere_has_the_icrc_that_it_carries},
    {"a packet of a card has the ICRC that it carries",
     a_packet_of_a_card_has_the_icrc_that_it_carries},
    {"every opcode comes out as it went in", every_opcode_comes_out_as_it_went_in},
    {"a frame that is cut or changed is no packet", a_frame_that_is_cut_or_changed_is_no_packet},
    {"sequence numbers go in circles", sequence_numbers_go_in_circles},
    {"a link-local GID holds its address", a_link_local_gid_holds_its_address},
};

}  // namespace
}  // namespace roce_frame_ut

KILIM_TEST_SUITE(roce_frame, roce_frame_ut::cases)
