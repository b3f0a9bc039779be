// SPDX-License-Identifier: BSD-3-Clause
// The forwarder's ports: which there are, which forward and to whom, their queues.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>

#include <rte_ethdev.h>

#include "forwarder.hh"
#include "lro.hh"
#include "spread.hh"

namespace kilim::testpmd {

std::optional<Exit> Forwarder::look_for_ports() {
  ports_ = find_ports();
  started_.resize(ports_.size());
  const auto own = std::count_if(ports_.begin(), ports_.end(),
                                 [](const PortRef& p) { return p.native != nullptr; });
  if (static_cast<uint32_t>(own) < options_.ports_asked)
    return Exit{1, "ports asked for: " + std::to_string(options_.ports_asked) +
                       ", come up: " + std::to_string(own) +
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

std::optional<Exit> Forwarder::choose_ports() {
  for (const uint32_t p : options_.portlist) {
    if (p >= ports_.size())
      return Exit{1, "--portlist names port " + std::to_string(p) + " and there are " +
                         std::to_string(ports_.size()) + " (0 is the first)"};
    forwarding_.push_back(p);
  }
  for (uint32_t p = 0; options_.portlist.empty() && p < ports_.size(); p++)
    if (p >= 64 || (options_.portmask >> p & 1) != 0) forwarding_.push_back(p);
  if (forwarding_.empty())
    return Exit{1, "--portmask names none of the " + std::to_string(ports_.size()) + " ports"};
  if (options_.nb_ports > forwarding_.size())
    return Exit{1, "--nb-ports=" + std::to_string(options_.nb_ports) + " and there are " +
                       std::to_string(forwarding_.size())};
  if (options_.nb_ports != 0) forwarding_.resize(options_.nb_ports);
  if (has_ethdevs() && (engine_->gathered || engine_->splits))
    return Exit{1, std::string("mode ") + engine_->name +
                       " needs ports of Kilim (net_kilimN): mbufs have no keys"};
  if (has_ethdevs() && options_.latency)
    return Exit{1, "--latency needs ports of Kilim (net_kilimN): mbufs keep no time of arrival"};
  if (std::string why = refusal_of_lro(options_, *engine_, ports_); !why.empty())
    return Exit{1, why};
  return std::nullopt;
}

bool Forwarder::has_ethdevs() const noexcept {
  return std::any_of(ports_.begin(), ports_.end(),
                     [](const PortRef& p) { return p.native == nullptr; });
}

std::string_view Forwarder::cable_of(const port::Port& port) const {
  const auto wire = options_.wires.find(port.name());
  if (wire == options_.wires.end() || !wire->second.starts_with("cable:")) return {};
  return std::string_view(wire->second)
      .substr(0, wire->second.find('+'));  // what follows changes frames
}

bool Forwarder::ends_here(uint32_t port) const {
  const auto wire = options_.wires.find(name_of(ports_[port]));
  return wire != options_.wires.end() && wire->second.starts_with("cable:");
}

uint32_t Forwarder::streams_a_port(uint32_t port) const noexcept {
  const port::QueueSizes sizes = sizes_of(port);
  return engine_->receives ? sizes.rxq : sizes.txq;
}

port::QueueSizes Forwarder::defaults_of(uint32_t port) const noexcept {
  if (ports_[port].native != nullptr) return ports_[port].native->defaults();
  return {.rxq = 1, .txq = 1, .rxd = 0, .txd = 0};
}

// Receive queues whose packets a port sends.
uint32_t Forwarder::senders_to(uint32_t port) const noexcept {
  if (!engine_->receives || !engine_->transmits) return 0;
  uint32_t most = 0;
  for (const uint32_t from : forwarding_)
    if (partner(from) == port)
      most = std::max(most, options_.rxq != 0 ? options_.rxq : defaults_of(from).rxq);
  return most;
}

port::QueueSizes Forwarder::sizes_of(uint32_t port) const noexcept {
  port::QueueSizes s = defaults_of(port);
  if (options_.rxq != 0) s.rxq = options_.rxq;
  if (options_.txq != 0) s.txq = options_.txq;
  if (options_.txq == 0) s.txq = std::max({s.txq, s.rxq, senders_to(port)});
  if (options_.rxd != 0) s.rxd = options_.rxd;
  if (options_.txd != 0) s.txd = options_.txd;
  return s;
}

// Among those that forward.
uint32_t Forwarder::partner(uint32_t port) const noexcept {
  const auto at = std::find(forwarding_.begin(), forwarding_.end(), port);
  if (at == forwarding_.end() || options_.topology == Topology::loop) return port;
  const auto i = static_cast<std::size_t>(at - forwarding_.begin());
  if (options_.topology == Topology::chained) return forwarding_[(i + 1) % forwarding_.size()];
  const std::size_t other = i ^ 1u;
  return other < forwarding_.size() ? forwarding_[other] : port;
}

port::RxSetup Forwarder::rx_setup(pool::BufferCache* cache, uint32_t port) const noexcept {
  port::RxSetup rx{.cache = cache,
                   .events = options_.idle == worker::Idle::sleep,
                   .buffers = buffers_a_packet()};
  rx.config = {.side = side_records(),
               .vlan = side_records() && strips_vlan(options_, port),
               .timestamp = options_.rx_timestamp || options_.latency,
               .mark = reads_rules(),
               .tunnel = (reads_rules() || hashes_inside(rss_asked(options_))) &&
                         (native_rss_of(port) & RTE_ETH_RSS_LEVEL_MASK) != 0,
               .lro = options_.lro};
  rx.max_lro_bytes = options_.max_lro;
  rx.strip_vlan = strips_vlan(options_, port);
  if (options_.compression == "hash") rx.compression = device::Compression::hash;
  if (options_.compression == "checksum") rx.compression = device::Compression::checksum;
  if (options_.strides) rx.strides = packet_strides;
  return rx;
}

// Queues that no stream uses belong to the first lane, which never polls them.
Status Forwarder::configure(uint32_t number) {
  port::Port& port = *ports_[number].native;
  const port::QueueSizes sizes = sizes_of(number);
  if (Status s = port.configure(sizes, arena()); !s) return s;
  for (uint32_t q = 0; q < sizes.rxq; q++) (void)port.set_rx(q, {.cache = lanes_[0].cache.get()});
  for (uint32_t q = 0; q < sizes.txq; q++) (void)port.set_tx(q, {.cache = lanes_[0].cache.get()});
  for (Lane& lane : lanes_)
    for (const auto& s : lane.streams)
      if (Status st = set_up(port, *s); !st) return st;
  return Done{};
}

// The queues of a stream at a port.
Status Forwarder::set_up(port::Port& port, const Stream& s) {
  port::RxSetup rx = rx_setup(s.cache, s.rx_port);
  if (engine_->splits)
    rx.split = {.header_bytes = options_.split.header_bytes, .headers = s.headers};
  if (s.rx == &port)
    if (Status st = port.set_rx(s.rx_queue, rx); !st) return st;
  if (s.tx != &port) return Done{};
  const bool keys = binds_keys(s.tx_port);
  return port.set_tx(s.tx_queue, {.cache = s.cache,
                                  .config = {.multi_seg = s.pieces > 1,
                                             .gathered = keys,
                                             .offloads = tx_words(s.tx_port).any(),
                                             .two_pools = engine_->splits},
                                  .words = tx_words(s.tx_port),
                                  .keys = keys ? options_.keys : 0,
                                  .headers = s.headers});
}

// Bursts that see into tunnels write side records, which are not there beside mbufs.
uint64_t Forwarder::native_rss_of(uint32_t port) const noexcept {
  const bool sees = !has_ethdevs() && ports_[port].native->device().caps().tx.tunnels;
  return native_rss(~uint64_t{0}) | (sees ? RTE_ETH_RSS_LEVEL_MASK : 0);
}

// Sets how ports with several queues spread; a key and a table that were given at the prompt stay.
// One queue may follow several.
std::optional<Exit> Forwarder::set_spreads() {
  for (uint32_t n = 0; n < ports_.size(); n++) {
    port::Port* p = ports_[n].native;
    const uint32_t queues = sizes_of(n).rxq;
    if (p == nullptr || (queues == 1 && p->rss().table.empty())) continue;
    uint64_t asked = queues == 1 ? 0 : rss_asked(options_);
    if (hashes_inside(asked) && !hashes_inside(asked & native_rss_of(n)))
      std::fprintf(stderr, "%s: frames are spread by their outer headers\n",
                   name_of(ports_[n]).c_str());
    asked &= native_rss_of(n);
    if (Status s = p->set_rss(spread_of(asked, p->rss(), queues)); !s)
      return failed(name_of(ports_[n]), s.error());
  }
  return std::nullopt;
}

std::optional<Exit> Forwarder::set_up_any(uint32_t number) {
  const PortRef& p = ports_[number];
  const std::string name = name_of(p);
  if (p.native == nullptr) {
    std::string why;
    const Status s = set_up_ethdev(p.ethdev,
                                   {.sizes = sizes_of(number),
                                    .mbufs = mempool_.get(),
                                    .longest = options_.max_packet,
                                    .rss_hf = rss_asked(options_),
                                    .isolate = options_.isolate},
                                   why);
    if (!s) return Exit{1, name + ": " + why};
    return std::nullopt;
  }
  if (Status s = configure(number); !s) return failed(name, s.error());
  if (options_.isolate)
    if (Status s = p.native->set_isolated(true); !s) return failed(name, s.error());
  return std::nullopt;
}

std::optional<Exit> Forwarder::start_ports() {
  for (uint32_t p = 0; p < ports_.size(); p++) {
    if (p < options_.stopped.size() && options_.stopped[p]) continue;
    if (auto exit = start_port(p)) return exit;
  }
  return std::nullopt;
}

std::optional<Exit> Forwarder::start_port(uint32_t number) {
  if (started_[number]) return std::nullopt;
  if (auto exit = set_up_any(number)) return exit;
  const PortRef& p = ports_[number];
  const Status s = p.native != nullptr ? p.native->start() : start_ethdev(p.ethdev);
  if (!s) return failed(name_of(p), s.error());
  started_[number] = true;
  return std::nullopt;
}

void Forwarder::stop_port(uint32_t number) noexcept {
  if (!started_[number]) return;
  started_[number] = false;
  const PortRef& p = ports_[number];
  if (p.native != nullptr)
    p.native->stop();
  else
    stop_ethdev(p.ethdev);
}

}  // namespace kilim::testpmd
