// SPDX-License-Identifier: BSD-3-Clause
#include "vhca/hca/unplug.hh"

#include <memory>

#include "vhca/hca/hca.hh"

namespace kilim::vhca::hca {

// All that points to a wire lets go of it before it is closed; the ports stay as many.
bool unplug(Hca& h) noexcept {
  if (h.roce.qps->count() != 0) return false;
  for (auto& port : h.eth.ports) {
    port.wire = nullptr;
    port.steering.use_netdev(nullptr);
    port.netdev.reset();
  }
  for (wire::Wire*& wire : h.roce.wires) wire = nullptr;
  for (transport::LastAck& farewell : h.roce.last_acks) {
    farewell.wire = nullptr;
    farewell.left = 0;
  }
  h.roce.goodbyes = 0;
  h.roce.full = nullptr;
  h.roce.full_until_ns = 0;
  for (std::unique_ptr<wire::Wire>& wire : h.config.wires) wire.reset();
  h.clock.show_no_more();
  return true;
}

}  // namespace kilim::vhca::hca
