// SPDX-License-Identifier: BSD-3-Clause
// Part of cm_wire_ut. What queue pair 1 takes, answers and leaves: datagrams written by hand.
#include <algorithm>
#include <cstring>
#include <optional>

#include "cm_wire_fixture.hh"
#include "vhca/transport/gsi.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;
using namespace kilim::vhca::cm;

namespace queue_pair_1_ut {
namespace {

// In the left adapter's place is the test, which writes datagrams to queue pair 1 by hand.
class Byhand {
 public:
  explicit Byhand(bool with_agent) : w_(shape_of()) {
    if (with_agent) program_.emplace(w_.right, 1);
  }
  // The packet that such a request has; the caller changes it.
  static transport::RocePacket packet() {
    transport::RocePacket p;
    p.service = transport::roce::Service::ud;
    p.op = transport::roce::Op::send_only;
    p.dest_qpn = 1;
    p.src_qpn = 1;
    p.qkey = transport::gsi_qkey;
    return p;
  }
  void send(const transport::RocePacket& p, std::size_t bytes) {
    Mad m;
    write_request(m);
    send(p, m, bytes);
  }
  void send(transport::RocePacket p, const Mad& m, std::size_t bytes = mad_bytes) {
    p.flags =
        transport::roce::flags_of(p.service, *transport::roce::op_row(static_cast<uint8_t>(p.op)));
    transport::RocePath path;
    path.src = left_mac;
    path.dst = right_mac;
    port_gid(left_mac, 0, path.sgid);
    port_gid(right_mac, 0, path.dgid);
    std::vector<std::byte> frame(transport::roce_overhead + bytes);
    std::copy_n(m.begin(), std::min(bytes, m.size()), frame.begin() + at(p));
    const std::size_t n = transport::build_roce(path, p, bytes, frame);
    EQUAL(static_cast<int>(wire().send({frame.data(), n})),
          static_cast<int>(wire::Wire::Sent::taken));
    while (w_.right.hca->run() != 0) {
    }
  }
  // The next frame of the adapter.
  std::optional<transport::RocePacket> next() {
    const std::span<const std::byte> frame = wire().peek();
    if (frame.empty()) return std::nullopt;
    frame_.assign(frame.begin(), frame.end());
    wire().drop();
    transport::RocePacket p;
    if (transport::parse_roce(frame_, p) != transport::RoceParse::ok) return std::nullopt;
    return p;
  }
  [[nodiscard]] uint64_t received() const { return program_->agent.counts().received; }
  [[nodiscard]] uint64_t drops() {
    return w_.right.hca->context.journal->count(Journal::Kind::frame_drop);
  }

  static void write_request(Mad& m) {
    write_req(m, {0x1234, 0, 0x99}, {7, 16, false}, request_for(route(left_mac, right_mac), 5));
  }

 private:
  static std::ptrdiff_t at(const transport::RocePacket& p) {
    return static_cast<std::ptrdiff_t>(transport::roce_payload_at(p.flags));
  }
  wire::Wire& wire() { return *w_.left.hca->config.wires[0]; }
  WireRig w_;
  std::optional<Program> program_;
  std::vector<std::byte> frame_;
};

void queue_pair_1_answers_as_a_datagram_of_its_own() {
  Byhand h(true);
  h.send(Byhand::packet(), mad_bytes);
  const std::optional<transport::RocePacket> p = h.next();
  EQUAL_FATAL(p.has_value(), true);
  EQUAL(p->service, transport::roce::Service::ud);
  EQUAL(p->op, transport::roce::Op::send_only);
  EQUAL(p->dest_qpn, 1);
  EQUAL(p->src_qpn, 1);
  EQUAL(p->qkey, 0x80010000);
  EQUAL_FATAL(p->payload.size(), 256);
  const auto rej = message_of<RejMad>(p->payload);
  EQUAL(rej.header.attribute.host(), 0x12);
  EQUAL(rej.remote_comm_id.host(), 0x1234);
  EQUAL(rej::reason::get(rej), 8);  // nobody listens
  CU_ASSERT(p->smac == right_mac);
}

void queue_pair_1_drops_what_is_not_for_it() {
  Byhand h(true);
  transport::RocePacket p = Byhand::packet();
  p.qkey = 0x11111111;
  h.send(p, mad_bytes);
  p = Byhand::packet();
  p.op = transport::roce::Op::send_only_imm;
  h.send(p, mad_bytes);
  for (const std::size_t bytes : {0u, 24u, 255u, 257u, 1024u}) h.send(Byhand::packet(), bytes);
  EQUAL(h.received(), 0);
  EQUAL(h.next().has_value(), false);
  h.send(Byhand::packet(), mad_bytes);
  EQUAL(h.received(), 1);
}

// As Linux (drivers/infiniband/core/mad.c, generate_unmatched_resp(), validate_mad()).
void who_gets_or_sets_what_is_not_there_is_told_so() {
  struct Ask {
    uint8_t base, of_class, method;
    uint16_t attribute;
    bool answered;
  };
  for (const Ask& a : {Ask{1, 7, 1, 1, true},
                       {1, 7, 2, 1, true},
                       {1, 4, 1, 0x12, true},
                       {1, 3, 2, 0x35, true},
                       {1, 0x30, 1, 7, true},
                       {1, 7, 1, 0x10, false},
                       {1, 4, 3, 0x12, false},
                       {1, 4, 0x81, 0x12, false},
                       {2, 4, 1, 0x12, false},
                       {1, 1, 1, 0x10, false},
                       {1, 0x81, 1, 0x10, false}}) {
    Byhand h(true);
    Mad m;
    Byhand::write_request(m);
    m[0] = std::byte{a.base};
    m[1] = std::byte{a.of_class};
    m[3] = std::byte{a.method};
    m[5] = std::byte{0x55};
    m[16] = static_cast<std::byte>(a.attribute >> 8);
    m[17] = static_cast<std::byte>(a.attribute);
    h.send(Byhand::packet(), m);
    const std::optional<transport::RocePacket> p = h.next();
    EQUAL_FATAL(p.has_value(), a.answered);
    if (!a.answered) continue;
    m[3] = std::byte{0x81};
    m[4] = std::byte{0};
    m[5] = std::byte{0x0c};
    EQUAL_FATAL(p->payload.size(), m.size());
    EQUAL(std::memcmp(p->payload.data(), m.data(), m.size()), 0);
    EQUAL(p->dest_qpn, 1);
  }
}

void a_port_whose_manager_nobody_asked_for_has_no_queue_pair_1() {
  Byhand h(false);
  h.send(Byhand::packet(), mad_bytes);
  EQUAL(h.drops(), 1);
  EQUAL(h.next().has_value(), false);
}

constexpr Case of_queue_pair_1[] = {
    {"queue pair 1 answers as a datagram of its own",
     queue_pair_1_answers_as_a_datagram_of_its_own},
    {"queue pair 1 drops what is not for it", queue_pair_1_drops_what_is_not_for_it},
    {"who gets or sets what is not there is told so",
     who_gets_or_sets_what_is_not_there_is_told_so},
    {"a port whose manager nobody asked for has no queue pair 1",
     a_port_whose_manager_nobody_asked_for_has_no_queue_pair_1},
};

}  // namespace
}  // namespace queue_pair_1_ut

std::span<const kilim::test::Case> kilim::vhca::test::queue_pair_1_cases() {
  return queue_pair_1_ut::of_queue_pair_1;
}
