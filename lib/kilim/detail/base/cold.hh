// SPDX-License-Identifier: BSD-3-Clause
// KILIM_COLD in front of a function that hot code calls seldom: where it lies tells the check of
// hot rooms (test/style/check_hot.py) that it may be called. Not [[gnu::cold]], which would change
// how the calling code is laid out and counted. On declarations alone; never on a template.
#pragma once

#define KILIM_COLD [[gnu::section(".text.kilim_cold")]]
