// SPDX-License-Identifier: BSD-3-Clause
// Two opens of one adapter: whatever a firmware command names by number is of the open that asks.
// Each good command is given the number of the other open's object, field by field, and refused.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "kilim/prm/crypto_seg.hh"
#include "kilim/prm/flow_table.hh"
#include "kilim/prm/mkc.hh"
#include "qp_command_fixture.hh"
#include "ut.hh"
#include "vhca/ethernet/soft_steering.hh"

namespace own_objects_ut {
namespace {

using namespace kilim::test;
using kilim::be32;
namespace prm = kilim::prm;
namespace fc = kilim::prm::flow_cmd;
namespace w = kilim::prm::wq_context;

constexpr std::size_t at = prm::queue_cmd::context;
constexpr uint8_t bad_param = 0x03, bad_resource = 0x05;

// What one open makes of each kind that others are made with.
struct Open : Bench {
  Command domain{cmd::alloc_transport_domain, 16};
  Command tis{cmd::create_tis, prm::tisc::command_bytes};
  Command counter{cmd::alloc_q_counter, 16};
  Command shared{cmd::create_rmp};
  Command queue{cmd::create_rq};
  Command table{cmd::create_rqt, prm::queue_cmd::bytes + 4};
  Command pair{cmd::create_qp};

