// SPDX-License-Identifier: BSD-3-Clause
// OPEN_QP: another handle on an XRC target, for whoever shares its domain. The queue pair goes with
// its last handle, and each of them hears of its events. Adapter's lock held.
#include <cerrno>

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "vhca/core/refusal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/uverbs/write_command.hh"
#include "vhca/wq/qp.hh"

namespace kilim::vhca::uverbs {

int cmd_open_qp(Context& context, const Request& r) {
  if (!memory_reserve::fill()) return refusal::full("this process's memory");
  ib_uverbs_open_qp cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  auto* xrcd = context.find<XrcdObject>(cmd.pd_handle);
  if (xrcd == nullptr) return refusal::absent("xrcd", cmd.pd_handle);
  if (cmd.qp_type != IB_UVERBS_QPT_XRC_TGT)
    return refusal::equal("qp_type", cmd.qp_type, IB_UVERBS_QPT_XRC_TGT);
  auto made = std::make_unique<QpObject>();
  QpObject& qp = *made;
  qp.type = QpType::xrc_tgt;
  qp.qpn = Qpn{cmd.qpn};
  qp.user_handle = cmd.user_handle;
  qp.async = context.default_async;
  if (qp.async != nullptr) {
    if (int err = qp.async->hold(); err != 0) return err;
  }
  int err = hca::open_qp(context.hca, qp.qpn, xrcd->xrcd, {&context, static_cast<Object*>(&qp)});
  if (err != 0) {
    if (qp.async != nullptr) qp.async->let_go();
    return err;
  }
  context.add(std::move(made), {xrcd});
  ib_uverbs_create_qp_resp resp{};
  resp.qp_handle = qp.handle;
  resp.qpn = cmd.qpn;
  return context.keep_unless(r.out.write(&resp, sizeof resp), qp);
}

}  // namespace kilim::vhca::uverbs
