// SPDX-License-Identifier: BSD-3-Clause
// Which raw packet queues get a frame: the rules of one port, as mlx5_ib lays them into its tables.
// Rules of `ibv_create_flow` and rules by match buffers are of one kind here, and compare what one
// reader makes of the frame (wire/packet.hh). Owner: the port; adapter's lock held. match() never
// allocates; frames are untrusted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "vhca/core/spec.hh"

namespace kilim::vhca::wire {
class PortNetdev;  // wire/port_netdev.hh
}  // namespace kilim::vhca::wire

namespace kilim::vhca::wq {
struct Qp;
}  // namespace kilim::vhca::wq

namespace kilim::vhca::ethernet {

// How far into a frame rules look: at addresses and type; at the kind of packet too
// (flow_memo.hh); at more, or a rule counts.
enum class Reach : uint8_t { link, kind, all };

// A queue that gets a frame, and what its completion is marked with; 0: nothing.
struct FlowTarget {
  wq::Qp* qp = nullptr;
  uint32_t tag = 0;
  bool operator==(const FlowTarget&) const = default;
};

class Steering {
 public:
  // The rule's number; the queue is null where it drops. EINVAL, ENOSPC (priority), ENOMEM as
  // mlx5_ib answers; EEXIST: a rule that says the very same drops, or marks otherwise.
  Result<uint32_t> add(wq::Qp*, const FlowSpec&);
  // ENOENT: no such rule.
  int remove(uint32_t rule);
  // Whether any rule names this queue.
  [[nodiscard]] bool uses(const wq::Qp*) const noexcept;
  [[nodiscard]] std::size_t count() const noexcept { return rules_.size(); }

  // The number of the nearest rule in front of `rule`, in the order of match(), for which `has`
  // says yes; 0: none.
  template <typename F>
  [[nodiscard]] uint32_t in_front_of(uint32_t rule, F&& has) const {
    uint32_t found = 0;
    for (const Rule& r : rules_) {
      if (r.number == rule) break;
      if (has(r.number)) found = r.number;
    }
    return found;
  }

  // What match() says depends on this much of a frame alone. With the next number of version() it
  // may say something else.
  [[nodiscard]] Reach reach() const noexcept {
    if (of_reach_[static_cast<std::size_t>(Reach::all)] != 0) return Reach::all;
    return of_reach_[static_cast<std::size_t>(Reach::kind)] != 0 ? Reach::kind : Reach::link;
  }
  [[nodiscard]] uint64_t version() const noexcept { return version_; }

  // The queues that get this frame, each once; none: it is dropped. A frame goes to the first rule
  // that matches, and to those that say the very same, up to one that drops. Rules for groups alone
  // come behind those of all priorities; default rules see what no other rule took, sniffers see
  // everything. Valid until the next call.
  // Where the port has a network interface, it is asked between the two, as in mlx5_core's order of
  // namespaces: bypass, the kernel's own, leftovers (Linux
  // drivers/net/ethernet/mellanox/mlx5/core/fs_core.c, root_fs).
  std::span<const FlowTarget> match(std::span<const std::byte> frame) noexcept;

  // The interface beside the port; null, as at first: none.
  void use_netdev(wire::PortNetdev* netdev) noexcept {
    netdev_ = netdev;
    version_++;
  }
  // Whether the interface was asked about the frame of the last match(): what it wants changes
  // without a rule. Whether it takes the frame.
  [[nodiscard]] bool asked_netdev() const noexcept { return asked_netdev_; }
  [[nodiscard]] bool netdev_takes() const noexcept { return netdev_takes_; }
  // Whether a rule has dropped the frame of the last match().
  [[nodiscard]] bool dropped() const noexcept { return dropped_; }
  // What a rule puts in front of the frame of the last match(); null: nothing.
  [[nodiscard]] const Prepend* prepend() const noexcept { return prepend_; }
  // What a rule does to its headers before that; null: nothing.
  [[nodiscard]] const RewriteList* rewrite() const noexcept { return rewrite_; }
  // Whether a rule wants to count the frame of the last match().
  [[nodiscard]] bool counted() const noexcept { return !hits_.empty(); }
  // The frame of the last match() is gone: rules that had to do with it count it.
  void count_hits(uint64_t bytes) noexcept;

  static constexpr uint16_t last_priority = 15;
  static constexpr std::size_t max_rules = 65536;

 private:
  struct Rule {
    uint32_t number;
    wq::Qp* qp;
    FlowSpec spec;  // by buffer
  };
  void take(const Rule&) noexcept;
  // Whether the interface keeps the frame from the rules behind it.
  bool ask_netdev(std::span<const std::byte> frame) noexcept;

  std::vector<Rule> rules_;        // in the order of match(): type, priority, age
  std::vector<FlowTarget> taken_;  // room for one queue a rule
  std::vector<FlowCount*> hits_;   // likewise
  std::size_t deeps_ = 0;          // rules that look beyond the outer headers
  std::size_t specials_ = 0;       // rules that drop or tag
  const Prepend* prepend_ = nullptr;
  const RewriteList* rewrite_ = nullptr;
  DeepMatch deeper_;  // of the last frame, where rules look at it
  bool dropped_ = false;
  wire::PortNetdev* netdev_ = nullptr;
  bool asked_netdev_ = false, netdev_takes_ = false;
  uint32_t next_number_ = 1;
  std::array<std::size_t, 3> of_reach_{};  // rules of each Reach
  uint64_t version_ = 1;
};

}  // namespace kilim::vhca::ethernet
