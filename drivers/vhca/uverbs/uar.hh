// SPDX-License-Identifier: BSD-3-Clause
// What mmap(2) of the device finds. Adapter's lock held.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vhca/uverbs/context.hh"
#include "vhca/uverbs/device_file.hh"

namespace kilim::vhca::uverbs {

// uverbs/dm.cc: whether the offset is one of device memory, and what is there.
bool names_device_memory(const MapRequest&) noexcept;
int map_device_memory(const Context&, const MapRequest&, DeviceFile::Mapping&);

// 0 or a negative errno, as mlx5_ib's mmap.
int find_mapping(Context& context, const MapRequest& request, DeviceFile::Mapping& mapping);

}  // namespace kilim::vhca::uverbs
