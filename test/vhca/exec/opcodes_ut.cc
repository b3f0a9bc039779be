// SPDX-License-Identifier: BSD-3-Clause
// The table of opcodes: which service knows which, as IBTA and rdma-core have it; which have a
// straight way; what the journal is told on the general way.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "plain_fixture.hh"
#include "ut.hh"
#include "vhca/exec/opcodes.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {
namespace opcodes_ut {
namespace {

// A letter a service: Rc, Uc, uD, raW, Xrc initiator, Initiator of dynamic connections.
struct Service {
  char letter;
  QpType type;
};
constexpr Service services[] = {{'R', QpType::rc},      {'U', QpType::uc},
                                {'D', QpType::ud},      {'W', QpType::raw_packet},
                                {'X', QpType::xrc_ini}, {'I', QpType::dci}};

struct Known {
  Opcode opcode;
  std::string_view by;
};
// Requests to a peer: IBTA vol. 1, 9.2, the opcodes of the base transport header by service; UC has
// no READ, no atomics and no SEND with invalidate there. Operations on keys, and copies by DMA:
// rdma-core's providers/mlx5/qp.c, MLX5_SUPPORTED_SEND_OPS_FLAGS_* and mlx5_qp_fill_wr_pfns().
// Enhanced multi-packet WQEs, TSO: Linux mlx5e (en_tx.c) and DPDK (mlx5_tx.h), on packet queues
// alone. There RC alone has SET_PSV, and an RC queue the tag operations: that more services take
// them here has no source, and is only held as it is.
constexpr Known known[] = {
    {Opcode::nop, "RUDWXI"},        {Opcode::send, "RUDWXI"},
    {Opcode::send_imm, "RUDXI"},    {Opcode::send_inval, "RXI"},
    {Opcode::rdma_write, "RUXI"},   {Opcode::rdma_write_imm, "RUXI"},
    {Opcode::rdma_read, "RXI"},     {Opcode::atomic_cs, "RXI"},
    {Opcode::atomic_fa, "RXI"},     {Opcode::umr, "RUXI"},
    {Opcode::local_inval, "RUXI"},  {Opcode::set_psv, "RX"},
    {Opcode::tag_matching, "RUXI"}, {Opcode::mmo, "RI"},
    {Opcode::enhanced_mpsw, "W"},   {Opcode::tso, "W"},
};

std::string_view who_knows(unsigned opcode) {
  for (const Known& k : known)
    if (static_cast<unsigned>(k.opcode) == opcode) return k.by;
  return {};
}

void each_service_knows_its_opcodes() {
  for (const Service& s : services) {
    for (unsigned opcode = 0; opcode < 256; opcode++) {
      const exec::OpcodeRow* row = exec::opcode_row(s.type, static_cast<uint8_t>(opcode));
      const bool wanted = who_knows(opcode).find(s.letter) != std::string_view::npos;
      if ((row != nullptr) != wanted) std::printf("\n    %c, opcode 0x%02x\n", s.letter, opcode);
      EQUAL(row != nullptr, wanted);
      if (row != nullptr) EQUAL(static_cast<unsigned>(row->opcode), opcode);
    }
  }
}

void seven_opcodes_have_a_straight_way() {
  for (unsigned opcode = 0; opcode < 256; opcode++) {
    const exec::OpcodeRow* row = exec::opcode_row(QpType::rc, static_cast<uint8_t>(opcode));
    if (row == nullptr) continue;
    constexpr Opcode straight[] = {Opcode::send,       Opcode::rdma_write, Opcode::rdma_read,
                                   Opcode::atomic_cs,  Opcode::atomic_fa,  Opcode::umr,
                                   Opcode::local_inval};
    const bool wanted = std::ranges::find(straight, row->opcode) != std::end(straight);
    EQUAL(row->straight != nullptr, wanted);
  }
}

// A UMR that frees its key is LOCAL_INV as rdma-core writes it, unless it has a list.
void the_journal_tells_invalidations_from_umrs() {
  Side s(1, true);
  const auto told = [&](Journal::Kind kind) { return s.rig.journal.count(kind); };
  const uint32_t key = s.rig.make_key(4), other = s.rig.make_key(4);
  const prm::Klm piece = klm(s.src.at(0), 64, s.keys[Side::whole_src]);
  const UmrShape bind{.len = 64};
  (void)s.rig.run_one(s.rig.a, umr_wqe(key, bind, {&piece, 1}));
  const uint64_t umrs = told(Journal::Kind::umr), invalidations = told(Journal::Kind::invalidate);
  EQUAL(s.rig.run_one(s.rig.a, Wqe(Opcode::local_inval, key)).syndrome, Syndrome::none);
  EQUAL(told(Journal::Kind::invalidate), invalidations + 1);
  const UmrShape frees{.free = prm::mkey::free, .len = 64};
  EQUAL(s.rig.run_one(s.rig.a, umr_wqe(other, frees, {&piece, 1})).syndrome, Syndrome::none);
  EQUAL(told(Journal::Kind::invalidate), invalidations + 1);
  EQUAL(told(Journal::Kind::umr), umrs + 1);
}

// The opcode's number is free in the manual.
void an_unknown_opcode_fails_its_queue() {
  Rig rig;
  const Completion c = rig.run_one(rig.a, Wqe(static_cast<Opcode>(0x1f)));
  EQUAL(c.syndrome, Syndrome::local_qp_op);
  EQUAL(rig.state(rig.a), QpState::err);
  WireRig w;
  const std::optional<Completion> far = w.post(Wqe(static_cast<Opcode>(0x1f)));
  CU_ASSERT_FATAL(far.has_value());
  EQUAL(far->syndrome, Syndrome::local_qp_op);
}

// A queue's late changes of keys on a wire are executed apart from its ring (RoceLink::execute): a
// WQE that has changed meanwhile may name anything.
void a_late_wqe_of_an_unknown_opcode_is_malformed() {
  Rig rig;
  exec::Engine& e = *rig.hca;
  wq::Qp& qp = *e.qps.at(rig.a.qpn.value());
  wq::SendWqe wqe;
  for (const unsigned opcode : {0x1fu, 0x3fu, 0x40u, 0xffu}) {
    wqe.opcode = static_cast<uint8_t>(opcode);
    const Verdict v = e.roce.execute(e.roce.engine, qp, wqe);
    EQUAL(v, malformed("an opcode that the queue does not know"));
    EQUAL(v.ok(), false);
  }
  wqe.opcode = static_cast<uint8_t>(Opcode::nop);
  EQUAL(e.roce.execute(e.roce.engine, qp, wqe).ok(), true);
}

const kilim::test::Case cases[] = {
    {"each service knows its opcodes", each_service_knows_its_opcodes},
    {"seven opcodes have a straight way", seven_opcodes_have_a_straight_way},
    {"the journal tells invalidations from UMRs", the_journal_tells_invalidations_from_umrs},
    {"an unknown opcode fails its queue", an_unknown_opcode_fails_its_queue},
    {"a late WQE of an unknown opcode is malformed", a_late_wqe_of_an_unknown_opcode_is_malformed},
};

}  // namespace
}  // namespace opcodes_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(opcodes, kilim::vhca::test::opcodes_ut::cases)
