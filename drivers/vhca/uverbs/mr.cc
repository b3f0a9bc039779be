// SPDX-License-Identifier: BSD-3-Clause
// Memory regions and windows; those of device memory are made in dm.cc. Of dma-bufs there are
// none: their method is absent, as on a kernel without it. Adapter's lock held.
#include <cerrno>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <sys/resource.h>

#include "vhca/core/refusal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/hca/verb_refusals.hh"
#include "vhca/uverbs/bundle.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint32_t mr_known_access = access::local_write | access::remote_write |
                                     access::remote_read | access::remote_atomic | access::mw_bind |
                                     access::zero_based | access::on_demand | access::huge_pages |
                                     access::optional_mask;

// As ib_check_mr_access() and ib_uverbs_reg_mr() judge.
int check(const ib_uverbs_reg_mr& cmd, bool odp) {
  constexpr uint64_t in_page = 4095;
  const uint32_t rights = cmd.access_flags;
  if ((cmd.start & in_page) != (cmd.hca_va & in_page))
    return refusal::clash("the place of hca_va in its page", cmd.hca_va, cmd.start);
  if ((rights & (access::remote_write | access::remote_atomic)) != 0 &&
      (rights & access::local_write) == 0)
    return refusal::clash("access with remote and without local write", rights,
                          access::local_write);
  if ((rights & ~mr_known_access) != 0) return refusal::bits("access", rights, mr_known_access);
  if ((rights & access::on_demand) != 0 && !odp) return refusal::lacks("IBV_ACCESS_ON_DEMAND");
  if (cmd.length == 0) return refusal::least("length", 0, 1);
  if (cmd.start + cmd.length < cmd.start) return refusal::most("length", cmd.length, ~cmd.start);
  return 0;
}

// The reason of check(), in its order, for what has one.
int refuse(hca::Hca& h, int err, const ib_uverbs_reg_mr& cmd) {
  constexpr uint64_t in_page = 4095;
  const uint32_t rights = cmd.access_flags;
  const auto no = [&](const hca::Refused& r) { return hca::refuse_verb(h, err, r); };
  if ((cmd.start & in_page) != (cmd.hca_va & in_page))
    return no({hca::VerbRefusal::mr_iova, cmd.hca_va, cmd.start});
  if ((rights & (access::remote_write | access::remote_atomic)) != 0 &&
      (rights & access::local_write) == 0)
    return no({hca::VerbRefusal::mr_remote_needs_local, rights, access::local_write});
  if ((rights & ~mr_known_access) != 0)
    return no({hca::VerbRefusal::mr_access, rights, mr_known_access});
  if (err == -EOPNOTSUPP) return no({hca::VerbRefusal::mr_odp, rights, 0});
  if (cmd.length == 0) return no({hca::VerbRefusal::mr_empty, 0, 1});
  return no({hca::VerbRefusal::mr_wraps, cmd.start, cmd.length});
}

// What the kernel would say of the memory itself.
int refuse_memory(hca::Hca& h, int err, const ib_uverbs_reg_mr& cmd) {
  rlimit limit{};
  if (err == -ENOMEM || err == -EPERM) {
    (void)::getrlimit(RLIMIT_MEMLOCK, &limit);
    return hca::refuse_verb(h, err, {hca::VerbRefusal::mr_locked, cmd.length, limit.rlim_cur});
  }
  return hca::refuse_verb(h, err, {hca::VerbRefusal::mr_unmapped, cmd.start, cmd.length});
}

int destroy_mr(Context& context, Bundle& b) {
  return destroy_by(context, b, UVERBS_ATTR_DESTROY_MR_HANDLE);
}

int destroy_window(Context& context, Bundle& b) {
  return destroy_by(context, b, UVERBS_ATTR_DESTROY_MW_HANDLE);
}

