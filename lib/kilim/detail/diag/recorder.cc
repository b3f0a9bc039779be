// SPDX-License-Identifier: BSD-3-Clause
// The file is mapped whole, so that what a process has written stays in it if the process dies, and
// all of it is there before: a doorbell that finds a full disk would end the process by SIGBUS.
#include "kilim/detail/diag/recorder.hh"

#include <cerrno>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/base/units.hh"

namespace kilim::inline v1::diag {

Result<std::unique_ptr<Recorder>> Recorder::open(const char* path, std::size_t bytes,
                                                 uint32_t lcore, prm::lint::QueueKind kind) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (bytes < sizeof(RecordingHead) + sizeof(DoorbellRecord) + wqebb_bytes)
    return Error{EINVAL, "a recording has room for one doorbell at least"};
  Fd file{::open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (!file) return Error{errno, "the recording's file cannot be made"};
  if (const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0) {
    (void)!::ftruncate(file.get(), 0);  // what there was room for goes back
    return Error{error, "the recording's file cannot be made that long"};
  }
  void* map = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (map == MAP_FAILED) return Error{errno, "the recording's file cannot be mapped"};
  std::unique_ptr<Recorder> r(new Recorder);
  r->doorbell = &Recorder::on_doorbell;
  r->map_ = static_cast<std::byte*>(map);
  r->bytes_ = bytes;
  r->lcore_ = lcore;
  r->kind_ = static_cast<uint8_t>(kind);
  new (map) RecordingHead;
  return r;
}

Recorder::~Recorder() {
  if (map_ != nullptr) ::munmap(map_, bytes_);
}

void Recorder::on_doorbell(queue::Watch& self, const queue::SqGeometry& sq, uint32_t first,
                           uint32_t end) noexcept {
  auto& r = static_cast<Recorder&>(self);
  RecordingHead& head = r.head();
  const uint32_t blocks = end - first;
  const std::size_t wanted = sizeof(DoorbellRecord) + std::size_t{blocks} * wqebb_bytes;
  if (r.bytes_ - head.used < wanted) {
    head.lost++;
    return;
  }
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  DoorbellRecord record;
  record.wqebbs = blocks;
  record.qpn = sq.qpn.value();
  record.time_ns =
      static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
  record.first = first & 0xffff;
  record.lcore = r.lcore_;
  record.kind = r.kind_;
  std::byte* to = r.map_ + head.used;
  std::memcpy(to, &record, sizeof(record));
  to += sizeof(record);
  for (uint32_t i = 0; i < blocks; i++, to += wqebb_bytes) {
    const std::size_t slot = (first + i) & (sq.wqebb_count - 1);
    std::memcpy(to, sq.buf + slot * wqebb_bytes, wqebb_bytes);
  }
  head.used += wanted;
}

}  // namespace kilim::inline v1::diag
