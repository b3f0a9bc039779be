// SPDX-License-Identifier: BSD-3-Clause
// Memory barriers by purpose: the name at the call says what is ordered before what. The only place
// with raw fences. Source: rdma-core util/udma_barrier.h states the contract of each for
// DMA-coherent memory. On arm64 a device lies in the outer shareable domain, other cores in the
// inner one; test/abi looks at the instructions.
#pragma once

#if defined(__x86_64__)
#include <atomic>

#include <xmmintrin.h>
#elif !defined(__aarch64__)
#error "barriers of this architecture are not known: x86-64 and arm64 are"
#endif

namespace kilim {

namespace detail {

#if defined(__x86_64__)
inline void stores_to_device() noexcept {
  std::atomic_thread_fence(std::memory_order_release);
}
inline void loads_from_device() noexcept {
  std::atomic_thread_fence(std::memory_order_acquire);
}
inline void write_combining() noexcept {
  _mm_sfence();
}
inline void acquire_from_core() noexcept {
  std::atomic_thread_fence(std::memory_order_acquire);
}
inline void all_between_cores() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
#else
inline void stores_to_device() noexcept {
  asm volatile("dmb oshst" ::: "memory");
}
inline void loads_from_device() noexcept {
  asm volatile("dmb oshld" ::: "memory");
}
inline void write_combining() noexcept {
  asm volatile("dsb st" ::: "memory");
}
inline void acquire_from_core() noexcept {
  asm volatile("dmb ishld" ::: "memory");
}
inline void all_between_cores() noexcept {
  asm volatile("dmb ish" ::: "memory");
}
#endif

}  // namespace detail

// WQE bytes are visible to the device before the doorbell record that announces them.
inline void before_doorbell_record() noexcept {
  detail::stores_to_device();
}

// The doorbell record is visible before the doorbell register is written; the register is
// write-combining on a card.
inline void before_doorbell() noexcept {
  detail::write_combining();
}

// The doorbell leaves the write-combining buffer now, not when the buffer fills.
inline void flush_write_combining() noexcept {
  detail::write_combining();
}

// The rest of a CQE is read only after its owner bit said that it is ours.
inline void after_owner_bit() noexcept {
  detail::loads_from_device();
}

// CQEs have been read before the consumer index gives their slots back: loads before a store, which
// arm64's barrier of loads orders too.
inline void before_consumer_index() noexcept {
#if defined(__x86_64__)
  detail::stores_to_device();
#else
  detail::loads_from_device();
#endif
}

// Every worker has passed a quiescent state: what they wrote before is seen by what is read from
// here on (rte_rcu_qsbr answers from a plain load where it knows already).
inline void after_grace_period() noexcept {
  detail::acquire_from_core();
}

// A flag written here is visible before a word of the other side is read (going to sleep against a
// doorbell).
inline void store_before_load() noexcept {
  detail::all_between_cores();
}

// The compiler keeps nothing of memory in registers across it; no instruction. For measurements.
inline void forget_registers() noexcept {
  asm volatile("" ::: "memory");
}

}  // namespace kilim
