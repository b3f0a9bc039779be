// SPDX-License-Identifier: BSD-3-Clause
// The version of the library. C and C++.
//
// Threads: any thread.
//
// Errors: none.
//
// Example:
//   #include <stdio.h>
//   int main(void) { return puts(kilim_version()) < 0; }
#ifndef KILIM_VERSION_H
#define KILIM_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that the program runs with, "MAJOR.MINOR.PATCH"; never NULL.
 * `pkg-config
 * --modversion kilim` tells that of the headers, which may be another one. */
const char* kilim_version(void);

#ifdef __cplusplus
}
#endif

#endif