int query_mr(Context& context, Bundle& b) {
  const auto* mr = b.object<MrObject>(context, UVERBS_ATTR_QUERY_MR_HANDLE);
  int err = b.put(UVERBS_ATTR_QUERY_MR_RESP_LKEY, mr->keys.lkey.value());
  if (err == 0) err = b.put(UVERBS_ATTR_QUERY_MR_RESP_RKEY, mr->keys.rkey.value());
  if (err == 0) err = b.put(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, mr->length);
  if (err == 0) err = b.put(UVERBS_ATTR_QUERY_MR_RESP_IOVA, mr->iova);
  return err;
}

constexpr AttrRule mr_destroy_rules[] = {
    {UVERBS_ATTR_DESTROY_MR_HANDLE, AttrKind::object, true, 0, 0, Kind::mr},
};
constexpr AttrRule destroy_window_rules[] = {
    {UVERBS_ATTR_DESTROY_MW_HANDLE, AttrKind::object, true, 0, 0, Kind::mw},
};
constexpr AttrRule mr_query_rules[] = {
    {UVERBS_ATTR_QUERY_MR_HANDLE, AttrKind::object, true, 0, 0, Kind::mr},
    {UVERBS_ATTR_QUERY_MR_RESP_LKEY, AttrKind::out, true, 4, 4},
    {UVERBS_ATTR_QUERY_MR_RESP_RKEY, AttrKind::out, true, 4, 4},
    {UVERBS_ATTR_QUERY_MR_RESP_LENGTH, AttrKind::out, true, 8, 8},
    {UVERBS_ATTR_QUERY_MR_RESP_IOVA, AttrKind::out, false, 8, 8},
};
constexpr Method mr_table[] = {
    {UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, WhenDead::runs, destroy_mr, mr_destroy_rules},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, WhenDead::runs, query_mr,
     mr_query_rules},  // no command (core/uverbs_std_types_mr.c)
    {UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY, WhenDead::runs, destroy_window,
     destroy_window_rules},
};

constexpr uint32_t change_translation = 1, change_pd = 2, change_access = 4;

// What the region would be after the change: the rest stays as it is.
ib_uverbs_reg_mr merged(const MrObject& mr, const ib_uverbs_rereg_mr& cmd) {
  ib_uverbs_reg_mr all{};
  bool moves = (cmd.flags & change_translation) != 0;
  all.start = moves ? uint64_t{cmd.start} : mr.start;
  all.length = moves ? uint64_t{cmd.length} : mr.length;
  all.hca_va = moves ? uint64_t{cmd.hca_va} : mr.iova;
  all.access_flags = (cmd.flags & change_access) != 0 ? cmd.access_flags : mr.access;
  return all;
}

}  // namespace

std::span<const Method> mr_methods() {
  return mr_table;
}

int MrObject::release(Context& context) {
  return hca::dereg_mr(context.hca, index_of(keys.lkey));
}

int cmd_reg_mr(Context& context, const Request& r) {
  ib_uverbs_reg_mr cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  hca::Hca& h = context.hca;
  if (int err = check(cmd, h.config.profile.odp); err != 0) return refuse(h, err, cmd);
  auto* pd = context.find<PdObject>(cmd.pd_handle);
  if (pd == nullptr) return refusal::absent("pd_handle", cmd.pd_handle);
  Pin pin;
  const bool pinned = (cmd.access_flags & access::on_demand) == 0;
  if (int err = pinned ? pin.take(Va{cmd.start}, cmd.length) : 0; err != 0)
    return refuse_memory(h, err, cmd);
  Result<MrKeys> keys =
      hca::reg_mr(h, {pd->pdn, Va{cmd.start}, cmd.length, Iova{cmd.hca_va}, cmd.access_flags});
  if (!keys) return refuse_memory(h, -keys.error().code, cmd);
  auto made = std::make_unique<MrObject>();
  made->keys = *keys;
  made->start = cmd.start;
  made->length = cmd.length;
  made->iova = cmd.hca_va;
  made->access = cmd.access_flags;
  made->pin = std::move(pin);
  MrObject& mr = *made;
  context.add(std::move(made), {pd});
  ib_uverbs_reg_mr_resp resp{mr.handle, keys->lkey.value(), keys->rkey.value()};
  return context.keep_unless(r.out.write(&resp, sizeof resp), mr);
}

