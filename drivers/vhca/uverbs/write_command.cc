// SPDX-License-Identifier: BSD-3-Clause
// The table of write commands and its two ways in. Lengths are checked as the kernel checks them:
// ENOSPC for a part too short, which is also how rdma-core finds out that INVOKE_WRITE exists.
// Adapter's lock held; never allocates.
#include "vhca/uverbs/write_command.hh"

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>

#include "vhca/core/refusal.hh"
#include "vhca/hca/verb_refusals.hh"
#include "vhca/memory/dma.hh"
#include "vhca/uverbs/bundle.hh"
#include "vhca/uverbs/verb_names.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint32_t ex = IB_USER_VERBS_CMD_FLAG_EXTENDED;
constexpr uint16_t ex_device_bytes = offsetof(ib_uverbs_ex_query_device_resp, response_length) + 4;

// clang-format off
constexpr WriteCommand commands[] = {
    {IB_USER_VERBS_CMD_GET_CONTEXT, WhenDead::closed, sizeof(ib_uverbs_get_context), sizeof(ib_uverbs_get_context_resp), true, cmd_get_context},
    {IB_USER_VERBS_CMD_QUERY_DEVICE, WhenDead::runs, sizeof(ib_uverbs_query_device), sizeof(ib_uverbs_query_device_resp), false, cmd_query_device},  // ib_core's copy (core/uverbs_cmd.c, copy_query_dev_fields())
    {IB_USER_VERBS_CMD_QUERY_PORT, WhenDead::refused, sizeof(ib_uverbs_query_port), sizeof(ib_uverbs_query_port_resp), false, cmd_query_port},  // ACCESS_REG (main.c, mlx5_query_port_roce())
    {IB_USER_VERBS_CMD_ALLOC_PD, WhenDead::refused, sizeof(ib_uverbs_alloc_pd), sizeof(ib_uverbs_alloc_pd_resp), true, cmd_alloc_pd},  // ALLOC_PD
    {IB_USER_VERBS_CMD_DEALLOC_PD, WhenDead::runs, sizeof(ib_uverbs_dealloc_pd), 0, false, cmd_dealloc_pd},
    {IB_USER_VERBS_CMD_CREATE_AH, WhenDead::runs, sizeof(ib_uverbs_create_ah), sizeof(ib_uverbs_create_ah_resp), true, cmd_create_ah},  // no command (ah.c)
    {IB_USER_VERBS_CMD_DESTROY_AH, WhenDead::runs, sizeof(ib_uverbs_destroy_ah), 0, false, cmd_destroy_ah},
    {IB_USER_VERBS_CMD_REG_MR, WhenDead::refused, sizeof(ib_uverbs_reg_mr), sizeof(ib_uverbs_reg_mr_resp), true, cmd_reg_mr},  // CREATE_MKEY
    {IB_USER_VERBS_CMD_DEREG_MR, WhenDead::runs, sizeof(ib_uverbs_dereg_mr), 0, false, cmd_dereg_mr},
    {IB_USER_VERBS_CMD_REREG_MR, WhenDead::refused, sizeof(ib_uverbs_rereg_mr), sizeof(ib_uverbs_rereg_mr_resp), true, cmd_rereg_mr},  // CREATE_MKEY, or a UMR that nobody executes (mr.c)
    {IB_USER_VERBS_CMD_ALLOC_MW, WhenDead::refused, sizeof(ib_uverbs_alloc_mw), sizeof(ib_uverbs_alloc_mw_resp), true, cmd_alloc_mw},  // CREATE_MKEY
    {IB_USER_VERBS_CMD_DEALLOC_MW, WhenDead::runs, sizeof(ib_uverbs_dealloc_mw), 0, false, cmd_dealloc_mw},
    {IB_USER_VERBS_CMD_RESIZE_CQ, WhenDead::refused, sizeof(ib_uverbs_resize_cq), offsetof(ib_uverbs_resize_cq_resp, driver_data), true, cmd_resize_cq},  // MODIFY_CQ
    {IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, WhenDead::runs, sizeof(ib_uverbs_create_comp_channel), sizeof(ib_uverbs_create_comp_channel_resp), false, cmd_create_comp_channel},  // a file
    {IB_USER_VERBS_CMD_CREATE_CQ, WhenDead::refused, sizeof(ib_uverbs_create_cq), sizeof(ib_uverbs_create_cq_resp), true, cmd_create_cq},  // CREATE_CQ
    {IB_USER_VERBS_CMD_DESTROY_CQ, WhenDead::runs, sizeof(ib_uverbs_destroy_cq), sizeof(ib_uverbs_destroy_cq_resp), false, cmd_destroy_cq},
    {IB_USER_VERBS_CMD_CREATE_QP, WhenDead::refused, sizeof(ib_uverbs_create_qp), sizeof(ib_uverbs_create_qp_resp), true, cmd_create_qp},  // CREATE_QP
    {IB_USER_VERBS_CMD_OPEN_QP, WhenDead::runs, sizeof(ib_uverbs_open_qp), sizeof(ib_uverbs_create_qp_resp), true, cmd_open_qp},  // no command (core/verbs.c, ib_open_qp())
    {IB_USER_VERBS_CMD_QUERY_QP, WhenDead::refused, sizeof(ib_uverbs_query_qp), sizeof(ib_uverbs_query_qp_resp), false, cmd_query_qp},  // QUERY_QP
    {IB_USER_VERBS_CMD_MODIFY_QP, WhenDead::judges, sizeof(ib_uverbs_modify_qp), 0, true, cmd_modify_qp},  // 2ERR_QP and 2RST_QP are done
    {IB_USER_VERBS_CMD_DESTROY_QP, WhenDead::runs, sizeof(ib_uverbs_destroy_qp), sizeof(ib_uverbs_destroy_qp_resp), false, cmd_destroy_qp},
    {IB_USER_VERBS_CMD_ATTACH_MCAST, WhenDead::refused, sizeof(ib_uverbs_attach_mcast), 0, false, cmd_attach_mcast},  // ATTACH_TO_MCG
    {IB_USER_VERBS_CMD_DETACH_MCAST, WhenDead::runs, sizeof(ib_uverbs_detach_mcast), 0, false, cmd_detach_mcast},
    {IB_USER_VERBS_CMD_CREATE_SRQ, WhenDead::refused, sizeof(ib_uverbs_create_srq), sizeof(ib_uverbs_create_srq_resp), true, cmd_create_srq},  // CREATE_RMP
    {IB_USER_VERBS_CMD_CREATE_XSRQ, WhenDead::refused, sizeof(ib_uverbs_create_xsrq), sizeof(ib_uverbs_create_srq_resp), true, cmd_create_xsrq},  // CREATE_XRC_SRQ, CREATE_XRQ
    {IB_USER_VERBS_CMD_MODIFY_SRQ, WhenDead::refused, sizeof(ib_uverbs_modify_srq), 0, true, cmd_modify_srq},  // ARM_RQ
    {IB_USER_VERBS_CMD_QUERY_SRQ, WhenDead::refused, sizeof(ib_uverbs_query_srq), sizeof(ib_uverbs_query_srq_resp), false, cmd_query_srq},  // QUERY_RMP
    {IB_USER_VERBS_CMD_DESTROY_SRQ, WhenDead::runs, sizeof(ib_uverbs_destroy_srq), sizeof(ib_uverbs_destroy_srq_resp), false, cmd_destroy_srq},
    {IB_USER_VERBS_CMD_OPEN_XRCD, WhenDead::refused, sizeof(ib_uverbs_open_xrcd), sizeof(ib_uverbs_open_xrcd_resp), true, cmd_open_xrcd},  // ALLOC_XRCD
    {IB_USER_VERBS_CMD_CLOSE_XRCD, WhenDead::runs, sizeof(ib_uverbs_close_xrcd), 0, false, cmd_close_xrcd},
    {ex | IB_USER_VERBS_EX_CMD_QUERY_DEVICE, WhenDead::refused, sizeof(ib_uverbs_ex_query_device), ex_device_bytes, true, cmd_query_device_ex},  // QUERY_ADAPTER (main.c, mlx5_ib_query_device())
    {ex | IB_USER_VERBS_EX_CMD_CREATE_CQ, WhenDead::refused, offsetof(ib_uverbs_ex_create_cq, flags), sizeof(ib_uverbs_ex_create_cq_resp), true, cmd_create_cq_ex},  // CREATE_CQ
    {ex | IB_USER_VERBS_EX_CMD_MODIFY_CQ, WhenDead::refused, sizeof(ib_uverbs_ex_modify_cq), 0, false, cmd_modify_cq},  // MODIFY_CQ
    {ex | IB_USER_VERBS_EX_CMD_CREATE_QP, WhenDead::refused, offsetof(ib_uverbs_ex_create_qp, rwq_ind_tbl_handle), sizeof(ib_uverbs_ex_create_qp_resp), true, cmd_create_qp_ex},  // CREATE_QP
    {ex | IB_USER_VERBS_EX_CMD_MODIFY_QP, WhenDead::judges, sizeof(ib_uverbs_modify_qp), sizeof(ib_uverbs_ex_modify_qp_resp), true, cmd_modify_qp_ex},  // as MODIFY_QP
    {ex | IB_USER_VERBS_EX_CMD_CREATE_WQ, WhenDead::refused, offsetof(ib_uverbs_ex_create_wq, create_flags), sizeof(ib_uverbs_ex_create_wq_resp), true, cmd_create_wq},  // CREATE_RQ
    {ex | IB_USER_VERBS_EX_CMD_MODIFY_WQ, WhenDead::refused, offsetof(ib_uverbs_ex_modify_wq, flags), 0, true, cmd_modify_wq},  // MODIFY_RQ
    {ex | IB_USER_VERBS_EX_CMD_DESTROY_WQ, WhenDead::runs, sizeof(ib_uverbs_ex_destroy_wq), sizeof(ib_uverbs_ex_destroy_wq_resp), false, cmd_destroy_wq},
    {ex | IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, WhenDead::refused, sizeof(ib_uverbs_ex_create_rwq_ind_table), sizeof(ib_uverbs_ex_create_rwq_ind_table_resp), true, cmd_create_rwq_table},  // CREATE_RQT
    {ex | IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL, WhenDead::runs, sizeof(ib_uverbs_ex_destroy_rwq_ind_table), 0, false, cmd_destroy_rwq_table},
    {ex | IB_USER_VERBS_EX_CMD_CREATE_FLOW, WhenDead::refused, sizeof(ib_uverbs_create_flow), sizeof(ib_uverbs_create_flow_resp), true, cmd_create_flow},  // CREATE_FLOW_TABLE
    {ex | IB_USER_VERBS_EX_CMD_DESTROY_FLOW, WhenDead::runs, sizeof(ib_uverbs_destroy_flow), 0, false, cmd_destroy_flow},
};
// clang-format on

