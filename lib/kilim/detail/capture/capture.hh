// SPDX-License-Identifier: BSD-3-Clause
// Capture: writes the packets of a port to a pcapng file while workers forward. A worker copies
// each packet into a record and hands that over by a ring; a thread of the capture's own writes.
// Where records are short the packet is not written and counted: nobody waits for the file. Owner:
// the control lcore; the port outlives it. A port without a capture does nothing for it
// (port/tap.hh).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <pthread.h>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/capture/pcapng.hh"
#include "kilim/detail/port/port.hh"

struct rte_ring;

namespace kilim::inline v1::capture {

struct CaptureConfig {
  std::string file;
  uint32_t snap_bytes = 9216;  // of a packet, at most; what is longer is cut. 64 to 65535
  uint32_t records = 2048;     // packets between workers and file, 64 to 65536
  worker::Quiescence* workers = nullptr;  // of who serves the port; null: the caller itself
};

struct CaptureStats {
  uint64_t written = 0;  // packets in the file, or on their way into it
  uint64_t dropped = 0;  // packets that are not: no record was free, or the file took no more
  bool failed = false;   // the file takes no more
  [[nodiscard]] bool whole() const noexcept { return dropped == 0 && !failed; }
};

class Capture {
 public:
  // Begins. EINVAL: sizes out of range; EBUSY: the port has a capture; ENOMEM; or the error of the
  // file.
  static Result<std::unique_ptr<Capture>> start(port::Port& port, const CaptureConfig& config);
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  // Ends it, if stop() has not.
  ~Capture();

  // Who serves the port from now on, as CaptureConfig::workers.
  void set_workers(worker::Quiescence* workers) noexcept { config_.workers = workers; }
  // Ends: when it returns the file is complete; a pipe that is not read costs a second. ETIMEDOUT:
  // a worker is stuck in a burst, and the capture goes on until it is asked again; EIO: something
  // is missing in the file.
  Status stop();
  // Any thread.
  [[nodiscard]] CaptureStats stats() const noexcept;
  [[nodiscard]] const std::string& file() const noexcept { return config_.file; }
  [[nodiscard]] port::Port& port() const noexcept { return port_; }

 private:
  struct Record;
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  using Ring = std::unique_ptr<rte_ring, Free>;

  Capture(port::Port& port, const CaptureConfig& config, PcapngFile file)
      : port_(port), config_(config), file_(std::move(file)) {}
  Status make();
  static Result<Ring> make_ring(uint32_t entries);
  void take(uint32_t queue, Direction direction, std::span<const pool::Handle> packets) noexcept;
  void fill(Record& record, std::span<const pool::Handle> packet) const noexcept;
  void write_all() noexcept;
  uint32_t write_some() noexcept;
  [[nodiscard]] uint64_t ns_of(uint64_t tsc) const noexcept;

  port::Port& port_;
  CaptureConfig config_;
  PcapngFile file_;  // the writer's
  port::Tap tap_;
  std::vector<std::byte> memory_;  // the records'
  Ring free_, full_;
  uint64_t began_tsc_ = 0, began_ns_ = 0;
  pthread_t writer_{};
  bool running_ = false;
  bool tapped_ = false;
  std::atomic<bool> ending_{false}, failed_{false};
  std::atomic<uint64_t> taken_{0}, dropped_{0};
};

// "PORT:FILE" of a command line: a port's number or name, and a file. EINVAL, ENODEV with a
// sentence.
struct PortFile {
  port::Port* port = nullptr;
  std::string file;
};
Result<PortFile> parse_port_file(std::string_view text);

}  // namespace kilim::inline v1::capture
