// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs: creation by either interface, destruction with the count of events that the client
// has read. Adapter's lock held.
#include <cerrno>
#include <cstddef>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include "vhca/core/refusal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/hca/ports.hh"
#include "vhca/hca/verb_refusals.hh"
#include "vhca/uverbs/bundle.hh"
#include "vhca/uverbs/qp_create.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

namespace {

// Events that carry a queue pair: enum ibv_event_type 1 to 7, and 16.
constexpr uint32_t first_qp_event = 1, last_qp_event = 7;
constexpr uint32_t event_last_wqe = 16;

// What the creator is told: a target has its number when it is ready to receive, one that hashes
// has none.
uint32_t number_of(const QpObject& qp) {
  return qp.type == QpType::dct || qp.hashes ? 0 : qp.qpn.value();
}

// What ib_uverbs lets pass; the older command knows three more, of cross-channel work.
constexpr uint64_t method_flags =
    IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK | IB_UVERBS_QP_CREATE_SCATTER_FCS |
    IB_UVERBS_QP_CREATE_CVLAN_STRIPPING | IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING |
    IB_UVERBS_QP_CREATE_SQ_SIG_ALL;
constexpr uint32_t cross_channel = 1u << 2 | 1u << 3 | 1u << 4, source_qpn = 1u << 10;
constexpr uint32_t command_flags =
    static_cast<uint32_t>(method_flags & ~uint64_t{IB_UVERBS_QP_CREATE_SQ_SIG_ALL}) |
    cross_channel | source_qpn;

// Flags that only this interface holds against the type; the older command leaves it to mlx5_ib.
int check_method_flags(uint64_t type, uint32_t flags) {
  constexpr uint32_t of_frames =
      IB_UVERBS_QP_CREATE_SCATTER_FCS | IB_UVERBS_QP_CREATE_CVLAN_STRIPPING;
  if (flags == 0 || type == IB_UVERBS_QPT_DRIVER || type == IB_UVERBS_QPT_RAW_PACKET) return 0;
  return type != IB_UVERBS_QPT_UD || (flags & of_frames) != 0
             ? refusal::clash("create_flags", flags, type)
             : 0;
}

int create_method(Context& context, Bundle& b) {
  // It belongs to a transport that is not there.
  if (b.has(UVERBS_ATTR_CREATE_QP_SOURCE_QPN)) return refusal::lacks("source_qpn");
  QpRequest q;
  q.type = b.value(UVERBS_ATTR_CREATE_QP_TYPE);
  q.user_handle = b.value(UVERBS_ATTR_CREATE_QP_USER_HANDLE);
  q.pd = b.object<PdObject>(context, UVERBS_ATTR_CREATE_QP_PD_HANDLE);
  q.send_cq = b.object<CqObject>(context, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE);
  q.recv_cq = b.object<CqObject>(context, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE);
  q.srq = b.object<SrqObject>(context, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE);
  q.xrcd = b.object<XrcdObject>(context, UVERBS_ATTR_CREATE_QP_XRCD_HANDLE);
  q.table = b.object<RwqTableObject>(context, UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE);
  if (int err = b.in(UVERBS_ATTR_CREATE_QP_CAP).read(q.cap); err != 0) return err;
  uint64_t flags = b.value(UVERBS_ATTR_CREATE_QP_FLAGS);
  if ((flags & ~method_flags) != 0) return refusal::bits("create_flags", flags, method_flags);
  q.sq_sig_all = (flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL) != 0;
  q.create_flags = static_cast<uint32_t>(flags & ~uint64_t{IB_UVERBS_QP_CREATE_SQ_SIG_ALL});
  if (int err = check_method_flags(q.type, q.create_flags); err != 0) return err;
  q.async = context.default_async;
  if (b.has(UVERBS_ATTR_CREATE_QP_EVENT_FD)) {
    q.async = context.event_file(EventFile::Kind::async, b.fd(UVERBS_ATTR_CREATE_QP_EVENT_FD));
    if (q.async == nullptr)
      return refusal::descriptor("the file of asynchronous events",
                                 b.fd(UVERBS_ATTR_CREATE_QP_EVENT_FD));
  }
  Result<QpObject*> qp = create_qp_object(context, q, b.driver_part());
  if (!qp) return refusal::of(qp.error());
  int err = b.put(UVERBS_ATTR_CREATE_QP_RESP_CAP, (*qp)->cap);
  if (err == 0) err = b.put(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, number_of(**qp));
  if (err == 0) err = b.give(UVERBS_ATTR_CREATE_QP_HANDLE, (*qp)->handle);
  return context.keep_unless(err, **qp);
}

uint32_t withdraw_events(const QpObject& qp) {
  if (qp.async == nullptr) return 0;
  return qp.async->withdraw_posted(qp.user_handle, first_qp_event, last_qp_event) +
         qp.async->withdraw_posted(qp.user_handle, event_last_wqe, event_last_wqe);
}

// Destroys and says how many events the client has read: those it must acknowledge.
int destroy_qp(Context& context, QpObject& qp, const OutBuffer& out) {
  // A queue that stays keeps the events that nobody has read yet.
  if (!qp.hashes && hca::in_group(context.hca, qp.qpn))
    return hca::refuse_verb(context.hca, -EBUSY, {hca::VerbRefusal::qp_in_group, qp.qpn.value()});
  if (qp.users != 0) return refusal::busy("the queue pair", qp.users);
  qp.async_posted -= withdraw_events(qp);
  ib_uverbs_destroy_qp_resp resp{qp.async_posted};
  if (int err = context.destroy(qp); err != 0) return err;
  return out.write(resp);
}

int destroy_method(Context& context, Bundle& b) {
  auto* qp = b.object<QpObject>(context, UVERBS_ATTR_DESTROY_QP_HANDLE);
  return destroy_qp(context, *qp, b.out(UVERBS_ATTR_DESTROY_QP_RESP));
}

constexpr AttrRule qp_create_rules[] = {
    {UVERBS_ATTR_CREATE_QP_HANDLE, AttrKind::fresh, true},
    {UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, AttrKind::object, false, 0, 0, Kind::xrcd},
    {UVERBS_ATTR_CREATE_QP_PD_HANDLE, AttrKind::object, false, 0, 0, Kind::pd},
    {UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, AttrKind::object, false, 0, 0, Kind::srq},
    {UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, AttrKind::object, false, 0, 0, Kind::cq},
    {UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, AttrKind::object, false, 0, 0, Kind::cq},
    {UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, AttrKind::object, false, 0, 0, Kind::rwq_table},
    {UVERBS_ATTR_CREATE_QP_USER_HANDLE, AttrKind::in, true, 8, 8},
    {UVERBS_ATTR_CREATE_QP_CAP, AttrKind::in_struct, true, sizeof(ib_uverbs_qp_cap),
     sizeof(ib_uverbs_qp_cap)},
    {UVERBS_ATTR_CREATE_QP_TYPE, AttrKind::in, true, 8, 8},
    {UVERBS_ATTR_CREATE_QP_FLAGS, AttrKind::in, false, 4, 8},
    {UVERBS_ATTR_CREATE_QP_SOURCE_QPN, AttrKind::in, false, 4, 4},
    {UVERBS_ATTR_CREATE_QP_EVENT_FD, AttrKind::fd, false},
    {UVERBS_ATTR_CREATE_QP_RESP_CAP, AttrKind::out, true, sizeof(ib_uverbs_qp_cap)},
    {UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, AttrKind::out, true, 4, 4},
};
constexpr AttrRule qp_destroy_rules[] = {
    {UVERBS_ATTR_DESTROY_QP_HANDLE, AttrKind::object, true, 0, 0, Kind::qp},
    {UVERBS_ATTR_DESTROY_QP_RESP, AttrKind::out, true, sizeof(ib_uverbs_destroy_qp_resp)},
};
constexpr Method qp_table[] = {
    {UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, WhenDead::refused, create_method,
     qp_create_rules},  // CREATE_QP
    {UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, WhenDead::runs, destroy_method, qp_destroy_rules},
};

// The two older structures name the common fields alike.
template <typename Command>
Result<QpObject*> create_from(Context& context, const Command& cmd, uint32_t create_flags,
                              RwqTableObject* table, const Request& r) {
  QpRequest q;
  q.type = cmd.qp_type;
  q.user_handle = cmd.user_handle;
  if (q.type == IB_UVERBS_QPT_XRC_TGT) {
    q.xrcd = context.find<XrcdObject>(cmd.pd_handle);  // the field serves both
  } else {
    q.pd = context.find<PdObject>(cmd.pd_handle);
    q.send_cq = context.find<CqObject>(cmd.send_cq_handle);
    q.recv_cq = context.find<CqObject>(cmd.recv_cq_handle);
  }
  if (cmd.is_srq != 0) {
    q.srq = context.find<SrqObject>(cmd.srq_handle);
    if (q.srq == nullptr) return Error{-refusal::absent("srq", cmd.srq_handle)};
  }
  q.cap = {cmd.max_send_wr, cmd.max_recv_wr, cmd.max_send_sge, cmd.max_recv_sge,
           cmd.max_inline_data};
  q.sq_sig_all = cmd.sq_sig_all != 0;
  q.create_flags = create_flags;
  q.table = table;
  if (table != nullptr && q.cap.max_send_wr == 0) q.send_cq = nullptr;
  if (table != nullptr) q.recv_cq = nullptr;
  q.async = context.default_async;
  return create_qp_object(context, q, r);
}

ib_uverbs_create_qp_resp answer(const QpObject& qp) {
  const ib_uverbs_qp_cap& c = qp.cap;
  return {qp.handle,      number_of(qp),  c.max_send_wr,     c.max_recv_wr,
          c.max_send_sge, c.max_recv_sge, c.max_inline_data, 0};
}

}  // namespace

