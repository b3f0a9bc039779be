// SPDX-License-Identifier: BSD-3-Clause
// Memory that requests pin, by page, counted for the whole process and held against its limit on
// locked memory (RLIMIT_MEMLOCK), as the kernel counts an ib_umem. Owner: the object whose memory
// it is. Any thread. Never touches the memory.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kilim/detail/base/ident.hh"

namespace kilim::vhca::uverbs {

// The pages of one range. Gives them back when it goes.
class Pin {
 public:
  Pin() = default;
  Pin(Pin&& o) noexcept : pages_(std::exchange(o.pages_, 0)) {}
  Pin& operator=(Pin&& o) noexcept {
    std::swap(pages_, o.pages_);
    return *this;
  }
  ~Pin();

  // Of one that holds nothing yet. 0; -EPERM: nothing may be locked; -ENOMEM: not so much; -EINVAL:
  // the range wraps. Who has CAP_IPC_LOCK is not limited.
  int take(Va start, uint64_t bytes) noexcept;

 private:
  uint64_t pages_ = 0;
};

// Doorbell records lie many to a page: a page counts once for each open of the device. Adapter's
// lock held.
class RecordPages {
 public:
  int share(Va record, std::shared_ptr<Pin>& pin);

 private:
  struct Page {
    uint64_t number;
    std::weak_ptr<Pin> pin;
  };
  std::vector<Page> pages_;
};

// What a queue pins.
struct QueuePins {
  Pin ring, send_ring;
  std::shared_ptr<Pin> record;

  struct Ring {
    Va start;
    uint64_t bytes = 0;
  };
  // As take().
  int take(RecordPages&, const Ring& ring, const Ring& send_ring, Va record);
};

}  // namespace kilim::vhca::uverbs
