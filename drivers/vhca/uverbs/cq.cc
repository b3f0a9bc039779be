// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: creation by either interface, destruction with the count of events that the
// client has read, other sizes, moderation. Adapter's lock held.
#include <bit>
#include <cerrno>
#include <cstddef>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "vhca/core/refusal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/hca/verb_refusals.hh"
#include "vhca/uverbs/bundle.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

namespace {

// A request of either interface.
struct CqRequest {
  uint32_t cqe = 0;
  uint32_t comp_vector = 0;
  uint64_t user_handle = 0;
  uint32_t flags = 0;
  EventFile* channel = nullptr;
  EventFile* async = nullptr;
};

constexpr uint32_t cqe_formats =
    MLX5_IB_CQE_RES_FORMAT_HASH | MLX5_IB_CQE_RES_FORMAT_CSUM | MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX;
constexpr uint32_t moderate = 1;      // IB_CQ_MODERATE, the one change there is
constexpr uint32_t event_cq_err = 0;  // the one event of a completion queue

int check_driver_part(const Request& r, const Profile& p, mlx5_ib_create_cq& cmd) {
  if (r.driver_in.bytes() < offsetof(mlx5_ib_create_cq, flags))
    return refusal::bytes("mlx5_ib_create_cq", r.driver_in.bytes(),
                          offsetof(mlx5_ib_create_cq, flags));
  if (int err = r.driver_in.read(cmd); err != 0) return err;
  constexpr uint32_t known = MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD |
                             MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX |
                             MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS;
  if ((cmd.flags & ~known) != 0 || cmd.reserved0 != 0 || cmd.reserved1 != 0)
    return refusal::bits("mlx5_ib_create_cq.flags", cmd.flags, known);
  if (cmd.cqe_size != 64 && cmd.cqe_size != 128)
    return refusal::range("cqe_size (64 or 128)", cmd.cqe_size, 64, 128);
  if ((cmd.flags & MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX) == 0)
    return refusal::least("mlx5_ib_create_cq.flags, with UAR_PAGE_INDEX,", cmd.flags,
                          MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX);
  if ((cmd.flags & MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS) != 0 && !p.real_time_clock)
    return refusal::lacks("a real-time clock");
  bool padded = (cmd.flags & MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD) != 0;
  if (padded && (cmd.cqe_size != 128 || !p.cqe_padding))
    return refusal::lacks("padding of entries of 128 bytes (MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD)");
  if (cmd.cqe_comp_en == 0) return 0;
  if (!p.cqe_compression || cmd.cqe_comp_en != 1)
    return refusal::most("cqe_comp_en", cmd.cqe_comp_en, p.cqe_compression, EOPNOTSUPP);
  bool one_format = std::has_single_bit(uint32_t{cmd.cqe_comp_res_format});
  return one_format && (cmd.cqe_comp_res_format & ~cqe_formats) == 0
             ? 0
             : refusal::bits("cqe_comp_res_format (one bit)", cmd.cqe_comp_res_format, cqe_formats);
}

// Linux drivers/infiniband/hw/mlx5/cq.c, mini_cqe_res_format_to_hw().
MiniFormat mini_format(const mlx5_ib_create_cq& cmd) {
  if (cmd.cqe_comp_en == 0) return MiniFormat::none;
  switch (cmd.cqe_comp_res_format) {
    case MLX5_IB_CQE_RES_FORMAT_HASH:
      return MiniFormat::hash;
    case MLX5_IB_CQE_RES_FORMAT_CSUM:
      return MiniFormat::checksum;
    default:
      return MiniFormat::checksum_stride;
  }
}

Result<CqObject*> create(Context& context, const CqRequest& q, const Request& r) {
  constexpr uint32_t known =
      IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
  hca::Hca& h = context.hca;
  const uint32_t max_cqe = h.config.profile.max_cqe;
  if (q.comp_vector != 0)
    return Error{-hca::refuse_verb(h, -EINVAL, {hca::VerbRefusal::cq_vector, q.comp_vector, 1})};
  if ((q.flags & ~known) != 0) return Error{-refusal::bits("flags", q.flags, known)};
  if (q.cqe == 0 || q.cqe > max_cqe)
    return Error{-hca::refuse_verb(h, -EINVAL, {hca::VerbRefusal::cq_entries, q.cqe, max_cqe})};
  mlx5_ib_create_cq cmd;
  if (int err = check_driver_part(r, context.hca.config.profile, cmd); err != 0) return Error{-err};
  auto made = std::make_unique<CqObject>();
  CqObject& cq = *made;
  cq.user_handle = q.user_handle;
  CqSpec spec{Va{cmd.buf_addr},   Va{cmd.db_addr}, std::bit_ceil(q.cqe + 1), cmd.cqe_size,
              cmd.uar_page_index, false,           static_cast<Object*>(&cq)};
  spec.ignore_overrun = (q.flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN) != 0;
  spec.time_of_day = (cmd.flags & MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS) != 0;
  spec.mini = mini_format(cmd);
  spec.padded = (cmd.flags & MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD) != 0;
  const QueuePins::Ring ring{spec.buf, uint64_t{spec.cqe_count} * spec.cqe_bytes};
  if (int err = cq.pins.take(context.record_pages, ring, {}, spec.record); err != 0)
    return Error{-err};
  if (q.channel != nullptr) {
    if (int err = q.channel->hold(); err != 0) return Error{-err};
  }
  if (q.async != nullptr) {
    if (int err = q.async->hold(); err != 0) {
      if (q.channel != nullptr) q.channel->let_go();
      return Error{-err};
    }
  }
  Result<Cqn> cqn = hca::create_cq(context.hca, spec, &context);
  if (!cqn) {
    if (q.channel != nullptr) q.channel->let_go();
    if (q.async != nullptr) q.async->let_go();
    return Error{-refusal::of(cqn.error())};
  }
  cq.cqn = *cqn;
  cq.cqe_count = spec.cqe_count;
  cq.cqe_bytes = spec.cqe_bytes;
  cq.channel = q.channel;
  cq.async = q.async;
  context.add(std::move(made), {});
  int err = r.driver_out.write(mlx5_ib_create_cq_resp{cqn->value(), 0});
  if (context.keep_unless(err, cq) != 0) return Error{-err};
  return &cq;
}

int create_method(Context& context, Bundle& b) {
  CqRequest q{static_cast<uint32_t>(b.value(UVERBS_ATTR_CREATE_CQ_CQE)),
              static_cast<uint32_t>(b.value(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR)),
              b.value(UVERBS_ATTR_CREATE_CQ_USER_HANDLE),
              static_cast<uint32_t>(b.value(UVERBS_ATTR_CREATE_CQ_FLAGS)),
              nullptr,
              context.default_async};
  if (b.has(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL)) {
    q.channel =
        context.event_file(EventFile::Kind::completion, b.fd(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL));
    if (q.channel == nullptr)
      return refusal::descriptor("the completion channel",
                                 b.fd(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL));
  }
  if (b.has(UVERBS_ATTR_CREATE_CQ_EVENT_FD)) {
    q.async = context.event_file(EventFile::Kind::async, b.fd(UVERBS_ATTR_CREATE_CQ_EVENT_FD));
    if (q.async == nullptr)
      return refusal::descriptor("the file of asynchronous events",
                                 b.fd(UVERBS_ATTR_CREATE_CQ_EVENT_FD));
  }
  Result<CqObject*> cq = create(context, q, b.driver_part());
  if (!cq) return refusal::of(cq.error());
  uint32_t granted = std::bit_ceil(q.cqe + 1) - 1;
  int err = b.put(UVERBS_ATTR_CREATE_CQ_RESP_CQE, granted);
  if (err == 0) err = b.give(UVERBS_ATTR_CREATE_CQ_HANDLE, (*cq)->handle);
  return context.keep_unless(err, **cq);
}

// Destroys and says how many events the client has read: those it must acknowledge.
int destroy_cq(Context& context, CqObject& cq, const OutBuffer& out) {
  if (cq.users != 0)
    return hca::refuse_verb(context.hca, -EBUSY, {hca::VerbRefusal::cq_busy, cq.users});
  // release() takes the unread ones back, so the counts are made here.
  EventFile* channel = cq.channel;
  EventFile* async = cq.async;
  if (channel != nullptr) cq.completions_posted -= channel->withdraw_posted(cq.user_handle, 0, 0);
  if (async != nullptr)
    cq.async_posted -= async->withdraw_posted(cq.user_handle, event_cq_err, event_cq_err);
  ib_uverbs_destroy_cq_resp resp{cq.completions_posted, cq.async_posted};
  if (int err = context.destroy(cq); err != 0) return err;
  return out.write(resp);
}

int destroy_method(Context& context, Bundle& b) {
  auto* cq = b.object<CqObject>(context, UVERBS_ATTR_DESTROY_CQ_HANDLE);
  return destroy_cq(context, *cq, b.out(UVERBS_ATTR_DESTROY_CQ_RESP));
}

constexpr AttrRule cq_create_rules[] = {
    {UVERBS_ATTR_CREATE_CQ_HANDLE, AttrKind::fresh, true},
    {UVERBS_ATTR_CREATE_CQ_CQE, AttrKind::in, true, 4, 4},
    {UVERBS_ATTR_CREATE_CQ_USER_HANDLE, AttrKind::in, true, 8, 8},
    {UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, AttrKind::fd, false},
    {UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, AttrKind::in, true, 4, 4},
    {UVERBS_ATTR_CREATE_CQ_FLAGS, AttrKind::in, false, 4, 8},
    {UVERBS_ATTR_CREATE_CQ_RESP_CQE, AttrKind::out, true, 4, 4},
    {UVERBS_ATTR_CREATE_CQ_EVENT_FD, AttrKind::fd, false},
};
constexpr AttrRule cq_destroy_rules[] = {
    {UVERBS_ATTR_DESTROY_CQ_HANDLE, AttrKind::object, true, 0, 0, Kind::cq},
    {UVERBS_ATTR_DESTROY_CQ_RESP, AttrKind::out, true, sizeof(ib_uverbs_destroy_cq_resp)},
};
constexpr Method cq_table[] = {
    {UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, WhenDead::refused, create_method,
     cq_create_rules},  // CREATE_CQ
    {UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, WhenDead::runs, destroy_method, cq_destroy_rules},
};

// The older commands name a channel by a descriptor or -1.
int channel_of(const Context& context, int32_t fd, CqRequest& q) {
  q.async = context.default_async;
  if (fd < 0) return 0;
  q.channel = context.event_file(EventFile::Kind::completion, fd);
  return q.channel != nullptr ? 0 : refusal::descriptor("the completion channel", fd, EINVAL);
}

}  // namespace

