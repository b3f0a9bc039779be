// SPDX-License-Identifier: BSD-3-Clause
// Makes a queue pair for a request of either interface: what ib_uverbs has taken out of the
// request, and what mlx5_ib makes of it with the driver's part. Adapter's lock held.
#pragma once

#include <cstdint>

#include <rdma/ib_user_ioctl_verbs.h>

#include "kilim/detail/base/result.hh"
#include "vhca/uverbs/client_buffer.hh"
#include "vhca/uverbs/context.hh"

namespace kilim::vhca::uverbs {

// The core's part. Objects that the request does not name are null.
struct QpRequest {
  uint64_t type = 0;         // ib_uverbs_qp_type
  uint64_t user_handle = 0;  // what its events carry
  PdObject* pd = nullptr;
  CqObject* send_cq = nullptr;
  CqObject* recv_cq = nullptr;
  SrqObject* srq = nullptr;
  XrcdObject* xrcd = nullptr;       // of an XRC target
  RwqTableObject* table = nullptr;  // of one that hashes
  EventFile* async = nullptr;       // of its asynchronous events
  ib_uverbs_qp_cap cap{};           // as asked for
  uint32_t create_flags = 0;        // IB_UVERBS_QP_CREATE_*
  bool sq_sig_all = false;          // every send request completes with an entry
};

// The object, in the context's table already; the driver's answer has been written.
Result<QpObject*> create_qp_object(Context&, const QpRequest&, const Request&);

// qp_hash.cc: one that has a table of receive queues instead of queues of its own.
Result<QpObject*> create_hash_qp_object(Context&, const QpRequest&, const Request&);

}  // namespace kilim::vhca::uverbs
