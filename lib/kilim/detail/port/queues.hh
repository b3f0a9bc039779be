// SPDX-License-Identifier: BSD-3-Clause
// A port's queues: the device's objects, the arrays that the bursts use, the burst functions
// chosen. RxSetup, TxSetup and QueueSizes are public, the rest is the port's. Control lcore.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/flag.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/burst/select.hh"
#include "kilim/detail/device/owned.hh"
#include "kilim/detail/pool/pool.hh"
#include "kilim/detail/port/packet_gather.hh"
#include "kilim/detail/port/retry.hh"
#include "kilim/detail/port/tap.hh"

namespace kilim::inline v1::port {

inline constexpr uint32_t max_rxq = 64;      // receive queues of a port
inline constexpr uint32_t max_txq = 64;      // transmit queues
inline constexpr uint32_t min_depth = 64;    // of a queue, in packets
inline constexpr uint32_t max_depth = 8192;  // likewise

struct QueueSizes {
  uint32_t rxq = 1;     // receive queues, up to max_rxq
  uint32_t txq = 1;     // transmit queues, up to max_txq
  uint32_t rxd = 1024;  // packets that a receive queue holds, a power of two
  uint32_t txd = 1024;  // the same of a transmit queue
};

// EINVAL with a sentence that contains the allowed range.
Status check_sizes(const QueueSizes& sizes) noexcept;

// Packets are split: their first bytes go into a buffer of one pool, all behind them into buffers
// of another.
struct RxSplit {
  uint32_t header_bytes = 0;             // of each packet, at least 14; 0: they are not split
  pool::BufferCache* headers = nullptr;  // of the same worker and arena, for the first bytes
};

struct RxSetup {
  pool::BufferCache* cache = nullptr;  // of the worker that serves the queue
  burst::RxConfig config;
  uint16_t head_lines = 0;  // lines of 64 bytes left free before each packet
  bool strip_vlan = false;  // the tag is taken off; config.vlan keeps it
  bool events = false;      // its worker may sleep: Port::arm_rx(), Port::watch_rx()
  uint32_t buffers = 1;     // of `cache` that a packet may take: jumbo frames over small buffers
  RxSplit split;
  // Completions that are alike share entries.
  device::Compression compression = device::Compression::none;
  // Several packets in one buffer, which each of them holds; rxd counts strides then. Without
  // head_lines, and with an arena that has holders, and for side records one for each stride
  // (pool::ArenaConfig::side_piece).
  std::optional<device::Strides> strides = std::nullopt;
  bool real_time = false;  // config.timestamp is the time of day instead of ticks
  // With config.lro: the longest time that the device waits for a further segment, rounded down to
  // one that it has; less than all of those: its shortest.
  uint32_t lro_timeout_us = 0;
  // With config.lro: bytes of a joined packet at most; 0: what a receive has room for.
  uint32_t max_lro_bytes = 0;

  // Segments of a receive WQE. More than one: packets are chains of handles.
  [[nodiscard]] uint32_t segments() const noexcept {
    return buffers + (split.header_bytes != 0 ? 1 : 0);
  }
  // The cache from which a packet's first buffer comes.
  [[nodiscard]] pool::BufferCache& first_cache() const noexcept {
    return split.header_bytes != 0 ? *split.headers : *cache;
  }
};

// Bytes of a packet that its first buffer holds, and all of its buffers.
uint32_t first_room(const RxSetup& setup, const pool::Arena& arena) noexcept;
uint32_t longest_packet(const RxSetup& setup, const pool::Arena& arena) noexcept;

// What a queue takes of joined TCP segments.
device::Lro lro_of(const RxSetup& setup, const pool::Arena& arena) noexcept;

// The caches that a receive queue's buffers come from and return to: those of its worker, or while
// that is away the control lcore's own.
struct RxCaches {
  pool::BufferCache& first;   // of packets' first buffers
  pool::BufferCache& others;  // of those behind them

