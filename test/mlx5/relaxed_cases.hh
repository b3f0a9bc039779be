// SPDX-License-Identifier: BSD-3-Clause
// Cases of the test of relaxed regions that have a file of their own. Test code.
#pragma once

namespace kilim::test {

void relaxed_soak();

}  // namespace kilim::test
