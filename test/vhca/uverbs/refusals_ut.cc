// SPDX-License-Identifier: BSD-3-Clause
// Commands of queues that the device refuses, a row each: a command that is good but for one thing,
// with the status and the syndrome of its answer. Nothing is made of it, and nothing that it names
// is held: the counts of all objects stay, and all that it names can be ended.
#include <cerrno>
#include <cstdio>
#include <memory>
#include <span>
#include <utility>

#include "queue_command_fixture.hh"
#include "ut.hh"
#include "vhca/hca/commands.hh"

namespace refusals_ut {
namespace {

using namespace kilim::test;
using kilim::be32;
using kilim::vhca::hca::commands::Refusal;
namespace prm = kilim::prm;
namespace cmd = kilim::prm::cmd;

constexpr uint8_t bad_param = 0x03, bad_resource = 0x05, no_resources = 0x0f, bad_input = 0x50;
constexpr std::size_t ctx = prm::queue_cmd::context, list = prm::queue_cmd::bytes,
                      wq = ctx + prm::wq_context::at;

std::unique_ptr<kilim::vhca::hca::Hca> with_tirs(uint32_t most) {
  kilim::vhca::hca::HcaConfig config;
  config.name = "vhca0";
  config.profile = *kilim::vhca::find_profile("cx6dx");
  config.profile.max_tir = most;
  return std::move(*kilim::vhca::hca::Hca::create(std::move(config)));
}

// Two receive queues, a table of them, and what send queues want.
struct Bench : SendRig {
  explicit Bench(uint32_t most_tirs = 64) : SendRig(with_tirs(most_tirs)) {
    for (Command* k : {&first, &second}) EQUAL_FATAL((*k = rq_command()).make(c), 0);
    table.set(ctx, prm::rqtc::rqt_max_size, 2).set(ctx, prm::rqtc::rqt_actual_size, 2);
    table.set32(list, first.made()).set32(list + 4, second.made());
    EQUAL_FATAL(table.make(c), 0);
  }
  [[nodiscard]] Command one_more_table() const {
    Command k(cmd::create_rqt, list + 8);
    k.in = table.in;
    return k;
  }
  [[nodiscard]] Command tir(uint32_t type) const {
    namespace t = prm::tirc;
    Command k(cmd::create_tir);
    k.set(ctx, t::disp_type, type).set(ctx, t::transport_domain, domain.made());
    if (type == t::direct) return k.set(ctx, t::inline_rqn, first.made());
    k.set(ctx, t::indirect_table, table.made()).set(ctx, t::rx_hash_fn, t::hash_toeplitz);
    return k.set(ctx, t::outer_fields, 3);
  }
  Command first{cmd::create_rq}, second{cmd::create_rq};
  Command table{cmd::create_rqt, list + 8};
};

struct Row {
  const char* what;
  void (*spoil)(Command&);
  uint8_t status;
  Refusal why;
};

// The command itself is done, and what it made can be ended.
void each_is_refused(Bench& b, const Command& good, std::span<const Row> rows) {
  const Census before = census(*b.c.hca);
  for (const Row& row : rows) {
    Command k(good);
    row.spoil(k);
    const int rc = k.make(b.c);
    const uint32_t why = k.out.size() < 8 ? 0
                                          : uint32_t{k.out[4]} << 24 | uint32_t{k.out[5]} << 16 |
                                                uint32_t{k.out[6]} << 8 | k.out[7];
    if (rc != -EREMOTEIO || k.out[0] != row.status) std::printf("\n    %s", row.what);
    EQUAL(rc, -EREMOTEIO);
    EQUAL(k.out[0], row.status);
    EQUAL(why, static_cast<uint32_t>(row.why));
    CU_ASSERT(same_census(before, census(*b.c.hca)));
  }
  Command again(good);
  EQUAL_FATAL(again.make(b.c), 0);
  EQUAL(end(b.c, again.handle), 0);
}

// clang-format off
void receive_queues() {
  namespace r = prm::rqc; namespace w = prm::wq_context;
  constexpr Row rows[] = {
    {"a hairpin", [](Command& k) { k.set(ctx, r::hairpin, 1); }, bad_param, Refusal::rq_context},
    {"memory of its own kind", [](Command& k) { k.set(ctx, r::mem_rq_type, 1); }, bad_param, Refusal::rq_context},
    {"delayed drops", [](Command& k) { k.set(ctx, r::delay_drop_en, 1); }, bad_param, Refusal::rq_context},
    {"it is ready at once", [](Command& k) { k.set(ctx, r::state, 1); }, bad_param, Refusal::rq_context},
    {"a linked list", [](Command& k) { k.set(wq, w::wq_type, w::linked); }, bad_param, Refusal::rq_context},
    {"a type that is none", [](Command& k) { k.set(wq, w::wq_type, 2); }, bad_param, Refusal::rq_context},
    {"a ring behind its umem", [](Command& k) { k.set64(wq + w::wq_umem_offset, 4096 - 255); }, bad_resource, Refusal::no_such_umem},
    {"a record behind its umem", [](Command& k) { k.set64(wq + w::dbr_addr, 4096 - 7); }, bad_resource, Refusal::no_such_umem},
    {"a counter of nobody", [](Command& k) { k.set(ctx, r::counter_set_id, 9); }, bad_resource, Refusal::no_such_counter},
    {"a completion queue of nobody", [](Command& k) { k.set(ctx, r::cqn, 1); }, bad_resource, Refusal::no_such_cq},
    {"a domain of nobody", [](Command& k) { k.set(wq, w::pd, 0xffffff); }, bad_resource, Refusal::no_such_pd},
  };
  Bench b;
  each_is_refused(b, b.rq_command(), rows);
}

void send_queues() {
  namespace s = prm::sqc; namespace w = prm::wq_context;
  constexpr Row rows[] = {
    {"a hairpin", [](Command& k) { k.set(ctx, s::hairpin, 1); }, bad_param, Refusal::sq_context},
    {"to no wire", [](Command& k) { k.set(ctx, s::non_wire, 1); }, bad_param, Refusal::sq_context},
    {"a rate", [](Command& k) { k.set(ctx, s::packet_pacing_rate_limit_index, 1); }, bad_param, Refusal::sq_context},
    {"it is ready at once", [](Command& k) { k.set(ctx, s::state, 1); }, bad_param, Refusal::sq_context},
    {"a linked list", [](Command& k) { k.set(wq, w::wq_type, w::linked); }, bad_param, Refusal::sq_context},
    {"units of 32 bytes", [](Command& k) { k.set(wq, w::log_wq_stride, 5); }, bad_param, Refusal::sq_context},
    {"more than the device has", [](Command& k) { k.set(wq, w::log_wq_sz, 31); }, bad_param, Refusal::sq_context},
    {"no TIS", [](Command& k) { k.set(ctx, s::tis_lst_sz, 0); }, bad_resource, Refusal::no_such_tis},
    {"two TISes", [](Command& k) { k.set(ctx, s::tis_lst_sz, 2); }, bad_resource, Refusal::no_such_tis},
    {"a TIS of nobody", [](Command& k) { k.set(ctx, s::tis_num_0, 0x777); }, bad_resource, Refusal::no_such_tis},
    {"a ring behind its umem", [](Command& k) { k.set64(wq + w::wq_umem_offset, 4096 - 1023); }, bad_resource, Refusal::no_such_umem},
    {"a completion queue of nobody", [](Command& k) { k.set(ctx, s::cqn, 1); }, bad_resource, Refusal::no_such_cq},
    {"a domain of nobody", [](Command& k) { k.set(wq, w::pd, 0xffffff); }, bad_resource, Refusal::no_such_pd},
    {"a doorbell page of nobody", [](Command& k) { k.set(wq, w::uar_page, 900); }, bad_param, Refusal::no_such_uar},
  };
  Bench b;
  each_is_refused(b, b.sq_command(b.wq_memory), rows);
}

void tables() {
  namespace t = prm::rqtc;
  constexpr Row rows[] = {
    {"more places than came", [](Command& k) { k.set(ctx, t::rqt_actual_size, 3); }, bad_input, Refusal::list_length},
    {"more places than it may have", [](Command& k) { k.set(ctx, t::rqt_max_size, 1); }, bad_param, Refusal::rqt_context},
    {"a queue of nobody", [](Command& k) { k.set32(list + 4, 0x777); }, bad_resource, Refusal::no_such_queue},
    {"no place", [](Command& k) { k.set(ctx, t::rqt_actual_size, 0); }, bad_param, Refusal::rqt_context},
  };
  Bench b;
  each_is_refused(b, b.one_more_table(), rows);
}

void tirs() {
  namespace t = prm::tirc;
  constexpr Row any[] = {
    {"neither one queue nor a table", [](Command& k) { k.set(ctx, t::disp_type, 2); }, bad_param, Refusal::tir_context},
    {"fields and no hash", [](Command& k) { k.set(ctx, t::rx_hash_fn, t::hash_none).set(ctx, t::outer_fields, 3); }, bad_param, Refusal::tir_context},
    {"a symmetric hash", [](Command& k) { k.set(ctx, t::rx_hash_symmetric, 1); }, bad_param, Refusal::tir_context},
    {"joined segments of no length", [](Command& k) { k.set(ctx, t::lro_enable_mask, 1); }, bad_param, Refusal::tir_context},
    {"joined segments of a third kind", [](Command& k) { k.set(ctx, t::lro_enable_mask, 4).set(ctx, t::lro_max_msg_sz, 32); }, bad_param, Refusal::tir_context},
    {"a hash by inner headers of no tunnel", [](Command& k) { k.set(ctx, t::inner_fields, 3); }, bad_param, Refusal::tir_context},
    {"a domain of nobody", [](Command& k) { k.set(ctx, t::transport_domain, 0x777); }, bad_resource, Refusal::no_such_domain},
  };
  constexpr Row spread[] = {
    {"another hash", [](Command& k) { k.set(ctx, t::rx_hash_fn, 1); }, bad_param, Refusal::tir_context},
    {"a field of IPsec", [](Command& k) { k.set(ctx, t::outer_fields, 0x13); }, bad_param, Refusal::tir_context},
    {"nothing to choose by", [](Command& k) { k.set(ctx, t::outer_fields, 0); }, bad_param, Refusal::tir_context},
    {"inner and outer headers", [](Command& k) { k.set(ctx, t::tunneled_offload_en, 1).set(ctx, t::inner_fields, 3); }, bad_param, Refusal::tir_context},
    {"a table of nobody", [](Command& k) { k.set(ctx, t::indirect_table, 0x777); }, bad_resource, Refusal::no_such_queue},
  };
  constexpr Row direct[] = {
    {"a queue of nobody", [](Command& k) { k.set(ctx, t::inline_rqn, 0x777); }, bad_resource, Refusal::no_such_queue},
  };
  // clang-format on
  Bench b;
  for (const uint32_t type : {t::direct, t::indirect}) each_is_refused(b, b.tir(type), any);
  each_is_refused(b, b.tir(t::indirect), spread);
  each_is_refused(b, b.tir(t::direct), direct);
}

// One queue is a table of one place, which goes again where there are no more TIRs.
void a_tir_beyond_the_last_leaves_no_table() {
  Bench b(1);
  Command last = b.tir(prm::tirc::direct), more = last;
  EQUAL_FATAL(last.make(b.c), 0);
  const Census before = census(*b.c.hca);
  EQUAL(more.make(b.c), -EREMOTEIO);
  EQUAL(more.out[0], no_resources);
  CU_ASSERT(same_census(before, census(*b.c.hca)));
  EQUAL(end(b.c, last.handle), 0);
  EQUAL(more.make(b.c), 0);
}

// Numbers of nothing, and of what is in use.
void ends() {
  Bench b;
  Command t = b.tir(prm::tirc::indirect), sq = b.sq_command(b.wq_memory);
  EQUAL_FATAL(t.make(b.c), 0);
  EQUAL_FATAL(sq.make(b.c), 0);
  const Census before = census(*b.c.hca);
  for (const Command* k : {&b.cq, &b.first, &b.second, &b.table, &b.domain, &b.tis})
    EQUAL(end(b.c, k->handle), -EREMOTEIO);
  CU_ASSERT(same_census(before, census(*b.c.hca)));
  for (const Command* k : {&t, &sq, &b.table, &b.first, &b.second, &b.tis, &b.domain, &b.cq})
    EQUAL(end(b.c, k->handle), 0);
  for (const Command* k : {&t, &sq, &b.table, &b.first, &b.second, &b.tis, &b.domain, &b.cq})
    EQUAL(end(b.c, k->handle), -ENOENT);
}

constexpr Case cases[] = {
    {"receive queues", receive_queues},
    {"send queues", send_queues},
    {"tables", tables},
    {"TIRs", tirs},
    {"a TIR beyond the last leaves no table", a_tir_beyond_the_last_leaves_no_table},
    {"objects that are used, and none", ends},
};

}  // namespace
}  // namespace refusals_ut

KILIM_TEST_SUITE(refusals, refusals_ut::cases)
