// SPDX-License-Identifier: BSD-3-Clause
// KILIM_VERSION is the version of project() in the top meson.build (base/meson.build passes it).
#include "kilim/version.h"

extern "C" const char* kilim_version(void) {
  return KILIM_VERSION;
}
