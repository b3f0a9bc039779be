// SPDX-License-Identifier: BSD-3-Clause
// Protection domains. Adapter's lock held.
#include <cerrno>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "vhca/hca/objects.hh"
#include "vhca/hca/verb_refusals.hh"
#include "vhca/uverbs/bundle.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

namespace {

int destroy_pd(Context& context, Bundle& b) {
  const auto* pd = b.object<PdObject>(context, UVERBS_ATTR_DESTROY_PD_HANDLE);
  const uint32_t users = pd->users;
  const int err = destroy_by(context, b, UVERBS_ATTR_DESTROY_PD_HANDLE);
  return err == -EBUSY ? hca::refuse_verb(context.hca, err, {hca::VerbRefusal::pd_busy, users})
                       : err;
}

int query_pd(Context& context, Bundle& b) {
  const auto* pd = b.object<PdObject>(context, MLX5_IB_ATTR_QUERY_PD_HANDLE);
  return b.put(MLX5_IB_ATTR_QUERY_PD_RESP_PDN, pd->pdn.value());
}

constexpr AttrRule pd_destroy_rules[] = {
    {UVERBS_ATTR_DESTROY_PD_HANDLE, AttrKind::object, true, 0, 0, Kind::pd},
};
constexpr AttrRule pd_query_rules[] = {
    {MLX5_IB_ATTR_QUERY_PD_HANDLE, AttrKind::object, true, 0, 0, Kind::pd},
    {MLX5_IB_ATTR_QUERY_PD_RESP_PDN, AttrKind::out, true, 4, 4},
};
constexpr Method pd_table[] = {
    {UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, WhenDead::runs, destroy_pd, pd_destroy_rules},
    {UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY, WhenDead::runs, query_pd,
     pd_query_rules},  // no command (std_types.c)
};

}  // namespace

std::span<const Method> pd_methods() {
  return pd_table;
}

int PdObject::release(Context& context) {
  return hca::dealloc_pd(context.hca, pdn);
}

int cmd_alloc_pd(Context& context, const Request& r) {
  Result<Pdn> pdn = hca::alloc_pd(context.hca, &context);
  if (!pdn) return refusal::of(pdn.error());
  auto made = std::make_unique<PdObject>();
  made->pdn = *pdn;
  PdObject& pd = *made;
  context.add(std::move(made), {});
  int err = r.out.write(ib_uverbs_alloc_pd_resp{pd.handle});
  if (err == 0) err = r.driver_out.write(mlx5_ib_alloc_pd_resp{pdn->value()});
  return context.keep_unless(err, pd);
}

int cmd_dealloc_pd(Context& context, const Request& r) {
  ib_uverbs_dealloc_pd cmd;
  int err = r.in.read(cmd);
  return err != 0 ? err : destroy_handle<PdObject>(context, cmd.pd_handle);
}

}  // namespace kilim::vhca::uverbs
