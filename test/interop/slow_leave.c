// SPDX-License-Identifier: BSD-3-Clause
// Preloaded into libfabric's programs of rdmacm_test.py: who leaves a connection leaves it 0.2 s
// later. Its layer ofi_rxm looks for completions first and then for news of the connection
// (rxm_cq.c, rxm_ep_do_progress(), 1.17). A processor taken away in between brings it the last
// acknowledgement or message and its peer's goodbye at once: it destroys the queue pair, whose
// completions are lost by that.
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <time.h>

__attribute__((visibility("default"))) void rdma_destroy_ep(struct rdma_cm_id* id) {
  void (*next)(struct rdma_cm_id*) = NULL;
  *(void**)&next = dlsym(RTLD_NEXT, "rdma_destroy_ep");
  const struct timespec leave = {0, 200 * 1000 * 1000};
  nanosleep(&leave, NULL);
  next(id);
}
