// SPDX-License-Identifier: BSD-3-Clause
// The inputs that the harness of frames begins with: a responder's, a requester's, of tag matching,
// of a dynamic target, and plain Ethernet.
#include "frame_fixture.hh"
#include "kilim/prm/tag_matching.hh"
#include "vhca/transport/roce_frame.hh"

namespace kilim::fuzz {

using namespace vhca;
using prm::Opcode;
using vhca::test::Wqe;

namespace {

constexpr uint32_t region = key_token;
constexpr uint64_t there = address_token(0, 0x8000);

struct Fields {
  uint64_t va = 0;
  uint32_t rkey = 0, length = 0;
  uint32_t aeth = 0x1fu << 27;
};

Script& packet(Script& s, transport::roce::Op op, uint8_t psn, const Fields& f, uint16_t payload) {
  s.put(static_cast<uint8_t>(Step::more), uint8_t{0}, uint8_t{4}, static_cast<uint8_t>(op), psn);
  s.value(be64{f.va}).value(be32{f.rkey}).value(be32{f.length});
  s.value(be64{1}).value(be64{2}).value(be32{3}).value(be32{f.aeth});
  s.put(payload);
  return step(s, Step::run, 64);
}

Script responder_seed() {
  Script s;
  s.put(uint8_t{0});
  receive(s, 0, there, 8192, region);
  receive(s, 0, there, 8192, region);
  packet(s, transport::roce::Op::send_first, 0, {}, 1024);
  packet(s, transport::roce::Op::send_middle, 0, {}, 1024);
  packet(s, transport::roce::Op::send_last, 0, {}, 100);
  packet(s, transport::roce::Op::write_first, 0, {there, region, 1500}, 1024);
  packet(s, transport::roce::Op::write_last_imm, 0, {}, 476);
  packet(s, transport::roce::Op::read_request, 0, {there, region, 5000}, 0);
  packet(s, transport::roce::Op::fetch_add, 0, {there, region, 8}, 0);
  packet(s, transport::roce::Op::write_only, 3, {there, region, 8}, 8);
  return packet(s, transport::roce::Op::read_request, 0xfe, {there, region, 5000}, 0);
}

Script requester_seed() {
  Script s;
  s.put(uint8_t{0});
  post(s, 0, Wqe(Opcode::rdma_write).raddr(there, 0x1234).data(there, 3000, region));
  post(s, 0, Wqe(Opcode::rdma_read).raddr(there, 0x1234).data(there, 2000, region));
  post(s, 0, Wqe(Opcode::atomic_fa).raddr(there, 0x1234).atomic(5, 0).data(there, 8, region));
  step(s, Step::ring, 0);
  step(s, Step::run, 64);
  packet(s, transport::roce::Op::acknowledge, 2, {}, 0);
  packet(s, transport::roce::Op::read_first, 0, {}, 1024);
  packet(s, transport::roce::Op::read_last, 0, {}, 976);
  packet(s, transport::roce::Op::atomic_acknowledge, 0, {}, 0);
  s.put(static_cast<uint8_t>(Step::time), uint16_t{2});
  step(s, Step::run, 64);
  packet(s, transport::roce::Op::acknowledge, 0, {0, 0, 0, 0x61u << 24}, 0);
  return step(s, Step::poll, 8);
}

// A message to the second queue whose first byte says what it is: its payload is zero otherwise.
Script& tagged(Script& s, transport::roce::Op op, uint8_t kind, uint16_t payload) {
  constexpr uint16_t payload_at = 14 + 40 + 8 + sizeof(transport::roce::Bth);
  s.put(static_cast<uint8_t>(Step::more), uint8_t{1}, uint8_t{5}, static_cast<uint8_t>(op),
        uint8_t{0});
  s.bytes(std::array<std::byte, 40>{});
  s.put(payload, uint8_t{1}, payload_at, kind);
  return step(s, Step::run, 64);
}

Script tag_seed() {
  Script s;
  s.put(uint8_t{4});
  prm::TagSeg seg{0x10, 0xc0, be16{1}, {}, be16{0}, {}, be64{0}, be64{0}};
  for (uint32_t next : {1u, 2u, 3u}) {
    seg.index = be16{static_cast<uint16_t>(next)};
    post(s, 1, Wqe(Opcode::tag_matching).raw(&seg, sizeof(seg)).data(there, 4096, region).quiet());
  }
  step(s, Step::ring, 1);
  step(s, Step::run, 64);
  tagged(s, transport::roce::Op::send_only, 3, 100);
  tagged(s, transport::roce::Op::send_first, 3, 1024);
  packet(s, transport::roce::Op::acknowledge, 0, {}, 0);
  s.put(static_cast<uint8_t>(Step::more), uint8_t{0}, uint8_t{5},
        static_cast<uint8_t>(transport::roce::Op::send_last), uint8_t{0});
  s.bytes(std::array<std::byte, 40>{});
  s.put(uint16_t{200});
  step(s, Step::run, 64);
  tagged(s, transport::roce::Op::send_only, 1, 32);
  s.put(static_cast<uint8_t>(Step::time), uint16_t{500});
  return step(s, Step::run, 64);
}

Script target_seed() {
  constexpr auto dc = static_cast<uint8_t>(transport::roce::Service::dc) << 5;
  Script s;
  s.put(dynamic);
  const auto to_target = [&](transport::roce::Op op, uint8_t who, const Fields& f,
                             uint16_t payload) {
    s.put(static_cast<uint8_t>(Step::more), uint8_t{0}, static_cast<uint8_t>(who | 5),
          static_cast<uint8_t>(dc | static_cast<uint8_t>(op)), uint8_t{0});
    s.value(be64{f.va}).value(be32{f.rkey}).value(be32{f.length});
    s.value(be64{1}).value(be64{2}).value(be32{3}).value(be32{f.aeth});
    s.put(payload);
    step(s, Step::run, 64);
  };
  to_target(transport::roce::Op::write_first, 0, {there, region, 1500}, 1024);
  to_target(transport::roce::Op::write_last, 0, {}, 476);
  to_target(transport::roce::Op::read_request, 8, {there, region, 5000}, 0);
  to_target(transport::roce::Op::fetch_add, 0x20, {there, region, 8}, 0);
  to_target(transport::roce::Op::write_only, 0x80, {there, region, 8}, 8);
  to_target(transport::roce::Op::send_only, 0, {}, 100);
  return step(s, Step::poll, 8);
}

Script plain_seed() {
  Script s;
  s.put(uint8_t{1});
  receive(s, 1, there, 2048, region);
  std::array<uint8_t, 60> udp4{2, 0x4b, 0x69, 0x6c, 0x69, 0x6d, 2, 0, 0, 0, 0,  9,
                               8, 0,    0x45, 0,    0,    40,   0, 0, 0, 0, 64, 17};
  udp4[39] = 20;
  s.put(static_cast<uint8_t>(Step::more), uint8_t{2}, uint16_t{60}, uint16_t{8});
  s.bytes(std::as_bytes(std::span(udp4)));
  return step(s, Step::run, 64);
}

}  // namespace

std::vector<Seed> seeds() {
  return {{"requests of a peer", responder_seed()},
          {"answers of a peer", requester_seed()},
          {"tagged messages of a peer", tag_seed()},
          {"requests of initiators", target_seed()},
          {"a plain frame", plain_seed()}};
}

}  // namespace kilim::fuzz
