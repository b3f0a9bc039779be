// SPDX-License-Identifier: BSD-3-Clause
// The examples of the user's documents, in C. Their words are kept as far as they are C; names are
// those of kilim/ibv_compat.h.
#include "examples.h"

int example_odp_supported(struct ibv_context* context, struct ibv_exp_device_attr* out) {
  struct ibv_exp_device_attr dattr;
  int ret;
  dattr.comp_mask = IBV_EXP_DEVICE_ATTR_ODP | IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS;
  ret = ibv_exp_query_device(context, &dattr);
  if (ret) return -ret;
  *out = dattr;
  if (dattr.exp_device_cap_flags & IBV_EXP_DEVICE_ODP) return 1;
  return 0;
}

int example_rc_sends(const struct ibv_exp_device_attr* attr) {
  struct ibv_exp_device_attr dattr = *attr;
  if (dattr.odp_caps.per_transport_caps.rc_odp_caps & IBV_EXP_ODP_SUPPORT_SEND) return 1;
  return 0;
}

struct ibv_mr* example_explicit(struct ibv_pd* pd, void* buf, size_t size) {
  struct ibv_exp_reg_mr_in in;
  struct ibv_mr* mr;
  in.pd = pd;
  in.addr = buf;
  in.length = size;
  in.exp_access = IBV_EXP_ACCESS_ON_DEMAND | IBV_EXP_ACCESS_LOCAL_WRITE;
  in.comp_mask = 0;
  mr = ibv_exp_reg_mr(&in);
  return mr;
}

struct ibv_mr* example_implicit(struct ibv_pd* pd) {
  struct ibv_exp_reg_mr_in attr;
  struct ibv_exp_reg_mr_in* in = &attr;
  in->pd = pd;
  in->addr = 0;
  in->length = IBV_EXP_IMPLICIT_MR_SIZE;
  in->exp_access = IBV_EXP_ACCESS_ON_DEMAND | IBV_EXP_ACCESS_LOCAL_WRITE;
  in->comp_mask = 0;
  return ibv_exp_reg_mr(in);
}

int example_dereg(struct ibv_mr* mr) {
  return ibv_dereg_mr(mr);
}

int example_prefetch(struct ibv_mr* mr, void* addr, size_t length) {
  struct ibv_exp_prefetch_attr prefetch_attr;
  prefetch_attr.flags = IBV_EXP_PREFETCH_WRITE_ACCESS;
  prefetch_attr.addr = addr;
  prefetch_attr.length = length;
  prefetch_attr.comp_mask = 0;
  return ibv_exp_prefetch_mr(mr, &prefetch_attr);
}

int example_rereg(struct ibv_mr* mr, struct ibv_pd* pd, void* addr, size_t length) {
  struct ibv_rereg_mr_attr* attr = NULL;
  uint64_t access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  int flags = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
  return ibv_exp_rereg_mr(mr, flags, pd, addr, length, access, attr);
}

int example_rereg_allocates(struct ibv_mr* mr, size_t length) {
  struct ibv_rereg_mr_attr attr = {0};
  uint64_t access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ALLOCATE_MR;
  int flags = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS;
  return ibv_exp_rereg_mr(mr, flags, NULL, NULL, length, access, &attr);
}

int example_windows_supported(struct ibv_context* context) {
  /* Two names are changed: the document's struct ibv_device_attr and ibv_query_device. */
  struct ibv_exp_device_attr device_attr = {.comp_mask = IBV_DEVICE_ATTR_RESERVED - 1};
  ibv_exp_query_device(context, &device_attr);
  if (device_attr.exp_device_cap_flags & IBV_DEVICE_MEM_WINDOW ||
      device_attr.exp_device_cap_flags & IBV_DEVICE_MW_TYPE_2B) {
    /* Memory window is supported */
    return 1;
  }
  return 0;
}

int example_window(struct ibv_pd* pd, int type_2) {
  enum ibv_mw_type type_mw = type_2 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1;
  struct ibv_mw* mw = ibv_alloc_mw(pd, type_mw);
  if (mw == NULL) return -1;
  return ibv_dealloc_mw(mw);
}

struct ibv_mr* example_relaxed(struct ibv_pd* pd, void* addr, size_t length) {
  return ibv_reg_mr_relaxed(pd, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
}

int example_relaxed_end(struct ibv_mr* mr) {
  return ibv_dereg_mr_relaxed(mr);
}

int example_relaxed_flush(struct ibv_pd* pd) {
  return ibv_flush_relaxed_mr(pd);
}

int example_advise(struct ibv_mr* mr, void* addr, uint32_t length) {
  struct ibv_sge sg_list = {(uintptr_t)addr, length, mr->lkey};
  return ibv_advise_mr(mr->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sg_list,
                       1);
}
