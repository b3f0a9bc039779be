// SPDX-License-Identifier: BSD-3-Clause
// Two connected queues of one adapter on a wire that takes so many frames and no more: whose turn
// it is when there is room again.
#include <utility>
#include <vector>

#include "ruled_fixture.hh"
#include "ut.hh"
#include "vhca/transport/roce_frame.hh"
#include "vhca/wire/wire.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {
namespace full_wire_ut {
namespace {

// Takes `room` frames, and remembers which queues they are for. Nothing ever comes.
class NarrowWire : public wire::Wire {
 public:
  Sent send(std::span<const std::byte> frame) noexcept override {
    tries++;
    if (room == 0) return Sent::busy;
    room--;
    transport::RocePacket p;
    if (transport::parse_roce(frame, p) == transport::RoceParse::ok) went.push_back(p.dest_qpn);
    return Sent::taken;
  }
  std::span<const std::byte> peek() noexcept override { return {}; }
  void drop() noexcept override {}
  [[nodiscard]] int fd() const noexcept override { return -1; }
  [[nodiscard]] uint32_t mtu() const noexcept override { return 1500; }
  [[nodiscard]] const wire::WireCounters& counters() noexcept override { return none; }

  bool has_room() noexcept override { return room != 0 || !knows; }
  [[nodiscard]] bool tells_room() const noexcept override { return knows; }

  unsigned room = 0;
  unsigned tries = 0;
  bool knows = false;  // whether there is room
  std::vector<uint32_t> went;
  wire::WireCounters none;
};

constexpr uint32_t for_a = 0x111, for_b = 0x222;  // peers that never answer

// Both queues have two WRITEs to send; a rings last, so that its doorbell is the one that is found
// and a comes first. The wire has room for `first` frames, then for all.
std::vector<uint32_t> order_of_frames(unsigned first) {
  auto* wire = new NarrowWire;  // the rig's from here on
  LinkShape link;
  link.timeout = 0;  // nothing is sent again
  Rig rig({.connect = false, .mac = left_mac, .own_wire = wire});
  WireRig::connect(rig, {rig.a, Qpn{for_a}, QpType::rc}, right_mac, link, 1, 1);
  WireRig::connect(rig, {rig.b, Qpn{for_b}, QpType::rc}, right_mac, link, 1, 1);
  const std::array<std::byte, 8> data{};
  wire->room = first;
  for (TestQp* qp : {&rig.b, &rig.a}) {
    for (int i = 0; i < 2; i++) qp->put(Wqe(Opcode::rdma_write).raddr(0, 1).inlined(data));
    qp->ring(rig.uar);
  }
  rig.hca->run();
  EQUAL(wire->room, 0);
  wire->room = 100;
  for (int i = 0; i < 10'000 && wire->went.size() < 4; i++) {
    rig.hca->run();
    ::usleep(50);
  }
  return wire->went;
}

void who_has_sent_goes_behind_those_who_have_not() {
  const std::vector<uint32_t> want{for_a, for_b, for_b, for_a};
  CU_ASSERT_TRUE(order_of_frames(1) == want);
}

void who_came_first_and_has_sent_nothing_stays_first() {
  const std::vector<uint32_t> want{for_a, for_a, for_b, for_b};
  CU_ASSERT_TRUE(order_of_frames(0) == want);
}

// Of a wire that knows whether it has room: nothing is tried, and no timer wakes anybody.
void who_is_blocked_tries_no_more() {
  auto* wire = new NarrowWire;
  wire->knows = true;
  LinkShape link;
  link.timeout = 0;
  Rig rig({.connect = false, .mac = left_mac, .own_wire = wire});
  WireRig::connect(rig, {rig.a, Qpn{for_a}, QpType::rc}, right_mac, link, 1, 1);
  WireRig::connect(rig, {rig.b, Qpn{for_b}, QpType::rc}, right_mac, link, 1, 1);
  const std::array<std::byte, 8> data{};
  for (TestQp* qp : {&rig.a, &rig.b}) {
    qp->put(Wqe(Opcode::rdma_write).raddr(0, 1).inlined(data));
    qp->ring(rig.uar);
  }
  for (int i = 0; i < 2000; i++) rig.hca->run();
  EQUAL(wire->tries, 1);
  std::vector<int> fds;
  uint64_t deadline = 0;
  rig.hca->wait_set(fds, deadline);
  EQUAL(deadline, ~uint64_t{0});
  wire->room = 2;
  for (int i = 0; i < 10'000 && wire->went.size() < 2; i++) {
    rig.hca->run();
    ::usleep(10);
  }
  EQUAL(wire->tries, 3);
}

// Holds one frame until it is flushed. There is room right behind the first look that finds none,
// and its descriptor tells of that no more once the frame is gone.
class HoldingWire : public NarrowWire {
 public:
  HoldingWire() { knows = true; }
  Sent send(std::span<const std::byte> frame) noexcept override {
    if (held_ != 0 && !flush()) return Sent::busy;
    held_ = 1;
    return NarrowWire::send(frame);
  }
  bool flush() noexcept override {
    if (comes) held_ = 0;
    return held_ == 0;
  }
  [[nodiscard]] std::size_t held() const noexcept override { return held_; }
  bool has_room() noexcept override { return std::exchange(comes, true) && flush(); }

