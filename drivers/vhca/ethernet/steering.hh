// SPDX-License-Identifier: BSD-3-Clause
// Which raw packet queues get a frame: the rules of `ibv_create_flow` on one port, as mlx5_ib lays
// them into its tables. Owner: the port; adapter's lock held. match() never allocates; frames are
// untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kilim/base/result.hh"
#include "vhca/core/spec.hh"

namespace kilim::vhca {

struct Qp;

class Steering {
 public:
  // The rule's number. EINVAL, ENOSPC (priority), ENOMEM as mlx5_ib answers.
  Result<uint32_t> add(Qp*, const FlowSpec&);
  // ENOENT: no such rule.
  int remove(uint32_t rule);
  // Whether any rule names this queue.
  [[nodiscard]] bool uses(const Qp*) const noexcept;
  [[nodiscard]] std::size_t count() const noexcept { return rules_.size(); }

  // The queues that get this frame, each once; none: it is dropped. A frame for one station goes to
  // the first rule that matches, and to those that say the very same; a multicast frame to all that
  // match. Default rules see what no other rule took, sniffers see everything. Valid until the next
  // call.
  std::span<Qp* const> match(std::span<const std::byte> frame) noexcept;

  static constexpr uint16_t last_priority = 15;
  static constexpr std::size_t max_rules = 65536;

 private:
  struct Rule {
    uint32_t number;
    Qp* qp;
    FlowSpec spec;
  };
  void take(Qp*) noexcept;

  std::vector<Rule> rules_;  // in the order of match(): type, priority, age
  std::vector<Qp*> taken_;   // room for one queue a rule
  uint32_t next_number_ = 1;
};

}  // namespace kilim::vhca
