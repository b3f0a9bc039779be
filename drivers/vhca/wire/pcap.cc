// SPDX-License-Identifier: BSD-3-Clause
// Reader and writer of classic pcap files. Format: "PCAP Capture File Format" (IETF opsawg draft).
#include "vhca/wire/pcap.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "kilim/base/be.hh"

namespace kilim::vhca {

namespace {

constexpr uint32_t magic_micro = 0xa1b2c3d4, magic_nano = 0xa1b23c4d;
constexpr uint32_t link_ethernet = 1, link_mask = 0xffff;
constexpr std::size_t file_header = 24, record_header = 16;  // bytes
constexpr uint32_t longest_record = 1u << 18;                // what tcpdump takes at most
constexpr std::size_t buffer_bytes = 1u << 16;

struct FileHeader {
  uint32_t magic = magic_nano;
  uint16_t major = 2, minor = 4;
  uint32_t zone = 0, accuracy = 0;  // always 0, as tcpdump writes them
  uint32_t snap = longest_record;
  uint32_t link = link_ethernet;
};
static_assert(sizeof(FileHeader) == file_header);

struct RecordHeader {
  uint32_t seconds, nanoseconds;
  uint32_t captured, original;  // bytes in the file, bytes of the frame
};
static_assert(sizeof(RecordHeader) == record_header);

bool same_file(int a, int b) noexcept {
  struct stat x, y;
  return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

}  // namespace

Result<std::unique_ptr<Wire>> PcapWire::create(std::string_view in, std::string_view out) {
  std::unique_ptr<PcapWire> wire(new PcapWire);
  if (in.empty() && out.empty()) return Error{EINVAL, "pcap: neither IN nor OUT is named"};
  if (!in.empty()) {
    if (Status s = wire->open_in(in); !s) return s.error();
  }
  if (!out.empty()) {
    if (Status s = wire->open_out(out); !s) return s.error();
  }
  return std::unique_ptr<Wire>(std::move(wire));
}

Status PcapWire::open_in(std::string_view path) {
  in_ = Fd(open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!in_) return Error{errno, "pcap: IN cannot be opened"};
  struct stat st;
  if (fstat(in_.get(), &st) != 0 || !S_ISREG(st.st_mode)) {
    return Error{EINVAL, "pcap: IN is not a regular file"};
  }
  buffer_.resize(buffer_bytes);
  ended_ = false;
  if (!fill(file_header)) return Error{EINVAL, "pcap: IN is too short for a capture file"};
  for (bool swapped : {false, true}) {
    swapped_ = swapped;
    if (number(0) == magic_micro || number(0) == magic_nano) break;
  }
  if (number(0) != magic_micro && number(0) != magic_nano) {
    return Error{EINVAL, "pcap: IN is not a classic pcap file (pcapng is not read)"};
  }
  uint16_t major;
  std::memcpy(&major, buffer_.data() + 4, sizeof(major));
  if ((swapped_ ? swap_bytes(major) : major) != 2) {
    return Error{EINVAL, "pcap: IN has a version other than 2"};
  }
  if ((number(20) & link_mask) != link_ethernet) {
    return Error{EINVAL, "pcap: IN does not hold Ethernet frames"};
  }
  begin_ += file_header;
  return Done{};
}

Status PcapWire::open_out(std::string_view path) {
  out_ = Fd(open(std::string(path).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!out_) return Error{errno, "pcap: OUT cannot be opened for writing"};
  if (in_ && same_file(in_.get(), out_.get())) {
    return Error{EINVAL, "pcap: IN and OUT are the same file"};
  }
  struct stat st;
  if (fstat(out_.get(), &st) != 0 || !(S_ISREG(st.st_mode) || S_ISCHR(st.st_mode))) {
    return Error{EINVAL, "pcap: OUT is not a regular file"};
  }
  if (S_ISREG(st.st_mode) && ftruncate(out_.get(), 0) != 0) {
    return Error{errno, "pcap: OUT cannot be cut to nothing"};
  }
  FileHeader h;
  if (write(out_.get(), &h, sizeof(h)) != static_cast<ssize_t>(sizeof(h))) {
    return Error{errno, "pcap: OUT cannot be written"};
  }
  out_at_ = sizeof(h);
  return Done{};
}

Wire::Sent PcapWire::send(std::span<const std::byte> frame) noexcept {
  if (frame.size() < ether_header_bytes || frame.size() > max_frame(pcap_mtu)) {
    counters_.tx_bad_length++;
    return Sent::refused;
  }
  counters_.tx_frames++;
  counters_.tx_bytes += frame.size();
  if (!out_) return Sent::taken;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  auto bytes = static_cast<uint32_t>(frame.size());
  RecordHeader h{static_cast<uint32_t>(now.tv_sec), static_cast<uint32_t>(now.tv_nsec), bytes,
                 bytes};
  iovec parts[2] = {{&h, sizeof(h)}, {const_cast<std::byte*>(frame.data()), frame.size()}};
  auto all = static_cast<ssize_t>(sizeof(h) + frame.size());
  if (pwritev(out_.get(), parts, 2, out_at_) == all) {
    out_at_ += all;
  } else {
    counters_.tx_lost++;  // a full disk: no half record stays behind
    (void)!ftruncate(out_.get(), out_at_);
  }
  return Sent::taken;
}

uint32_t PcapWire::number(std::size_t at) const noexcept {
  uint32_t v;
  std::memcpy(&v, buffer_.data() + begin_ + at, sizeof(v));
  return swapped_ ? swap_bytes(v) : v;
}

// Makes `bytes` bytes stand in the buffer; false: the file ends before.
bool PcapWire::fill(std::size_t bytes) noexcept {
  if (end_ - begin_ >= bytes) return true;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  while (end_ < bytes) {
    ssize_t n = read(in_.get(), buffer_.data() + end_, buffer_.size() - end_);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    end_ += static_cast<std::size_t>(n);
  }
  return true;
}

// Passes over bytes that may be more than the buffer holds.
void PcapWire::skip(std::size_t bytes) noexcept {
  while (bytes > 0) {
    std::size_t n = std::min(bytes, buffer_bytes / 2);
    if (!fill(n)) {
      ended_ = true;
      return;
    }
    begin_ += n;
    bytes -= n;
  }
}

std::span<const std::byte> PcapWire::peek() noexcept {
  constexpr std::size_t longest = max_frame(pcap_mtu);
  while (!ended_ && frame_bytes_ == 0) {
    if (!fill(record_header)) {
      counters_.rx_malformed += end_ > begin_;
      ended_ = true;
      break;
    }
    uint32_t captured = number(8), original = number(12);
    if (captured > longest_record) {
      counters_.rx_malformed++;
      ended_ = true;
      break;
    }
    // A frame that was cut when it was captured is none.
    if (captured >= ether_header_bytes && captured <= longest && captured >= original) {
      if (!fill(record_header + captured)) {
        counters_.rx_malformed++;
        ended_ = true;
        break;
      }
      frame_bytes_ = captured;
    } else {
      (captured > longest ? counters_.rx_too_long : counters_.rx_malformed)++;
      begin_ += record_header;
      skip(captured);
    }
  }
  if (frame_bytes_ == 0) return {};
  return {buffer_.data() + begin_ + record_header, frame_bytes_};
}

void PcapWire::drop() noexcept {
  if (peek().empty()) return;
  counters_.rx_frames++;
  counters_.rx_bytes += frame_bytes_;
  begin_ += record_header + frame_bytes_;
  frame_bytes_ = 0;
}

}  // namespace kilim::vhca
