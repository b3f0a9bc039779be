// SPDX-License-Identifier: BSD-3-Clause
// A private network namespace with a veth pair, for tests of packet sockets. Needs root; one
// process, one namespace, gone with it.
#pragma once

#include <cstdlib>
#include <string>

#include <sched.h>
#include <unistd.h>

namespace kilim::test {

inline constexpr int skipped = 77;

inline bool command(const std::string& line) {
  return std::system((line + " >/dev/null 2>&1").c_str()) == 0;
}

// Enters a namespace with va <-> vb, both up, without IPv6's own chatter. False: not allowed here.
inline bool enter_namespace_with_veth() {
  if (unshare(CLONE_NEWNET) != 0) return false;
  return command("ip link add name va type veth peer name vb") &&
         command(
             "sysctl -qw net.ipv6.conf.va.disable_ipv6=1 net.ipv6.conf.vb.disable_ipv6=1 || "
             "for i in va vb; do echo 1 > /proc/sys/net/ipv6/conf/$i/disable_ipv6; done") &&
         command("ip link set va arp off up") && command("ip link set vb arp off up");
}

}  // namespace kilim::test
