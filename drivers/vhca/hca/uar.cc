// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UAR Page Format". Adapter's lock held except for pending(). Pages are memfds: the client
// maps the same memory, in its own open's file as a rule.
#include "vhca/hca/uar.hh"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vhca/core/own_page.hh"
#include "vhca/core/refusal.hh"
#include "vhca/core/sealed.hh"

namespace kilim::vhca::hca {

namespace {

// The client's descriptor is a device's: by name, these two calls would be the client's own and
// come here again (entry/calls.cc).
bool file_bytes(int fd, uint64_t& bytes) noexcept {
  struct stat st;
  if (::syscall(SYS_fstat, fd, &st) != 0) return false;
  bytes = static_cast<uint64_t>(st.st_size);
  return true;
}
void* map_file(void* at, int fd, uint64_t offset) noexcept {
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, prm::uar::page_bytes,
                                           PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                                           offset));
}

// A page of the client's file at `offset`, there before it is touched. A file beyond the process's
// limit would end it (SIGXFSZ).
bool make_page(int fd, uint64_t offset) noexcept {
  const uint64_t bytes = offset + prm::uar::page_bytes;
  uint64_t now;
  rlimit limit{};
  if (fd < 0 || !file_bytes(fd, now)) return false;
  if (now < bytes && (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes > limit.rlim_cur))
    return false;
  return ::fallocate(fd, 0, static_cast<off_t>(offset), prm::uar::page_bytes) == 0;
}

// The engine's mapping stays where it is: another thread may be looking at it.
bool replace_memory(Uar& uar, int fd, uint64_t offset) noexcept {
  return map_file(uar.page.data(), fd, offset) != MAP_FAILED;
}

}  // namespace

UarSet::UarSet() {
  uars_.reserve(max_pages);
  pages_.reserve(max_pages);
}

UarSet::~UarSet() {
  for (const std::unique_ptr<Uar>& uar : uars_)
    if (uar) close_origin(uar->fd, uar->page);
  for (std::span<std::byte> page : pages_) ::munmap(page.data(), page.size());
}

Result<Uar*> UarSet::alloc() {
  std::size_t slot = 0;
  while (slot < uars_.size() && uars_[slot]) slot++;
  if (slot == max_pages) return Error{ENOMEM, "the adapter has no more UAR pages"};
  // A page once made is kept mapped and used again: another thread may be looking at it.
  if (slot < pages_.size() && kept_[slot]) {
    uars_[slot] = std::move(kept_[slot]);
    uars_[slot]->place = Uar::Place::unmapped;
    uars_[slot]->fd = sealed_memory("vhca-uar", prm::uar::page_bytes);
    if (!uars_[slot]->fd || !replace_memory(*uars_[slot], uars_[slot]->fd.get(), 0)) {
      kept_[slot] = std::move(uars_[slot]);
      return Error{ENOMEM, "no address space for a UAR page"};
    }
    write_origin(uars_[slot]->fd.get(), uars_[slot]->page);
    return uars_[slot].get();
  }
  Fd fd = sealed_memory("vhca-uar", prm::uar::page_bytes);
  if (!fd) return Error{ENOMEM, "no memory for a UAR page"};
  void* at = ::mmap(nullptr, prm::uar::page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return Error{ENOMEM, "no address space for a UAR page"};
  auto uar = std::make_unique<Uar>();
  uar->index = static_cast<uint32_t>(slot) + 1;
  uar->fd = std::move(fd);
  uar->page = {static_cast<std::byte*>(at), prm::uar::page_bytes};
  write_origin(uar->fd.get(), uar->page);
  pages_.push_back(uar->page);
  uars_.push_back(std::move(uar));
  kept_.emplace_back();
  return uars_.back().get();
}

int UarSet::free(uint32_t index) {
  Uar* uar = at(index);
  if (uar == nullptr) return refusal::absent("uar_page", index);
  if (!uar->qps.empty() || !uar->cqs.empty())
    return refusal::busy("the UAR page", (uar->qps.empty() ? 0 : 1) + (uar->cqs.empty() ? 0 : 1));
  // The mapping stays, ours and the client's.
  close_origin(uar->fd, uar->page);
  kept_[index - 1] = std::move(uars_[index - 1]);
  return 0;
}

bool UarSet::put_into_file(Uar& uar, int fd, uint64_t offset) noexcept {
  if (uar.place == Uar::Place::unmapped) {
    const bool known = is_origin(uar.fd.get(), uar.page);
    const bool fits = make_page(fd, offset) && replace_memory(uar, fd, offset);
    uar.place = fits ? Uar::Place::file : Uar::Place::own;
    // Its own memory is nobody's from here on.
    if (fits && !known) (void)uar.fd.release();
    if (fits) uar.fd.reset();
  }
  return uar.place == Uar::Place::file;
}

Uar* UarSet::at(uint32_t index) const noexcept {
  return index - 1 < uars_.size() ? uars_[index - 1].get() : nullptr;
}

void UarSet::note_queues(Uar& uar) noexcept {
  const std::size_t place = uar.index - 1;
  std::atomic<uint64_t>& word = with_queues_[place / 64];
  const uint64_t bit = uint64_t{1} << place % 64;
  const uint64_t was = word.load(std::memory_order_relaxed);
  const bool has_queues = !uar.qps.empty() || !uar.cqs.empty();
  if (has_queues == ((was & bit) != 0)) return;
  if (has_queues) {
    uar.arms = false;
    take(uar, prm::uar::cq_doorbell);
    for (std::size_t at : send_words) take(uar, at);
  }
  word.store(was ^ bit, std::memory_order_release);
  const std::size_t words = std::max(words_.load(std::memory_order_relaxed), place / 64 + 1);
  words_.store(words, std::memory_order_release);
}

bool UarSet::pending() const noexcept {
  return for_each_place([this](std::size_t place) { return rung(pages_[place].data()); });
}

}  // namespace kilim::vhca::hca
