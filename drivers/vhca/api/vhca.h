// SPDX-License-Identifier: BSD-3-Clause
// Virtual RDMA devices for programs in C: a test attaches a virtual ConnectX-6 Dx to its own
// process, uses it by libibverbs and libmlx5 as it would use a card, and asks it to complain, to
// fail or to reorder. No DPDK and no card are needed, no privilege and no kernel module. Installed
// as <kilim/vhca.h>; `pkg-config --cflags --libs kilim-vhca libibverbs` has what a compiler wants.
// C99 and C++.
//
// Threads: any thread may call, unless a function says otherwise; never from signal handlers. What
// changes or asks a device waits for its lock, never for the network. Attaching installs handlers
// of SIGSEGV and SIGBUS in the process: memory that a work request names may be gone, and its
// completion says so; faults of others go to the handlers that were there before. A program links
// this library or libkilim, which has a device of its own (devarg hca=), not both.
//
// Errors: a function that returns int returns a negative errno where it fails, and
// kilim_vhca_error() has a sentence then. Each takes a device that kilim_vhca_attach() gave.
//
// Example:
//   #include <stdio.h>
//   int attach(struct kilim_vhca** device) {
//     int code = kilim_vhca_attach("name=vhca0,lint=warn", device);
//     if (code != 0) fprintf(stderr, "%s\n", kilim_vhca_error());
//     return code;  /* 0: ibv_get_device_list() has "vhca0" beside the machine's own devices */
//   }
#ifndef KILIM_VHCA_H
#define KILIM_VHCA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A device that this process has attached. It lives as long as the process. */
struct kilim_vhca;

/* The version of the library that the program runs with, "MAJOR.MINOR.PATCH"; never NULL. */
const char* kilim_vhca_version(void);
/* A sentence that says why this thread's last call of a function of this header failed; "": it did
 * not. Never NULL. Valid until the thread's next such call. */
const char* kilim_vhca_error(void);

/* Attaches a device, described by words: "name=vhca1,profile=vf,wire=unix:/tmp/rdma". NULL or "":
 * the plain one, "vhca0". kilim_vhca_words() lists the words. Without wire= nothing leaves the
 * device but what goes back to it (loopback). Several devices by several calls, also after a first
 * ibv_get_device_list(), not at the same time as one.
 * progress=poll, as it is without the word: the device works in kilim_vhca_poll() alone, so a test
 * takes the same way each time. progress=thread: a thread of the device's own runs it, for code
 * that knows nothing of this header. In a program that kilim-vhca started, the launcher's device of
 * that name is meant: its options describe it, and a word but name= and progress= is -EINVAL.
 * -EINVAL: a word or its value is wrong; -EEXIST: a virtual device has this name; -ENOENT: there is
 * no libibverbs or no libmlx5 to attach to, or no such device of the launcher's; -ENOMEM. */
int kilim_vhca_attach(const char* words, struct kilim_vhca** device);
/* The words with their values, a line each, for help texts; never NULL, and for good. */
const char* kilim_vhca_words(void);
/* Takes the device off the list; its queues fail as those of a card that was pulled out, and its
 * contexts are to be closed. With progress=thread contexts that are open keep working. The
 * launcher's device stays. Not at the same time as ibv_get_device_list(). Again: 0, and nothing
 * happens. */
int kilim_vhca_detach(struct kilim_vhca* device);

/* As ibv_get_device_name() gives it; valid as long as the process. */
const char* kilim_vhca_name(const struct kilim_vhca* device);
/* Which card it is like, as profile= says it; valid as long as the process. NULL: it is the
 * launcher's. */
const char* kilim_vhca_profile(struct kilim_vhca* device);
/* The n-th profile that there is, from 0: "cx6dx", "vf", ...; NULL: there are no more. */
const char* kilim_vhca_profile_name(unsigned n);

/* Runs the device if nobody else does at this moment, for at most `budget` work requests and frames
 * (0: those that are under way alone). Returns how many it did. */
int kilim_vhca_poll(struct kilim_vhca* device, unsigned budget);

/* The linter, which looks at each work request as it is posted and executed and tells what a card
 * would bear today and fail on tomorrow. "off"; "warn": findings go to standard error; "error": the
 * work request fails too. From now on, also for what is posted and not executed yet. -EINVAL:
 * another word; -EOPNOTSUPP: the launcher is of another version. */
int kilim_vhca_lint(struct kilim_vhca* device, const char* mode);
/* What the linter has found since it was last off, a line for each rule: its name, how many times,
 * a sentence. Writes at most `bytes` with the ending 0, and returns how long the whole text is, as
 * snprintf() does; 0: nothing was found, or it is off. -EOPNOTSUPP: the device is the launcher's,
 * which tells its findings itself. */
int kilim_vhca_lint_report(struct kilim_vhca* device, char* text, size_t bytes);

/* From now on: "wqe@N": the N-th send request that the device takes up from here, counted from 1,
 * fails (local QP operation error); "wqe@N+M": so does each M-th behind it; "fatal@N": the device
 * dies with it, as a card does whose firmware is gone (IBV_EVENT_DEVICE_FATAL); "off": neither.
 * Each takes the place of the one before. -EINVAL: another word; -EOPNOTSUPP: the device is the
 * launcher's (kilim-vhca --fault). */
int kilim_vhca_fault(struct kilim_vhca* device, const char* fault);

/* How freely the device orders what stands in one send queue, of queue pairs that are made from now
 * on: "strict" (as posted); "weak", "late-umr", "late-read" or "resend", each also with a seed
 * ("weak:7"): as late as a card may be wherever no fence forbids it. -EINVAL: another word;
 * -EOPNOTSUPP: the device is the launcher's (kilim-vhca --order). */
int kilim_vhca_order(struct kilim_vhca* device, const char* order);

#ifdef __cplusplus
}
#endif

#endif
