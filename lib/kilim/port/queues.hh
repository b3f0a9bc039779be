// SPDX-License-Identifier: BSD-3-Clause
// What a port keeps for each of its queues: the device's objects, the arrays behind the bursts'
// bookkeeping, the bursts chosen. Private to the port but for the setup values. Control lcore.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kilim/base/result.hh"
#include "kilim/burst/select.hh"
#include "kilim/device/owned.hh"
#include "kilim/pool/pool.hh"
#include "kilim/port/weaver.hh"

namespace kilim::port {

inline constexpr uint32_t max_txq = 64;
inline constexpr uint32_t min_depth = 64;
inline constexpr uint32_t max_depth = 8192;

struct QueueSizes {
  uint32_t rxq = 1;
  uint32_t txq = 1;
  uint32_t rxd = 1024;  // packets, a power of two
  uint32_t txd = 1024;
};

// A sentence for what is out of range; the numbers are in it.
Status check_sizes(const QueueSizes& sizes) noexcept;

struct RxSetup {
  pool::Stash* stash = nullptr;  // of the worker that serves the queue
  burst::RxConfig config;
  uint16_t head_lines = 0;  // lines of 64 bytes left free before each packet
};

struct TxSetup {
  pool::Stash* stash = nullptr;
  burst::TxConfig config;
  uint8_t offload = queue::EthOffload::none;
  uint32_t keys = 0;               // of its weaver; config.woven asks for some
  pool::Stash* headers = nullptr;  // of the same worker; where the weaver gets header buffers
  bool lint_stops = true;          // a finding of a debug build's linter ends the process
};

// The order matters: what is made last is destroyed first.
struct RxSlot {
  RxSetup setup;
  device::OwnedCq cq;
  std::vector<uint64_t> wr_ids;
  std::unique_ptr<burst::RxQueue> queue;
  burst::RxBurst burst = nullptr;
};

// What the control lcore does about queues of one number that failed (receive, transmit, weaver).
struct Revival {
  enum class Stage : uint8_t { up, leaving, dead };
  Stage stage = Stage::up;
  bool pair = false;   // the raw packet queue pair failed
  uint64_t token = 0;  // of the workers' quiescence
};

struct TxSlot {
  TxSetup setup;
  Revival revival;
  std::unique_ptr<diag::KeyTraffic> traffic;  // of the weaver's queue and this one, debug builds
  std::unique_ptr<diag::DoorbellLint> lint;   // debug builds
  device::OwnedCq cq;
  device::OwnedQp qp;  // the first one also carries the receive queue
  std::vector<uint64_t> wr_ids;
  std::vector<pool::Handle> handles;
  std::vector<burst::SentRing::Burst> bursts;
  std::unique_ptr<Weaver> weaver;
  std::unique_ptr<burst::TxQueue> queue;
  burst::TxBurst burst = nullptr;
  burst::TxReclaim reclaim = nullptr;
};

// Over queues that the device has made.
void attach_rx(RxSlot& slot, const queue::RqGeometry& rq, const pool::Arena& arena, Lkey key);
void attach_tx(TxSlot& slot, const pool::Arena& arena, Lkey key);

// Buffers in the receive ring; the ring is empty afterwards. The queue pair is in the error state.
std::vector<uint32_t> posted_buffers(RxSlot& slot);
// What was sent and not seen to complete goes to the stashes; the queue pair is gone or reset.
void empty_tx(TxSlot& slot, pool::Stash& stash, pool::Stash& headers) noexcept;
// The stash for header buffers where there are any, else `stash`.
pool::Stash& header_stash(const TxSetup& setup) noexcept;

}  // namespace kilim::port
