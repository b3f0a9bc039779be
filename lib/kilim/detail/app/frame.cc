// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/app/frame.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include <rte_lcore.h>

#include "kilim/detail/app/place.hh"
#include "kilim/detail/base/memory_reserve.hh"

namespace kilim::inline v1::app {
namespace {

int node_of(uint32_t lcore) noexcept {
  return static_cast<int>(rte_lcore_to_socket_id(lcore));
}

}  // namespace

Result<std::unique_ptr<Frame>> Frame::create(std::span<port::Port* const> ports,
                                             std::span<const uint32_t> lcores,
                                             const Program& program) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (ports.empty()) return Error{EINVAL, "no port: give EAL one, --vdev net_kilim0"};
  if (lcores.empty()) return Error{EINVAL, "no lcore to run the packet function"};
  if (lcores.size() > port::max_txq)
    return Error{EINVAL, "more lcores than a port has transmit queues, 64"};
  if (program.burst == 0 || program.burst > max_burst)
    return Error{EINVAL, "a burst has 1 to 64 packets"};
  std::unique_ptr<Frame> f(new Frame(program));
  f->ports_.assign(ports.begin(), ports.end());
  if (Status s = f->make(lcores); !s) return s.error();
  return f;
}

Status Frame::make(std::span<const uint32_t> lcores) {
  if (Status s = make_buffers(lcores.size()); !s) return s;
  make_lanes(lcores);
  for (uint32_t p = 0; p < ports_.size(); p++)
    if (Status s = start(*ports_[p], p); !s) return s;
  auto quiescence = worker::Quiescence::create(RTE_MAX_LCORE);
  if (!quiescence) return quiescence.error();
  quiescence_.emplace(*std::move(quiescence));
  for (const auto& lane : lanes_)
    if (Status s = make_worker(*lane); !s) return s;
  warn_of_far_lanes();
  return Done{};
}

// Workers before ports before caches before the pool.
Frame::~Frame() {
  for (const auto& lane : lanes_) lane->worker.reset();
  for (port::Port* p : ports_) p->unconfigure();
}

port::QueueSizes Frame::sizes_of(const port::Port& port, std::size_t lanes) const noexcept {
  port::QueueSizes s = port.defaults();
  s.txq = std::max(s.txq, static_cast<uint32_t>(lanes));
  return s;
}

// Enough for full rings, full caches and a burst in each lane's hand and in each of its rows.
Status Frame::make_buffers(std::size_t lanes) {
  auto need = static_cast<uint32_t>(
      lanes * (pool::BufferCache::capacity + max_burst * (1 + ports_.size())));
  for (const port::Port* p : ports_) {
    const port::QueueSizes s = sizes_of(*p, lanes);
    need += s.rxq * s.rxd + s.txq * s.txd;
  }
  pool::ArenaConfig config;
  config.buffers = need;
  config.stride = pool::stride_for(program_.packet_room);
  config.side_records = program_.has_side() || program_.tx_words.any();
  config.holders = program_.shared_packets;
  config.numa_node = ports_[0]->device().numa_node();
  auto memory = pool::ArenaMemory::create(config);
  if (!memory) return memory.error();
  memory_.emplace(*std::move(memory));
  auto pool = pool::Pool::create(memory_->arena(), {.name = "kilim_app", .count = need});
  if (!pool) return pool.error();
  pool_.emplace(*std::move(pool));
  return Done{};
}

void Frame::make_lanes(std::span<const uint32_t> lcores) {
  for (const uint32_t lcore : lcores) {
    auto lane = std::make_unique<Lane>();
    lane->number = static_cast<uint32_t>(lanes_.size());
    lane->lcore = lcore;
    lane->program = &program_;
    lane->cache = std::make_unique<pool::BufferCache>(*pool_);
    for (port::Port* p : ports_) lane->outputs.push_back({.port = p});
    lanes_.push_back(std::move(lane));
  }
}

