// SPDX-License-Identifier: BSD-3-Clause
// Address handles: the kernel only resolves the MAC, the rest is the client library's. Adapter's
// lock held.
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5-abi.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "vhca/core/refusal.hh"
#include "vhca/uverbs/bundle.hh"
#include "vhca/uverbs/path.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

namespace {

int destroy_ah(Context& context, Bundle& b) {
  return destroy_by(context, b, UVERBS_ATTR_DESTROY_AH_HANDLE);
}

constexpr AttrRule ah_destroy_rules[] = {
    {UVERBS_ATTR_DESTROY_AH_HANDLE, AttrKind::object, true, 0, 0, Kind::ah},
};
constexpr Method ah_table[] = {
    {UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, WhenDead::runs, destroy_ah, ah_destroy_rules},
};

}  // namespace

std::span<const Method> ah_methods() {
  return ah_table;
}

int cmd_create_ah(Context& context, const Request& r) {
  if (!memory_reserve::fill()) return refusal::full("this process's memory");
  ib_uverbs_create_ah cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  auto* pd = context.find<PdObject>(cmd.pd_handle);
  if (pd == nullptr) return refusal::absent("pd_handle", cmd.pd_handle);
  QpAttr::Path path = path_of(cmd.attr);
  // One that is not global libmlx5 refuses by itself.
  constexpr PathRefusals why{hca::VerbRefusal::ah_sgid, hca::VerbRefusal::ah_sgid,
                             hca::VerbRefusal::ah_no_route};
  if (int err = resolve_path(context.hca, path); err != 0)
    return refuse_path(context.hca, err, path, why);
  // On Ethernet the MAC is what the library asks for; on InfiniBand there is none to give.
  constexpr uint32_t least = offsetof(mlx5_ib_create_ah_resp, dmac) + ETH_ALEN;
  const bool ethernet = context.hca.config.profile.lid == 0;
  if (ethernet && r.driver_out.bytes() < least)
    return refusal::bytes("the driver's answer", r.driver_out.bytes(), least);
  auto made = std::make_unique<AhObject>();
  AhObject& ah = *made;
  context.add(std::move(made), {pd});
  ib_uverbs_create_ah_resp resp{ah.handle};
  mlx5_ib_create_ah_resp driver{};
  driver.response_length = least;
  std::memcpy(driver.dmac, path.dmac.data(), path.dmac.size());
  int err = r.out.write(&resp, sizeof resp);
  if (err == 0 && ethernet) err = r.driver_out.write(driver);
  return context.keep_unless(err, ah);
}

int cmd_destroy_ah(Context& context, const Request& r) {
  ib_uverbs_destroy_ah cmd;
  int err = r.in.read(cmd);
  return err != 0 ? err : destroy_handle<AhObject>(context, cmd.ah_handle);
}

}  // namespace kilim::vhca::uverbs
