// SPDX-License-Identifier: BSD-3-Clause
// Frames out of a capture file, one after the other: classic pcap in either byte order, with micro-
// or nanoseconds, and pcapng. A file is untrusted: a record that is no frame is counted by its
// cause and passed over, one that makes no sense ends the file. A frame that was cut when it was
// captured is replayed with the bytes that are there, as libpcap's readers do. Owner: a wire;
// adapter's lock held. Reading files may wait for the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "vhca/core/own_fd.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::wire {

class CaptureSource {
 public:
  // Frames have at most `longest` bytes. EINVAL: no capture of Ethernet frames.
  Status open(std::string_view path, std::size_t longest);
  // The next frame, where it stays until drop(); empty: none is left.
  std::span<const std::byte> peek(WireCounters&) noexcept;
  // Removes the frame that peek() showed.
  void drop(WireCounters&) noexcept;
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  [[nodiscard]] int fd() const noexcept { return in_.get(); }
  // From here on frames may be read once more: rewind() goes back. What was counted stays counted.
  // False: the file has come to another section since, whose interfaces are others.
  void mark() noexcept;
  bool rewind() noexcept;

 private:
  enum class Format : uint8_t { classic, next_generation };
  // How numbers of the file are read, and what its interfaces are: 1 is Ethernet.
  struct Section {
    Format format = Format::classic;
    bool swapped = false;  // written on a machine of the other byte order
    uint32_t number = 0;   // in the file
    std::vector<uint16_t> links;
    std::vector<uint32_t> snaps;
  };
  // A record of the file, or another block of it.
  struct Record {
    uint64_t bytes = 0;      // all of it
    std::size_t head = 0;    // in front of the frame
    uint32_t captured = 0;   // bytes of the frame in the file
    uint32_t original = 0;   // that it had
    bool is_packet = false;  // of an Ethernet interface
    bool is_other = false;   // a packet of another one
  };
  Status open_classic();
  Status open_next_generation();
  // False: the file ends, or makes no sense; `cut`: with something left.
  bool find_record(Record&, bool& cut) noexcept;
  bool find_classic(Record&) noexcept;
  bool find_block(Record&) noexcept;
  bool read_section() noexcept;
  void read_interface(uint32_t bytes) noexcept;
  void read_packet(Record&, uint32_t type, uint32_t bytes) const noexcept;
  // Counts what was not read before a rewind().
  void count(uint64_t& counter) noexcept { counter += position() >= counted_to_; }
  void pass(const Record&) noexcept;
  [[nodiscard]] uint64_t position() const noexcept { return read_to_ - (end_ - begin_); }

  bool fill(std::size_t bytes) noexcept;
  void skip(uint64_t bytes) noexcept;
  // The number at this place behind begin_, in our byte order.
  [[nodiscard]] uint32_t number(std::size_t at) const noexcept;
  [[nodiscard]] uint16_t half(std::size_t at) const noexcept;

  OwnFd in_;
  std::size_t longest_ = 0;
  bool ended_ = true;
  Section section_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // what of the buffer is read and not consumed
  uint64_t read_to_ = 0;             // of the file, up to end_
  uint64_t marked_at_ = 0;
  uint32_t marked_section_ = 0;
  std::size_t marked_interfaces_ = 0;
  uint64_t counted_to_ = 0;  // records in front of it are counted
  Record shown_;             // that peek() shows; of 0 bytes: none
};

}  // namespace kilim::vhca::wire
