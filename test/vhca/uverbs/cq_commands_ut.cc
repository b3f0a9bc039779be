// SPDX-License-Identifier: BSD-3-Clause
// Completion queues by firmware commands: doorbell records that the adapter may only read,
// collapsed queues, and what the event of a queue in error says.
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <unistd.h>

#include "kilim/prm/cqe.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "qp_command_fixture.hh"
#include "ut.hh"

namespace cq_commands_ut {
namespace {

using namespace kilim::test;
using kilim::be16;
using kilim::be32;
using kilim::be64;
namespace prm = kilim::prm;

constexpr uint32_t places = 16;

// A completion queue of its own, whose ring and record lie in two memories.
struct QueueBench : Bench {
  Memory ring, record;
  Command made{cmd::create_cq};

  explicit QueueBench(uint32_t record_access = IB_UVERBS_ACCESS_LOCAL_WRITE,
                      uint32_t ring_access = IB_UVERBS_ACCESS_LOCAL_WRITE) {
    std::memset(ring.bytes.data(), 0xff, ring.bytes.size());  // as NVSHMEM and rocSHMEM begin
    EQUAL_FATAL(ring.enter(c, 4096, ring_access), 0);
    EQUAL_FATAL(record.enter(c, 4096, record_access), 0);
    namespace k = prm::cqc;
    made.set(16, k::log_cq_size, 4).set(16, k::uar_page, uar).set(16, k::c_eqn, 1);
    made.set(16, k::dbr_umem_id, record.number).set64(16 + k::dbr_addr, Memory::record);
    made.set(0, prm::cq_cmd::umem_id, ring.number);
  }
  // A queue pair that sends to nobody, in RTS, whose requests complete there.
  Command sender() {
    Command k = qp();
    k.set(context, q::cqn_snd, made.made());
    EQUAL_FATAL(k.make(c), 0);
    for (const uint16_t opcode : {cmd::qp_rst2init, cmd::qp_init2rtr, cmd::qp_rtr2rts})
      EQUAL_FATAL(step(opcode, k.made()).change(c, k.handle), 0);
    return k;
  }
  // One more NOP, with an entry of its own.
  void post(uint32_t qpn) {
    constexpr std::size_t rq_bytes = 8 * 16, wqebb = 64, ring_wqebbs = 16;
    std::byte* at = qp_memory.bytes.data() + rq_bytes + posted_ % ring_wqebbs * wqebb;
    const be32 head[4] = {be32{posted_ << 8}, be32{qpn << 8 | 1}, be32{8}, be32{0}};
    std::memcpy(at, head, sizeof head);
    const be32 index{++posted_};
    std::memcpy(qp_memory.bytes.data() + Memory::record + 4 * prm::record_send, &index, 4);
    c.hca->expect_stores();
    (void)c.hca->run();
  }
  [[nodiscard]] prm::Cqe entry(uint32_t place) const {
    prm::Cqe e;
    std::memcpy(&e, ring.bytes.data() + std::size_t{place} * sizeof e, sizeof e);
    return e;
  }
  [[nodiscard]] bool untouched(uint32_t place) const {
    const std::byte* at = ring.bytes.data() + std::size_t{place} * sizeof(prm::Cqe);
    for (std::size_t i = 0; i < sizeof(prm::Cqe); i++)
      if (at[i] != std::byte{0xff}) return false;
    return true;
  }
  // Word `n` of the record, as the client writes it.
  void write_record(std::size_t n, uint32_t value) {
    const be32 v{value};
    std::memcpy(record.bytes.data() + Memory::record + 4 * n, &v, sizeof v);
  }
  [[nodiscard]] uint32_t record_word(std::size_t n) const {
    be32 v;
    std::memcpy(&v, record.bytes.data() + Memory::record + 4 * n, sizeof v);
    return v.host();
  }
  // The doorbell that follows a request for events.
  void ring_for_events(uint32_t arm_word) {
    kilim::vhca::hca::Uar& page = *c.hca->uars.at(uar);
    const be64 bell{uint64_t{arm_word} << 32 | made.made()};
    std::memcpy(page.page.data() + prm::uar::cq_doorbell, &bell, sizeof bell);
    (void)c.hca->run();
  }
  // A file of events to which the queue's come: those of one type, with their data or not.
  int subscribe(uint16_t type, uint32_t flags) {
    Ioctl file(MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD, MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC);
    EQUAL_FATAL(file.handle(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE)
                    .in(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS, flags)
                    .run(*c.file),
                0);
    const int fd = static_cast<int>(file.attr(0).data);
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
    EQUAL_FATAL(Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT)
                    .raw(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE, 0, static_cast<uint64_t>(fd))
                    .handle(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE, made.handle)
                    .in(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, type)
                    .in(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, uint64_t{0x77})
                    .run(*c.file),
                0);
    return fd;
  }

