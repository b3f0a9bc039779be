// SPDX-License-Identifier: BSD-3-Clause
// What most tests of ports and ethdevs read, compiled once for their program (cpp_pch). A source
// still includes what it uses. Never included by name.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

// First: it says that the functions of rings are C (base/dpdk.hh), which not every DPDK does.
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "eal.hh"
#include "kilim/detail/port/port.hh"
#include "ut.hh"
