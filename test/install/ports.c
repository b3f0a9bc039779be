// SPDX-License-Identifier: BSD-3-Clause
// How often the driver net_kilim is registered in a process that links libkilim (LINKED), loads the
// plugin by EAL's -d, or both; and that a port of it comes up. Every registration comes here first.
#include <dlfcn.h>
#include <rte_eal.h>
#include <stdio.h>
#include <string.h>

#ifdef LINKED
#include <kilim/rte_pmd_kilim.h>
#include <kilim/version.h>
#endif

struct rte_vdev_driver;
void rte_vdev_register(struct rte_vdev_driver* driver);

static int registered;

void rte_vdev_register(struct rte_vdev_driver* driver) {
  void (*next)(struct rte_vdev_driver*);
  const char* name = ((const char* const*)driver)[4]; /* behind two pairs of list pointers */
  if (strcmp(name, "net_kilim") == 0) registered++;
  *(void**)&next = dlsym(RTLD_NEXT, "rte_vdev_register");
  next(driver);
}

int main(int argc, char** argv) {
  if (rte_eal_init(argc, argv) < 0) return 1;
#ifdef LINKED
  printf("registered %d, ports %u, version %s\n", registered, rte_pmd_kilim_count(),
         kilim_version());
#else
  printf("registered %d, ports 1, version none\n", registered); /* EAL has not started without it */
#endif
  return rte_eal_cleanup();
}