  explicit Open(Client client) : Bench(std::move(client)) {
    EQUAL_FATAL(domain.make(c), 0);
    EQUAL_FATAL(tis.set(at, prm::tisc::transport_domain, domain.made()).make(c), 0);
    EQUAL_FATAL(counter.make(c), 0);
    shared = rmp();
    EQUAL_FATAL(shared.make(c), 0);
    queue = rq();
    EQUAL_FATAL(queue.make(c), 0);
    table = rqt();
    EQUAL_FATAL(table.make(c), 0);
    pair = qp();
    EQUAL_FATAL(pair.make(c), 0);
  }
  void add_ring(Command& k, uint32_t log_stride) const {
    constexpr std::size_t wq = at + w::at;
    k.set(wq, w::wq_type, w::cyclic).set(wq, w::pd, pdn).set(wq, w::log_wq_stride, log_stride);
    k.set(wq, w::log_wq_sz, 4).set(wq, w::wq_umem_id, qp_memory.number);
    k.set(wq, w::dbr_umem_id, qp_memory.number).set64(wq + w::dbr_addr, Memory::record);
  }
  [[nodiscard]] Command rq() const {
    Command k(cmd::create_rq);
    k.set(at, prm::rqc::vsd, 1).set(at, prm::rqc::cqn, cq.made());
    add_ring(k, 4);
    return k.set(at, prm::rqc::counter_set_id, counter.made());
  }
  [[nodiscard]] Command sq() const {
    Command k(cmd::create_sq);
    k.set(at, prm::sqc::cqn, cq.made()).set(at, prm::sqc::tis_lst_sz, 1);
    add_ring(k, 6);
    k.set(at + w::at, w::uar_page, uar);
    return k.set(at, prm::sqc::tis_num_0, tis.made());
  }
  [[nodiscard]] Command rqt() const {
    Command k(cmd::create_rqt, prm::queue_cmd::bytes + 4);
    k.set(at, prm::rqtc::rqt_max_size, 1).set(at, prm::rqtc::rqt_actual_size, 1);
    return k.set32(prm::queue_cmd::bytes, queue.made());
  }
  [[nodiscard]] Command tir(bool direct) const {
    namespace t = prm::tirc;
    Command k(cmd::create_tir);
    k.set(at, t::transport_domain, domain.made());
    return direct ? k.set(at, t::inline_rqn, queue.made())
                  : k.set(at, t::disp_type, t::indirect).set(at, t::indirect_table, table.made());
  }
  [[nodiscard]] Command dct() const {
    namespace d = prm::dctc;
    Command k(cmd::create_dct, d::command_bytes);
    k.set(d::at, d::cqn, cq.made()).set(d::at, d::pd, pdn).set(d::at, d::mtu, 3);
    return k.set(d::at, d::srqn_xrqn, shared.made()).set(d::at, d::port, 1);
  }
  [[nodiscard]] Command key() const {
    Command k(cmd::create_mkey, sizeof(prm::CreateMkeyIn));
    prm::CreateMkeyIn in{};
    in.opcode = kilim::be16{cmd::create_mkey};
    in.mkc.flags = be32{prm::mkc::umr_en::at(1u) | prm::mkc::local_read::at(1u) |
                        prm::mkc::access_mode_1_0::at(prm::mkc::access_mode_klm)};
    in.mkc.qpn_mkey = be32{0xffffff00};
    in.mkc.flags_pd = be32{pdn};
    in.mkc.translations_octword_size = be32{4};
    std::memcpy(k.in.data(), &in, sizeof in);
    return k;
  }
  [[nodiscard]] Command dek() const {
    constexpr std::size_t object = 16;
    Command k(cmd::create_general_object, object + sizeof(prm::DekObject));
    k.in[7] = cmd::object_dek;
    k.in[object + offsetof(prm::DekObject, tag_purpose)] = prm::dek::aes_xts;
    return k.set(object, prm::CapField{0x68, 24}, pdn);
  }
  [[nodiscard]] Command mapping() const {
    Command k(cmd::create_general_object, cmd::av_qp_mapping_bytes);
    k.in[7] = cmd::object_av_qp_mapping;
    return k.set32(cmd::av_qp_mapping_qpn, pair.made());
  }
};

void nobody_names_another_s_objects() {
  auto hca = std::shared_ptr<kilim::vhca::hca::Hca>(make_hca());
  Open mine{Client(hca)}, other{Client(hca)};
  constexpr prm::CapField rqn{0x08, 24};
  struct Row {
    const char* name;
    Command command;
    std::size_t at;
    prm::CapField field;
    uint32_t foreign;
    uint8_t status = bad_resource;
  };
  constexpr std::size_t wq = at + w::at;
  const Row rows[] = {
      {"a key's domain", mine.key(), offsetof(prm::CreateMkeyIn, mkc), {0x68, 24}, other.pdn},
      {"a queue pair's domain", mine.qp(), context, q::pd, other.pdn},
      {"a queue pair's doorbells", mine.qp(), context, q::uar_page, other.uar, bad_param},
      {"where a queue pair completes", mine.qp(), context, q::cqn_snd, other.cq.made()},
      {"where it receives", mine.qp(), context, q::cqn_rcv, other.cq.made()},
      {"a receive queue's domain", mine.rq(), wq, w::pd, other.pdn},
      {"its completion queue", mine.rq(), at, prm::rqc::cqn, other.cq.made()},
      {"its counters", mine.rq(), at, prm::rqc::counter_set_id, other.counter.made()},
      {"its memory", mine.rq(), wq, w::wq_umem_id, other.qp_memory.number},
      {"a send queue's domain", mine.sq(), wq, w::pd, other.pdn},
      {"its TIS", mine.sq(), at, prm::sqc::tis_num_0, other.tis.made()},
      {"its completions", mine.sq(), at, prm::sqc::cqn, other.cq.made()},
      {"its doorbells", mine.sq(), wq, w::uar_page, other.uar, bad_param},
      {"a shared queue's domain", mine.rmp(), wq, w::pd, other.pdn},
      {"a target's domain", mine.dct(), prm::dctc::at, prm::dctc::pd, other.pdn},
      {"a target's receives", mine.dct(), prm::dctc::at, prm::dctc::srqn_xrqn, other.shared.made()},
      {"a target's completions", mine.dct(), prm::dctc::at, prm::dctc::cqn, other.cq.made()},
      {"a TIS's domain", mine.tis, at, prm::tisc::transport_domain, other.domain.made()},
      {"a TIR's domain", mine.tir(true), at, prm::tirc::transport_domain, other.domain.made()},
      {"a TIR's queue", mine.tir(true), at, prm::tirc::inline_rqn, other.queue.made()},
      {"a TIR's table", mine.tir(false), at, prm::tirc::indirect_table, other.table.made()},
      {"a table's queue", mine.rqt(), prm::queue_cmd::bytes, rqn, other.queue.made()},
      {"a completion queue's doorbells", mine.cq, 16, prm::cqc::uar_page, other.uar, bad_param},
      {"an encryption key's domain", mine.dek(), 16, {0x68, 24}, other.pdn},
  };
  for (const Row& row : rows) {
    Command good = row.command, bad = row.command;
    const int rc = good.make(mine.c);
    const int refused = bad.set(row.at, row.field, row.foreign).make(mine.c);
    if (rc != 0 || refused != -EREMOTEIO || bad.out[0] != row.status)
      std::printf("\n    %s: %d, then %d and status %u", row.name, rc, refused, bad.out[0]);
    EQUAL(rc, 0);
    EQUAL(refused, -EREMOTEIO);
    EQUAL(bad.out[0], row.status);
  }
}

// As rdma-core's suite has it, on cards.
void but_an_address_is_mapped_to_any_queue_pair() {
  auto hca = std::shared_ptr<kilim::vhca::hca::Hca>(make_hca());
  Open mine{Client(hca)}, other{Client(hca)};
  Command mapping = mine.mapping();
  EQUAL(mapping.set32(cmd::av_qp_mapping_qpn, other.pair.made()).make(mine.c), 0);
  EQUAL(mapping.set32(cmd::av_qp_mapping_qpn, 0xfffff0).make(mine.c), -EREMOTEIO);
}

void nor_by_changing_one_s_own() {
  auto hca = std::shared_ptr<kilim::vhca::hca::Hca>(make_hca());
  Open mine{Client(hca)}, other{Client(hca)};
  namespace t = prm::tirc;
  Command tir = mine.tir(false);
  EQUAL_FATAL(tir.make(mine.c), 0);
  Command move(cmd::modify_tir);
  move.number(tir.made()).set64(16, t::mask_table).set(at, t::indirect_table, other.table.made());
  EQUAL(move.change(mine.c, tir.handle), -EREMOTEIO);
  EQUAL(move.set(at, t::indirect_table, mine.table.made()).change(mine.c, tir.handle), 0);
  Command list(cmd::modify_rqt, prm::queue_cmd::bytes + 4);
  list.number(mine.table.made()).set64(16, prm::rqtc::mask_list);
  list.set(at, prm::rqtc::rqt_actual_size, 1).set32(prm::queue_cmd::bytes, other.queue.made());
  EQUAL(list.change(mine.c, mine.table.handle), -EREMOTEIO);
  EQUAL(list.set32(prm::queue_cmd::bytes, mine.queue.made()).change(mine.c, mine.table.handle), 0);
  Command counted(cmd::modify_rq);
  counted.number(mine.queue.made()).set64(16, prm::rqc::mask_counter_set);
  counted.set(at, prm::rqc::counter_set_id, other.counter.made());
  EQUAL(counted.change(mine.c, mine.queue.handle), -EREMOTEIO);
  EQUAL(counted.set(at, prm::rqc::counter_set_id, 0).change(mine.c, mine.queue.handle), 0);
}

Command table_command() {
  return Command(cmd::create_flow_table, fc::table_bytes);
}

void nor_flow_tables() {
  namespace f = prm::flow_context;
  auto hca = std::shared_ptr<kilim::vhca::hca::Hca>(make_hca("sw-steering"));
  Client mine(hca), other(hca);
  Command a = table_command(), b = table_command(), foreign = table_command();
  Command counter(cmd::alloc_flow_counter, 32), counts(cmd::alloc_flow_counter, 32);
  EQUAL_FATAL(a.make(mine) | b.make(mine) | counts.make(mine), 0);
  EQUAL_FATAL(foreign.make(other) | counter.make(other), 0);
  Command group(cmd::create_flow_group, fc::group_bytes);
  EQUAL(group.set(0, fc::table_id, foreign.made()).make(mine), -EREMOTEIO);
  EQUAL_FATAL(group.set(0, fc::table_id, a.made()).make(mine), 0);
  constexpr std::size_t entry = fc::flow_context, list = entry + f::destinations;
  const auto leads = [&](uint32_t of, uint32_t to, uint32_t counted) {
    Command e(cmd::set_flow_table_entry, fc::entry_bytes + 2 * f::destination_bytes);
    e.set(0, fc::table_id, of).set(entry, f::action, f::forward | f::count);
    e.set(entry, f::destination_list_size, 1).set(entry, f::flow_counter_list_size, 1);
    e.set(list, f::destination_type, f::to_table).set(list, f::destination_id, to);
    return e.set(list + f::destination_bytes, f::destination_id, counted);
  };
  EQUAL(leads(foreign.made(), b.made(), counts.made()).make(mine), -EREMOTEIO);
  EQUAL(leads(a.made(), foreign.made(), counts.made()).make(mine), -EREMOTEIO);
  EQUAL(leads(a.made(), b.made(), counter.made()).make(mine), -EREMOTEIO);
  Command good = leads(a.made(), b.made(), counts.made());
  EQUAL(good.make(mine), 0);
  // The handle of one's own entry, and another's table.
  Command ask(cmd::query_flow_table_entry, fc::query_bytes);
  ask.out.resize(1024);
  EQUAL(ask.set(0, fc::table_id, foreign.made()).ask(mine, good.handle), -EREMOTEIO);
  EQUAL(ask.set(0, fc::table_id, a.made()).ask(mine, good.handle), 0);
  EQUAL(end(mine, good.handle), 0);
  // What is left goes with its open, and leaves the other's alone.
  mine.file.reset();
  EQUAL(hca->eth.soft->tables.count(), 1);
}

constexpr Case cases[] = {
    {"nobody names another's objects", nobody_names_another_s_objects},
    {"but an address is mapped to any queue pair", but_an_address_is_mapped_to_any_queue_pair},
    {"nor by changing one's own", nor_by_changing_one_s_own},
    {"nor flow tables", nor_flow_tables},
};

}  // namespace
}  // namespace own_objects_ut

KILIM_TEST_SUITE(own_objects, own_objects_ut::cases)
