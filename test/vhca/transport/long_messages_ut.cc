// SPDX-License-Identifier: BSD-3-Clause
// Messages of up to 2 GiB, by the direct call and over a wire, and sequence numbers where as many
// of them are under way as there may be. A long region is a short one, mapped again and again.
#include <cstdlib>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

#include "kilim/detail/base/fd.hh"
#include "ut.hh"
#include "vhca/hca/hca.hh"
#include "vhca/transport/roce.hh"
#include "vhca/transport/roce_frame.hh"
#include "vhca/wire/wire.hh"
#include "wire_fixture.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace long_messages_ut {
namespace {

constexpr uint64_t gib = uint64_t{1} << 30;
constexpr std::size_t turn = 1 << 20;  // bytes that there are

class Repeated {
 public:
  explicit Repeated(uint64_t bytes)
      : bytes_(bytes), file_(::memfd_create("repeated", MFD_CLOEXEC)) {
    void* all =
        ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!file_ || ::ftruncate(file_.get(), turn) != 0 || all == MAP_FAILED) std::abort();
    data_ = static_cast<std::byte*>(all);
    for (uint64_t at = 0; at < bytes; at += turn) {
      if (::mmap(data_ + at, turn, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_.get(),
                 0) == MAP_FAILED)
        std::abort();
    }
  }
  ~Repeated() { ::munmap(data_, bytes_); }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] Va va() const { return Va{reinterpret_cast<uint64_t>(data_)}; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_;
  Fd file_;
  std::byte* data_ = nullptr;
};

void fill(const Repeated& r, unsigned seed) {
  for (std::size_t i = 0; i < turn; i++)
    r.data()[i] = static_cast<std::byte>((i + seed) * 2654435761u >> 13);
}
bool equal(const Repeated& a, const Repeated& b) {
  return std::memcmp(a.data(), b.data(), turn) == 0;
}
// A byte count of 0 says 2 GiB.
Wqe rdma(Opcode op, const Repeated& near, Lkey lkey, const Repeated& far, Rkey rkey) {
  return Wqe(op)
      .raddr(far.va().value(), rkey.value())
      .data(near.va().value(), static_cast<uint32_t>(near.bytes()) & 0x7fffffff, lkey.value());
}

// A card's port says 1 GiB; its engine is tried with twice as much too.
Profile unbounded() {
  Profile p;
  p.log_max_msg = 31;
  return p;
}

void begin_again(Rig& rig) {
  for (TestQp* qp : {&rig.a, &rig.b}) {
    EQUAL(rig.to_state(*qp, QpState::reset), 0);
    qp->pi = qp->head = 0;
    std::memset(qp->record.data(), 0, 8);
  }
  rig.to_rts(rig.a, rig.b.qpn);
  rig.to_rts(rig.b, rig.a.qpn);
}

void a_port_sends_what_it_says() {
  Rig rig;
  Repeated near(2 * gib), far(2 * gib);
  MrKeys a = rig.reg(near.va(), near.bytes(), rw_access),
         b = rig.reg(far.va(), far.bytes(), rw_access);
  fill(near, 1);
  const uint64_t at = near.va().value();
  auto write = [&](Opcode op) { return Wqe(op).raddr(far.va().value(), b.rkey.value()); };
  const Wqe whole = write(Opcode::rdma_write).data(at, gib, a.lkey.value());
  EQUAL(rig.run_one(rig.a, whole).op, prm::CqeOpcode::req);
  CU_ASSERT(equal(near, far));
  for (Opcode op : {Opcode::rdma_write, Opcode::rdma_read, Opcode::send}) {
    for (uint32_t more : {uint32_t{gib} + 1, 0x7fffffffu, 0u}) {  // the last one is 2 GiB
      Wqe w = op == Opcode::send ? Wqe(op) : write(op);
      EQUAL(rig.run_one(rig.a, w.data(at, more, a.lkey.value())).syndrome, Syndrome::local_length);
      begin_again(rig);
    }
  }
  Wqe two = write(Opcode::rdma_write).data(at, gib, a.lkey.value()).data(at, 1, a.lkey.value());
  EQUAL(rig.run_one(rig.a, two).syndrome, Syndrome::local_length);
  // A receive has room for 2 GiB all the same.
  begin_again(rig);
  rig.b.recv(far.va().value(), 0, b.lkey.value());
  fill(near, 2);
  EQUAL(rig.run_one(rig.a, Wqe(Opcode::send).data(at, gib, a.lkey.value())).op,
        prm::CqeOpcode::req);
  CU_ASSERT(equal(near, far));
}