  void release_owner() const noexcept {
    first.release_owner();
    others.release_owner();
  }
};
inline RxCaches caches_of(const RxSetup& s) noexcept {
  return {s.first_cache(), *s.cache};
}
// Caches of the calling thread over the pools of a queue.
struct OwnRxCaches {
  explicit OwnRxCaches(const RxSetup& s) noexcept
      : first(s.first_cache().pool()), others(s.cache->pool()) {}
  RxCaches both() noexcept { return {first, others}; }
  pool::BufferCache first, others;
};

// EINVAL, EOPNOTSUPP with a sentence: what does not fit to the device, to the arena or together.
Status check_rx(const RxSetup& setup, const QueueSizes& sizes, const pool::Arena& arena,
                const device::Caps& caps, const device::PortInfo& port) noexcept;
// Whether the queue has to be a receive work queue.
bool needs_rwq(const RxSetup& setup) noexcept;

// What the words of single packets may ask of a transmit queue (pool::TxWord).
struct TxOffloads {
  uint8_t checksums = queue::EthOffload::none;  // any of these
  bool vlan = false;                            // tags
  bool tso = false;                             // segmentation, which writes l3 and l4 too
  [[nodiscard]] constexpr bool any() const noexcept {
    return checksums != queue::EthOffload::none || vlan || tso;
  }
};

struct TxSetup {
  pool::BufferCache* cache = nullptr;
  burst::TxConfig config;                     // the port sets multi_packet and offloads
  uint8_t offload = queue::EthOffload::none;  // checksums of every packet
  TxOffloads words;                           // needs side records in the arena
  uint64_t pacing_kbps = 0;                   // rate of the queue; 0: as fast as it goes
  uint32_t keys = 0;  // of its PacketGather; not 0 exactly where config.gathered
  // Of the same worker: header buffers of the PacketGather; with config.two_pools those of packets
  // that were split.
  pool::BufferCache* headers = nullptr;
  bool lint_stops = true;  // a finding of a debug build's linter ends the process
};

// How far the recovery of a receive work queue is, or of the failed queues of a queue pair's number
// (its transmit queue, PacketGather and receive queue).
struct Revival {
  // held: the workers keep away, and what was tried failed; it is tried again.
  enum class Stage : uint8_t { up, leaving, held };
  Stage stage = Stage::up;
  bool pair = false;    // the raw packet queue pair failed and is not back
  bool gather = false;  // likewise the PacketGather's
  uint64_t token = 0;   // of the workers' quiescence
  Retry retry;          // while held
};

// A receive queue. The order of the members matters: what is made last is destroyed first.
struct RxSlot {
  RxSetup setup;
  Revival revival;                     // of the receive work queue
  std::unique_ptr<Counter> discarded;  // frames that lay in it when it was emptied
  device::OwnedCq cq;
  device::OwnedRwq rwq;           // empty: the first transmit queue's pair carries the queue
  std::vector<uint32_t> buffers;  // of its posted receives
  std::vector<uint32_t> further;  // their buffers behind the first; chains
  std::vector<uint8_t> missing;   // how many of those a receive lacks
  std::unique_ptr<burst::RxChain> chain;
  std::unique_ptr<TappedRxQueue> queue;
  burst::RxBurst burst = nullptr;
  Flag stopped;  // by Port::stop_rx(); telemetry reads it
};

// A transmit queue; the order of the members matters likewise.
struct TxSlot {
  TxSetup setup;
  Revival revival;
  std::unique_ptr<diag::MkeyTraffic> traffic;  // debug builds; shared with the PacketGather's queue
  std::unique_ptr<diag::DoorbellLint> lint;    // debug builds
  device::OwnedCq cq;
  device::OwnedQp qp;  // the first one may carry the only receive queue
  std::vector<uint64_t> wr_ids;
  std::vector<pool::Handle> handles;
  std::vector<burst::SentRing::Burst> bursts;
  std::unique_ptr<PacketGather> gather;
  std::unique_ptr<TappedTxQueue> queue;
  burst::TxBurst burst = nullptr;
  burst::TxReclaim reclaim = nullptr;
};

// EINVAL with a sentence: caches and keys that do not go with the configuration.
Status check_tx_buffers(const TxSetup& setup) noexcept;
// What the device lacks for a transmit queue: EOPNOTSUPP; EINVAL: what excludes each other.
Status check_tx(const TxSetup& setup, const device::TxCaps& caps, bool side_records) noexcept;

// Make the burst's view of a queue that the device has made.
void attach_rx(RxSlot& slot, const queue::RqGeometry& rq, const pool::Arena& arena, Lkey key);
// WQEs of many packets are used where the device has them, but not for packets of several pieces or
// with keys, nor where headers are inlined.
void attach_tx(TxSlot& slot, const pool::Arena& arena, Lkey key, const device::Caps& caps);

// Posts receives until the ring is full or a pool is empty, as the queue's burst does; returns how
// many.
uint32_t refill(burst::RxQueue& queue) noexcept;
// Makes these the caches of a receive queue.
void use_caches(burst::RxQueue& queue, RxCaches caches) noexcept;
// Frames of the wire that a good entry of the queue's completion queue stands for: those of a
// compressed block, the segments of a joined frame, none where it gives strides back.
uint32_t frames_of(const burst::RxQueue& queue, const prm::Cqe& e) noexcept;
// Empties the completion queue; returns the frames that nobody received. The device writes to
// neither queue any more, and the ring's buffers have the ring's hold only afterwards.
uint32_t drop_frames(burst::RxQueue& queue) noexcept;
// Frees the buffers that lie in a receive ring. The device does not write there any more.
void empty_rx(burst::RxQueue& queue, RxCaches caches) noexcept;

// Takes the buffers out of a receive ring and returns them, those of each cache apart. The queue
// pair is in the error state.
struct PostedBuffers {
  std::vector<uint32_t> first, others;
};
PostedBuffers posted_buffers(RxSlot& slot);
// Frees packets whose completion was not seen. The queue pair is destroyed or reset.
void empty_tx(TxSlot& slot, pool::BufferCache& cache, pool::BufferCache& headers) noexcept;
// Frees each buffer to the cache of its pool.
void free_by_pool(std::span<const pool::Handle> handles, pool::BufferCache& cache,
                  pool::BufferCache& headers) noexcept;
// The cache of header buffers if there is one, else that of packet buffers.
pool::BufferCache& header_cache(const TxSetup& setup) noexcept;

}  // namespace kilim::inline v1::port
