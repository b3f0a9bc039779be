// SPDX-License-Identifier: BSD-3-Clause
// Keys of the memory that mbufs lie in. MbufMemory: a device's registered regions, which grow when
// a queue meets memory that has no key yet; locked, so that any lcore may ask. MbufKeys: a queue's
// own copies of the last answers, without a lock; its worker's. Hugepages that EAL frees lose their
// key at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <span>
#include <vector>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/mr/registrar.hh"

struct rte_mbuf;
struct rte_mempool;

namespace kilim::net {

// Addresses under one key; none: no key.
struct KeySpan {
  uint64_t first = 0, bytes = 0;
  Lkey key;
  [[nodiscard]] bool covers(uint64_t address, uint64_t length) const noexcept {
    return address - first < bytes && length <= bytes - (address - first);
  }
};

class MbufMemory {
 public:
  // `registrar` outlives it. `rights`: of all memory (mr::packet_rights()).
  explicit MbufMemory(mr::Registrar& registrar, uint32_t rights = mr::Access::local_write) noexcept;
  ~MbufMemory();
  MbufMemory(const MbufMemory&) = delete;
  MbufMemory& operator=(const MbufMemory&) = delete;

  // Registers all memory of a mempool, unless it has keys. The errors of mr::register_mempool().
  Status add_pool(rte_mempool& pool);
  // The span that covers all memory of a mempool's mbufs; without bytes: there are several, or the
  // data lie elsewhere (pinned external buffers).
  [[nodiscard]] KeySpan whole(rte_mempool& pool) noexcept;
  // Registers memory that the application brings (rte_dev_dma_map()); or takes its key away.
  // EFAULT: it is not mapped; ENOENT: it was not added.
  Status add_range(std::span<std::byte> memory);
  Status remove_range(std::span<std::byte> memory);
  // The span around `length` bytes of an mbuf's data, registered now where it has to be: the
  // mempool of a plain mbuf, else the part of EAL's memory. Without bytes: there is no key to be
  // had.
  KeySpan find(const rte_mbuf& mbuf, uint64_t address, uint32_t length) noexcept;
  // Changes when a key goes: copies of answers are not valid any more.
  [[nodiscard]] uint32_t generation() const noexcept {
    return generation_.load(std::memory_order_acquire);
  }
  // EAL frees this memory.
  void vanishing(uint64_t address, uint64_t bytes) noexcept;

 private:
  KeySpan look(uint64_t address, uint64_t length) const noexcept;
  Status keep(Result<std::vector<mr::Mr>> regions);
  void learn(const rte_mbuf& mbuf, uint64_t address) noexcept;

  mr::Registrar& registrar_;
  uint32_t rights_;
  bool follows_ = false;
  std::recursive_mutex lock_;  // EAL's events may come from a registration itself
  std::list<mr::Mr> regions_;
  std::atomic<uint32_t> generation_{1};
};

// Plain data, in the memory of a queue.
class MbufKeys {
 public:
  void use(MbufMemory& memory) noexcept { memory_ = &memory; }
  // At the start of a burst.
  void refresh() noexcept {
    const uint32_t now = memory_->generation();
    if (now == generation_) [[likely]]
      return;
    generation_ = now;
    last_ = {};
    for (KeySpan& s : more_) s = {};
  }
  // The span that answered last: what lies there needs no call.
  [[nodiscard]] const KeySpan& last() const noexcept { return last_; }
  // False: there is no key. Else last() covers it.
  [[gnu::noinline]] bool find(const rte_mbuf& mbuf, uint64_t address, uint32_t length) noexcept {
    for (const KeySpan& s : more_) {
      if (!s.covers(address, length)) continue;
      last_ = s;
      return true;
    }
    const KeySpan found = memory_->find(mbuf, address, length);
    if (found.bytes == 0) return false;
    last_ = more_[next_++ % spans] = found;
    return true;
  }

 private:
  static constexpr uint32_t spans = 8;
  KeySpan last_;
  KeySpan more_[spans];
  uint32_t next_ = 0;
  uint32_t generation_ = 0;
  MbufMemory* memory_ = nullptr;
};

}  // namespace kilim::net