  bool comes = false;

 private:
  std::size_t held_ = 0;
};

// What waits goes on by itself: nobody would wake a thread that slept now.
void room_that_a_flush_finds_is_no_news_later() {
  auto* wire = new HoldingWire;
  wire->room = 100;
  LinkShape link;
  link.timeout = 0;
  Rig rig({.connect = false, .mac = left_mac, .own_wire = wire});
  WireRig::connect(rig, {rig.a, Qpn{for_a}, QpType::rc}, right_mac, link, 1, 1);
  const std::array<std::byte, 8> data{};
  for (int i = 0; i < 3; i++) rig.a.put(Wqe(Opcode::rdma_write).raddr(0, 1).inlined(data));
  rig.a.ring(rig.uar);
  for (int i = 0; i < 10'000 && !wire->comes; i++) {
    rig.hca->run();
    ::usleep(10);
  }
  CU_ASSERT_TRUE(wire->comes);
  EQUAL(wire->held(), 0);
  EQUAL(wire->went.size(), 1);
  std::vector<int> fds;
  uint64_t deadline = ~uint64_t{0};
  rig.hca->wait_set(fds, deadline);
  EQUAL(deadline, 0);
  rig.hca->run();
  EQUAL(wire->went.size(), 3);
}

// A rule of RDMA counts packets that leave, however often the wire was asked.
void what_waits_is_counted_when_it_leaves() {
  auto* wire = new NarrowWire;
  LinkShape link;
  link.timeout = 0;
  Rig rig({.connect = false, .mac = left_mac, .own_wire = wire});
  WireRig::connect(rig, {rig.a, Qpn{for_a}, QpType::rc}, right_mac, link, 1, 1);
  const Ruled ruled(rig, ethernet::TableType::rdma_tx, false);
  const std::array<std::byte, 8> data{};
  for (int i = 0; i < 2; i++) rig.a.put(Wqe(Opcode::rdma_write).raddr(0, 1).inlined(data));
  rig.a.ring(rig.uar);
  for (int i = 0; i < 10'000 && wire->tries < 3; i++) {
    rig.hca->run();
    ::usleep(50);
  }
  CU_ASSERT(wire->tries >= 3);
  EQUAL(ruled.seen.packets, 0);
  wire->room = 100;
  for (int i = 0; i < 10'000 && wire->went.size() < 2; i++) {
    rig.hca->run();
    ::usleep(50);
  }
  EQUAL(wire->went.size(), 2);
  EQUAL(ruled.seen.packets, 2);
}

const kilim::test::Case cases[] = {
    {"what waits is counted when it leaves", what_waits_is_counted_when_it_leaves},
    {"room that a flush finds is no news later", room_that_a_flush_finds_is_no_news_later},
    {"who is blocked tries no more", who_is_blocked_tries_no_more},
    {"who has sent goes behind those who have not", who_has_sent_goes_behind_those_who_have_not},
    {"who came first and has sent nothing stays first",
     who_came_first_and_has_sent_nothing_stays_first},
};

}  // namespace
}  // namespace full_wire_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(full_wire, kilim::vhca::test::full_wire_ut::cases)