 private:
  uint32_t posted_ = 0;
};

constexpr uint32_t bare = MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA;

bool event_came(int fd) {
  uint64_t got = 0;
  return ::read(fd, &got, sizeof got) == sizeof got;
}

void a_record_is_only_read() {
  QueueBench b(0);
  EQUAL_FATAL(b.made.make(b.c), 0);
  EQUAL(b.record_word(prm::record_consumer_index), 0);
  EQUAL(b.record_word(prm::record_arm), 0);  // nothing was written there
  const Command qp = b.sender();
  const int fd = b.subscribe(0, bare);
  // Before anybody asks for an event none comes.
  b.post(qp.made());
  EQUAL(event_came(fd), false);
  // The first request writes the zeros that stand there already.
  b.write_record(prm::record_consumer_index, 1);
  b.ring_for_events(0);
  b.post(qp.made());
  EQUAL(event_came(fd), true);
  b.post(qp.made());
  EQUAL(event_came(fd), false);
  // The second has another number (sn).
  b.write_record(prm::record_consumer_index, 3);
  b.write_record(prm::record_arm, 1u << 28 | 3);
  b.ring_for_events(1u << 28 | 3);
  b.post(qp.made());
  EQUAL(event_came(fd), true);
  EQUAL(b.record_word(prm::record_arm), 1u << 28 | 3);
  ::close(fd);
}

void a_ring_is_written() {
  QueueBench b(IB_UVERBS_ACCESS_LOCAL_WRITE, 0);
  EQUAL(b.made.make(b.c), -EREMOTEIO);
  EQUAL(b.made.out[0], 0x05);
}

void a_collapsed_queue_has_one_entry() {
  QueueBench b;
  namespace k = prm::cqc;
  EQUAL_FATAL(b.made.set(16, k::cc, 1).set(16, k::oi, 1).make(b.c), 0);
  Command ask(cmd::query_cq, 16);
  EQUAL(ask.number(b.made.made()).ask(b.c, b.made.handle), 0);
  EQUAL(ask.answer(16, k::cc), 1);
  const Command qp = b.sender();
  // The owner bit turns as in a ring of as many places.
  for (uint32_t i = 0; i < 2 * places + 1; i++) {
    b.post(qp.made());
    const prm::Cqe e = b.entry(0);
    EQUAL_FATAL(e.wqe_counter.host(), i);
    EQUAL_FATAL(e.op_own, prm::cqe::op_own(prm::CqeOpcode::req, false, i / places % 2 != 0));
  }
  for (uint32_t place = 1; place < places; place++) EQUAL(b.untouched(place), true);
}

void a_collapsed_queue_of_one() {
  QueueBench b;
  EQUAL_FATAL(b.made.set(16, prm::cqc::cc, 1)
                  .set(16, prm::cqc::oi, 1)
                  .set(16, prm::cqc::log_cq_size, 0)
                  .make(b.c),
              0);
  const Command qp = b.sender();
  for (uint32_t i = 0; i < 5; i++) {
    b.post(qp.made());
    EQUAL(b.entry(0).wqe_counter.host(), i);
    EQUAL(b.entry(0).op_own & 1, i % 2);
  }
  EQUAL(b.untouched(1), true);
}

// Overruns are counted as in a ring where they are not ignored, and the event says so.
void a_collapsed_queue_overruns_and_says_so() {
  constexpr uint16_t cq_error = 4;
  QueueBench b;
  EQUAL_FATAL(b.made.set(16, prm::cqc::cc, 1).make(b.c), 0);
  const int fd = b.subscribe(cq_error, 0);
  const Command qp = b.sender();
  for (uint32_t i = 0; i < places; i++) b.post(qp.made());
  b.write_record(prm::record_consumer_index, 4);
  for (uint32_t i = 0; i < 4; i++) b.post(qp.made());
  EQUAL(b.entry(0).wqe_counter.host(), places + 3);
  std::array<be32, 18> event{};  // the cookie, then an entry of an event queue
  EQUAL(::read(fd, event.data(), sizeof event), -1);
  b.post(qp.made());
  EQUAL(b.entry(0).wqe_counter.host(), places + 3);
  EQUAL_FATAL(::read(fd, event.data(), sizeof event), sizeof event);
  uint64_t cookie = 0;
  std::memcpy(&cookie, event.data(), sizeof cookie);
  EQUAL(cookie, 0x77);
  EQUAL(event[2].host() >> 16 & 0xff, cq_error);
  const std::size_t data = 2 + 8;
  EQUAL(event[data].host(), b.made.made());
  EQUAL(event[data + 2].host(), 1);  // overrun
  EQUAL(event[data + 6].host(), 0);
  ::close(fd);
}

void compressed_entries_want_a_ring() {
  QueueBench b;
  EQUAL(Command(b.made).set(16, prm::cqc::cqe_comp_en, 1).make(b.c), 0);
  EQUAL(Command(b.made).set(16, prm::cqc::cqe_comp_en, 1).set(16, prm::cqc::cc, 1).make(b.c),
        -EREMOTEIO);
}

constexpr Case cases[] = {
    {"a record is only read", a_record_is_only_read},
    {"a ring is written", a_ring_is_written},
    {"a collapsed queue has one entry", a_collapsed_queue_has_one_entry},
    {"a collapsed queue of one", a_collapsed_queue_of_one},
    {"a collapsed queue overruns and says so", a_collapsed_queue_overruns_and_says_so},
    {"compressed entries want a ring", compressed_entries_want_a_ring},
};

}  // namespace
}  // namespace cq_commands_ut

KILIM_TEST_SUITE(cq_commands, cq_commands_ut::cases)
