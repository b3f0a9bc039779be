// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Tag Matching". The segment of a list operation, the headers that open a tagged message, and
// what a completion says of either. Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/base/be.hh"

namespace kilim::prm {

// Behind the control segment of a TAG_MATCHING WQE; of an append, one data segment follows.
struct TagSeg {
  uint8_t opcode;  // 7:4 TagOp
  uint8_t flags;
  be16 index;  // of an append: where the next one goes; of a removal: which entry
  uint8_t rsvd0[2];
  be16 sw_count;  // unexpected messages that software has handled
  uint8_t rsvd1[8];
  be64 tag;
  be64 mask;
};
static_assert(sizeof(TagSeg) == 32 && offsetof(TagSeg, tag) == 16);

enum class TagOp : uint8_t { nop = 0, append = 1, remove = 2 };

// What opens a message to a queue that matches tags.
struct Tmh {
  uint8_t opcode;       // TmhOp
  uint8_t reserved[3];  // clients keep their own data there
  be32 app_ctx;
  be64 tag;
};
static_assert(sizeof(Tmh) == 16);

enum class TmhOp : uint8_t { no_tag = 0, rendezvous = 1, fin = 2, eager = 3 };

// Behind it in a rendezvous: where the data waits for a READ.
struct Rvh {
  be64 va;
  be32 rkey;
  be32 len;
};
static_assert(sizeof(Rvh) == 16);

// The first bytes of a list operation's completion.
struct TagCqe {
  be32 success;
  be16 hw_count;  // unexpected messages so far
  uint8_t rsvd[10];
};
static_assert(sizeof(TagCqe) == 16);

// Cqe::app_op where Cqe::app is app_tag_matching.
enum class TagNews : uint8_t {
  none = 0,
  consumed = 1,    // matched, data comes
  expected = 2,    // data has come
  unexpected = 3,  // a tag that nothing waits for
  no_tag = 4,      // no tag at all
  append = 5,      // list operations
  remove = 6,
  nop = 7,
  consumed_sw_rndv = 9,        // matched, the header comes
  consumed_msg = 0xa,          // matched, with its data
  consumed_msg_sw_rndv = 0xb,  // matched, with its header: the READ is left to software
  canceled = 0xc,              // matched, the data will not come
};

namespace tag {
inline constexpr uint8_t app_tag_matching = 1;  // Cqe::app
inline constexpr uint8_t flag_sw_count = 1 << 6;
inline constexpr uint8_t flag_completion = 1 << 7;
inline constexpr uint32_t success = 0x8000'0000u;
inline constexpr unsigned opcode_shift = 4;
}  // namespace tag

}  // namespace kilim::prm
