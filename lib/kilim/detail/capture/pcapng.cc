// SPDX-License-Identifier: BSD-3-Clause
// Block and option numbers are those of the draft's sections 4.1 to 4.6. The file has this
// machine's byte order, which its first block says.
#include "kilim/detail/capture/pcapng.hh"

#include <cerrno>
#include <cstring>
#include <string>

#include "kilim/version.h"

namespace kilim::inline v1::capture {
namespace {

constexpr uint32_t section_header = 0x0a0d0d0a, interface_description = 1, interface_statistics = 5,
                   enhanced_packet = 6;
constexpr uint32_t byte_order = 0x1a2b3c4d;
constexpr uint16_t ethernet = 1;
constexpr uint16_t opt_end = 0, shb_userappl = 4, if_name = 2, if_tsresol = 9, epb_flags = 2,
                   epb_queue = 6, isb_ifrecv = 4, isb_ifdrop = 5;
constexpr uint8_t nanoseconds = 9;  // 10^-9

// A block under construction; its length is written by bytes().
class Block {
 public:
  explicit Block(uint32_t type) { put(type), put(uint32_t{0}); }
  template <typename T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_padded(const void* data, std::size_t n) {
    bytes_.append(static_cast<const char*>(data), n);
    bytes_.append((4 - n % 4) % 4, '\0');
  }
  void option(uint16_t code, const void* data, std::size_t n) {
    put(code), put(static_cast<uint16_t>(n));
    put_padded(data, n);
  }
  template <typename T>
  void option(uint16_t code, T value) {
    option(code, &value, sizeof value);
  }
  const std::string& bytes() {
    put(opt_end), put(uint16_t{0});
    const auto length = static_cast<uint32_t>(bytes_.size() + sizeof(uint32_t));
    put(length);
    std::memcpy(bytes_.data() + sizeof(uint32_t), &length, sizeof length);
    return bytes_;
  }

 private:
  std::string bytes_;
};

uint32_t high(uint64_t v) noexcept {
  return static_cast<uint32_t>(v >> 32);
}
uint32_t low(uint64_t v) noexcept {
  return static_cast<uint32_t>(v);
}

}  // namespace

Result<PcapngFile> PcapngFile::create(const std::string& path, const std::string& interface,
                                      uint32_t snap_bytes) {
  Result<Outlet> outlet = Outlet::open(path);
  if (!outlet) return outlet.error();
  PcapngFile file(*std::move(outlet));
  Block section(section_header);
  section.put(byte_order), section.put(uint16_t{1}), section.put(uint16_t{0});  // version 1.0
  section.put(UINT64_MAX);  // the section's length is not said
  const std::string program = std::string("kilim ") + kilim_version();
  section.option(shb_userappl, program.data(), program.size());
  Block of_port(interface_description);
  of_port.put(ethernet), of_port.put(uint16_t{0}), of_port.put(snap_bytes);
  of_port.option(if_name, interface.data(), interface.size());
  of_port.option(if_tsresol, nanoseconds);
  for (Block* b : {&section, &of_port}) {
    const std::string& bytes = b->bytes();
    (void)file.outlet_.write(bytes.data(), bytes.size());
  }
  if (!file.flush()) return Error{errno, "the capture's file takes no bytes"};
  return file;
}

// The head and the tail are of one size, so nothing is allocated for a packet.
bool PcapngFile::add(const PacketInfo& info, std::span<const std::byte> bytes) noexcept {
  struct Head {
    uint32_t type, length, interface, time_high, time_low, captured, whole;
  };
  struct Tail {
    uint16_t flags_code, flags_bytes;
    uint32_t flags;
    uint16_t queue_code, queue_bytes;
    uint32_t queue;
    uint16_t end_code, end_bytes;
    uint32_t length;
  };
  constexpr std::byte zeros[4]{};
  const std::size_t padding = (4 - bytes.size() % 4) % 4;
  const auto length = static_cast<uint32_t>(sizeof(Head) + bytes.size() + padding + sizeof(Tail));
  const Head head{enhanced_packet, length,       0,
                  high(info.ns),   low(info.ns), static_cast<uint32_t>(bytes.size()),
                  info.whole_bytes};
  const Tail tail{epb_flags, 4, static_cast<uint32_t>(info.direction),
                  epb_queue, 4, info.queue,
                  opt_end,   0, length};
  return outlet_.write(&head, sizeof head) && outlet_.write(bytes.data(), bytes.size()) &&
         outlet_.write(zeros, padding) && outlet_.write(&tail, sizeof tail);
}

bool PcapngFile::end(uint64_t seen, uint64_t dropped, uint64_t ns) noexcept {
  if (!std::exchange(open_, false)) return false;
  Block b(interface_statistics);
  b.put(uint32_t{0}), b.put(high(ns)), b.put(low(ns));
  b.option(isb_ifrecv, seen), b.option(isb_ifdrop, dropped);
  const std::string& bytes = b.bytes();
  const bool written = outlet_.write(bytes.data(), bytes.size());
  return outlet_.close() && written;
}

}  // namespace kilim::inline v1::capture
