// SPDX-License-Identifier: BSD-3-Clause
// Device memory through drivers/mlx5 on a virtual device: blocks, copies, regions, pieces of bound
// keys, and a pool whose buffers lie there.
#include <array>
#include <cerrno>

#include "eal.hh"
#include "inline_fixture.hh"
#include "key_fixture.hh"
#include "kilim/detail/burst/recv.hh"
#include "kilim/detail/mr/device_memory.hh"
#include "region_fixture.hh"
#include "ut.hh"

namespace device_memory_ut {
namespace {

using namespace kilim;
using mr::Access;
using mr::DeviceMemory;
using mr::Mr;
using test::config;
using test::letter;
using test::Peer;
using test::VirtualDevice;

VirtualDevice& shared() {
  static VirtualDevice* v = new VirtualDevice(config("block0"));
  return *v;
}
device::Device& dev() {
  CU_ASSERT_PTR_NOT_NULL_FATAL(shared().device.get());
  return *shared().device;
}

DeviceMemory block(uint64_t bytes) {
  auto made = DeviceMemory::create(dev().registrar(), {.bytes = bytes});
  CU_ASSERT_FATAL(made.ok());
  return *std::move(made);
}
std::vector<std::byte> pattern(std::size_t n, uint64_t seed) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; i++) bytes[i] = letter(seed, i);
  return bytes;
}
std::vector<std::byte> content(const DeviceMemory& m, uint64_t at, std::size_t n) {
  std::vector<std::byte> bytes(n);
  CU_ASSERT(m.read(at, bytes).ok());
  return bytes;
}

void an_adapter_says_what_it_has() {
  EQUAL(dev().caps().max_device_memory, 1u << 17);
  auto made = DeviceMemory::create(dev().registrar(), {.bytes = (1u << 17) + 1});
  EQUAL(made.error().code, EINVAL);
  made = DeviceMemory::create(dev().registrar(), {.bytes = 0});
  EQUAL(made.error().code, EINVAL);
  made = DeviceMemory::create(dev().registrar(), {.bytes = 64, .log_alignment = 13});
  EQUAL(made.error().code, EINVAL);
  {
    const DeviceMemory most = block(1u << 17);
    made = DeviceMemory::create(dev().registrar(), {.bytes = 4});
    EQUAL(made.error().code, ENOMEM);
  }
  CU_ASSERT(DeviceMemory::create(dev().registrar(), {.bytes = 1u << 17}).ok());
  VirtualDevice bare{config("block1", "no-dm")};
  CU_ASSERT_PTR_NOT_NULL_FATAL(bare.device.get());
  EQUAL(bare.device->caps().max_device_memory, 0);
  made = DeviceMemory::create(bare.device->registrar(), {.bytes = 64});
  EQUAL(made.error().code, EOPNOTSUPP);
}

void bytes_go_in_and_out() {
  DeviceMemory m = block(4000);
  EQUAL(m.size(), 4000);
  const auto bytes = pattern(4000, 3);
  CU_ASSERT(m.write(0, bytes).ok());
  EQUAL(content(m, 0, 4000), bytes);
  EQUAL(std::memcmp(m.mapped().data(), bytes.data(), 4000), 0);
  std::array<std::byte, 8> eight{};
  EQUAL(m.write(2, eight).error().code, EINVAL);
  EQUAL(m.read(0, std::span(eight).first(3)).error().code, EINVAL);
  EQUAL(m.write(3996, eight).error().code, EFAULT);
  EQUAL(m.read(~uint64_t{3}, eight).error().code, EFAULT);
  DeviceMemory moved = std::move(m);
  EQUAL(content(moved, 0, 4000), bytes);
  // The same block by its number; what is imported goes without a trace.
  {
    auto again = DeviceMemory::import(dev().registrar(), moved.number());
    CU_ASSERT_FATAL(again.ok());
    EQUAL(content(*again, 0, 4000), bytes);
    EQUAL(DeviceMemory::import(dev().registrar(), moved.number()).error().code, EEXIST);
    CU_ASSERT(again->write(8, eight).ok());
  }
  EQUAL(content(moved, 8, 8), std::vector<std::byte>(8));
  EQUAL(DeviceMemory::import(dev().registrar(), 0xfff0).error().code, ENOENT);
}

