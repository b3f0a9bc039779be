// SPDX-License-Identifier: BSD-3-Clause
// Keys that change. port::MkeyQueue is a connection to itself with a pool of mkeys; its binder()
// claims a key, binds it to a view by a UMR, and invalidates it when the mkey::Binding ends. The
// next request of the same queue may use the key at once (lkey_behind()), every other queue and
// peer from valid() on. port::PacketGather does it for packets of a transmit queue.
//
// Threads: the control lcore makes and recovers a queue, one worker uses it; handles may go to any
// thread or peer. diag::audit() counts a pool's keys while no worker uses them.
//
// Errors: create() gives EOPNOTSUPP where the device has no UMR; bind() an Outcome (no_key: all
// keys are held; no_room: the queue is full); wait() false on a failed request.
//
// Example:
//   bool bind_two(kilim::port::MkeyQueue& queue, kilim::mr::Region region) {
//     kilim::mkey::Binding key = queue.binder().claim();
//     if (!key) return false;
//     const kilim::umr::Piece pieces[] = {{region.iova, 512, region.lkey},
//                                         {region.iova + 8192, 512, region.lkey}};
//     kilim::queue::WqeCursor c{queue.sq()};
//     if (!queue.binder().bind(c, key, {}, pieces).ok()) return false;
//     queue.binder().commit(c);
//     return queue.wait() && key.valid();
//   }
#pragma once

#include "kilim/detail/diag/audit.hh"
#include "kilim/detail/diag/mkey_traffic.hh"
#include "kilim/detail/mkey/mkey_binder_burst.hh"
#include "kilim/detail/mkey/mkey_cache.hh"
#include "kilim/detail/mkey/mkey_lists.hh"
#include "kilim/detail/port/ended_keys.hh"
#include "kilim/detail/port/mkey_queue.hh"
#include "kilim/detail/port/packet_gather.hh"
