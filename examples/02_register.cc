// SPDX-License-Identifier: BSD-3-Clause
// Registering memory: memory that the library allocates, memory of the program, a re-registration,
// and a request that is refused. The device then copies from one region to the other. Shows page
// sizes, translation entries and NUMA nodes. Runs without hardware: build/examples/02_register
// [DEVICE]
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "kilim/device.hh"
#include "kilim/mkey.hh"
#include "kilim/queue.hh"
#include "kilim/region.hh"

namespace {

using namespace kilim;
using mr::Access;

constexpr std::size_t bytes = std::size_t{4} << 20;
constexpr std::size_t small_page = 4096;

int refused(const char* what, const char* why) {
  std::fprintf(stderr, "02_register: %s: %s\n", what, why);
  return 1;
}

void show(const char* what, const mr::Region& r) {
  std::printf("%-12s lkey 0x%x rkey 0x%x, %llu KiB in pages of %llu KiB: %llu entries, node %d\n",
              what, r.lkey.value(), r.rkey.value(), static_cast<unsigned long long>(r.length >> 10),
              static_cast<unsigned long long>(r.page_bytes >> 10),
              static_cast<unsigned long long>(r.entries), r.node);
}

// Has the device write `n` bytes of one region to the begin of another. False: it refused.
bool copy(port::MkeyQueue& queue, const mr::Region& from, const mr::Region& to, uint32_t n) {
  queue::WqeCursor c{queue.sq()};
  if (!queue::rdma_write(c, {to.iova, to.rkey}, queue::Sge{from.iova, n, from.lkey}, {}))
    return false;
  queue.binder().commit(c);
  return queue.wait();
}

int run(device::Device& device) {
  mr::Registrar& registrar = device.registrar();
  auto queue = port::MkeyQueue::create(
      device, {.keys = 1, .key = {.max_entries = 4}, .access = Access::all});
  if (!queue) return refused("queue", queue.error().what);

  // Contiguous memory in the largest pages available, on the device's NUMA node.
  auto target = mr::AllocatedRegion::create(
      registrar, {.bytes = bytes, .access = Access::all, .node = device.numa_node()});
  if (!target) return refused("allocated", target.error().what);
  show("allocated", target->region());
  if (*target->fall_back() != '\0') std::printf("  smaller pages: %s\n", target->fall_back());

  // Memory of the program.
  std::vector<std::byte> own(bytes);
  for (std::size_t i = 0; i < own.size(); i++) own[i] = static_cast<std::byte>(i * 11);
  auto source = mr::Mr::create(registrar, {own.data(), bytes / 2}, Access::local_write, small_page);
  if (!source) return refused("own", source.error().what);
  show("own", source->region());
  if (!copy(**queue, source->region(), target->region(), bytes / 2))
    return refused("copy", "the device refused it");

  // The region is moved to the other half of the memory. Its keys may change; its rights stay.
  mr::Change change;
  change.translation = true;
  change.memory = {own.data() + bytes / 2, bytes / 2};
  change.page_bytes = small_page;
  if (const mr::Rereg r = source->reregister(change); !r.ok())
    return refused("re-registered", r.error.what);
  show("moved", source->region());
  if (std::memcmp(target->memory().data(), own.data(), bytes / 2) != 0)
    return refused("first half", "WRONG");
  if (!copy(**queue, source->region(), target->region(), bytes / 2) ||
      std::memcmp(target->memory().data(), own.data() + bytes / 2, bytes / 2) != 0)
    return refused("second half", "WRONG");
  std::printf("both halves arrived\n");

  // Refused: on-demand paging has no contiguous pages.
  auto both = mr::AllocatedRegion::create(
      registrar, {.bytes = bytes, .access = Access::all | Access::on_demand});
  if (both) return refused("allocated on demand", "was not refused");
  std::printf("refused: %s\n", both.error().what);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--help")
    return std::puts("usage: 02_register [DEVICE]    a card's name or vhcaN; default vhca0") < 0;
  auto attached = attach::resolve({.name = argc > 1 ? argv[1] : "vhca0"});
  if (!attached) return refused("device", attached.error().what);
  return run(*attached->device);
}
