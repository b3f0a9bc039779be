// SPDX-License-Identifier: BSD-3-Clause
// The experimental verbs of memory regions (ibv_compat.h), made of today's verbs on the caller's
// own objects. Any thread.
#include <cerrno>
#include <cstdint>

#include "compat/allocated.hh"
#include "compat/sentence.hh"
#include "kilim/detail/mem/block.hh"
#include "kilim/ibv_compat.h"
#include "mlx5/caps.hh"

namespace {

using namespace kilim;
using compat::fail;
using compat::fail_over;
using mr::OdpTransport;

constexpr uint64_t allocate = IBV_EXP_ACCESS_ALLOCATE_MR;
constexpr uint64_t on_demand = IBV_EXP_ACCESS_ON_DEMAND;

uint32_t odp_of(const mr::OdpCaps& caps, OdpTransport t) {
  return caps.of(t).value_or(0);
}

void fill_odp(const mr::OdpCaps& caps, ibv_exp_odp_caps& out) {
  out.general_odp_caps = 0;
  if (caps.supported) out.general_odp_caps |= IBV_EXP_ODP_SUPPORT;
  if (caps.implicit) out.general_odp_caps |= IBV_EXP_ODP_SUPPORT_IMPLICIT;
  out.per_transport_caps = {.rc_odp_caps = odp_of(caps, OdpTransport::rc),
                            .uc_odp_caps = odp_of(caps, OdpTransport::uc),
                            .ud_odp_caps = odp_of(caps, OdpTransport::ud),
                            .dc_odp_caps = odp_of(caps, OdpTransport::dc),
                            .xrc_odp_caps = odp_of(caps, OdpTransport::xrc),
                            .raw_eth_odp_caps = odp_of(caps, OdpTransport::raw_ethernet)};
}

// Refuses access bits that no verb takes, and the two that exclude each other. 0: the bits are
// fine.
int check_access(uint64_t access) {
  constexpr uint64_t known = 0xffffffffu | allocate;
  if ((access & ~known) != 0) return fail(EINVAL, "an access bit that no region has");
  if ((access & allocate) != 0 && (access & on_demand) != 0)
    return fail(EINVAL, "on-demand paging does not support contiguous pages");
  return 0;
}

Result<mem::Block> contiguous(ibv_pd* pd, void* addr, size_t length) {
  if (addr != nullptr) return Error{EINVAL, "memory that the library allocates has no address yet"};
  if (length == 0) return Error{EINVAL, "no bytes are asked for"};
  return mem::Block::map(length,
                         mlx5::read_numa_node("/sys", ibv_get_device_name(pd->context->device)));
}

ibv_mr* reg_allocated(const ibv_exp_reg_mr_in& in) {
  Result<mem::Block> block = contiguous(in.pd, in.addr, in.length);
  if (!block) {
    (void)fail(block.error().code, block.error().what);
    return nullptr;
  }
  ibv_mr* mr = ibv_reg_mr(in.pd, block->span().data(), in.length,
                          static_cast<unsigned>(in.exp_access & ~allocate));
  if (mr == nullptr) {
    (void)fail(errno, "the adapter does not register the memory that was allocated");
    return nullptr;
  }
  compat::keep(mr, *std::move(block));
  return mr;
}

}  // namespace

