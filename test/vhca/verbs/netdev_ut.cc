// SPDX-License-Identifier: BSD-3-Clause
// A port with a network interface of the kernel's beside it, in a network namespace of the test's:
// which frames rules get, which the interface does, and which it does not see; what its kernel
// sends; what the port makes of its link and MTU. Needs root.
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include <unistd.h>

#include "netns.hh"
#include "raw_fixture.hh"

namespace netdev_ut {
namespace {

using namespace kilim::test;

using Mac = std::array<uint8_t, 6>;
constexpr Mac foreign{0x02, 0, 0, 0, 0, 0x99}, everyone{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
    group{0x01, 0, 0x5e, 1, 2, 3}, own{0x02, 0x4b, 0, 0, 0, 7};
constexpr const char* tap = "kbtap";

kilim::DeviceSpec spec_of(const char* name, const char* wire, const char* netdev) {
  kilim::DeviceSpec spec;
  spec.name = name;
  if (*wire != '\0') spec.wires = {wire};
  spec.netdev = netdev;
  return spec;
}

// Frames that the interface has got.
uint64_t taken_by_kernel() {
  std::ifstream list("/proc/thread-self/net/dev");
  for (std::string line; std::getline(list, line);) {
    uint64_t bytes = 0, frames = 0;
    const std::size_t at = line.find(std::string(tap) + ":");
    if (at == std::string::npos) continue;
    if (std::sscanf(line.c_str() + at + std::string(tap).size() + 1, "%lu %lu", &bytes, &frames) ==
        2)
      return frames;
  }
  return ~uint64_t{0};
}

// `right` has the interface.
struct Bench {
  Bench() : left(devices()[0], "near0"), right(devices()[1], "far0") {}
  static Attached** devices() {
    static Attached* both[2]{};
    if (both[0] != nullptr) return both;
    auto spec = spec_of("far0", "cable:beside", tap);
    spec.mac = "02:4b:00:00:00:07";
    both[0] = attach_wired("near0", "cable:beside");
    auto attached = kilim::vhca::entry::attach(spec);
    if (!attached) std::printf("attach: %s\n", attached.error().what);
    CU_ASSERT_TRUE_FATAL(attached.ok());
    both[1] = *attached;
    return both;
  }
  void run() {
    for (int i = 0; i < 20; i++) {
      left.attached->poll();
      right.attached->poll();
    }
  }
  // A change of the interface, which the device has seen afterwards.
  void change(const std::string& words) {
    CU_ASSERT_TRUE_FATAL(command("ip " + words));
    usleep(12'000);
    run();
  }
  // Who got a frame to this address: 'q' the queue, 'k' the kernel, 'b' both, '-' nobody.
  char who(const Mac& to, uint32_t bytes = 60) {
    const uint64_t before = taken_by_kernel();
    if (!std::exchange(waits, true)) right.receive(0);
    left.send(to.data(), bytes);
    run();
    ibv_wc wc{};
    EQUAL(ibv_poll_cq(left.cq, 1, &wc), 1);
    const bool queue = ibv_poll_cq(right.cq, 1, &wc) == 1;
    waits = !queue;
    const bool kernel = taken_by_kernel() == before + 1;
    return queue ? kernel ? 'b' : 'q' : kernel ? 'k' : '-';
  }
  ibv_flow* all() {
    constexpr uint8_t none[6]{};
    return right.flow(IBV_FLOW_ATTR_NORMAL, none, none);
  }
  bool waits = false;  // a receive request, for the next frame
  Port left, right;
};

// The order of mlx5_core's namespaces: the kernel's own stands in front of leftovers.
void a_default_rule_gets_what_the_interface_leaves() {
  Bench b;
  ibv_flow* rest = b.right.flow(IBV_FLOW_ATTR_ALL_DEFAULT);
  CU_ASSERT_PTR_NOT_NULL_FATAL(rest);
  EQUAL(b.who(own), 'k');
  EQUAL(b.who(everyone), 'k');
  EQUAL(b.who(foreign), 'q');
  EQUAL(b.who(group), 'q');
  b.change("maddr add 01:00:5e:01:02:03 dev kbtap");
  EQUAL(b.who(group), 'k');
  b.change("maddr del 01:00:5e:01:02:03 dev kbtap");
  EQUAL(b.who(group), 'q');
  b.change("link set kbtap allmulticast on");
  EQUAL(b.who(group), 'k');
  EQUAL(b.who(foreign), 'q');
  b.change("link set kbtap allmulticast off promisc on");
  EQUAL(b.who(foreign), 'k');
  EQUAL(b.who(group), 'k');
  EQUAL(b.who(own), 'k');
  b.change("link set kbtap promisc off");
  EQUAL(b.who(foreign), 'q');
  ibv_destroy_flow(rest);
  EQUAL(b.who(foreign), '-');
  EQUAL(b.who(own), 'k');
}

void other_rules_stand_in_front_of_the_interface() {
  Bench b;
  ibv_flow* mine = b.right.flow(IBV_FLOW_ATTR_NORMAL, own.data(), everyone.data());
  CU_ASSERT_PTR_NOT_NULL_FATAL(mine);
  EQUAL(b.who(own), 'q');
  EQUAL(b.who(everyone), 'k');
  EQUAL(b.who(foreign), '-');
  ibv_flow* all = b.all();
  CU_ASSERT_PTR_NOT_NULL_FATAL(all);
  b.change("link set kbtap promisc on");
  for (const Mac& to : {own, everyone, foreign, group}) EQUAL(b.who(to), 'q');
  b.change("link set kbtap promisc off");
  ibv_destroy_flow(all);
  ibv_destroy_flow(mine);
  // A sniffer takes nothing from anybody.
  ibv_flow* sniffer = b.right.flow(IBV_FLOW_ATTR_SNIFFER);
  CU_ASSERT_PTR_NOT_NULL_FATAL(sniffer);
  EQUAL(b.who(own), 'b');
  EQUAL(b.who(foreign), 'q');
  ibv_destroy_flow(sniffer);
}

// Asks who has 198.18.7.1, with which `ping` begins.
bool kernel_answers(Bench& b) {
  for (uint32_t i = 0; i < 8; i++) b.left.receive(8 + i);
  uint8_t* f = b.left.memory.data();
  std::memset(f, 0, 60);
  std::memcpy(f, everyone.data(), 6);
  const uint8_t rest[]{2, 0, 0, 0, 0,   1,  8, 6, 0, 1, 8, 0, 6, 4, 0,   1,  2, 0,
                       0, 0, 0, 1, 198, 18, 7, 9, 0, 0, 0, 0, 0, 0, 198, 18, 7, 1};
  std::memcpy(f + 6, rest, sizeof rest);
  ibv_sge sge = b.left.memory.sge(0, 60);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_SEND;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  EQUAL(ibv_post_send(b.left.qp, &wr, &bad), 0);
  for (int i = 0; i < 50; i++) {
    b.run();
    usleep(1000);
    ibv_wc wc{};
    while (ibv_poll_cq(b.left.cq, 1, &wc) == 1) {
      const uint8_t* at = b.left.memory.data() + wc.wr_id * Port::frame;
      const bool reply = at[12] == 8 && at[13] == 6 && at[21] == 2;
      if (wc.opcode == IBV_WC_RECV && reply && std::memcmp(at + 6, own.data(), 6) == 0) return true;
    }
  }
  return false;
}

void the_kernel_answers_where_no_rule_is_in_front() {
  Bench b;
  constexpr uint8_t none[6]{};
  ibv_flow* back = b.left.flow(IBV_FLOW_ATTR_NORMAL, none, none);
  CU_ASSERT_PTR_NOT_NULL_FATAL(back);
  CU_ASSERT_TRUE(kernel_answers(b));
  ibv_flow* all = b.all();
  CU_ASSERT_FALSE(kernel_answers(b));
  ibv_destroy_flow(all);
  CU_ASSERT_TRUE(kernel_answers(b));
  ibv_destroy_flow(back);
}

ibv_port_attr port_of(const Bench& b) {
  ibv_port_attr a{};
  EQUAL(ibv_query_port(b.right.c, 1, &a), 0);
  return a;
}

ibv_event_type next_event(const Bench& b) {
  ibv_async_event e{};
  EQUAL_FATAL(ibv_get_async_event(b.right.c, &e), 0);
  EQUAL(e.element.port_num, 1);
  ibv_ack_async_event(&e);
  return e.event_type;
}

void the_port_follows_the_interface() {
  Bench b;
  ibv_flow* all = b.all();
  EQUAL(port_of(b).active_mtu, IBV_MTU_1024);
  EQUAL(b.who(own, 1200), 'q');
  EQUAL(port_of(b).state, IBV_PORT_ACTIVE);
  b.change("link set kbtap mtu 1000");
  EQUAL(port_of(b).active_mtu, IBV_MTU_512);
  EQUAL(b.who(own, 1000), 'q');
  EQUAL(b.who(own, 1200), '-');
  b.change("link set kbtap mtu 1500");
  EQUAL(b.who(own, 1200), 'q');
  b.change("link set kbtap down");
  EQUAL(next_event(b), IBV_EVENT_PORT_ERR);
  EQUAL(port_of(b).state, IBV_PORT_DOWN);
  EQUAL(b.who(own), '-');
  b.change("link set kbtap up");
  EQUAL(next_event(b), IBV_EVENT_PORT_ACTIVE);
  EQUAL(port_of(b).state, IBV_PORT_ACTIVE);
  EQUAL(b.who(own), 'q');
  ibv_destroy_flow(all);
}

void what_cannot_be_is_refused() {
  (void)Bench::devices();
  EQUAL(kilim::vhca::entry::attach(spec_of("other0", "cable:besides", tap)).error().code, EBUSY);
  EQUAL(kilim::vhca::entry::attach(spec_of("other1", "", "kbtap3")).error().code, EINVAL);
  EQUAL(kilim::vhca::entry::attach(spec_of("other2", "tap:kbtap4", "kbtap5")).error().code, EINVAL);
  // The names are free again.
  CU_ASSERT_TRUE(kilim::vhca::entry::attach(spec_of("other0", "cable:besides", "kbtap2")).ok());
}

constexpr Case cases[] = {
    {"a default rule gets what the interface leaves",
     a_default_rule_gets_what_the_interface_leaves},
    {"other rules stand in front of the interface", other_rules_stand_in_front_of_the_interface},
    {"the kernel answers where no rule is in front", the_kernel_answers_where_no_rule_is_in_front},
    {"link and MTU of the port follow the interface", the_port_follows_the_interface},
    {"an interface that cannot be is refused", what_cannot_be_is_refused},
};

}  // namespace
}  // namespace netdev_ut

KILIM_TEST_MAIN(netdev) {
  if (unshare(CLONE_NEWNET) != 0) {
    std::printf("needs the right to make a network namespace\n");
    return kilim::test::skipped;
  }
  (void)kilim::test::command(
      "for i in all default; do echo 1 > /proc/sys/net/ipv6/conf/$i/disable_ipv6; done");
  if (!kilim::test::command("ip tuntap add dev kbtap mode tap") ||
      !kilim::test::command("ip link set kbtap up") ||
      !kilim::test::command("ip addr add 198.18.7.1/24 dev kbtap")) {
    std::printf("needs /dev/net/tun and the program ip\n");
    return kilim::test::skipped;
  }
  return kilim::test::run_cases("netdev", netdev_ut::cases, argc, argv);
}
