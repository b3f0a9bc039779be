// SPDX-License-Identifier: BSD-3-Clause
// What most tests with libibverbs read, compiled once for their program (cpp_pch). A source
// still includes what it uses. Never included by name.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "ut.hh"
#include "vhca/entry/attach.hh"
#include "vhca/hca/hca.hh"