int lookup(uint32_t command, const WriteCommand*& found) {
  if ((command & ~(ex | IB_USER_VERBS_CMD_COMMAND_MASK)) != 0)
    return refusal::absent("the command", command);
  found = find_write_command(command);
  return found != nullptr ? 0 : refusal::absent("the command", command, EOPNOTSUPP);
}

// What the adapter is, is known to a child after fork too.
bool answers(const Context& context, const WriteCommand& c) {
  return !context.disowned || c.run == cmd_query_device || c.run == cmd_query_device_ex;
}

// ENOSPC, also where rdma-core finds out what there is.
int too_short(bool in_fits, std::size_t has, const WriteCommand& c) {
  if (has == 0) return -ENOSPC;  // it asks only whether there is INVOKE_WRITE
  return refusal::bytes(in_fits ? "the room for the answer" : "the command", has,
                        in_fits ? c.out_bytes : c.in_bytes, ENOSPC);
}

int run(Context& context, const WriteCommand& c, const Request& r) {
  if (!answers(context, c)) return -EIO;
  const bool in_fits = r.in.bytes() >= c.in_bytes;
  if (!in_fits || r.out.bytes() < c.out_bytes)
    return too_short(in_fits, in_fits ? r.out.bytes() : r.in.bytes(), c);
  if (!context.opened && c.run != cmd_get_context)
    return refusal::text(EINVAL, "this file has no context yet");
  if (int err = context.refusal(c.when_dead); err != 0) return err;
  return c.run(context, r);
}

