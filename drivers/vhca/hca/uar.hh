// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UAR Page Format". The doorbell pages of an adapter: shared memory that clients store into
// and the engine looks at. Owner: the adapter; its lock held except where said.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/prm/doorbell.hh"
#include "vhca/hca/page_queues.hh"
#include "vhca/wq/cq.hh"
#include "vhca/wq/qp.hh"

namespace kilim::vhca::hca {

// One page of 4096 bytes.
struct Uar {
  uint32_t index = 0;               // as clients see it, from 1 on
  const EventSink* open = nullptr;  // whose it is
  Fd fd;                            // memory of its own, where a client's file cannot hold it
  std::span<std::byte> page;        // as the engine has it mapped
  enum class Place : uint8_t { unmapped, own, file } place = Place::unmapped;
  PageQueues<wq::Qp> qps;  // whose doorbells lie here
  PageQueues<wq::Cq> cqs;
  bool arms = false;  // a doorbell for events has come since it got queues
};

class UarSet {
 public:
  // Room is reserved at once: doorbell_pending() of another thread never sees the list move.
  UarSet();
  ~UarSet();
  UarSet(const UarSet&) = delete;
  UarSet& operator=(const UarSet&) = delete;

  // ENOMEM: no more pages.
  Result<Uar*> alloc();
  // EINVAL: no such page; EBUSY: queues still use it.
  int free(uint32_t index);
  // A client maps the page by this descriptor of its open, a memfd, at `offset`: its memory becomes
  // the file's there, so that a process to which the descriptor was sent (SCM_RIGHTS) finds it by
  // the kernel's mmap(2) alone. False: the file cannot hold it (RLIMIT_FSIZE, a seal, no memory),
  // and the page is `uar.fd`'s. Once an alloc(); later calls answer the same.
  [[nodiscard]] static bool put_into_file(Uar&, int fd, uint64_t offset) noexcept;
  // Null: no such page.
  [[nodiscard]] Uar* at(uint32_t index) const noexcept;

  // The page's queues have become others. Pages without any are not looked at: what is stored
  // there means nothing, and is forgotten when a queue comes.
  void note_queues(Uar&) noexcept;
  // Whether somebody has rung. Most looks at a page find nothing.
  [[nodiscard]] static bool rung(const Uar& uar) noexcept { return rung(uar.page.data()); }
  // Takes a doorbell of a page, at one of the offsets below: what was stored there last, in host
  // order, client bytes; 0: none. Exchanged, not stored: one that comes between look and store
  // would be lost.
  static uint64_t take(Uar& uar, std::size_t offset) noexcept {
    if (word(uar.page.data(), offset) == 0) return 0;
    auto* const at = reinterpret_cast<uint64_t*>(uar.page.data() + offset);
    return be64::from_raw(__atomic_exchange_n(at, uint64_t{0}, __ATOMIC_ACQ_REL)).host();
  }
  // Any thread, without the lock: whether a page with queues has a doorbell.
  [[nodiscard]] bool pending() const noexcept;
  // Every page that was ever made, with its memory. Adapter's lock held.
  [[nodiscard]] std::span<const std::span<std::byte>> pages() const noexcept { return pages_; }

  // Each page with queues.
  template <typename F>
  void for_each(F&& f) const {
    for_each_place([&](std::size_t place) { return f(*uars_[place]), false; });
  }

  static constexpr std::size_t max_pages = 1024;  // of one adapter, all its clients together
  // Two doorbell registers a page, each with two halves that a client uses in turn; libmlx5 gives a
  // second queue of the page the second register.
  static constexpr std::array<std::size_t, 4> send_words = {
      prm::uar::blueflame, prm::uar::blueflame + prm::uar::blueflame_bytes,
      prm::uar::blueflame + 2 * prm::uar::blueflame_bytes,
      prm::uar::blueflame + 3 * prm::uar::blueflame_bytes};

 private:
  static uint64_t word(const std::byte* page, std::size_t offset) noexcept {
    return __atomic_load_n(reinterpret_cast<const uint64_t*>(page + offset), __ATOMIC_RELAXED);
  }
  static bool rung(const std::byte* page) noexcept {
    static_assert(send_words.size() == 4);
    return (word(page, send_words[0]) | word(page, send_words[1]) | word(page, send_words[2]) |
            word(page, send_words[3]) | word(page, prm::uar::cq_doorbell)) != 0;
  }

  // Until `f` says true.
  template <typename F>
  bool for_each_place(F&& f) const {
    const std::size_t words = words_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < words; i++) {
      for (uint64_t left = with_queues_[i].load(std::memory_order_acquire); left != 0;
           left &= left - 1) {
        if (f(i * 64 + static_cast<std::size_t>(std::countr_zero(left)))) return true;
      }
    }
    return false;
  }

  std::vector<std::unique_ptr<Uar>> uars_;
  std::vector<std::unique_ptr<Uar>> kept_;  // freed, to be used again
  // A bit for each page that has queues, so that another thread can look; how many words have any.
  std::array<std::atomic<uint64_t>, max_pages / 64> with_queues_{};
  std::atomic<std::size_t> words_{0};
  std::vector<std::span<std::byte>> pages_;  // in the order of uars_; never unmapped before the end
};

}  // namespace kilim::vhca::hca
