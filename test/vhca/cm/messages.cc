// SPDX-License-Identifier: BSD-3-Clause
// Part of cm_ut. Where each field lies, as the kernel's <rdma/ibta_vol1_c12.h> says: by byte, by
// bit from its top, and by width; and what the other side reads of it.
#include "cm_cases.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace messages_ut {
namespace {

constexpr std::size_t header = 24;

struct Spot {
  const char* name;
  std::size_t byte, bit, width;  // byte behind the MAD's header
  uint64_t value;
};

uint64_t bits_at(const Mad& m, std::size_t byte, std::size_t bit, std::size_t width) {
  uint64_t v = 0;
  for (std::size_t i = 0; i < width; i++) {
    const std::size_t at = (header + byte) * 8 + bit + i;
    v = v << 1 | (static_cast<unsigned>(m[at / 8]) >> (7 - at % 8) & 1);
  }
  return v;
}

template <std::size_t N>
void check(const Mad& m, const Spot (&spots)[N]) {
  for (const Spot& s : spots) {
    const uint64_t found = bits_at(m, s.byte, s.bit, s.width);
    if (found != s.value) std::printf("  %s\n", s.name);
    EQUAL(found, s.value);
  }
}

void check_header(const Mad& m, Attribute a, uint64_t tid) {
  EQUAL(static_cast<unsigned>(m[0]), 1);     // base version
  EQUAL(static_cast<unsigned>(m[1]), 0x07);  // class
  EQUAL(static_cast<unsigned>(m[2]), 2);     // version of the class
  EQUAL(static_cast<unsigned>(m[3]), 3);     // Send()
  const auto h = message_of<MadHeader>(m);
  EQUAL(h.tid.host(), tid);
  EQUAL(static_cast<unsigned>(m[17]), static_cast<unsigned>(a));
}

constexpr Names names{0x01020304, 0xa0b0c0d0, 0x1122334455667788};
constexpr Sender sender{0x0102030405060708, 16, false};

ConnectRequest full_request(const Net& net) {
  ConnectRequest r = request_to(net);
  r.qkey = 0x87654321;
  r.route.flow_label = 0x54321;
  r.route.traffic_class = 0x6a;
  r.route.service_level = 5;
  r.path_mtu = 4;
  r.srq = true;
  r.remote_cm_timeout = 20;
  r.local_cm_timeout = 19;
  r.private_data = bytes_of("hello");
  return r;
}

void a_req_lies_as_the_kernel_reads_it() {
  Net net;
  Mad m;
  write_req(m, names, sender, full_request(net));
  check_header(m, Attribute::req, names.tid);
  check(m, {{"local comm id", 0, 0, 32, 0x01020304},
            {"service id", 8, 0, 64, 0x01061d2f},
            {"ca guid", 16, 0, 64, 0x0102030405060708},
            {"qkey", 28, 0, 32, 0x87654321},
            {"qpn", 32, 0, 24, 0x111},
            {"responder resources", 35, 0, 8, 4},
            {"initiator depth", 39, 0, 8, 7},
            {"remote cm timeout", 43, 0, 5, 20},
            {"transport", 43, 5, 2, 0},
            {"flow control", 43, 7, 1, 1},
            {"psn", 44, 0, 24, 0xabcdef},
            {"local cm timeout", 47, 0, 5, 19},
            {"retry count", 47, 5, 3, 5},
            {"pkey", 48, 0, 16, 0xffff},
            {"path mtu", 50, 0, 4, 4},
            {"rdc exists", 50, 4, 1, 0},
            {"rnr retries", 50, 5, 3, 6},
            {"cm retries", 51, 0, 4, 3},
            {"srq", 51, 4, 1, 1},
            {"extended transport", 51, 5, 3, 0},
            {"local lid", 52, 0, 16, 0xffff},
            {"remote lid", 54, 0, 16, 0xffff},
            {"local gid", 64, 0, 64, 0x0200'00ff'fe00'0001},
            {"remote gid", 80, 0, 64, 0x0200'00ff'fe00'0002},
            {"flow label", 88, 0, 20, 0x54321},
            {"rate", 91, 2, 6, 0},
            {"traffic class", 92, 0, 8, 0x6a},
            {"hop limit", 93, 0, 8, 64},
            {"sl", 94, 0, 4, 5},
            {"subnet local", 94, 4, 1, 0},
            {"ack timeout", 95, 0, 5, 19},
            {"alternate lids", 96, 0, 32, 0},
            {"alternate rest", 132, 0, 64, 0},
            {"private data", 140, 0, 40, 0x68656c6c6f}});
}

void an_xrc_and_a_uc_req_say_so() {
  Net net;
  ConnectRequest r = full_request(net);
  Mad m;
  r.transport = Transport::xrc;
  write_req(m, names, sender, r);
  check(m, {{"transport", 43, 5, 2, 3},
            {"extended transport", 51, 5, 3, 1},
            {"responder resources", 35, 0, 8, 0},
            {"retry count", 47, 5, 3, 0},
            {"srq", 51, 4, 1, 0}});
  r.transport = Transport::uc;
  write_req(m, names, sender, r);
  check(m, {{"transport", 43, 5, 2, 1}, {"extended transport", 51, 5, 3, 0}});
}

void a_rep_lies_as_the_kernel_reads_it() {
  AcceptRequest r = acceptance();
  r.qkey = 0x99;
  r.rnr_retry_count = 5;
  r.srq = true;
  r.private_data = bytes_of("yes");
  Mad m;
  write_rep(m, names, sender, r);
  check_header(m, Attribute::rep, names.tid);
  check(m, {{"local comm id", 0, 0, 32, 0x01020304},
            {"remote comm id", 4, 0, 32, 0xa0b0c0d0},
            {"qkey", 8, 0, 32, 0x99},
            {"qpn", 12, 0, 24, 0x222},
            {"eecn", 16, 0, 24, 0},
            {"psn", 20, 0, 24, 0x123456},
            {"responder resources", 24, 0, 8, 3},
            {"initiator depth", 25, 0, 8, 2},
            {"target ack delay", 26, 0, 5, 16},
            {"failover", 26, 5, 2, 0},
            {"flow control", 26, 7, 1, 1},
            {"rnr retries", 27, 0, 3, 5},
            {"srq", 27, 3, 1, 1},
            {"ca guid", 28, 0, 64, 0x0102030405060708},
            {"private data", 36, 0, 24, 0x796573}});
  Sender target = sender;
  target.xrc = true;
  write_rep(m, names, target, r);
  check(m, {{"qpn", 12, 0, 24, 0}, {"eecn", 16, 0, 24, 0x222}, {"depth", 25, 0, 8, 0}});
}

void the_short_messages_lie_as_the_kernel_reads_them() {
  Mad m;
  write_mra(m, names, About::rep, 21);
  check_header(m, Attribute::mra, names.tid);
  check(m, {{"ids", 0, 0, 64, 0x01020304a0b0c0d0}, {"about", 8, 0, 2, 1}, {"time", 9, 0, 5, 21}});
  write_rej(m, names, {About::other, Reason::consumer_defined, bytes_of("ab"), bytes_of("no")});
  check_header(m, Attribute::rej, names.tid);
  check(m, {{"ids", 0, 0, 64, 0x01020304a0b0c0d0},
            {"about", 8, 0, 2, 2},
            {"length", 9, 0, 7, 2},
            {"reason", 10, 0, 16, 28},
            {"ari", 12, 0, 16, 0x6162},
            {"private data", 84, 0, 16, 0x6e6f}});
  write_rtu(m, names, bytes_of("rtu"));
  check_header(m, Attribute::rtu, names.tid);
  check(m, {{"ids", 0, 0, 64, 0x01020304a0b0c0d0}, {"private data", 8, 0, 24, 0x727475}});
  write_dreq(m, names, 0x123456, bytes_of("bye"));
  check_header(m, Attribute::dreq, names.tid);
  check(m, {{"qpn", 8, 0, 24, 0x123456}, {"private data", 12, 0, 24, 0x627965}});
  write_drep(m, names, {});
  check_header(m, Attribute::drep, names.tid);
  check(m, {{"ids", 0, 0, 64, 0x01020304a0b0c0d0}, {"private data", 8, 0, 64, 0}});
}

void sidr_messages_lie_as_the_kernel_reads_them() {
  Net net;
  ResolveRequest r;
  r.service_id = service_id_of(PortSpace::udp, 9);
  r.route = net.to(2);
  r.private_data = bytes_of("who");
  Mad m;
  write_sidr_req(m, names, r);
  check_header(m, Attribute::sidr_req, names.tid);
  check(m, {{"request", 0, 0, 32, 0x01020304},
            {"pkey", 4, 0, 16, 0xffff},
            {"service id", 8, 0, 64, 0x01110009},
            {"private data", 16, 0, 24, 0x77686f}});
  ResolveAnswer a{SidrStatus::no_qp, 0x333, 0x1234567, bytes_of("in"), bytes_of("me")};
  write_sidr_rep(m, names, r.service_id, a);
  check_header(m, Attribute::sidr_rep, names.tid);
  check(m, {{"request", 0, 0, 32, 0xa0b0c0d0},
            {"status", 4, 0, 8, 3},
            {"length", 5, 0, 8, 2},
            {"qpn", 8, 0, 24, 0x333},
            {"service id", 12, 0, 64, 0x01110009},
            {"qkey", 20, 0, 32, 0x1234567},
            {"info", 24, 0, 16, 0x696e},
            {"private data", 96, 0, 16, 0x6d65}});
}

// cma.c, struct cma_hdr: version 0, the IP version in the upper half of the next byte.
void the_ip_header_stands_before_the_private_data() {
  Net net;
  ConnectRequest r = full_request(net);
  r.ip = IpHeader{};
  r.ip->source_port = 0x1234;
  r.ip->source[12] = 10;
  r.ip->source[15] = 1;
  r.ip->destination[12] = 10;
  r.ip->destination[15] = 2;
  Mad m;
  write_req(m, names, sender, r);
  check(m, {{"cma version", 140, 0, 8, 0},
            {"ip version", 141, 0, 4, 4},
            {"port", 142, 0, 16, 0x1234},
            {"source", 144, 0, 64, 0},
            {"source", 156, 0, 32, 0x0a000001},
            {"destination", 172, 0, 32, 0x0a000002},
            {"private data", 176, 0, 40, 0x68656c6c6f}});
  Event e;
  read_req(message_of<ReqMad>(m), e);
  EQUAL_FATAL(e.ip.has_value(), true);
  EQUAL(e.ip->source_port, 0x1234);
  EQUAL(e.ip->source, r.ip->source);
  EQUAL(e.ip->destination, r.ip->destination);
  EQUAL(e.private_data.count, 56);
  EQUAL(std::memcmp(e.private_data.bytes.data(), "hello", 6), 0);
  // Of another version, or outside the port spaces, it is private data like any other.
  for (const auto& [at, value] : {std::pair<std::size_t, int>{164, 1}, {165, 0x50}, {28 + 4, 1}}) {
    Mad other = m;
    other[at] = static_cast<std::byte>(value);
    Event whole;
    read_req(message_of<ReqMad>(other), whole);
    EQUAL(whole.ip.has_value(), false);
    EQUAL(whole.private_data.count, 92);
  }
}

// The peer's depths are ours, turned round (cm_format_req_event()).
void a_request_is_told_with_all_it_says() {
  Net net;
  EQUAL(net.right.agent.listen(service, net.right, 9).ok(), true);
  const CommId id = *net.left.agent.connect(full_request(net), net.left, 8, net.now);
  net.settle();
  EQUAL_FATAL(net.right.events.size(), 1);
  const Event& e = net.right.events[0];
  EQUAL(e.kind, EventKind::request);
  CU_ASSERT(e.id != id);
  EQUAL(e.cookie, 9);
  EQUAL(e.route.sgid, gid_of(2));
  EQUAL(e.route.dgid, gid_of(1));
  CU_ASSERT(e.route.dmac == mac_of_host(1));
  EQUAL(e.route.flow_label, 0x54321);
  EQUAL(e.route.traffic_class, 0x6a);
  EQUAL(e.service_id, service);
  CU_ASSERT(e.transport == Transport::rc);
  EQUAL(e.remote_qpn, 0x111);
  EQUAL(e.remote_qkey, 0x87654321);
  EQUAL(e.remote_ca_guid, 0x0200'00ff'fe00'0001u);
  EQUAL(e.starting_psn, 0xabcdef);
  EQUAL(e.responder_resources, 7);
  EQUAL(e.initiator_depth, 4);
  EQUAL(e.retry_count, 5);
  EQUAL(e.rnr_retry_count, 6);
  EQUAL(e.path_mtu, 4);
  EQUAL(e.local_ack_timeout, 19);
  EQUAL(e.local_cm_timeout, 20);
  EQUAL(e.remote_cm_timeout, 19);
  CU_ASSERT(e.srq);
  CU_ASSERT(e.flow_control);
  EQUAL(e.private_data.count, 92);
}

void queue_pairs_get_what_both_sides_agreed_on() {
  Net net;
  EQUAL(net.right.agent.listen(service, net.right, 9).ok(), true);
  const CommId id = *net.left.agent.connect(full_request(net), net.left, 8, net.now);
  EQUAL(net.left.agent.qp_values(id, QpStep::init).ok(), true);
  EQUAL(net.left.agent.qp_values(id, QpStep::rtr).ok(), false);
  net.settle();
  const CommId peer = net.right.events[0].id;
  const Result<QpValues> early = net.right.agent.qp_values(peer, QpStep::rts);
  EQUAL_FATAL(early.ok(), true);
  EQUAL(early.value().sq_psn, 0xabcdef);
  must(net.right.agent.accept(peer, acceptance(), net.now));
  net.settle();
  const QpValues l = *net.left.agent.qp_values(id, QpStep::rts);
  const QpValues r = *net.right.agent.qp_values(peer, QpStep::rtr);
  EQUAL(l.dest_qpn, 0x222);
  EQUAL(r.dest_qpn, 0x111);
  EQUAL(l.rq_psn, 0xabcdef);
  EQUAL(l.sq_psn, 0x123456);
  EQUAL(r.rq_psn, 0x123456);
  EQUAL(r.sq_psn, 0xabcdef);
  EQUAL(l.path_mtu, 4);
  EQUAL(r.path_mtu, 4);
  EQUAL(l.max_rd_atomic, 3);       // the responder resources of the REP
  EQUAL(l.max_dest_rd_atomic, 2);  // its initiator depth
  EQUAL(r.max_rd_atomic, 2);
  EQUAL(r.max_dest_rd_atomic, 3);
  EQUAL(l.timeout, 19);
  EQUAL(r.timeout, 19);
  EQUAL(l.retry_count, 5);
  EQUAL(r.retry_count, 5);
  EQUAL(r.rnr_retry, 6);
  EQUAL(l.rnr_retry, 7);  // as the REP says
}

void what_is_too_wide_is_refused() {
  Net net;
  const auto tried = [&](auto change) {
    ConnectRequest r = full_request(net);
    change(r);
    const Result<CommId> id = net.left.agent.connect(r, net.left, 8, net.now);
    return id.ok() ? 0 : id.error().code;
  };
  const std::vector<std::byte> long_data(93);
  EQUAL(tried([](ConnectRequest& r) { r.qpn = 1 << 24; }), EINVAL);
  EQUAL(tried([](ConnectRequest& r) { r.starting_psn = 1 << 24; }), EINVAL);
  EQUAL(tried([](ConnectRequest& r) { r.retry_count = 8; }), EINVAL);
  EQUAL(tried([](ConnectRequest& r) { r.rnr_retry_count = 8; }), EINVAL);
  EQUAL(tried([](ConnectRequest& r) { r.path_mtu = 0; }), EINVAL);
  EQUAL(tried([](ConnectRequest& r) { r.path_mtu = 6; }), EINVAL);
  EQUAL(tried([](ConnectRequest& r) { r.max_cm_retries = 16; }), EINVAL);
  EQUAL(tried([](ConnectRequest& r) { r.remote_cm_timeout = 32; }), EINVAL);
  EQUAL(tried([](ConnectRequest& r) { r.route.flow_label = 1 << 20; }), EINVAL);
  EQUAL(tried([](ConnectRequest& r) { r.route.service_level = 16; }), EINVAL);
  EQUAL(tried([&](ConnectRequest& r) { r.private_data = long_data; }), EINVAL);
  EQUAL(tried([&](ConnectRequest& r) {
          r.ip = IpHeader{};
          r.private_data = std::span(long_data).first(57);
        }),
        EINVAL);
  EQUAL(tried([](ConnectRequest& r) { r.route.sgid = gid_of(7); }), EADDRNOTAVAIL);
  EQUAL(tried([&](ConnectRequest& r) { r.private_data = std::span(long_data).first(92); }), 0);
  EQUAL(net.left.agent.ids(), 1);
}

// cm.c, cm_ack_timeout(): its three kinds of result.
void the_ack_timeout_rounds_as_the_kernels() {
  EQUAL(ack_timeout_of(16, 18), 19);
  EQUAL(ack_timeout_of(18, 18), 20);
  EQUAL(ack_timeout_of(19, 18), 20);
  EQUAL(ack_timeout_of(20, 18), 21);
  EQUAL(ack_timeout_of(22, 18), 22);
  EQUAL(ack_timeout_of(31, 31), 31);
}

constexpr Case all[] = {
    {"a REQ lies as the kernel reads it", a_req_lies_as_the_kernel_reads_it},
    {"an XRC and a UC REQ say so", an_xrc_and_a_uc_req_say_so},
    {"a REP lies as the kernel reads it", a_rep_lies_as_the_kernel_reads_it},
    {"the short messages lie as the kernel reads them",
     the_short_messages_lie_as_the_kernel_reads_them},
    {"SIDR messages lie as the kernel reads them", sidr_messages_lie_as_the_kernel_reads_them},
    {"the IP header stands before the private data", the_ip_header_stands_before_the_private_data},
    {"a request is told with all it says", a_request_is_told_with_all_it_says},
    {"queue pairs get what both sides agreed on", queue_pairs_get_what_both_sides_agreed_on},
    {"what is too wide is refused", what_is_too_wide_is_refused},
    {"the ack timeout rounds as the kernel's", the_ack_timeout_rounds_as_the_kernels},
};

}  // namespace
}  // namespace messages_ut

namespace kilim::vhca::test {
std::span<const Case> message_cases() {
  return messages_ut::all;
}
}  // namespace kilim::vhca::test
