// SPDX-License-Identifier: BSD-3-Clause
// Queries of firmware commands' objects whose answers come in a file, and flow counters that were
// made in bulks, which DPDK and rdma-core read so.
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <unistd.h>

#include "qp_command_fixture.hh"
#include "ut.hh"

namespace async_query_ut {
namespace {

using namespace kilim::test;
using kilim::be64;
namespace prm = kilim::prm;
namespace f = kilim::prm::flow_counter;

int make_answers(Client& c) {
  Ioctl io(MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD, MLX5_IB_METHOD_DEVX_ASYNC_CMD_FD_ALLOC);
  EQUAL_FATAL(io.handle(MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE).run(*c.file), 0);
  return static_cast<int>(io.attr(0).data);
}

int ask_async(Client& c, const Command& k, uint32_t handle, uint64_t fd, uint64_t wr_id,
              uint64_t out_bytes) {
  return Ioctl(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_ASYNC_QUERY)
      .handle(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_HANDLE, handle)
      .raw(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_CMD_IN, static_cast<uint16_t>(k.in.size()),
           reinterpret_cast<uintptr_t>(k.in.data()))
      .raw(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_FD, 0, fd)
      .in(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_WR_ID, wr_id)
      .in(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_OUT_LEN, out_bytes)
      .run(*c.file);
}

// One answer a read, however much room there is.
struct Answer {
  uint64_t wr_id = 0;
  std::vector<std::byte> bytes;
};
Answer read_answer(int fd) {
  std::vector<std::byte> room(1u << 17);
  const ssize_t n = ::read(fd, room.data(), room.size());
  Answer a;
  if (n < static_cast<ssize_t>(sizeof a.wr_id)) return a;
  std::memcpy(&a.wr_id, room.data(), sizeof a.wr_id);
  a.bytes.assign(room.begin() + sizeof a.wr_id, room.begin() + n);
  return a;
}

void answers_come_in_a_file() {
  Bench b;
  Command qp = b.qp();
  EQUAL_FATAL(qp.make(b.c), 0);
  const int fd = make_answers(b.c);
  pollfd wait{fd, POLLIN, 0};
  EQUAL(::poll(&wait, 1, 0), 0);
  Command ask(cmd::query_qp, 16);
  ask.number(qp.made());
  EQUAL(ask_async(b.c, ask, qp.handle, static_cast<uint64_t>(fd), 100, 272), 0);
  EQUAL(ask_async(b.c, ask, qp.handle, static_cast<uint64_t>(fd), 101, 60000), 0);
  EQUAL(::poll(&wait, 1, 0), 1);
  for (const uint32_t i : {0u, 1u}) {
    const Answer a = read_answer(fd);
    EQUAL(a.wr_id, 100 + i);
    EQUAL_FATAL(a.bytes.size(), i == 0 ? 272 : 60000);
    EQUAL(a.bytes[0], std::byte{0});
    EQUAL(prm::cap_get(std::span(a.bytes).subspan(context), q::user_index), 0x123);
  }
  // What the firmware refuses is an answer, too: there is no room for a context.
  EQUAL(ask_async(b.c, ask, qp.handle, static_cast<uint64_t>(fd), 102, 16), 0);
  const Answer refused = read_answer(fd);
  EQUAL(refused.wr_id, 102);
  EQUAL_FATAL(refused.bytes.size(), 16);
  EQUAL(refused.bytes[0], std::byte{0x51});
  ::close(fd);
}

void questions_that_lie() {
  Bench b;
  Command qp = b.qp();
  EQUAL_FATAL(qp.make(b.c), 0);
  const int fd = make_answers(b.c);
  const auto file = static_cast<uint64_t>(fd);
  Command ask(cmd::query_qp, 16), another(cmd::query_cq, 16), change(cmd::qp_2err, 16);
  ask.number(qp.made());
  another.number(b.cq.made());
  change.number(qp.made());
  EQUAL(ask_async(b.c, another, qp.handle, file, 1, 272), -EINVAL);
  EQUAL(ask_async(b.c, change, qp.handle, file, 1, 272), -EINVAL);
  EQUAL(ask_async(b.c, ask, qp.handle, 0, 1, 272), -EBADF);
  EQUAL(ask_async(b.c, ask, qp.handle, ~uint64_t{0}, 1, 272), -EBADF);
  EQUAL(ask_async(b.c, ask, qp.handle, file, 1, 15), -EINVAL);
  EQUAL(ask_async(b.c, ask, qp.handle, file, 1, 1u << 16), -EINVAL);
  // Nobody reads: at some time there is no more room, and nothing waits for it.
  int rc = 0;
  for (int i = 0; i < 100 && rc == 0; i++) rc = ask_async(b.c, ask, qp.handle, file, 1, 60000);
  EQUAL(rc, -EAGAIN);
  ::close(fd);
  EQUAL(ask_async(b.c, ask, qp.handle, file, 1, 272), -EBADF);
}

// Files that their client has closed are not kept.
void closed_files_are_forgotten() {
  Bench b;
  for (int i = 0; i < 2000; i++) ::close(make_answers(b.c));
  const int fd = make_answers(b.c);
  CU_ASSERT(fd < 100);
  ::close(fd);
}

Command bulk_command(uint32_t bits) {
  Command k(cmd::alloc_flow_counter, 16);
  return k.set(0, f::bulk, bits);
}

uint64_t packets_of(const Command& ask, std::size_t i) {
  be64 v;
  std::memcpy(&v, ask.out.data() + f::packets + i * f::statistics_bytes, sizeof v);
  return v.host();
}

void counters_come_in_bulks() {
  Client c;
  Command bulk = bulk_command(1), more = bulk_command(2), single = bulk_command(0);
  EQUAL_FATAL(bulk.make(c) | more.make(c) | single.make(c), 0);
  CU_ASSERT(more.made() - bulk.made() >= 128);
  for (uint32_t i = 0; i < 128; i++) {
    kilim::vhca::FlowCount* count = c.hca->flow_counters.at(bulk.made() + i);
    CU_ASSERT_FATAL(count != nullptr);
    count->packets = 1000 + i;
  }
  Command ask(cmd::query_flow_counter, f::command_bytes);
  ask.out.resize(16 + 128 * f::statistics_bytes);
  ask.set32(f::number, bulk.made()).set(0, f::num_of_counters, 128);
  EQUAL(ask.ask(c, bulk.handle), 0);
  for (const std::size_t i : {0u, 1u, 127u}) EQUAL(packets_of(ask, i), 1000 + i);
  // Some of them, and cleared; never more than there are, or than there is room for.
  ask.set32(f::number, bulk.made() + 100).set(0, f::num_of_counters, 28).set(0, f::clear, 1);
  EQUAL(ask.ask(c, bulk.handle), 0);
  EQUAL(packets_of(ask, 27), 1127);
  EQUAL(ask.ask(c, bulk.handle), 0);
  EQUAL(packets_of(ask, 27), 0);
  EQUAL(ask.set(0, f::num_of_counters, 29).ask(c, bulk.handle), -EREMOTEIO);
  EQUAL(ask.set(0, f::num_of_counters, (1u << 30) - 1).ask(c, bulk.handle), -EREMOTEIO);
  ask.out.resize(16 + 28 * f::statistics_bytes - 1);
  EQUAL(ask.set(0, f::num_of_counters, 28).ask(c, bulk.handle), -EREMOTEIO);
  EQUAL(ask.out[0], 0x51);
  EQUAL(ask.set32(f::number, bulk.made() + 128).ask(c, bulk.handle), -EINVAL);
  EQUAL(ask.set32(f::number, more.made()).ask(c, bulk.handle), -EINVAL);
  EQUAL(end(c, bulk.handle) | end(c, more.handle) | end(c, single.handle), 0);
  EQUAL(c.hca->flow_counters.count(), 0);
}

void bulks_that_there_are_not() {
  Client c;
  EQUAL(bulk_command(3).make(c), -EREMOTEIO);
  Command log(cmd::alloc_flow_counter, 16);
  EQUAL(Command(log).set(0, f::bulk_log_size, 16).make(c), -EREMOTEIO);
  Command large = log.set(0, f::bulk_log_size, 15);
  EQUAL(large.make(c), 0);
  CU_ASSERT(c.hca->flow_counters.at(large.made() + (1u << 15) - 1) != nullptr);
  CU_ASSERT(c.hca->flow_counters.at(large.made() + (1u << 15)) == nullptr);
  // A client that takes all there are gets a refusal, and all comes back.
  std::vector<Command> all;
  int rc = 0;
  while (rc == 0 && all.size() < 100) {
    all.push_back(log);
    rc = all.back().make(c);
  }
  EQUAL(rc, -EREMOTEIO);
  EQUAL(all.back().out[0], 0x0f);
  EQUAL(end(c, large.handle), 0);
  EQUAL(log.make(c), 0);
  EQUAL(log.made(), large.made());
  c.file.reset();
  EQUAL(c.hca->flow_counters.count(), 0);
}

constexpr Case cases[] = {
    {"answers come in a file", answers_come_in_a_file},
    {"questions that lie", questions_that_lie},
    {"closed files are forgotten", closed_files_are_forgotten},
    {"counters come in bulks", counters_come_in_bulks},
    {"bulks that there are not", bulks_that_there_are_not},
};

}  // namespace
}  // namespace async_query_ut

KILIM_TEST_SUITE(async_query, async_query_ut::cases)
