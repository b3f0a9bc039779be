// SPDX-License-Identifier: BSD-3-Clause
// Who an adapter is to others, as sysfs shows it: node GUID, and GIDs of port 1. The files say what
// ioctls answer: before a process opens the device what is known then, afterwards what its adapter
// has become on the wire. Owner: who makes the tree; then the process that opened the device last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vhca/entry/config.hh"
#include "vhca/hca/hca.hh"

namespace kilim::vhca::entry {

struct Identity {
  uint64_t guid = 0;
  std::vector<Gid> gids;  // without holes
  bool operator==(const Identity&) const = default;
};
// As configured; of the adapter as it runs.
Identity identity_of(const DeviceSpec& config);
Identity identity_of(hca::Hca& hca);

// Into the device's folder below class/infiniband, which has a port already. Whoever reads
// meanwhile finds the text of before or the new one. False: errno says why.
bool write_identity(const std::string& folder, const Identity& identity);
// In the tree, where the adapter is another than was known. Nobody is told of a tree that is gone.
void publish_identity(const DeviceConfig& device, hca::Hca& hca);

}  // namespace kilim::vhca::entry
