// SPDX-License-Identifier: BSD-3-Clause
// Part of plain_ut. What the two queue pairs of a request allow: for each condition, and each
// request that it is about, the straight way does what the general way does.
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

#include "plain_fixture.hh"

namespace kilim::vhca::test {

namespace plain_admits_ut {
namespace {

// What became of a request: its completion, the bytes at both ends, what the peer is then.
struct Outcome {
  Completion done;
  std::vector<std::byte> src, dst;
  QpState mine, peer;
};

Wqe request(Side& s, Opcode op) {
  Wqe w(op);
  w.raddr(s.dst.at(64), s.keys[Side::whole_dst]);
  if (op == Opcode::atomic_fa || op == Opcode::atomic_cs) w.atomic(1, 0);
  return w.data(s.src.at(0), 8, s.keys[Side::whole_src]);
}

using Spoil = void (*)(wq::Qp& mine, wq::Qp& peer);

Outcome outcome(Opcode op, Spoil spoil, bool general) {
  Side s(41, general);
  hca::Hca& h = *s.rig.hca;
  std::memset(s.dst.data() + 64, 0, 8);
  spoil(*h.qps.at(s.rig.a.qpn.value()), *h.qps.at(s.rig.b.qpn.value()));
  const Completion done = s.rig.run_one(s.rig.a, request(s, op));
  return {done,
          {s.src.data(), s.src.data() + 128},
          {s.dst.data(), s.dst.data() + 128},
          s.rig.state(s.rig.a),
          s.rig.state(s.rig.b)};
}

struct AdmitRow {
  const char* what;
  Opcode op;
  bool refused;
  Spoil spoil;
};

// clang-format off
constexpr AdmitRow admit_rows[] = {
    {"a WRITE as it is", Opcode::rdma_write, false, [](wq::Qp&, wq::Qp&) {}},
    {"a READ as it is", Opcode::rdma_read, false, [](wq::Qp&, wq::Qp&) {}},
    {"an addition as it is", Opcode::atomic_fa, false, [](wq::Qp&, wq::Qp&) {}},
    {"a comparison as it is", Opcode::atomic_cs, false, [](wq::Qp&, wq::Qp&) {}},
    {"a WRITE to who takes none", Opcode::rdma_write, true, [](wq::Qp&, wq::Qp& p) { p.attr.access &= ~access::remote_write; }},
    {"a READ of who answers none", Opcode::rdma_read, true, [](wq::Qp&, wq::Qp& p) { p.attr.access &= ~access::remote_read; }},
    {"an addition at who does none", Opcode::atomic_fa, true, [](wq::Qp&, wq::Qp& p) { p.attr.access &= ~access::remote_atomic; }},
    {"a comparison at who does none", Opcode::atomic_cs, true, [](wq::Qp&, wq::Qp& p) { p.attr.access &= ~access::remote_atomic; }},
    {"a READ of who keeps no answers", Opcode::rdma_read, true, [](wq::Qp&, wq::Qp& p) { p.attr.max_dest_rd_atomic = 0; }},
    {"an addition at who keeps no answers", Opcode::atomic_fa, true, [](wq::Qp&, wq::Qp& p) { p.attr.max_dest_rd_atomic = 0; }},
    {"a READ by who waits for no answers", Opcode::rdma_read, false, [](wq::Qp& m, wq::Qp&) { m.attr.max_rd_atomic = 0; }},
    {"an addition by who waits for no answers", Opcode::atomic_fa, false, [](wq::Qp& m, wq::Qp&) { m.attr.max_rd_atomic = 0; }},
    {"a WRITE longer than a message", Opcode::rdma_write, true, [](wq::Qp& m, wq::Qp&) { m.spec.max_message = 7; }},
    {"an addition longer than a message", Opcode::atomic_fa, true, [](wq::Qp& m, wq::Qp&) { m.spec.max_message = 7; }},
};
// clang-format on

}  // namespace
}  // namespace plain_admits_ut

void the_straight_way_asks_what_the_general_way_asks() {
  for (const plain_admits_ut::AdmitRow& row : plain_admits_ut::admit_rows) {
    const plain_admits_ut::Outcome straight = plain_admits_ut::outcome(row.op, row.spoil, false);
    const plain_admits_ut::Outcome general = plain_admits_ut::outcome(row.op, row.spoil, true);
    const bool refused = general.done.syndrome != Syndrome::none;
    if (refused != row.refused || straight.done.syndrome != general.done.syndrome)
      std::printf("\n    %s", row.what);
    EQUAL(refused, row.refused);
    EQUAL(straight.done.syndrome, general.done.syndrome);
    CU_ASSERT(straight.dst == general.dst);
    CU_ASSERT(straight.src == general.src);
    EQUAL(straight.mine, general.mine);
    EQUAL(straight.peer, general.peer);
  }
}

}  // namespace kilim::vhca::test
