// SPDX-License-Identifier: BSD-3-Clause
// What has landed when a message of several packets is refused: the packets in front of the one
// that meets the refusal, in loopback as on a wire. 2,048 bytes of a WRITE of 4,096 at a region of
// 2,048, and four packets of a WRITE whose segment is longer than its region, were measured on a
// ConnectX-6 and a ConnectX-5 (unionxic/rdma-fault-characterization, counter_mapping_findings.md).
#include <optional>

#include "ut.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {
namespace partial_ut {
namespace {

constexpr uint32_t bytes = 4096;  // a message: four packets of 1,024
constexpr std::byte sent{0x5a};

struct Row {
  const char* name;
  Opcode op;
  QpType type;
  uint32_t near, far;  // of the message's memory so many bytes are registered
  std::size_t lands;
  Syndrome requester;
};
constexpr Row rows[] = {
    {"all of it is allowed", Opcode::rdma_write, QpType::rc, 4096, 4096, 4096, Syndrome::none},
    {"the region ends with a packet", Opcode::rdma_write, QpType::rc, 4096, 2048, 2048,
     Syndrome::remote_access},
    {"it ends a byte earlier", Opcode::rdma_write, QpType::rc, 4096, 2047, 1024,
     Syndrome::remote_access},
    {"it ends in the first packet", Opcode::rdma_write, QpType::rc, 4096, 1023, 0,
     Syndrome::remote_access},
    {"it lacks the last byte", Opcode::rdma_write, QpType::rc, 4096, 4095, 3072,
     Syndrome::remote_access},
    {"own memory ends with a packet", Opcode::rdma_write, QpType::rc, 3072, 4096, 3072,
     Syndrome::local_prot},
    {"own memory ends in the first packet", Opcode::rdma_write, QpType::rc, 1023, 4096, 0,
     Syndrome::local_prot},
    {"both end at once: no packet is made", Opcode::rdma_write, QpType::rc, 2048, 2048, 2048,
     Syndrome::local_prot},
    {"own memory ends first", Opcode::rdma_write, QpType::rc, 1024, 2048, 1024,
     Syndrome::local_prot},
    {"WRITE with immediate, region", Opcode::rdma_write_imm, QpType::rc, 4096, 2048, 2048,
     Syndrome::remote_access},
    {"WRITE with immediate, own memory", Opcode::rdma_write_imm, QpType::rc, 2048, 4096, 2048,
     Syndrome::local_prot},
    {"SEND, own memory", Opcode::send, QpType::rc, 2048, 4096, 2048, Syndrome::local_prot},
    {"SEND, memory of the receive", Opcode::send, QpType::rc, 4096, 2048, 2048,
     Syndrome::remote_op},
    {"UC: nobody hears of it", Opcode::rdma_write, QpType::uc, 4096, 2048, 2048, Syndrome::none},
    {"UC, own memory", Opcode::rdma_write, QpType::uc, 2048, 4096, 2048, Syndrome::local_prot},
};

// Two queues of one adapter, connected with an MTU of 1,024.
struct Loop {
  explicit Loop(QpType type) : rig(shape_of(type)) {
    const LinkShape link;
    WireRig::connect(rig, {rig.a, rig.b.qpn, type}, left_mac, link, 5, 9);
    WireRig::connect(rig, {rig.b, rig.a.qpn, type}, left_mac, link, 9, 5);
  }
  static RigShape shape_of(QpType type) {
    RigShape shape;
    shape.a.type = shape.b.type = type;
    shape.mac = left_mac;
    shape.connect = false;
    return shape;
  }
  Rig rig;
};

// One end's memory, of which the first `registered` bytes have a key.
struct Memory {
  Memory(Rig& rig, uint32_t registered) : pages(bytes) {
    keys = rig.reg(Va{pages.at(0)}, registered, rw_access);
  }
  Pages pages;
  MrKeys keys{};
};

Wqe request(const Row& row, const Memory& near, const Memory& far) {
  Wqe w(row.op, 7);
  if (row.op != Opcode::send) w.raddr(far.pages.at(0), far.keys.rkey.value());
  return w.data(near.pages.at(0), bytes, near.keys.lkey.value());
}

void check(const Row& row, bool ok, const char* where, const char* what) {
  if (!ok) std::printf("\n    %s, %s: %s\n", row.name, where, what);
  CU_ASSERT(ok);
}

std::size_t landed(const Memory& far) {
  std::size_t n = 0;
  while (n < bytes && far.pages.data()[n] == sent) n++;
  for (std::size_t i = n; i < bytes; i++)
    if (far.pages.data()[i] != std::byte{}) return bytes + 1;
  return n;
}

void check_outcome(const Row& row, const char* where, const std::optional<Completion>& c,
                   const Memory& far) {
  check(row, c && c->syndrome == row.requester, where, "syndrome");
  check(row, landed(far) == row.lands, where, "bytes that have landed");
}

void fill(Memory& near) {
  for (std::size_t i = 0; i < bytes; i++) near.pages.data()[i] = sent;
}

void in_loopback() {
  for (const Row& row : rows) {
    Loop loop(row.type);
    Rig& rig = loop.rig;
    Memory near(rig, row.near), far(rig, row.far);
    fill(near);
    rig.b.recv(far.pages.at(0), bytes, far.keys.lkey.value());
    rig.a.put(request(row, near, far));
    rig.a.ring(rig.uar);
    check_outcome(row, "loopback", rig.wait(rig.cq_a), far);
    const std::optional<Completion> c = rig.cq_b.poll();
    const bool flushed = row.requester == Syndrome::remote_access;
    const bool told = row.op == Opcode::send && row.requester == Syndrome::remote_op;
    check(row, c.has_value() == (told || flushed), "loopback", "completion of the receive");
  }
}

void on_a_wire() {
  for (const Row& row : rows) {
    LinkShape shape;
    shape.queue.type = row.type;
    WireRig w(shape);
    Memory near(w.left, row.near), far(w.right, row.far);
    fill(near);
    w.right.a.recv(far.pages.at(0), bytes, far.keys.lkey.value());
    const std::optional<Completion> c = w.post(request(row, near, far));
    w.settle();
    check_outcome(row, "wire", c, far);
  }
}

// The peer's NAK of the third packet and the requester's own fault at the fourth are on their way
// at once: which one ends the message is a race on a wire.
void the_earlier_packet_says_why() {
  const Row row = {"the region ends first", Opcode::rdma_write, QpType::rc, 3072, 2048, 2048,
                   Syndrome::remote_access};
  Loop loop(row.type);
  Rig& rig = loop.rig;
  Memory near(rig, row.near), far(rig, row.far);
  fill(near);
  check_outcome(row, "loopback", rig.run_one(rig.a, request(row, near, far)), far);
}

// A key of keys is looked at packet by packet too: its second entry names a key that is gone.
void a_hole_in_a_list() {
  const Row row = {"a list with a hole",   Opcode::rdma_write, QpType::rc, bytes, bytes, 2048,
                   Syndrome::remote_access};
  Loop loop(row.type);
  Rig& rig = loop.rig;
  Memory near(rig, row.near), far(rig, row.far);
  fill(near);
  const MrKeys gone = rig.reg(far.pages, rw_access);
  const std::array<prm::Klm, 2> list = {klm(far.pages.at(0), 2048, far.keys.lkey.value()),
                                        klm(far.pages.at(2048), 2048, gone.lkey.value())};
  UmrShape shape;
  shape.len = bytes;
  const uint32_t key = rig.make_key(4);
  EQUAL(rig.run_one(rig.b, umr_wqe(key, shape, list)).syndrome, Syndrome::none);
  EQUAL(hca::dereg_mr(*rig.hca, MkeyIndex{gone.rkey.value() >> 8}), 0);
  Wqe w(Opcode::rdma_write);
  w.raddr(0, key).data(near.pages.at(0), bytes, near.keys.lkey.value());
  check_outcome(row, "loopback", rig.run_one(rig.a, w), far);
}

const kilim::test::Case cases[] = {
    {"packets in front of a refusal have landed, in loopback", in_loopback},
    {"and on a wire", on_a_wire},
    {"the earlier packet says why", the_earlier_packet_says_why},
    {"a hole in a list", a_hole_in_a_list},
};

}  // namespace
}  // namespace partial_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(partial, kilim::vhca::test::partial_ut::cases)
