// SPDX-License-Identifier: BSD-3-Clause
// Inline receive of Kilim's own queues on a virtual device: every length, each kind of queue and of
// setting, answers, errors, and many messages over a pool, all compared.
#include <cerrno>

#include "case_tables.hh"
#include "inline_fixture.hh"

namespace inline_recv_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
using device::InlineReceive;
using device::RecvMemory;
using device::Transport;

// Lengths 1 to 65, several times round the queues.
void lengths(const InlineShape& shape) {
  InlineLoop loop{dev(), shape};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  const uint32_t most = shape.cqe_bytes == 128 ? 64 : 32;
  EQUAL(loop.qp->inlined.received, most);
  for (uint32_t bytes = 1; bytes <= 65; bytes++)
    CU_ASSERT_TRUE_FATAL(loop.message(bytes, bytes, bytes <= most));
  EQUAL(loop.inlined.messages.read(), most);
  EQUAL(loop.inlined.bytes.read(), most * (most + 1) / 2);
}

void reliable() {
  lengths({});
  lengths({.cqe_bytes = 128});
}
void unreliable() {
  lengths({.transport = Transport::uc});
  lengths({.transport = Transport::uc, .cqe_bytes = 128});
}
void shared_queue() {
  lengths({.shared = true});
  lengths({.cqe_bytes = 128, .shared = true});
}
// mlx5_ib serves it as a reliable one; what finds no receive posted is lost and no error.
void unreliable_shared_queue() {
  lengths({.transport = Transport::uc, .shared = true});
  lengths({.transport = Transport::uc, .cqe_bytes = 128, .shared = true});
  InlineLoop loop{dev(), {.transport = Transport::uc, .shared = true}};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  CU_ASSERT_TRUE_FATAL(loop.send(1, 8));
  const auto lost = loop.sent();
  CU_ASSERT_TRUE_FATAL(lost.has_value());
  CU_ASSERT_TRUE(lost->completion.ok());
  CU_ASSERT_TRUE(loop.message(2, 8, true));
  CU_ASSERT_TRUE(loop.message(3, 40, false));
}

// Whether messages of 8 bytes come in their entries.
void check_setting(const InlineShape& shape, bool in_entry) {
  InlineLoop loop{dev(), shape};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  EQUAL(loop.qp->inlined.received != 0, in_entry);
  for (uint32_t i = 0; i < 3; i++) CU_ASSERT_TRUE(loop.message(i, 8, in_entry));
}

void settings() {
  for (Transport t : {Transport::rc, Transport::uc}) {
    for (const char* value : {"", "1", "0"}) {
      if (value[0] != '\0') setenv("MLX5_SCATTER_TO_CQE", value, 1);
      check_setting({.transport = t}, value[0] != '0');
      check_setting({.transport = t, .wish = InlineReceive::on}, true);
      check_setting({.transport = t, .wish = InlineReceive::off}, false);
    }
    unsetenv("MLX5_SCATTER_TO_CQE");
  }
}

void other_buffers() {
  check_setting({.memory = RecvMemory::zero_based}, false);
  check_setting({.memory = RecvMemory::device}, false);
  InlineLoop loop{dev(), {}};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  device::RcRequest request;
  request.queues = {.send_cq = loop.scq->handle, .recv_cq = loop.rcq->handle, .recv_wrs = 4};
  request.queues.inline_receive = InlineReceive::on;
  request.queues.recv_memory = RecvMemory::zero_based;
  EQUAL(dev().create_rc(request).error().code, EINVAL);
  EQUAL(dev().create_uc({.queues = request.queues}).error().code, EINVAL);
  request.queues.recv_memory = RecvMemory::addressed;
  EQUAL(dev().create_raw_packet(request.queues, 1).error().code, EOPNOTSUPP);
  request.queues.inline_receive = InlineReceive::by_default;
  const auto packets = device::create_raw_packet(dev(), request.queues, 1);
  CU_ASSERT_TRUE_FATAL(packets.ok());
  EQUAL((*packets)->inlined.received, 0);
}

void adapter_without() {
  VirtualDevice v{config("inline1", "no-inline")};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  CU_ASSERT_FALSE(v.device->caps().inline_receive);
  InlineLoop loop{*v.device, {}};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  CU_ASSERT_TRUE(loop.message(1, 8, false));
  CU_ASSERT_FALSE((InlineLoop{*v.device, {.wish = InlineReceive::on}}.ok()));
}