void rights_of_a_block(Peer& peer, DeviceMemory& m) {
  EQUAL(m.region({.at = 4000, .bytes = 97, .access = 0}).error().code, EINVAL);
  EQUAL(m.region({.bytes = 8, .access = Access::remote_write}).error().code, EINVAL);
  EQUAL(m.region({.bytes = 8, .access = Access::local | Access::mw_bind}).error().code, EINVAL);
  auto read_only = m.region({.bytes = 64, .access = Access::local | Access::remote_read});
  CU_ASSERT_FATAL(read_only.ok());
  CU_ASSERT(peer.read(0, read_only->region().rkey));
  CU_ASSERT_FALSE(peer.write(0, read_only->region().rkey));
}

void peers_reach_a_region() {
  Peer peer{dev()};
  CU_ASSERT_FATAL(peer.ok());
  DeviceMemory m = block(4096);
  auto region = m.region({.at = 1024, .bytes = 1000, .access = Access::all});
  CU_ASSERT_FATAL(region.ok());
  const mr::Region& r = region->region();
  EQUAL(r.kind, mr::Kind::device);
  EQUAL(r.iova, 0);
  EQUAL(r.length, 1000);
  EQUAL(r.entries, 0);
  EQUAL(device::recv_memory_of(r), device::RecvMemory::device);
  const auto bytes = pattern(1000, 8);
  std::memcpy(peer.own.data(), bytes.data(), 1000);
  CU_ASSERT(peer.write(0, r.rkey, 1000));
  EQUAL(content(m, 1024, 1000), bytes);
  std::memset(peer.own.data(), 0, 1000);
  CU_ASSERT(peer.read(0, r.rkey, 1000));
  EQUAL(std::memcmp(peer.own.data(), bytes.data(), 1000), 0);
  std::memset(peer.own.data(), 0, 1000);
  CU_ASSERT(peer.gather(10, r.lkey, 900));
  EQUAL(std::memcmp(peer.own.data(), bytes.data() + 10, 900), 0);
  CU_ASSERT_FALSE(peer.write(1, r.rkey, 1000));
  CU_ASSERT_FALSE(peer.read(1000, r.rkey, 1));
  // By the process's address nobody knows it, so no index takes it.
  CU_ASSERT_FALSE(peer.read(r.address, r.rkey));
  EQUAL(m.reset().error().code, EBUSY);
  EQUAL(region->reregister({.access = true, .new_access = Access::local}).outcome,
        mr::ReregOutcome::refused);
  region->reset();
  CU_ASSERT_FALSE(peer.read(0, r.rkey));
  rights_of_a_block(peer, m);
}

// Host, device and host memory, shown by one key, read and written through it.
void it_is_gathered_with_host_memory() {
  test::KeyRig rig{dev(), 8};
  CU_ASSERT_FATAL(rig.ok());
  DeviceMemory m = block(4096);
  auto region = m.region({.at = 64, .bytes = 2048, .access = Access::all});
  CU_ASSERT_FATAL(region.ok());
  CU_ASSERT(m.write(0, pattern(4096, 5)).ok());
  const mr::Region& host = rig.mr();
  const std::array<umr::Piece, 3> pieces{{{host.iova + 8, 100, host.lkey},
                                          {500, 300, region->region().lkey},
                                          {host.iova + 4000, 50, host.lkey}}};
  mkey::Binding key = rig.binder->claim();
  queue::WqeCursor c{*rig.loop.sq};
  CU_ASSERT_FATAL(rig.binder->bind(c, key, test::KeyRig::all, umr::View::of(pieces)).ok());
  constexpr uint64_t half = test::KeyRig::area_bytes / 2;
  CU_ASSERT_FATAL(queue::rdma_write(c, {host.iova + half, host.rkey},
                                    queue::Sge{0, 450, key.lkey_behind(c)},
                                    {.flags = queue::WrFlags::signalled}));
  rig.binder->commit(c);
  CU_ASSERT(rig.settle());
  const auto inner = content(m, 564, 300);
  EQUAL(std::memcmp(&rig.memory[half], &rig.memory[8], 100), 0);
  EQUAL(std::memcmp(&rig.memory[half + 100], inner.data(), 300), 0);
  EQUAL(std::memcmp(&rig.memory[half + 400], &rig.memory[4000], 50), 0);
}

// To the host's slot 3.
void write_out_of_a_buffer(test::InlineLoop& loop, pool::BufferCache& cache,
                           const pool::Arena& arena, Lkey key) {
  pool::Handle h;
  EQUAL_FATAL(cache.alloc({&h, 1}, 100), 1);
  const auto bytes = pattern(100, 99);
  std::memcpy(arena.data(h), bytes.data(), 100);
  queue::WqeCursor c{*loop.sq};
  CU_ASSERT(queue::rdma_write(c, loop.remote(loop.slot(3)),
                              queue::Sge{arena.address(h).value(), h.length, key},
                              {.flags = queue::WrFlags::signalled}));
  c.commit();
  CU_ASSERT(loop.sent().has_value());
  EQUAL(std::memcmp(loop.slot(3), bytes.data(), 100), 0);
  cache.free_one(h);
}

