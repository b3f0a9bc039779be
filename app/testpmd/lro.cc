// SPDX-License-Identifier: BSD-3-Clause
#include "lro.hh"

namespace kilim::testpmd {

std::string refusal_of_lro(const Options& o, const Engine& engine, std::span<const PortRef> ports) {
  if (!o.lro) return "";
  if (engine.gathered || engine.splits)
    return std::string("--enable-lro: mode ") + engine.name +
           " sends packets under keys, which no device divides into segments again";
  if (!o.compression.empty())
    return "--enable-lro goes with no --compress-completions: shared entries do not tell of joined "
           "segments";
  for (const PortRef& p : ports) {
    if (p.native == nullptr)
      return "--enable-lro needs ports of Kilim (net_kilimN): mbufs do not say how they divide "
             "again";
    const device::Caps& caps = p.native->device().caps();
    if (!caps.lro.supported)
      return "--enable-lro: " + name_of(p) + " has a device that joins no TCP segments";
    if (engine.receives && engine.transmits && caps.tx.max_tso == 0)
      return "--enable-lro: " + name_of(p) +
             " has a device that divides no packets (TSO), and mode " + engine.name +
             " would send joined ones, longer than frames may be";
  }
  return "";
}

}  // namespace kilim::testpmd
