// SPDX-License-Identifier: BSD-3-Clause
// Makes calls of libibverbs, libmlx5 and libnl-3 ours, in a process that attached a device itself.
// Owner: attach.cc, under its lock.
#pragma once

#include "kilim/detail/base/result.hh"

namespace kilim::vhca::entry {

// Loads the libraries that are not there yet, and changes their GOT entries. Again after another
// one: what has been redirected stays so. ENOENT: one of them cannot be loaded; EPERM: its GOT
// cannot be written.
Status redirect_libraries();

// The calls by descriptor that librdmacm makes, if it is loaded. Under the launcher too: write()
// has no name of ours in front there.
void redirect_rdmacm() noexcept;

}  // namespace kilim::vhca::entry
