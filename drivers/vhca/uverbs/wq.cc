// SPDX-License-Identifier: BSD-3-Clause
// Receive queues of their own (ibv_create_wq), by the older commands: their methods are absent, by
// which rdma-core knows to send these. Checked as Linux drivers/infiniband/hw/mlx5/qp.c does
// (mlx5_ib_create_wq(), mlx5_ib_modify_wq()). Adapter's lock held.
#include <bit>
#include <cerrno>
#include <cstddef>
#include <memory>

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "vhca/core/refusal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint32_t event_wq_fatal = 19;
constexpr uint32_t mask_state = 1, mask_cur_state = 2, mask_flags = 4;  // IB_WQ_STATE ...
constexpr uint32_t last_wq_state = static_cast<uint32_t>(RqState::err);

int check_strides(const Profile& p, const mlx5_ib_create_wq& d) {
  if ((d.comp_mask & ~uint32_t{MLX5_IB_CREATE_WQ_STRIDING_RQ}) != 0)
    return refusal::bits("mlx5_ib_create_wq.comp_mask", d.comp_mask, MLX5_IB_CREATE_WQ_STRIDING_RQ,
                         EOPNOTSUPP);
  if (d.comp_mask == 0) return 0;
  if (!p.striding_rq) return refusal::lacks("MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ");
  const uint32_t bytes = d.single_stride_log_num_of_bytes, count = d.single_wqe_log_num_of_strides;
  if (bytes < stride::least_log_bytes || bytes > stride::most_log_bytes)
    return refusal::range("single_stride_log_num_of_bytes", bytes, stride::least_log_bytes,
                          stride::most_log_bytes);
  return count < stride::least_log_count || count > stride::most_log_count
             ? refusal::range("single_wqe_log_num_of_strides", count, stride::least_log_count,
                              stride::most_log_count)
             : 0;
}

int read_driver_part(const Profile& p, const ib_uverbs_ex_create_wq& cmd, const Request& r,
                     mlx5_ib_create_wq& d) {
  if (r.driver_out.bytes() != 0 && r.driver_out.bytes() < sizeof(mlx5_ib_create_wq_resp))
    return refusal::bytes("mlx5_ib_create_wq_resp", r.driver_out.bytes(),
                          sizeof(mlx5_ib_create_wq_resp));
  if (cmd.wq_type != IB_UVERBS_WQT_RQ)
    return refusal::equal("wq_type", cmd.wq_type, IB_UVERBS_WQT_RQ);
  if (r.driver_in.bytes() < offsetof(mlx5_ib_create_wq, single_wqe_log_num_of_strides))
    return refusal::bytes("mlx5_ib_create_wq", r.driver_in.bytes(),
                          offsetof(mlx5_ib_create_wq, single_wqe_log_num_of_strides));
  if (int err = r.driver_in.read_whole(d); err != 0) return err;
  if (int err = check_strides(p, d); err != 0) return err;
  if (cmd.max_wr > p.max_qp_wr) return refusal::most("max_wr", cmd.max_wr, p.max_qp_wr);
  if (d.rq_wqe_count == 0) return refusal::least("rq_wqe_count", 0, 1);
  // What a shift of 32 bits may lose, mlx5_ib refuses too (set_user_rq_size()).
  if (d.rq_wqe_shift > 31 || uint64_t{d.rq_wqe_count} << d.rq_wqe_shift > UINT32_MAX)
    return refusal::most("rq_wqe_count of WQEs with rq_wqe_shift", d.rq_wqe_count,
                         d.rq_wqe_shift > 31 ? 0 : UINT32_MAX >> d.rq_wqe_shift);
  return 0;
}

// Waiting for receive WQEs and padded writes are not offered.
int check_flags(uint32_t flags, const Profile& p) {
  uint32_t refused = IB_UVERBS_WQ_FLAGS_DELAY_DROP | IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING;
  if (!p.vlan_stripping) refused |= IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING;
  if (!p.scatter_fcs) refused |= IB_UVERBS_WQ_FLAGS_SCATTER_FCS;
  return (flags & refused) != 0 ? refusal::bits("create_flags", flags, ~refused & 0xf, EOPNOTSUPP)
                                : 0;
}

