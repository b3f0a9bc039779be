// SPDX-License-Identifier: BSD-3-Clause
// Lint mode: looks at every send WQE when its doorbell is seen and when it is executed, and says
// what a card would bear today and fail on tomorrow. Knows what prm/lint.hh cannot: the queue's
// past, the keys, other queues, the memory. Off: a null pointer in each queue pair, nothing else.
// Owner: the adapter; its lock held. Allocates only when a queue is made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "kilim/base/result.hh"
#include "kilim/prm/lint.hh"
#include "vhca/tpt/transfer.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca {

class Journal;
class Lint;

// warn: findings are told. error: the WQE fails with the rule's syndrome as well.
enum class LintMode : uint8_t { off, warn, error };
// "off", "warn", "error"; EINVAL for another word.
Result<LintMode> find_lint_mode(std::string_view word);

// A key that a UMR could change, as a WQE names it.
struct LintKey {
  enum class Use : uint8_t { local, remote, change };
  uint32_t key;  // with the tag that is used, or that a UMR gives
  Use use;
  bool frees = false;  // an invalidation: afterwards it shows nothing under any tag
  [[nodiscard]] uint32_t index() const noexcept { return key >> 8; }
};

// A WQE from its doorbell until its place in the ring is taken again.
struct LintWqe {
  static constexpr std::size_t most_keys = 12;
  uint64_t at = ~uint64_t{0};  // basic blocks of the queue before it, since its reset
  uint16_t wqebbs = 1;
  uint8_t fence = 0;      // mode
  bool answers = false;   // a READ or an atomic
  bool signaled = false;  // its completion has not been counted yet
  bool refused = false;   // by `rule`
  bool looked_at = false;
  bool changed = false;
  prm::lint::Rule rule = prm::lint::Rule::reserved_bits;
  uint8_t keys = 0;
  std::array<LintKey, most_keys> key;

  void add(LintKey) noexcept;
};

struct LintQueue {
  Lint* lint = nullptr;
  Qp* qp = nullptr;
  uint64_t announced = 0;       // basic blocks seen, since the queue's reset
  uint64_t completed = 0;       // behind the last WQE whose completion has been written
  uint32_t signaled = 0;        // announced, not completed
  std::vector<std::byte> copy;  // the ring as announced
  std::vector<LintWqe> wqes;    // by the slot of the first block

  [[nodiscard]] uint64_t place_of(uint16_t index) const noexcept {
    return announced - static_cast<uint16_t>(static_cast<uint16_t>(announced) - index);
  }
  [[nodiscard]] LintWqe& slot(uint64_t place) noexcept { return wqes[place & (wqes.size() - 1)]; }
  // The WQE that begins there; null: none that is remembered.
  [[nodiscard]] LintWqe* find(uint64_t place) noexcept {
    LintWqe& w = slot(place);
    return w.at == place ? &w : nullptr;
  }
};

class Lint {
 public:
  struct Around {
    const char* device;
    Journal* journal;
    const KeyTable* keys;
    const Profile* profile;
  };
  Lint(LintMode mode, const Around& around) noexcept : mode_(mode), around_(around) {}

  // A queue pair with a send queue begins, starts over, ends.
  void add(Qp&);
  static void restart(Qp&) noexcept;
  void remove(Qp&) noexcept;

  // sq.pi has moved.
  void announced(LintQueue&) noexcept;
  // A WQE is about to be executed, perhaps again. The rule by which it fails; null: none.
  const prm::lint::RuleRow* executes(LintQueue&, const SendWqe&) noexcept;
  // A completion of a send WQE was written.
  static void completed(LintQueue&, uint16_t wqe_index) noexcept;

  [[nodiscard]] uint64_t count(prm::lint::Rule r) const noexcept {
    return counts_[static_cast<std::size_t>(r)];
  }
  [[nodiscard]] uint64_t findings() const noexcept;

 private:
  using Finding = prm::lint::Finding;
  using Bytes = std::span<const std::byte>;
  void announce_one(LintQueue&, LintWqe&, Bytes) noexcept;
  // hca/lint_keys.cc
  void collect_keys(const LintQueue&, LintWqe&, Bytes) const noexcept;
  void add_key(LintWqe&, uint32_t key, LintKey::Use, uint32_t depth) const noexcept;
  void check_keys(LintQueue&, LintWqe&, Bytes) noexcept;
  // A WQE and its queue.
  struct Place {
    LintQueue& q;
    LintWqe& w;
  };
  bool judge_use(const Place& user, LintKey, const Place& change, Finding&) const noexcept;
  bool judge_change(const Place& change, LintKey, const Place& user, Finding&) const noexcept;
  bool fenced(LintQueue&, uint64_t from, uint64_t to, bool answers) const noexcept;
  [[nodiscard]] uint32_t wanted_fence() const noexcept;
  // hca/lint.cc
  void check_room(LintQueue&, LintWqe&, Bytes) noexcept;
  void check_change(LintQueue&, LintWqe&, const SendWqe&) noexcept;
  void check_memory(LintQueue&, LintWqe&, const SendWqe&) noexcept;
  // hca/lint_report.cc
  void report(LintQueue&, LintWqe&, Bytes, const Finding&) noexcept;

  LintMode mode_;
  Around around_;
  std::vector<std::unique_ptr<LintQueue>> queues_;
  std::array<uint64_t, prm::lint::rules> counts_{};
  alignas(64) std::array<std::byte, 1024> straight_;  // the WQE in hand
};

prm::lint::QueueKind queue_kind(QpType) noexcept;

}  // namespace kilim::vhca
