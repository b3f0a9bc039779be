// SPDX-License-Identifier: BSD-3-Clause
// Memory barriers by purpose. Each one below says which two accesses it orders, and which accesses
// of the other side it is paired with: a barrier on one side alone orders nothing. The only place
// with raw fences (test/style/check_layers.py). Any thread.
//
// Source: rdma-core util/udma_barrier.h, for memory that device and processor see coherently.
// x86-64: the processor keeps loads of ordinary memory in order among themselves and stores too, so
// a fence towards the device only holds the compiler back; stores to write-combining memory need
// SFENCE (Intel SDM vol. 3, "Memory Ordering"). arm64: a device lies in the outer shareable domain
// (osh), other cores in the inner one (ish); test/abi/arm64_barriers.py checks the instructions.
#pragma once

#if defined(__x86_64__)
#include <atomic>

#include <xmmintrin.h>
#elif !defined(__aarch64__)
#error "barriers of this architecture are not known: x86-64 and arm64 are"
#endif

namespace kilim::inline v1 {

namespace detail {

// What each purpose is made of. x86-64 above, arm64 below.
#if defined(__x86_64__)
// Earlier stores before later stores, as the device sees them: udma_to_device_barrier().
inline void stores_to_device() noexcept {
  std::atomic_thread_fence(std::memory_order_release);
}
// Earlier loads before later ones, of what the device writes. udma_from_device_barrier() is LFENCE
// here; ordinary memory does not need it, as loads stay in order.
inline void loads_from_device() noexcept {
  std::atomic_thread_fence(std::memory_order_acquire);
}
// Earlier stores before later ones, write-combining memory included: mmio_flush_writes().
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

// Orders the stores of WQEs before the store of the doorbell record that announces them. Paired
// with the device, which loads the record first and then the WQEs: a card by DMA, the virtual
// device by an acquire load (vhca/memory/dma.hh, load()). libmlx5 qp.c, post_send_db().
// x86-64: no instruction. arm64: dmb oshst.
inline void before_doorbell_record() noexcept {
  detail::stores_to_device();
}

// Orders the store of the doorbell record before the store to the doorbell register, which is
// write-combining memory on a card. Paired with the device, which may load the record once it has
// seen the doorbell. libmlx5 qp.c, post_send_db(): mmio_wc_start().
// x86-64: sfence. arm64: dsb st.
inline void before_doorbell() noexcept {
  detail::write_combining();
}

// Orders the store to the doorbell register before all later stores, and sends it to the device now
// instead of when the write-combining buffer fills. Two doorbells of one register thus arrive in
// order, the later one's record with it. libmlx5 qp.c, post_send_db(): mmio_flush_writes().
// x86-64: sfence. arm64: dsb st.
inline void flush_write_combining() noexcept {
  detail::write_combining();
}

// Orders the load of a CQE's owner bit before the loads of its other bytes, and of the data that it
// announces. Paired with the device, which stores the byte with the owner bit last: a card by the
// order of its writes on the bus, the virtual device by a release store (vhca/wq/cqe_writer.cc).
// libmlx5 cq.c, mlx5_get_next_cqe(): udma_from_device_barrier().
// x86-64: no instruction. arm64: dmb oshld.
inline void after_owner_bit() noexcept {
  detail::loads_from_device();
}

// Orders the loads of CQEs before the store of the consumer index, which returns their entries.
// Paired with the device, which loads that index before it overwrites an entry (virtual device:
// vhca/wq/cqe_writer.cc, check_consumer()).
// x86-64: no instruction. arm64: dmb oshld, which orders earlier loads before later stores too.
inline void before_consumer_index() noexcept {
#if defined(__x86_64__)
  detail::stores_to_device();
#else
  detail::loads_from_device();
#endif
}

// Orders the load by which rte_rcu_qsbr_check() learns that every worker has reported before the
// loads of what the workers wrote until then. Paired with the release store of each worker's count
// in rte_rcu_qsbr_quiescent(). It is needed where rte_rcu_qsbr_check() answers from acked_token,
// a plain load (DPDK 22.11, rte_rcu_qsbr.h).
// x86-64: no instruction. arm64: dmb ishld.
inline void after_grace_period() noexcept {
  detail::acquire_from_core();
}

// Orders a store of this thread before its later load of a word that another thread stores. Paired
// with the same barrier in that thread, whose store and load are the other way round: at least one
// of the two sees the other's store. For going to sleep while another thread may bring work
// (vhca/wire/cable.cc, put() and arm()).
// x86-64: mfence or a locked instruction. arm64: dmb ish.
inline void store_before_load() noexcept {
  detail::all_between_cores();
}

// Orders nothing in the processor and is paired with nothing: it makes the compiler load memory
// anew behind it. For measurements. No instruction.
inline void forget_registers() noexcept {
  asm volatile("" ::: "memory");
}

}  // namespace kilim::inline v1