std::span<const Method> cq_methods() {
  return cq_table;
}

int CqObject::release(Context& context) {
  if (int err = hca::destroy_cq(context.hca, cqn); err != 0) return err;
  if (channel != nullptr) {
    channel->withdraw_posted(user_handle, 0, 0);
    channel->let_go();
  }
  if (async != nullptr) {
    async->withdraw_posted(user_handle, event_cq_err, event_cq_err);
    async->let_go();
  }
  return 0;
}

int cmd_create_cq(Context& context, const Request& r) {
  ib_uverbs_create_cq cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  CqRequest q{cmd.cqe, cmd.comp_vector, cmd.user_handle, 0, nullptr, nullptr};
  if (int err = channel_of(context, cmd.comp_channel, q); err != 0) return err;
  Result<CqObject*> cq = create(context, q, r);
  if (!cq) return refusal::of(cq.error());
  ib_uverbs_create_cq_resp resp{(*cq)->handle, std::bit_ceil(q.cqe + 1) - 1};
  return context.keep_unless(r.out.write(&resp, sizeof resp), **cq);
}

int cmd_create_cq_ex(Context& context, const Request& r) {
  ib_uverbs_ex_create_cq cmd;
  if (int err = r.in.read_whole(cmd); err != 0) return err;
  if (cmd.comp_mask != 0 || cmd.reserved != 0) return refusal::bits("comp_mask", cmd.comp_mask, 0);
  CqRequest q{cmd.cqe, cmd.comp_vector, cmd.user_handle, cmd.flags, nullptr, nullptr};
  if (int err = channel_of(context, cmd.comp_channel, q); err != 0) return err;
  Result<CqObject*> cq = create(context, q, r);
  if (!cq) return refusal::of(cq.error());
  ib_uverbs_ex_create_cq_resp resp{};
  resp.base.cq_handle = (*cq)->handle;
  resp.base.cqe = std::bit_ceil(q.cqe + 1) - 1;
  resp.response_length = sizeof resp;
  return context.keep_unless(r.out.write(&resp, sizeof resp), **cq);
}

