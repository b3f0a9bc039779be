// SPDX-License-Identifier: BSD-3-Clause
#include "forwarder.hh"

#include <algorithm>
#include <string>

#include <rte_lcore.h>

namespace kilim::testpmd {
namespace {

// Testpmd's default peers: 02:00:00:00:00:PORT.
Mac default_peer(uint32_t port) {
  return {2, 0, 0, 0, 0, static_cast<uint8_t>(port)};
}

// A burst of txonly's packets; modes that do not send have none.
uint32_t send_first(Stream& s) noexcept {
  s.tx_first--;
  return s.tx != nullptr || s.tx_ethdev != no_ethdev ? txonly_engine.run(s) : 1;
}

bool settled(Stream& s) noexcept {
  if (!s.fifo.empty()) return false;
  if (s.tx == nullptr) return true;
  if (port::PacketGather* w = s.tx->packet_gather(s.tx_queue);
      w != nullptr && !w->failed() && !w->idle())
    return false;
  const burst::TxQueue& q = s.tx->tx_queue(s.tx_queue);
  return q.failed || q.sent.held() == 0;
}

uint32_t run_stream(void* context, uint32_t) noexcept {
  auto& s = *static_cast<Stream*>(context);
  if (s.tx_first != 0 && !s.draining) return send_first(s);
  const uint64_t begin = rte_rdtsc();
  const uint32_t did = s.run(s);
  if (did != 0) {
    const uint64_t took = rte_rdtsc() - begin;
    if (!preempted(took)) s.cycles.add(took);
  }
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
// The device's first poller says when there is work.
bool watch_nothing(void*, worker::WaitSet&) noexcept {
  return true;
}
// An ethdev has to be looked at.
const worker::Waiting* stream_waits(const Stream& s) noexcept {
  return s.rx != nullptr ? &stream_waiting : nullptr;
}

}  // namespace

std::variant<std::unique_ptr<Forwarder>, Exit> Forwarder::create(const Options& options,
                                                                 const bool volatile& stop) {
  std::unique_ptr<Forwarder> f(new Forwarder);
  f->options_ = options;
  f->engine_ = find_engine(options.mode);
  constexpr Step steps[] = {&Forwarder::look_for_ports, &Forwarder::choose_ports,
                            &Forwarder::choose_lcores,  &Forwarder::make_plans,
                            &Forwarder::make_memory,    &Forwarder::make_lanes,
                            &Forwarder::make_streams,   &Forwarder::set_spreads,
                            &Forwarder::start_ports,    &Forwarder::make_workers};
  for (const Step step : steps) {
    if (stop) return Exit{1, "interrupted during set-up; everything is given back"};
    if (auto exit = ((*f).*step)()) return *std::move(exit);
  }
  return f;
}

// Ports before caches before pools before the arena.
Forwarder::~Forwarder() {
  for (Lane& lane : lanes_) lane.worker.reset();
  for (uint32_t p = 0; p < ports_.size(); p++) {
    stop_port(p);
    if (ports_[p].native != nullptr) ports_[p].native->unconfigure();
  }
  lanes_.clear();
}

std::optional<Exit> Forwarder::choose_lcores() {
  for (const uint32_t p : forwarding_)
    if (senders_to(p) > sizes_of(p).txq)
      return Exit{1, "--txq=" + std::to_string(options_.txq) + ": the " +
                         std::to_string(senders_to(p)) +
                         " receive queues need a transmit queue each; leave --txq out or raise it"};
  for (const uint32_t p : forwarding_) stream_count_ += streams_a_port(p);
  unsigned lcore;
  RTE_LCORE_FOREACH_WORKER(lcore) lcores_.push_back(lcore);
  alone_ = lcores_.empty();
  if (alone_ && options_.interactive)
    return Exit{1,
                "the prompt has the main lcore for itself: give EAL's -l a second one to forward, "
                "such as -l 0-1, or --lcores 0@0,1@0 where there is one CPU"};
  if (alone_) lcores_.push_back(rte_get_main_lcore());
  if (options_.nb_cores > lcores_.size())
    return Exit{1, "--nb-cores=" + std::to_string(options_.nb_cores) + " and EAL has " +
                       std::to_string(lcores_.size()) +
                       " to forward: name more with -l, the first is the main lcore"};
  lcores_.resize(std::min(options_.nb_cores, stream_count_));
  return std::nullopt;
}

std::optional<Exit> Forwarder::make_lanes() {
  for (const uint32_t lcore : lcores_) {
    Lane lane;
    lane.lcore = lcore;
    lane.cache = std::make_unique<pool::BufferCache>(pool());
    lane.cache->set_tag("packets");
    if (header_pool_) lane.headers = std::make_unique<pool::BufferCache>(*header_pool_);
    if (header_pool_) lane.headers->set_tag("headers");
    if (options_.latency) lane.latency = std::make_unique<Latency>();
    for (uint32_t p = 0; options_.latency && p < ports_.size(); p++)
      if (ports_[p].native != nullptr) lane.latency->set_clock(p, ports_[p].native->device());
    lanes_.push_back(std::move(lane));
  }
  return std::nullopt;
}

// Streams that follow each other are one lcore's, so that both directions of a pair of ports are;
// the last lcores take those that remain (DPDK app/test-pmd/config.c,
// setup_fwd_config_of_each_lcore()).
Lane& Forwarder::lane_of(uint32_t stream) noexcept {
  const auto lanes = static_cast<uint32_t>(lanes_.size());
  const uint32_t each = stream_count_ / lanes, shorter = lanes - stream_count_ % lanes;
  const uint32_t before = shorter * each;  // streams of the lcores that take none more
  return lanes_[stream < before ? stream / each : shorter + (stream - before) / (each + 1)];
}

void Forwarder::add_stream(uint32_t made, uint32_t port, uint32_t queue) {
  Lane& lane = lane_of(made);
  auto s = std::make_unique<Stream>();
  const uint32_t out = engine_->receives ? partner(port) : port;
  if (engine_->receives) s->rx = ports_[port].native, s->rx_ethdev = ports_[port].ethdev;
  // rxonly sends nothing but what tx_first asks for.
  if (engine_->transmits || queue < sizes_of(out).txq)
    s->tx = ports_[out].native, s->tx_ethdev = ports_[out].ethdev;
  s->rx_port = port;
  s->rx_queue = queue;
  s->tx_queue = queue;
  s->tx_port = out;
  s->mbufs = mbufs_ ? &*mbufs_ : nullptr;
  s->cache = lane.cache.get();
  s->headers = lane.headers.get();
  s->pieces = pieces_a_packet();
  s->plan = plans_[out];
  s->divides = options_.lro && s->rx != nullptr && s->tx != nullptr;
  s->own = mac_of(ports_[out]);
  if (options_.num_packets != 0)
    s->tx_limit = options_.num_packets / stream_count_ +
                  (made < options_.num_packets % stream_count_ ? 1 : 0);
  if (options_.num_packets != 0 && !engine_->makes) s->budget = &budget_;
  if (lane.latency) s->latency = lane.latency.get();
  if (binds_keys(out)) s->chains.resize(std::size_t{options_.keys} * (burst::max_rx_segments + 1));
  tune(*s);
  lane.streams.push_back(std::move(s));
}

// What may change between two runs.
void Forwarder::tune(Stream& s) {
  const auto peer = options_.peers.find(s.tx_port);
  s.peer = peer != options_.peers.end() ? peer->second : default_peer(s.tx_port);
  s.run = engine_->run;
  s.burst = options_.burst;
  s.tx_length = options_.tx_length;
  // tx_first of a mode whose queues take packets of one piece sends as many bytes in one.
  s.tx_segments =
      options_.tx_segments.size() <= s.pieces ? options_.tx_segments : std::vector<uint32_t>{};
  s.modes = &options_.modes;
  if (engine_ != &noisy_engine) return;
  s.fifo.reserve(std::size_t{options_.modes.noisy_buffer} + 2 * max_burst);
  const ModeOptions& m = options_.modes;
  if (m.noisy_reads + m.noisy_writes + m.noisy_both != 0)
    s.noise.resize(std::size_t{std::max(1u, m.noisy_memory)} << 20);
}

std::optional<Exit> Forwarder::make_streams() {
  budget_ = static_cast<int64_t>(std::min<uint64_t>(options_.num_packets, INT64_MAX));
  // A queue of each port, then the next (config.c, rss_fwd_config_setup()).
  uint32_t made = 0;
  for (uint32_t q = 0; made < stream_count_; q++)
    for (const uint32_t p : forwarding_)
      if (q < streams_a_port(p)) add_stream(made++, p, q);
  return std::nullopt;
}

void Forwarder::add_device(Lane& lane, const worker::Poller& device) {
  lane.devices.push_back(std::make_unique<TimedDevice>(device));
  (void)lane.worker->add(lane.devices.back()->poller());
}

// The devices of this lane's streams, each once and before the streams. Where two are the ends of a
// cable the first one takes in once more what the second has sent: frames would need two rounds one
// way and one the other else, and the ports' rates would differ by that.
void Forwarder::add_devices(Lane& lane) {
  static constexpr worker::Waiting sleeps_as_it_is{nullptr, watch_nothing, nullptr};
  std::vector<port::Port*> seen;
  for (const auto& s : lane.streams) {
    for (port::Port* p : {s->rx, s->tx}) {
      if (p == nullptr || std::find(seen.begin(), seen.end(), p) != seen.end()) continue;
      if (p->poller().fn != nullptr) add_device(lane, p->poller());
      seen.push_back(p);
    }
  }
  for (std::size_t i = 0; i < seen.size(); i++) {
    worker::Poller again = seen[i]->poller();
    const bool sends_back =
        std::any_of(seen.begin() + static_cast<long>(i) + 1, seen.end(), [&](const port::Port* p) {
          return !cable_of(*p).empty() && cable_of(*p) == cable_of(*seen[i]);
        });
    if (again.fn == nullptr || !sends_back) continue;
    again.waiting = &sleeps_as_it_is;
    add_device(lane, again);
  }
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
    add_devices(lane);
    for (const auto& s : lane.streams)
      (void)lane.worker->add({run_stream, s.get(), engine_->name, stream_waits(*s)});
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

void Forwarder::rewind(uint32_t tx_first) noexcept {
  for (Lane& lane : lanes_) {
    lane.worker->clear_stop();
    for (const auto& s : lane.streams) {
      s->draining = false;
      s->idle_since_drain = Counter{};
      s->tx_first = tx_first;
    }
  }
}

void Forwarder::clear_counts() noexcept {
  for (Lane& lane : lanes_)
    for (const auto& s : lane.streams) s->begun = s->counts();
}

bool Forwarder::retune(const Options& options) {
  const Engine* next = find_engine(options.mode);
  // Streams of rxonly may send, for tx_first.
  bool alike = next->receives == engine_->receives && !next->gathered && !next->splits &&
               !engine_->gathered && !engine_->splits;
  for (const Lane& lane : lanes_)
    for (const auto& st : lane.streams)
      alike &= !next->transmits || st->tx != nullptr || st->tx_ethdev != no_ethdev;
  if (!alike || !same_queues(options, options_)) return false;
  engine_ = next;
  options_ = options;
  for (Lane& lane : lanes_)
    for (const auto& s : lane.streams) tune(*s);
  return true;
}

}  // namespace kilim::testpmd
