// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs, RMPs, DCTs and encryption keys by firmware commands: made, brought up, asked, ended;
// refused where a length, a number, a place or an owner lies.
#include <array>
#include <cerrno>
#include <vector>

#include "case_tables.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/crypto_seg.hh"
#include "kilim/prm/qp_context.hh"
#include "kilim/prm/queue_cmd.hh"
#include "qp_command_fixture.hh"
#include "ut.hh"
#include "vhca/hca/reserved_qpns.hh"

namespace qp_commands_ut {
namespace {

using namespace kilim::test;
using kilim::be32;
using kilim::be64;
namespace prm = kilim::prm;

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
    k.in[cmd::log_obj_range] = kilim::vhca::hca::ReservedQpns::log_count;
    return k;
  };
  Command qp = b.qp();
  EQUAL_FATAL(qp.make(b.c), 0);
  std::vector<Command> rows(kilim::vhca::hca::ReservedQpns::most_rows, command());
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
  EQUAL(ask.number(again.made()).ask(b.c, again.handle), 0);
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
    {"others cannot name them", others_cannot_name_them},
    {"encryption keys", encryption_keys},
};

}  // namespace
}  // namespace qp_commands_ut

KILIM_TEST_MAIN(qp_commands) {
  return kilim::test::run_tables("uverbs/qp_commands",
                                 {qp_commands_ut::cases, kilim::test::tag_queue_command_cases()},
                                 argc, argv);
}
