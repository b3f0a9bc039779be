// SPDX-License-Identifier: BSD-3-Clause
// Decorator `+exclusive` of an `af_packet:` wire: what a steering rule of the port takes, the
// interface's kernel does not see, as on a card whose steering comes before the kernel's own
// queues. Each rule is a rule of an nf_tables chain at the interface's ingress, behind the packet
// sockets. The table is the netlink socket's and goes with it, however the process ends. Owner: the
// wire; control path, adapter's lock held.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "vhca/wire/decorator.hh"
#include "vhca/wire/frame_match.hh"
#include "vhca/wire/nf_table.hh"

namespace kilim::vhca::wire {

class KernelRules {
 public:
  // `interface`: its index. ENODEV, EPERM, EOPNOTSUPP: Error::what is a sentence.
  static Result<KernelRules> create(uint32_t interface);

  // A steering rule was made: its number, and that of the nearest one in front of it that has()
  // knows; 0: none. The kernel loses the frames that one of the matches is true of, or, where the
  // rule leaves them to the kernel, keeps them from the rules behind it.
  void add(uint32_t rule, uint32_t behind, std::span<const FrameMatch>, bool kernel_sees);
  // A rule cannot be said so, and `why`, static: stderr is told, once for each reason.
  void cannot_say(const char* why);
  void remove(uint32_t rule);
  [[nodiscard]] bool has(uint32_t rule) const { return handles_.contains(rule); }

 private:
  explicit KernelRules(NfTable table) : table_(std::move(table)) {}

  NfTable table_;
  uint64_t roce_ = 0;                                  // handle of the last rule for RoCE
  std::map<uint32_t, std::vector<uint64_t>> handles_;  // of each steering rule
  std::vector<const char*> told_;
};

class Exclusive final : public Decorator {
 public:
  // Around a wire that is an interface; fails as KernelRules::create(). Nothing follows the word.
  static Result<std::unique_ptr<Wire>> create(std::unique_ptr<Wire> inner, std::string_view rest);
  [[nodiscard]] KernelRules* kernel_rules() noexcept override { return &rules_; }

 private:
  Exclusive(std::unique_ptr<Wire> inner, KernelRules rules)
      : Decorator(std::move(inner)), rules_(std::move(rules)) {}
  KernelRules rules_;
};

}  // namespace kilim::vhca::wire
