// SPDX-License-Identifier: BSD-3-Clause
// RoCEv2 frames: the ICRC against a packet captured elsewhere and against the CRC done bit by bit,
// headers there and back, and bytes that are no packet.
#include <array>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "ut.hh"
#include "vhca/transport/icrc.hh"
#include "vhca/transport/roce_frame.hh"
#include "vhca/wire/crc32.hh"

using namespace kilim;
using namespace kilim::test;
using namespace kilim::vhca;

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
  EQUAL(~crc32_add(~0u, bytes), 0xcbf43926);
  std::array<std::byte, 8> ones;
  ones.fill(std::byte{0xff});
  EQUAL(crc32_add(~0u, ones), 0xdebb20e3);
}

void a_packet_captured_elsewhere_has_the_icrc_that_it_carries() {
  PacketView v = parse_packet(captured);
  CU_ASSERT(v.l4 == L4::udp && icrc_good(captured, v));
  for (std::size_t at : {std::size_t{30}, std::size_t{42}, captured.size() - 5}) {
    Bytes b = captured;
    b[at] ^= std::byte{1};
    CU_ASSERT(!icrc_good(b, v));
  }
  // What a router changes: type of service, time to live, checksums, congestion bits.
  for (std::size_t at : {15, 22, 24, 25, 40, 41, 46}) {
    Bytes b = captured;
    b[at] ^= std::byte{0x55};
    CU_ASSERT(icrc_good(b, v));
  }
}

RocePacket filled(const roce::OpRow& row, std::mt19937& rng) {
  RocePacket p;
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

const RocePath path{.src = {2, 0x4b, 0x4c, 0, 1, 1},
                    .dst = {2, 0x4b, 0x4c, 0, 2, 1},
                    .sgid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x4b, 0x4c, 0xff, 0xfe, 0, 1, 1},
                    .dgid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x4b, 0x4c, 0xff, 0xfe, 0, 2, 1},
                    .traffic_class = 3};

Bytes built(const RocePacket& p, std::size_t payload) {
  Bytes b(payload + roce_overhead);
  for (std::size_t i = 0; i < payload; i++)
    b[roce_payload_at(p.flags) + i] = static_cast<std::byte>(i * 7 + 1);
  b.resize(build_roce(path, p, payload, b));
  return b;
}

bool same_headers(const RocePacket& a, const RocePacket& b) {
  bool same = a.op == b.op && a.flags == b.flags && a.solicited == b.solicited &&
              a.ack_request == b.ack_request && a.dest_qpn == b.dest_qpn && a.psn == b.psn;
  auto has = [&](uint16_t f) { return (a.flags & f) != 0; };
  if (has(roce::flag::reth | roce::flag::atomic)) same = same && a.va == b.va && a.rkey == b.rkey;
  if (has(roce::flag::reth)) same = same && a.length == b.length;
  if (has(roce::flag::atomic)) same = same && a.swap_add == b.swap_add && a.compare == b.compare;
  if (has(roce::flag::aeth))
    same = same && a.ack_kind == b.ack_kind && a.ack_value == b.ack_value && a.msn == b.msn;
  if (has(roce::flag::atomic_ack)) same = same && a.original == b.original;
  if (has(roce::flag::imm | roce::flag::ieth)) same = same && a.imm_raw == b.imm_raw;
  return same;
}

void every_opcode_comes_out_as_it_went_in() {
  std::mt19937 rng(7);
  for (const roce::OpRow& row : roce::op_rows) {
    bool carries = (row.flags & roce::flag::payload) != 0;
    for (std::size_t payload : {0, 1, 2, 3, 4, 255, 4096}) {
      if (!carries && payload != 0) continue;
      RocePacket in = filled(row, rng), out;
      Bytes b = built(in, payload);
      EQUAL(parse_roce(b, out), RoceParse::ok);
      CU_ASSERT(same_headers(in, out) && out.sgid == path.sgid);
      EQUAL(out.payload.size(), payload);
      EQUAL(std::memcmp(out.payload.data(), b.data() + roce_payload_at(in.flags), payload), 0);
    }
  }
}

void a_frame_that_is_cut_or_changed_is_no_packet() {
  std::mt19937 rng(8);
  RocePacket out;
  for (const roce::OpRow& row : roce::op_rows) {
    Bytes whole = built(filled(row, rng), (row.flags & roce::flag::payload) != 0 ? 64 : 0);
    for (std::size_t n = 0; n < whole.size(); n++) {
      Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
      CU_ASSERT(parse_roce(cut, out) != RoceParse::ok);
      Bytes short_ip = cut;
      if (n < 62) continue;
      put_be<uint16_t>(short_ip, 18, static_cast<uint16_t>(n - 54));
      put_be<uint16_t>(short_ip, 58, static_cast<uint16_t>(n - 54));
      CU_ASSERT(parse_roce(short_ip, out) != RoceParse::ok);
    }
    for (int i = 0; i < 200; i++) {
      Bytes b = whole;
      std::size_t at = 54 + rng() % (b.size() - 54);
      if (at == 60 || at == 61 || at == 66) continue;  // not covered
      b[at] ^= static_cast<std::byte>(1u << rng() % 8);
      CU_ASSERT(parse_roce(b, out) != RoceParse::ok);
    }
  }
}

void sequence_numbers_go_in_circles() {
  EQUAL(roce::psn_add(0xffffff, 2), 1);
  EQUAL(roce::psn_diff(1, 0xffffff), 2);
  EQUAL(roce::psn_diff(0xffffff, 1), -2);
  EQUAL(roce::psn_diff(5, 5), 0);
}

void a_link_local_gid_holds_its_address() {
  Mac mac;
  CU_ASSERT(mac_of_gid(path.dgid, mac) && mac == path.dst);
  Gid other = path.dgid;
  other[0] = 0x20;
  CU_ASSERT(!mac_of_gid(other, mac));
}

constexpr Case cases[] = {
    {"the CRC is Ethernet's", the_crc_is_ethernets},
    {"a packet captured elsewhere has the ICRC that it carries",
     a_packet_captured_elsewhere_has_the_icrc_that_it_carries},
    {"every opcode comes out as it went in", every_opcode_comes_out_as_it_went_in},
    {"a frame that is cut or changed is no packet", a_frame_that_is_cut_or_changed_is_no_packet},
    {"sequence numbers go in circles", sequence_numbers_go_in_circles},
    {"a link-local GID holds its address", a_link_local_gid_holds_its_address},
};

}  // namespace

KILIM_UT_MAIN("vhca/transport RoCE frames", cases)
