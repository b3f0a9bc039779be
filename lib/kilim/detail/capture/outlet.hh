// SPDX-License-Identifier: BSD-3-Clause
// Outlet writes a capture's bytes to a file, or to a pipe whose reader may stop. It collects them
// and writes large pieces; the writer waits for a pipe's reader until it is told to end, and a
// second more. Owner: one thread; only begin_to_end() is another's to call. Never raises SIGPIPE.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/result.hh"

namespace kilim::inline v1::capture {

class Outlet {
 public:
  // Makes the file, or empties it. The error of open(2); ENXIO: a pipe that nobody has begun to
  // read within two seconds.
  static Result<Outlet> open(const std::string& path);

  // False: something is lost, and nothing further is written.
  bool write(const void* bytes, std::size_t n) noexcept;
  bool flush() noexcept;
  // Flushes and closes.
  bool close() noexcept;
  // From now on nobody waits longer than a second in all. Any thread.
  void begin_to_end() noexcept { ending_->store(true, std::memory_order_release); }

 private:
  explicit Outlet(Fd fd);
  bool wait_for_room() noexcept;
  bool write_out(const std::byte* from, std::size_t n) noexcept;

  Fd fd_;
  std::unique_ptr<std::byte[]> buffer_;
  std::unique_ptr<std::atomic<bool>> ending_;  // stays where it is when the outlet moves
  std::size_t used_ = 0;
  int patience_ms_;  // that is left once it ends
  bool good_ = true;
};

}  // namespace kilim::inline v1::capture
