// SPDX-License-Identifier: BSD-3-Clause
// What no library writes: lengths that lie, memory that is not there, ids of others, events that
// nobody reads.
#include <random>
#include <vector>

#include "rdmacm_cases.hh"
#include "rdmacm_fixture.hh"

namespace kilim::vhca::test {
namespace hostile_ut {
namespace {

void lengths_that_lie_are_refused() {
  Channel c;
  rdma_ucm_cmd_hdr hdr{RDMA_USER_CM_CMD_CREATE_ID, 24, 4};
  EQUAL(c.raw(&hdr, 7), -EINVAL);
  EQUAL(c.raw(&hdr, sizeof(hdr)), -EINVAL);  // 24 bytes are said, none follow
  hdr.cmd = RDMA_USER_CM_CMD_JOIN_MCAST + 3;
  hdr.in = 0;
  EQUAL(c.raw(&hdr, sizeof(hdr)), -EINVAL);
  hdr.cmd = RDMA_USER_CM_CMD_JOIN_MCAST + 1;  // RESOLVE_IB_SERVICE
  EQUAL(c.raw(&hdr, sizeof(hdr)), -ENOSYS);
  hdr.cmd = RDMA_USER_CM_CMD_GET_OPTION;
  EQUAL(c.raw(&hdr, sizeof(hdr)), -ENOSYS);
  rdma_ucm_create_id_resp resp{};
  rdma_ucm_create_id cmd{7, reinterpret_cast<uint64_t>(&resp), RDMA_PS_TCP, 2, {}};
  EQUAL(c.send(RDMA_USER_CM_CMD_CREATE_ID, cmd, sizeof(resp) - 1), -ENOSPC);
  EQUAL(c.send(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{cmd.response}, 8), -ENOSPC);
  EQUAL(c.send(RDMA_USER_CM_CMD_CONNECT, rdma_ucm_connect{}, 0, 16), -EINVAL);
  // A whole command of which the last byte was not written.
  struct {
    rdma_ucm_cmd_hdr head;
    rdma_ucm_create_id body;
  } whole{{RDMA_USER_CM_CMD_CREATE_ID, sizeof(cmd), sizeof(resp)}, cmd};
  EQUAL(c.raw(&whole, sizeof(whole) - 1), -EINVAL);
  const uint32_t id = c.make();
  sockaddr_storage nowhere{};
  nowhere.ss_family = AF_UNIX;
  EQUAL(c.bind(id, nowhere), -EINVAL);
  const rdma_ucm_set_option much{0, id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, ~0u};
  EQUAL(c.send(RDMA_USER_CM_CMD_SET_OPTION, much), -EINVAL);
}

void memory_that_is_not_there_is_a_fault() {
  Channel c;
  void* gone = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto at = reinterpret_cast<uint64_t>(gone);
  EQUAL(c.raw(gone, 32), -EFAULT);
  EQUAL(c.raw(reinterpret_cast<const void*>(~uint64_t{15}), 32), -EFAULT);
  const uint32_t before = c.make();
  EQUAL(c.send(RDMA_USER_CM_CMD_CREATE_ID, rdma_ucm_create_id{7, at, RDMA_PS_TCP, 2, {}}, 4),
        -EFAULT);
  EQUAL(c.make(), before + 1);  // no id was left behind
  EQUAL(c.option(before, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, gone, 1), -EFAULT);
  // An event that could not be delivered is not lost.
  rdma_ucm_event_resp e{};
  EQUAL(c.resolve(before, ip("127.0.0.1", 7003)), 0);
  EQUAL(c.send(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{at}, sizeof(e)), -EFAULT);
  EQUAL(c.next(e), number(EventType::addr_resolved));
  ::munmap(gone, 4096);
}

void ids_of_others_are_not_for_us() {
  Channel a, b;
  const uint32_t id = a.make();
  EQUAL(b.bind(id, ip("127.0.0.1")), -EINVAL);
  EQUAL(b.destroy(id), -EINVAL);
  EQUAL(b.listen(12345), -ENOENT);
  EQUAL(a.destroy(id), 0);
  EQUAL(a.destroy(id), -ENOENT);
  // Commands that need an adapter, of an id that has none.
  const uint32_t loose = a.make();
  EQUAL(a.route(loose), -EINVAL);
  EQUAL(a.connect(loose), -EINVAL);
  EQUAL(a.accept(loose, 1), -EINVAL);
  EQUAL(a.send(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{loose}), -EINVAL);
  EQUAL(a.send(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{loose, 4}), -EINVAL);
  EQUAL(a.bind(loose, ip("127.0.0.1")), 0);
  EQUAL(a.send(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{loose}), -EINVAL);
}

void events_in_masses_wait_and_go_with_the_file() {
  constexpr int masses = 2000;
  Channel c;
  rdma_ucm_event_resp e{};
  for (int i = 0; i < masses; i++) EQUAL_FATAL(c.resolve(c.make(), ip("127.0.0.1", 7003)), 0);
  int read = 0;
  while (read < masses / 2 && c.event(e) == 0) read++;
  EQUAL(read, masses / 2);
  CU_ASSERT(c.readable());
  c.file.reset();
  Channel next;
  EQUAL(next.make(), 0);  // all are gone
}

void any_bytes_are_answered() {
  std::mt19937 rng(4711);
  Channel c;
  std::vector<uint8_t> bytes(512);
  const auto room = reinterpret_cast<uint64_t>(
      ::mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (int i = 0; i < 20'000; i++) {
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng() % 4 == 0 ? rng() : 0);
    const rdma_ucm_cmd_hdr hdr{static_cast<__u32>(rng() % 27), static_cast<__u16>(rng() % 400),
                               static_cast<__u16>(rng() % 400)};
    std::memcpy(bytes.data(), &hdr, sizeof(hdr));
    if (rng() % 2 == 0) std::memcpy(bytes.data() + sizeof(hdr), &room, sizeof(room));
    if (hdr.cmd == RDMA_USER_CM_CMD_CREATE_ID && i % 2 == 0) {
      const uint16_t space = RDMA_PS_UDP;
      std::memcpy(bytes.data() + sizeof(hdr) + 16, &space, sizeof(space));
    }
    (void)c.raw(bytes.data(), sizeof(hdr) + hdr.in, c.file.get());
    if (i % 256 == 0) turns(4);
  }
  CU_ASSERT(c.make() < 0x10000);
}

constexpr kilim::test::Case cases[] = {
    {"lengths that lie are refused", lengths_that_lie_are_refused},
    {"memory that is not there is a fault", memory_that_is_not_there_is_a_fault},
    {"ids of others are not for us", ids_of_others_are_not_for_us},
    {"events in masses wait, and go with the file", events_in_masses_wait_and_go_with_the_file},
    {"any bytes are answered", any_bytes_are_answered},
};

}  // namespace
}  // namespace hostile_ut

std::span<const kilim::test::Case> hostile_rdmacm_cases() {
  return hostile_ut::cases;
}

}  // namespace kilim::vhca::test
