// SPDX-License-Identifier: BSD-3-Clause
// Preloaded into a client of rdmacm_test.py: addresses take as long to resolve as on a network
// whose ARP takes 0.3 s. Here a peer is found at once, and perftest's client depends on it that its
// server is back in rdma_listen() by then. It never changes what is resolved.
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

struct rdma_cm_id;
struct sockaddr;

__attribute__((visibility("default"))) int rdma_resolve_addr(struct rdma_cm_id* id,
                                                             struct sockaddr* source,
                                                             struct sockaddr* to, int timeout_ms) {
  int (*next)(struct rdma_cm_id*, struct sockaddr*, struct sockaddr*, int) = NULL;
  *(void**)&next = dlsym(RTLD_NEXT, "rdma_resolve_addr");
  const struct timespec arp = {0, 300 * 1000 * 1000};
  nanosleep(&arp, NULL);
  return next(id, source, to, timeout_ms);
}
