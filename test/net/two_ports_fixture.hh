// SPDX-License-Identifier: BSD-3-Clause
// Two ports of two virtual devices at the two ends of a cable, in this process, run by the test's
// own thread. `near` is where the test sends and receives, `far` is where something forwards.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attach/resolve.hh"
#include "eal.hh"
#include "kilim/detail/port/port.hh"
#include "ut.hh"

namespace kilim::test {

// `fatal_at`: the device dies with this send request; 0: never. `failing`: of its send requests, as
// DeviceSpec has it.
inline std::unique_ptr<port::Port> make_port(const std::string& hca, const std::string& wire,
                                             uint64_t fatal_at = 0,
                                             const port::QueueSizes& sizes = {},
                                             const char* profile = "", const char* failing = "") {
  DeviceSpec spec;
  spec.name = hca;
  if (!wire.empty()) spec.wires.push_back(wire);
  spec.fatal_at = fatal_at;
  if (*profile != '\0') spec.profile = profile;
  spec.failing = failing;
  auto a = attach::resolve(spec);
  if (!a) {
    std::printf("%s: %s\n", hca.c_str(), a.error().what);
    return nullptr;
  }
  port::PortParts parts;
  parts.name = "port_" + hca;
  parts.device = std::move(a->device);
  parts.poller = a->poller;
  parts.defaults = sizes;
  parts.limit_frames = attach::set_mtu;
  auto p = port::Port::create(std::move(parts));
  if (!p) std::printf("%s: %s\n", hca.c_str(), p.error().what);
  return p ? *std::move(p) : nullptr;
}

// Names of devices and cables are used once in a process.
inline std::string fresh(const char* prefix) {
  static int number = 0;
  return prefix + std::to_string(number++);
}

struct TwoPorts {
  pool::ArenaMemory memory;
  pool::Pool pool;
  std::optional<pool::BufferCache> cache;
  std::unique_ptr<port::Port> near, far;

  static pool::ArenaMemory arena(uint32_t buffers, bool holders) {
    CU_ASSERT_TRUE_FATAL(start_eal());
    return *std::move(pool::ArenaMemory::create({.buffers = buffers,
                                                 .side_records = true,
                                                 .side_piece = holders ? 256u : 0u,
                                                 .holders = holders}));
  }
  explicit TwoPorts(uint32_t buffers = 4096, bool holders = false, const char* failing = "",
                    const char* profile = "")
      : memory(arena(buffers, holders)),
        pool(*std::move(pool::Pool::create(memory.arena(), {.name = "two", .count = buffers}))) {
    cache.emplace(pool);
    const std::string wire = fresh("cable:c");
    near = make_port(fresh("vhca"), wire);
    far = make_port(fresh("vhca"), wire, 0, {}, profile, failing);
    CU_ASSERT_TRUE_FATAL(near != nullptr);
    CU_ASSERT_TRUE_FATAL(far != nullptr);
  }
  // Before the cache and the memory go.
  ~TwoPorts() {
    near->unconfigure();
    far->unconfigure();
  }

  Status start(port::Port& p, const port::QueueSizes& sizes, burst::TxConfig tx = {},
               uint32_t keys = 0) {
    if (Status s = p.configure(sizes, memory); !s) return s;
    if (Status s = p.set_rx(0, {.cache = &*cache}); !s) return s;
    for (uint32_t q = 0; q < sizes.txq; q++) {
      const port::TxSetup setup{.cache = &*cache, .config = tx, .keys = keys, .headers = &*cache};
      if (Status s = p.set_tx(q, setup); !s) return s;
    }
    return p.start();
  }
  void run_devices() {
    near->poller().fn(near->poller().context, 256);
    far->poller().fn(far->poller().context, 256);
  }
  // Buffers that neither pool nor cache holds.
  uint32_t out() {
    cache->flush();
    return pool.size() - pool.available();
  }
};

}  // namespace kilim::test