// Three hundred messages of 1 to 128 bytes, each into a buffer that lies in `memory`.
void receive_letters(test::InlineLoop& loop, burst::RecvQueue<queue::Rq>& q,
                     pool::BufferCache& cache, std::span<std::byte> memory) {
  uint64_t got = 0, wrong = 0;
  auto look = [&](const burst::Message& message) {
    if (!message.completion.ok() || message.where != burst::Where::buffer) wrong++;
    const auto* at = message.bytes.data();
    if (at < memory.data() || at >= memory.data() + memory.size()) wrong++;
    for (uint32_t i = 0; i < message.bytes.size(); i++)
      if (message.bytes[i] != letter(got, i)) wrong++;
    cache.free_one(message.buffer);
    got++;
  };
  constexpr uint64_t total = 300;
  for (uint64_t sent = 0; sent < total && wrong == 0; sent++) {
    const uint32_t bytes = 1 + static_cast<uint32_t>(sent % 128);
    CU_ASSERT_FATAL(loop.send(sent, bytes));
    CU_ASSERT_FATAL(loop.sent().has_value());
    for (int turn = 0; turn < 2000 && got <= sent; turn++)
      if (burst::recv_burst(q, 16, look) == 0) loop.device.progress();
  }
  EQUAL(got, total);
  EQUAL(wrong, 0);
}

// Messages into buffers of the adapter, sent on from there: an arena that the keys know from 0.
void a_pool_lies_on_it() {
  CU_ASSERT_TRUE_FATAL(test::start_eal());
  test::InlineLoop loop{dev(), {.memory = device::RecvMemory::device}};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  EQUAL(loop.qp->inlined.received, 0);
  constexpr uint32_t buffers = 64, stride = 192;
  DeviceMemory m = block(uint64_t{buffers} * stride);
  auto region = m.region({.bytes = m.size(), .access = Access::local});
  CU_ASSERT_FATAL(region.ok());
  const pool::Arena arena =
      pool::Arena::over(m.mapped(), stride)->known_at(Va{region->region().iova});
  auto pool = pool::Pool::create(arena, {.name = "on_device", .count = buffers});
  CU_ASSERT_FATAL(pool.ok());
  pool::BufferCache cache{*pool};
  burst::RecvQueue<queue::Rq> q{.rq = std::move(*loop.rq),
                                .cq = std::move(*loop.recv_cq),
                                .cache = &cache,
                                .arena = arena,
                                .key = region->region().lkey,
                                .refill_at = 1};
  burst::rx_refill(q);
  receive_letters(loop, q, cache, m.mapped());
  write_out_of_a_buffer(loop, cache, arena, region->region().lkey);
  cache.flush();
  EQUAL(pool->available() + q.rq.posted(), buffers);
  loop.qp.destroy();  // the device leaves the pool's memory alone from here on
}

// Such buffers and data in entries exclude each other.
void inline_receive_is_refused() {
  test::InlineLoop loop{dev(), {}};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  DeviceMemory m = block(4096);
  auto region = m.region({.bytes = 4096, .access = Access::local});
  CU_ASSERT_FATAL(region.ok());
  device::RcRequest request;
  request.queues = {.send_cq = loop.scq->handle, .recv_cq = loop.rcq->handle, .recv_wrs = 4};
  request.queues.recv_memory = device::recv_memory_of(region->region());
  request.queues.inline_receive = device::InlineReceive::on;
  EQUAL(dev().create_rc(request).error().code, EINVAL);
  CU_ASSERT_FALSE(
      (test::InlineLoop{dev(),
                        {.wish = device::InlineReceive::on, .memory = device::RecvMemory::device}})
          .ok());
}

const test::Case cases[] = {
    {"an adapter says how much memory it has, and gives no more", an_adapter_says_what_it_has},
    {"bytes go in and out, by an import too", bytes_go_in_and_out},
    {"peers reach a region, and nothing beside it", peers_reach_a_region},
    {"device memory is bound with host memory", it_is_gathered_with_host_memory},
    {"a pool lies on device memory", a_pool_lies_on_it},
    {"inline receive is refused for buffers there", inline_receive_is_refused},
};

}  // namespace
}  // namespace device_memory_ut

KILIM_TEST_SUITE(device_memory, device_memory_ut::cases)
