// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/app/frame.hh"

#include <algorithm>
#include <cerrno>

#include <rte_lcore.h>

namespace kilim::app {

Result<std::unique_ptr<Frame>> Frame::create(std::span<port::Port* const> ports,
                                             std::span<const uint32_t> lcores,
                                             const Program& program) {
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
  config.side_records = program_.side_records;
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
    lane->cache = std::make_unique<pool::BufferCache>(*pool_);
    for (port::Port* p : ports_) lane->outputs.push_back({.port = p});
    lanes_.push_back(std::move(lane));
  }
}

// Receive queues go round the lanes, over all ports together.
Status Frame::start(port::Port& port, uint32_t number) {
  const port::QueueSizes sizes = sizes_of(port, lanes_.size());
  if (Status s = port.configure(sizes, *memory_); !s) return s;
  std::size_t given = 0;
  for (const auto& lane : lanes_) given += lane->inputs.size();
  for (uint32_t q = 0; q < sizes.rxq; q++) {
    Lane& lane = *lanes_[given++ % lanes_.size()];
    const port::RxSetup setup{.cache = lane.cache.get(), .config = {.side = program_.side_records}};
    if (Status s = port.set_rx(q, setup); !s) return s;
    lane.inputs.push_back(std::make_unique<Input>(
        Input{.lane = &lane, .program = &program_, .port = &port, .number = number, .queue = q}));
  }
  for (uint32_t q = 0; q < sizes.txq; q++) {
    pool::BufferCache* cache = lanes_[q % lanes_.size()]->cache.get();
    const port::TxSetup setup{.cache = cache, .config = {}, .offload = program_.tx_offload};
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
  auto made = worker::Worker::create(config);
  if (!made) return made.error();
  lane.worker = *std::move(made);
  for (const port::Port* p : ports_)
    if (p->poller().fn != nullptr) lane.worker->add(p->poller());
  for (const auto& in : lane.inputs) lane.worker->add({run_input, in.get(), program_.name});
  return Done{};
}

void Frame::drain() noexcept {
  for (const auto& lane : lanes_) {
    auto begin = [](void* l) noexcept { static_cast<Lane*>(l)->draining = true; };
    while (!lane->worker->post({begin, lane.get()})) {
    }
  }
}

bool Frame::drained() const noexcept {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
    return lane->inputs.empty() || lane->idle_turns.read() != 0;
  });
}

void Frame::stop() noexcept {
  for (const auto& lane : lanes_) lane->worker->stop();
}

}  // namespace kilim::app
