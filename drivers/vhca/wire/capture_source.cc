// SPDX-License-Identifier: BSD-3-Clause
// Formats: "PCAP Capture File Format" (draft-ietf-opsawg-pcap) and "PCAP Next Generation Capture
// File Format" (draft-ietf-opsawg-pcapng).
#include "vhca/wire/capture_source.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kilim/detail/base/be.hh"

namespace kilim::vhca::wire {

namespace {

constexpr uint32_t magic_micro = 0xa1b2c3d4, magic_nano = 0xa1b23c4d;
constexpr uint32_t link_ethernet = 1, link_mask = 0xffff;
constexpr std::size_t file_header = 24, record_header = 16;  // bytes
// Blocks of pcapng: type, bytes of all, ..., bytes of all once more.
constexpr uint32_t section_block = 0x0a0d0d0a, interface_block = 1, old_packet_block = 2,
                   simple_block = 3, packet_block = 6;
constexpr uint32_t order_magic = 0x1a2b3c4d;
constexpr std::size_t block_head = 8, block_around = 12;
constexpr std::size_t section_bytes = 28, interface_bytes = 20, packet_head = 28, simple_head = 12;
constexpr std::size_t most_interfaces = 4096;
constexpr uint32_t longest_record = 1u << 18;  // bytes of a frame: what tcpdump takes at most
constexpr uint32_t longest_block = 1u << 24;   // as libpcap (sf-pcapng.c, MAX_BLOCKSIZE)
constexpr std::size_t buffer_bytes = 1u << 16;

}  // namespace

Status CaptureSource::open(std::string_view path, std::size_t longest) {
  in_ = OwnFd(Fd(::open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)));
  if (!in_) return Error{errno, "pcap: IN cannot be opened"};
  struct stat st;
  if (fstat(in_.get(), &st) != 0 || !S_ISREG(st.st_mode))
    return Error{EINVAL, "pcap: IN is not a regular file"};
  longest_ = longest;
  buffer_.resize(buffer_bytes);
  ended_ = false;
  if (!fill(file_header)) return Error{EINVAL, "pcap: IN is too short for a capture file"};
  const bool next = number(0) == section_block;  // the same in both byte orders
  if (Status s = next ? open_next_generation() : open_classic(); !s) return s;
  mark();
  return Done{};
}

Status CaptureSource::open_classic() {
  for (bool swapped : {false, true}) {
    section_.swapped = swapped;
    if (number(0) == magic_micro || number(0) == magic_nano) break;
  }
  if (number(0) != magic_micro && number(0) != magic_nano)
    return Error{EINVAL, "pcap: IN is neither a pcap nor a pcapng file"};
  if (half(4) != 2) return Error{EINVAL, "pcap: IN has a version other than 2"};
  if ((number(20) & link_mask) != link_ethernet)
    return Error{EINVAL, "pcap: IN does not hold Ethernet frames"};
  begin_ += file_header;
  return Done{};
}

// A section's interfaces come in front of its packets, in most files at once.
Status CaptureSource::open_next_generation() {
  section_.format = Format::next_generation;
  section_.links.reserve(most_interfaces);
  section_.snaps.reserve(most_interfaces);
  Record r;
  if (!find_block(r)) return Error{EINVAL, "pcap: IN begins like a pcapng file and is none"};
  pass(r);
  if (fill(block_head + 2) && number(0) == interface_block && half(block_head) != link_ethernet)
    return Error{EINVAL, "pcap: IN does not hold Ethernet frames"};
  return Done{};
}

bool CaptureSource::find_classic(Record& r) noexcept {
  if (!fill(record_header)) return false;
  r.captured = number(8);
  r.original = number(12);
  r.head = record_header;
  r.bytes = record_header + uint64_t{r.captured};
  r.is_packet = true;
  return r.captured <= longest_record;
}

// The byte order of a section, and its version.
bool CaptureSource::read_section() noexcept {
  for (bool swapped : {false, true}) {
    section_.swapped = swapped;
    if (number(block_head) != order_magic) continue;
    section_.number++;
    section_.links.clear();
    section_.snaps.clear();
    const uint32_t bytes = number(4);
    return half(12) == 1 && bytes >= section_bytes && bytes % 4 == 0 && bytes <= longest_block;
  }
  return false;
}

void CaptureSource::read_interface(uint32_t bytes) noexcept {
  if (bytes < interface_bytes || section_.links.size() == most_interfaces) return;
  section_.links.push_back(half(block_head));
  section_.snaps.push_back(number(12));
}

