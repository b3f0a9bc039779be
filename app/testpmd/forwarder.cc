// SPDX-License-Identifier: BSD-3-Clause
#include "forwarder.hh"

#include <algorithm>
#include <string>

#include <rte_lcore.h>

#include "net/kilim/native.hh"

namespace kilim::testpmd {
namespace {

// Testpmd's default peers: 02:00:00:00:00:PORT.
Mac default_peer(uint32_t port) {
  return {2, 0, 0, 0, 0, static_cast<uint8_t>(port)};
}

bool settled(Stream& s) noexcept {
  if (s.tx == nullptr) return true;
  if (port::PacketGather* w = s.tx->packet_gather(s.tx_queue);
      w != nullptr && !w->failed() && !w->idle())
    return false;
  const burst::TxQueue& q = s.tx->tx_queue(s.tx_queue);
  return q.failed || q.sent.held() == 0;
}

uint32_t run_stream(void* context, uint32_t) noexcept {
  auto& s = *static_cast<Stream*>(context);
  const uint32_t did = s.run(s);
  if (s.draining && did == 0 && settled(s)) s.idle_since_drain.add(1);
  return did;
}

void arm_stream(void* context) noexcept {
  auto& s = *static_cast<Stream*>(context);
  if (s.rx != nullptr) s.rx->arm_rx(s.rx_queue);
}
// A stream sleeps when all that it sent is back; one without a receive queue has always work.
bool watch_stream(void* context, worker::WaitSet& set) noexcept {
  auto& s = *static_cast<Stream*>(context);
  if (s.rx == nullptr || s.draining || !settled(s)) return false;
  s.rx->watch_rx(s.rx_queue, set);
  return true;
}
constexpr worker::Waiting stream_waiting{arm_stream, watch_stream, nullptr};

}  // namespace

std::variant<std::unique_ptr<Forwarder>, Exit> Forwarder::create(const Options& options,
                                                                 const bool volatile& stop) {
  std::unique_ptr<Forwarder> f(new Forwarder);
  f->options_ = options;
  f->engine_ = find_engine(options.mode);
  constexpr Step steps[] = {&Forwarder::find_ports,  &Forwarder::choose_lcores,
                            &Forwarder::make_plans,  &Forwarder::make_memory,
                            &Forwarder::make_lanes,  &Forwarder::make_streams,
                            &Forwarder::start_ports, &Forwarder::make_workers};
  for (const Step step : steps) {
    if (stop) return Exit{1, "interrupted during set-up; everything is given back"};
    if (auto exit = ((*f).*step)()) return *std::move(exit);
  }
  return f;
}

// Ports before caches before pools before the arena.
Forwarder::~Forwarder() {
  for (Lane& lane : lanes_) lane.worker.reset();
  for (port::Port* p : ports_) p->unconfigure();
  lanes_.clear();
}

std::optional<Exit> Forwarder::find_ports() {
  for (unsigned i = 0; kilim_port* p = rte_pmd_kilim_port_at(i); i++)
    ports_.push_back(&net::native(p));
  if (ports_.size() < options_.ports_asked)
    return Exit{1, "ports asked for: " + std::to_string(options_.ports_asked) +
                       ", come up: " + std::to_string(ports_.size()) +
                       "; a message above says why (--help lists the devargs)"};
  if (ports_.empty())
    return Exit{1,
                "no port: give EAL one before `--`, for example --vdev "
                "net_kilim0,hca=vhca0,wire=pcap:in.pcap:out.pcap (--help lists the devargs)"};
  for (const auto& [port, mac] : options_.peers)
    if (port >= ports_.size())
      return Exit{1, "--eth-peer names port " + std::to_string(port) + " and there are " +
                         std::to_string(ports_.size()) + " (0 is the first)"};
  return std::nullopt;
}

uint32_t Forwarder::streams_a_port(uint32_t port) const noexcept {
  const port::QueueSizes sizes = sizes_of(*ports_[port]);
  return engine_->receives ? sizes.rxq : sizes.txq;
}

std::optional<Exit> Forwarder::choose_lcores() {
  for (const port::Port* p : ports_)
    if (senders_to(*p) > sizes_of(*p).txq)
      return Exit{1, "--txq=" + std::to_string(options_.txq) + ": the " +
                         std::to_string(senders_to(*p)) +
                         " receive queues need a transmit queue each; leave --txq out or raise it"};
  for (uint32_t p = 0; p < ports_.size(); p++) stream_count_ += streams_a_port(p);
  unsigned lcore;
  RTE_LCORE_FOREACH_WORKER(lcore) lcores_.push_back(lcore);
  alone_ = lcores_.empty();
  if (alone_) lcores_.push_back(rte_get_main_lcore());
  if (options_.nb_cores > lcores_.size())
    return Exit{1, "--nb-cores=" + std::to_string(options_.nb_cores) + " and EAL has " +
                       std::to_string(lcores_.size()) +
                       " to forward: name more with -l, the first is the main lcore"};
  lcores_.resize(std::min(options_.nb_cores, stream_count_));
  return std::nullopt;
}

// Receive queues whose packets a port sends.
uint32_t Forwarder::senders_to(const port::Port& port) const noexcept {
  if (!engine_->receives || !engine_->transmits) return 0;
  const auto at = std::find(ports_.begin(), ports_.end(), &port);
  const uint32_t from = partner(static_cast<uint32_t>(at - ports_.begin()));
  return options_.rxq != 0 ? options_.rxq : ports_[from]->defaults().rxq;
}

port::QueueSizes Forwarder::sizes_of(const port::Port& port) const noexcept {
  port::QueueSizes s = port.defaults();
  if (options_.rxq != 0) s.rxq = options_.rxq;
  if (options_.txq != 0) s.txq = options_.txq;
  if (options_.txq == 0) s.txq = std::max({s.txq, s.rxq, senders_to(port)});
  if (options_.rxd != 0) s.rxd = options_.rxd;
  if (options_.txd != 0) s.txd = options_.txd;
  return s;
}

std::optional<Exit> Forwarder::make_lanes() {
  for (const uint32_t lcore : lcores_) {
    Lane lane;
    lane.lcore = lcore;
    lane.cache = std::make_unique<pool::BufferCache>(*pool_);
    lane.cache->set_tag("packets");
    if (header_pool_) lane.headers = std::make_unique<pool::BufferCache>(*header_pool_);
    if (header_pool_) lane.headers->set_tag("headers");
    lanes_.push_back(std::move(lane));
  }
  return std::nullopt;
}

uint32_t Forwarder::partner(uint32_t port) const noexcept {
  const uint32_t other = port ^ 1u;
  return other < ports_.size() ? other : port;
}

void Forwarder::add_stream(uint32_t port, uint32_t queue) {
  uint32_t made = 0;
  for (const Lane& l : lanes_) made += static_cast<uint32_t>(l.streams.size());
  Lane& lane = lanes_[made % lanes_.size()];
  auto s = std::make_unique<Stream>();
  s->run = engine_->run;
  const uint32_t out = engine_->receives ? partner(port) : port;
  if (engine_->receives) s->rx = ports_[port];
  if (engine_->transmits) s->tx = ports_[out];
  s->rx_queue = queue;
  s->tx_queue = queue;
  s->tx_port = out;
  s->cache = lane.cache.get();
  s->headers = lane.headers.get();
  s->burst = options_.burst;
  s->pieces = buffers_a_packet() + (engine_->splits ? 1 : 0);
  s->plan = plans_[out];
  const auto peer = options_.peers.find(out);
  s->peer = peer != options_.peers.end() ? peer->second : default_peer(out);
  s->tx_length = options_.tx_length;
  if (options_.num_packets != 0)
    s->tx_limit = options_.num_packets / stream_count_ +
                  (made < options_.num_packets % stream_count_ ? 1 : 0);
  if (binds_keys(out)) s->chains.resize(std::size_t{options_.keys} * (burst::max_rx_segments + 1));
  lane.streams.push_back(std::move(s));
}

std::optional<Exit> Forwarder::make_streams() {
  for (uint32_t p = 0; p < ports_.size(); p++)
    for (uint32_t q = 0; q < streams_a_port(p); q++) add_stream(p, q);
  return std::nullopt;
}

// Queues that no stream uses belong to the first lane, which never polls them.
Status Forwarder::configure(port::Port& port) {
  const port::QueueSizes sizes = sizes_of(port);
  if (Status s = port.configure(sizes, *memory_); !s) return s;
  for (uint32_t q = 0; q < sizes.rxq; q++) (void)port.set_rx(q, {.cache = lanes_[0].cache.get()});
  for (uint32_t q = 0; q < sizes.txq; q++) (void)port.set_tx(q, {.cache = lanes_[0].cache.get()});
  for (Lane& lane : lanes_)
    for (const auto& s : lane.streams)
      if (Status st = set_up(port, *s); !st) return st;
  return Done{};
}

// The queues of a stream at a port.
Status Forwarder::set_up(port::Port& port, const Stream& s) {
  port::RxSetup rx{.cache = s.cache,
                   .events = options_.idle == worker::Idle::sleep,
                   .buffers = buffers_a_packet()};
  if (engine_->splits)
    rx.split = {.header_bytes = options_.split.header_bytes, .headers = s.headers};
  if (s.rx == &port)
    if (Status st = port.set_rx(s.rx_queue, rx); !st) return st;
  if (s.tx != &port) return Done{};
  const bool keys = binds_keys(s.tx_port);
  return port.set_tx(
      s.tx_queue,
      {.cache = s.cache,
       .config = {.multi_seg = s.pieces > 1, .gathered = keys, .two_pools = engine_->splits},
       .keys = keys ? options_.keys : 0,
       .headers = s.headers});
}

// Testpmd's words: by address unless more is asked.
flow::Rss Forwarder::rss() const {
  flow::Rss rss;
  rss.types = flow::HashTypes::ip | (options_.rss_udp ? flow::HashTypes::udp : 0);
  return rss;
}

std::optional<Exit> Forwarder::start_ports() {
  const bool asked = options_.rss_ip || options_.rss_udp;
  for (port::Port* p : ports_) {
    if (Status s = configure(*p); !s) return failed(p->name(), s.error());
    if (asked || p->sizes().rxq > 1)
      if (Status s = p->set_rss(rss()); !s) return failed(p->name(), s.error());
    if (Status s = p->start(); !s) return failed(p->name(), s.error());
  }
  return std::nullopt;
}

std::optional<Exit> Forwarder::make_workers() {
  auto quiescence = worker::Quiescence::create(RTE_MAX_LCORE);
  if (!quiescence) return failed("workers", quiescence.error());
  quiescence_.emplace(*std::move(quiescence));
  for (Lane& lane : lanes_) {
    worker::WorkerConfig config;
    config.lcore = lane.lcore;
    config.idle = options_.idle;
    config.quiescence = &*quiescence_;
    // A device that brought more in a round than a stream takes would only find its queue empty.
    config.budget = options_.burst;
    auto made = worker::Worker::create(config);
    if (!made) return failed("lcore " + std::to_string(lane.lcore), made.error());
    lane.worker = *std::move(made);
    // The devices of this lane's streams, each once and before the streams.
    std::vector<port::Port*> seen;
    for (const auto& s : lane.streams) {
      for (port::Port* p : {s->rx, s->tx}) {
        if (p == nullptr || std::find(seen.begin(), seen.end(), p) != seen.end()) continue;
        seen.push_back(p);
        if (p->poller().fn != nullptr) (void)lane.worker->add(p->poller());
      }
    }
    for (const auto& s : lane.streams)
      (void)lane.worker->add({run_stream, s.get(), engine_->name, &stream_waiting});
  }
  return std::nullopt;
}

void Forwarder::drain() noexcept {
  for (Lane& lane : lanes_) {
    for (const auto& s : lane.streams) {
      auto begin = [](void* c) noexcept { static_cast<Stream*>(c)->draining = true; };
      while (!lane.worker->post({begin, s.get()})) {
      }
    }
  }
}

bool Forwarder::drained() const noexcept {
  for (const Lane& lane : lanes_)
    for (const auto& s : lane.streams)
      if (s->idle_since_drain.read() == 0) return false;
  return true;
}

void Forwarder::stop() noexcept {
  for (Lane& lane : lanes_) lane.worker->stop();
}

}  // namespace kilim::testpmd
