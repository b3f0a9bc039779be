// SPDX-License-Identifier: BSD-3-Clause
// Writes packets to a file of the format pcapng (IETF draft-ietf-opsawg-pcapng: section header,
// interface description, enhanced packet and interface statistics blocks), which Wireshark, tshark
// and libpcap read. One interface of Ethernet frames, nanoseconds. Owner: one thread; blocks as
// write(2) does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "kilim/base/result.hh"

namespace kilim::capture {

enum class Direction : uint8_t { received = 1, sent = 2 };  // as epb_flags numbers them

struct PacketInfo {
  uint64_t ns = 0;           // since 1970
  uint32_t whole_bytes = 0;  // of the packet; what is written may be less
  uint32_t queue = 0;
  Direction direction = Direction::received;
};

class PcapngFile {
 public:
  // Makes the file, or empties it. The error of open(2).
  static Result<PcapngFile> create(const std::string& path, const std::string& interface,
                                   uint32_t snap_bytes);

  // False: the file takes no more, and nothing further is written.
  bool add(const PacketInfo& info, std::span<const std::byte> bytes) noexcept;
  // What was seen and what is missing, at the end; then closes the file. False: something is not
  // in the file.
  bool end(uint64_t seen, uint64_t dropped, uint64_t ns) noexcept;
  bool flush() noexcept { return file_ != nullptr && std::fflush(file_.get()) == 0; }

 private:
  struct Close {
    void operator()(std::FILE* f) const noexcept { std::fclose(f); }
  };
  explicit PcapngFile(std::FILE* f) noexcept : file_(f) {}
  bool write(const void* bytes, std::size_t n) noexcept {
    good_ = good_ && std::fwrite(bytes, 1, n, file_.get()) == n;
    return good_;
  }

  std::unique_ptr<std::FILE, Close> file_;
  bool good_ = true;
};

}  // namespace kilim::capture
