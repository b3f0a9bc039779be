// SPDX-License-Identifier: BSD-3-Clause
// GET_CONTEXT, QUERY_CONTEXT, the asynchronous event file and completion channels, answered as
// mlx5_ib does. Only clients that allocate their UAR pages by objects are served: the older static
// table of doorbell registers is not there. Adapter's lock held.
#include <algorithm>
#include <cerrno>
#include <cstddef>

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "vhca/core/refusal.hh"
#include "vhca/hca/ports.hh"
#include "vhca/uverbs/bundle.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint32_t comp_vectors = 1;  // one event queue
constexpr uint64_t core_support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;

mlx5_ib_alloc_ucontext_resp describe_context(hca::Hca& hca) {
  const Profile& p = hca.config.profile;
  mlx5_ib_alloc_ucontext_resp r{};
  r.qp_tab_size = p.max_qp;
  r.bf_reg_size = 512;
  r.tot_bfregs = 0;  // UAR pages are objects
  r.cache_line_size = 64;
  r.max_sq_desc_sz = static_cast<uint16_t>(p.max_sq_desc_bytes);
  r.max_rq_desc_sz = static_cast<uint16_t>(p.max_rq_desc_bytes);
  r.max_send_wqebb = p.max_qp_wr;
  r.max_recv_wr = p.max_qp_wr;
  r.max_srq_recv_wr = p.max_qp_wr - 1;
  r.num_ports = static_cast<uint16_t>(hca::port_count(hca));
  r.comp_mask = MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_MKEY_UPDATE_TAG |
                MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS |
                MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET |
                MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY;
  r.dump_fill_mkey = tpt::KeyTable::null_key;
  r.hca_core_clock_offset = 0;  // within its page
  if (p.real_time_clock) r.comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS;
  r.response_length = sizeof r;
  r.cqe_version = 1;
  r.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH;
  r.eth_min_inline = static_cast<uint8_t>(MLX5_USER_INLINE_MODE_NONE + p.min_inline);
  r.clock_info_versions = 1 << MLX5_IB_CLOCK_INFO_V1;
  r.log_uar_size = 12;
  r.num_uars_per_page = 1;
  return r;
}

int open_context(Context& context, const Request& r) {
  if (context.opened) return refusal::text(EINVAL, "this file has a context already");
  mlx5_ib_alloc_ucontext_req_v2 req;
  constexpr std::size_t least = offsetof(mlx5_ib_alloc_ucontext_req_v2, max_cqe_version);
  if (r.driver_in.bytes() < least)
    return refusal::bytes("mlx5_ib_alloc_ucontext_req_v2", r.driver_in.bytes(), least);
  if (int err = r.driver_in.read(req); err != 0) return err;
  if ((req.flags & ~uint32_t{MLX5_IB_ALLOC_UCTX_DEVX}) != 0 || req.comp_mask != 0 ||
      req.reserved0 != 0 || req.reserved1 != 0 || req.reserved2 != 0)
    return refusal::bits("mlx5_ib_alloc_ucontext_req_v2.flags", req.flags, MLX5_IB_ALLOC_UCTX_DEVX,
                         EOPNOTSUPP);
  if (req.num_low_latency_bfregs + 1 > std::max(req.total_num_bfregs, 1u))
    return refusal::most("num_low_latency_bfregs (MLX5_NUM_LOW_LAT_UUARS)",
                         req.num_low_latency_bfregs, std::max(req.total_num_bfregs, 1u) - 1);
  bool devx = (req.flags & MLX5_IB_ALLOC_UCTX_DEVX) != 0;
  if (devx && !context.hca.config.profile.devx)
    return refusal::lacks("MLX5DV_CONTEXT_FLAGS_DEVX", EINVAL);
  if ((req.lib_caps & MLX5_LIB_CAP_DYN_UAR) == 0 || req.max_cqe_version == 0)
    return refusal::least("lib_caps with MLX5_LIB_CAP_DYN_UAR (a newer libmlx5)", req.lib_caps,
                          MLX5_LIB_CAP_DYN_UAR, EOPNOTSUPP);
  mlx5_ib_alloc_ucontext_resp resp = describe_context(context.hca);
  resp.response_length = std::min<uint32_t>(sizeof resp, r.driver_out.bytes());
  if (int err = r.driver_out.write(resp); err != 0) return err;
  context.open(devx);
  return 0;
}

int get_context(Context& context, Bundle& b) {
  if (int err = open_context(context, b.driver_part()); err != 0) return err;
  int err = b.put(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, comp_vectors);
  return err != 0 ? err : b.put(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, core_support);
}

int query_context(Context& context, Bundle& b) {
  mlx5_ib_alloc_ucontext_resp resp = describe_context(context.hca);
  OutBuffer driver = b.out(MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX);
  resp.response_length = std::min<uint32_t>(sizeof resp, driver.bytes());
  if (int err = driver.write(resp); err != 0) return err;
  int err = b.put(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, comp_vectors);
  return err != 0 ? err : b.put(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, core_support);
}

int async_event_alloc(Context& context, Bundle& b) {
  int fd = context.make_event_file(EventFile::Kind::async);
  if (fd < 0) return fd;
  Fd client{fd};
  int err = b.give(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, static_cast<uint64_t>(fd));
  if (err == 0) client.release();
  return err;
}

constexpr AttrRule get_context_rules[] = {
    {UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, AttrKind::out, false, 4, 4},
    {UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, AttrKind::out, false, 8, 8},
};
constexpr AttrRule query_context_rules[] = {
    {UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, AttrKind::out, false, 4, 4},
    {UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, AttrKind::out, false, 8, 8},
    {MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, AttrKind::out, true,
     offsetof(mlx5_ib_alloc_ucontext_resp, response_length) + 4},
};
constexpr AttrRule device_async_rules[] = {
    {UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, AttrKind::fresh, true},
};
constexpr Method device_table[] = {
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, WhenDead::closed, get_context,
     get_context_rules},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, WhenDead::runs, query_context,
     query_context_rules},  // no command: what the driver knows (main.c, set_ucontext_resp())
    {UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, WhenDead::runs, async_event_alloc,
     device_async_rules},
};

}  // namespace

std::span<const Method> device_methods() {
  return device_table;
}

int cmd_get_context(Context& context, const Request& r) {
  if (int err = open_context(context, r); err != 0) return err;
  int fd = context.make_event_file(EventFile::Kind::async);
  if (fd < 0) return fd;
  Fd client{fd};
  ib_uverbs_get_context_resp resp{static_cast<uint32_t>(fd), comp_vectors};
  int err = r.out.write(&resp, sizeof resp);
  if (err == 0) client.release();
  return err;
}

int cmd_create_comp_channel(Context& context, const Request& r) {
  if (!memory_reserve::fill()) return refusal::full("this process's memory");
  int fd = context.make_event_file(EventFile::Kind::completion);
  if (fd < 0) return fd;
  Fd client{fd};
  ib_uverbs_create_comp_channel_resp resp{static_cast<uint32_t>(fd)};
  int err = r.out.write(resp);
  if (err == 0) client.release();
  return err;
}

}  // namespace kilim::vhca::uverbs
