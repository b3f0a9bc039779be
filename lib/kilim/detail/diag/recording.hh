// SPDX-License-Identifier: BSD-3-Clause
// Format of a recording: a head, then a record for each doorbell, in the byte order of the machine
// that wrote it; the WQE blocks as they were in the ring. Values, any thread.
// doc/guides/recording.md describes it for readers in other languages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kilim::inline v1::diag {

inline constexpr std::array<char, 8> recording_magic = {'K', 'L', 'M', 'W', 'Q', 'E', '0', '1'};

struct RecordingHead {
  std::array<char, 8> magic = recording_magic;
  uint64_t used = sizeof(RecordingHead);  // bytes written, this head included
  uint64_t lost = 0;                      // doorbells that did not fit
  uint64_t reserved = 0;
};
static_assert(sizeof(RecordingHead) == 32);

// Followed by `wqebbs` blocks of 64 bytes.
struct DoorbellRecord {
  uint32_t wqebbs = 0;
  uint32_t qpn = 0;
  uint64_t time_ns = 0;  // CLOCK_MONOTONIC
  uint32_t first = 0;    // number of the first block, 16 bits
  uint32_t lcore = 0;    // as given to Recorder::open()
  uint8_t kind = 0;      // prm::lint::QueueKind
  uint8_t reserved[39] = {};
};
static_assert(sizeof(DoorbellRecord) == 64);

}  // namespace kilim::inline v1::diag
