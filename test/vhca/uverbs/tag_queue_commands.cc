// SPDX-License-Identifier: BSD-3-Clause
// Queues that match tags by firmware commands (CREATE_XRQ): made, asked, armed, sent to and ended;
// refused where a field, a length, a number or an owner lies; memory that goes under them.
#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <new>
#include <span>

#include <sys/mman.h>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/qp_context.hh"
#include "kilim/prm/queue_cmd.hh"
#include "qp_command_fixture.hh"
#include "ut.hh"

namespace kilim::test {

namespace tag_queue_commands_ut {
namespace {

// The list of 2^`log_list` entries; a tag matching queue's context and its ring's.
constexpr std::size_t xrq = prm::xrqc::at, xrq_wq = prm::xrqc::at + prm::xrqc::wq_at;

Command xrq_command(const Bench& b, uint32_t log_list = 3) {
  namespace x = prm::xrqc;
  namespace w = prm::wq_context;
  Command k(cmd::create_xrq, x::command_bytes);
  k.set(xrq, x::topology, x::tag_matching).set(xrq, x::offload, x::rendezvous);
  k.set(xrq, x::log_matching_list_sz, log_list).set(xrq, x::cqn, b.cq.made());
  k.set(xrq, x::user_index, 0x456);
  k.set(xrq_wq, w::wq_type, w::cyclic).set(xrq_wq, w::pd, b.pdn).set(xrq_wq, w::log_wq_sz, 4);
  k.set(xrq_wq, w::log_wq_stride, 5).set(xrq_wq, w::wq_umem_id, b.rmp_memory.number);
  k.set(xrq_wq, w::dbr_umem_id, b.rmp_memory.number);
  return k.set64(xrq_wq + w::dbr_addr, Memory::record);
}

Command about(uint16_t opcode, const Command& made, uint32_t lwm = 0) {
  Command k(opcode, 16);
  k.out.resize(prm::xrqc::command_bytes);
  return k.number(made.made()).set32(12, lwm);
}

void a_queue_that_matches_tags() {
  namespace x = prm::xrqc;
  namespace w = prm::wq_context;
  Bench b("infiniband");
  Command made = xrq_command(b);
  EQUAL_FATAL(made.make(b.c), 0);  // without the bits for umems
  EQUAL(b.rmp_memory.leave(b.c), -EBUSY);
  EQUAL(end(b.c, b.cq.handle), -EREMOTEIO);
  Command ask = about(cmd::query_xrq, made);
  EQUAL_FATAL(ask.ask(b.c, made.handle), 0);
  const struct {
    std::size_t at;
    prm::CapField field;
    uint32_t value;
  } told[] = {{xrq, x::state, x::good},         {xrq, x::topology, x::tag_matching},
              {xrq, x::offload, x::rendezvous}, {xrq, x::user_index, 0x456},
              {xrq, x::cqn, b.cq.made()},       {xrq, x::log_matching_list_sz, 3},
              {xrq, x::append_next_index, 0},   {xrq, x::hw_phase_cnt, 0},
              {xrq, x::sw_phase_cnt, 0},        {xrq_wq, w::wq_type, w::cyclic},
              {xrq_wq, w::pd, b.pdn},           {xrq_wq, w::log_wq_sz, 4},
              {xrq_wq, w::log_wq_stride, 5}};
  for (const auto& t : told) EQUAL(ask.answer(t.at, t.field), t.value);
  // What waits now are none, so an event is due at once, and then the limit is off again.
  EQUAL(about(cmd::arm_xrq, made, 16).change(b.c, made.handle), -EREMOTEIO);
  EQUAL(about(cmd::arm_xrq, made, 15).change(b.c, made.handle), 0);
  EQUAL_FATAL(ask.ask(b.c, made.handle), 0);
  EQUAL(ask.answer(xrq_wq, w::lwm), 0);
  Command qp = b.qp();
  qp.set(context, q::rq_type, q::shared_rq).set(context, q::srqn_rmpn_xrqn, made.made());
  EQUAL(qp.set(context, q::st, 1).make(b.c), -EREMOTEIO);  // UC matches no tags
  EQUAL_FATAL(qp.set(context, q::st, 0).make(b.c), 0);
  EQUAL(end(b.c, made.handle), -EREMOTEIO);
  EQUAL(end(b.c, qp.handle), 0);
  EQUAL(end(b.c, made.handle), 0);
  EQUAL(b.rmp_memory.leave(b.c), 0);
}

void queues_of_tags_that_lie() {
  namespace x = prm::xrqc;
  namespace w = prm::wq_context;
  const Lie lies[] = {
      {xrq, x::topology, 0},
      {xrq, x::topology, 2},
      {xrq, x::offload, 0},
      {xrq, x::offload, 2},
      {xrq, x::dc, 1},
      {xrq, x::log_matching_list_sz, 0},
      {xrq, x::log_matching_list_sz, 8},
      {xrq, x::log_matching_list_sz, 15},
      {xrq, x::cqn, 0},
      {xrq, x::cqn, 0xfffff0},
      {xrq_wq, w::wq_type, 2},
      {xrq_wq, w::wq_type, 3},
      {xrq_wq, w::pd, 0xfffff0},
      {xrq_wq, w::log_wq_sz, 9},
      {xrq_wq, w::log_wq_sz, 31},
      {xrq_wq, w::log_wq_stride, 4},
      {xrq_wq, w::log_wq_stride, 15},
      {xrq_wq, w::wq_umem_id, 0xffffff},
      {xrq_wq, w::dbr_umem_id, 0xffffffff},
  };
  Bench b("infiniband");
  for (const Lie& lie : lies) {
    Command k = xrq_command(b);
    EQUAL(k.set(lie.at, lie.field, lie.value).make(b.c), -EREMOTEIO);
  }
  for (const uint64_t offset : {uint64_t{4096}, uint64_t{4095}, ~uint64_t{0}}) {
    Command ring = xrq_command(b);
    EQUAL(ring.set64(xrq_wq + w::wq_umem_offset, offset).make(b.c), -EREMOTEIO);
    Command record = xrq_command(b);
    EQUAL(record.set64(xrq_wq + w::dbr_addr, offset).make(b.c), -EREMOTEIO);
  }
  Command cut = xrq_command(b);
  cut.in.resize(x::command_bytes - 1);
  EQUAL(cut.make(b.c), -EREMOTEIO);
  EQUAL(b.rmp_memory.leave(b.c), 0);  // nothing was made of all that
  EQUAL_FATAL(b.rmp_memory.enter(b.c), 0);
  Command made = xrq_command(b);
  EQUAL_FATAL(made.make(b.c), 0);
  Command narrow = about(cmd::query_xrq, made);
  narrow.out.resize(x::command_bytes - 1);
  EQUAL(narrow.ask(b.c, made.handle), -EREMOTEIO);
  // By the handle of another object, with another number, of an RMP that matches none.
  EQUAL(about(cmd::query_xrq, made).ask(b.c, b.cq.handle), -EINVAL);
  EQUAL(about(cmd::query_xrq, made).number(made.made() + 1).ask(b.c, made.handle), -EINVAL);
  Command rmp = b.rmp();
  EQUAL_FATAL(rmp.make(b.c), 0);
  EQUAL(about(cmd::query_xrq, rmp).ask(b.c, rmp.handle), -EINVAL);
  EQUAL(about(cmd::arm_xrq, rmp, 1).change(b.c, rmp.handle), -EINVAL);
  Bench ethernet;
  EQUAL(xrq_command(ethernet).make(ethernet.c), -EREMOTEIO);  // its profile matches no tags
}

void put(std::span<std::byte> at, std::initializer_list<uint32_t> words) {
  for (std::size_t i = 0; const uint32_t word : words) {
    const be32 w{word};
    std::memcpy(at.data() + 4 * i++, &w, sizeof w);
  }
}

// A queue pair looped to itself sends two messages of 16 bytes, headers with a tag that nobody
// waits for; the memory of the queue of tags goes before the second.
void a_message_and_then_no_memory() {
  constexpr uint32_t eager = 0x03000000, receives = 2;
  Bench b("infiniband");
  auto* at = static_cast<std::byte*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CU_ASSERT_FATAL(at != MAP_FAILED);
  auto* ring = new (at) Memory;
  EQUAL_FATAL(ring->enter(b.c), 0);
  alignas(64) std::array<std::byte, 64> got{};
  ib_uverbs_reg_mr_resp mr{};
  EQUAL_FATAL(b.c.reg_mr(b.pd, got.data(), got.size(), IB_UVERBS_ACCESS_LOCAL_WRITE, &mr), 0);
  Command tags = xrq_command(b);
  tags.set(xrq_wq, prm::wq_context::wq_umem_id, ring->number);
  EQUAL_FATAL(tags.set(xrq_wq, prm::wq_context::dbr_umem_id, ring->number).make(b.c), 0);
  Command qp = b.qp();
  qp.set(context, q::rq_type, q::shared_rq).set(context, q::srqn_rmpn_xrqn, tags.made());
  EQUAL_FATAL(qp.make(b.c), 0);
  for (const uint16_t opcode : {cmd::qp_rst2init, cmd::qp_init2rtr, cmd::qp_rtr2rts})
    EQUAL_FATAL(step(opcode, qp.made()).change(b.c, qp.handle), 0);
  const auto place = reinterpret_cast<uintptr_t>(got.data());
  for (uint32_t i = 0; i < receives; i++)
    put(std::span(ring->bytes).subspan(std::size_t{i} * 32),
        {i + 1, 0, 0, 0, 64, mr.lkey, static_cast<uint32_t>(place >> 32),
         static_cast<uint32_t>(place)});
  put(std::span(ring->bytes).subspan(Memory::record), {receives});
  const auto send = [&](uint32_t index) {
    put(std::span(b.qp_memory.bytes).subspan(std::size_t{index} * 64),
        {index << 8 | 0x0a, qp.made() << 8 | 3, 8, 0, 0x80000010, eager, 0, 0, 7});
    put(std::span(b.qp_memory.bytes).subspan(Memory::record + 4), {index + 1});
    b.c.hca->expect_stores();
    for (int turn = 0; turn < 20; turn++) (void)b.c.hca->run();
  };
  send(0);
  EQUAL(std::to_integer<uint32_t>(got[0]), eager >> 24);
  EQUAL(std::to_integer<uint32_t>(got[15]), 7);
  Command ask = about(cmd::query_xrq, tags);
  EQUAL_FATAL(ask.ask(b.c, tags.handle), 0);
  EQUAL(ask.answer(xrq, prm::xrqc::hw_phase_cnt), 1);
  EQUAL(ask.answer(xrq, prm::xrqc::sw_phase_cnt), 0);
  constexpr uint32_t error = 6;  // IB_QPS_ERR
  CU_ASSERT_TRUE(state_of(b, qp) != error);
  constexpr int alone = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  CU_ASSERT_TRUE(::mmap(at, 4096, PROT_NONE, alone, -1, 0) == at);
  send(1);
  EQUAL(state_of(b, qp), error);
  EQUAL(end(b.c, qp.handle), 0);
  EQUAL(end(b.c, tags.handle), 0);
  EQUAL(ring->leave(b.c), 0);
  EQUAL(::munmap(at, 4096), 0);
}

// Another client of the same adapter cannot have its queues take from or report to this one's.
void queues_of_others() {
  Bench b("infiniband");
  Command tags = xrq_command(b), rmp = b.rmp();
  EQUAL_FATAL(tags.make(b.c), 0);
  EQUAL_FATAL(rmp.make(b.c), 0);
  Bench other(Client(b.c.hca));
  const auto qp_on = [&](uint32_t srqn) {
    Command k = other.qp();
    return k.set(context, q::rq_type, q::shared_rq).set(context, q::srqn_rmpn_xrqn, srqn);
  };
  EQUAL(qp_on(tags.made()).make(other.c), -EREMOTEIO);
  EQUAL(qp_on(rmp.made()).make(other.c), -EREMOTEIO);
  Command own_tags = xrq_command(other);
  EQUAL(Command(own_tags).set(xrq, prm::xrqc::cqn, b.cq.made()).make(other.c), -EREMOTEIO);
  EQUAL_FATAL(own_tags.make(other.c), 0);
  EQUAL(qp_on(own_tags.made()).make(other.c), 0);
  for (const prm::CapField field : {q::cqn_snd, q::cqn_rcv})
    EQUAL(other.qp().set(context, field, b.cq.made()).make(other.c), -EREMOTEIO);
  EQUAL(about(cmd::query_xrq, tags).ask(other.c, own_tags.handle), -EINVAL);
}

constexpr Case tag_cases[] = {
    {"a queue that matches tags", a_queue_that_matches_tags},
    {"queues of tags that lie are refused", queues_of_tags_that_lie},
    {"a message, and then no memory for the next", a_message_and_then_no_memory},
    {"queues of others", queues_of_others},
};

}  // namespace
}  // namespace tag_queue_commands_ut

std::span<const Case> tag_queue_command_cases() {
  return tag_queue_commands_ut::tag_cases;
}

}  // namespace kilim::test
