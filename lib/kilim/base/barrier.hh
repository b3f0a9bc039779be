// SPDX-License-Identifier: BSD-3-Clause
// Memory barriers by purpose: the name at the call says what is ordered before what. The only place
// with raw fences. Source: rdma-core util/udma_barrier.h states the contract of each for
// DMA-coherent memory.
#pragma once

#include <atomic>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace kilim {

// WQE bytes are visible to the device before the doorbell record that announces them.
inline void before_doorbell_record() noexcept {
  std::atomic_thread_fence(std::memory_order_release);
}

// The doorbell record is visible before the doorbell register is written; the register is
// write-combining on a card.
inline void before_doorbell() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// The doorbell leaves the write-combining buffer now, not when the buffer fills.
inline void flush_write_combining() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// The rest of a CQE is read only after its owner bit said that it is ours.
inline void after_owner_bit() noexcept {
  std::atomic_thread_fence(std::memory_order_acquire);
}

// CQEs have been read before the consumer index gives their slots back.
inline void before_consumer_index() noexcept {
  std::atomic_thread_fence(std::memory_order_release);
}

// The device's side: the record is read before the WQEs that it announces.
inline void after_doorbell_record() noexcept {
  std::atomic_thread_fence(std::memory_order_acquire);
}

// The device's side: everything of a CQE and of the data it announces is visible before its owner
// byte.
inline void before_owner_bit() noexcept {
  std::atomic_thread_fence(std::memory_order_release);
}

// Every worker has passed a quiescent state: what they wrote before is seen by what is read from
// here on (rte_rcu_qsbr answers from a plain load where it knows already).
inline void after_grace_period() noexcept {
  std::atomic_thread_fence(std::memory_order_acquire);
}

// A flag written here is visible before a word of the other side is read (going to sleep against a
// doorbell).
inline void store_before_load() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

// The compiler keeps nothing of memory in registers across it; no instruction. For measurements.
inline void forget_registers() noexcept {
  asm volatile("" ::: "memory");
}

}  // namespace kilim