int invoke_write(Context& context, Bundle& b) {
  uint64_t command = b.value(UVERBS_ATTR_WRITE_CMD);
  if (command > UINT32_MAX) return refusal::absent("the command", command);
  const WriteCommand* c = nullptr;
  const int err = lookup(static_cast<uint32_t>(command), c);
  if (c == nullptr) return err;
  Request r = b.driver_part();
  r.in = b.in(UVERBS_ATTR_CORE_IN);
  r.out = b.out(UVERBS_ATTR_CORE_OUT);
  return run(context, *c, r);
}

constexpr AttrRule invoke_write_rules[] = {
    {UVERBS_ATTR_WRITE_CMD, AttrKind::in, true, 8, 8},
    {UVERBS_ATTR_CORE_IN, AttrKind::in, false},
    {UVERBS_ATTR_CORE_OUT, AttrKind::out, false},
};
constexpr Method write_command_table[] = {
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, WhenDead::runs, invoke_write,
     invoke_write_rules},  // its command's row says
};

// What write(2) carries behind its header, cut into the core's and the driver's part.
struct Parts {
  uint64_t in_at;
  uint32_t in_bytes;
  uint64_t out_at;
  uint32_t out_bytes;
  uint32_t driver_in_bytes;
  uint32_t driver_out_bytes;

