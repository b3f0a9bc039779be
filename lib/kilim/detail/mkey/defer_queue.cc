// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/mkey/defer_queue.hh"

namespace kilim::inline v1::mkey {

DeferQueue::DeferQueue(Epochs& epochs, MkeyPool& pool)
    : epochs_(epochs), pool_(pool), posted_(std::make_unique<uint64_t[]>(epochs.max_queues())) {}

}  // namespace kilim::inline v1::mkey