RqSpec spec_of(const ib_uverbs_ex_create_wq& cmd, const mlx5_ib_create_wq& d) {
  RqSpec s;
  s.buf = Va{d.buf_addr};
  s.record = Va{d.db_addr};
  s.wqes = std::bit_floor(d.rq_wqe_count);  // the context has its logarithm
  s.wqe_shift = d.rq_wqe_shift;
  s.uidx = d.user_index & 0xffffff;
  s.signature = (d.flags & MLX5_WQ_FLAG_SIGNATURE) != 0;
  s.strip_vlan = (cmd.create_flags & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING) != 0;
  s.scatter_fcs = (cmd.create_flags & IB_UVERBS_WQ_FLAGS_SCATTER_FCS) != 0;
  if (d.comp_mask == 0) return s;
  s.log_stride_bytes = static_cast<uint8_t>(d.single_stride_log_num_of_bytes);
  s.log_strides = static_cast<uint8_t>(d.single_wqe_log_num_of_strides);
  s.two_byte_shift = d.two_byte_shift_en != 0;
  return s;
}

int make(Context& context, const RqSpec& spec, uint64_t bytes, WqObject& wq) {
  if (int err = wq.pins.take(context.record_pages, {spec.buf, bytes}, {}, spec.record); err != 0)
    return err;
  EventFile* async = context.default_async;
  if (async != nullptr) {
    if (int err = async->hold(); err != 0) return err;
  }
  Result<uint32_t> rqn = hca::create_rq(context.hca, spec, &context);
  if (!rqn) {
    if (async != nullptr) async->let_go();
    return refusal::of(rqn.error());
  }
  wq.rqn = *rqn;
  wq.async = async;
  return 0;
}

// What lies behind the state is no command of the core's.
int read_change(const Request& r, ib_uverbs_ex_modify_wq& cmd) {
  if (int err = r.in.read_whole(cmd); err != 0) return err;
  if (cmd.attr_mask == 0 || cmd.attr_mask > (mask_state | mask_cur_state | mask_flags))
    return refusal::bits("attr_mask (one at least)", cmd.attr_mask,
                         mask_state | mask_cur_state | mask_flags);
  if ((cmd.attr_mask & mask_cur_state) != 0 && cmd.curr_wq_state > last_wq_state)
    return refusal::most("curr_wq_state", cmd.curr_wq_state, last_wq_state);
  return (cmd.attr_mask & mask_state) != 0 && cmd.wq_state > last_wq_state
             ? refusal::most("wq_state", cmd.wq_state, last_wq_state)
             : 0;
}

int read_modify_driver_part(const Request& r) {
  mlx5_ib_modify_wq d;
  if (r.driver_in.bytes() < sizeof d)
    return refusal::bytes("mlx5_ib_modify_wq", r.driver_in.bytes(), sizeof d);
  if (int err = r.driver_in.read_whole(d); err != 0) return err;
  return d.comp_mask != 0 || d.reserved != 0
             ? refusal::bits("mlx5_ib_modify_wq.comp_mask", d.comp_mask, 0, EOPNOTSUPP)
             : 0;
}

// Tag stripping can be changed at any time, padding never.
int take_flags(const ib_uverbs_ex_modify_wq& cmd, const Profile& p, RqChange& change) {
  if ((cmd.attr_mask & mask_flags) == 0) return 0;
  constexpr uint32_t strips = IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING;
  change.sets_strip_vlan = (cmd.flags_mask & strips) != 0;
  change.strip_vlan = (cmd.flags & strips) != 0;
  if (change.sets_strip_vlan && !p.vlan_stripping)
    return refusal::lacks("IBV_WQ_FLAGS_CVLAN_STRIPPING");
  return (cmd.flags_mask & IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING) != 0
             ? refusal::bits("flags_mask", cmd.flags_mask, strips, EOPNOTSUPP)
             : 0;
}

}  // namespace

int WqObject::release(Context& context) {
  if (int err = hca::destroy_rq(context.hca, rqn); err != 0) return err;
  if (async != nullptr) {
    async->withdraw_posted(user_handle, event_wq_fatal, event_wq_fatal);
    async->let_go();
  }
  return 0;
}

