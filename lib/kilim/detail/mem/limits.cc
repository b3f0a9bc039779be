// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/mem/limits.hh"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>

#include <sys/resource.h>

namespace kilim::inline v1::mem {
namespace {

constexpr const char* folder = "/sys/kernel/mm/hugepages/hugepages-";

bool read_number(uint64_t kib, const char* name, uint64_t& value) noexcept {
  char path[128];
  (void)std::snprintf(path, sizeof path, "%s%" PRIu64 "kB/%s", folder, kib, name);
  std::FILE* f = std::fopen(path, "re");
  if (f == nullptr) return false;
  const bool ok = std::fscanf(f, "%" SCNu64, &value) == 1;
  (void)std::fclose(f);
  return ok;
}

}  // namespace

void explain_lock_limit(uint64_t bytes, std::span<char> out) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    (void)std::snprintf(
        out.data(), out.size(),
        "%" PRIu64
        " KiB more cannot be pinned: the limit on locked memory (RLIMIT_MEMLOCK) is "
        "%" PRIu64
        " KiB; raise it with `ulimit -l unlimited`, memlock in "
        "/etc/security/limits.conf or LimitMEMLOCK= of the service, or grant CAP_IPC_LOCK",
        bytes / 1024, static_cast<uint64_t>(limit.rlim_cur) / 1024);
    return;
  }
  (void)std::snprintf(out.data(), out.size(),
                      "%" PRIu64
                      " KiB more cannot be pinned: locked memory (RLIMIT_MEMLOCK) is "
                      "unlimited here, so the kernel or the adapter has no memory left",
                      bytes / 1024);
}

const char* explain_queue(int code, const char* otherwise) noexcept {
  if (code != ENOMEM && code != EPERM) return otherwise;
  return "the queue's rings cannot be pinned: the limit on locked memory (RLIMIT_MEMLOCK, `ulimit "
         "-l`) is spent, or the adapter has no further queue";
}

HugePages huge_pages(uint64_t page_bytes) noexcept {
  HugePages h;
  uint64_t reserved = 0;
  h.known = read_number(page_bytes / 1024, "nr_hugepages", h.total) &&
            read_number(page_bytes / 1024, "free_hugepages", h.free) &&
            read_number(page_bytes / 1024, "resv_hugepages", reserved);
  h.free -= std::min(h.free, reserved);
  return h;
}

void explain_huge_pages(uint64_t page_bytes, uint64_t bytes, std::span<char> out) noexcept {
  const HugePages h = huge_pages(page_bytes);
  const uint64_t kib = page_bytes / 1024;
  const uint64_t needed = (bytes + page_bytes - 1) / page_bytes;
  if (!h.known) {
    (void)std::snprintf(out.data(), out.size(), "this kernel has no pages of %" PRIu64 " KiB", kib);
    return;
  }
  (void)std::snprintf(out.data(), out.size(),
                      "%" PRIu64 " pages of %" PRIu64 " KiB are needed, %" PRIu64 " of %" PRIu64
                      " are free; reserve more: echo %" PRIu64 " > %s%" PRIu64 "kB/nr_hugepages",
                      needed, kib, h.free, h.total, h.total - h.free + needed, folder, kib);
}

}  // namespace kilim::inline v1::mem
