// SPDX-License-Identifier: BSD-3-Clause
// The part of DPDK's driver interface that a virtual device driver of EAL needs, for systems
// without DPDK's driver SDK (doc/decisions/0007): the layouts of four structures, which are the
// same from 22.11 to 25.11, and two functions that librte_bus_vdev exports under the version
// INTERNAL. Order and types of the members are DPDK's ABI; the comments are ours. If the SDK is
// installed, its headers are used instead (KILIM_DPDK_DRIVER_SDK). KILIM_DPDK_SINCE() comes with
// it, for drivers.
#pragma once

#include "kilim/detail/base/dpdk.hh"

#ifdef KILIM_DPDK_DRIVER_SDK

#include <bus_driver.h>
#include <bus_vdev_driver.h>

#else

#include <cstddef>
#include <cstdint>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_os.h>
#include <sys/queue.h>

#if !KILIM_DPDK_SINCE(22, 11) || KILIM_DPDK_SINCE(26, 0)
#error "net/kilim/dpdk_abi.hh describes DPDK 22.11 to 25.11: install one of them"
#endif

extern "C" {

// The first member of every bus's driver structure (DPDK dev_driver.h).
struct rte_driver {
  RTE_TAILQ_ENTRY(rte_driver) next;  // in the bus's list
  const char* name;
  const char* alias;  // an older name, or null
};

// A member of every bus's device structure (DPDK dev_driver.h).
struct rte_device {
  RTE_TAILQ_ENTRY(rte_device) next;
  const char* name;
  const char* bus_info;
  const rte_driver* driver;  // set once probed
  const rte_bus* bus;
  int numa_node;
  rte_devargs* devargs;
};

// A device given with --vdev.
struct rte_vdev_device {
  RTE_TAILQ_ENTRY(rte_vdev_device) next;
  rte_device device;
};

// A driver matches every --vdev whose name starts with the driver's; functions return 0 or a
// negative errno.
struct rte_vdev_driver {
  RTE_TAILQ_ENTRY(rte_vdev_driver) next;
  rte_driver driver;
  int (*probe)(rte_vdev_device* device);
  int (*remove)(rte_vdev_device* device);
  int (*dma_map)(rte_vdev_device* device, void* address, uint64_t iova, std::size_t bytes);
  int (*dma_unmap)(rte_vdev_device* device, void* address, uint64_t iova, std::size_t bytes);
  uint32_t drv_flags;
};

void rte_vdev_register(rte_vdev_driver* driver);
void rte_vdev_unregister(rte_vdev_driver* driver);

}  // extern "C"

static_assert(sizeof(void*) != 8 || (sizeof(rte_driver) == 32 && sizeof(rte_device) == 64 &&
                                     sizeof(rte_vdev_driver) == 88));

#endif