int cmd_create_wq(Context& context, const Request& r) {
  const Profile& p = context.hca.config.profile;
  if (!p.raw_packet) return refusal::lacks("a queue or rule of raw packets");
  ib_uverbs_ex_create_wq cmd;
  if (int err = r.in.read_whole(cmd); err != 0) return err;
  if (cmd.comp_mask != 0) return refusal::bits("comp_mask", cmd.comp_mask, 0, EOPNOTSUPP);
  auto* pd = context.find<PdObject>(cmd.pd_handle);
  auto* cq = context.find<CqObject>(cmd.cq_handle);
  if (pd == nullptr) return refusal::absent("pd", cmd.pd_handle);
  if (cq == nullptr) return refusal::absent("cq", cmd.cq_handle);
  mlx5_ib_create_wq d;
  if (int err = read_driver_part(p, cmd, r, d); err != 0) return err;
  auto made = std::make_unique<WqObject>();
  WqObject& wq = *made;
  wq.user_handle = cmd.user_handle;
  RqSpec spec = spec_of(cmd, d);
  spec.pd = pd->pdn;
  spec.cq = cq->cqn;
  spec.owner = static_cast<Object*>(&wq);
  if (int err = check_flags(cmd.create_flags, p); err != 0) return err;
  if (int err = make(context, spec, uint64_t{d.rq_wqe_count} << d.rq_wqe_shift, wq); err != 0)
    return err;
  context.add(std::move(made), {pd, cq});
  int err = r.driver_out.write(mlx5_ib_create_wq_resp{4, 0});  // response_length itself
  const ib_uverbs_ex_create_wq_resp resp{
      0, sizeof(ib_uverbs_ex_create_wq_resp), wq.handle, cmd.max_wr, cmd.max_sge, wq.rqn};
  if (err == 0) err = r.out.write(resp);
  return context.keep_unless(err, wq);
}

int cmd_modify_wq(Context& context, const Request& r) {
  ib_uverbs_ex_modify_wq cmd;
  if (int err = read_change(r, cmd); err != 0) return err;
  auto* wq = context.find<WqObject>(cmd.wq_handle);
  if (wq == nullptr) return refusal::absent("wq_handle", cmd.wq_handle);
  if (int err = read_modify_driver_part(r); err != 0) return err;
  RqChange change;
  const bool says_from = (cmd.attr_mask & mask_cur_state) != 0;
  change.from = says_from ? static_cast<RqState>(cmd.curr_wq_state) : wq->state;
  change.to = (cmd.attr_mask & mask_state) != 0 ? static_cast<RqState>(cmd.wq_state) : change.from;
  if (int err = take_flags(cmd, context.hca.config.profile, change); err != 0) return err;
  if (int err = hca::modify_rq(context.hca, wq->rqn, change); err != 0) return err;
  wq->state = change.to;
  return 0;
}

int cmd_destroy_wq(Context& context, const Request& r) {
  ib_uverbs_ex_destroy_wq cmd;
  if (int err = r.in.read_whole(cmd); err != 0) return err;
  if (cmd.comp_mask != 0) return refusal::bits("comp_mask", cmd.comp_mask, 0, EOPNOTSUPP);
  if (context.object(cmd.wq_handle) == nullptr)
    return refusal::absent("wq_handle", cmd.wq_handle, ENOENT);
  auto* wq = context.find<WqObject>(cmd.wq_handle);
  if (wq == nullptr) return refusal::absent("wq_handle", cmd.wq_handle);
  if (wq->users != 0) return refusal::busy("the receive queue", wq->users);
  if (wq->async != nullptr)
    wq->async_posted -= wq->async->withdraw_posted(wq->user_handle, event_wq_fatal, event_wq_fatal);
  const ib_uverbs_ex_destroy_wq_resp resp{0, sizeof resp, wq->async_posted, 0};
  if (int err = context.destroy(*wq); err != 0) return err;
  return r.out.write(resp);
}

}  // namespace kilim::vhca::uverbs
