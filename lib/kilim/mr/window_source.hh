// SPDX-License-Identifier: BSD-3-Clause
// Who makes memory windows: as values, since making one is a command to the device. Implemented by
// the device's driver; control path only. Any thread, one at a time.
#pragma once

#include <cstdint>

#include "kilim/base/ident.hh"
#include "kilim/base/result.hh"

namespace kilim::mr {

enum class WindowType : uint8_t {
  type1 = 1,  // of its protection domain; may be bound anew while it is bound
  type2 = 2,  // 2B: of the queue pair that binds it; invalidated before it is bound again
};

class WindowSource {
 public:
  virtual ~WindowSource() = default;
  // A window that shows nothing yet: its key. EOPNOTSUPP: the device has none of this type.
  virtual Result<Rkey> create_window(WindowType type) = 0;
  // By its key, whatever the tag is now: what a peer still asks of it fails. EINVAL: no such
  // window.
  virtual Status destroy_window(Rkey key) = 0;
};

}  // namespace kilim::mr
