// SPDX-License-Identifier: BSD-3-Clause
// Lint mode: looks at every WQE when it is announced and when it is executed, and at the keys that
// peers use, and says what a card would bear today and fail on tomorrow. Knows what prm/lint.hh
// cannot: the queue's past, the keys, other queues, the memory. Off: null pointers, nothing else.
// Owner: the adapter; its lock held. Allocates only when a queue or a region is made.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/prm/lint_recv.hh"
#include "vhca/core/object_table.hh"
#include "vhca/lint/regions.hh"
#include "vhca/tpt/transfer.hh"
#include "vhca/wq/observer.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/recv_wqe.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca {
class Journal;
}  // namespace kilim::vhca

namespace kilim::vhca::lint {

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

// A word of a WQE, as findings tell it.
inline uint64_t word_at(const std::byte* p) noexcept {
  be64 w;
  std::memcpy(&w, p, sizeof(w));
  return w.host();
}

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
  // Whether it names the key, to change it or to use it.
  [[nodiscard]] bool names(uint32_t index, bool change) const noexcept;
  // Whether it uses a key under just this tag.
  [[nodiscard]] bool uses(uint32_t key) const noexcept;
  // Whether it makes a key what it is called here.
  [[nodiscard]] bool gives(uint32_t key) const noexcept;
};

struct LintQueue : wq::Watched {
  wq::Qp* qp = nullptr;
  uint64_t announced = 0;  // basic blocks seen, since the queue's reset
  uint64_t completed = 0;  // behind the last WQE whose completion has been written
  static constexpr uint64_t nowhere = ~uint64_t{0};
  uint64_t bare = nowhere;      // the last UMR, where nothing behind it has waited for it
  uint32_t bare_key = 0;        // and what it changes
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
  // Calls visit(WQE) for each WQE that is not complete, oldest first, until it says stop.
  template <typename Visit>
  void each_open(uint64_t until, Visit visit) noexcept {
    const uint64_t oldest = announced > wqes.size() ? announced - wqes.size() : 0;
    for (uint64_t place = std::max(completed, oldest); place < until;) {
      LintWqe* w = find(place);
      if (w != nullptr && !visit(*w)) return;
      place += w != nullptr ? w->wqebbs : 1;
    }
  }
  // Whether a fence that waits for so much lies behind the WQE at `from`, up to the one at `to`.
  [[nodiscard]] bool fenced(uint64_t from, uint64_t to, bool (*waits)(uint8_t)) noexcept {
    bool found = false;
    each_open(to + 1, [&](const LintWqe& w) {
      found = w.at > from && waits(static_cast<uint8_t>(w.fence << 5));
      return !found;
    });
    return found;
  }
  // Whether the engine is past it.
  [[nodiscard]] bool executed(const LintWqe& w) const noexcept {
    return w.at < place_of(qp->sq.ci);
  }
  // Nothing of a queue in error, or at rest, is under way.
  [[nodiscard]] bool works() const noexcept {
    return !qp->broken && (qp->state == QpState::rts || qp->state == QpState::sqd);
  }
};

// A receive ring as it was announced. Its WQEs ring no doorbell: what the record says is looked at
// every turn.
struct LintRing {
  struct Mark {
    bool changed = false;
    bool looked_at = false;
    bool refused = false;  // by `rule`
    prm::lint::Rule rule = prm::lint::Rule::reserved_bits;
  };
  const wq::Qp* qp = nullptr;  // either
  const wq::Srq* srq = nullptr;
  uint16_t head = 0;   // announced, 16-bit counter
  uint32_t place = 0;  // shared: of the next one to be announced
  std::vector<std::byte> copy;
  std::vector<Mark> marks;

  [[nodiscard]] uint64_t base() const noexcept {
    return srq != nullptr ? srq->spec.buf.value() : qp->rq.base;
  }
  [[nodiscard]] uint32_t wqes() const noexcept {
    return srq != nullptr ? srq->spec.wqes : qp->rq.wqes;
  }
  [[nodiscard]] uint32_t bytes() const noexcept {
    return 1u << (srq != nullptr ? srq->spec.wqe_shift : qp->rq.shift);
  }
  [[nodiscard]] uint32_t number() const noexcept {
    return srq != nullptr ? srq->srqn : qp->qpn.value();
  }
  [[nodiscard]] uint16_t waiting() const noexcept {
    return static_cast<uint16_t>(head - (srq != nullptr ? srq->ci : qp->rq.ci));
  }
  [[nodiscard]] prm::lint::RecvShape shape() const noexcept {
    return {srq != nullptr, srq == nullptr && (qp->spec.rq_signature || qp->rq.striding()), wqes()};
  }
};

class Lint final : public wq::Observer {
 public:
  struct Around {
    const char* device;
    Journal* journal;
    tpt::KeyTable* keys;
    const Profile* profile;
    const ObjectTable<wq::Qp>* qps;
  };
  Lint(LintMode mode, const Around& around) noexcept : mode_(mode), around_(around) {}

