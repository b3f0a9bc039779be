// SPDX-License-Identifier: BSD-3-Clause
// For tests of queues by firmware commands: an open with a completion queue and memory for work
// queues, and commands that make queues of them. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "firmware_command_fixture.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/queue_cmd.hh"
#include "request_fixture.hh"
#include "ut.hh"
#include "vhca/hca/hca.hh"

namespace kilim::test {

using QueueMemory = RingMemory<2048>;

inline Command cq_command(const QueueMemory& m, uint32_t uar) {
  namespace c = prm::cqc;
  Command k(prm::cmd::create_cq);
  k.set(16, c::log_cq_size, 4).set(16, c::uar_page, uar).set(16, c::c_eqn, 1);
  k.set(16, c::dbr_umem_valid, 1).set(16, c::dbr_umem_id, m.number);
  k.set64(16 + c::dbr_addr, QueueMemory::record);
  k.set(0, prm::cq_cmd::umem_valid, 1).set(0, prm::cq_cmd::umem_id, m.number);
  return k;
}

// The work queue of an SQ or RQ of 16 entries.
inline void add_wq(Command& k, const QueueMemory& m, uint32_t pdn, uint32_t log_stride) {
  namespace w = prm::wq_context;
  constexpr std::size_t at = 32 + w::at;
  k.set(at, w::wq_type, w::cyclic).set(at, w::pd, pdn).set(at, w::log_wq_stride, log_stride);
  k.set(at, w::log_wq_sz, 4).set(at, w::wq_umem_valid, 1).set(at, w::dbr_umem_valid, 1);
  k.set(at, w::wq_umem_id, m.number).set(at, w::dbr_umem_id, m.number);
  k.set64(at + w::dbr_addr, QueueMemory::record);
}

// What most queues need.
struct QueueRig {
  explicit QueueRig(std::shared_ptr<vhca::hca::Hca> of = make_hca()) : c(std::move(of)) {
    EQUAL_FATAL(c.alloc_pd(pd, &pdn), 0);
    EQUAL_FATAL(c.alloc_uar(uar), 0);
    EQUAL_FATAL(cq_memory.enter(c), 0);
    EQUAL_FATAL(wq_memory.enter(c, 4096, 0), 0);
    cq = cq_command(cq_memory, uar);
    EQUAL_FATAL(cq.make(c), 0);
  }
  Command rq_command() {
    Command k(prm::cmd::create_rq);
    k.set(32, prm::rqc::vsd, 1).set(32, prm::rqc::cqn, cq.made());
    add_wq(k, wq_memory, pdn, 4);
    return k;
  }
  Client c;
  QueueMemory cq_memory, wq_memory;
  uint32_t pd = 0, pdn = 0, uar = 0;
  Command cq{prm::cmd::create_cq};
};

// A domain and a TIS, which send queues want.
struct SendRig : QueueRig {
  explicit SendRig(std::shared_ptr<vhca::hca::Hca> of = make_hca()) : QueueRig(std::move(of)) {
    EQUAL_FATAL(domain.make(c), 0);
    EQUAL_FATAL(tis.set(32, prm::tisc::transport_domain, domain.made()).make(c), 0);
  }
  Command sq_command(const QueueMemory& m) const {
    Command k(prm::cmd::create_sq);
    k.set(32, prm::sqc::cqn, cq.made()).set(32, prm::sqc::tis_lst_sz, 1);
    add_wq(k, m, pdn, 6);
    k.set(32 + prm::wq_context::at, prm::wq_context::uar_page, uar);
    return k.set(32, prm::sqc::tis_num_0, tis.made());
  }
  Command domain{prm::cmd::alloc_transport_domain, 16};
  Command tis{prm::cmd::create_tis, prm::tisc::command_bytes};
};

}  // namespace kilim::test