std::span<const Method> qp_methods() {
  return qp_table;
}

int QpObject::release(Context& context) {
  if (hashes) return hca::destroy_tir(context.hca, tirn);
  if (tirn != 0) {
    if (int err = hca::destroy_qp_tir(context.hca, tirn); err != 0) return err;
    tirn = 0;
  }
  if (int err = hca::destroy_qp(context.hca, qpn, static_cast<Object*>(this)); err != 0) return err;
  if (tisn != 0) (void)hca::destroy_tis(context.hca, tisn);
  withdraw_events(*this);
  if (async != nullptr) async->let_go();
  return 0;
}

int cmd_create_qp(Context& context, const Request& r) {
  ib_uverbs_create_qp cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  Result<QpObject*> qp = create_from(context, cmd, 0, nullptr, r);
  if (!qp) return refusal::of(qp.error());
  ib_uverbs_create_qp_resp resp = answer(**qp);
  return context.keep_unless(r.out.write(&resp, sizeof resp), **qp);
}

int cmd_create_qp_ex(Context& context, const Request& r) {
  ib_uverbs_ex_create_qp cmd;
  if (int err = r.in.read_whole(cmd); err != 0) return err;
  if ((cmd.comp_mask & ~uint32_t{IB_UVERBS_CREATE_QP_SUP_COMP_MASK}) != 0)
    return refusal::bits("comp_mask", cmd.comp_mask, IB_UVERBS_CREATE_QP_SUP_COMP_MASK);
  if ((cmd.create_flags & ~command_flags) != 0)
    return refusal::bits("create_flags", cmd.create_flags, command_flags);
  if (cmd.source_qpn != 0) return refusal::lacks("source_qpn");
  RwqTableObject* table = nullptr;
  if (cmd.comp_mask != 0) {
    table = context.find<RwqTableObject>(cmd.rwq_ind_tbl_handle);
    if (table == nullptr) return refusal::absent("rwq_ind_tbl", cmd.rwq_ind_tbl_handle);
  }
  Result<QpObject*> qp = create_from(context, cmd, cmd.create_flags, table, r);
  if (!qp) return refusal::of(qp.error());
  ib_uverbs_ex_create_qp_resp resp{};
  resp.base.qp_handle = (*qp)->handle;
  resp.response_length = sizeof resp;
  std::byte bytes[sizeof resp];
  ib_uverbs_create_qp_resp base = answer(**qp);
  __builtin_memcpy(bytes, &resp, sizeof resp);
  __builtin_memcpy(bytes, &base, sizeof base);
  return context.keep_unless(r.out.write(bytes, sizeof bytes), **qp);
}

int cmd_destroy_qp(Context& context, const Request& r) {
  ib_uverbs_destroy_qp cmd;
  if (int err = r.in.read(cmd); err != 0) return err;
  if (context.object(cmd.qp_handle) == nullptr)
    return refusal::absent("qp_handle", cmd.qp_handle, ENOENT);
  auto* qp = context.find<QpObject>(cmd.qp_handle);
  return qp != nullptr ? destroy_qp(context, *qp, r.out)
                       : refusal::absent("qp_handle", cmd.qp_handle);
}

}  // namespace kilim::vhca::uverbs
