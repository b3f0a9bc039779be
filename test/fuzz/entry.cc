// SPDX-License-Identifier: BSD-3-Clause
// Where libFuzzer enters a harness.
#include "input_fixture.hh"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  kilim::fuzz::run_input(kilim::fuzz::Input(data, size));
  return 0;
}
