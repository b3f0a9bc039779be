// SPDX-License-Identifier: BSD-3-Clause
// PRM: "RDMA Receive Flow Table", "RDMA Transmit Flow Table". Rules of the frames of RDMA queues: a
// frame is dropped, or goes on as if there were no rules. Rules lead to tables of the firmware's
// that have one entry for all frames. Owner: the adapter; its lock held. Asking never allocates;
// frames are untrusted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "vhca/core/spec.hh"
#include "vhca/ethernet/steering.hh"
#include "vhca/ethernet/table_type.hh"

namespace kilim::vhca::ethernet {

struct FlowTable;
class SoftSteering;

class RdmaRules {
 public:
  // The rule's number, which no rule of a port has; the table is null where the rule drops. Errors
  // as Steering::add() has them.
  Result<uint32_t> add(TableType, FlowTable* to, const FlowSpec&);
  int remove(uint32_t rule);
  static constexpr bool has_number(uint32_t rule) noexcept {
    return (rule & (rx_rule | tx_rule)) != 0;
  }
  // Whether any rule leads to what this stands for.
  [[nodiscard]] bool uses(const wq::Qp&) const noexcept;
  [[nodiscard]] bool any(TableType t) const noexcept { return side(t).rules.count() != 0; }
  [[nodiscard]] bool any() const noexcept {
    return any(TableType::rdma_rx) || any(TableType::rdma_tx);
  }

  // Frames with the same headers, of which rules see one.
  struct Packets {
    std::span<const std::byte> first;
    uint64_t count = 1, bytes = 0;  // bytes: of all of them
  };
  // Whether they go on. lets_through() counts them, with what takes them and what drops them.
  bool lets_through(const SoftSteering&, TableType, const Packets&) noexcept;
  bool would_let_through(const SoftSteering&, TableType, const Packets&) noexcept;

 private:
  static constexpr uint32_t rx_rule = 1u << 30, tx_rule = 1u << 29;
  // A rule that counts: the port's rules count frame by frame, these many at once.
  struct Counting {
    uint32_t rule = 0;
    FlowCount hit;              // not 0: the last frame was the rule's
    FlowCount* told = nullptr;  // what the rule's owner reads
  };
  struct Side {
    Steering rules;
    std::vector<std::unique_ptr<Counting>> counting;
  };
  [[nodiscard]] const Side& side(TableType t) const noexcept {
    return sides_[t == TableType::rdma_tx];
  }
  [[nodiscard]] Side& side(TableType t) noexcept { return sides_[t == TableType::rdma_tx]; }
  bool ask(const SoftSteering&, TableType, const Packets&, bool counts) noexcept;

  std::array<Side, 2> sides_;  // of what is received, of what is sent
};

}  // namespace kilim::vhca::ethernet