void loopback_moves_two_gib_in_one_request() {
  RigShape shape;
  shape.profile = unbounded();
  Rig rig(shape);
  Repeated near(2 * gib), far(2 * gib);
  MrKeys a = rig.reg(near.va(), near.bytes(), rw_access),
         b = rig.reg(far.va(), far.bytes(), rw_access);
  fill(near, 1);
  Completion c = rig.run_one(rig.a, rdma(Opcode::rdma_write, near, a.lkey, far, b.rkey));
  EQUAL(c.op, prm::CqeOpcode::req);
  CU_ASSERT(equal(near, far));
  Wqe longer = rdma(Opcode::rdma_write, near, a.lkey, far, b.rkey);
  longer.data(near.va().value(), 1, a.lkey.value());
  EQUAL(rig.run_one(rig.a, longer).syndrome, Syndrome::local_length);
}

// Pieces of the wire's pace: a cable and both adapters in one thread.
void over_a_wire(uint8_t mtu, uint64_t bytes) {
  WireRig w({.mtu = mtu, .timeout = 14, .profile = unbounded()});
  Repeated near(bytes), far(bytes);
  MrKeys a = w.left.reg(near.va(), bytes, rw_access), b = w.right.reg(far.va(), bytes, rw_access);
  fill(near, 1);
  auto run = [&](const Wqe& wqe) {
    w.left.a.put(wqe);
    w.left.a.ring(w.left.uar);
    for (;;) {
      w.left.hca->run();
      w.right.hca->run();
      if (std::optional<Completion> c = w.left.cq_a.poll()) return c;
    }
  };
  CU_ASSERT(good(run(rdma(Opcode::rdma_write, near, a.lkey, far, b.rkey))));
  CU_ASSERT(equal(near, far));
  fill(far, 2);
  std::optional<Completion> c = run(rdma(Opcode::rdma_read, near, a.lkey, far, b.rkey));
  CU_ASSERT(good(c) && c->bytes == bytes);
  CU_ASSERT(equal(near, far));
  fill(near, 3);
  w.right.a.recv(far.va().value(), static_cast<uint32_t>(bytes) & 0x7fffffff, b.lkey.value());
  Wqe send(Opcode::send);
  send.data(near.va().value(), static_cast<uint32_t>(bytes) & 0x7fffffff, a.lkey.value());
  CU_ASSERT(good(run(send)));
  CU_ASSERT(equal(near, far));
  c = w.wait(w.right.cq_a);
  CU_ASSERT(c.has_value() && c->bytes == bytes);
  CU_ASSERT(good(run(rdma(Opcode::rdma_write, near, a.lkey, far, b.rkey))));
}

bool is_long() {
  const char* mode = std::getenv("KILIM_CHECK");
  return mode != nullptr && std::string_view(mode) == "long";
}

void a_wire_carries_long_messages() {
  over_a_wire(5, is_long() ? 2 * gib : gib / 32);
  if (is_long()) over_a_wire(1, 2 * gib);
}

