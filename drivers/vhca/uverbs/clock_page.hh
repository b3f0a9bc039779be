// SPDX-License-Identifier: BSD-3-Clause
// The page that relates the ticks of completions to the time of day (mlx5_ib_clock_info), which
// clients map and read without a call. Its figures are those of a card of 1 GHz, whose reader needs
// a younger page every few seconds, so a thread of the process renews it, whoever runs the adapter
// and however idle it is. Owner: the process. fd(): adapter's lock held.
#pragma once

namespace kilim::vhca::uverbs::clock_page {

// A descriptor of the page, which stays the process's; -1: there is none to be had. The first call
// starts the thread, which lives as long as the process; the first one of a forked child its own.
int fd() noexcept;

}  // namespace kilim::vhca::uverbs::clock_page
