// SPDX-License-Identifier: BSD-3-Clause
// What the lcores of the soak share: layouts with the bytes that they show, and the handles that
// are published at the moment. Each lcore has a queue on which keys are bound (BindingQueue) and
// one that reads through handles of all lcores (ReadingQueue).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <random>
#include <span>
#include <vector>

#include "kilim/detail/device/recovery.hh"
#include "kilim/detail/mkey/mkey_binder_burst.hh"
#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "mlx5_fixture.hh"

namespace kilim::test {

inline constexpr uint32_t soak_lcores = 2;
inline constexpr uint32_t soak_slots = 16;    // handles that an lcore publishes
inline constexpr uint32_t soak_entries = 8;   // of a key
inline constexpr uint32_t soak_bytes = 2048;  // that a layout shows at most

struct SoakLayout {
  std::vector<umr::Piece> pieces;
  std::vector<std::byte> bytes;
};

// Key and layout in one word; 0: nothing is published.
struct Handle {
  Rkey rkey;
  uint32_t layout = 0;
  static uint64_t pack(Rkey k, uint32_t layout) noexcept {
    return uint64_t{k.value()} << 32 | (layout + 1);
  }
  static Handle unpack(uint64_t word) noexcept {
    return {Rkey{static_cast<uint32_t>(word >> 32)}, static_cast<uint32_t>(word) - 1};
  }
};

struct SoakCounts {
  uint64_t reads = 0;       // whose data was right
  uint64_t writes = 0;      // behind a UMR, whose data was right
  uint64_t swaps = 0;       // of four keys
  uint64_t replaced = 0;    // keys ended and replaced by others
  uint64_t faults = 0;      // READs through handles that were stale by then
  uint64_t recoveries = 0;  // of queues
  uint64_t wrong = 0;       // data, or a fault that may not be
};

struct Soak {
  device::Device& device;
  std::vector<std::byte> memory;
  std::optional<mr::Mr> region;
  std::vector<SoakLayout> layouts;
  std::array<std::array<std::atomic<uint64_t>, soak_slots>, soak_lcores> published{};
  std::mutex control;  // the control path is for one at a time
  rte_rcu_qsbr* readers = nullptr;
  std::unique_ptr<mkey::Epochs> epochs;
  std::atomic<bool> stop{false};
  uint32_t error_every = 500;  // changes of keys that are not swaps

  explicit Soak(device::Device& d, rte_rcu_qsbr* qsbr);
  [[nodiscard]] bool ok() const { return region.has_value() && epochs != nullptr; }
};

// What both kinds of queue have: a connection to itself and an area that is written to.
class SoakQueue {
 public:
  SoakQueue(Soak& soak, uint64_t seed);
  [[nodiscard]] bool ok() const { return loop_.ok() && target_.has_value(); }
  SoakCounts counts;

 protected:
  [[nodiscard]] uint64_t address(uint32_t place) const {
    return target_->region().iova + uint64_t{place} * soak_bytes;
  }
  [[nodiscard]] bool shows(uint32_t place, uint32_t layout) const;
  template <typename Sink>
  void recover_queue(Sink& sink) {
    const std::lock_guard guard{soak_.control};
    const device::Recovery<> r{soak_.device, loop_.qp->handle, *loop_.sq, *loop_.send_cq};
    if (!device::recover(r, sink)) counts.wrong++;
    counts.recoveries++;
  }
  Soak& soak_;
  std::mt19937_64 random_;
  std::vector<std::byte> area_;
  Loop loop_;
  std::optional<mr::Mr> target_;
};

class BindingQueue : SoakQueue {
 public:
  // An lcore whose keys are invalidated at once swaps handles that others use; where they are
  // invalidated after the epoch, nobody may ever fault.
  BindingQueue(Soak& soak, uint32_t lcore, mkey::InvalidatePolicy invalidate);
  ~BindingQueue();
  using SoakQueue::counts;
  [[nodiscard]] bool ok() const { return SoakQueue::ok() && binder_ != nullptr; }
  // One step: completions, then the next change of keys if none is under way.
  void step() noexcept;
  void completed(const queue::Completion& c) noexcept;
  void lost(uint64_t, bool) noexcept {}

 private:
  void begin() noexcept;
  void swap() noexcept;
  void replace() noexcept;
  void end_change() noexcept;
  void recover() noexcept;

  uint32_t lcore_;
  mkey::InvalidatePolicy ending_;
  std::unique_ptr<mkey::MkeyPool> pool_;
  std::unique_ptr<mkey::MkeyBinder> binder_;
  std::array<mkey::Binding, soak_slots> keys_;
  std::array<uint32_t, soak_slots> shows_{};
  uint32_t first_ = 0, count_ = 0;  // slots under change
  bool written_ = false;            // the change has written through its keys
  bool error_ = false;
  uint64_t changes_ = 0;
};

class ReadingQueue : SoakQueue {
 public:
  ReadingQueue(Soak& soak, uint64_t seed);
  ~ReadingQueue();
  using SoakQueue::counts;
  using SoakQueue::ok;
  void step() noexcept;
  void completed(const queue::Completion& c) noexcept;
  void lost(uint64_t, bool) noexcept {}

 private:
  static constexpr uint32_t window = 16;
  void post() noexcept;
  mkey::QueueClock* clock_;
  std::array<uint32_t, window> expects_{};
  std::array<uint32_t, window> owner_{};
  uint32_t left_ = 0;  // READs under way
  bool error_ = false;
};

}  // namespace kilim::test