void wrong_requests() {
  EQUAL(dev().create_cq({.entries = 8, .cqe_bytes = 256}).error().code, EINVAL);
  EQUAL(dev().create_srq({}).error().code, EINVAL);
  EQUAL(dev().destroy_srq(device::SrqHandle{9999}).error().code, EINVAL);
  InlineLoop loop{dev(), {.shared = true}};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  EQUAL(dev().destroy_srq(loop.shared->handle).error().code, EBUSY);
  device::QpRequest queues{.send_cq = loop.scq->handle, .recv_cq = loop.rcq->handle};
  queues.srq = device::SrqHandle{9999};
  EQUAL(dev().create_uc({.queues = queues}).error().code, EINVAL);
  queues.srq = loop.shared->handle;
  queues.recv_wrs = 4;
  EQUAL(dev().create_rc({.queues = queues}).error().code, EINVAL);
  queues = {.send_cq = loop.scq->handle, .recv_cq = loop.rcq->handle};
  EQUAL(dev().create_uc({.queues = queues, .access = mr::Access::remote_read}).error().code,
        EINVAL);
}

// READs of `bytes` into slot 0 from source 1, the first signalled, the second not.
void check_answers(const InlineShape& shape, uint32_t bytes, bool in_entry) {
  InlineLoop loop{dev(), shape};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  for (uint32_t i = 0; i < bytes; i++) loop.source(1)[i] = test::letter(1, i);
  queue::WqeCursor c{*loop.sq};
  const queue::Remote from = loop.remote(loop.source(1));
  CU_ASSERT_TRUE(queue::rdma_read(c, from, loop.sge(loop.slot(0), bytes), {}));
  CU_ASSERT_TRUE(queue::rdma_read(c, from, loop.sge(loop.slot(2), bytes),
                                  {.id = 7, .flags = queue::WrFlags::signalled}));
  c.commit();
  const auto seen = loop.sent();
  CU_ASSERT_TRUE_FATAL(seen.has_value());
  CU_ASSERT_TRUE(seen->completion.ok() && seen->completion.wr_id == 7);
  EQUAL(seen->bytes, in_entry ? bytes : 0);
  EQUAL(std::memcmp(loop.slot(0), loop.source(1), bytes), 0);
  const std::byte* data = in_entry ? seen->data.data() : loop.slot(2);
  EQUAL(std::memcmp(data, loop.source(1), bytes), 0);
  EQUAL(loop.slot(2)[0] == InlineLoop::untouched, in_entry);
  EQUAL(loop.sent_inlined.messages.read(), in_entry ? 1 : 0);
}

void reads() {
  check_answers({}, 8, false);  // not every request has an entry
  check_answers({.signal_all = true}, 32, true);
  check_answers({.wish = InlineReceive::on}, 32, true);
  check_answers({.wish = InlineReceive::on}, 33, false);
  check_answers({.cqe_bytes = 128, .wish = InlineReceive::on}, 64, true);
  check_answers({.cqe_bytes = 128, .wish = InlineReceive::on}, 65, false);
  check_answers({.wish = InlineReceive::off, .signal_all = true}, 32, false);
}

// Adds, or swaps; the old value comes into the entry or into memory.
void one_atomic(InlineLoop& loop, const queue::Atomic& add, bool adds, bool in_entry,
                uint64_t expected) {
  queue::WqeCursor c{*loop.sq};
  CU_ASSERT_TRUE(adds ? queue::fetch_and_add(c, add, {.flags = 8})
                      : queue::compare_and_swap(c, add, {.flags = 8}));
  c.commit();
  const auto seen = loop.sent();
  CU_ASSERT_TRUE_FATAL(seen.has_value());
  CU_ASSERT_TRUE(seen->completion.ok() && seen->completion.byte_len == 8);
  EQUAL(seen->bytes, in_entry ? 8 : 0);
  uint64_t old = 0;
  std::memcpy(&old, in_entry ? seen->data.data() : loop.slot(0), 8);
  EQUAL(old, expected);
}

void atomics() {
  for (bool in_entry : {true, false}) {
    InlineLoop loop{dev(), {.wish = in_entry ? InlineReceive::on : InlineReceive::off}};
    CU_ASSERT_TRUE_FATAL(loop.ok());
    uint64_t value = 0x1122334455667788;
    std::memcpy(loop.source(0), &value, 8);
    const queue::Atomic add{.target = loop.remote(loop.source(0)),
                            .result_address = reinterpret_cast<uint64_t>(loop.slot(0)),
                            .result_key = loop.mr->region().lkey,
                            .swap_or_add = 5,
                            .compare = value + 5};
    for (uint64_t expected : {value, value + 5}) {
      one_atomic(loop, add, expected == value, in_entry, expected);
    }
    std::memcpy(&value, loop.source(0), 8);
    EQUAL(value, 5);
  }
}