int cmd_dereg_mr(Context& context, const Request& r) {
  ib_uverbs_dereg_mr cmd;
  int err = r.in.read(cmd);
  return err != 0 ? err : destroy_handle<MrObject>(context, cmd.mr_handle);
}

int cmd_rereg_mr(Context& context, const Request& r) {
  ib_uverbs_rereg_mr cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  constexpr uint32_t changes = change_translation | change_pd | change_access;
  if (cmd.flags == 0 || (cmd.flags & ~changes) != 0)
    return refusal::bits("flags (one at least)", cmd.flags, changes);
  auto* mr = context.find<MrObject>(cmd.mr_handle);
  if (mr == nullptr || mr->of_device()) return refusal::absent("mr_handle", cmd.mr_handle);
  auto* old_pd = static_cast<PdObject*>(mr->uses()[0]);
  auto* pd = (cmd.flags & change_pd) != 0 ? context.find<PdObject>(cmd.pd_handle) : old_pd;
  if (pd == nullptr) return refusal::absent("pd_handle", cmd.pd_handle);
  ib_uverbs_reg_mr all = merged(*mr, cmd);
  if (int err = check(all, context.hca.config.profile.odp); err != 0) return err;
  // Other memory is pinned before the old is let go.
  const bool pins = (all.access_flags & access::on_demand) == 0;
  const bool other = (cmd.flags & change_translation) != 0 || (mr->access & access::on_demand) != 0;
  Pin pin;
  if (int err = pins && other ? pin.take(Va{all.start}, all.length) : 0; err != 0) return err;
  MrSpec spec{pd->pdn, Va{all.start}, all.length, Iova{all.hca_va}, all.access_flags};
  if (int err = hca::rereg_mr(context.hca, index_of(mr->keys.lkey), spec); err != 0) return err;
  if (other || !pins) mr->pin = std::move(pin);
  if (pd != old_pd) Context::use_instead(*mr, *old_pd, *pd);
  mr->start = all.start;
  mr->length = all.length;
  mr->iova = all.hca_va;
  mr->access = all.access_flags;
  return r.out.write(ib_uverbs_rereg_mr_resp{mr->keys.lkey.value(), mr->keys.rkey.value()});
}

int MwObject::release(Context& context) {
  return hca::dealloc_mw(context.hca, MkeyIndex{rkey.value() >> 8});
}

int cmd_alloc_mw(Context& context, const Request& r) {
  constexpr uint8_t type_1 = 1, type_2 = 2;
  ib_uverbs_alloc_mw cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  auto* pd = context.find<PdObject>(cmd.pd_handle);
  if (pd == nullptr) return refusal::absent("pd_handle", cmd.pd_handle);
  if (cmd.mw_type != type_1 && cmd.mw_type != type_2)
    return refusal::range("type", cmd.mw_type, type_1, type_2);
  if (int err = r.driver_in.zero_from(0); err != 0) return err;
  Result<Rkey> rkey = hca::alloc_mw(context.hca, pd->pdn, cmd.mw_type == type_2);
  if (!rkey) return refusal::of(rkey.error());
  auto made = std::make_unique<MwObject>();
  made->rkey = *rkey;
  MwObject& mw = *made;
  context.add(std::move(made), {pd});
  ib_uverbs_alloc_mw_resp resp{mw.handle, rkey->value()};
  return context.keep_unless(r.out.write(&resp, sizeof resp), mw);
}

int cmd_dealloc_mw(Context& context, const Request& r) {
  ib_uverbs_dealloc_mw cmd;
  int err = r.in.read(cmd);
  return err != 0 ? err : destroy_handle<MwObject>(context, cmd.mw_handle);
}

}  // namespace kilim::vhca::uverbs
