// SPDX-License-Identifier: BSD-3-Clause
// Every object that firmware commands make is asked: what its creator said comes back, field by
// field, and what was changed since.
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "kilim/prm/crypto_seg.hh"
#include "kilim/prm/flow_table.hh"
#include "qp_command_fixture.hh"
#include "ut.hh"
#include "vhca/hca/reserved_qpns.hh"

namespace query_commands_ut {
namespace {

using namespace kilim::test;
using kilim::be32;
using kilim::be64;
namespace prm = kilim::prm;
namespace fc = kilim::prm::flow_cmd;
namespace w = kilim::prm::wq_context;

constexpr std::size_t at = prm::queue_cmd::context;

using Fields = std::initializer_list<prm::CapField>;
constexpr Fields wq_fields = {w::wq_type,        w::pd,          w::log_wq_stride, w::log_wq_sz,
                              w::dbr_umem_valid, w::dbr_umem_id, w::wq_umem_valid, w::wq_umem_id};

// The fields of a command that made something, and of the answer to a question about it, whose
// contexts begin at `asked` and at `told`.
void same(const Command& made, std::size_t asked, const Command& ask, std::size_t told,
          Fields fields) {
  for (const prm::CapField& f : fields) {
    const uint32_t said = prm::cap_get(std::as_bytes(std::span(made.in)).subspan(asked), f);
    if (ask.answer(told, f) != said) std::printf("\n    bit 0x%x:", f.bit);
    EQUAL(ask.answer(told, f), said);
  }
}
void same_bytes(const Command& made, std::size_t asked, const Command& ask, std::size_t told,
                std::size_t bytes) {
  CU_ASSERT(std::memcmp(made.in.data() + asked, ask.out.data() + told, bytes) == 0);
}

Command question(Bench& b, uint16_t opcode, const Command& of, std::size_t out = 1024) {
  Command ask(opcode, 64);
  ask.out.resize(out);
  EQUAL(ask.number(of.made()).ask(b.c, of.handle), 0);
  return ask;
}

void add_ring(Command& k, const Memory& m, uint32_t pdn, uint32_t log_stride) {
  constexpr std::size_t wq = at + w::at;
  k.set(wq, w::wq_type, w::cyclic).set(wq, w::pd, pdn).set(wq, w::log_wq_stride, log_stride);
  k.set(wq, w::log_wq_sz, 4).set(wq, w::wq_umem_valid, 1).set(wq, w::dbr_umem_valid, 1);
  k.set(wq, w::wq_umem_id, m.number).set(wq, w::dbr_umem_id, m.number);
  k.set64(wq + w::wq_umem_offset, 64).set64(wq + w::dbr_addr, Memory::record);
}

struct Queues : Bench {
  using Bench::Bench;
  Command rq(uint32_t user_index = 0x321) {
    namespace r = prm::rqc;
    Command k(cmd::create_rq);
    k.set(at, r::vsd, 1).set(at, r::cqn, cq.made()).set(at, r::user_index, user_index);
    k.set(at, r::scatter_fcs, 1);
    add_ring(k, qp_memory, pdn, 5);
    EQUAL_FATAL(k.make(c), 0);
    return k;
  }
  Command table(const Command& first, const Command& second) {
    Command k(cmd::create_rqt, prm::queue_cmd::bytes + 8);
    k.set(at, prm::rqtc::rqt_max_size, 16).set(at, prm::rqtc::rqt_actual_size, 2);
    k.set32(prm::queue_cmd::bytes, first.made()).set32(prm::queue_cmd::bytes + 4, second.made());
    EQUAL_FATAL(k.make(c), 0);
    return k;
  }
  Command domain() {
    Command k(cmd::alloc_transport_domain, 16);
    EQUAL_FATAL(k.make(c), 0);
    return k;
  }
};

void completion_queues() {
  namespace k = prm::cqc;
  Queues b;
  Command cq = b.cq;
  cq.set(16, k::oi, 1).set(16, k::cc, 1).set(16, k::cq_period, 7).set(16, k::cq_max_count, 3);
  EQUAL_FATAL(cq.make(b.c), 0);
  same(cq, 16, question(b, cmd::query_cq, cq), 16,
       {k::cqe_sz, k::oi, k::cc, k::log_cq_size, k::uar_page, k::c_eqn, k::cq_period,
        k::cq_max_count, k::dbr_umem_id, k::cq_timestamp_format, k::cqe_comp_en});
  Command small = b.cq;
  small.set(16, k::cqe_comp_en, 1).set(16, k::mini_cqe_res_format, 3);
  EQUAL_FATAL(small.make(b.c), 0);
  same(small, 16, question(b, cmd::query_cq, small), 16,
       {k::cc, k::cqe_comp_en, k::mini_cqe_res_format});
}

void queue_pairs() {
  Queues b;
  Command qp = b.qp();
  EQUAL_FATAL(qp.make(b.c), 0);
  const auto check = [&](uint32_t state) {
    const Command ask = question(b, cmd::query_qp, qp);
    same(qp, context, ask, context,
         {q::st, q::pd, q::uar_page, q::cqn_snd, q::cqn_rcv, q::log_rq_size, q::log_rq_stride,
          q::log_sq_size, q::no_sq, q::user_index, q::dbr_umem_id, q::rq_type});
    EQUAL(ask.answer(context, q::state), state);
    EQUAL(ask.answer(context, q::dbr_umem_valid), 1);
    return ask;
  };
  check(0);
  Command init = step(cmd::qp_rst2init, qp.made());
  init.set(context, q::rwe, 1).set(context, q::rae, 1);
  EQUAL_FATAL(init.change(b.c, qp.handle), 0);
  Command rtr = step(cmd::qp_init2rtr, qp.made());
  rtr.set(context, q::next_rcv_psn, 0x4711).set(context, q::log_rra_max, 2);
  rtr.set(context, q::min_rnr_nak, 12);
  EQUAL_FATAL(rtr.change(b.c, qp.handle), 0);
  Command rts = step(cmd::qp_rtr2rts, qp.made());
  rts.set(context, q::next_send_psn, 0x815).set(context, q::log_sra_max, 1);
  rts.set(context, q::retry_count, 5).set(context, q::rnr_retry, 6);
  rts.set(context + q::primary_address_path, prm::ads::ack_timeout, 14);
  EQUAL_FATAL(rts.change(b.c, qp.handle), 0);
  const Command ask = check(3);
  same(init, context, ask, context, {q::rre, q::rwe, q::rae});
  same(rtr, context, ask, context,
       {q::mtu, q::remote_qpn, q::next_rcv_psn, q::log_rra_max, q::min_rnr_nak});
  same(rts, context, ask, context,
       {q::next_send_psn, q::log_sra_max, q::retry_count, q::rnr_retry});
  constexpr std::size_t path = context + q::primary_address_path;
  same(rts, path, ask, path, {prm::ads::ack_timeout, prm::ads::vhca_port_num});
}

void receive_and_send_queues() {
  Queues b;
  Command counter(cmd::alloc_q_counter, 16);
  EQUAL_FATAL(counter.make(b.c), 0);
  Command rq = b.rq();
  EQUAL_FATAL(rq.set(at, prm::rqc::counter_set_id, counter.made()).make(b.c), 0);
  const Command of_rq = question(b, cmd::query_rq, rq);
  namespace r = prm::rqc;
  same(rq, at, of_rq, at,
       {r::state, r::vsd, r::scatter_fcs, r::user_index, r::cqn, r::counter_set_id});
  same(rq, at + w::at, of_rq, at + w::at, wq_fields);
  same_bytes(rq, at + w::at + w::wq_umem_offset, of_rq, at + w::at + w::wq_umem_offset, 8);
  same_bytes(rq, at + w::at + w::dbr_addr, of_rq, at + w::at + w::dbr_addr, 8);
  // A striding queue.
  for (const uint32_t strides : {0u, 11u}) {
    Command striding = b.rq();
    constexpr std::size_t wq = at + w::at;
    striding.set(wq, w::wq_type, w::cyclic_striding)
        .set(wq, w::single_wqe_log_num_of_strides, strides);
    striding.set(wq, w::single_stride_log_num_of_bytes, 2).set(wq, w::two_byte_shift_en, 1);
    EQUAL_FATAL(striding.make(b.c), 0);
    same(striding, wq, question(b, cmd::query_rq, striding), wq,
         {w::wq_type, w::single_wqe_log_num_of_strides, w::single_stride_log_num_of_bytes,
          w::two_byte_shift_en});
  }
  const Command domain = b.domain();
  Command tis(cmd::create_tis, prm::tisc::command_bytes);
  EQUAL_FATAL(tis.set(at, prm::tisc::transport_domain, domain.made()).make(b.c), 0);
  same(tis, at, question(b, cmd::query_tis, tis), prm::tisc::answer, {prm::tisc::transport_domain});
  namespace s = prm::sqc;
  Command sq(cmd::create_sq);
  sq.set(at, s::cqn, b.cq.made()).set(at, s::tis_lst_sz, 1).set(at, s::tis_num_0, tis.made());
  sq.set(at, s::user_index, 0x99).set(at, s::allow_multi_pkt_send_wqe, 1);
  add_ring(sq, b.qp_memory, b.pdn, 6);
  EQUAL_FATAL(sq.set(at + w::at, w::uar_page, b.uar).make(b.c), 0);
  const Command of_sq = question(b, cmd::query_sq, sq);
  same(sq, at, of_sq, at,
       {s::state, s::cqn, s::tis_lst_sz, s::tis_num_0, s::user_index, s::allow_multi_pkt_send_wqe,
        s::allow_swp});
  same(sq, at + w::at, of_sq, at + w::at, wq_fields);
  same(sq, at + w::at, of_sq, at + w::at, {w::uar_page});
}

// As libxlio asks a TIR directly behind its creation.
void tables_and_tirs() {
  namespace t = prm::tirc;
  Queues b;
  Command one = b.rq(), two = b.rq(0x322);
  Command table = b.table(one, two);
  const Command of_table = question(b, cmd::query_rqt, table);
  same(table, at, of_table, at, {prm::rqtc::rqt_max_size, prm::rqtc::rqt_actual_size});
  same_bytes(table, prm::queue_cmd::bytes, of_table, prm::queue_cmd::bytes, 8);
  (void)question(b, cmd::query_rqt, table, prm::queue_cmd::bytes + 4);  // room for one of them
  const Command domain = b.domain();
  Command direct(cmd::create_tir);
  direct.set(at, t::inline_rqn, one.made()).set(at, t::transport_domain, domain.made());
  EQUAL_FATAL(direct.set(at, t::self_lb_block, 1).make(b.c), 0);
  same(direct, at, question(b, cmd::query_tir, direct), at,
       {t::disp_type, t::inline_rqn, t::transport_domain, t::self_lb_block, t::rx_hash_fn,
        t::indirect_table});
  Command hashed(cmd::create_tir);
  hashed.set(at, t::disp_type, t::indirect).set(at, t::indirect_table, table.made());
  hashed.set(at, t::rx_hash_fn, t::hash_toeplitz).set(at, t::outer_fields, 0xf);
  hashed.set(at, t::outer_l3_is_ipv6, 1).set(at, t::outer_l4_is_udp, 1);
  hashed.set64(at + t::rx_hash_toeplitz_key, 0x6d5a56da255b0ec2);
  hashed.set(at, t::lro_enable_mask, 1).set(at, t::lro_max_msg_sz, 32);
  hashed.set(at, t::lro_timeout_period_usecs, 64);
  EQUAL_FATAL(hashed.make(b.c), 0);
  const auto check = [&](const Command& said) {
    const Command ask = question(b, cmd::query_tir, hashed);
    same(said, at, ask, at,
         {t::rx_hash_fn, t::outer_fields, t::outer_l3_is_ipv6, t::outer_l4_is_udp,
          t::inner_selector});
    same_bytes(said, at + t::rx_hash_toeplitz_key, ask, at + t::rx_hash_toeplitz_key, 40);
    return ask;
  };
  same(hashed, at, check(hashed), at,
       {t::disp_type, t::indirect_table, t::inline_rqn, t::lro_enable_mask, t::lro_max_msg_sz,
        t::lro_timeout_period_usecs, t::tunneled_offload_en});
  Command other(cmd::modify_tir);
  other.number(hashed.made()).set64(16, t::mask_hash | t::mask_self_lb);
  other.set(at, t::rx_hash_fn, t::hash_toeplitz).set(at, t::outer_fields, 3);
  other.set(at, t::self_lb_block, 2);
  EQUAL_FATAL(other.change(b.c, hashed.handle), 0);
  same(other, at, check(other), at, {t::self_lb_block});
  // What is shorter than a context is no answer.
  Command ask(cmd::query_tir, 16);
  ask.out.resize(prm::queue_cmd::bytes - 1);
  EQUAL(ask.number(hashed.made()).ask(b.c, hashed.handle), -EREMOTEIO);
  EQUAL(ask.number(direct.made()).ask(b.c, hashed.handle), -EINVAL);
}

void shared_receives_and_targets() {
  namespace d = prm::dctc;
  Queues b;
  Command rmp = b.rmp();
  EQUAL_FATAL(rmp.make(b.c), 0);
  const Command of_rmp = question(b, cmd::query_rmp, rmp);
  same(rmp, at, of_rmp, at, {prm::rmpc::state});
  same(rmp, at + w::at, of_rmp, at + w::at,
       {w::wq_type, w::pd, w::log_wq_stride, w::log_wq_sz, w::dbr_umem_id, w::wq_umem_id});
  Command dct(cmd::create_dct, d::command_bytes);
  dct.set(d::at, d::cqn, b.cq.made()).set(d::at, d::pd, b.pdn).set(d::at, d::mtu, 3);
  dct.set(d::at, d::srqn_xrqn, rmp.made()).set(d::at, d::port, 1).set(d::at, d::user_index, 0x55);
  dct.set(d::at, d::rwe, 1).set(d::at, d::min_rnr_nak, 9).set(d::at, d::tclass, 4);
  dct.set(d::at, d::hop_limit, 64).set(d::at, d::flow_label, 0x12345);
  dct.set64(d::at + d::dc_access_key, 0x1122334455667788);
  EQUAL_FATAL(dct.make(b.c), 0);
  const Command of_dct = question(b, cmd::query_dct, dct);
  same(dct, d::at, of_dct, d::at,
       {d::cqn, d::pd, d::mtu, d::srqn_xrqn, d::port, d::user_index, d::rre, d::rwe, d::rae,
        d::min_rnr_nak, d::tclass, d::hop_limit, d::flow_label, d::state, d::cs_res, d::pkey_index,
        d::my_addr_index});
  same_bytes(dct, d::at + d::dc_access_key, of_dct, d::at + d::dc_access_key, 8);
}

void general_objects() {
  Queues b;
  Command row(cmd::create_general_object, cmd::reserved_qpn_bytes);
  row.in[7] = cmd::object_reserved_qpn;
  row.in[cmd::log_obj_range] = kilim::vhca::hca::ReservedQpns::log_count;
  EQUAL_FATAL(row.make(b.c), 0);
  Command qp = b.qp();
  EQUAL_FATAL(qp.make(b.c), 0);
  Command mapping(cmd::create_general_object, cmd::av_qp_mapping_bytes);
  mapping.in[7] = cmd::object_av_qp_mapping;
  mapping.set32(cmd::av_qp_mapping_qpn, qp.made()).set64(40, 0x1234567890);
  EQUAL_FATAL(mapping.make(b.c), 0);
  const auto ask_of = [&](const Command& of) {
    Command ask(cmd::query_general_object, 16);
    ask.in[7] = of.in[7];
    EQUAL(ask.number(of.made()).ask(b.c, of.handle), 0);
    return ask;
  };
  (void)ask_of(row);
  same_bytes(mapping, 16, ask_of(mapping), 16, cmd::av_qp_mapping_bytes - 16);
}

Command question_of_table(Bench& b, uint16_t opcode, const Command& of, uint32_t table) {
  Command ask(opcode, fc::query_bytes);
  ask.out.resize(2048);
  ask.set(0, fc::table_id, table).set(0, fc::group_id, of.made()).set(0, fc::flow_index, 5);
  EQUAL(ask.ask(b.c, of.handle), 0);
  return ask;
}

void flow_tables() {
  namespace f = prm::flow_context;
  namespace c = prm::flow_table_context;
  Queues b("sw-steering");
  std::vector<Command> tables;
  for (const uint32_t level : {3u, 4u}) {
    Command t(cmd::create_flow_table, fc::table_bytes);
    t.set(fc::context, c::level, level).set(fc::context, c::reformat_en, 1);
    EQUAL_FATAL(t.make(b.c), 0);
    tables.push_back(t);
  }
  const uint32_t table = tables[0].made();
  same(tables[0], fc::context, question_of_table(b, cmd::query_flow_table, tables[0], table),
       fc::context, {c::level, c::reformat_en, c::sw_owner, c::table_miss_action});
  std::vector<Command> groups;
  for (uint32_t i = 0; i < 2; i++) {
    Command g(cmd::create_flow_group, fc::group_bytes);
    g.set(0, fc::table_id, table).set(0, fc::start_flow_index, 8 * i);
    EQUAL_FATAL(g.set(0, fc::end_flow_index, 8 * i + 7).make(b.c), 0);
    groups.push_back(g);
  }
  CU_ASSERT(groups[0].made() != groups[1].made());
  for (const Command& g : groups)
    same(g, 0, question_of_table(b, cmd::query_flow_group, g, table), 0,
         {fc::start_flow_index, fc::end_flow_index});
  Command counter(cmd::alloc_flow_counter, 32);
  EQUAL_FATAL(counter.make(b.c), 0);
  constexpr std::size_t entry = fc::flow_context, list = entry + f::destinations;
  Command e(cmd::set_flow_table_entry, fc::entry_bytes + 2 * f::destination_bytes);
  e.set(0, fc::table_id, table).set(0, fc::flow_index, 5).set(entry, f::flow_tag, 0x77);
  e.set(entry, f::group_id, groups[0].made()).set(entry, f::action, f::forward | f::count);
  e.set(entry, f::destination_list_size, 1).set(entry, f::flow_counter_list_size, 1);
  e.set(list, f::destination_type, f::to_table).set(list, f::destination_id, tables[1].made());
  e.set(list + f::destination_bytes, f::destination_id, counter.made());
  EQUAL_FATAL(e.make(b.c), 0);
  const Command of_entry = question_of_table(b, cmd::query_flow_table_entry, e, table);
  same(e, entry, of_entry, entry,
       {f::flow_tag, f::group_id, f::action, f::destination_list_size, f::flow_counter_list_size});
  same(e, list, of_entry, list, {f::destination_type, f::destination_id});
  same(e, list + f::destination_bytes, of_entry, list + f::destination_bytes, {f::destination_id});
}

void samplers_and_reformats() {
  namespace s = prm::flow_sampler;
  namespace r = prm::reformat_cmd;
  Queues b("sw-steering");
  Command table(cmd::create_flow_table, fc::table_bytes);
  EQUAL_FATAL(table.make(b.c), 0);
  Command sampler(cmd::create_general_object, 16 + s::bytes);
  sampler.in[7] = cmd::object_flow_sampler;
  sampler.set(16, s::sample_table_id, table.made()).set(16, s::default_table_id, table.made());
  EQUAL_FATAL(sampler.set(16, s::sample_ratio, 4).make(b.c), 0);
  Command ask(cmd::query_general_object, 16);
  ask.in[7] = cmd::object_flow_sampler;
  EQUAL(ask.number(sampler.made()).ask(b.c, sampler.handle), 0);
  same(sampler, 16, ask, 16,
       {s::sample_ratio, s::sample_table_id, s::default_table_id, s::table_type});
  Command reformat(cmd::alloc_packet_reformat, r::data + 50);
  reformat.set(0, r::type, r::l2_to_l3_tunnel).set(0, r::data_size, 50);
  for (std::size_t i = 0; i < 50; i++) reformat.in[r::data + i] = static_cast<uint8_t>(i + 1);
  EQUAL_FATAL(reformat.make(b.c), 0);
  const Command told = question(b, cmd::query_packet_reformat, reformat);
  same(reformat, 0, told, 0, {r::type, r::data_size});
  same_bytes(reformat, r::data, told, r::data, 50);
  (void)question(b, cmd::query_packet_reformat, reformat, r::data + 20);
}

constexpr Case cases[] = {
    {"completion queues", completion_queues},
    {"queue pairs", queue_pairs},
    {"receive and send queues", receive_and_send_queues},
    {"tables and TIRs", tables_and_tirs},
    {"shared receives and targets", shared_receives_and_targets},
    {"general objects", general_objects},
    {"flow tables", flow_tables},
    {"samplers and reformats", samplers_and_reformats},
};

}  // namespace
}  // namespace query_commands_ut

KILIM_TEST_SUITE(query_commands, query_commands_ut::cases)
