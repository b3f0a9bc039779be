// SPDX-License-Identifier: BSD-3-Clause
// The file that a recorder of doorbells writes: a head, then a record a doorbell, all in the byte
// order of the machine that wrote it, the basic blocks as they lay in the ring. Values, any thread.
// doc/guides/recording.md describes it for readers in other languages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kilim::diag {

inline constexpr std::array<char, 8> recording_magic = {'K', 'L', 'M', 'W', 'Q', 'E', '0', '1'};

struct RecordingHead {
  std::array<char, 8> magic = recording_magic;
  uint64_t used = sizeof(RecordingHead);  // bytes of the file that say something
  uint64_t lost = 0;                      // doorbells that found no room
  uint64_t reserved = 0;
};
static_assert(sizeof(RecordingHead) == 32);

// Behind it `wqebbs` times 64 bytes.
struct DoorbellRecord {
  uint32_t wqebbs = 0;
  uint32_t qpn = 0;
  uint64_t time_ns = 0;  // CLOCK_MONOTONIC
  uint32_t first = 0;    // number of the first block, 16 bits
  uint32_t lcore = 0;    // as the recorder was told
  uint8_t kind = 0;      // prm::lint::QueueKind
  uint8_t reserved[39] = {};
};
static_assert(sizeof(DoorbellRecord) == 64);

}  // namespace kilim::diag
