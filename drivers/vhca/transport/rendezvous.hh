// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Tag Matching", rendezvous. Data that the adapter fetches by itself for a tag that matched:
// a READ, then a FIN that tells the sender. The queue pair does them one after the other, before
// its own send WQEs. Adapter's lock held. Never allocates; what the peer names is untrusted.
#pragma once

#include "vhca/core/object_table.hh"
#include "vhca/transport/request.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"

namespace kilim::vhca::transport {

// There is room for it.
void push_rendezvous(wq::EngineContext&, wq::Qp&, const wq::Rendezvous&) noexcept;

inline bool rendezvous_due(const wq::Qp& qp) noexcept {
  return qp.tags && qp.tags->count > 0;
}

// Whether the queue has anything to ask for.
inline bool has_requests(const wq::Qp& qp) noexcept {
  return qp.sq.ci != qp.sq.pi || rendezvous_due(qp);
}

// The request that is due, as if a WQE asked for it: `wqe` gets what the request's kind needs.
const RequestRow& rendezvous_request(wq::Qp&, RequestData&, wq::SendWqe&) noexcept;
// Whether the queue can send it now; stall: its pages are coming.
Verdict check_rendezvous(const wq::EngineContext&, const wq::Qp&, const RequestRow&,
                         const RequestData&) noexcept;

// Makes the request to a queue of this adapter.
Verdict exec_rendezvous(wq::EngineContext&, const ObjectTable<wq::Qp>& qps, wq::Qp&) noexcept;

// The request has been answered.
void rendezvous_answered(wq::EngineContext&, wq::Qp&) noexcept;
// It never will be: the entries complete as canceled, the queue is in error.
void fail_rendezvous(wq::EngineContext&, wq::Qp&, Verdict) noexcept;

}  // namespace kilim::vhca::transport
