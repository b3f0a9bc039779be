// SPDX-License-Identifier: BSD-3-Clause
// Lints a queue's WQEs one after the other, in their order: what each does wrong by itself, and
// which keys it uses behind their UMR, or changes behind their users, without a fence. For
// recordings and for doorbells. One thread an object; allocates where it learns a key.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>

#include "kilim/diag/key_traffic.hh"
#include "kilim/prm/lint.hh"

namespace kilim::diag {

class Follow {
 public:
  explicit Follow(prm::lint::QueueKind kind = prm::lint::QueueKind::connected) noexcept
      : kind_(kind) {}

  // The next WQE of the queue. `wqe`: its ds octowords, or the blocks left where ds is nonsense.
  prm::lint::Findings next(prm::lint::Bytes wqe);
  // WQEs before this one have ended; of a ring of at most 2^15 blocks.
  void ended(uint16_t until) noexcept;
  // Looks at what other queues do, too; null: does not.
  void join(KeyTraffic* traffic) noexcept { traffic_ = traffic; }

 private:
  using Keys = std::map<uint32_t, uint16_t>;  // key index, index of the last WQE
  struct Umr {
    uint16_t index;  // of the WQE
    uint32_t key;
  };
  void take_fence(uint8_t mode);
  void bare_umr(Umr umr) noexcept {
    umr_ = umr;
    bare_ = true;
  }
  void want_fence(const prm::CtrlSeg&, prm::Opcode, prm::lint::Findings&);
  void use_all(prm::lint::Bytes wqe, const prm::CtrlSeg&, prm::lint::Findings&);
  void use(uint32_t key, const prm::CtrlSeg&, bool answers, prm::lint::Findings&);
  void use_local(uint32_t key, const prm::CtrlSeg&, bool answers, prm::lint::Findings&);
  void change(prm::lint::Bytes wqe, const prm::CtrlSeg&, prm::lint::Findings&);

  KeyTraffic* traffic_ = nullptr;
  prm::lint::QueueKind kind_;
  Keys changed_;                 // by a UMR, not fenced since
  Keys sent_;                    // used by WQEs that may go out again, not fenced since
  Keys asked_;                   // used by READs and atomics, likewise
  Umr umr_{};                    // the last one
  bool bare_ = false;            // nothing behind it has waited for it
  std::set<uint32_t> indirect_;  // keys that a UMR has ever named
};

}  // namespace kilim::diag
