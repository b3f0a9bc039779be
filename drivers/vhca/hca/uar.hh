// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UAR Page Format". The doorbell pages of an adapter: shared memory that clients store into
// and the engine looks at. Owner: the adapter; its lock held except where said.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kilim/base/fd.hh"
#include "kilim/base/result.hh"

namespace kilim::vhca {

struct Cq;
struct Qp;

struct Uar {
  uint32_t index = 0;
  Fd fd;
  std::span<std::byte> page;  // as the engine has it mapped
  std::vector<Qp*> qps;       // whose doorbells lie here
  std::vector<Cq*> cqs;
};

// What run() found in a page.
struct Rung {
  bool send = false;
  bool arm = false;
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
  [[nodiscard]] Uar* at(uint32_t index) const noexcept;

  // Takes the doorbells of a page: each word is exchanged with 0.
  static Rung take(Uar&) noexcept;
  // Forgets doorbells of pages that are not in use: a client may still have one mapped.
  void drop_stale() noexcept;
  // Any thread, without the lock.
  [[nodiscard]] bool pending() const noexcept;
  [[nodiscard]] std::span<const std::span<std::byte>> pages() const noexcept { return pages_; }

  // Every page in use; the k-th page of all, null where it is not in use.
  [[nodiscard]] std::span<const std::unique_ptr<Uar>> all() const noexcept { return uars_; }

  static constexpr std::size_t max_pages = 1024;

 private:
  std::vector<std::unique_ptr<Uar>> uars_;
  std::vector<std::unique_ptr<Uar>> kept_;  // freed, to be used again
  std::atomic<std::size_t> published_{0};   // how many of pages_ another thread may look at
  std::vector<std::span<std::byte>> pages_;
};

}  // namespace kilim::vhca
