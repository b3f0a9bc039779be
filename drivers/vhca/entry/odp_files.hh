// SPDX-License-Identifier: BSD-3-Clause
// The statistics of on-demand paging as files of a device's part of the tree, at the paths that the
// vendor's documents name: class/infiniband_verbs/uverbsN/ and
// kernel/debug/mlx5/<pci-dev-id>/odp_stats/. Text of fixed width, mapped by every process that uses
// the device and updated in place. Set-up calls, one thread at a time.
#pragma once

#include <string>

#include "vhca/entry/config.hh"

namespace kilim::vhca::hca {
struct Hca;
}  // namespace kilim::vhca::hca

namespace kilim::vhca::entry {

class MappedFiles;

namespace odp_files {

// Under `tree`, whose owner keeps the files; false with errno set.
bool write(MappedFiles&, const std::string& tree, const DeviceConfig&);
void remove(MappedFiles&, const std::string& tree, const DeviceConfig&) noexcept;

// From now on the adapter counts there. Where the files are missing it counts for itself.
void connect(hca::Hca&, const std::string& tree, const DeviceConfig&);

}  // namespace odp_files

}  // namespace kilim::vhca::entry
