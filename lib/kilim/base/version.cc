// SPDX-License-Identifier: BSD-3-Clause
// The number comes from project() in the first meson.build.
#include "kilim/base/version.h"

extern "C" const char* kilim_version(void) {
  return KILIM_VERSION;
}
