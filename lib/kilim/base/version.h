// SPDX-License-Identifier: BSD-3-Clause
// Which Kilim this is. Any thread. C and C++.
#ifndef KILIM_VERSION_H
#define KILIM_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that runs, "MAJOR.MINOR.PATCH", as pkg-config --modversion says of the
 * one that was compiled against; never NULL. */
const char* kilim_version(void);

#ifdef __cplusplus
}
#endif

#endif
