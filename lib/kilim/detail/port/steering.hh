// SPDX-License-Identifier: BSD-3-Clause
// Leads frames to a port's receive queues: tables and hash queue pairs, and the device's rules that
// one flow::Rule or flow::Filter becomes. Owns what it makes; the device outlives it. The port's;
// control lcore.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/device/owned.hh"
#include "kilim/detail/flow/expand.hh"
#include "kilim/detail/flow/rule.hh"

namespace kilim::inline v1::port {

// A receive work queue that rules lead to.
struct RxTarget {
  device::RwqHandle queue;
  device::Lro lro;  // what it takes of joined TCP segments; max_bytes 0: none
};

// The destinations of rules: the port's receive work queues, or the queue pair that carries its
// only receive queue.
struct Destinations {
  device::Device& device;
  uint8_t port = 1;
  std::span<const RxTarget> queues;
  device::QpHandle pair;           // where there are no receive work queues
  bool tunnels = false;            // CQEs tell of headers inside tunnels
  std::optional<device::Lro> lro;  // what all queues take of joined TCP segments
};

// What the queues of a port take together. EINVAL: some take joined frames, and others do not. All
// targets that lead to a queue are to agree (Linux commit 26ab7b384525).
Result<std::optional<device::Lro>> lro_of_all(std::span<const RxTarget> queues) noexcept;

// Queue pairs that spread frames over queues, one for each kind of hash of outer or inner headers,
// made when first asked for.
class HashTarget {
 public:
  // `table`: queues by hash, not empty, the queues exist; of `rss` key and sides count. Errors of
  // the device.
  static Result<HashTarget> create(const Destinations& to, std::span<const uint16_t> table,
                                   const flow::Rss& rss);
  // `inner`: the headers inside a tunnel are hashed.
  Result<device::QpHandle> qp(flow::HashKind kind, bool inner);

 private:
  HashTarget(const Destinations& to, const flow::Rss& rss) noexcept
      : device_(&to.device),
        port_(to.port),
        pair_(to.pair),
        key_(rss.key),
        sides_(rss.sides),
        tunnels_(to.tunnels),
        lro_(to.lro) {}
  device::Device* device_;
  uint8_t port_;
  device::QpHandle pair_;
  flow::HashKey key_;
  flow::HashSides sides_;
  bool tunnels_;
  std::optional<device::Lro> lro_;
  device::OwnedRwqTable spread_;  // empty where the only queue is a queue pair's
  device::OwnedRwqTable first_;   // of one entry, for frames without a hash
  std::array<std::array<device::OwnedQp, flow::hash_kinds>, 2> qps_;  // outer, inner
};

struct FlowInfo {
  device::FlowHandle handle;
};
using OwnedFlow = device::Owned<FlowInfo, &device::Device::remove_flow>;

// The device's rules of one flow::Rule, or of the port itself.
class RuleSet {
 public:
  RuleSet(HashTarget target, device::Device& device) noexcept
      : device_(&device), target_(std::move(target)) {}
  // A set of rules for frames that leave, which lead nowhere.
  explicit RuleSet(device::Device& device) noexcept : device_(&device) {}
  RuleSet(RuleSet&&) = default;
  RuleSet& operator=(RuleSet&&) = delete;
  RuleSet(const RuleSet&) = delete;
  RuleSet& operator=(const RuleSet&) = delete;
  // The last rule goes first: it looks least deep, and frames that a deeper one takes keep their
  // hash until that one goes.
  ~RuleSet() {
    while (!flows_.empty()) flows_.pop_back();
  }

  // Divides `match` by `types` and adds the parts to the device from `place` on (flow/expand.hh).
  // After an error those that were added stay in the set.
  Status add(const flow::Match& match, uint32_t types, uint16_t place, const flow::Action& action);
  // One rule for frames that leave, at `place` by the depth of the headers that it looks at.
  Status add_egress(const flow::Match& match, uint16_t place, const flow::Action& action);
  // The sum over all parts. EINVAL: the rules do not count.
  Result<flow::Count> query() const;
  [[nodiscard]] std::size_t size() const noexcept { return flows_.size(); }

 private:
  device::Device* device_;
  std::optional<HashTarget> target_;  // of rules for frames that come
  std::vector<OwnedFlow> flows_;
};

}  // namespace kilim::inline v1::port
