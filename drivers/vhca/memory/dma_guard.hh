// SPDX-License-Identifier: BSD-3-Clause
// The signal handler behind the guarded copy: SIGSEGV and SIGBUS raised by the routines of
// dma_x86.S continue at their fault return, all others go to the handler that was there before.
// One a process (a copy in a shared object is one more, they chain). Calls: any thread; the handler
// itself neither allocates nor locks nor touches thread-local storage.
#pragma once

#include <signal.h>

namespace kilim::vhca::memory::dma {

// Puts the handler in front of what is there; again: no effect. False: the kernel refused.
bool install() noexcept;

// Puts the handler back in front where the process has replaced it since; theirs becomes the next
// one. True where that was necessary (the caller says so, once). A system call a signal.
bool check_on_top() noexcept;

// What an interposed sigaction(2) does for the two signals: theirs becomes (or reads) the handler
// behind ours. 0, or -1 with errno. Installs where that has not happened yet.
int client_sigaction(int sig, const struct sigaction* act, struct sigaction* old) noexcept;

// Whether this thread lets both signals through: one that does not must leave client memory alone.
bool signals_open() noexcept;

// Around fork: the handlers' lock is held meanwhile, so that a child finds it free.
void before_fork() noexcept;
void after_fork_in_parent() noexcept;
void after_fork_in_child() noexcept;

}  // namespace kilim::vhca::memory::dma