int ibv_exp_query_device(ibv_context* context, ibv_exp_device_attr* attr) {
  compat::begin();
  if (context == nullptr || attr == nullptr) return fail(EINVAL, "no context, or nothing to fill");
  const uint32_t asked = attr->comp_mask & (IBV_EXP_DEVICE_ATTR_RESERVED - 1u);
  Result<device::Caps> caps = mlx5::read_caps(context);
  if (!caps) return fail(caps.error().code, caps.error().what);
  ibv_device_attr plain{};
  if (const int rc = ibv_query_device(context, &plain); rc != 0)
    return fail(rc, "the adapter does not tell its limits");
  *attr = {};
  attr->comp_mask = asked;
  // The bits of memory windows are the same as in ibv_device_attr::device_cap_flags.
  attr->exp_device_cap_flags =
      plain.device_cap_flags &
      (IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
  if (caps->odp.supported) attr->exp_device_cap_flags |= IBV_EXP_DEVICE_ODP;
  if ((asked & IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS) == 0) attr->exp_device_cap_flags = 0;
  if ((asked & IBV_EXP_DEVICE_ATTR_ODP) != 0) fill_odp(caps->odp, attr->odp_caps);
  return 0;
}

ibv_mr* ibv_exp_reg_mr(ibv_exp_reg_mr_in* in) {
  compat::begin();
  if (in == nullptr || in->pd == nullptr || in->comp_mask != 0) {
    (void)fail(EINVAL, "no protection domain, or attributes that nobody knows");
    return nullptr;
  }
  if (check_access(in->exp_access) != 0) return nullptr;
  if ((in->exp_access & allocate) != 0) return reg_allocated(*in);
  const auto access = static_cast<unsigned>(in->exp_access);
  ibv_mr* mr = ibv_reg_mr(in->pd, in->addr, in->length, access);
  if (mr == nullptr) (void)fail_over(in->addr, errno, "the adapter does not register this memory");
  return mr;
}

int kilim_compat_dereg_mr(ibv_mr* mr) {
  compat::begin();
  if (mr == nullptr) return fail(EINVAL, "no region");
  const void* const memory = mr->addr;
  if (const int rc = ibv_dereg_mr(mr); rc != 0) return fail(rc, "the region is still in use");
  compat::release(mr, memory);
  return 0;
}

int ibv_exp_prefetch_mr(ibv_mr* mr, ibv_exp_prefetch_attr* attr) {
  compat::begin();
  if (mr == nullptr || attr == nullptr || attr->comp_mask != 0 ||
      (attr->flags & ~uint32_t{IBV_EXP_PREFETCH_WRITE_ACCESS}) != 0)
    return fail(EINVAL, "no region, or attributes that nobody knows");
  const auto advice = (attr->flags & IBV_EXP_PREFETCH_WRITE_ACCESS) != 0
                          ? IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
                          : IBV_ADVISE_MR_ADVICE_PREFETCH;
  constexpr uint64_t step = uint64_t{1} << 31;  // a piece's length has 32 bits
  constexpr uint32_t most = 32;                 // 64 GiB; pages behind it come at their first use
  ibv_sge pieces[most];
  uint32_t count = 0;
  auto at = reinterpret_cast<uint64_t>(attr->addr);
  for (uint64_t left = attr->length; left != 0 && count < most; count++) {
    const uint64_t bytes = left < step ? left : step;
    pieces[count] = {at, static_cast<uint32_t>(bytes), mr->lkey};
    at += bytes;
    left -= bytes;
  }
  (void)ibv_advise_mr(mr->pd, advice, 0, pieces, count);
  errno = 0;
  return 0;
}

// NOLINTNEXTLINE(readability-function-size): the documents give it seven arguments
int ibv_exp_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length, uint64_t access,
                     ibv_rereg_mr_attr* attr) {
  compat::begin();
  if (mr == nullptr || (attr != nullptr && attr->comp_mask != 0))
    return fail(EINVAL, "no region, or attributes that nobody knows");
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && pd == nullptr)
    return fail(EINVAL, "no protection domain to change to");
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) == 0) access = 0;  // ibv_rereg_mr() refuses other values
  const bool allocates = (access & allocate) != 0;
  if (check_access(access) != 0) return errno;
  if (allocates && !moves)
    return fail(EINVAL, "memory is allocated only together with a change of the translation");
  Result<mem::Block> block = Error{0, ""};
  if (allocates) {
    block = contiguous(mr->pd, addr, length);
    if (!block) return fail(block.error().code, block.error().what);
    addr = block->span().data();
  }
  errno = 0;
  const void* const before = mr->addr;
  const int rc = ibv_rereg_mr(mr, flags, pd, addr, length, static_cast<int>(access & 0xffffffffu));
  if (rc != 0)
    return fail_over(moves ? addr : nullptr, errno != 0 ? errno : EINVAL,
                     "the region is not re-registered; ibv_dereg_mr() releases it");
  if (moves) compat::release(mr, before);
  if (allocates) compat::keep(mr, *std::move(block));
  return 0;
}

ibv_mr* ibv_reg_shared_mr(uint32_t, ibv_pd*, void*, int) {
  compat::begin();
  (void)fail(EOPNOTSUPP,
             "regions are shared by ibv_import_mr() of whoever shares the context's file");
  return nullptr;
}
