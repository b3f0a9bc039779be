// SPDX-License-Identifier: BSD-3-Clause
// On-demand paging: 1 GiB of addresses is registered before there is memory. The device maps pages
// when it accesses them, unmaps those that the program returns to the kernel, and prefetches when
// asked. A detector reports pages that are mapped and unmapped too often. Ends with the device's
// eleven statistics.
// Runs without hardware: build/examples/07_on_demand [DEVICE]
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <sys/mman.h>
#include <time.h>

#include "kilim/device.hh"
#include "kilim/mkey.hh"
#include "kilim/queue.hh"
#include "kilim/region.hh"

namespace {

using namespace kilim;
using mr::Access;

constexpr std::size_t window = std::size_t{1} << 30;
constexpr uint32_t page = 4096;

int refused(const char* what, const char* why) {
  std::fprintf(stderr, "07_on_demand: %s: %s\n", what, why);
  return 1;
}

uint64_t now_ns() {
  timespec t{};
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

void print_statistics(const device::Device& device) {
  const device::OdpStatistics s = device.odp_statistics();
  for (std::size_t i = 0; i < device::odp_counters; i++) {
    if (s.values[i]) {
      std::printf("  %-34s %llu\n", device::odp_counter_names[i],
                  static_cast<unsigned long long>(*s.values[i]));
    } else {
      std::printf("  %-34s not reported\n", device::odp_counter_names[i]);
    }
  }
}

bool write_page(port::MkeyQueue& queue, const mr::Region& from, const mr::Region& to, uint64_t at) {
  queue::WqeCursor c{queue.sq()};
  if (!queue::rdma_write(c, {to.iova + at, to.rkey}, queue::Sge{from.iova, page, from.lkey}, {}))
    return false;
  queue.binder().commit(c);
  return queue.wait();
}

mr::FaultCount faults(const device::Device& device) {
  const device::OdpStatistics s = device.odp_statistics();
  return {std::nullopt, s.of(device::OdpCounter::num_page_faults).value_or(0),
          s.of(device::OdpCounter::num_odp_mrs).value_or(1)};
}

int run(device::Device& device, std::byte* addresses, std::byte* full) {
  std::fputs(mr::odp_table(device.caps().odp).c_str(), stdout);
  mr::Registrar& registrar = device.registrar();
  auto queue = port::MkeyQueue::create(
      device, {.keys = 1, .key = {.max_entries = 4}, .access = Access::all});
  if (!queue) return refused("queue", queue.error().what);
  auto source = mr::Mr::create(registrar, {full, page}, Access::local, page);
  if (!source) return refused("memory", source.error().what);
  const std::array uses{mr::OdpUse{mr::OdpTransport::rc, mr::OdpOperation::write}};
  auto paged = mr::Mr::create_on_demand(registrar, {addresses, window}, Access::all, uses);
  if (!paged) return refused("on demand", paged.error().what);

  // The device writes to three pages of the GiB, and so maps them.
  for (const uint64_t at : {uint64_t{0}, window / 2, window - page}) {
    if (!write_page(**queue, source->region(), paged->region(), at) ||
        std::memcmp(addresses + at, full, page) != 0)
      return refused("write", "WRONG");
  }
  std::printf("three pages of a GiB were written to\n");

  // Prefetch. The thread that polls the queue of advice calls the device: a control lcore, here
  // this one.
  auto advice = mr::AdviceQueue::create(registrar, {});
  if (!advice) return refused("advice", advice.error().what);
  const mr::AdviceJob job{.address = paged->region().iova + page,
                          .bytes = std::size_t{16} * page,
                          .lkey = paged->region().lkey,
                          .advice = mr::Advice::prefetch_write};
  if (!(*advice)->submit(job)) return refused("advice", "the queue is full");
  while (!(*advice)->idle()) (void)(*advice)->poll(now_ns());

  // A page that the program returns to the kernel again and again: the detector reports thrashing.
  mr::ThrashDetector detector({.faults_per_second = 10,
                               .window_ns = 1'000'000,
                               .say = [](void*, const mr::ThrashDetector::Verdict& v) {
                                 std::printf("thrashing: %llu faults a second and region\n",
                                             static_cast<unsigned long long>(v.faults_per_second));
                               }});
  (void)detector.count(now_ns(), faults(device));
  for (const uint64_t until = now_ns() + 5'000'000; now_ns() < until;) {
    (void)madvise(addresses, page, MADV_DONTNEED);
    if (!write_page(**queue, source->region(), paged->region(), 0))
      return refused("write", "the device refused it");
  }
  if (!detector.count(now_ns(), faults(device))) std::printf("no thrashing: no faults reported\n");
  print_statistics(device);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--help")
    return std::puts("usage: 07_on_demand [DEVICE]    a card's name or vhcaN; default vhca0") < 0;
  auto attached = attach::resolve({.name = argc > 1 ? argv[1] : "vhca0"});
  if (!attached) return refused("device", attached.error().what);
  auto map = [](std::size_t n) {
    return mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                0);
  };
  void* addresses = map(window);
  void* full = map(page);
  if (addresses == MAP_FAILED || full == MAP_FAILED) return refused("memory", "none is left");
  std::memset(full, 0x5a, page);
  const int code =
      run(*attached->device, static_cast<std::byte*>(addresses), static_cast<std::byte*>(full));
  munmap(full, page);
  munmap(addresses, window);
  return code;
}
