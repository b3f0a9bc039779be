// SPDX-License-Identifier: BSD-3-Clause
// Counts, and keeps the texts true: whoever wrote a text looks again whether its value still
// stands, so the last one to write has written the last value.
#include "vhca/tpt/odp_stats.hh"

#include <iterator>

namespace kilim::vhca::tpt {

const char* odp_counter_name(OdpCounter c) noexcept {
  static constexpr const char* names[] = {
      "invalidations_faults_contentions",
      "num_invalidation_pages",
      "num_invalidations",
      "num_page_fault_pages",
      "num_page_faults",
      "num_prefetches_handled",
      "num_prefetch_pages",
      "num_failed_resolutions",
      "num_mrs_not_found",
      "num_odp_mr_pages",
      "num_odp_mrs",
  };
  static_assert(std::size(names) == odp_counters);
  return names[static_cast<std::size_t>(c)];
}

void OdpStats::use(OdpValues& values, const std::array<char*, odp_counters>& texts) noexcept {
  values_ = &values;
  texts_ = texts;
}

void OdpStats::write_text(char* text, uint64_t value) noexcept {
  text[text_bytes - 1] = '\n';
  for (std::size_t i = text_bytes - 1; i-- > 0; value /= 10) {
    bool shown = value != 0 || i == text_bytes - 2;
    char digit = shown ? static_cast<char>('0' + value % 10) : ' ';
    __atomic_store_n(text + i, digit, __ATOMIC_RELAXED);
  }
}

void OdpStats::leave() noexcept {
  if (values_ == &own_) return;
  for (OdpCounter c : {OdpCounter::num_odp_mr_pages, OdpCounter::num_odp_mrs})
    sub(c, own_.value[index(c)].load(std::memory_order_relaxed));
}

// Adds to the shared values, and keeps this process's own part beside them.
void OdpStats::change(OdpCounter c, uint64_t by) noexcept {
  if (by == 0) return;
  if (values_ != &own_) own_.value[index(c)].fetch_add(by, std::memory_order_relaxed);
  std::atomic<uint64_t>& value = values_->value[index(c)];
  uint64_t shown = value.fetch_add(by, std::memory_order_seq_cst) + by;
  char* text = texts_[index(c)];
  if (text == nullptr) return;
  for (;;) {
    write_text(text, shown);
    uint64_t now = value.load(std::memory_order_seq_cst);
    if (now == shown) return;
    shown = now;
  }
}

}  // namespace kilim::vhca::tpt
