// SPDX-License-Identifier: BSD-3-Clause
// Finds Kilim's native port of a virtual device (--vdev net_kilimN,...). A port stays until its
// vdev is removed or EAL is cleaned up. C and C++; C++ programs turn the pointer into a port with
// kilim::net::native() of kilim/ethdev.hh.
//
// Threads: any thread, after rte_eal_init().
//
// Errors: NULL where there is no such port.
//
// Example:
//   #include <stddef.h>
//   int is_ours(uint16_t port_id) { return rte_pmd_kilim_port_of(port_id) != NULL; }
#ifndef RTE_PMD_KILIM_H
#define RTE_PMD_KILIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kilim::port::Port. */
struct kilim_port;

/* The number of ports that EAL has probed and not removed. */
unsigned int rte_pmd_kilim_count(void);

/* The index-th in the order of probing; NULL beyond the last. */
struct kilim_port* rte_pmd_kilim_port_at(unsigned int index);

/* By name, such as "net_kilim0"; NULL: no such port. */
struct kilim_port* rte_pmd_kilim_port(const char* name);

/* Of an ethdev; NULL: there is none of this number, or another driver's. While the ethdev is
 * started its queues are the ethdev's: rules, spreading, filter and device may be used through the
 * port. */
struct kilim_port* rte_pmd_kilim_port_of(uint16_t port_id);

/* The devargs with their ranges, one on each line, for help texts. Static storage. */
const char* rte_pmd_kilim_devargs(void);

#ifdef __cplusplus
}
#endif

#endif
