// SPDX-License-Identifier: BSD-3-Clause
// Pinned memory whose protection the client has changed since it was registered: the adapter reads
// and writes it all the same, since registration pinned the pages for it and mprotect(2) changes
// what the processor may do with them (Linux drivers/infiniband/core/umem.c, ib_umem_get(), by
// pin_user_pages_fast() with FOLL_LONGTERM). Only what the guarded copy has met a fault at comes
// here. Adapter's lock held, page lock not. Some system calls a page; never allocates.
#pragma once

#include <cstdint>

namespace kilim::vhca::tpt {

// Copy within one region like dma::copy_in() and dma::copy_out(). False: the memory is not mapped,
// or the kernel does not allow it, which is said once.
bool read_pinned(void* to, uint64_t from, uint64_t bytes) noexcept;
bool write_pinned(uint64_t to, const void* from, uint64_t bytes) noexcept;

// Copies between pinned memory, or the adapter's own. `from_is_there` says which end a failed one
// met: false, the source.
bool copy_pinned_slowly(uint64_t to, uint64_t from, uint64_t bytes, bool& from_is_there) noexcept;

// An atomic operation on an aligned word: `change` makes the new value of the old one, which is in
// `old` then. The client cannot write such memory, so nothing comes between.
template <typename Change>
bool change_pinned_word(uint64_t va, uint64_t& old, Change change) noexcept {
  if (!read_pinned(&old, va, sizeof(old))) return false;
  const uint64_t value = change(old);
  return write_pinned(va, &value, sizeof(value));
}

}  // namespace kilim::vhca::tpt
