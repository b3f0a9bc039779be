// SPDX-License-Identifier: BSD-3-Clause
// Seeds of devx_fuzz.cc that make queues by command: objects are named by the order in which they
// are made. Test code only; one thread.
#include <initializer_list>
#include <utility>

#include "devx_fixture.hh"
#include "firmware_command_fixture.hh"
#include "kilim/prm/qp_context.hh"

namespace kilim::fuzz {

namespace {

using kilim::test::Command;
namespace cmd = prm::cmd;

// The objects of a seed, by the order in which they are made.
enum Number : uint32_t { cq, domain, tis, sq, rq, xrq, rqt, tir };
constexpr uint64_t sq_record = 0x1000, rq_record = 0x1080, cq_record = 0x10c0, rq_ring = 0x400,
                   cq_ring = 0x800;

void make(Script& s, const Command& c, uint8_t open = 0) {
  s.put(static_cast<uint8_t>(static_cast<uint8_t>(Ask::create) | open),
        static_cast<uint16_t>(c.in.size()));
  s.bytes(std::as_bytes(std::span(c.in))).put(uint8_t{16});
}

Command cq_command() {
  Command k(cmd::create_cq);
  k.set(16, prm::cqc::log_cq_size, 4).set32(16 + 12, page_token).set(16, prm::cqc::c_eqn, 1);
  k.set(16, prm::cqc::dbr_umem_valid, 1).set(16, prm::cqc::dbr_umem_id, umem_token);
  k.set64(16 + prm::cqc::dbr_addr, cq_record).set64(prm::cq_cmd::umem_offset, cq_ring);
  return k.set(0, prm::cq_cmd::umem_valid, 1).set(0, prm::cq_cmd::umem_id, umem_token);
}

Command& add_wq(Command& k, uint32_t log_stride, uint64_t ring, uint64_t record) {
  namespace w = prm::wq_context;
  constexpr std::size_t at = 32 + w::at;
  k.set(at, w::wq_type, w::cyclic).set32(at + 8, token).set32(at + 12, page_token);
  k.set(at, w::log_wq_stride, log_stride).set(at, w::log_wq_sz, 4);
  k.set(at, w::wq_umem_valid, 1).set(at, w::dbr_umem_valid, 1);
  k.set(at, w::wq_umem_id, umem_token).set(at, w::dbr_umem_id, umem_token);
  return k.set64(at + w::dbr_addr, record).set64(at + w::wq_umem_offset, ring);
}

Command sq_command() {
  Command k(cmd::create_sq);
  k.set32(32 + 8, number_token | cq).set(32, prm::sqc::tis_lst_sz, 1);
  k.set32(32 + 44, number_token | tis);
  return add_wq(k, 6, 0, sq_record);
}

Command rq_command() {
  Command k(cmd::create_rq);
  k.set(32, prm::rqc::vsd, 1).set32(32 + 8, number_token | cq);
  return add_wq(k, 4, rq_ring, rq_record);
}

// A queue that matches tags, in the receive queue's memory.
Command xrq_command() {
  namespace x = prm::xrqc;
  namespace w = prm::wq_context;
  constexpr std::size_t at = x::at + x::wq_at;
  Command k(cmd::create_xrq, x::command_bytes);
  k.set(x::at, x::topology, x::tag_matching).set(x::at, x::offload, x::rendezvous);
  k.set(x::at, x::log_matching_list_sz, 7).set32(x::at + 8, number_token | cq);
  k.set32(at + 8, token).set(at, w::log_wq_stride, 5).set(at, w::log_wq_sz, 4);
  k.set(at, w::wq_umem_id, umem_token).set(at, w::dbr_umem_id, umem_token);
  return k.set64(at + w::dbr_addr, rq_record).set64(at + w::wq_umem_offset, rq_ring);
}

// `handle`: its place among all that was made, memory included.
void make_ready(Script& s, uint16_t opcode, uint8_t handle, Number number) {
  Command k(opcode);
  k.set32(8, number_token | number).set(32, prm::rqc::state, 1);
  s.put(static_cast<uint8_t>(Ask::change), handle, static_cast<uint16_t>(k.in.size()));
  s.bytes(std::as_bytes(std::span(k.in))).put(uint16_t{272});
}

void ask_and_arm(Script& s, uint8_t handle) {
  Command ask(cmd::query_xrq, 16), arm(cmd::arm_xrq, 16);
  for (Command* k : {&ask, &arm}) k->set32(8, number_token | xrq).set32(12, 3);
  for (const auto& [step, k] : {std::pair{Ask::query, &ask}, std::pair{Ask::change, &arm}}) {
    s.put(static_cast<uint8_t>(step), handle, static_cast<uint16_t>(k->in.size()));
    s.bytes(std::as_bytes(std::span(k->in))).put(uint16_t{prm::xrqc::command_bytes});
  }
}

void enter(Script& s, uint8_t open = 0) {
  s.put(static_cast<uint8_t>(static_cast<uint8_t>(Ask::enter) | open), uint16_t{0},
        uint32_t{0x2000}, uint8_t{1});
}

void begin(Script& s) {
  enter(s);
  make(s, cq_command());
  make(s, Command(cmd::alloc_transport_domain, 16));
  make(s, Command(cmd::create_tis, prm::tisc::command_bytes).set32(32 + 36, number_token | domain));
  make(s, sq_command());
  make(s, rq_command());
  make_ready(s, cmd::modify_sq, 4, sq);
  make_ready(s, cmd::modify_rq, 5, rq);
  make(s, xrq_command());
  ask_and_arm(s, 6);
}

// A WQE of nothing at the ring's start, then the record that announces it.
void ring(Script& s) {
  const uint8_t nop[16]{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 8};
  const uint8_t record[8]{0, 0, 0, 0, 0, 0, 0, 1};
  for (auto [at, bytes] : {std::pair<uint16_t, std::span<const uint8_t>>{0, nop},
                           {static_cast<uint16_t>(sq_record), record}}) {
    s.put(static_cast<uint8_t>(Ask::ring), at, static_cast<uint8_t>(bytes.size()));
    s.bytes(std::as_bytes(bytes)).put(static_cast<uint8_t>(sq), uint16_t{0});
  }
}

void ask(Script& s, uint16_t opcode, Number number, uint16_t room) {
  Command k(opcode, 16);
  k.set32(8, number_token | number);
  // Memory was entered before the first object.
  s.put(static_cast<uint8_t>(Ask::query), static_cast<uint8_t>(number + 1u),
        static_cast<uint16_t>(k.in.size()));
  s.bytes(std::as_bytes(std::span(k.in))).put(room);
}

}  // namespace

Script queues_seed(bool unmapped) {
  Script s;
  begin(s);
  if (unmapped) s.put(static_cast<uint8_t>(Ask::unmap), uint8_t{1});
  ring(s);
  if (unmapped) s.put(static_cast<uint8_t>(Ask::unmap), uint8_t{0});
  ring(s);
  for (const uint8_t handle : std::initializer_list<uint8_t>{0, 6, 5, 4, 3, 2, 1, 0})
    s.put(static_cast<uint8_t>(handle == 0 ? Ask::leave : Ask::destroy), handle);
  return s;
}

Script others_seed() {
  Script s;
  begin(s);
  enter(s, by_other);
  make(s, cq_command(), by_other);
  make(s, rq_command(), by_other);
  for (const uint8_t handle : std::initializer_list<uint8_t>{0, 1, 4, 5, 6}) {
    s.put(static_cast<uint8_t>(static_cast<uint8_t>(Ask::destroy) | by_other), handle);
    s.put(static_cast<uint8_t>(static_cast<uint8_t>(Ask::leave) | by_other), handle);
  }
  ring(s);
  return s;
}

Script questions_seed() {
  Script s;
  begin(s);
  Command table(cmd::create_rqt, prm::queue_cmd::bytes + 4), target(cmd::create_tir);
  table.set(32, prm::rqtc::rqt_max_size, 1).set(32, prm::rqtc::rqt_actual_size, 1);
  make(s, table.set32(prm::queue_cmd::bytes, number_token | rq));
  make(s, target.set32(32 + 28, number_token | rq));
  for (const uint16_t room : std::initializer_list<uint16_t>{1000, 276, 272, 271, 16}) {
    for (const auto& [opcode, number] : {std::pair{cmd::query_cq, cq},
                                         {cmd::query_tis, tis},
                                         {cmd::query_sq, sq},
                                         {cmd::query_rq, rq},
                                         {cmd::query_rqt, rqt},
                                         {cmd::query_tir, tir}})
      ask(s, opcode, number, room);
  }
  return s;
}

}  // namespace kilim::fuzz
