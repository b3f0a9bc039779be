// SPDX-License-Identifier: BSD-3-Clause
// Writer of classic pcap files. Format: "PCAP Capture File Format" (draft-ietf-opsawg-pcap).
#include "vhca/wire/pcap.hh"

#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

namespace kilim::vhca::wire {

namespace {

constexpr uint32_t magic_nano = 0xa1b23c4d;
constexpr uint32_t link_ethernet = 1;
constexpr std::size_t file_header = 24, record_header = 16;  // bytes
constexpr uint32_t longest_record = 1u << 18;                // what tcpdump takes at most

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
    if (Status s = wire->source_.open(in, max_frame(pcap_mtu)); !s) return s.error();
  }
  if (!out.empty()) {
    if (Status s = wire->open_out(out); !s) return s.error();
  }
  return std::unique_ptr<Wire>(std::move(wire));
}

Status PcapWire::open_out(std::string_view path) {
  out_ =
      OwnFd(Fd(open(std::string(path).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666)));
  if (!out_) return Error{errno, "pcap: OUT cannot be opened for writing"};
  if (source_.fd() >= 0 && same_file(source_.fd(), out_.get())) {
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
  if (!out_.ours()) {  // the number is a file of the program's own by now
    counters_.tx_lost++;
    return Sent::taken;
  }
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

std::span<const std::byte> PcapWire::peek() noexcept {
  return source_.peek(counters_);
}

void PcapWire::drop() noexcept {
  const std::size_t bytes = peek().size();
  if (bytes == 0) return;
  counters_.rx_frames++;
  counters_.rx_bytes += bytes;
  source_.drop(counters_);
}

}  // namespace kilim::vhca::wire
