// SPDX-License-Identifier: BSD-3-Clause
// Commands about flow rules.
#include "commands.hh"

namespace kilim::testpmd {

const Section flow_commands{"flows", "Flow rules", {}};

}  // namespace kilim::testpmd
