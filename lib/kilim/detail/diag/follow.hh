// SPDX-License-Identifier: BSD-3-Clause
// Follow: checks a queue's WQEs in their order: each WQE by itself, and missing fences: a key used
// behind its UMR, or changed behind its users. For recordings and doorbells.
// One thread for each object; allocates when it sees a new key.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>

#include "kilim/detail/diag/mkey_traffic.hh"
#include "kilim/prm/lint.hh"

namespace kilim::inline v1::diag {

class Follow {
 public:
  explicit Follow(prm::lint::QueueKind kind = prm::lint::QueueKind::connected) noexcept
      : kind_(kind) {}

  // Checks the next WQE. `wqe`: its ds octowords, or all remaining blocks if ds is invalid.
  prm::lint::Findings next(prm::lint::Bytes wqe);
  // WQEs before `until` have ended; the ring has at most 2^15 blocks.
  void ended(uint16_t until) noexcept;
  // Sets the shared record of other queues' changes; null: none.
  void join(MkeyTraffic* traffic) noexcept { traffic_ = traffic; }

 private:
  using Keys = std::map<uint32_t, uint16_t>;  // key index, index of the last WQE
  struct Umr {
    uint16_t index;  // of the WQE
    uint32_t key;    // with its new tag
  };
  void apply_fence(uint8_t mode);
  void bare_umr(Umr umr) noexcept {
    umr_ = umr;
    bare_ = true;
  }
  void want_fence(const prm::CtrlSeg&, prm::Opcode, prm::lint::Findings&);
  void use_all(prm::lint::Bytes wqe, const prm::CtrlSeg&, prm::lint::Findings&);
  void use(uint32_t key, const prm::CtrlSeg&, bool answers, prm::lint::Findings&);
  void use_local(uint32_t key, const prm::CtrlSeg&, bool answers, prm::lint::Findings&);
  void change(prm::lint::Bytes wqe, const prm::CtrlSeg&, prm::lint::Findings&);

  MkeyTraffic* traffic_ = nullptr;
  prm::lint::QueueKind kind_;
  Keys changed_;                 // changed by a UMR, no fence since
  Keys sent_;                    // used by WQEs that may be sent again, no strong fence since
  Keys asked_;                   // used by READs and atomics, no fence since
  Umr umr_{};                    // the last UMR
  bool bare_ = false;            // no WQE behind umr_ had a fence
  std::set<uint32_t> indirect_;  // keys that any UMR has named
};

}  // namespace kilim::inline v1::diag
