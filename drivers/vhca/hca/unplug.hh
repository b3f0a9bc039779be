// SPDX-License-Identifier: BSD-3-Clause
// What an adapter that nobody will open again gives back: its wires, with their descriptors and
// their places, and its clock's descriptor. Adapter's lock held; nobody waits on the wires
// meanwhile.
#pragma once

namespace kilim::vhca::hca {

struct Hca;

// Its ports have no wire from now on, as those of an adapter that never had one. False: queue pairs
// are left, so nothing was done.
bool unplug(Hca&) noexcept;

}  // namespace kilim::vhca::hca
