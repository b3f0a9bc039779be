// SPDX-License-Identifier: BSD-3-Clause
// A receive queue whose buffers are mbufs of the application's mempool: one mbuf a receive, or
// several where frames are scattered. Lies in memory that processes share, zeroed before; the
// control path (net/kilim/ethdev_rxq.cc) fills it in. Owner: the lcore that the application
// polls the queue on. A burst never locks, logs or calls the system, but after an error.
#pragma once

#include <cstdint>
#include <optional>

#include <rte_mbuf.h>

#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/flag.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/geometry.hh"
#include "kilim/detail/worker/poller.hh"
#include "net/kilim/mbuf_memory.hh"

namespace kilim::net {

class Ethdev;

// Any process reads them; since the port was made.
struct RxCounts {
  Counter packets, bytes;
  Counter errors;      // completions with an error
  Counter too_long;    // how many of them: frames longer than the receive's buffers
  Counter no_mbuf;     // mbufs that the mempool did not have
  Counter compressed;  // packets that shared entries of the completion queue
  Counter joined;      // TCP segments that became part of the packet before them (LRO)
  Counter discarded;   // frames that lay in the queue when it was stopped or recovered
  Counter recoveries;  // times that the queue was taken back to work after an error
};

inline constexpr uint32_t most_segments = 32;  // mbufs of a receive

// What a burst looks for besides hash, type, checksums and length.
struct RxForm {
  bool extra = false;       // VLAN tag, mark of a rule, time, headers in a tunnel
  bool scattered = false;   // several mbufs a packet
  bool compressed = false;  // completions that share entries
  bool strided = false;     // several packets a receive (net/kilim/mbuf_strides.hh)
  bool lro = false;         // TCP segments that the device joined
  friend constexpr bool operator==(RxForm, RxForm) noexcept = default;
};

// A receive of several packets: its buffers, and how far the oldest one is used up.
struct StrideBuffer;
struct MbufStrides {
  uint8_t log_bytes;       // of a stride
  uint8_t log_count;       // of a receive; 0: a receive is for one packet
  uint32_t used;           // strides of the oldest buffer
  uint32_t end;            // where its last packet ends, in bytes
  uint32_t copied;         // packets up to this length are copied into mbufs
  bool chains;             // into several mbufs too
  StrideBuffer** buffers;  // of posted receives
  StrideBuffer* spare;     // the next one; nullptr: there was none, and all packets are copied
  rte_mempool* pool;       // of them
};

struct MbufRx {
  static constexpr uint32_t row = 32;  // mbufs fetched at once

  RxCounts* counts;
  std::optional<queue::Cq> cq;
  rte_mbuf** mbufs;  // of posted receives: `segments` for each WQE
  std::byte* wqes;   // the first data segment of each
  be32* record;
  rte_mempool* pool;
  uint64_t rearm;       // data offset, reference count, segments and port as they lie in an mbuf
  uint64_t base_flags;  // ol_flags of a fresh mbuf of the pool
  uint32_t mask;        // WQEs - 1
  uint32_t stride;      // bytes of a WQE
  uint32_t pi, ci;      // WQEs posted, completed
  uint32_t segments;    // mbufs of a receive
  uint32_t headroom;    // bytes in front of a packet
  uint32_t room;        // bytes of an mbuf behind that
  bool one_key;         // all of the pool's memory is under one key, which the WQEs have
  Flag down;            // by an error, which an event may tell another thread; or stopped
  bool mini_hash;       // minis of compressed entries say the hash
  uint32_t block_done;  // packets of the block at the front that were received
  int stamp_offset;     // of the mbuf's dynamic field; negative: no stamps wanted
  uint64_t stamp_flag;
  MbufStrides strides;
  MbufKeys keys;
  worker::Poller poller;  // of a virtual device that is polled
  Ethdev* port;
  uint16_t number;  // of the queue
};

using MbufBurst = uint16_t (*)(void* queue, rte_mbuf** mbufs, uint16_t count);

// The burst of a form; `polled`: it runs the queue's device first.
MbufBurst select_mbuf_rx(RxForm form, bool polled) noexcept;

// Posts mbufs until the ring is full or the mempool is empty; returns how many receives.
uint32_t fill_mbuf_rx(MbufRx& q) noexcept;
// Gives back all mbufs of posted receives; the device does not write there any more.
void empty_mbuf_rx(MbufRx& q) noexcept;
// Frames that wait; of more than `most` no more need to be counted.
uint32_t waiting_mbuf_rx(const MbufRx& q, uint32_t most) noexcept;

}  // namespace kilim::net
