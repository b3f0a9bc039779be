// SPDX-License-Identifier: BSD-3-Clause
// PacketGather: puts a new header and a received payload under one indirect mkey, so that they are
// sent as one piece without copying the payload. The keys are bound on a queue of its own. Made and
// recovered by the control lcore; used by the one worker whose transmit queue it serves. Read with
// burst/tx.hh, which sends gathered packets.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/flag.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/burst/rx_chain.hh"
#include "kilim/detail/burst/sent_ring.hh"
#include "kilim/detail/burst/tx.hh"
#include "kilim/detail/pool/pool.hh"
#include "kilim/detail/port/mkey_queue.hh"
#include "kilim/detail/queue/error_log.hh"
#include "kilim/detail/umr/view.hh"

namespace kilim::inline v1::port {

struct PacketGatherConfig {
  uint32_t keys = 512;  // gathered packets between binding and transmission; a power of two
  Lkey arena_key;       // of the arena, for this device
  pool::BufferCache* headers = nullptr;  // of the worker: where header buffers come from and return
  diag::MkeyTraffic* traffic = nullptr;  // shared with the transmit queue, for debug builds
  queue::ErrorLog* errors = nullptr;     // who keeps the last error; null: nobody
  uint32_t pieces = 2;                   // buffers of a packet, at most burst::max_rx_segments

  // Entries of a key's list, which is padded to whole lines.
  [[nodiscard]] uint32_t entries_a_key() const noexcept { return (pieces + 3) / 4 * 4; }
  // WQE blocks of one UMR: two for the head, the rest for the list.
  [[nodiscard]] uint32_t blocks_a_key() const noexcept { return 2 + entries_a_key() / 4; }
  // The key, and the buffers behind it.
  [[nodiscard]] uint32_t handles_a_key() const noexcept { return 1 + pieces; }
};

struct PacketGatherStats {
  uint64_t gathered = 0;  // keys whose UMR completed
  uint64_t errors = 0;    // WQEs that failed
  uint64_t ended = 0;     // invalidations that completed
};

// Bytes of Ethernet, IP and TCP or UDP headers at the start of a frame; 64 where there is nothing
// of the kind, and never more than the frame.
uint32_t header_length(std::span<const std::byte> frame) noexcept;

class PacketGather {
 public:
  // `arena` holds header and payload buffers. EINVAL: the configuration; EOPNOTSUPP: the device has
  // no UMR; or the device's error.
  static Result<std::unique_ptr<PacketGather>> create(device::Device& device,
                                                      const pool::Arena& arena,
                                                      const PacketGatherConfig& config);
  PacketGather(const PacketGather&) = delete;
  PacketGather& operator=(const PacketGather&) = delete;
  ~PacketGather();

  // For the transmit queue, which frees slots when packets were sent.
  burst::MkeySlots* slots() noexcept { return &slots_; }

  // How many packets gather() is sure to take and `tx` to send.
  [[nodiscard]] uint32_t room(const burst::TxQueue& tx) const noexcept;

  // Takes packets from the front of the span and returns how many. Each gets a header buffer with a
  // copy of its headers, and a key over that and the rest of the packet; one doorbell for all.
  // Fewer than given: header buffers or keys have run out.
  uint32_t gather(std::span<const pool::Handle> packets) noexcept;

  // Gathers packets that are chains, whose buffers are put under a key as they are. A packet of one
  // buffer needs no key and only keeps its place between the others. Returns how many handles it
  // took, of whole packets.
  uint32_t gather_chains(std::span<const pool::Handle> chains) noexcept;

  // Returns packets whose UMR has completed, as chains of handles (key, header, payload) for a
  // transmit burst with TxConfig::gathered; the caller holds them from now on. `out` has room for
  // (pieces + 1) * keys handles. Returns the number of handles.
  uint32_t collect(std::span<pool::Handle> out) noexcept;

  // Frees packets that will not be sent: payloads to `cache`, headers to `headers`; their keys are
  // invalidated.
  void abandon(std::span<const pool::Handle> chains, pool::BufferCache& cache,
               pool::BufferCache& headers) noexcept;
  void abandon(std::span<const pool::Handle> chains, pool::BufferCache& cache) noexcept {
    abandon(chains, cache, *config_.headers);
  }
  // Frees everything that was not collected, when the queue is stopped.
  void abandon_all(pool::BufferCache& cache, pool::BufferCache& headers) noexcept;
  void release_owner() noexcept;

  // True: the queue had an error, or the control lcore holds it; nothing is gathered.
  [[nodiscard]] bool failed() const noexcept { return failed_.read(); }
  [[nodiscard]] bool broken() const noexcept { return queue_->binder().failed(); }

  // Control lcore, while the worker is away. Between hold() and resume() the worker does nothing
  // here.
  void hold() noexcept { failed_.set(true); }
  // Recovers queue and keys after an error. Packets that were not collected are dropped: payloads
  // go to `cache`, headers to `headers`.
  Status revive(pool::BufferCache& cache, pool::BufferCache& headers) noexcept;
  void resume() noexcept;
  // True: no packet is between gather() and collect().
  [[nodiscard]] bool idle() const noexcept { return gathering_.held() == 0; }
  [[nodiscard]] PacketGatherStats stats() const noexcept {
    return {gathered_.read(), errors_.read(), queue_->binder().counters().invalidated.read()};
  }

 private:
  PacketGather(const pool::Arena& arena, const PacketGatherConfig& config);
  Status set_up(device::Device& device);
  Status claim_mkeys();
  bool gather_one(queue::WqeCursor& c, pool::Handle packet, pool::Handle header) noexcept;
  bool gather_chain(queue::WqeCursor& c, std::span<const pool::Handle> chain) noexcept;
  bool bind(queue::WqeCursor& c, const umr::View& view) noexcept;
  void announce(queue::WqeCursor& c, uint32_t packets, uint32_t keys) noexcept;
  void fail() noexcept;
  void see(const queue::Completion& c) noexcept;

  pool::Arena arena_;
  PacketGatherConfig config_;
  std::unique_ptr<MkeyQueue> queue_;
  std::vector<mkey::Binding> bindings_;  // by slot
  std::vector<Lkey> lkeys_;              // by slot: of keys whose UMR has completed
  std::vector<uint32_t> free_slots_;
  std::vector<pool::Handle> handles_;
  std::vector<burst::SentRing::Burst> bursts_;
  burst::MkeySlots slots_;
  burst::SentRing gathering_;
  uint32_t under_way_ = 0;  // packets in it
  Flag failed_;
  Counter gathered_, errors_;
};

}  // namespace kilim::inline v1::port
