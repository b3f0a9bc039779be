// SPDX-License-Identifier: BSD-3-Clause
// A C99 program of ibv_compat.h, built against what was installed by pkg-config alone: a relaxed
// region comes, goes and is flushed. Run by kilim-vhca.
#include <kilim/ibv_compat.h>
#include <stdio.h>
#include <stdlib.h>

static int refused(const char* what) {
  fprintf(stderr, "relaxed: %s: %s\n", what, kilim_compat_error());
  return 1;
}

static int use(struct ibv_pd* pd, void* memory, size_t bytes) {
  struct ibv_mr* mr = ibv_reg_mr_relaxed(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
  if (mr == NULL) return refused("ibv_reg_mr_relaxed");
  if (mr->addr != memory || mr->length != bytes || mr->lkey == 0) return refused("the region");
  if (ibv_dereg_mr_relaxed(mr) != 0) return refused("ibv_dereg_mr_relaxed");
  if (ibv_flush_relaxed_mr(pd) != 0) return refused("ibv_flush_relaxed_mr");
  /* It has hidden objects in the domain, which go first: libkilim_compat has to come before
   * libibverbs. */
  return ibv_dealloc_pd(pd) == 0 ? 0 : refused("ibv_dealloc_pd");
}

int main(void) {
  int n = 0, code = 1;
  struct ibv_device** list = ibv_get_device_list(&n);
  struct ibv_context* context = n > 0 ? ibv_open_device(list[0]) : NULL;
  if (n == 0) fputs("relaxed: this machine has no RDMA device; run it by kilim-vhca\n", stderr);
  if (n > 0 && context == NULL)
    fprintf(stderr, "relaxed: cannot open %s\n", ibv_get_device_name(list[0]));
  struct ibv_pd* pd = context != NULL ? ibv_alloc_pd(context) : NULL;
  void* memory = malloc(1 << 16);
  if (pd != NULL && memory != NULL) code = use(pd, memory, 1 << 16);
  free(memory);
  if (context != NULL) ibv_close_device(context);
  if (list != NULL) ibv_free_device_list(list);
  printf("relaxed: %s\n", code == 0 ? "right" : "wrong");
  return code;
}
