// SPDX-License-Identifier: BSD-3-Clause
// The ten lines of README.md: a UMR puts eight pieces of memory under one mkey, and the RDMA WRITE
// behind it sends them as one message. No error is checked here; 03_umr_gather does the same and
// checks. Runs without hardware: build/examples/00_ten_lines
#include <array>
#include <cstdio>

#include "attach/resolve.hh"
#include "kilim/mr/registrar.hh"
#include "kilim/port/mkey_queue.hh"
#include "kilim/queue/rc_wqe.hh"

using namespace kilim;

int main() {
  alignas(4096) static std::array<std::byte, 65536> memory{std::byte{1}};
  // README: begin
  auto hca = attach::resolve({.name = "vhca0", .wire = ""});  // a card's name does as well
  device::Device& device = *hca->device;
  auto region = mr::Mr::create(device.registrar(), memory, mr::Access::all, 4096);
  auto queue = port::MkeyQueue::create(
      device, {.keys = 8, .key = {.max_entries = 8}, .access = mr::Access::all});
  mkey::MkeyBinder& binder = (*queue)->binder();
  mkey::Binding key = binder.claim();
  umr::PieceList<8> pieces;
  for (uint64_t i = 0; i < 8; i++)
    pieces.add(region->region().lkey, region->region().iova + i * 4096, 512);
  queue::WqeCursor c{(*queue)->sq()};
  bool ok = binder.bind(c, key, {}, pieces.view()).ok();
  const queue::Remote target{region->region().iova + 32768, region->region().rkey};
  ok = ok && queue::rdma_write(c, target, {0, 8 * 512, key.lkey_behind(c)}, {}).ok();
  binder.commit(c);  // one doorbell for the UMR and the WRITE, which waits for it in the adapter
  ok = ok && (*queue)->wait();
  // README: end
  std::printf("8 pieces, one message: %s\n", ok ? "sent" : "refused");
  return ok && memory[32768] == std::byte{1} ? 0 : 1;
}
