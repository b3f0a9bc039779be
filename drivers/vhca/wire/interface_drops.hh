// SPDX-License-Identifier: BSD-3-Clause
// What a network interface of this machine has dropped of the frames that its kernel sends by it,
// since this was made: asked by RTM_GETLINK of rtnetlink(7), which needs no rights and no sysfs. A
// TAP counts there what finds its queue full (Linux, drivers/net/tun.c, tun_net_xmit()). Owner: the
// wire; adapter's lock held. Control path: the kernel copies all that it knows of the interface.
#pragma once

#include <cstdint>

#include "vhca/core/own_fd.hh"

namespace kilim::vhca::wire {

class InterfaceDrops {
 public:
  explicit InterfaceDrops(uint32_t index) noexcept;
  // Frames so far; what was known before, where the kernel does not answer.
  uint64_t read() noexcept;

 private:
  // Since the interface was made; false: no answer.
  bool ask(uint64_t& dropped) noexcept;

  OwnFd socket_;
  uint32_t index_;
  uint64_t base_ = 0, known_ = 0;
};

}  // namespace kilim::vhca::wire
