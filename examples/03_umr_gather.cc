// SPDX-License-Identifier: BSD-3-Clause
// Sixteen pieces of memory under one mkey: a UMR binds the mkey to them, and the RDMA WRITE behind
// it gathers them; this core copies nothing. Shows a key's life: claimed, bound, used behind its
// UMR, valid, ended. Runs without hardware: build/examples/03_umr_gather [DEVICE]
#include <array>
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

constexpr uint32_t pieces = 16;
constexpr uint32_t piece_bytes = 1024;

int refused(const char* what, const char* why) {
  std::fprintf(stderr, "03_umr_gather: %s: %s\n", what, why);
  return 1;
}

// Every second KiB of the first half of `memory`.
umr::PieceList<pieces> scattered(const mr::Region& region) {
  umr::PieceList<pieces> list;
  for (uint32_t i = 0; i < pieces; i++)
    list.add(region.lkey, region.iova + uint64_t{i} * 2 * piece_bytes, piece_bytes);
  return list;
}

bool arrived(const std::vector<std::byte>& memory) {
  const std::byte* gathered = &memory[memory.size() / 2];
  for (uint32_t i = 0; i < pieces; i++)
    if (std::memcmp(gathered + i * piece_bytes, &memory[i * 2 * piece_bytes], piece_bytes) != 0)
      return false;
  return true;
}

int gather(port::MkeyQueue& queue, const mr::Region& region, std::vector<std::byte>& memory) {
  mkey::MkeyBinder& binder = queue.binder();
  mkey::Binding key = binder.claim();
  const auto list = scattered(region);

  // One doorbell for both. The WRITE has a fence, so the device makes it wait for the UMR.
  queue::WqeCursor c{queue.sq()};
  const mkey::Bind how{.access = umr::mkey_access(mr::Access::remote_read)};
  if (const Outcome o = binder.bind(c, key, how, list.view()); !o.ok())
    return refused("UMR", text(o.why));
  const queue::Sge from{0, pieces * piece_bytes, key.lkey_behind(c)};
  const queue::Remote to{region.iova + memory.size() / 2, region.rkey};
  if (!queue::rdma_write(c, to, from, {})) return refused("WRITE", "the queue is full");
  binder.commit(c);

  if (!queue.wait()) return refused("completion", "the device refused a request");
  // From here on the handle may go to other queues and to peers.
  std::printf("%u pieces of %u bytes, one key 0x%x: %s\n", pieces, piece_bytes, key.rkey().value(),
              arrived(memory) ? "gathered" : "WRONG");
  key.end();  // queues the invalidation, which goes with the next doorbell
  binder.flush();
  return queue.wait() && arrived(memory) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--help")
    return std::puts("usage: 03_umr_gather [DEVICE]    a card's name or vhcaN; default vhca0") < 0;
  auto attached = attach::resolve({.name = argc > 1 ? argv[1] : "vhca0"});
  if (!attached) return refused("device", attached.error().what);
  device::Device& device = *attached->device;

  std::vector<std::byte> memory(std::size_t{4} * pieces * piece_bytes);
  for (std::size_t i = 0; i < memory.size() / 2; i++) memory[i] = static_cast<std::byte>(i * 7);
  auto region = mr::Mr::create(device.registrar(), memory, mr::Access::all, 4096);
  if (!region) return refused("memory", region.error().what);
  auto queue = port::MkeyQueue::create(
      device, {.keys = 8, .key = {.max_entries = pieces}, .access = mr::Access::all});
  if (!queue) return refused("queue", queue.error().what);
  return gather(**queue, region->region(), memory);
}
