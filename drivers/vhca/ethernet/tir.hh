// SPDX-License-Identifier: BSD-3-Clause
// PRM: "TIR Context", "RQT Context". Where flow rules lead: a hash over a frame's headers picks one
// of a table's receive queues. Owner: the adapter's tables; its lock held.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vhca/core/receive_spec.hh"
#include "vhca/ethernet/toeplitz.hh"
#include "vhca/wq/qp.hh"

namespace kilim::vhca::ethernet {

struct Rqt {
  uint32_t number = 0;
  const EventSink* open = nullptr;  // whose it is
  std::vector<wq::Qp*> queues;      // a power of two of places; a queue may have many
  uint32_t users = 0;               // TIRs
  uint32_t most = 0;  // places that its creator said it may have; 0: as many as it has
};

struct Tir {
  explicit Tir() noexcept : toeplitz({}) {}
  uint32_t number = 0;
  wq::Qp end;  // what rules name; it has no rings
  TirSpec spec;
  Rqt* table = nullptr;
  bool direct = false;  // the table is its own, for one queue
  // Nothing follows from these, but QUERY_TIR tells them.
  uint32_t domain = 0;   // of transport; 0: the adapter's own
  uint32_t self_lb = 0;  // self_lb_block
  Toeplitz toeplitz;
};

// What a completion says of it. Type as the entry has it (cqe::hash_*); 0: nothing was hashed.
struct RxHash {
  uint32_t value = 0;
  uint8_t type = 0;
};

// A header that the TIR hashes and the frame does not have is left out: without the addresses
// nothing is hashed, without the ports the addresses are (as by Microsoft's rule for fragments).
RxHash hash_frame(const Tir&, std::span<const std::byte> frame) noexcept;

// The same of a frame that describe_ipv4() knows (describe.hh).
RxHash hash_plain_ipv4(const Tir&, std::span<const std::byte> frame, bool is_tcp) noexcept;

// Where a frame goes, and by which hash.
struct HashedFrame {
  wq::Qp* qp;
  RxHash hash;
};
// Whether UDP frames on IPv4 are hashed by both addresses and, where `type` says so then, both
// ports, as Toeplitz::hash_four() does. Else one by one.
bool hashes_all_udp(const Tir&, uint8_t& type) noexcept;

// The queue that gets this frame.
wq::Qp& pick_queue(const Tir&, std::span<const std::byte> frame, RxHash& hash) noexcept;

}  // namespace kilim::vhca::ethernet
