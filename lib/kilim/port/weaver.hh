// SPDX-License-Identifier: BSD-3-Clause
// Makes one piece of two: a new header and a received payload in place, under an indirect key,
// woven on a queue of its own. Made by the control lcore, which also brings it back to work after
// an error; used by the worker whose transmit queue it serves, and by no other. Read with
// burst/tx.hh, where a woven packet goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kilim/base/counter.hh"
#include "kilim/base/flag.hh"
#include "kilim/base/result.hh"
#include "kilim/burst/sent_ring.hh"
#include "kilim/burst/tx.hh"
#include "kilim/pool/pool.hh"
#include "kilim/port/key_queue.hh"

namespace kilim::port {

struct WeaverConfig {
  uint32_t keys = 512;             // woven packets between weaving and transmission; a power of two
  Lkey arena_key;                  // of the arena, for this device
  pool::Stash* headers = nullptr;  // of the worker: where header buffers come from and return
  diag::KeyTraffic* traffic = nullptr;  // shared with the transmit queue, for debug builds
};

struct WeaverStats {
  uint64_t woven = 0;   // keys whose UMR completed
  uint64_t errors = 0;  // WQEs that failed
  uint64_t ended = 0;   // invalidations that completed
};

// Bytes of Ethernet, IP and TCP or UDP headers at the start of a frame; 64 where there is nothing
// of the kind, and never more than the frame.
uint32_t header_length(std::span<const std::byte> frame) noexcept;

class Weaver {
 public:
  // The weaver keeps the device's objects; `arena` is where both pieces lie.
  static Result<std::unique_ptr<Weaver>> create(device::Device& device, const pool::Arena& arena,
                                                const WeaverConfig& config);
  Weaver(const Weaver&) = delete;
  Weaver& operator=(const Weaver&) = delete;
  ~Weaver();

  // The transmit queue that frees keys after use.
  burst::KeySlots* slots() noexcept { return &slots_; }

  // Packets that the next weave() surely takes and `tx` surely sends.
  [[nodiscard]] uint32_t room(const burst::TxQueue& tx) const noexcept;

  // Takes the packets that it returns the count of: each gets a header buffer with a copy of its
  // headers, and a key over that and the rest of the packet. One doorbell. Fewer: no
  // header buffer or no key left.
  uint32_t weave(std::span<const pool::Handle> packets) noexcept;

  // Woven packets whose keys have completed, three handles each (key, header, payload), ready for a
  // woven transmit burst. The caller holds them from now on. `out` has room for 3 * keys.
  uint32_t collect(std::span<pool::Handle> out) noexcept;

  // Gives back packets that will not be sent: payloads to `stash`, headers to `headers`, keys to
  // the weaver, which has them invalidated.
  void abandon(std::span<const pool::Handle> chains, pool::Stash& stash,
               pool::Stash& headers) noexcept;
  void abandon(std::span<const pool::Handle> chains, pool::Stash& stash) noexcept {
    abandon(chains, stash, *config_.headers);
  }
  // What is still being woven, when the queue is stopped.
  void abandon_all(pool::Stash& stash, pool::Stash& headers) noexcept;
  void release_owner() noexcept;

  // The queue had an error, or the control lcore wants it to itself: nothing is woven.
  [[nodiscard]] bool failed() const noexcept { return failed_.read(); }
  [[nodiscard]] bool broken() const noexcept { return queue_->loom().failed(); }

  // Control lcore, with the worker away. Between hold() and resume() the worker keeps off.
  void hold() noexcept { failed_.set(true); }
  // After an error: queue and keys work again. Packets that were being woven are dropped; payloads
  // go to `stash`, headers to `headers`.
  Status revive(pool::Stash& stash, pool::Stash& headers) noexcept;
  void resume() noexcept;
  // Nothing is between weave() and collect().
  [[nodiscard]] bool idle() const noexcept { return weaving_.held() == 0; }
  [[nodiscard]] WeaverStats stats() const noexcept {
    return {woven_.read(), errors_.read(), queue_->loom().counters().invalidated.read()};
  }

 private:
  Weaver(const pool::Arena& arena, const WeaverConfig& config);
  Status set_up(device::Device& device);
  Status take_keys();
  bool weave_one(queue::WqeCursor& c, pool::Handle packet, pool::Handle header) noexcept;
  void fail() noexcept;
  void see(const queue::Completion& c) noexcept;

  pool::Arena arena_;
  WeaverConfig config_;
  std::unique_ptr<KeyQueue> queue_;
  std::vector<umr::Binding> bindings_;  // by slot
  std::vector<Lkey> lkeys_;             // by slot: of keys whose UMR has completed
  std::vector<uint32_t> free_slots_;
  std::vector<pool::Handle> handles_;
  std::vector<burst::SentRing::Burst> bursts_;
  std::vector<uint32_t> burst_ends_;  // positions of the send queue, a ring
  uint32_t burst_head_ = 0, burst_tail_ = 0;
  burst::KeySlots slots_;
  burst::SentRing weaving_;
  Flag failed_;
  Counter woven_, errors_;
};

}  // namespace kilim::port
