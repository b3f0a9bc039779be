// SPDX-License-Identifier: BSD-3-Clause
// UMR requests: memory in pieces becomes one range under one key. umr::View is a list of pieces,
// StridedView blocks at equal distances, FixedView pieces of one size; umr_layout() appends the
// request in the form that fits, inline or by pointer, and umr_patch() replaces some entries of a
// bound key. mkey.hh calls these for keys whose life it keeps.
//
// Threads: the queue's worker. Never allocates, blocks or logs; list memory is made at set-up.
//
// Errors: a Refusal that is final (empty, long_piece, over_key, too_deep, off_granule, ...), or
// no_room and no_list_memory, after which the same request may be appended later.
//
// Example:
//   kilim::Outcome two_pieces(kilim::queue::WqeCursor& c, kilim::umr::ListRequest key,
//                             const kilim::umr::UmrContext& context, kilim::mr::Region region) {
//     kilim::umr::PieceList<2> list;
//     list.add(region.lkey, region.iova, 512);
//     list.add(region.lkey, region.iova + 8192, 512);
//     return kilim::umr::umr_layout(c, context, key, list.view(), {});
//   }
#pragma once

#include "kilim/detail/mr/region.hh"
#include "kilim/detail/umr/fence.hh"
#include "kilim/detail/umr/fixed.hh"
#include "kilim/detail/umr/hole.hh"
#include "kilim/detail/umr/layout.hh"
#include "kilim/detail/umr/list_memory.hh"
#include "kilim/detail/umr/list_writer.hh"
#include "kilim/detail/umr/patch.hh"
#include "kilim/detail/umr/request.hh"
#include "kilim/detail/umr/shape.hh"
#include "kilim/detail/umr/strided.hh"
#include "kilim/detail/umr/umr_wqe.hh"
#include "kilim/detail/umr/view.hh"
