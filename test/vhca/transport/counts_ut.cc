// SPDX-License-Identifier: BSD-3-Clause
// Each count of queues moves by exactly so much: what an error moves was measured on a ConnectX-6
// and a ConnectX-5 (unionxic/rdma-fault-characterization, counter_mapping_findings.md), in loopback
// and on a wire alike. Local timers and repetitions are a wire's alone.
#include <atomic>
#include <cstring>
#include <map>
#include <optional>

#include <unistd.h>

#include "rc_wire_fixture.hh"
#include "ut.hh"
#include "vhca/core/transport_counts.hh"
#include "vhca/hca/ports.hh"
#include "vhca/tpt/odp_stats.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {
namespace counts_ut {
namespace {

using Count = TransportCount;
using Deltas = std::map<Count, uint64_t>;

// The requester's near memory, the peer's far memory, and a key without rights over each.
struct Ends {
  Ends(Rig& near_rig, Rig& far_rig) {
    near_key = near_rig.reg(near, rw_access);
    far_key = far_rig.reg(far, rw_access);
    mute_near = near_rig.reg(near, 0);
    mute_far = far_rig.reg(far, access::local_write);
  }
  Pages near{8192}, far{8192};
  MrKeys near_key{}, far_key{}, mute_near{}, mute_far{};
};

Wqe write(const Ends& m, uint32_t lkey, uint32_t rkey, uint32_t bytes = 64) {
  Wqe w(Opcode::rdma_write);
  w.raddr(m.far.at(0), rkey).data(m.near.at(0), bytes, lkey);
  return w;
}
Wqe read(const Ends& m, uint32_t lkey) {
  Wqe w(Opcode::rdma_read);
  w.raddr(m.far.at(0), m.far_key.rkey.value()).data(m.near.at(0), 64, lkey);
  return w;
}
Wqe add(const Ends& m) {
  Wqe w(Opcode::atomic_fa);
  w.raddr(m.far.at(0), m.far_key.rkey.value())
      .atomic(1, 0)
      .data(m.near.at(0), 8, m.near_key.lkey.value());
  return w;
}
Wqe send(const Ends& m, uint32_t lkey, uint32_t bytes = 64) {
  Wqe w(Opcode::send);
  w.data(m.near.at(0), bytes, lkey);
  return w;
}

struct Row {
  const char* name;
  Wqe (*make)(const Ends&);
  Deltas near, far;       // in loopback both are the adapter's
  uint32_t receive = 0;   // bytes of a receive that the peer has posted; 0: none
  bool at_error = false;  // software has moved the requester to ERR before
  uint64_t rnr_naks = 0;
};

// clang-format off
const Row rows[] = {
    {"WRITE", [](const Ends& m) { return write(m, m.near_key.lkey.value(), m.far_key.rkey.value()); }, {}, {{Count::rx_write_requests, 1}}},
    {"WRITE of two packets", [](const Ends& m) { return write(m, m.near_key.lkey.value(), m.far_key.rkey.value(), 2000); }, {}, {{Count::rx_write_requests, 1}}},
    {"READ", [](const Ends& m) { return read(m, m.near_key.lkey.value()); }, {}, {{Count::rx_read_requests, 1}}},
    {"atomic", [](const Ends& m) { return add(m); }, {}, {{Count::rx_atomic_requests, 1}}},
    {"SEND", [](const Ends& m) { return send(m, m.near_key.lkey.value()); }, {}, {}, 64},
    {"WRITE, bad rkey", [](const Ends& m) { return write(m, m.near_key.lkey.value(), 0x77777700); }, {{Count::req_cqe_error, 1}, {Count::req_remote_access_errors, 1}}, {{Count::rx_write_requests, 1}}},
    {"WRITE, region without the right", [](const Ends& m) { return write(m, m.near_key.lkey.value(), m.mute_far.rkey.value()); }, {{Count::req_cqe_error, 1}, {Count::req_remote_access_errors, 1}}, {{Count::rx_write_requests, 1}}},
    {"WRITE, unknown lkey", [](const Ends& m) { return write(m, 0x77777700, m.far_key.rkey.value()); }, {{Count::req_cqe_error, 1}}, {}},
    {"SEND without a receive", [](const Ends& m) { return send(m, m.near_key.lkey.value()); }, {{Count::req_cqe_error, 1}, {Count::rnr_nak_retry_err, 1}, {Count::req_rnr_retries_exceeded, 1}}, {}, 0, false, 1},
    {"SEND, longer than its receive", [](const Ends& m) { return send(m, m.near_key.lkey.value()); }, {{Count::req_cqe_error, 1}, {Count::req_remote_invalid_request, 1}}, {{Count::resp_cqe_error, 1}, {Count::resp_local_length_error, 1}}, 63},
    {"a queue that software ended", [](const Ends& m) { return write(m, m.near_key.lkey.value(), m.far_key.rkey.value()); }, {{Count::req_cqe_error, 1}}, {}, 0, true},
};
// clang-format on

LinkShape impatient() {
  LinkShape s;
  s.rnr_retry = 0;
  return s;
}

struct Side {
  Rig& rig;
  TestQp& qp;
  TransportCounts before{};
  void begin() { before = rig.hca->context.counts; }
  [[nodiscard]] Deltas deltas() const {
    Deltas d;
    for (std::size_t i = 0; i < transport_counts; i++) {
      const uint64_t n = rig.hca->context.counts.of[i] - before.of[i];
      if (n != 0) d[static_cast<Count>(i)] = n;
    }
    return d;
  }
};

void check(const Row& row, bool ok, const char* where, const Deltas& found) {
  if (!ok) {
    std::printf("\n    %s, %s:", row.name, where);
    for (const auto& [what, n] : found)
      std::printf(" %s+%lu", transport_count_names[static_cast<std::size_t>(what)], n);
  }
  CU_ASSERT(ok);
}

template <typename Wait>
void run_row(const Row& row, Side near, Side far, const Wait& wait) {
  const bool loopback = &near.rig == &far.rig;
  Ends m(near.rig, far.rig);
  if (row.receive != 0) far.qp.recv(m.far.at(0), row.receive, m.far_key.lkey.value());
  if (row.at_error) EQUAL(near.rig.to_state(near.qp, QpState::err), 0);
  near.begin();
  far.begin();
  near.qp.put(row.make(m));
  near.qp.ring(near.rig.uar);
  CU_ASSERT(wait().has_value());
  Deltas both = row.near;
  if (loopback) both.insert(row.far.begin(), row.far.end());
  check(row, near.deltas() == both, loopback ? "loopback" : "requester", near.deltas());
  if (!loopback) check(row, far.deltas() == row.far, "responder", far.deltas());
  EQUAL(far.rig.hca->context.counts.rnr_naks - far.before.rnr_naks, row.rnr_naks);
}

void each_request_moves_its_counts() {
  for (const Row& row : rows) {
    WireRig w(impatient());
    run_row(row, {w.left, w.left.a}, {w.right, w.right.a}, [&] {
      auto c = w.wait(w.left.cq_a);
      w.settle();
      return c;
    });
    RigShape shape;
    shape.mac = left_mac;
    shape.connect = false;
    Rig rig(shape);
    WireRig::connect(rig, {rig.a, rig.b.qpn, QpType::rc}, left_mac, impatient(), 5, 9);
    WireRig::connect(rig, {rig.b, rig.a.qpn, QpType::rc}, left_mac, impatient(), 9, 5);
    run_row(row, {rig, rig.a}, {rig, rig.b}, [&] { return rig.wait(rig.cq_a); });
  }
}

// The request fails, and three others behind it are flushed, receives at its peer too.
void flushes_count_as_such() {
  Rig rig;
  Ends m(rig, rig);
  rig.b.recv(m.far.at(0), 64, m.far_key.lkey.value());
  rig.a.put(write(m, m.near_key.lkey.value(), 0x77777700));
  for (int i = 0; i < 3; i++) rig.a.put(send(m, m.near_key.lkey.value()));
  rig.a.ring(rig.uar);
  for (int i = 0; i < 4; i++) CU_ASSERT(rig.wait(rig.cq_a).has_value());
  CU_ASSERT(rig.wait(rig.cq_b).has_value());
  const TransportCounts& c = rig.hca->context.counts;
  EQUAL(c.at(Count::req_cqe_error), 4);
  EQUAL(c.at(Count::req_cqe_flush_error), 3);
  EQUAL(c.at(Count::resp_cqe_error), 1);
  EQUAL(c.at(Count::resp_cqe_flush_error), 1);
}

// A peer that is in ERR: retry_cnt timers run out, the one after them ends the queue.
void each_timer_counts() {
  LinkShape shape = impatient();
  shape.timeout = 1;
  shape.retry_cnt = 3;
  WireRig w(shape);
  Ends m(w.left, w.right);
  EQUAL(w.right.to_state(w.right.a, QpState::err), 0);
  CU_ASSERT(bad(w.post(write(m, m.near_key.lkey.value(), m.far_key.rkey.value())),
                Syndrome::transport_retry_exc));
  const TransportCounts& c = w.left.hca->context.counts;
  EQUAL(c.at(Count::local_ack_timeout_err), 3);
  EQUAL(c.at(Count::req_transport_retries_exceeded), 1);
  EQUAL(c.at(Count::req_cqe_error), 1);
}

// A wire that loses and repeats frames: what came twice, what came too early and who was told.
void a_bad_wire_is_counted() {
  LinkShape shape{.left_wire = "+fault:drop:0.1:dup:0.1:seed:3", .mtu = 1};
  WireRig w(shape);
  Ends m(w.left, w.right);
  for (int i = 0; i < 50; i++)
    CU_ASSERT(good(w.post(write(m, m.near_key.lkey.value(), m.far_key.rkey.value(), 4000))));
  w.settle();
  const TransportCounts &near = w.left.hca->context.counts, &far = w.right.hca->context.counts;
  EQUAL(far.at(Count::rx_write_requests), 50);
  CU_ASSERT(far.at(Count::out_of_sequence) > 0);
  CU_ASSERT(far.at(Count::duplicate_request) > 0);
  CU_ASSERT(near.at(Count::packet_seq_err) > 0);
  CU_ASSERT(near.at(Count::packet_seq_err) <= far.at(Count::out_of_sequence));
  EQUAL(near.at(Count::req_cqe_error), 0);
}

// Programs read a sum to which several processes add. A receive that a connected queue misses is a
// part of the port's out_of_buffer.
void counts_are_shown() {
  WireRig w(impatient());
  Ends m(w.left, w.right);
  std::atomic<uint64_t> writes{5}, missed{0};
  char writes_text[tpt::OdpStats::text_bytes]{}, missed_text[tpt::OdpStats::text_bytes]{};
  hca::show_transport(*w.right.hca, static_cast<std::size_t>(Count::rx_write_requests), writes,
                      writes_text);
  hca::show_out_of_buffer(*w.right.hca, missed, missed_text);
  CU_ASSERT(good(w.post(write(m, m.near_key.lkey.value(), m.far_key.rkey.value()))));
  CU_ASSERT(bad(w.post(send(m, m.near_key.lkey.value())), Syndrome::rnr_retry_exc));
  for (int i = 0; i < 400 && missed.load() == 0; i++) {
    w.settle();
    ::usleep(1000);
  }
  EQUAL(writes.load(), 6);
  EQUAL(missed.load(), 1);
  CU_ASSERT(std::strstr(writes_text, "6") != nullptr);
  CU_ASSERT(std::strstr(missed_text, "1") != nullptr);
}

const kilim::test::Case cases[] = {
    {"counts are shown", counts_are_shown},
    {"each request moves its counts", each_request_moves_its_counts},
    {"flushes count as such", flushes_count_as_such},
    {"each timer counts", each_timer_counts},
    {"a bad wire is counted", a_bad_wire_is_counted},
};

}  // namespace
}  // namespace counts_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(counts, kilim::vhca::test::counts_ut::cases)
