// SPDX-License-Identifier: BSD-3-Clause
// Preloaded into qperf -cm1: its server destroys the queue pair of an id that has none any more,
// and librdmacm 44 looks into it (cma.c, rdma_destroy_qp()). Here such a call does nothing.
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>

__attribute__((visibility("default"))) void rdma_destroy_qp(struct rdma_cm_id* id) {
  void (*next)(struct rdma_cm_id*) = NULL;
  *(void**)&next = dlsym(RTLD_NEXT, "rdma_destroy_qp");
  if (id->qp != NULL) next(id);
}
