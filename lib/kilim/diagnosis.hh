// SPDX-License-Identifier: BSD-3-Clause
// What went wrong. diag::explain() makes a sentence of an error completion: which segment, which
// entry of which key, which region, how many bytes past its end. diag::Recorder writes every
// request that a doorbell announces to a file, which kilim-wqe reads and replays; diag::Follow
// knows what each recorded request did to keys.
//
// Threads: explain() is for whoever owns the MkeyBook, not for a burst. A Recorder is one worker's
// and outlives the queues that it observes.
//
// Errors: Recorder::open() gives the file's errno; what does not fit into the file is counted by
// lost().
//
// Example:
//   #include <array>
//   void say(const kilim::queue::Sq& sq, const kilim::queue::Completion& failed,
//            kilim::diag::MkeyBook& book) {
//     std::array<char, 1024> memory;
//     kilim::prm::Text text{memory};
//     const kilim::diag::SavedWqe wqe = kilim::diag::save_wqe(sq, failed.wqe_counter);
//     kilim::diag::explain(text, failed, wqe.bytes(), book);
//   }
#pragma once

#include "kilim/detail/diag/doorbell_lint.hh"
#include "kilim/detail/diag/explain.hh"
#include "kilim/detail/diag/follow.hh"
#include "kilim/detail/diag/mkey_book.hh"
#include "kilim/detail/diag/recorder.hh"
#include "kilim/detail/diag/recording.hh"
