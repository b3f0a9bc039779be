// SPDX-License-Identifier: BSD-3-Clause
// This header is compiled once for the library of the ethdev (cpp_pch): most of its sources read
// these headers. A source still includes what it uses. No source includes this one by name.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

// First: it says that the functions of rings are C (base/dpdk.hh), which not every DPDK does.
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "kilim/detail/port/port.hh"
