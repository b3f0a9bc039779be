// SPDX-License-Identifier: BSD-3-Clause
// All of EAL's memory in an index from address to key, while EAL adds and frees memory: the main
// lcore allocates and frees, and a worker sends from the addresses that it gets. Neither registers
// anything: memory that EAL adds has a key before its allocation returns, and memory that EAL frees
// keeps it until no worker can hold it. Read 02_register.cc first. Runs without hardware and ends
// by itself. It needs a second lcore, here on the same CPU, and hugepages, as EAL frees no other
// memory:
//   build/examples/10_eal_memory --lcores 0@0,1@0 --no-pci --in-memory
// Without hugepages, with all memory from the beginning; also without root:
//   build/examples/10_eal_memory --lcores 0@0,1@0 --no-pci --no-huge --no-shconf -m 64
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_pause.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>

#include "kilim/device.hh"
#include "kilim/lookup.hh"
#include "kilim/mkey.hh"
#include "kilim/queue.hh"
#include "kilim/region.hh"

namespace {

using namespace kilim;

constexpr std::size_t buffer_bytes = std::size_t{3} << 20;  // more than EAL keeps for itself
constexpr uint32_t sent_bytes = 4096;
constexpr uint32_t rounds = 64;

int refused(const char* what, const char* why) {
  std::fprintf(stderr, "10_eal_memory: %s: %s\n", what, why);
  return 1;
}

struct Free {
  void operator()(rte_ring* r) const noexcept { rte_ring_free(r); }
  void operator()(rte_rcu_qsbr* v) const noexcept { rte_free(v); }
};
using Ring = std::unique_ptr<rte_ring, Free>;
using Readers = std::unique_ptr<rte_rcu_qsbr, Free>;

Ring ring(const char* name) {
  return Ring{rte_ring_create(name, 64, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ)};
}
Readers readers() {
  const std::size_t bytes = rte_rcu_qsbr_get_memsize(RTE_MAX_LCORE);
  auto* v = static_cast<rte_rcu_qsbr*>(rte_zmalloc(nullptr, bytes, RTE_CACHE_LINE_SIZE));
  if (v != nullptr) (void)rte_rcu_qsbr_init(v, RTE_MAX_LCORE);
  return Readers{v};
}

struct Job {
  port::MkeyQueue& queue;
  const lookup::Index& index;
  rte_rcu_qsbr* readers;
  rte_ring* full;   // buffers to the worker; the job's own address ends it
  rte_ring* spent;  // buffers that were sent, back to the main lcore
  const std::byte* copy;
  mr::Region target;
  uint64_t sent = 0;
};

// Sends one buffer, of which only the address is known.
void send(Job& j, lookup::Front& front, const std::byte* buffer) {
  const auto from = reinterpret_cast<uint64_t>(buffer);
  const Lkey key = front.find(from, sent_bytes);
  if (key == Lkey{0}) return;
  queue::WqeCursor c{j.queue.sq()};
  if (!queue::rdma_write(c, {j.target.iova, j.target.rkey}, queue::Sge{from, sent_bytes, key}, {}))
    return;
  j.queue.binder().commit(c);
  if (j.queue.wait() && std::memcmp(j.copy, buffer, sent_bytes) == 0) j.sent++;
}

int work(void* arg) {
  Job& j = *static_cast<Job*>(arg);
  const unsigned me = rte_lcore_id();
  lookup::Front front{j.index};
  rte_rcu_qsbr_thread_register(j.readers, me);
  rte_rcu_qsbr_thread_online(j.readers, me);
  for (void* next = nullptr; next != arg;) {
    if (rte_ring_dequeue(j.full, &next) == 0 && next != arg) {
      send(j, front, static_cast<const std::byte*>(next));
      (void)rte_ring_enqueue(j.spent, next);
    }
    rte_rcu_qsbr_quiescent(j.readers, me);  // it holds no key, and no request is under way
    rte_pause();
  }
  rte_rcu_qsbr_thread_offline(j.readers, me);
  return 0;
}

// False: EAL has no memory left, or the worker does not answer.
bool one_round(Job& j, uint32_t round) {
  void* buffer = rte_malloc(nullptr, buffer_bytes, 0);
  if (buffer == nullptr) return false;
  std::memset(buffer, static_cast<int>(round + 1), sent_bytes);
  if (rte_ring_enqueue(j.full, buffer) != 0) return false;
  void* back = nullptr;
  while (rte_ring_dequeue(j.spent, &back) != 0) rte_pause();
  rte_free(back);
  return back == buffer;
}

int run(device::Device& device, unsigned worker) {
  const Readers quiet = readers();
  const Ring full = ring("full"), spent = ring("spent");
  if (!quiet || !full || !spent) return refused("memory", "EAL has none left");
  auto index = lookup::Index::create({.readers = quiet.get()});
  if (!index) return refused("index", index.error().what);
  auto regions = lookup::IndexedRegions::create(device.registrar(), **index);
  if (!regions) return refused("regions", regions.error().what);
  auto queue = port::MkeyQueue::create(device, {.keys = 1, .access = mr::Access::all});
  if (!queue) return refused("queue", queue.error().what);
  (*queue)->release_owner();
  std::vector<std::byte> copy(sent_bytes);
  auto target = mr::Mr::create(device.registrar(), copy, mr::Access::all, 4096);
  if (!target) return refused("target", target.error().what);
  Job job{**queue, **index, quiet.get(), full.get(), spent.get(), copy.data(), target->region()};
  if (rte_eal_remote_launch(work, &job, worker) != 0) return refused("worker", "it is busy");
  for (uint32_t i = 0; i < rounds; i++)
    if (!one_round(job, i)) break;
  (void)rte_ring_enqueue(full.get(), &job);
  rte_eal_wait_lcore(worker);
  const mr::EalRegions::Counts n = (*regions)->eal().counts();
  const bool right = job.sent == rounds && n.failed + n.late == 0;
  std::printf("%llu buffers sent by address, %llu regions came, %llu went: %s\n",
              static_cast<unsigned long long>(job.sent),
              static_cast<unsigned long long>(n.registered),
              static_cast<unsigned long long>(n.deregistered), right ? "right" : "wrong");
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (rte_eal_init(argc, argv) < 0) return refused("EAL", "it does not start");
  const unsigned worker = rte_get_next_lcore(rte_lcore_id(), 1, 0);
  if (worker == RTE_MAX_LCORE) return refused("worker", "needs a second lcore: -l 0,1");
  auto attached = attach::resolve({.name = "vhca0"});
  if (!attached) return refused("device", attached.error().what);
  const int rc = run(*attached->device, worker);
  attached->device.reset();
  (void)rte_eal_cleanup();
  return rc;
}
