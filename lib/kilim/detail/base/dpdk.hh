// SPDX-License-Identifier: BSD-3-Clause
// What differs in DPDK's public interface from 22.11 to 25.11, said once: the linkage of rings, the
// control threads, numbers in telemetry. Code that uses one of them includes this header instead of
// DPDK's. No other file of the library asks which DPDK it is built with; of the drivers
// net/kilim/dpdk_abi.hh does, for the interface of drivers. Any thread.
#pragma once

#include <cstdint>

#include <pthread.h>
#include <rte_ring_core.h>
#include <rte_telemetry.h>
#include <rte_version.h>

// True if the headers are those of DPDK `year`.`month` or of a later release.
#define KILIM_DPDK_SINCE(year, month) (RTE_VERSION >= RTE_VERSION_NUM(year, month, 0, 0))

#if KILIM_DPDK_SINCE(23, 7)
#include <rte_thread.h>
#else
#include <rte_lcore.h>
#endif

// The header of 24.11 and of later releases does not say that these are C functions (DPDK commit
// 719834a684), so without this a C++ program asks the linker for names that no library has.
extern "C" {
#include <rte_ring_elem.h>
}
#include <rte_ring.h>

namespace kilim::inline v1 {

// Starts `(object.*method)()` in a thread of EAL's that runs beside the lcores, and returns false
// where there is no thread to be had. The caller ends it by pthread_join(). `name` has at most 15
// characters.
template <auto method, typename Object>
bool start_control_thread(pthread_t& thread, const char* name, Object& object) noexcept {
#if KILIM_DPDK_SINCE(23, 7)
  const auto run = [](void* o) -> uint32_t {
    (static_cast<Object*>(o)->*method)();
    return 0;
  };
  rte_thread_t made{};
  if (rte_thread_create_control(&made, name, run, &object) != 0) return false;
  thread = static_cast<pthread_t>(made.opaque_id);
  return true;
#else
  const auto run = [](void* o) -> void* {
    (static_cast<Object*>(o)->*method)();
    return nullptr;
  };
  return rte_ctrl_thread_create(&thread, name, nullptr, run, &object) == 0;
#endif
}

// Adds `name: value` to a dictionary of telemetry's; returns 0 or a negative errno.
inline int add_dict_number(rte_tel_data* dict, const char* name, uint64_t value) noexcept {
#if KILIM_DPDK_SINCE(23, 3)
  return rte_tel_data_add_dict_uint(dict, name, value);
#else
  return rte_tel_data_add_dict_u64(dict, name, value);
#endif
}

}  // namespace kilim::inline v1
