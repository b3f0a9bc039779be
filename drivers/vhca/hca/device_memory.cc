// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ALLOC_MEMIC". Blocks are memfds, so that what a client has mapped stays where it is after
// the block was freed, and nobody else's block comes there. Adapter's lock held.
#include "vhca/hca/device_memory.hh"

#include <cerrno>
#include <new>
#include <utility>

#include <sys/mman.h>

#include "vhca/core/sealed.hh"

namespace kilim::vhca::hca {

namespace {

constexpr uint32_t log_unit = 6;

uint32_t pages_of(uint64_t bytes) noexcept {
  return static_cast<uint32_t>((bytes + DeviceMemory::page_bytes - 1) / DeviceMemory::page_bytes);
}

}  // namespace

DmBlock::DmBlock(DmBlock&& o) noexcept {
  *this = std::move(o);
}

DmBlock& DmBlock::operator=(DmBlock&& o) noexcept {
  std::swap(fd_, o.fd_);
  std::swap(pages_, o.pages_);
  std::swap(bytes_, o.bytes_);
  std::swap(offset_, o.offset_);
  std::swap(page_index_, o.page_index_);
  return *this;
}

DmBlock::~DmBlock() {
  if (!pages_.empty()) ::munmap(pages_.data(), pages_.size());
}

uint64_t DmBlock::va() const noexcept {
  return reinterpret_cast<uintptr_t>(pages_.data()) + offset_;
}

uint64_t DmBlock::device_address() const noexcept {
  return uint64_t{page_index_} * DeviceMemory::page_bytes + offset_;
}

DeviceMemory::DeviceMemory(const Profile& p, uint64_t seed)
    : capacity_(p.max_dm_size), most_alignment_(p.log_max_dm_alignment), seed_(seed) {
  entered_.set(0);
  if (capacity_ == 0) return;
  void* at =
      ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at != MAP_FAILED) counts_ = new (at) Counts;
}

DeviceMemory::~DeviceMemory() {
  if (counts_ != nullptr) ::munmap(counts_, sizeof(Counts));
}

Result<DmBlock> DeviceMemory::alloc(const Wish& w) {
  if (capacity_ == 0) return Error{EOPNOTSUPP, "the adapter has no memory of its own"};
  // A length that wraps when it is rounded up has become 0.
  const uint64_t bytes = (w.bytes + unit - 1) & ~uint64_t{unit - 1};
  const uint32_t log_units = w.log_alignment < log_unit ? 0 : w.log_alignment - log_unit;
  if (bytes == 0) return Error{EINVAL, "no bytes of device memory"};
  if (log_units > most_alignment_ - log_unit) return Error{EINVAL, "an alignment beyond the limit"};
  if (bytes > capacity_) return Error{ENOMEM, "the adapter does not have as much memory"};
  const uint32_t pages = pages_of(bytes), first = find_pages(pages);
  if (first == window_pages) return Error{ENOMEM, "the adapter's window is full"};
  if (!take(static_cast<uint32_t>(bytes), w.open))
    return Error{ENOMEM, "the adapter's memory is used up"};
  DmBlock block;
  const std::size_t mapped = std::size_t{pages} * DeviceMemory::page_bytes;
  block.fd_ = sealed_memory("vhca-dm", mapped);
  void* at = MAP_FAILED;
  if (block.fd_)
    at = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, block.fd_.get(), 0);
  if (at == MAP_FAILED) {
    give(static_cast<uint32_t>(bytes), w.open);
    return Error{ENOMEM, "no memory for device memory"};
  }
  block.pages_ = {static_cast<std::byte*>(at), mapped};
  block.bytes_ = static_cast<uint32_t>(bytes);
  block.page_index_ = static_cast<uint16_t>(first);
  // Anywhere in its pages where the alignment lets it: which place follows from the seed.
  const auto places = static_cast<uint32_t>((mapped - bytes) >> (log_units + log_unit)) + 1;
  block.offset_ = static_cast<uint32_t>(seed_++ % places) << (log_units + log_unit);
  for (uint32_t i = 0; i < pages; i++) taken_.set(first + i);
  return block;
}

void DeviceMemory::free(DmBlock& block, uint32_t open) noexcept {
  if (block.pages_.empty()) return;
  for (uint32_t i = 0; i < block.pages_.size() / DeviceMemory::page_bytes; i++)
    taken_.reset(std::size_t{block.page_index_} + i);
  give(block.bytes_, open);
  DmBlock gone = std::move(block);
}

uint32_t DeviceMemory::find_pages(uint32_t pages) const noexcept {
  for (uint32_t first = 0, run = 0, at = 0; at < window_pages; at++) {
    run = taken_.test(at) ? 0 : run + 1;
    first = at + 1 - run;
    if (run == pages) return first;
  }
  return window_pages;
}

bool DeviceMemory::take(uint32_t bytes, uint32_t open) noexcept {
  if (counts_ == nullptr) return false;
  uint32_t used = counts_->all.load(std::memory_order_relaxed);
  do {
    if (bytes > capacity_ - used) return false;
  } while (!counts_->all.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  counts_->of[open].fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

void DeviceMemory::give(uint32_t bytes, uint32_t open) noexcept {
  counts_->of[open].fetch_sub(bytes, std::memory_order_relaxed);
  counts_->all.fetch_sub(bytes, std::memory_order_relaxed);
}

uint32_t DeviceMemory::enter() noexcept {
  for (uint32_t i = 1; i < most_opens; i++) {
    if (entered_.test(i)) continue;
    entered_.set(i);
    return i;
  }
  return 0;
}

// What is left here was taken by children.
void DeviceMemory::leave(uint32_t open) noexcept {
  if (open == 0) return;
  if (counts_ != nullptr) {
    const uint32_t left = counts_->of[open].exchange(0, std::memory_order_relaxed);
    counts_->all.fetch_sub(left, std::memory_order_relaxed);
  }
  entered_.reset(open);
}

uint32_t DeviceMemory::bytes_used() const noexcept {
  return counts_ == nullptr ? 0 : counts_->all.load(std::memory_order_relaxed);
}

}  // namespace kilim::vhca::hca
