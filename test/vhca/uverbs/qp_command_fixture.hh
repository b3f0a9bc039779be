// SPDX-License-Identifier: BSD-3-Clause
// What tests of queue pairs and queues of tags by firmware commands share: a client with a
// completion queue and memory, the commands that make queues there, and the cases of the second
// file. On the thread that runs them.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include "firmware_command_fixture.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/qp_context.hh"
#include "kilim/prm/queue_cmd.hh"
#include "request_fixture.hh"
#include "ut.hh"

namespace kilim::test {

namespace cmd = prm::cmd;
namespace q = prm::qpc;

using Memory = RingMemory<4096 - 64>;
inline constexpr std::size_t context = prm::qp_cmd::in_context;

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

inline Command step(uint16_t opcode, uint32_t qpn) {
  constexpr std::size_t path = context + q::primary_address_path;
  Command k(opcode);
  k.number(qpn).set(path, prm::ads::vhca_port_num, 1);
  if (opcode == cmd::qp_init2rtr)
    k.set(path, prm::ads::fl, 1).set(context, q::mtu, 1).set(context, q::remote_qpn, qpn);
  return k;
}

inline uint32_t state_of(Bench& b, const Command& qp) {
  Command ask(cmd::query_qp, 16);
  EQUAL(ask.number(qp.made()).ask(b.c, qp.handle), 0);
  return ask.out[prm::qp_cmd::out_context] >> 4;
}

// A field of a command that is not what it should be.
struct Lie {
  std::size_t at;
  prm::CapField field;
  uint32_t value;
};

// Those of tag_queue_commands.cc.
std::span<const Case> tag_queue_command_cases();

}  // namespace kilim::test
