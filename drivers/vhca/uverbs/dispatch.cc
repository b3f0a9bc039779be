// SPDX-License-Identifier: BSD-3-Clause
// The table of methods and the checks that the kernel's ioctl core makes before one runs. What is
// not in the table is answered EPROTONOSUPPORT, by which rdma-core knows to try an older way.
// Adapter's lock held.
#include "vhca/uverbs/dispatch.hh"

#include <cerrno>

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "vhca/core/refusal.hh"
#include "vhca/hca/verb_refusals.hh"
#include "vhca/memory/dma.hh"
#include "vhca/uverbs/bundle.hh"
#include "vhca/uverbs/verb_names.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr std::span<const Method> (*rooms[])() = {
    device_methods,      port_methods,       pd_methods,       mr_methods,  advise_methods,
    dm_methods,          cq_methods,         qp_methods,       ah_methods,  flow_methods,
    flow_action_methods, matcher_methods,    counters_methods, uar_methods, devx_methods,
    devx_umem_methods,   devx_event_methods, write_methods,
};

// DevX objects do not exist on an adapter without it, nor do methods of device memory.
bool present(const Context& context, uint16_t object, uint16_t method) {
  const Profile& p = context.hca.config.profile;
  const bool devx = object >= MLX5_IB_OBJECT_DEVX && object <= MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD &&
                    object != MLX5_IB_OBJECT_FLOW_MATCHER;
  if (devx) return p.devx;
  bool dm = object == UVERBS_OBJECT_DM ||
            (object == UVERBS_OBJECT_MR && method == UVERBS_METHOD_DM_MR_REG);
  return !dm || p.max_dm_size != 0;
}

const Method* find_method(const Context& context, uint16_t object, uint16_t method) {
  if (!present(context, object, method)) return nullptr;
  for (auto room : rooms) {
    for (const Method& m : room()) {
      if (m.object == object && m.method == method) return &m;
    }
  }
  return nullptr;
}

// To a child after fork its parent's device is gone, but for device memory and what the device is
// (write_command.cc knows of which commands that is told).
bool answers_child(uint16_t object, uint16_t method) {
  return object == UVERBS_OBJECT_DM ||
         (object == UVERBS_OBJECT_DEVICE && method == UVERBS_METHOD_INVOKE_WRITE);
}

// These two come before there is a context.
bool needs_context(const Method& m) {
  return m.object != UVERBS_OBJECT_DEVICE ||
         (m.method != UVERBS_METHOD_INVOKE_WRITE && m.method != UVERBS_METHOD_GET_CONTEXT);
}

}  // namespace

namespace {

int carry_out(Context& context, Va header, const ib_uverbs_ioctl_hdr& h, Bundle& bundle) {
  constexpr uint32_t page = 4096;
  if (context.disowned && !answers_child(h.object_id, h.method_id)) return -EIO;
  if (h.length > page || h.length != sizeof h + h.num_attrs * sizeof(ib_uverbs_attr))
    return refusal::bytes("the ioctl with its attributes", h.length,
                          sizeof h + h.num_attrs * sizeof(ib_uverbs_attr));
  if (h.reserved1 != 0 || h.reserved2 != 0)
    return refusal::bits("the ioctl's reserved part", h.reserved1 | h.reserved2, 0,
                         EPROTONOSUPPORT);
  if (h.driver_id != RDMA_DRIVER_MLX5)
    return refusal::equal("driver_id", h.driver_id, RDMA_DRIVER_MLX5);
  const Method* m = find_method(context, h.object_id, h.method_id);
  if (m == nullptr) return -EPROTONOSUPPORT;
  Va attrs{header.value() + sizeof h};
  if (int err = bundle.parse(context, *m, attrs, h.num_attrs); err != 0) return err;
  if (needs_context(*m) && !context.opened)
    return refusal::text(EINVAL, "this file has no context yet");
  if (int err = context.refusal(m->when_dead); err != 0) return err;
  return m->run(context, bundle);
}

const char* name_of(const ib_uverbs_ioctl_hdr& h, const Bundle& b) {
  const bool writes =
      h.object_id == UVERBS_OBJECT_DEVICE && h.method_id == UVERBS_METHOD_INVOKE_WRITE;
  return writes ? verb_name(static_cast<uint32_t>(b.value(UVERBS_ATTR_WRITE_CMD)))
                : verb_name(h.object_id, h.method_id);
}

}  // namespace

int run_ioctl(Context& context, Va header) {
  ib_uverbs_ioctl_hdr h;
  refusal::forget();
  if (!memory::dma::copy_in(&h, header, sizeof h)) return refusal::fault(header.value());
  Bundle bundle;
  const int err = carry_out(context, header, h, bundle);
  if (err != 0) hca::tell_refusal(context.hca, name_of(h, bundle), err);
  return err;
}

}  // namespace kilim::vhca::uverbs