int cmd_resize_cq(Context& context, const Request& r) {
  ib_uverbs_resize_cq cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  auto* cq = context.find<CqObject>(cmd.cq_handle);
  const uint32_t most = context.hca.config.profile.max_cqe;
  if (cq == nullptr) return refusal::absent("cq_handle", cmd.cq_handle);
  if (cmd.cqe == 0 || cmd.cqe > most) return refusal::range("cqe", cmd.cqe, 1, most);
  uint32_t count = std::bit_ceil(cmd.cqe + 1);
  mlx5_ib_resize_cq driver;
  if (r.driver_in.bytes() < sizeof driver)
    return refusal::bytes("mlx5_ib_resize_cq", r.driver_in.bytes(), sizeof driver);
  if (int err = r.driver_in.read(driver); err != 0) return err;
  if (driver.cqe_size != cq->cqe_bytes || driver.reserved0 != 0 || driver.reserved1 != 0)
    return refusal::equal("cqe_size", driver.cqe_size, cq->cqe_bytes);
  if (count != cq->cqe_count) {
    Pin pin;
    if (int err = pin.take(Va{driver.buf_addr}, uint64_t{count} * cq->cqe_bytes); err != 0)
      return err;
    if (int err = hca::resize_cq(context.hca, cq->cqn, Va{driver.buf_addr}, count); err != 0)
      return err;
    cq->cqe_count = count;
    cq->pins.ring = std::move(pin);
  }
  uint32_t granted = count - 1;
  return r.out.write(&granted, sizeof granted);
}

