// SPDX-License-Identifier: BSD-3-Clause
// Counts as ib_umem_get() does: first the pages, then the question whether that was allowed. A
// child of fork() begins with nothing, since what it inherited is disowned.
#include "vhca/uverbs/pinned.hh"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vhca/core/refusal.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint64_t pinned_page_bytes = 4096;

std::atomic<uint64_t> pinned_pages{0};

// Of the calling thread. A user namespace of its own is believed, where the kernel would not. No
// page is really locked here, so an ordinary user may have the limit ignored.
bool may_lock_all() noexcept {
  const char* word = ::getenv("KILIM_VHCA_MEMLOCK");
  if (word != nullptr && std::strcmp(word, "ignore") == 0) return true;
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
  if (::syscall(SYS_capget, &head, data) != 0) return false;
  return (data[0].effective & 1u << CAP_IPC_LOCK) != 0;
}

uint64_t lock_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return UINT64_MAX;
  return limit.rlim_cur;
}

}  // namespace

Pin::~Pin() {
  pinned_pages.fetch_sub(pages_, std::memory_order_relaxed);
}

int Pin::take(Va start, uint64_t bytes) noexcept {
  if (bytes == 0) return 0;
  const uint64_t last = start.value() + bytes - 1;
  if (last < start.value() || last > ~uint64_t{0} - pinned_page_bytes)
    return refusal::most("length, from where it starts,", bytes, ~start.value());
  const uint64_t pages = last / pinned_page_bytes - start.value() / pinned_page_bytes + 1;
  if (pages > UINT32_MAX) return refusal::most("length, in pages,", pages, UINT32_MAX);
  const uint64_t limit = lock_limit();
  if (limit == 0 && !may_lock_all())
    return refusal::most("memory of a queue's rings, in bytes, under RLIMIT_MEMLOCK (ulimit -l),",
                         bytes, limit, EPERM);
  const uint64_t now = pinned_pages.fetch_add(pages, std::memory_order_relaxed) + pages;
  if (now > limit / pinned_page_bytes && !may_lock_all()) {
    pinned_pages.fetch_sub(pages, std::memory_order_relaxed);
    return refusal::most(
        "memory that would be locked in all, in bytes, under RLIMIT_MEMLOCK (ulimit -l; "
        "KILIM_VHCA_MEMLOCK=ignore leaves it out),",
        now * pinned_page_bytes, limit, ENOMEM);
  }
  pages_ = pages;
  return 0;
}

int RecordPages::share(Va record, std::shared_ptr<Pin>& pin) {
  const uint64_t number = record.value() / pinned_page_bytes;
  std::erase_if(pages_, [](const Page& p) { return p.pin.expired(); });
  for (const Page& p : pages_) {
    if (p.number != number) continue;
    pin = p.pin.lock();
    return 0;
  }
  auto made = std::make_shared<Pin>();
  if (int err = made->take(Va{number * pinned_page_bytes}, pinned_page_bytes); err != 0) return err;
  pages_.push_back({number, made});
  pin = std::move(made);
  return 0;
}

int QueuePins::take(RecordPages& pages, const Ring& r, const Ring& s, Va at) {
  int err = ring.take(r.start, r.bytes);
  if (err == 0) err = send_ring.take(s.start, s.bytes);
  return err == 0 ? pages.share(at, record) : err;
}

}  // namespace kilim::vhca::uverbs
