// SPDX-License-Identifier: BSD-3-Clause
// Memory windows: a part of a region under a key of its own, bound and invalidated by work
// requests. The type of a umr::Window contains its state, so that a call which the state does not
// allow does not compile: a free window has no key, a bound one of type 2 cannot be bound again.
//
// Threads: the queue's worker; making and destroying a window is the control thread's.
//
// Errors: bind() and invalidate() are refused with an Outcome and leave the window as it was; a
// request that the device fails makes the window broken (abandon()).
//
// Example:
//   #include <utility>
//   using kilim::umr::WindowType;
//   kilim::Outcome close(kilim::queue::WqeCursor& c,
//                        kilim::umr::BoundWindow<WindowType::type2>&& window,
//                        kilim::umr::InvalidatingWindow<WindowType::type2>& closing) {
//     return kilim::umr::invalidate(c, std::move(window), {}, closing);
//   }
#pragma once

#include "kilim/detail/mr/window_source.hh"
#include "kilim/detail/umr/window.hh"
#include "kilim/detail/umr/window_state.hh"