int cmd_modify_cq(Context& context, const Request& r) {
  ib_uverbs_ex_modify_cq cmd;
  if (int err = r.in.read_whole(cmd); err != 0) return err;
  if (cmd.attr_mask == 0 || cmd.reserved != 0)
    return refusal::equal("attr_mask", cmd.attr_mask, moderate);
  if (cmd.attr_mask != moderate)
    return refusal::equal("attr_mask", cmd.attr_mask, moderate, EOPNOTSUPP);
  auto* cq = context.find<CqObject>(cmd.cq_handle);
  if (cq == nullptr) return refusal::absent("cq_handle", cmd.cq_handle);
  return hca::moderate_cq(context.hca, cq->cqn, cmd.attr.cq_count, cmd.attr.cq_period);
}

int cmd_destroy_cq(Context& context, const Request& r) {
  ib_uverbs_destroy_cq cmd;
  if (int err = r.in.read(cmd); err != 0) return err;
  Object* o = context.object(cmd.cq_handle);
  if (o == nullptr) return refusal::absent("cq_handle", cmd.cq_handle, ENOENT);
  auto* cq = context.find<CqObject>(cmd.cq_handle);
  return cq != nullptr ? destroy_cq(context, *cq, r.out)
                       : refusal::absent("cq_handle", cmd.cq_handle);
}

}  // namespace kilim::vhca::uverbs