void CaptureSource::read_packet(Record& r, uint32_t type, uint32_t bytes) const noexcept {
  const bool simple = type == simple_block;
  r.head = simple ? simple_head : packet_head;
  if (bytes < r.head + 4) return;
  const auto room = static_cast<uint32_t>(bytes - r.head - 4);
  const uint32_t which = simple ? 0 : type == packet_block ? number(8) : half(8);
  const bool known = which < section_.links.size();
  if (simple) {
    const uint32_t snap = known && section_.snaps[0] != 0 ? section_.snaps[0] : ~0u;
    r.original = number(8);
    r.captured = std::min({r.original, snap, room});
  } else {
    r.captured = number(20);
    r.original = number(24);
  }
  r.is_packet = known && section_.links[which] == link_ethernet && r.captured <= room;
  r.is_other = !r.is_packet;
}

bool CaptureSource::find_block(Record& r) noexcept {
  if (!fill(block_around)) return false;
  const uint32_t type = number(0);
  if (type == section_block && !read_section()) return false;
  const uint32_t bytes = number(4);
  if (bytes < block_around || bytes % 4 != 0 || bytes > longest_block) return false;
  r.bytes = bytes;
  const bool packet = type == packet_block || type == old_packet_block || type == simple_block;
  if (!packet && type != interface_block) return true;
  if (!fill(std::min<std::size_t>(bytes, packet_head))) return false;
  if (packet)
    read_packet(r, type, bytes);
  else
    read_interface(bytes);
  return true;
}

bool CaptureSource::find_record(Record& r, bool& cut) noexcept {
  const bool found = section_.format == Format::classic ? find_classic(r) : find_block(r);
  cut = !found && end_ > begin_;
  return found;
}

void CaptureSource::pass(const Record& r) noexcept {
  skip(r.bytes);
  counted_to_ = std::max(counted_to_, position());
}

std::span<const std::byte> CaptureSource::peek(WireCounters& counters) noexcept {
  while (!ended_ && shown_.bytes == 0) {
    Record r;
    bool cut = false;
    if (!find_record(r, cut)) {
      if (cut) count(counters.rx_malformed);
      ended_ = true;
      break;
    }
    const bool fits = r.captured >= ether_header_bytes && r.captured <= longest_;
    if (r.is_packet && fits && !fill(r.head + r.captured)) {
      count(counters.rx_malformed);
      ended_ = true;
      break;
    }
    if (r.is_packet && fits) {
      shown_ = r;
      break;
    }
    if (r.is_other) count(counters.rx_malformed);
    if (r.is_packet) count(r.captured > longest_ ? counters.rx_too_long : counters.rx_too_short);
    pass(r);
  }
  if (shown_.bytes == 0) return {};
  return {buffer_.data() + begin_ + shown_.head, shown_.captured};
}

void CaptureSource::drop(WireCounters& counters) noexcept {
  if (shown_.bytes == 0) return;
  if (shown_.captured < shown_.original) count(counters.rx_cut);
  pass(shown_);
  shown_ = {};
}

void CaptureSource::mark() noexcept {
  marked_at_ = position();
  marked_section_ = section_.number;
  marked_interfaces_ = section_.links.size();
}

bool CaptureSource::rewind() noexcept {
  if (!in_ || section_.number != marked_section_) return false;
  section_.links.resize(marked_interfaces_);
  section_.snaps.resize(marked_interfaces_);
  begin_ = end_ = 0;
  read_to_ = marked_at_;
  shown_ = {};
  ended_ = false;
  return true;
}

uint32_t CaptureSource::number(std::size_t at) const noexcept {
  uint32_t v;
  std::memcpy(&v, buffer_.data() + begin_ + at, sizeof(v));
  return section_.swapped ? swap_bytes(v) : v;
}

uint16_t CaptureSource::half(std::size_t at) const noexcept {
  uint16_t v;
  std::memcpy(&v, buffer_.data() + begin_ + at, sizeof(v));
  return section_.swapped ? swap_bytes(v) : v;
}

// Makes `bytes` bytes stand in the buffer; false: the file ends before.
bool CaptureSource::fill(std::size_t bytes) noexcept {
  if (end_ - begin_ >= bytes) return true;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  while (end_ < bytes) {
    const ssize_t n = ::pread(in_.get(), buffer_.data() + end_, buffer_.size() - end_,
                              static_cast<off_t>(read_to_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    end_ += static_cast<std::size_t>(n);
    read_to_ += static_cast<uint64_t>(n);
  }
  return true;
}

// Passes over bytes that may be more than the buffer holds. Where the file ends in them it has
// ended.
void CaptureSource::skip(uint64_t bytes) noexcept {
  while (bytes > 0) {
    const auto n = static_cast<std::size_t>(std::min<uint64_t>(bytes, buffer_bytes / 2));
    if (!fill(n)) {
      ended_ = true;
      return;
    }
    begin_ += n;
    bytes -= n;
  }
}

}  // namespace kilim::vhca::wire
