// SPDX-License-Identifier: BSD-3-Clause
// A port's queues: the device's objects, the arrays that the bursts use, the burst functions
// chosen. RxSetup, TxSetup and QueueSizes are public, the rest is the port's. Control lcore.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kilim/base/counter.hh"
#include "kilim/base/result.hh"
#include "kilim/burst/select.hh"
#include "kilim/device/owned.hh"
#include "kilim/pool/pool.hh"
#include "kilim/port/packet_gather.hh"

namespace kilim::port {

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

struct RxSetup {
  pool::BufferCache* cache = nullptr;  // of the worker that serves the queue
  burst::RxConfig config;
  uint16_t head_lines = 0;  // lines of 64 bytes left free before each packet
  bool strip_vlan = false;  // the tag is taken off; config.vlan keeps it
  bool events = false;      // its worker may sleep: Port::arm_rx(), Port::watch_rx()
};

struct TxSetup {
  pool::BufferCache* cache = nullptr;
  burst::TxConfig config;
  uint8_t offload = queue::EthOffload::none;
  uint32_t keys = 0;                     // of its PacketGather; not 0 exactly where config.gathered
  pool::BufferCache* headers = nullptr;  // header buffers of the PacketGather; of the same worker
  bool lint_stops = true;                // a finding of a debug build's linter ends the process
};

// How far the recovery of a receive work queue is, or of the failed queues of a queue pair's number
// (its transmit queue, PacketGather and receive queue).
struct Revival {
  enum class Stage : uint8_t { up, leaving, dead };
  Stage stage = Stage::up;
  bool pair = false;   // the raw packet queue pair failed
  uint64_t token = 0;  // of the workers' quiescence
};

// A receive queue. The order of the members matters: what is made last is destroyed first.
struct RxSlot {
  RxSetup setup;
  Revival revival;                     // of the receive work queue
  std::unique_ptr<Counter> discarded;  // frames that lay in it when it was emptied
  device::OwnedCq cq;
  device::OwnedRwq rwq;           // empty: the first transmit queue's pair carries the queue
  std::vector<uint32_t> buffers;  // of its posted receives
  std::unique_ptr<burst::RxQueue> queue;
  burst::RxBurst burst = nullptr;
  bool stopped = false;  // by Port::stop_rx()
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
  std::unique_ptr<burst::TxQueue> queue;
  burst::TxBurst burst = nullptr;
  burst::TxReclaim reclaim = nullptr;
};

// Make the burst's view of a queue that the device has made.
void attach_rx(RxSlot& slot, const queue::RqGeometry& rq, const pool::Arena& arena, Lkey key);
// `multi_packet`: the device has such WQEs; packets of several pieces or keys do without.
void attach_tx(TxSlot& slot, const pool::Arena& arena, Lkey key, bool multi_packet);

// Empties the receive ring and returns its buffers. The queue pair is in the error state.
std::vector<uint32_t> posted_buffers(RxSlot& slot);
// Frees packets whose completion was not seen. The queue pair is destroyed or reset.
void empty_tx(TxSlot& slot, pool::BufferCache& cache, pool::BufferCache& headers) noexcept;
// The cache of header buffers if there is one, else that of packet buffers.
pool::BufferCache& header_cache(const TxSetup& setup) noexcept;

}  // namespace kilim::port
