// SPDX-License-Identifier: BSD-3-Clause
// ADVISE_MR: prefetches of regions with on-demand paging. Adapter's lock held; the list is copied
// once. The errors are those of the ioctl core and of mlx5_ib.
#include <cerrno>
#include <vector>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "vhca/core/refusal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/uverbs/bundle.hh"

namespace kilim::vhca::uverbs {

namespace {

int advise(Context& context, Bundle& b) {
  const auto* pd = b.object<PdObject>(context, UVERBS_ATTR_ADVISE_MR_PD_HANDLE);
  uint64_t advice = b.value(UVERBS_ATTR_ADVISE_MR_ADVICE);
  uint64_t flags = b.value(UVERBS_ATTR_ADVISE_MR_FLAGS);
  if (!context.hca.config.profile.odp)
    return refusal::lacks("IBV_ACCESS_ON_DEMAND (on-demand paging)");
  if (!memory_reserve::fill()) return refusal::full("this process's memory");
  if (advice > UINT32_MAX || (flags & ~uint64_t{IB_UVERBS_ADVISE_MR_FLAG_FLUSH}) != 0)
    return refusal::bits("flags", flags, IB_UVERBS_ADVISE_MR_FLAG_FLUSH);
  InBuffer in = b.in(UVERBS_ATTR_ADVISE_MR_SGE_LIST);
  if (in.bytes() % sizeof(ib_uverbs_sge) != 0)
    return refusal::bytes("the last ibv_sge", in.bytes() % sizeof(ib_uverbs_sge),
                          sizeof(ib_uverbs_sge));
  std::vector<ib_uverbs_sge> sges(in.bytes() / sizeof(ib_uverbs_sge));
  if (int err = in.read(sges.data(), in.bytes()); err != 0) return err;
  std::vector<hca::Advice::Range> list;
  list.reserve(sges.size());
  for (const ib_uverbs_sge& s : sges) list.push_back({s.addr, s.length, s.lkey});
  return hca::advise_mr(context.hca, {pd->pdn, static_cast<uint32_t>(advice), flags != 0, list});
}

constexpr AttrRule rules[] = {
    {UVERBS_ATTR_ADVISE_MR_PD_HANDLE, AttrKind::object, true, 0, 0, Kind::pd},
    {UVERBS_ATTR_ADVISE_MR_ADVICE, AttrKind::in, true, 8, 8},
    {UVERBS_ATTR_ADVISE_MR_FLAGS, AttrKind::in, true, 4, 8},
    {UVERBS_ATTR_ADVISE_MR_SGE_LIST, AttrKind::in, true, sizeof(ib_uverbs_sge)},
};
constexpr Method advise_table[] = {
    {UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, WhenDead::runs, advise,
     rules},  // prefetching is the host's work (odp.c)
};

}  // namespace

std::span<const Method> advise_methods() {
  return advise_table;
}

}  // namespace kilim::vhca::uverbs