  // A queue begins, starts over, ends.
  void add(wq::Qp&);
  void add(const wq::Srq&);
  // Begins to watch queues at work: what the engine has yet to take is looked at as if it were
  // announced now, what it has taken is not known.
  void join(wq::Qp&);
  void join(const wq::Srq&);
  void set_mode(LintMode mode) noexcept { mode_ = mode; }
  void restart(wq::Qp&) noexcept;
  void remove(wq::Qp&) noexcept;
  void remove(const wq::Srq&) noexcept;

  // A region was made, or is other memory now; it is about to end.
  void registered(const tpt::Mkey& m) { regions_.add(m); }
  void deregistered(uint32_t index) noexcept;

  // The engine's turn: receive WQEs that were posted, memory that went away.
  void look() noexcept;

  // sq.pi of a watched queue pair has moved.
  void announced(wq::Qp&) noexcept;
  // Drained, its client may have changed what is posted (cancelled requests).
  void resumed(wq::Qp&) noexcept;
  const prm::lint::RuleRow* executes(wq::Qp&, const wq::SendWqe&) noexcept override;
  void completed(wq::Qp&, uint16_t wqe_index) noexcept override;
  const prm::lint::RuleRow* receives(const wq::Qp&, std::span<const std::byte>,
                                     const wq::RecvWqe&) noexcept override;
  const prm::lint::RuleRow* arrives(const wq::Qp&, const tpt::Segment&,
                                    uint8_t right) noexcept override;

  [[nodiscard]] uint64_t count(prm::lint::Rule r) const noexcept {
    return counts_[static_cast<std::size_t>(r)];
  }
  [[nodiscard]] uint64_t findings() const noexcept;

 private:
  using Finding = prm::lint::Finding;
  using Bytes = std::span<const std::byte>;
  // A WQE and its queue.
  struct Place {
    LintQueue& q;
    LintWqe& w;
  };
  // What a finding is about.
  struct Subject {
    enum class Kind : uint8_t { send, receive, request, region } kind;
    uint32_t queue = 0;  // number
    uint32_t index = 0;
    Bytes bytes{};
    prm::lint::QueueKind queue_kind = prm::lint::QueueKind::connected;
    prm::lint::RecvShape shape{};
  };
  // lint/lint.cc
  void announce_one(LintQueue&, LintWqe&, Bytes) noexcept;
  [[nodiscard]] bool is_meant(const wq::Qp&, Bytes, const Finding&) const noexcept;
  [[nodiscard]] bool spans(Qpn, const prm::DataSeg&) const noexcept;
  void check_empty_inline(LintQueue&, LintWqe&, Bytes) noexcept;
  void check_room(LintQueue&, LintWqe&, Bytes) noexcept;
  [[nodiscard]] uint64_t coming(const wq::Cq&) const noexcept;
  bool overruns(const wq::Cq&, Finding&) const noexcept;
  void check_change(LintQueue&, LintWqe&, const wq::SendWqe&) noexcept;
  void check_memory(LintQueue&, LintWqe&, const wq::SendWqe&) noexcept;
  bool find_hole(const tpt::Segment&, const tpt::Access&, Finding&) const noexcept;
  // lint/keys.cc
  void collect_keys(const LintQueue&, LintWqe&, Bytes) const noexcept;
  void add_key(LintWqe&, uint32_t key, LintKey::Use, uint32_t depth) const noexcept;
  void check_keys(LintQueue&, LintWqe&, Bytes) noexcept;
  bool judge_use(const Place& user, LintKey, const Place& change, Finding&) const noexcept;
  bool judge_change(const Place& change, LintKey, const Place& user, Finding&) const noexcept;
  void check_behind(LintQueue&, LintWqe&, Bytes) noexcept;
  // lint/wire.cc
  [[nodiscard]] bool peer_may_know(LintQueue&, const LintWqe& change) const noexcept;
  bool check_arrival(const wq::Qp&, LintQueue&, LintKey) noexcept;
  bool find_peer_use(LintKey change, Finding&) const noexcept;
  // lint/recv.cc
  LintRing* ring_of(const void* queue) noexcept;
  void announce_receives(LintRing&) noexcept;
  void announce_receive(LintRing&, uint32_t place, Bytes) noexcept;
  void check_receive_room(LintRing&, uint32_t place) noexcept;
  [[nodiscard]] const wq::Cq* completes_to(const LintRing&) const noexcept;
  void report(LintRing&, uint32_t place, Bytes, const Finding&) noexcept;
  // lint/report.cc
  void report(LintQueue&, LintWqe&, Bytes, const Finding&) noexcept;
  void tell(const Subject&, const Finding&) noexcept;

  LintMode mode_;
  Around around_;
  std::vector<std::unique_ptr<LintQueue>> queues_;
  std::unordered_map<const void*, std::unique_ptr<LintRing>> rings_;  // by Qp or Srq
  LintRegions regions_;
  std::array<uint64_t, prm::lint::rules> counts_{};
  alignas(64) std::array<std::byte, 1024> straight_;  // the WQE in hand
};

prm::lint::QueueKind queue_kind(QpType) noexcept;

}  // namespace kilim::vhca::lint