  [[nodiscard]] Request request() const {
    return {{Va{in_at}, in_bytes},
            {Va{out_at}, out_bytes},
            {Va{in_at + in_bytes}, driver_in_bytes},
            {Va{out_at + out_bytes}, driver_out_bytes}};
  }
};

int cut_plain(const WriteCommand& c, const ib_uverbs_cmd_hdr& h, Va buffer, std::size_t count,
              Parts& p) {
  if (h.in_words * 4u != count)
    return refusal::equal("in_words, in bytes,", h.in_words * 4u, count);
  const bool in_fits = count >= c.in_bytes + sizeof h;
  if (!in_fits || h.out_words * 4u < c.out_bytes)
    return too_short(in_fits, in_fits ? h.out_words * 4u : count - sizeof h, c);
  p.in_at = buffer.value() + sizeof h;
  p.in_bytes = static_cast<uint32_t>(count - sizeof h);
  p.out_bytes = h.out_words * 4u;
  // Commands with an answer begin with its address.
  if (c.out_bytes != 0 && !memory::dma::load(Va{p.in_at}, p.out_at)) return refusal::fault(p.in_at);
  if (c.has_driver_part) {
    p.driver_in_bytes = p.in_bytes - c.in_bytes;
    p.in_bytes = c.in_bytes;
    p.driver_out_bytes = p.out_bytes - c.out_bytes;
    p.out_bytes = c.out_bytes;
  }
  return 0;
}

int cut_extended(const WriteCommand& c, const ib_uverbs_cmd_hdr& h, Va buffer, std::size_t count,
                 Parts& p) {
  ib_uverbs_ex_cmd_hdr x;
  constexpr std::size_t headers = sizeof h + sizeof x;
  if (count < headers) return refusal::bytes("the command", count, headers);
  if (!memory::dma::copy_in(&x, Va{buffer.value() + sizeof h}, sizeof x))
    return refusal::fault(buffer.value());
  if ((h.in_words + x.provider_in_words) * 8u != count - headers || x.cmd_hdr_reserved != 0)
    return refusal::equal("in_words and provider_in_words, in bytes,",
                          (h.in_words + x.provider_in_words) * 8u, count - headers);
  if (h.in_words * 8u < c.in_bytes) return too_short(false, h.in_words * 8u, c);
  bool wants_answer = h.out_words != 0 || x.provider_out_words != 0;
  if (wants_answer != (x.response != 0)) return refusal::clash("response", x.response, h.out_words);
  if (wants_answer && h.out_words * 8u < c.out_bytes) return too_short(true, h.out_words * 8u, c);
  p = {buffer.value() + headers, h.in_words * 8u,          x.response,
       h.out_words * 8u,         x.provider_in_words * 8u, x.provider_out_words * 8u};
  return 0;
}

}  // namespace

std::span<const Method> write_methods() {
  return write_command_table;
}

const WriteCommand* find_write_command(uint32_t command) {
  const auto* c = std::find_if(std::begin(commands), std::end(commands),
                               [=](const WriteCommand& w) { return w.command == command; });
  return c != std::end(commands) ? c : nullptr;
}

ssize_t run_write(Context& context, Va buffer, std::size_t count) {
  ib_uverbs_cmd_hdr h;
  refusal::forget();
  if (count < sizeof h) return refusal::bytes("the command", count, sizeof h);
  if (!memory::dma::copy_in(&h, buffer, sizeof h)) return refusal::fault(buffer.value());
  const WriteCommand* c = nullptr;
  int err = lookup(h.command, c);
  Parts p{};
  bool extended = (h.command & ex) != 0;
  if (c != nullptr)
    err = extended ? cut_extended(*c, h, buffer, count, p) : cut_plain(*c, h, buffer, count, p);
  if (c != nullptr && err == 0) err = run(context, *c, p.request());
  if (err != 0) hca::tell_refusal(context.hca, verb_name(h.command), err);
  return err != 0 ? err : static_cast<ssize_t>(count);
}

}  // namespace kilim::vhca::uverbs
