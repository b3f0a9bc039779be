// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/relaxed/eal_watch.hh"

#include <atomic>
#include <cstddef>

#include <rte_memory.h>

namespace kilim::inline v1::relaxed {
namespace {

std::atomic<uint64_t> losses{0};

void on_event(rte_mem_event event, const void*, size_t, void*) {
  if (event == RTE_MEM_EVENT_FREE) note_eal_loss();
}

}  // namespace

void watch_eal() noexcept {
  static const int registered = rte_mem_event_callback_register("kilim_relaxed", on_event, nullptr);
  (void)registered;
}

uint64_t eal_losses() noexcept {
  return losses.load(std::memory_order_acquire);
}

void note_eal_loss() noexcept {
  losses.fetch_add(1, std::memory_order_release);
}

}  // namespace kilim::inline v1::relaxed
