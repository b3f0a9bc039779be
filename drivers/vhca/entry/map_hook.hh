// SPDX-License-Identifier: BSD-3-Clause
// Keeps the calls of mmap() that libmlx5 makes with us. A program may put its own mmap() in front
// of ours after the loader has bound libmlx5: UCX overwrites the first instructions of the exported
// one
// ("bistro"), or the offset tables of all libraries ("reloc"; ucm_mmap_install in
// ucm/mmap/install.c). A doorbell page would then be a page of the descriptor's own file, which is
// empty, and the first doorbell ends with SIGBUS. So libmlx5's entry points to our function itself.
// Any thread.
#pragma once

namespace kilim::vhca::entry {

// A device was opened, so libmlx5 is loaded wherever it is used. It stays loaded from then on.
void hook_maps() noexcept;

// Before each call on a device, one of which may give out an offset to map: a few loads, as long as
// nobody has changed the entries.
void keep_maps_hooked() noexcept;

}  // namespace kilim::vhca::entry
