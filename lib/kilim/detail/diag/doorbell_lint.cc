// SPDX-License-Identifier: BSD-3-Clause
// Takes a doorbell's blocks apart into WQEs. Not for release builds: allocates and prints.
#include "kilim/detail/diag/doorbell_lint.hh"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "kilim/detail/base/assert.hh"
#include "kilim/prm/dump.hh"

namespace kilim::inline v1::diag {

DoorbellLint::DoorbellLint(bool stop, prm::lint::QueueKind kind, MkeyTraffic* others) noexcept
    : follow_(kind), kind_(kind), others_(others), stop_(stop) {
  doorbell = &DoorbellLint::on_doorbell;
  ended = &DoorbellLint::on_ended;
  follow_.join(others);
}

DoorbellLint::~DoorbellLint() {
  if (others_ != nullptr) others_->forget(qpn_);
}

void DoorbellLint::on_ended(queue::Watch& self, uint32_t until) noexcept {
  auto& lint = static_cast<DoorbellLint&>(self);
  lint.follow_.ended(static_cast<uint16_t>(until));
  if (lint.others_ != nullptr) lint.others_->ended(lint.qpn_, static_cast<uint16_t>(until));
}

void DoorbellLint::on_doorbell(queue::Watch& self, const queue::SqGeometry& sq, uint32_t first,
                               uint32_t end) noexcept {
  auto& lint = static_cast<DoorbellLint&>(self);
  lint.qpn_ = sq.qpn.value();
  std::array<std::byte, 1024> wqe;
  while (first != end) {
    const uint32_t most = std::min<uint32_t>(end - first, sizeof(wqe) / wqebb_bytes);
    for (uint32_t i = 0; i < most; i++)
      std::memcpy(wqe.data() + std::size_t{i} * wqebb_bytes,
                  sq.buf + std::size_t{(first + i) & (sq.wqebb_count - 1)} * wqebb_bytes,
                  wqebb_bytes);
    const auto bytes = std::span(wqe).first(std::size_t{most} * wqebb_bytes);
    const prm::lint::Findings found = lint.follow_.next(bytes);
    for (std::size_t i = 0; i < found.count; i++) {
      std::array<char, 4096> buffer;
      prm::Text text{buffer};
      prm::explain_finding(text, found.list[i]);
      text.put("; the WQE is: ");
      prm::dump_wqe(text, bytes, lint.kind_);
      std::fprintf(stderr, "doorbell: %s\n", text.c_str());
      lint.findings_++;
    }
    KILIM_ASSERT(!lint.stop_ || found.empty());
    const uint32_t ds = prm::ctrl::ds::get(prm::lint::segment_at<prm::CtrlSeg>(wqe, 0));
    first += ds == 0 ? most : std::min(most, wqebbs_for(Octowords{ds}).value());
  }
}

}  // namespace kilim::inline v1::diag
