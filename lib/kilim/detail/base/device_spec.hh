// SPDX-License-Identifier: BSD-3-Clause
// A device by its words, before it is opened: a card by its name alone, a virtual one by what it is
// to be. The one description that the launcher's options, devargs of ports, programs in C and tests
// fill in (vhca/entry/device_words.hh has the words). A value; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kilim::inline v1 {

// Who runs a virtual device. poller: its users' workers, or whoever calls its poll(); nobody else,
// so that it takes the same way each time. thread: a thread of the device, asleep while there is
// nothing to do.
enum class Progress : uint8_t { poller, thread };

struct DeviceSpec {
  // The name that ibv_get_device_name() gives. A virtual device's is 1 to 32 of [A-Za-z0-9_.-], and
  // "vhca" and a number where ports of packets use it.
  std::string name = "vhca0";
  // All that follows is a virtual device's.
  std::string profile = "cx6dx";   // see vhca/core/profile.hh
  std::vector<std::string> wires;  // wire specs, one a port; none: loopback only
  // The kernel's network interface beside port 1, a TAP that the device opens or makes; empty:
  // none.
  std::string netdev;
  std::string
      mac;  // of port 1, "02:4b:4c:00:00:01"; empty: the wire's, else it follows from name and seed
  std::string gid;  // entry 1 of port 1's GID table, an IPv6 address like "fd00::1"; empty: none
  // IP addresses of port 1, "10.0.0.1/24" or "fd00::1/64", for the connection manager and the GID
  // table; beside those that its wire or interface has.
  std::vector<std::string> ips;
  // The processes that name the same folder as their one wire, unix:, are one adapter: they have
  // its addresses, and reach each other by them. At most 255 at a time.
  bool shared = false;
  uint64_t seed = 0;    // of the MAC and of the numbers at which objects begin
  std::string journal;  // a file to which every event is written; empty: counts only
  Progress progress = Progress::poller;
  // "off", "warn" or "error", see vhca/lint/lint.hh; empty: what the environment's KILIM_VHCA_LINT
  // says, else off.
  std::string lint;
  // "strict", "weak", "weak:SEED", ..., see vhca/core/order.hh; empty: what KILIM_VHCA_ORDER says,
  // else strict.
  std::string order;
  // "on" or "off": whether it says on stderr why a request failed or a verb was refused; empty:
  // what the environment's KILIM_VHCA_EXPLAIN says, else off.
  std::string explain;
  // The device dies (IBV_EVENT_DEVICE_FATAL) at this send request, counted from 1; 0: never.
  uint64_t fatal_at = 0;
  // Send requests that fail by themselves, "wqe@N" or "wqe@N+M" (vhca/core/request_faults.hh);
  // empty: none.
  std::string failing;

  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

}  // namespace kilim::inline v1
