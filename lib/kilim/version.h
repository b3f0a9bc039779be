// SPDX-License-Identifier: BSD-3-Clause
// The version of the library. Any thread. C and C++.
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
