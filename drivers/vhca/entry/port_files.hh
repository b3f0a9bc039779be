// SPDX-License-Identifier: BSD-3-Clause
// The counters of a port that programs read in the kernel's hw_counters: out_of_buffer, frames that
// found no receive request, which DPDK's mlx5 driver shows as imissed (mlx5_os_read_dev_stat), and
// what the port lost elsewhere, by cause (core/port_counters.hh), and what queues have asked,
// repeated and refused (core/transport_counts.hh). Texts of fixed width at ports/1/hw_counters/,
// mapped by every process that uses the device. Set-up calls, one thread at a time.
#pragma once

#include <string>

#include "vhca/entry/config.hh"

namespace kilim::vhca::hca {
struct Hca;
}  // namespace kilim::vhca::hca

namespace kilim::vhca::entry {

class MappedFiles;

namespace port_files {

// Under `tree`, where the device's folders are and whose owner keeps the files; false with errno
// set.
bool write(MappedFiles&, const std::string& tree, const DeviceConfig&);
void remove(MappedFiles&, const std::string& tree, const DeviceConfig&) noexcept;

// From now on the adapter counts there too. Where the files are missing it counts for itself.
void connect(hca::Hca&, const std::string& tree, const DeviceConfig&);

}  // namespace port_files

}  // namespace kilim::vhca::entry
