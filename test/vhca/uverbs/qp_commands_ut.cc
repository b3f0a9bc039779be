// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs, RMPs, DCTs and encryption keys by firmware commands: made, brought up, asked, ended;
// refused where a length, a number, a place or an owner lies.
#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <new>
#include <span>
#include <vector>

#include <rdma/mlx5_user_ioctl_verbs.h>
#include <sys/mman.h>

#include "firmware_command_fixture.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/crypto_seg.hh"
#include "kilim/prm/qp_context.hh"
#include "kilim/prm/queue_cmd.hh"
#include "request_fixture.hh"
#include "ut.hh"
#include "vhca/hca/reserved_qpns.hh"

namespace {

using namespace kilim::test;
using kilim::be32;
using kilim::be64;
namespace prm = kilim::prm;
namespace cmd = kilim::prm::cmd;
namespace q = kilim::prm::qpc;

using Memory = RingMemory<4096 - 64>;
constexpr std::size_t context = prm::qp_cmd::in_context;

struct Bench {
  Client c;
  Memory cq_memory, qp_memory, rmp_memory;
  uint32_t pd = 0, pdn = 0, uar = 0;
  Command cq{cmd::create_cq};

  explicit Bench(const char* profile = "cx6dx") : Bench(Client(profile)) {}
  explicit Bench(Client client) : c(std::move(client)) {
    EQUAL_FATAL(c.alloc_pd(pd, &pdn), 0);
    EQUAL_FATAL(c.alloc_uar(uar), 0);
    EQUAL_FATAL(cq_memory.enter(c), 0);
    EQUAL_FATAL(qp_memory.enter(c), 0);
    EQUAL_FATAL(rmp_memory.enter(c), 0);
    namespace k = prm::cqc;
    cq.set(16, k::log_cq_size, 4).set(16, k::uar_page, uar).set(16, k::c_eqn, 1);
    cq.set(16, k::dbr_umem_id, cq_memory.number).set64(16 + k::dbr_addr, 2048);
    cq.set(0, prm::cq_cmd::umem_id, cq_memory.number);
    EQUAL_FATAL(cq.make(c), 0);  // without the bits for umems: mlx5_ib sets them
  }
  // 8 receive WQEs of 16 bytes, 16 basic blocks.
  Command qp() const {
    Command k(cmd::create_qp);
    k.set(context, q::pd, pdn).set(context, q::uar_page, uar);
    k.set(context, q::cqn_snd, cq.made()).set(context, q::cqn_rcv, cq.made());
    k.set(context, q::log_rq_size, 3).set(context, q::log_sq_size, 4);
    k.set(context, q::user_index, 0x123);
    k.set(context, q::dbr_umem_id, qp_memory.number).set64(context + q::dbr_addr, Memory::record);
    return k.set(0, prm::create_qp_in::wq_umem_id, qp_memory.number);
  }
  Command rmp() const {
    namespace w = prm::wq_context;
    constexpr std::size_t at = prm::queue_cmd::context + w::at;
    Command k(cmd::create_rmp);
    k.set(prm::queue_cmd::context, prm::rmpc::state, 1);
    k.set(at, w::wq_type, w::cyclic).set(at, w::pd, pdn).set(at, w::log_wq_stride, 5);
    k.set(at, w::log_wq_sz, 4).set(at, w::wq_umem_id, rmp_memory.number);
    k.set(at, w::dbr_umem_id, rmp_memory.number).set64(at + w::dbr_addr, Memory::record);
    return k;
  }
};

Command step(uint16_t opcode, uint32_t qpn) {
  constexpr std::size_t path = context + q::primary_address_path;
  Command k(opcode);
  k.number(qpn).set(path, prm::ads::vhca_port_num, 1);
  if (opcode == cmd::qp_init2rtr)
    k.set(path, prm::ads::fl, 1).set(context, q::mtu, 1).set(context, q::remote_qpn, qpn);
  return k;
}

uint32_t state_of(Bench& b, const Command& qp) {
  Command ask(cmd::query_qp, 16);
  EQUAL(ask.number(qp.made()).ask(b.c, qp.handle), 0);
  return ask.out[prm::qp_cmd::out_context] >> 4;
}

void a_queue_pair_looped_to_itself() {
  Bench b;
  Command qp = b.qp();
  EQUAL_FATAL(qp.make(b.c), 0);
  EQUAL(b.qp_memory.leave(b.c), -EBUSY);
  EQUAL(end(b.c, b.cq.handle), -EREMOTEIO);
  // Not out of order, and not by another's handle.
  EQUAL(step(cmd::qp_init2rtr, qp.made()).change(b.c, qp.handle), -EREMOTEIO);
  EQUAL(step(cmd::qp_rst2init, qp.made()).change(b.c, b.cq.handle), -EINVAL);
  EQUAL(step(cmd::qp_rst2init, qp.made() + 1).change(b.c, qp.handle), -EINVAL);
  const uint16_t way[] = {cmd::qp_rst2init, cmd::qp_init2rtr, cmd::qp_rtr2rts};
  for (uint32_t i = 0; i < 3; i++) {
    EQUAL(step(way[i], qp.made()).change(b.c, qp.handle), 0);
    EQUAL(state_of(b, qp), i + 1);
  }
  EQUAL(step(cmd::qp_2rst, qp.made()).change(b.c, qp.handle), 0);
  EQUAL(end(b.c, qp.handle), 0);
  EQUAL(end(b.c, b.cq.handle), 0);
  EQUAL(b.qp_memory.leave(b.c), 0);
}

struct Lie {
  std::size_t at;
  prm::CapField field;
  uint32_t value;
};

void queue_pairs_that_lie() {
  const Lie lies[] = {
      {context, q::st, 3},
      {context, q::st, 6},
      {context, q::rq_type, 2},
      {context, q::rq_type, q::shared_rq},
      {context, q::pd, 0xfffff0},
      {context, q::cqn_snd, 0xfffff0},
      {context, q::uar_page, 0xfffff0},
      {context, q::log_sq_size, 6},
      {context, q::log_rq_size, 9},
      {context, q::log_sq_size, 15},
      {context, q::dbr_umem_id, 0xffffff},
      {context, q::dbr_umem_id, 0xffffffff},
      {0, prm::create_qp_in::wq_umem_id, 0xffffff},
      {0, prm::create_qp_in::extension, 1},
  };
  Bench b;
  for (const Lie& lie : lies) {
    Command qp = b.qp();
    EQUAL(qp.set(lie.at, lie.field, lie.value).make(b.c), -EREMOTEIO);
  }
  Command beyond = b.qp();
  EQUAL(beyond.set64(prm::create_qp_in::wq_umem_offset, 4096).make(b.c), -EREMOTEIO);
  EQUAL(beyond.set64(prm::create_qp_in::wq_umem_offset, ~uint64_t{0}).make(b.c), -EREMOTEIO);
  Command record = b.qp();
  EQUAL(record.set64(context + q::dbr_addr, 4092).make(b.c), -EREMOTEIO);
  EQUAL(record.set64(context + q::dbr_addr, 4090).make(b.c), -EREMOTEIO);
  Command cut = b.qp();
  cut.in.resize(271);
  EQUAL(cut.make(b.c), -EREMOTEIO);
  EQUAL(b.qp_memory.leave(b.c), 0);  // nothing was made of all that
}

void shared_receives_and_targets() {
  Bench b;
  Command rmp = b.rmp();
  EQUAL_FATAL(rmp.make(b.c), 0);
  Command qp = b.qp();
  qp.set(context, q::rq_type, q::shared_rq).set(context, q::srqn_rmpn_xrqn, rmp.made());
  EQUAL_FATAL(qp.make(b.c), 0);
  EQUAL(end(b.c, rmp.handle), -EREMOTEIO);
  EQUAL(b.rmp_memory.leave(b.c), -EBUSY);
  namespace d = prm::dctc;
  Command dct(cmd::create_dct, d::command_bytes);
  dct.set(d::at, d::cqn, b.cq.made()).set(d::at, d::pd, b.pdn).set(d::at, d::mtu, 3);
  EQUAL(dct.make(b.c), -EREMOTEIO);  // no shared queue
  dct.set(d::at, d::srqn_xrqn, rmp.made());
  EQUAL(dct.make(b.c), -EREMOTEIO);  // no port
  EQUAL_FATAL(dct.set(d::at, d::port, 1).make(b.c), 0);
  EQUAL(end(b.c, dct.handle), 0);
  EQUAL(end(b.c, qp.handle), 0);
  EQUAL(end(b.c, rmp.handle), 0);
  Command linked = b.rmp();
  constexpr std::size_t wq = prm::queue_cmd::context + prm::wq_context::at;
  EQUAL(linked.set(wq, prm::wq_context::wq_type, 3).make(b.c), -EREMOTEIO);
  EQUAL(linked.set(wq, prm::wq_context::wq_type, 0).make(b.c), 0);
  EQUAL(end(b.c, linked.handle), 0);
  Command idle = b.rmp();
  EQUAL(idle.set(prm::queue_cmd::context, prm::rmpc::state, 0).make(b.c), -EREMOTEIO);
  Command small = b.rmp();
  EQUAL(small.set(wq, prm::wq_context::log_wq_stride, 4).make(b.c), -EREMOTEIO);
  EQUAL(b.rmp_memory.leave(b.c), 0);
}

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

// Umems, and what lies in them, are their client's.
void others_cannot_name_them() {
  Bench b;
  Bench other;
  Command qp = other.qp();
  qp.set(context, q::dbr_umem_id, other.qp_memory.number + 1000);
  EQUAL(qp.make(other.c), -EREMOTEIO);
  Command mine = b.qp();
  EQUAL_FATAL(mine.make(b.c), 0);
  EQUAL(step(cmd::qp_rst2init, mine.made()).change(other.c, mine.handle + 40), -ENOENT);
}

void encryption_keys() {
  Bench b;
  constexpr std::size_t object = 16;
  const auto command = [&] {
    Command k(cmd::create_general_object, object + sizeof(prm::DekObject));
    k.in[7] = cmd::object_dek;
    k.in[object + offsetof(prm::DekObject, tag_purpose)] = prm::dek::aes_xts;
    k.in[object + offsetof(prm::DekObject, opaque)] = 0x77;
    k.in[object + offsetof(prm::DekObject, key)] = 0x55;
    return k.set(object, prm::CapField{0x68, 24}, b.pdn);
  };
  Command dek = command();
  EQUAL_FATAL(dek.make(b.c), 0);
  Command ask(cmd::query_general_object, 16);
  ask.in[7] = cmd::object_dek;
  EQUAL(ask.number(dek.made()).ask(b.c, dek.handle), 0);
  EQUAL(ask.out[object + offsetof(prm::DekObject, opaque)], 0x77);
  EQUAL(ask.out[object + offsetof(prm::DekObject, key)], 0);  // it never comes back
  ask.in[7] = cmd::object_crypto_login;
  EQUAL(ask.ask(b.c, dek.handle), -EINVAL);
  for (const auto& [at, value] : std::vector<std::pair<std::size_t, uint8_t>>{
           {7, cmd::object_crypto_login},
           {object + offsetof(prm::DekObject, tag_purpose), 1},
           {object + offsetof(prm::DekObject, tag_purpose), 0x13},
           {object + offsetof(prm::DekObject, key_size), 2},
           {object + offsetof(prm::DekObject, key_size), 0x10},
           {object + offsetof(prm::DekObject, rsvd1), 1},
           {object + 13, 0xff}}) {
    Command lie = command();
    lie.in[at] = value;
    EQUAL(lie.make(b.c), -EREMOTEIO);
  }
  Command cut = command();
  cut.in.resize(271);
  EQUAL(cut.make(b.c), -EREMOTEIO);
  EQUAL(end(b.c, dek.handle), 0);
}

// Rows of numbers that no queue pair gets, all apart; a row of another length is none.
void reserved_numbers() {
  Bench b;
  const auto command = [] {
    Command k(cmd::create_general_object, cmd::reserved_qpn_bytes);
    k.in[7] = cmd::object_reserved_qpn;
    k.in[cmd::log_obj_range] = kilim::vhca::ReservedQpns::log_count;
    return k;
  };
  Command qp = b.qp();
  EQUAL_FATAL(qp.make(b.c), 0);
  std::vector<Command> rows(kilim::vhca::ReservedQpns::most_rows, command());
  for (Command& row : rows) {
    EQUAL_FATAL(row.make(b.c), 0);
    EQUAL(row.made() - rows[0].made(), static_cast<uint32_t>(&row - rows.data()) * 256);
  }
  CU_ASSERT(qp.made() < rows[0].made());
  EQUAL(command().make(b.c), -EREMOTEIO);  // all are taken
  EQUAL(end(b.c, rows[3].handle), 0);
  Command again = command();
  EQUAL(again.make(b.c), 0);
  EQUAL(again.made(), rows[3].made());
  Command ask(cmd::query_general_object, 16);
  ask.in[7] = cmd::object_reserved_qpn;
  EQUAL(ask.number(again.made()).ask(b.c, again.handle), -EREMOTEIO);
  EQUAL(end(b.c, again.handle), 0);
  for (const uint8_t log : std::vector<uint8_t>{0, 7, 9, 31}) {
    Command other = command();
    other.in[cmd::log_obj_range] = log;
    EQUAL(other.make(b.c), -EREMOTEIO);
  }
  Command cut = command();
  cut.in.resize(cmd::reserved_qpn_bytes - 1);
  EQUAL(cut.make(b.c), -EREMOTEIO);
}

const Case cases[] = {
    {"reserved numbers", reserved_numbers},
    {"a queue pair looped to itself, from its making to its end", a_queue_pair_looped_to_itself},
    {"queue pairs that lie are refused", queue_pairs_that_lie},
    {"shared receives and targets", shared_receives_and_targets},
    {"a queue that matches tags", a_queue_that_matches_tags},
    {"queues of tags that lie are refused", queues_of_tags_that_lie},
    {"a message, and then no memory for the next", a_message_and_then_no_memory},
    {"queues of others", queues_of_others},
    {"others cannot name them", others_cannot_name_them},
    {"encryption keys", encryption_keys},
};

}  // namespace

KILIM_UT_MAIN("uverbs/qp_commands", cases)
