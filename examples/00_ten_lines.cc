// SPDX-License-Identifier: BSD-3-Clause
// The ten lines of README.md: a UMR makes one key of two pieces, the RDMA WRITE behind it sends
// them as one message. The registrar keeps the region until the device goes (mr::Mr would end it
// sooner). 03_umr_gather looks at each refusal. Runs without hardware: build/examples/00_ten_lines
#include <array>
#include <cstdio>

#include "kilim/device.hh"
#include "kilim/mkey.hh"
#include "kilim/queue.hh"
#include "kilim/region.hh"

using namespace kilim;

int main() {
  alignas(4096) static std::array<std::byte, 65536> memory{std::byte{1}};
  memory[8192] = std::byte{2};
  // README: begin
  auto hca = attach::resolve({.name = "vhca0"});  // a card's name does as well
  auto mr = hca->device->registrar().register_memory(memory, mr::Access::all, 4096);
  auto queue = port::MkeyQueue::create(*hca->device, {.access = mr::Access::all});
  mkey::Binding key = (*queue)->binder().claim();
  const umr::Piece pieces[] = {{mr->iova, 512, mr->lkey}, {mr->iova + 8192, 512, mr->lkey}};
  queue::WqeCursor c{(*queue)->sq()};
  bool ok = (*queue)->binder().bind(c, key, {}, pieces).ok();
  ok = ok && queue::rdma_write(c, {mr->iova + 4096, mr->rkey}, {0, 1024, key.lkey_behind(c)}, {});
  (*queue)->binder().commit(c);  // one doorbell: the WRITE waits for the UMR in the adapter
  ok = ok && (*queue)->wait();
  // README: end
  std::printf("2 pieces, one message: %s\n", ok ? "sent" : "refused");
  ok = ok && memory[4096] == std::byte{1} && memory[4096 + 512] == std::byte{2};
  return ok ? 0 : 1;
}
