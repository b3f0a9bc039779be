// SPDX-License-Identifier: BSD-3-Clause
// For the soak of relaxed regions: what its lcores share, and an lcore that registers, deregisters
// and flushes. An lcore's object belongs to its thread.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "kilim/detail/port/mkey_queue.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/relaxed/relaxed.hh"
#include "mlx5_fixture.hh"
#include "ut.hh"

namespace kilim::test {

inline constexpr uint32_t lcores = 2;
inline constexpr uint32_t slots = 32;  // of each lcore
inline constexpr uint32_t keys = 24;   // of each lcore: fewer, so that they run dry
inline constexpr uint32_t window = 16;
inline constexpr uint32_t words = 32;  // of a slot that are read
inline constexpr uint64_t slot_bytes = 4096;

// Key, owner and slot in one word; 0: nothing is published.
struct RelaxedHandle {
  Rkey rkey;
  uint32_t owner = 0, slot = 0;
  static uint64_t pack(Rkey k, uint32_t owner, uint32_t slot) noexcept {
    return uint64_t{k.value()} << 32 | uint64_t{owner & 0xffffff} << 8 | slot;
  }
  static RelaxedHandle unpack(uint64_t word) noexcept {
    return {Rkey{static_cast<uint32_t>(word >> 32)}, static_cast<uint32_t>(word >> 8) & 0xffffff,
            static_cast<uint32_t>(word) & 0xff};
  }
};

struct Shared {
  device::Device& device;
  std::vector<std::byte> memory;
  std::optional<mr::Mr> arena;
  rte_rcu_qsbr* readers;
  std::unique_ptr<mkey::Epochs> epochs;
  std::array<std::atomic<uint64_t>, lcores * slots> published{};
  std::mutex control;
  std::atomic<bool> stop{false};

  Shared(device::Device& d, rte_rcu_qsbr* qsbr)
      : device(d), memory((lcores * slots + 1) * slot_bytes), readers(qsbr) {
    auto e = mkey::Epochs::create(qsbr, 2 * lcores);
    auto a = mr::Mr::create(d.registrar(), memory, mr::Access::all, 4096);
    if (!e || !a) return;
    epochs = *std::move(e);
    arena.emplace(*std::move(a));
  }
  // A slot is a page of its own: access reaches to its end.
  [[nodiscard]] uint64_t address(uint32_t slot) const {
    const auto base = reinterpret_cast<uint64_t>(memory.data());
    return ((base + slot_bytes - 1) & ~(slot_bytes - 1)) + slot * slot_bytes;
  }
};

// Registers slots for ever new owners.
class Registering {
 public:
  Registering(Shared& s, uint32_t lcore) : shared_(s), lcore_(lcore), random_(7 + lcore) {
    auto q = port::MkeyQueue::create(
        s.device, {.keys = keys, .access = mr::Access::all, .epochs = s.epochs.get()});
    if (!q) return;
    queue_ = *std::move(q);
    auto r = relaxed::Relaxed::create(queue_->binder(), {.keys = keys, .flush_share = 3});
    if (!r || !(*r)->cover().add(s.arena->region())) return;
    relaxed_ = *std::move(r);
    for (uint32_t i = 0; i < slots; i++) free_.push_back(lcore * slots + i);
  }
  ~Registering() {
    queue_->release_owner();
    for (Held& h : held_)
      if (h.region) relaxed_->deregister(std::move(h.region));
    for (int i = 0; i < 100 && !relaxed_->flush(); i++) (void)queue_->wait();
  }
  [[nodiscard]] bool ok() const { return relaxed_ != nullptr; }
  [[nodiscard]] const relaxed::Counters& counters() const { return relaxed_->counters(); }
  Counter wrong;

  void step() {
    queue::Completion c[16];
    const uint32_t n = queue_->cq().poll(c);
    for (uint32_t i = 0; i < n; i++) {
      (void)relaxed_->binder().handle_completion(c[i]);
      if (!c[i].ok()) wrong.add(1);
    }
    relaxed_->poll();
    free_sent();
    publish();
    if (random_() % 2 == 0) begin();
    if (random_() % 2 == 0) end();
    if (random_() % 64 == 0) (void)relaxed_->flush();
  }

 private:
  struct Held {
    relaxed::Region region;
    uint32_t slot = 0, owner = 0;
    bool shown = false;
  };
  // Slots whose last owner has been flushed get free.
  void free_sent() {
    for (; flushed_ != relaxed_->counters().invalidated.read(); flushed_++) {
      free_.push_back(ended_.front());
      ended_.pop_front();
    }
  }
  void publish() {
    for (Held& h : held_) {
      if (!h.region || h.shown || !h.region.valid()) continue;
      shared_.published[h.slot].store(RelaxedHandle::pack(h.region.rkey(), h.owner, h.slot),
                                      std::memory_order_release);
      h.shown = true;
    }
  }
  void begin() {
    queue::WqeCursor c{queue_->sq()};
    for (Held& h : held_) {
      if (h.region || free_.empty()) continue;
      h.slot = free_.front();
      h.owner = owners.fetch_add(1, std::memory_order_relaxed) & 0xffffff;
      h.shown = false;
      const uint64_t at = shared_.address(h.slot);
      auto* word = reinterpret_cast<uint64_t*>(at);  // NOLINT(performance-no-int-to-ptr)
      for (uint32_t i = 0; i < words; i++) word[i] = h.owner;
      const relaxed::Relaxed::Request request{at, 1 + random_() % slot_bytes,
                                              mr::Access::remote_read, 0};
      if (relaxed_->register_memory(c, request, h.region) != relaxed::Answer::done) break;
      free_.pop_front();
    }
    relaxed_->commit(c);
  }
  void end() {
    for (Held& h : held_) {
      if (!h.region || !h.shown || random_() % 2 != 0) continue;
      shared_.published[h.slot].store(0, std::memory_order_release);
      relaxed_->deregister(std::move(h.region));
      ended_.push_back(h.slot);
    }
  }

  static inline std::atomic<uint32_t> owners{1};
  Shared& shared_;
  uint32_t lcore_;
  std::mt19937_64 random_;
  std::unique_ptr<port::MkeyQueue> queue_;
  std::unique_ptr<relaxed::Relaxed> relaxed_;
  std::array<Held, keys> held_;
  std::deque<uint32_t> free_, ended_;
  uint64_t flushed_ = 0;
};

}  // namespace kilim::test
