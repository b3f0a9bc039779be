// SPDX-License-Identifier: BSD-3-Clause
// Messages of 32 bytes received into buffers of a pool, 32 at a time: with inline receive, and
// without. The program reads each message and gives back what it holds; the queue gets new buffers.
#include "perf/compare/line.hh"

#include <cstring>
#include <optional>

#include "kilim/device.hh"
#include "kilim/inline_recv.hh"
#include "kilim/queue.hh"
#include "kilim/region.hh"
#include "mlx5/open.hh"

namespace kilim::perf {
namespace {

constexpr uint32_t receives = 64;
constexpr uint32_t buffers = 256;
constexpr uint32_t stride = 192;

// A connection to itself whose receives come from a pool.
struct Receiver {
  std::unique_ptr<device::Device> device;
  std::vector<std::byte> memory{std::size_t{buffers} * stride};
  std::optional<mr::Mr> region;
  std::optional<pool::Pool> pool;
  std::optional<pool::BufferCache> cache;
  device::OwnedCq send_cq, recv_cq;
  device::OwnedQp qp;
  std::vector<uint64_t> send_ids, recv_ids;
  std::optional<queue::Sq> sq;
  std::optional<queue::Cq> sent;
  std::optional<burst::RecvQueue<queue::Rq>> rq;

  bool open(Rig& r, const char* name, device::InlineReceive wish) {
    auto opened = mlx5::open(ibv_get_device_name(r.device.context->device));
    if (!opened) return false;
    device = *std::move(opened);
    auto mr = mr::Mr::create(device->registrar(), memory, mr::Access::local, 4096);
    auto a = device::create_cq(*device, receives);
    auto b = device::create_cq(*device, receives);
    auto arena = pool::Arena::over(memory, stride);
    if (!mr || !a || !b || !arena) return false;
    auto made = pool::Pool::create(*arena, {.name = name, .count = buffers - 1});
    if (!made) return false;
    region.emplace(*std::move(mr));
    send_cq = *std::move(a);
    recv_cq = *std::move(b);
    pool.emplace(*std::move(made));
    cache.emplace(*pool);
    auto pair = device::create_rc_loopback(*device, {.queues = {.send_cq = send_cq->handle,
                                                                .recv_cq = recv_cq->handle,
                                                                .send_wqebbs = receives,
                                                                .recv_wrs = receives,
                                                                .inline_receive = wish}});
    if (!pair) return false;
    qp = *std::move(pair);
    send_ids.resize(qp->sq.wqebb_count);
    recv_ids.resize(qp->rq.wqe_count);
    sq.emplace(qp->sq, send_ids);
    sent.emplace(send_cq->geometry);
    rq.emplace(burst::RecvQueue<queue::Rq>{.rq = queue::Rq(qp->rq, recv_ids),
                                           .cq = queue::Cq(recv_cq->geometry),
                                           .cache = &*cache,
                                           .arena = *arena,
                                           .key = region->region().lkey});
    return burst::rx_refill(*rq) == receives;
  }

  // All from the last buffer, which is none of the pool's.
  uint32_t send(Rig& r, uint32_t bytes) {
    const auto from = reinterpret_cast<uint64_t>(&memory[std::size_t{buffers - 1} * stride]);
    queue::WqeCursor c{*sq};
    for (uint32_t i = 0; i < round_requests; i++)
      (void)queue::send(c, queue::Sge{from, bytes, region->region().lkey}, {});
    c.signal_last();
    c.commit();
    r.device.run();
    queue::Completion done[1];
    return sent->poll(done, *sq) == 1 && done[0].ok() ? round_requests : 0;
  }
};

// Each is made when it is needed first.
Receiver* receiver(Rig& r, device::InlineReceive wish) {
  const bool on = wish == device::InlineReceive::on;
  std::shared_ptr<void>& mine = r.of_lines[on ? 1 : 0];
  if (mine != nullptr) return static_cast<Receiver*>(mine.get());
  auto fresh = std::make_shared<Receiver>();
  if (!fresh->open(r, on ? "inline_on" : "inline_off", wish)) return nullptr;
  mine = fresh;
  return fresh.get();
}

template <device::InlineReceive Wish>
uint32_t prepare(Rig& r, const Case& c) {
  Receiver* self = receiver(r, Wish);
  return self == nullptr ? 0 : self->send(r, c.pieces);
}

struct alignas(32) Read {
  std::byte bytes[32];
};
std::array<Read, round_requests> seen;

template <device::InlineReceive Wish>
[[gnu::noinline]] uint32_t receive(Rig& r, const Case& c) {
  Receiver& self = *receiver(r, Wish);
  uint32_t n = 0;
  const burst::Where where =
      Wish == device::InlineReceive::on ? burst::Where::entry : burst::Where::buffer;
  bool as_wished = true;
  burst::recv_burst(*self.rq, round_requests, [&](const burst::Message& m) noexcept {
    std::memcpy(&seen[n++], m.bytes.data(), sizeof(Read));
    as_wished = as_wished && m.where == where && m.bytes.size() == c.pieces;
    if (m.where == burst::Where::buffer) self.cache->free_one(m.buffer);
  });
  return as_wished ? n : 0;
}

constexpr auto on = device::InlineReceive::on;
constexpr auto off = device::InlineReceive::off;
constexpr Case cases[] = {{"32 bytes", 32}};
constexpr Side peers[] = {{"posted buffers", receive<off>, prepare<off>}};

}  // namespace

const Line inline_line = {"messages of 32 bytes, inline receive",       0,     1.0, cases,
                          {"inline receive", receive<on>, prepare<on>}, peers, true};

}  // namespace kilim::perf
