// SPDX-License-Identifier: BSD-3-Clause
// Queues by firmware commands: memory by number, completion, send and receive queues, tables and
// TIRs made, changed and ended, refused where a length, number or owner lies; events.
#include <array>
#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include "queue_command_fixture.hh"
#include "ut.hh"
#include "vhca/hca/hca.hh"

namespace queue_commands_ut {
namespace {

using namespace kilim::test;
using kilim::be32;
using kilim::be64;
namespace prm = kilim::prm;
namespace cmd = kilim::prm::cmd;
using Memory = QueueMemory;
using Rig = QueueRig;

// State in the command, state in the context.
Command state_command(uint16_t opcode, uint32_t number, uint32_t from, uint32_t to) {
  Command k(opcode);
  k.set32(8, from << 28 | number);
  k.set(32, prm::rqc::state, to);
  return k;
}

void memory_holds_until_its_queue_goes() {
  Rig r;
  EQUAL(r.cq_memory.leave(r.c), -EBUSY);
  EQUAL(end(r.c, r.cq.handle), 0);
  EQUAL(r.cq_memory.leave(r.c), 0);
  Command again = cq_command(r.cq_memory, r.uar);
  EQUAL(again.make(r.c), -EREMOTEIO);
  EQUAL(again.out[0], 0x05);
}

void memory_is_checked_as_a_region_is() {
  Client c;
  Memory m;
  EQUAL(m.enter(c, 0), -EINVAL);
  EQUAL(m.enter(c, ~uint64_t{0}), -EINVAL);
  EQUAL(m.enter(c, 4096, 1u << 6), -EINVAL);
  EQUAL(m.enter(c, 4096, IB_UVERBS_ACCESS_REMOTE_WRITE), -EINVAL);
  EQUAL(m.enter(c), 0);
  EQUAL(m.leave(c), 0);
}

void a_completion_queue_lies_within_its_memory() {
  Rig r;
  namespace k = prm::cq_cmd;
  const auto refused = [&](Command command, uint8_t status) {
    EQUAL(command.make(r.c), -EREMOTEIO);
    EQUAL(command.out[0], status);
  };
  const Command good = cq_command(r.cq_memory, r.uar);
  refused(Command(good).set64(k::umem_offset, 3073), 0x05);
  refused(Command(good).set64(k::umem_offset, ~uint64_t{0} - 100), 0x05);
  refused(Command(good).set64(16 + prm::cqc::dbr_addr, 4096 - 4), 0x05);
  refused(Command(good).set(0, k::umem_id, 77), 0x05);
  refused(Command(good).set(16, prm::cqc::log_cq_size, 31), 0x03);
  refused(Command(good).set(16, prm::cqc::c_eqn, 9), 0x03);
  refused(Command(good).set(16, prm::cqc::uar_page, 900), 0x03);
  Memory read_only;
  EQUAL(read_only.enter(r.c, 4096, 0), 0);
  refused(cq_command(read_only, r.uar), 0x05);
  EQUAL(Command(good).make(r.c), 0);
}

void another_open_cannot_name_the_memory() {
  Rig r;
  kilim::vhca::uverbs::DeviceFile other(*r.c.hca);
  EQUAL_FATAL(get_context(other), 0);
  std::unique_ptr<kilim::vhca::uverbs::DeviceFile> mine = std::move(r.c.file);
  r.c.file = std::make_unique<kilim::vhca::uverbs::DeviceFile>(*r.c.hca);
  EQUAL_FATAL(get_context(*r.c.file), 0);
  Command stolen = cq_command(r.cq_memory, r.uar);
  EQUAL(stolen.make(r.c), -EREMOTEIO);
  EQUAL(stolen.out[0], 0x05);
  std::swap(r.c.file, mine);
  EQUAL(cq_command(r.cq_memory, r.uar).make(r.c), 0);
}

void receive_queues_go_from_state_to_state() {
  Rig r;
  Command rq = r.rq_command();
  EQUAL_FATAL(rq.make(r.c), 0);
  EQUAL(end(r.c, r.cq.handle), -EREMOTEIO);  // it is used
  EQUAL(state_command(cmd::modify_rq, rq.made(), 1, 1).change(r.c, rq.handle), -EREMOTEIO);
  EQUAL(state_command(cmd::modify_rq, rq.made(), 0, 1).change(r.c, rq.handle), 0);
  Command ask(cmd::query_rq, 16);
  EQUAL(ask.set32(8, rq.made()).ask(r.c, rq.handle), 0);
  EQUAL(ask.answer(32, prm::rqc::state), 1);
  EQUAL(ask.answer(32, prm::rqc::vsd), 1);
  EQUAL(state_command(cmd::modify_rq, rq.made(), 1, 2).change(r.c, rq.handle), -EREMOTEIO);
  EQUAL(state_command(cmd::modify_rq, rq.made() + 1, 1, 0).change(r.c, rq.handle), -EINVAL);
  EQUAL(state_command(cmd::modify_rq, rq.made(), 1, 0).change(r.c, rq.handle), 0);
  EQUAL(end(r.c, rq.handle), 0);
}

void receive_queues_are_refused_what_is_not_there() {
  Rig r;
  const auto refused = [&](Command command, uint8_t status) {
    EQUAL(command.make(r.c), -EREMOTEIO);
    EQUAL(command.out[0], status);
  };
  constexpr std::size_t wq = 32 + prm::wq_context::at;
  const Command good = r.rq_command();
  refused(Command(good).set(32, prm::rqc::hairpin, 1), 0x03);
  refused(Command(good).set(32, prm::rqc::mem_rq_type, 1), 0x03);
  refused(Command(good).set(32, prm::rqc::delay_drop_en, 1), 0x03);
  refused(Command(good).set(32, prm::rqc::counter_set_id, 9), 0x05);
  refused(Command(good).set(32, prm::rqc::cqn, 1), 0x05);
  refused(Command(good).set(wq, prm::wq_context::wq_type, 0), 0x03);
  refused(Command(good).set(wq, prm::wq_context::log_wq_sz, 31), 0x05);
  refused(Command(good).set(wq, prm::wq_context::pd, 0xffffff), 0x05);
  refused(Command(good).set64(wq + prm::wq_context::wq_umem_offset, 4096 - 255), 0x05);
}

void send_queues_want_a_tis_and_start() {
  Rig r;
  Command domain(cmd::alloc_transport_domain, 16);
  EQUAL_FATAL(domain.make(r.c), 0);
  Command tis(cmd::create_tis, prm::tisc::command_bytes);
  EQUAL_FATAL(tis.set(32, prm::tisc::transport_domain, domain.made()).make(r.c), 0);
  Command sq(cmd::create_sq);
  sq.set(32, prm::sqc::cqn, r.cq.made()).set(32, prm::sqc::tis_lst_sz, 1);
  add_wq(sq, r.wq_memory, r.pdn, 6);
  sq.set(32 + prm::wq_context::at, prm::wq_context::uar_page, r.uar);
  EQUAL(Command(sq).make(r.c), -EREMOTEIO);  // no TIS
  EQUAL_FATAL(sq.set(32, prm::sqc::tis_num_0, tis.made()).make(r.c), 0);
  EQUAL(end(r.c, tis.handle), -EREMOTEIO);
  EQUAL(end(r.c, domain.handle), -EREMOTEIO);
  EQUAL(state_command(cmd::modify_sq, sq.made(), 0, 1).change(r.c, sq.handle), 0);
  EQUAL(r.c.hca->qps.at(sq.made())->state, kilim::vhca::QpState::rts);
  EQUAL(state_command(cmd::modify_sq, sq.made(), 0, 1).change(r.c, sq.handle), -EREMOTEIO);
  // As DPDK recovers: it takes a queue that failed to be ready.
  EQUAL(state_command(cmd::modify_sq, sq.made(), 1, 3).change(r.c, sq.handle), 0);
  EQUAL(state_command(cmd::modify_sq, sq.made(), 1, 0).change(r.c, sq.handle), 0);
  EQUAL(state_command(cmd::modify_sq, sq.made(), 0, 1).change(r.c, sq.handle), 0);
  for (const uint32_t handle : {sq.handle, tis.handle, domain.handle}) EQUAL(end(r.c, handle), 0);
}

// Wherever it ends, and whatever is too short for its answer.
void commands_cut_short_make_nothing() {
  SendRig r;
  Command tir(cmd::create_tir);
  tir.set(32, prm::tirc::disp_type, prm::tirc::direct);
  Command table(cmd::create_rqt, 272 + 8);
  table.set(32, prm::rqtc::rqt_max_size, 2).set(32, prm::rqtc::rqt_actual_size, 2);
  const kilim::vhca::hca::Hca& h = *r.c.hca;
  const auto made = [&h] {
    return h.cqs.count() + h.rqs.count() + h.qps.count() + h.rqts.count() + h.tirs.count() +
           h.tises.count();
  };
  const std::size_t before = made();
  const Command whole[] = {
      cq_command(r.cq_memory, r.uar), r.rq_command(), r.sq_command(r.wq_memory), table, tir, r.tis};
  for (const Command& k : whole) {
    for (std::size_t n = 0; n < k.in.size(); n++) {
      Command cut(k);
      cut.in.resize(n);
      CU_ASSERT(cut.make(r.c) < 0);
    }
    for (std::size_t n = 0; n < 16; n++) {
      Command cut(k);
      cut.out.resize(n);
      CU_ASSERT(cut.make(r.c) < 0);
    }
  }
  EQUAL(made(), before);
}

// The ring and the record of a queue that runs go away: it fails, and everything can be ended.
void memory_gone_under_a_queue_fails_it_alone() {
  SendRig r;
  void* at =
      ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CU_ASSERT_FATAL(at != MAP_FAILED);
  auto* gone = new (at) Memory;
  EQUAL_FATAL(gone->enter(r.c, 4096, 0), 0);
  Command lost = r.sq_command(*gone), kept = r.sq_command(r.wq_memory);
  for (Command* k : {&lost, &kept}) {
    EQUAL_FATAL(k->make(r.c), 0);
    EQUAL(state_command(cmd::modify_sq, k->made(), 0, 1).change(r.c, k->handle), 0);
  }
  // Its place stays taken: nobody else is given it.
  constexpr int alone = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  CU_ASSERT_TRUE(::mmap(at, 4096, PROT_NONE, alone, -1, 0) == at);
  r.c.hca->expect_stores();  // as if a doorbell had come
  (void)r.c.hca->run();
  const auto state_of = [&r](const Command& k) {
    Command ask(cmd::query_sq, 16);
    EQUAL(ask.set32(8, k.made()).ask(r.c, k.handle), 0);
    return ask.answer(32, prm::sqc::state);
  };
  EQUAL(state_of(lost), prm::queue_cmd::state_error);
  EQUAL(state_of(kept), prm::queue_cmd::state_ready);
  EQUAL(gone->leave(r.c), -EBUSY);
  EQUAL(end(r.c, lost.handle), 0);
  EQUAL(gone->leave(r.c), 0);
  EQUAL(end(r.c, kept.handle), 0);
  EQUAL(::munmap(at, sizeof(Memory)), 0);
}

void a_tir_spreads_over_a_table_that_may_change() {
  Rig r;
  Memory more;
  EQUAL_FATAL(more.enter(r.c), 0);
  Command first = r.rq_command(), second = r.rq_command();
  EQUAL_FATAL(first.make(r.c), 0);
  EQUAL_FATAL(second.make(r.c), 0);
  Command table(cmd::create_rqt, 272 + 8);
  table.set(32, prm::rqtc::rqt_max_size, 2).set(32, prm::rqtc::rqt_actual_size, 2);
  EQUAL(Command(table).set(32, prm::rqtc::rqt_actual_size, 400).make(r.c), -EREMOTEIO);
  table.set32(272, first.made()).set32(276, second.made());
  EQUAL_FATAL(table.make(r.c), 0);
  namespace t = prm::tirc;
  Command tir(cmd::create_tir);
  tir.set(32, t::disp_type, t::indirect).set(32, t::indirect_table, table.made());
  tir.set(32, t::rx_hash_fn, t::hash_toeplitz).set(32, t::outer_fields, 3);
  EQUAL(Command(tir).set(32, t::rx_hash_symmetric, 1).make(r.c), -EREMOTEIO);
  EQUAL(Command(tir).set(32, t::lro_enable_mask, 1).make(r.c), -EREMOTEIO);
  EQUAL(Command(tir).set(32, t::transport_domain, 99).make(r.c), -EREMOTEIO);
  EQUAL(Command(tir).set(32, t::outer_fields, 0).make(r.c), -EREMOTEIO);
  EQUAL_FATAL(tir.make(r.c), 0);
  EQUAL(end(r.c, table.handle), -EREMOTEIO);
  Command swap(cmd::modify_rqt, 272 + 8);
  swap.set32(8, table.made()).set64(16, prm::rqtc::mask_list);
  swap.set(32, prm::rqtc::rqt_actual_size, 2);
  swap.set32(272, second.made()).set32(276, second.made());
  EQUAL(swap.change(r.c, table.handle), 0);
  EQUAL(end(r.c, second.handle), -EREMOTEIO);
  EQUAL(end(r.c, first.handle), 0);  // in no place any more
  Command hash(cmd::modify_tir);
  hash.set32(8, tir.made()).set64(16, t::mask_hash);
  hash.set(32, t::rx_hash_fn, t::hash_toeplitz).set(32, t::outer_fields, 0xf);
  hash.set(32, t::outer_l4_is_udp, 1);
  EQUAL(hash.change(r.c, tir.handle), 0);
  EQUAL(r.c.hca->tirs.at(tir.made())->spec.l4_protocol, 17);
  // Large receives without a length.
  hash.set64(16, t::mask_lro).set(32, t::lro_enable_mask, 1);
  EQUAL(hash.change(r.c, tir.handle), -EREMOTEIO);
  for (const uint32_t handle : {tir.handle, table.handle, second.handle})
    EQUAL(end(r.c, handle), 0);
}

void counters_are_of_the_queues_that_name_them() {
  Rig r;
  Command counter(cmd::alloc_q_counter, 16);
  EQUAL_FATAL(counter.make(r.c), 0);
  Command rq = r.rq_command();
  EQUAL_FATAL(rq.set(32, prm::rqc::counter_set_id, counter.made()).make(r.c), 0);
  EQUAL(end(r.c, counter.handle), -EREMOTEIO);
  r.c.hca->rqs.at(rq.made())->counter->out_of_buffer = 5;
  Command ask(cmd::query_q_counter, prm::q_counter::command_bytes);
  ask.set(0, prm::q_counter::counter_set_id, counter.made());
  EQUAL(ask.set(0, prm::q_counter::clear, 1).ask(r.c, counter.handle), 0);
  EQUAL(ask.out[prm::q_counter::out_of_buffer + 3], 5);
  EQUAL(ask.ask(r.c, counter.handle), 0);
  EQUAL(ask.out[prm::q_counter::out_of_buffer + 3], 0);
  EQUAL(end(r.c, rq.handle), 0);
  EQUAL(end(r.c, counter.handle), 0);
}

void events_come_to_who_has_subscribed() {
  Rig r;
  Ioctl file(MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD, MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC);
  const uint32_t bare = MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA;
  EQUAL_FATAL(file.handle(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE)
                  .in(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS, bare)
                  .run(*r.c.file),
              0);
  const int fd = static_cast<int>(file.attr(0).data);
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  const uint16_t completion = 0;
  const uint64_t cookie = 0x1234567890;
  const auto subscribe = [&](uint64_t to) {
    return Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT)
        .raw(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE, 0, to)
        .handle(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE, r.cq.handle)
        .in(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, completion)
        .in(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, cookie)
        .run(*r.c.file);
  };
  uint64_t got = 0;
  EQUAL(subscribe(0), -EBADF);
  raise_completion(*r.c.hca, r.cq.made());  // to nobody
  EQUAL(::read(fd, &got, sizeof got), -1);
  EQUAL_FATAL(subscribe(static_cast<uint64_t>(fd)), 0);
  raise_completion(*r.c.hca, r.cq.made());
  EQUAL(::read(fd, &got, sizeof got), 8);
  EQUAL(got, cookie);
  EQUAL(end(r.c, r.cq.handle), 0);
  ::close(fd);
}

void an_open_takes_everything_with_it() {
  Rig r;
  Command rq = r.rq_command();
  EQUAL_FATAL(rq.make(r.c), 0);
  Command tir(cmd::create_tir);
  tir.set(32, prm::tirc::disp_type, prm::tirc::direct);
  EQUAL_FATAL(tir.set(32, prm::tirc::inline_rqn, rq.made()).make(r.c), 0);
  EQUAL(end(r.c, rq.handle), -EREMOTEIO);
  r.c.file.reset();
  EQUAL(r.c.hca->cqs.count() + r.c.hca->rqs.count() + r.c.hca->tirs.count(), 0);
  EQUAL(r.c.hca->rqts.count() + r.c.hca->pds.count(), 0);
}

constexpr Case cases[] = {
    {"memory holds until its queue goes", memory_holds_until_its_queue_goes},
    {"memory is checked as a region is", memory_is_checked_as_a_region_is},
    {"a completion queue lies within its memory", a_completion_queue_lies_within_its_memory},
    {"another open cannot name the memory", another_open_cannot_name_the_memory},
    {"receive queues go from state to state", receive_queues_go_from_state_to_state},
    {"receive queues are refused what is not there", receive_queues_are_refused_what_is_not_there},
    {"send queues want a TIS and start", send_queues_want_a_tis_and_start},
    {"commands that are cut short make nothing", commands_cut_short_make_nothing},
    {"memory gone under a queue fails it alone", memory_gone_under_a_queue_fails_it_alone},
    {"a TIR spreads over a table that may change", a_tir_spreads_over_a_table_that_may_change},
    {"counters are of the queues that name them", counters_are_of_the_queues_that_name_them},
    {"events come to who has subscribed", events_come_to_who_has_subscribed},
    {"an open takes everything with it", an_open_takes_everything_with_it},
};

}  // namespace
}  // namespace queue_commands_ut

KILIM_TEST_SUITE(queue_commands, queue_commands_ut::cases)