// To RESET and back, everything posted forgotten.
void recover(InlineLoop& loop) {
  CU_ASSERT_TRUE(loop.device.reset(loop.qp->handle).ok());
  loop.sq->reset();
  if (loop.rq) loop.rq->reset([](uint64_t) {});
  loop.recv_cq->restore_record();
  loop.send_cq->restore_record();
}

void the_receive_that_waits_takes_it(InlineLoop& loop) {
  CU_ASSERT_TRUE(loop.send(3, 5));
  const auto r = loop.received();
  CU_ASSERT_TRUE_FATAL(r.has_value());
  EQUAL(r->bytes, 5);
  EQUAL(loop.retire(r->completion.wqe_counter), 2);
  CU_ASSERT_TRUE(loop.sent().has_value());
}

void check_errors(const InlineShape& shape) {
  InlineLoop loop{dev(), shape};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  CU_ASSERT_TRUE(loop.message(0, 20, true));
  // Of 20 bytes, which an entry would carry, into 10.
  CU_ASSERT_TRUE(loop.post(1, 10));
  CU_ASSERT_TRUE(loop.post(2));
  CU_ASSERT_TRUE(loop.send(1, 20));
  auto r = loop.received();
  CU_ASSERT_TRUE_FATAL(r.has_value());
  EQUAL(r->completion.syndrome, prm::Syndrome::local_length);
  EQUAL(r->bytes, 0);
  EQUAL(loop.retire(r->completion.wqe_counter), 1);
  const auto s = loop.sent();
  CU_ASSERT_TRUE_FATAL(s.has_value());
  EQUAL(s->completion.syndrome, prm::Syndrome::remote_inval_req);
  if (!shape.shared) {
    r = loop.received();
    CU_ASSERT_TRUE_FATAL(r.has_value());
    EQUAL(r->completion.syndrome, prm::Syndrome::wr_flush);
    EQUAL(r->bytes, 0);
    EQUAL(loop.retire(r->completion.wqe_counter), 2);
  }
  for (uint32_t i = 0; i < InlineLoop::slot_bytes; i++)
    EQUAL_FATAL(loop.slot(1)[i], InlineLoop::untouched);
  recover(loop);
  if (shape.shared) the_receive_that_waits_takes_it(loop);
  for (uint32_t i = 4; i < 40; i++) CU_ASSERT_TRUE_FATAL(loop.message(i, 1 + i % 32, true));
}

void errors() {
  check_errors({});
  check_errors({.shared = true});
  check_errors({.cqe_bytes = 128});
}

void protection() {
  InlineLoop loop{dev(), {}};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  queue::Sge into = loop.sge(loop.slot(0), 64);
  into.key = Lkey{into.key.value() ^ 0xff};
  CU_ASSERT_TRUE(loop.rq->post(into, 0));
  loop.rq->ring();
  CU_ASSERT_TRUE(loop.send(0, 16));
  const auto r = loop.received();
  CU_ASSERT_TRUE_FATAL(r.has_value());
  EQUAL(r->completion.syndrome, prm::Syndrome::local_prot);
  EQUAL(r->bytes, 0);
  CU_ASSERT_TRUE(loop.sent().has_value());
  recover(loop);
  CU_ASSERT_TRUE(loop.message(1, 16, true));
}

const kilim::test::Case cases[] = {
    {"messages of 1 to 65 bytes on a reliable connection", reliable},
    {"messages of 1 to 65 bytes on an unreliable connection", unreliable},
    {"messages of 1 to 65 bytes through a shared receive queue", shared_queue},
    {"an unreliable connection takes from a shared receive queue too", unreliable_shared_queue},
    {"the queue's setting stands over the environment, that over the default", settings},
    {"buffers that no address leads to are refused, or filled as posted", other_buffers},
    {"an adapter without inline receive fills the buffers", adapter_without},
    {"queues that cannot be made are refused", wrong_requests},
    {"answers of READs follow the signalling rule", reads},
    {"answers of atomics are the same in an entry and in memory", atomics},
    {"length errors and flushes carry nothing, and it goes on", errors},
    {"the posted buffer's key is checked all the same", protection},
};

}  // namespace
}  // namespace inline_recv_ut

KILIM_TEST_MAIN(inline_recv) {
  return kilim::test::run_tables("mlx5/inline_recv",
                                 {inline_recv_ut::cases, kilim::test::inline_recv_many_cases()},
                                 argc, argv);
}
