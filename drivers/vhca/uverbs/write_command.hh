// SPDX-License-Identifier: BSD-3-Clause
// Commands of the older interface: by write(2), or by the INVOKE_WRITE method, which is how
// rdma-core sends those that have no method of their own. Adapter's lock held.
#pragma once

#include <cstdint>
#include <span>

#include "vhca/core/refusal.hh"
#include "vhca/uverbs/client_buffer.hh"
#include "vhca/uverbs/context.hh"

namespace kilim::vhca::uverbs {

struct WriteCommand {
  uint32_t command;  // with IB_USER_VERBS_CMD_FLAG_EXTENDED where it is one
  WhenDead when_dead;
  uint16_t in_bytes;  // least lengths of the core's parts
  uint16_t out_bytes;
  bool has_driver_part;  // by write(2) the driver's bytes follow the core's
  int (*run)(Context&, const Request&);
};

// Null: the kernel answers EOPNOTSUPP.
const WriteCommand* find_write_command(uint32_t command);

// A write(2) of the client: `count`, or a negative errno.
ssize_t run_write(Context& context, Va buffer, std::size_t count);

// The commands, one file an object.
int cmd_get_context(Context&, const Request&);
int cmd_query_device(Context&, const Request&);
int cmd_query_device_ex(Context&, const Request&);
int cmd_query_port(Context&, const Request&);
int cmd_alloc_pd(Context&, const Request&);
int cmd_dealloc_pd(Context&, const Request&);
int cmd_reg_mr(Context&, const Request&);
int cmd_rereg_mr(Context&, const Request&);
int cmd_dereg_mr(Context&, const Request&);
int cmd_alloc_mw(Context&, const Request&);
int cmd_dealloc_mw(Context&, const Request&);
int cmd_resize_cq(Context&, const Request&);
int cmd_modify_cq(Context&, const Request&);
int cmd_create_comp_channel(Context&, const Request&);
int cmd_create_cq(Context&, const Request&);
int cmd_create_cq_ex(Context&, const Request&);
int cmd_destroy_cq(Context&, const Request&);
int cmd_create_qp(Context&, const Request&);
int cmd_create_qp_ex(Context&, const Request&);
int cmd_open_qp(Context&, const Request&);
int cmd_query_qp(Context&, const Request&);
int cmd_modify_qp(Context&, const Request&);
int cmd_modify_qp_ex(Context&, const Request&);
int cmd_destroy_qp(Context&, const Request&);
int cmd_create_ah(Context&, const Request&);
int cmd_destroy_ah(Context&, const Request&);
int cmd_create_srq(Context&, const Request&);
int cmd_create_xsrq(Context&, const Request&);
int cmd_modify_srq(Context&, const Request&);
int cmd_query_srq(Context&, const Request&);
int cmd_destroy_srq(Context&, const Request&);
int cmd_open_xrcd(Context&, const Request&);
int cmd_close_xrcd(Context&, const Request&);
int cmd_attach_mcast(Context&, const Request&);
int cmd_detach_mcast(Context&, const Request&);
int cmd_create_wq(Context&, const Request&);
int cmd_modify_wq(Context&, const Request&);
int cmd_destroy_wq(Context&, const Request&);
int cmd_create_rwq_table(Context&, const Request&);
int cmd_destroy_rwq_table(Context&, const Request&);
int cmd_create_flow(Context&, const Request&);
int cmd_destroy_flow(Context&, const Request&);

// Destroys the object of a handle: -ENOENT, -EINVAL (another kind), or as Context::destroy().
template <typename T>
int destroy_handle(Context& context, uint32_t handle) {
  Object* o = context.object(handle);
  if (o == nullptr) return refusal::absent("handle", handle, ENOENT);
  return o->kind == T::kind_of ? context.destroy(*o) : refusal::absent("handle", handle);
}

}  // namespace kilim::vhca::uverbs
