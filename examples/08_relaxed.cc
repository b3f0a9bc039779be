// SPDX-License-Identifier: BSD-3-Clause
// Relaxed regions: memory is registered by work requests, 32 buffers with one doorbell, for a peer
// that reads each once. Deregistering only marks a region; a flush invalidates its key. Until then
// the peer can read the memory, so it must not be used for anything else. Read 02_register.cc
// first. Runs without hardware: build/examples/08_relaxed [DEVICE]
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "kilim/device.hh"
#include "kilim/mkey.hh"
#include "kilim/queue.hh"
#include "kilim/region.hh"
#include "kilim/relaxed.hh"

namespace {

using namespace kilim;
using relaxed::Answer;

constexpr uint32_t keys = 64;
constexpr uint32_t batch = 32;
constexpr uint32_t buffer_bytes = 4096;  // a page: access reaches to its end

int refused(const char* what, const char* why) {
  std::fprintf(stderr, "08_relaxed: %s: %s\n", what, why);
  return 1;
}

struct Job {
  port::MkeyQueue& queue;
  relaxed::Relaxed& engine;
  std::byte* buffers;
  std::vector<std::byte>& copy;  // the peer's
  mr::Region into;
  std::array<relaxed::Region, batch> regions{};

  [[nodiscard]] std::byte* buffer(uint32_t i) const {
    return buffers + std::size_t{i} * buffer_bytes;
  }
};

// Registers all buffers with one doorbell. Answer::dry: no key is left.
Answer register_all(Job& j) {
  queue::WqeCursor c{j.queue.sq()};
  Answer a = Answer::done;
  for (uint32_t i = 0; i < batch && a == Answer::done; i++) {
    if (j.regions[i]) continue;
    const auto address = reinterpret_cast<uint64_t>(j.buffer(i));
    a = j.engine.register_memory(c, {address, buffer_bytes, mr::Access::remote_read}, j.regions[i]);
  }
  j.engine.commit(c);
  return a;
}

// The peer reads a buffer. False: it was refused, or read other bytes.
bool peer_reads(Job& j, uint32_t i) {
  const auto address = reinterpret_cast<uint64_t>(j.buffer(i));
  queue::WqeCursor c{j.queue.sq()};
  const queue::Sge to{j.into.iova, buffer_bytes, j.into.lkey};
  if (!queue::rdma_read(c, {address, j.regions[i].rkey()}, to, {})) return false;
  j.engine.commit(c);
  return j.queue.wait() && std::memcmp(j.copy.data(), j.buffer(i), buffer_bytes) == 0;
}

bool flush(Job& j) {
  bool flushed = j.engine.flush();
  for (int i = 0; i < 10 && !flushed; i++) {
    if (!j.queue.wait()) return false;
    flushed = j.engine.flush();
  }
  for (int i = 0; i < 3; i++) j.engine.poll();  // keys come back when nobody can use them
  return flushed;
}

// One round over all buffers.
bool round(Job& j) {
  Answer a = register_all(j);
  if (a == Answer::dry) {  // EAGAIN
    if (!flush(j)) return false;
    a = register_all(j);
  }
  if (a != Answer::done || !j.queue.wait()) return false;
  for (uint32_t i = 0; i < batch; i++)
    if (!peer_reads(j, i)) return false;
  for (relaxed::Region& r : j.regions) j.engine.deregister(std::move(r));
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--help")
    return std::puts("usage: 08_relaxed [DEVICE]    a card's name or vhcaN; default vhca0") < 0;
  auto attached = attach::resolve({.name = argc > 1 ? argv[1] : "vhca0"});
  if (!attached) return refused("device", attached.error().what);
  device::Device& device = *attached->device;

  auto queue = port::MkeyQueue::create(device, {.keys = keys, .access = mr::Access::all});
  if (!queue) return refused("queue", queue.error().what);
  auto engine = relaxed::Relaxed::create((*queue)->binder(), {.keys = keys});
  if (!engine) return refused("engine", engine.error().what);

  // One ordinary region, in which all relaxed ones lie.
  std::vector<std::byte> memory((batch + 1) * std::size_t{buffer_bytes});
  for (std::size_t i = 0; i < memory.size(); i++) memory[i] = static_cast<std::byte>(i * 5);
  auto arena = mr::Mr::create(device.registrar(), memory, mr::Access::all, 4096);
  std::vector<std::byte> copy(buffer_bytes);
  auto into = mr::Mr::create(device.registrar(), copy, mr::Access::all, 4096);
  if (!arena || !into) return refused("memory", "the device does not register it");
  if (!(*engine)->cover().add(arena->region())) return refused("memory", "it is no arena");

  const auto base = reinterpret_cast<uint64_t>(memory.data());
  const uint64_t in_page = (buffer_bytes - base % buffer_bytes) % buffer_bytes;
  Job job{**queue, **engine, memory.data() + in_page, copy, into->region()};
  for (int i = 0; i < 10; i++)
    if (!round(job)) return refused("round", "a buffer was not registered or not read");
  if (!flush(job)) return refused("flush", "the device does not invalidate the keys");
  const relaxed::Counters& n = (*engine)->counters();
  std::printf("%llu registered, %llu invalidated, pool dry %llu times: right\n",
              static_cast<unsigned long long>(n.registered.read()),
              static_cast<unsigned long long>(n.invalidated.read()),
              static_cast<unsigned long long>(n.dry.read()));
  return n.registered.read() == n.invalidated.read() ? 0 : 1;
}
