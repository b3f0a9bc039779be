// SPDX-License-Identifier: BSD-3-Clause
// A library that stands in front of the C library and lets the n-th call of one kind fail, as a
// machine without memory, descriptors or room on its disk would: malloc, mmap, open, read, write
// and their like, where the program, Kilim's libraries or the C++ runtime call them. What
// libibverbs, libmlx5 and DPDK call goes well: their faults are theirs. A program is run with it by
// LD_PRELOAD and KILIM_FAIL=KIND:N[xTIMES] (fail_each.py); a test links it and calls what is here.
// Any thread. It never allocates, and is not made for builds with a sanitizer.
#pragma once

extern "C" {

enum KilimFailing : int {
  kilim_no_failing,
  kilim_failing_memory,  // malloc, calloc, realloc, posix_memalign, aligned_alloc: ENOMEM
  kilim_failing_map,     // mmap, mremap, mlock: ENOMEM
  kilim_failing_open,    // open, socket, eventfd, epoll_create, dup, pipe, fopen, …: EMFILE
  kilim_failing_space,   // write, pwrite, fallocate, ftruncate, mkdir, symlink: ENOSPC
  kilim_short,           // read and write: half of what was asked for, without an error
};

// The n-th call of the kind from now on fails, and in all `times` of them; the first one is 1.
// kilim_no_failing: none does. Returns how many calls of the kind before there were.
unsigned long kilim_fail(int kind, unsigned long n, unsigned long times);

// Whether the call that was to fail has come.
int kilim_has_failed();
}
