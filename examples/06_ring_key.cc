// SPDX-License-Identifier: BSD-3-Clause
// One mkey over a pool of buffers, as a ring: a peer that was given the key once reads place n at
// address n * 256, while the buffers behind the places change. Each turn replaces four entries of
// the key by a WQE of 192 bytes, whatever the ring's length. Read 03_umr_gather.cc first. Runs
// without hardware: build/examples/06_ring_key [DEVICE]
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "kilim/device.hh"
#include "kilim/mkey.hh"
#include "kilim/queue.hh"
#include "kilim/region.hh"
#include "kilim/umr.hh"

namespace {

using namespace kilim;

constexpr uint32_t places = 48;
constexpr uint32_t buffer_bytes = 256;
constexpr uint32_t step = umr::klms_per_line;  // entries are written in granules of four
constexpr uint32_t buffers = places + step;    // of the pool: some are always out of the ring

int refused(const char* what, const char* why) {
  std::fprintf(stderr, "06_ring_key: %s: %s\n", what, why);
  return 1;
}

struct Ring {
  port::MkeyQueue& queue;
  mr::Region pool;                 // `buffers` buffers, then a copy of what a peer reads
  std::vector<std::byte>& memory;  // the same
  prm::UmrLimits limits;
  mkey::Binding key;                     // of the whole ring
  std::array<uint32_t, places> shows{};  // buffer behind each place
  std::array<uint32_t, step> out{};      // buffers that are in no place

  [[nodiscard]] umr::Piece piece(uint32_t buffer) const {
    return {pool.iova + uint64_t{buffer} * buffer_bytes, buffer_bytes, pool.lkey};
  }
};

// All places at once, when the ring is made.
bool make(Ring& r) {
  umr::PieceList<places> all;
  for (uint32_t i = 0; i < places; i++) {
    const umr::Piece p = r.piece(r.shows[i] = i);
    all.add(p.key, p.address, p.length);
  }
  for (uint32_t i = 0; i < step; i++) r.out[i] = places + i;
  const mkey::Bind how{.access = umr::mkey_access(mr::Access::remote_read)};
  r.key = r.queue.binder().claim();
  queue::WqeCursor c{r.queue.sq()};
  if (!r.queue.binder().bind(c, r.key, how, all.view()).ok()) return false;
  r.queue.binder().commit(c);
  return r.queue.wait();
}

// Takes the buffers of four places, from `first` on, out of the ring and puts in those that were
// out.
bool advance(Ring& r, uint32_t first) {
  umr::PieceList<step> fresh;
  for (uint32_t i = 0; i < step; i++) {
    std::swap(r.out[i], r.shows[first + i]);
    const umr::Piece p = r.piece(r.shows[first + i]);
    fresh.add(p.key, p.address, p.length);
  }
  const auto build = [&](queue::WqeCursor& at, const mkey::Mkey& k, const umr::UmrWr& wr) {
    const umr::Patch where{.key = k.lkey, .max_entries = k.max_entries, .first = first};
    return umr::patch(at, r.limits, where, fresh.view(), wr);
  };
  queue::WqeCursor c{r.queue.sq()};
  if (!r.queue.binder().change_with(c, r.key, {}, build).ok()) return false;
  r.queue.binder().commit(c);
  return r.queue.wait();
}

// The peer: one READ of the whole ring. True: each place has the bytes of its buffer.
bool peer_reads(Ring& r) {
  const uint64_t copy = uint64_t{buffers} * buffer_bytes;
  queue::WqeCursor c{r.queue.sq()};
  const queue::Sge into{r.pool.iova + copy, places * buffer_bytes, r.pool.lkey};
  if (!queue::rdma_read(c, {0, r.key.rkey()}, into, {})) return false;
  r.queue.binder().commit(c);
  if (!r.queue.wait()) return false;
  for (uint32_t i = 0; i < places; i++)
    if (std::memcmp(&r.memory[copy + i * buffer_bytes],
                    &r.memory[std::size_t{r.shows[i]} * buffer_bytes], buffer_bytes) != 0)
      return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--help")
    return std::puts("usage: 06_ring_key [DEVICE]    a card's name or vhcaN; default vhca0") < 0;
  auto attached = attach::resolve({.name = argc > 1 ? argv[1] : "vhca0"});
  if (!attached) return refused("device", attached.error().what);
  device::Device& device = *attached->device;

  std::vector<std::byte> memory(std::size_t{buffers + places} * buffer_bytes);
  for (std::size_t i = 0; i < std::size_t{buffers} * buffer_bytes; i++)
    memory[i] = static_cast<std::byte>(i / buffer_bytes + i * 3);
  auto region = mr::Mr::create(device.registrar(), memory, mr::Access::all, 4096);
  if (!region) return refused("memory", region.error().what);
  auto queue = port::MkeyQueue::create(
      device, {.keys = 2, .key = {.max_entries = places}, .access = mr::Access::all});
  if (!queue) return refused("queue", queue.error().what);

  Ring r{**queue, region->region(), memory, device.caps().umr_limits()};
  if (!make(r)) return refused("ring", "the device refused the key");
  const Rkey told = r.key.rkey();
  for (uint32_t turn = 0; turn < 3 * places / step; turn++) {
    if (!advance(r, turn * step % places)) return refused("ring", "the device refused a change");
    if (!peer_reads(r)) return refused("ring", "a place shows another buffer");
  }
  std::printf("ring of %u places turned three times under one key 0x%x: %s\n", places, told.value(),
              told == r.key.rkey() ? "right" : "the key changed");
  return told == r.key.rkey() ? 0 : 1;
}
