// SPDX-License-Identifier: BSD-3-Clause
// Writes packets to a file of the format pcapng (IETF draft-ietf-opsawg-pcapng: section header,
// interface description, enhanced packet and interface statistics blocks), which Wireshark, tshark
// and libpcap read. One interface of Ethernet frames, nanoseconds. Owner: one thread; waits for a
// pipe's reader as outlet.hh says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/capture/outlet.hh"

namespace kilim::inline v1::capture {

enum class Direction : uint8_t { received = 1, sent = 2 };  // as epb_flags numbers them

struct PacketInfo {
  uint64_t ns = 0;           // since 1970
  uint32_t whole_bytes = 0;  // of the packet; what is written may be less
  uint32_t queue = 0;
  Direction direction = Direction::received;
};

class PcapngFile {
 public:
  // Makes the file, or empties it. The error of Outlet::open().
  static Result<PcapngFile> create(const std::string& path, const std::string& interface,
                                   uint32_t snap_bytes);

  // False: the file takes no more, and nothing further is written.
  bool add(const PacketInfo& info, std::span<const std::byte> bytes) noexcept;
  // What was seen and what is missing, at the end; then closes the file. False: something is not
  // in the file.
  bool end(uint64_t seen, uint64_t dropped, uint64_t ns) noexcept;
  bool flush() noexcept { return outlet_.flush(); }
  // Called by another thread: lets the writer end soon, whether the pipe is read or not.
  void begin_to_end() noexcept { outlet_.begin_to_end(); }

 private:
  explicit PcapngFile(Outlet outlet) noexcept : outlet_(std::move(outlet)) {}

  Outlet outlet_;
  bool open_ = true;
};

}  // namespace kilim::inline v1::capture