// Receive queues go to the lane that has fewest, over all ports together; of several to one beside
// the port's device.
Status Frame::start(port::Port& port, uint32_t number) {
  const port::QueueSizes sizes = sizes_of(port, lanes_.size());
  if (Status s = port.configure(sizes, *memory_); !s) return s;
  for (uint32_t q = 0; q < sizes.rxq; q++) {
    std::vector<Place> places;
    for (const auto& lane : lanes_) places.push_back({node_of(lane->lcore), lane->inputs.size()});
    Lane& lane = *lanes_[choose_place(places, port.device().numa_node())];
    const port::RxSetup setup{.cache = lane.cache.get(),
                              .config = {.side = program_.has_side(),
                                         .mark = program_.marks,
                                         .tunnel = program_.tunnels,
                                         .lro = program_.lro},
                              .events = program_.idle == worker::Idle::sleep};
    if (Status s = port.set_rx(q, setup); !s) return s;
    lane.inputs.push_back(std::make_unique<Input>(
        Input{.lane = &lane, .program = &program_, .port = &port, .number = number, .queue = q}));
  }
  for (uint32_t q = 0; q < sizes.txq; q++) {
    pool::BufferCache* cache = lanes_[q % lanes_.size()]->cache.get();
    const port::TxSetup setup{.cache = cache,
                              .config = {.offloads = program_.tx_words.any()},
                              .offload = program_.tx_offload,
                              .words = program_.tx_words};
    if (Status s = port.set_tx(q, setup); !s) return s;
  }
  return port.start();
}

// Devices first, so that what they bring is received in the same turn.
Status Frame::make_worker(Lane& lane) {
  worker::WorkerConfig config;
  config.lcore = lane.lcore;
  config.quiescence = &*quiescence_;
  config.budget = program_.burst;
  config.idle = program_.idle;
  if (program_.on_tick != nullptr) {
    auto tick = [](void* l) noexcept {
      const auto& of = *static_cast<Lane*>(l);
      of.program->on_tick(of.program->context, of.number);
    };
    config.tick = {tick, &lane, program_.tick_us};
  }
  auto made = worker::Worker::create(config);
  if (!made) return made.error();
  lane.worker = *std::move(made);
  for (const port::Port* p : ports_)
    if (p->poller().fn != nullptr)
      if (Status s = lane.worker->add(p->poller()); !s) return s;
  for (const auto& in : lane.inputs)
    if (Status s = lane.worker->add(poller_of(*in)); !s) return s;
  return lane.inputs.empty() ? lane.worker->add(poller_of(lane)) : Done{};
}

Status Frame::move(uint32_t port, uint32_t queue, uint32_t lane) {
  if (lane >= lanes_.size()) return Error{EINVAL, "no such lane"};
  Lane& to = *lanes_[lane];
  for (const auto& from : lanes_) {
    const auto at = std::find_if(from->inputs.begin(), from->inputs.end(), [&](const auto& in) {
      return in->number == port && in->queue == queue;
    });
    if (at == from->inputs.end()) continue;
    return from.get() == &to ? Status(Done{}) : move(*from, to, at - from->inputs.begin());
  }
  return Error{EINVAL, "no such port or receive queue"};
}

// A lane always has something to run: without inputs it takes back what it sent.
Status Frame::move(Lane& from, Lane& to, std::ptrdiff_t at) {
  Input& in = *from.inputs[static_cast<std::size_t>(at)];
  if (Status s = from.worker->remove(poller_of(in)); !s) return s;
  if (Status s = in.port->hand_rx(in.queue, *to.cache); !s) return s;
  in.lane = &to;
  const bool first = to.inputs.empty();
  to.inputs.push_back(std::move(from.inputs[static_cast<std::size_t>(at)]));
  from.inputs.erase(from.inputs.begin() + at);
  if (first)
    if (Status s = to.worker->remove(poller_of(to)); !s) return s;
  if (from.inputs.empty())
    if (Status s = from.worker->add(poller_of(from)); !s) return s;
  return to.worker->add(poller_of(in));
}

// Said once a program: the numbers below are what it costs.
void Frame::warn_of_far_lanes() const {
  for (const auto& lane : lanes_) {
    for (const auto& in : lane->inputs) {
      const int node = in->port->device().numa_node();
      if (!is_far(node_of(lane->lcore), node)) continue;
      std::fprintf(
          stderr,
          "%s: lcore %u is on NUMA node %d and serves %s, whose device is on node %d: each "
          "packet crosses between them; choose lcores of node %d (-l)\n",
          program_.name, lane->lcore, node_of(lane->lcore), in->port->name().c_str(), node, node);
      return;
    }
  }
}

void Frame::drain() noexcept {
  for (const auto& lane : lanes_) {
    auto begin = [](void* l) noexcept { static_cast<Lane*>(l)->draining = true; };
    while (!lane->worker->post({begin, lane.get()})) {
    }
  }
}

bool Frame::drained() const noexcept {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const auto& lane) { return lane->idle_turns.read() != 0; });
}

void Frame::stop() noexcept {
  for (const auto& lane : lanes_) lane->worker->stop();
}

}  // namespace kilim::inline v1::app
