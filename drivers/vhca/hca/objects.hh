// SPDX-License-Identifier: BSD-3-Clause
// What a client makes in an adapter, changes and unmakes: domains, keys, queues. Adapter's lock
// held; control path, allocates. Everything a client says is checked; errors are positive errno
// values in a Result and negative ones in an int, as mlx5_ib answers. Whether the adapter is dead
// is the caller's to ask (uverbs does, for each method).
#pragma once

#include <cstdint>
#include <span>

#include "vhca/hca/hca.hh"

namespace kilim::vhca::hca {

// regions.cc: protection domains and keys.
// `open`: whose it is; commands of others cannot name it.
Result<Pdn> alloc_pd(Hca&, const EventSink* open = nullptr);
int dealloc_pd(Hca&, Pdn);  // EBUSY: queues or keys use it
// EFAULT: not mapped, or not writable as asked.
Result<MrKeys> reg_mr(Hca&, const MrSpec&);
Result<MrKeys> reg_dm_mr(Hca&, const DmMrSpec&);
// Changes what a region's key stands for, the key stays; a refused change leaves it as it was.
int rereg_mr(Hca&, MkeyIndex, const MrSpec&);
int dereg_mr(Hca&, MkeyIndex);
// Memory windows; what they show is bound on send queues.
Result<Rkey> alloc_mw(Hca&, Pdn, bool type2);
int dealloc_mw(Hca&, MkeyIndex);

// Advice on regions with on-demand paging.
struct Advice {
  Pdn pd;
  uint32_t advice = 0;  // IB_UVERBS_ADVISE_MR_ADVICE_*
  bool flush = false;   // done when the call returns; otherwise begun
  struct Range {
    uint64_t address;
    uint32_t bytes;
    uint32_t lkey;
  };
  std::span<const Range> list;
};
int advise_mr(Hca&, const Advice&);

// completion_queues.cc. `sink` gets their events and outlives them.
Result<Cqn> create_cq(Hca&, const CqSpec&, EventSink* sink);
// The entries not yet read stay in the old ring, for the client to carry over.
int resize_cq(Hca&, Cqn, Va buf, uint32_t cqe_count);
// An event waits for `count` entries or `period_us`, whichever comes first; 0: not for that.
int moderate_cq(Hca&, Cqn, uint16_t count, uint16_t period_us);
int destroy_cq(Hca&, Cqn);

// queue_pairs.cc.
Result<Qpn> create_qp(Hca&, const QpSpec&, EventSink* sink);
Result<QpAttr> query_qp(const Hca&, Qpn);
// One more handle on an XRC target of that domain. EINVAL: there is none.
int open_qp(Hca&, Qpn, uint32_t xrcd, const wq::QpHandle&);
// `owner` is the handle that goes; with the last one the queue pair goes. EBUSY: it is in a group.
int destroy_qp(Hca&, Qpn, const void* owner = nullptr);

// receive_queues.cc, PRM: "CREATE_RQ", "MODIFY_RQ". EBUSY: a table names it.
Result<uint32_t> create_rq(Hca&, const RqSpec&, EventSink* sink);
int modify_rq(Hca&, uint32_t rqn, const RqChange&) noexcept;
int destroy_rq(Hca&, uint32_t rqn);

// receive_tables.cc, PRM: "CREATE_RQT", "CREATE_TIR". A table has a power of two of places; EBUSY:
// a TIR uses it, a rule leads there.
Result<uint32_t> create_rqt(Hca&, std::span<const uint32_t> rqns, const EventSink* open = nullptr);
int destroy_rqt(Hca&, uint32_t rqtn);
// PRM: "MODIFY_RQT". EINVAL: no such queue, or a number of places that its TIRs cannot use.
int modify_rqt(Hca&, uint32_t rqtn, std::span<const uint32_t> rqns);
// `sink` is the client whose frames its own queues do not get.
Result<uint32_t> create_tir(Hca&, const TirSpec&, EventSink* sink);
int destroy_tir(Hca&, uint32_t tirn);
// Of a raw packet queue pair, as cards have one for each: rules of software's name it.
Result<uint32_t> create_qp_tir(Hca&, Qpn);
int destroy_qp_tir(Hca&, uint32_t tirn);
// PRM: "MODIFY_TIR": table and hash; rules that lead there stay.
int modify_tir(Hca&, uint32_t tirn, const TirSpec&);

// devx_tis.cc, PRM: "ALLOC_TRANSPORT_DOMAIN", "CREATE_TIS". EINVAL: there is none; EBUSY: it is
// used.
Result<uint32_t> alloc_domain(Hca&, const EventSink* open);
int dealloc_domain(Hca&, uint32_t domain);
Result<uint32_t> create_tis(Hca&, uint32_t domain, const EventSink* open);
int destroy_tis(Hca&, uint32_t tisn);

// modify_qp.cc, PRM: "RST2INIT_QP ... 2RST_QP": from state to state. `mask` is of qp_mask; if it is
// refused, nothing is changed.
int modify_qp(Hca&, Qpn, const QpAttr&, uint32_t mask) noexcept;

// shared_receive.cc, PRM: "CREATE_SRQ", "CREATE_XRC_SRQ", "ALLOC_XRCD". Queues and domains by
// number.
Result<uint32_t> create_srq(Hca&, const SrqSpec&, EventSink*);
int set_srq_limit(Hca&, uint32_t srqn, uint32_t limit);
Result<uint32_t> query_srq_limit(const Hca&, uint32_t srqn);
int destroy_srq(Hca&, uint32_t srqn);
Result<uint32_t> open_xrcd(Hca&, const XrcdSpec&);
int close_xrcd(Hca&, uint32_t xrcd);

}  // namespace kilim::vhca::hca