// 2 GiB in packets of 256 bytes: 2^23 sequence numbers, as many as a responder tells from old ones.
void a_read_of_half_of_all_numbers_makes_progress() {
  WireRig w({.mtu = 1, .timeout = 14, .profile = unbounded()});
  Repeated near(2 * gib), far(2 * gib);
  MrKeys a = w.left.reg(near.va(), near.bytes(), rw_access),
         b = w.right.reg(far.va(), far.bytes(), rw_access);
  fill(far, 7);
  w.left.a.put(Wqe(Opcode::rdma_read)
                   .raddr(far.va().value(), b.rkey.value())
                   .data(near.va().value(), 1, a.lkey.value()));
  for (int i = 0; i < 2; i++) w.left.a.put(rdma(Opcode::rdma_read, near, a.lkey, far, b.rkey));
  w.left.a.ring(w.left.uar);
  const wq::RcWire& l = *w.left.hca->qps.at(w.left.a.qpn.value())->rc;
  const wq::RcWire& r = *w.right.hca->qps.at(w.right.a.qpn.value())->rc;
  for (int i = 0; i < 10; i++) w.left.hca->run();
  EQUAL(l.count, 1);  // with the next one there would be a number too many
  CU_ASSERT(good(w.wait(w.left.cq_a)));
  uint32_t begin = l.una_psn;
  for (int i = 0; i < 20'000 && !equal(near, far); i++) {
    w.left.hca->run();
    w.right.hca->run();
  }
  CU_ASSERT(equal(near, far));  // the first turn of many has come
  EQUAL(l.count, 1);            // the last READ has to wait
  CU_ASSERT(transport::roce::psn_distance(begin, l.una_psn) >= turn / 256);
  EQUAL(transport::roce::psn_distance(begin, l.sent_psn), transport::roce::most_packets);
  EQUAL(transport::roce::psn_distance(begin, r.expected_psn), transport::roce::most_packets);
  CU_ASSERT(!w.left.cq_a.poll().has_value());
}

// The last acknowledgement that the right side gives to a packet of these.
uint32_t acknowledged(WireRig& w, const Pages& far, const MrKeys& key, transport::roce::Op op,
                      uint32_t psn) {
  wire::Wire* wire = w.left.hca->config.wires[0].get();
  transport::RocePath path{.src = left_mac, .dst = right_mac};
  port_gid(left_mac, 0, path.sgid);
  port_gid(right_mac, 0, path.dgid);
  transport::RocePacket p, answer;
  for (const transport::roce::OpRow& row : transport::roce::op_rows) {
    if (row.op == op) p.flags = row.flags;
  }
  p.op = op;
  p.dest_qpn = w.right.a.qpn.value();
  p.psn = psn;
  p.ack_request = true;
  p.va = far.at(0);
  p.rkey = key.rkey.value();
  p.length = 8;
  std::vector<std::byte> frame(8192);
  std::size_t n =
      transport::build_roce(path, p, op == transport::roce::Op::write_only ? 8 : 0, frame);
  wire->send({frame.data(), n});
  while (w.right.hca->run() != 0) {
  }
  for (; !wire->peek().empty(); wire->drop())
    EQUAL(transport::parse_roce(wire->peek(), answer), transport::RoceParse::ok);
  return answer.psn;
}

// Else the requester could take a READ for answered whose answer got lost.
void a_repeated_write_is_not_acknowledged_by_the_number_of_a_read_behind_it() {
  WireRig w({.timeout = 0});
  Pages far{4096};
  MrKeys key = w.right.reg(far, rw_access);
  EQUAL(acknowledged(w, far, key, transport::roce::Op::write_only, 0xfffff0), 0xfffff0);
  EQUAL(acknowledged(w, far, key, transport::roce::Op::read_request, 0xfffff1), 0xfffff1);
  EQUAL(acknowledged(w, far, key, transport::roce::Op::write_only, 0xfffff0), 0xfffff0);
  EQUAL(acknowledged(w, far, key, transport::roce::Op::write_only, 0xfffff2), 0xfffff2);
}

constexpr Case cases[] = {
    {"a repeated WRITE is not acknowledged by the number of a READ behind it",
     a_repeated_write_is_not_acknowledged_by_the_number_of_a_read_behind_it},
    {"a port sends messages as long as it says, and refuses longer ones",
     a_port_sends_what_it_says},
    {"loopback moves 2 GiB in one request", loopback_moves_two_gib_in_one_request},
    {"a wire carries long messages", a_wire_carries_long_messages},
    {"a READ of half of all sequence numbers makes progress",
     a_read_of_half_of_all_numbers_makes_progress},
};

}  // namespace
}  // namespace long_messages_ut

KILIM_TEST_SUITE(long_messages, long_messages_ut::cases)
