// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Tag Matching". The segment of a list operation, the headers at the start of a tagged
// message, and what CQEs say about both. Names: mlx5_wqe_tm_seg of mlx5dv.h, ibv_tmh and ibv_rvh of
// infiniband/tm_types.h. Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"

namespace kilim::inline v1::prm {

// Follows the control segment of a TAG_MATCHING WQE. An append has one data segment behind it.
struct TagSeg {
  uint8_t opcode;  // 7:4 TagOp
  uint8_t flags;   // tag::flag_*
  be16 index;      // append: place of the next entry; removal: the entry to remove
  uint8_t rsvd0[2];
  be16 sw_count;  // unexpected messages that software has handled so far
  uint8_t rsvd1[8];
  be64 tag;
  be64 mask;
};
static_assert(sizeof(TagSeg) == 32 && offsetof(TagSeg, tag) == 16);

enum class TagOp : uint8_t { nop = 0, append = 1, remove = 2 };

// The first bytes of a message to a receive queue that matches tags.
struct Tmh {
  uint8_t opcode;       // TmhOp
  uint8_t reserved[3];  // clients keep their own data there
  be32 app_ctx;
  be64 tag;
};
static_assert(sizeof(Tmh) == 16);

enum class TmhOp : uint8_t { no_tag = 0, rendezvous = 1, fin = 2, eager = 3 };

// Follows Tmh in a rendezvous: the sender's memory, from which the receiver READs the data.
struct Rvh {
  be64 va;
  be32 rkey;
  be32 len;
};
static_assert(sizeof(Rvh) == 16);

// The first bytes of the CQE of a list operation.
struct TagCqe {
  be32 success;   // tag::success, or 0
  be16 hw_count;  // unexpected messages so far
  uint8_t rsvd[10];
};
static_assert(sizeof(TagCqe) == 16);

// Cqe::app_op where Cqe::app is app_tag_matching.
enum class TagNews : uint8_t {
  none = 0,
  consumed = 1,    // a list entry matched; its data comes later
  expected = 2,    // the data of a matched entry has arrived
  unexpected = 3,  // no list entry matches the tag
  no_tag = 4,      // a message without a tag
  append = 5,      // list operations
  remove = 6,
  nop = 7,
  consumed_sw_rndv = 9,        // a rendezvous matched; its header comes later
  consumed_msg = 0xa,          // a list entry matched, and its data is here
  consumed_msg_sw_rndv = 0xb,  // a rendezvous matched, its header is here; software does the READ
  canceled = 0xc,              // a list entry matched, but its data will not come
};

namespace tag {
inline constexpr uint8_t app_tag_matching = 1;      // Cqe::app
inline constexpr uint8_t flag_sw_count = 1 << 6;    // TagSeg::sw_count counts
inline constexpr uint8_t flag_completion = 1 << 7;  // the operation gets a CQE
inline constexpr uint32_t success = 0x8000'0000u;
inline constexpr unsigned opcode_shift = 4;
}  // namespace tag

}  // namespace kilim::inline v1::prm
