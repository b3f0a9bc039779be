// SPDX-License-Identifier: BSD-3-Clause
// Recorder: writes the WQEs of send queues to a mapped file at each doorbell, until it is full. One
// for each worker; it outlives the queues that it observes. Set-up allocates; a doorbell only
// copies and reads the clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/diag/recording.hh"
#include "kilim/detail/queue/watch.hh"
#include "kilim/prm/lint.hh"

namespace kilim::inline v1::diag {

class Recorder : public queue::Watch {
 public:
  // Creates or empties the file `path` and gives it `bytes`. Every record contains `lcore` and
  // `kind`. Control thread. EINVAL: no room for one doorbell; or the errno of open(2),
  // ftruncate(2), mmap(2).
  static Result<std::unique_ptr<Recorder>> open(
      const char* path, std::size_t bytes, uint32_t lcore = 0,
      prm::lint::QueueKind kind = prm::lint::QueueKind::connected);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Doorbells that did not fit into the file.
  [[nodiscard]] uint64_t lost() const noexcept { return head().lost; }

 private:
  Recorder() = default;
  static void on_doorbell(queue::Watch&, const queue::SqGeometry&, uint32_t first,
                          uint32_t end) noexcept;
  [[nodiscard]] RecordingHead& head() const noexcept {
    return *reinterpret_cast<RecordingHead*>(map_);
  }

  std::byte* map_ = nullptr;
  std::size_t bytes_ = 0;
  uint32_t lcore_ = 0;
  uint8_t kind_ = 0;
};

}  // namespace kilim::inline v1::diag
