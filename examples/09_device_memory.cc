// SPDX-License-Identifier: BSD-3-Clause
// Device memory: a payload is in the adapter itself. A UMR puts a header in host memory and the
// payload under one mkey, and one WRITE sends both. An atomic adds to a counter in the adapter;
// only the old value is written to host memory. Runs without hardware:
// build/examples/09_device_memory [DEVICE]
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "kilim/device.hh"
#include "kilim/mkey.hh"
#include "kilim/queue.hh"
#include "kilim/region.hh"

namespace {

using namespace kilim;
using mr::Access;

constexpr uint32_t header_bytes = 64, payload_bytes = 1024, counter_at = 2048;

int refused(const char* what, const char* why) {
  std::fprintf(stderr, "09_device_memory: %s: %s\n", what, why);
  return 1;
}

struct Memory {
  std::array<std::byte, header_bytes> header;
  std::array<std::byte, payload_bytes> payload;
  std::array<std::byte, header_bytes + payload_bytes> arrived;
  alignas(8) uint64_t before;
};

uint64_t at(const mr::Region& host, const Memory& m, const void* p) {
  return host.iova + static_cast<uint64_t>(static_cast<const std::byte*>(p) -
                                           reinterpret_cast<const std::byte*>(&m));
}

int send_gathered(port::MkeyQueue& queue, const mr::Region& host, const mr::Region& device,
                  const Memory& m) {
  mkey::MkeyBinder& binder = queue.binder();
  mkey::Binding key = binder.claim();
  if (!key) return refused("key", "none is free");
  umr::PieceList<2> list;
  list.add(host.lkey, at(host, m, &m.header), header_bytes);
  list.add(device.lkey, 0, payload_bytes);  // zero-based: its first byte is 0

  queue::WqeCursor c{queue.sq()};
  const mkey::Bind how{.access = umr::mkey_access(Access::remote_read)};
  if (const Outcome o = binder.bind(c, key, how, list.view()); !o.ok())
    return refused("UMR", text(o.why));
  const queue::Sge from{0, header_bytes + payload_bytes, key.lkey_behind(c)};
  if (!queue::rdma_write(c, {at(host, m, &m.arrived), host.rkey}, from, {}))
    return refused("WRITE", "the queue is full");
  binder.commit(c);
  if (!queue.wait()) return refused("completion", "the device refused a request");
  key.end();
  binder.flush();
  const bool right =
      std::memcmp(m.arrived.data(), m.header.data(), header_bytes) == 0 &&
      std::memcmp(m.arrived.data() + header_bytes, m.payload.data(), payload_bytes) == 0;
  std::printf("header of host memory, payload of device memory, one WRITE: %s\n",
              right ? "arrived" : "WRONG");
  return queue.wait() && right ? 0 : 1;
}

int count(port::MkeyQueue& queue, const mr::Region& host, const mr::Region& device, Memory& m) {
  for (uint64_t n = 0; n < 3; n++) {
    queue::WqeCursor c{queue.sq()};
    const queue::Atomic add{.target = {counter_at, device.rkey},
                            .result_address = at(host, m, &m.before),
                            .result_key = host.lkey,
                            .swap_or_add = 5};
    if (!queue::fetch_and_add(c, add, {})) return refused("atomic", "the queue is full");
    queue.binder().commit(c);
    if (!queue.wait()) return refused("atomic", "the device refused it");
    if (m.before != n * 5) return refused("atomic", "WRONG");
  }
  std::printf("a counter in device memory was added to three times\n");
  return 0;
}

int run(device::Device& device) {
  std::printf("device memory: %llu bytes\n",
              static_cast<unsigned long long>(device.caps().max_device_memory));
  auto block = mr::DeviceMemory::create(device.registrar(), {.bytes = 4096});
  if (!block) return refused("device memory", block.error().what);
  auto on_device = block->region({.bytes = block->size(), .access = Access::all});
  if (!on_device) return refused("region", on_device.error().what);
  static Memory m;
  for (std::byte& b : m.header) b = std::byte{0x48};
  for (std::size_t i = 0; i < payload_bytes; i++) m.payload[i] = static_cast<std::byte>(i * 3);
  auto host = mr::Mr::create(device.registrar(), std::as_writable_bytes(std::span(&m, 1)),
                             Access::all, 4096);
  if (!host) return refused("memory", host.error().what);
  constexpr std::array<std::byte, 8> zero{};
  if (!block->write(0, m.payload) || !block->write(counter_at, zero))
    return refused("copy", "device memory was not written");
  auto queue = port::MkeyQueue::create(
      device, {.keys = 2, .key = {.max_entries = 2}, .access = Access::all});
  if (!queue) return refused("queue", queue.error().what);
  if (int code = send_gathered(**queue, host->region(), on_device->region(), m); code != 0)
    return code;
  return count(**queue, host->region(), on_device->region(), m);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--help")
    return std::puts("usage: 09_device_memory [DEVICE]    a card's name or vhcaN; default vhca0") <
           0;
  auto attached = attach::resolve({.name = argc > 1 ? argv[1] : "vhca0"});
  if (!attached) return refused("device", attached.error().what);
  return run(*attached->device);
}
