// SPDX-License-Identifier: BSD-3-Clause
// WindowSource: creates and destroys memory windows, each by a command to the device. Implemented
// by the device's driver; control path only. Any thread, one at a time.
#pragma once

#include <cstdint>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/result.hh"

namespace kilim::inline v1::mr {

// The types of IBTA vol. 1, "Memory Windows"; the values are ibv_mw_type's.
enum class WindowType : uint8_t {
  type1 = 1,  // usable by its protection domain; may be bound again while bound
  type2 =
      2,  // type 2B: usable by the queue pair that bound it; must be invalidated before a new bind
};

class WindowSource {
 public:
  virtual ~WindowSource() = default;
  // Creates a free window and returns its key. EOPNOTSUPP: the device has no windows of this type.
  virtual Result<Rkey> create_window(WindowType type) = 0;
  // Destroys the window with this key, whatever the tag; later accesses by peers fail. EINVAL:
  // there is no such window.
  virtual Status destroy_window(Rkey key) = 0;
};

}  // namespace kilim::inline v1::mr
