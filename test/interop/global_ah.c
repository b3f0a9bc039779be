// SPDX-License-Identifier: BSD-3-Clause
// Preloaded into udpong: rsockets' datagrams make the address handle of their own queue pair from a
// LID alone (rdma-core 44, rsocket.c, ds_add_qp_dest()), which no RoCE port takes: libmlx5 says
// EINVAL (mlx5_create_ah()), a kernel too (verbs.c, rdma_check_ah_attr()). Here such a handle leads
// to the port's own first GID. It never changes a handle that has a GRH.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stddef.h>

__attribute__((visibility("default"))) struct ibv_ah* ibv_create_ah(struct ibv_pd* pd,
                                                                    struct ibv_ah_attr* attr) {
  struct ibv_ah* (*next)(struct ibv_pd*, struct ibv_ah_attr*) = NULL;
  *(void**)&next = dlvsym(RTLD_NEXT, "ibv_create_ah", "IBVERBS_1.1");
  struct ibv_ah_attr global = *attr;
  if (!attr->is_global) {
    global.is_global = 1;
    global.grh.sgid_index = 0;
    global.grh.hop_limit = 1;
    if (ibv_query_gid(pd->context, attr->port_num, 0, &global.grh.dgid) != 0) return NULL;
  }
  return next(pd, &global);
}
