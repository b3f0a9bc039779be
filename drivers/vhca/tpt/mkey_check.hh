// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_MKEY", "Memory Key Context". What firmware objects to in a key that a client makes
// by command. The context is untrusted. Pure, any thread.
#pragma once

#include <cstddef>
#include <span>

#include "kilim/prm/mkc.hh"
#include "vhca/core/profile.hh"

namespace kilim::vhca::tpt {

// Null: nothing to object to. `list`: the key's first entries, which come with the command.
const char* mkey_objection(const prm::Mkc&, std::span<const std::byte> list,
                           const Profile&) noexcept;

}  // namespace kilim::vhca::tpt
