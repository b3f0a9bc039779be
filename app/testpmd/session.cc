// SPDX-License-Identifier: BSD-3-Clause
#include "session.hh"

#include <algorithm>

#include <rte_errno.h>

#include "forward_report.hh"
#include "words.hh"

namespace kilim::testpmd {

Session::~Session() {
  if (running()) (void)control_->end();
}

void Session::note_refusal(const std::string& why) {
  refusal_ = line_.empty() ? why : "`" + line_ + "`: " + why;
}

void Session::say(const Exit& exit) {
  note_refusal(exit.message);
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", exit.message.c_str());
}

std::optional<Exit> Session::make(const Options& options) {
  forwarder_.reset();
  auto made = Forwarder::create(options, stop_requested);
  if (auto* exit = std::get_if<Exit>(&made)) return std::move(*exit);
  forwarder_ = std::move(std::get<std::unique_ptr<Forwarder>>(made));
  made_of_ = options;
  memory_.resize(forwarder_->ports().size());
  return std::nullopt;
}

std::optional<Exit> Session::open() {
  options_.interactive = true;
  options_.stopped.assign(RTE_MAX_ETHPORTS, options_.no_device_start);
  return make(options_);
}

// A queue that is gone has taken its port's rules along.
bool Session::renew() {
  const Options before = made_of_;
  options_.stopped.resize(memory_.size());
  for (uint32_t p = 0; p < memory_.size(); p++) options_.stopped[p] = !forwarder_->started(p);
  auto exit = make(options_);
  for (PortMemory& m : memory_) m.flows.clear(), m.rss_hf.reset();
  if (!exit) return true;
  say(*exit);
  options_ = before;
  exit = make(before);
  if (!exit) return false;
  say(*exit);
  quits_ = failed_ = true;
  return false;
}

bool Session::change_ports(const std::function<int()>& change) {
  std::vector<std::string> names;
  options_.stopped.clear();
  for (uint32_t p = 0; p < ports(); p++) {
    names.push_back(name_of(port(p)));
    options_.stopped.push_back(!forwarder_->started(p));
  }
  (void)end_captures(nullptr);
  forwarder_.reset();
  const int error = change();
  if (error != 0) say({1, std::string("EAL: ") + rte_strerror(-error)});
  std::vector<uint32_t> before;
  for (const PortRef& p : find_ports()) {
    const auto at = std::find(names.begin(), names.end(), name_of(p));
    before.push_back(at == names.end() ? new_port : static_cast<uint32_t>(at - names.begin()));
  }
  options_.ports_asked = 0;
  renumber(options_, before);
  renumber_memory(before);
  make_or_quit();
  return error == 0 && !quits_;
}

void Session::renumber_memory(std::span<const uint32_t> before) {
  std::vector<PortMemory> now(before.size());
  for (std::size_t n = 0; n < before.size(); n++)
    if (before[n] != new_port) now[n] = std::move(memory_[before[n]]);
  for (PortMemory& m : now) m.flows.clear(), m.rss_hf.reset();
  memory_ = std::move(now);
}

// Some modes and options want ports of Kilim alone; io takes any.
void Session::make_or_quit() {
  auto exit = make(options_);
  if (!exit) return;
  say(*exit);
  std::fprintf(stderr, "mode io without --latency instead\n");
  options_.mode = "io";
  options_.latency = false;
  exit = make(options_);
  if (!exit) return;
  say(*exit);
  quits_ = failed_ = true;
}

std::vector<uint32_t> Session::ports_of(const std::string& word) const {
  std::vector<uint32_t> list;
  uint32_t n = 0;
  if (word == "all") {
    for (uint32_t p = 0; p < ports(); p++) list.push_back(p);
  } else if (read_number(word, n) && n < ports()) {
    list.push_back(n);
  } else {
    std::fflush(stdout);
    std::fprintf(stderr, "Invalid port %s; valid ports are 0 to %zu\n", word.substr(0, 16).c_str(),
                 ports() - 1);
  }
  return list;
}

port::Port* Session::native_of(uint32_t number) const {
  port::Port* p = port(number).native;
  if (p == nullptr)
    std::fprintf(stderr, "port %u (%s) is none of Kilim: %s drives it\n", number,
                 name_of(port(number)).c_str(), device_of(port(number)).c_str());
  return p;
}

bool Session::busy(const char* what) const {
  if (running()) std::fprintf(stderr, "%s: please stop forwarding first\n", what);
  return running();
}

bool Session::all_started() const {
  for (uint32_t p = 0; p < ports(); p++)
    if (!forwarder_->started(p)) return false;
  return true;
}

bool Session::all_stopped() const {
  for (uint32_t p = 0; p < ports(); p++)
    if (forwarder_->started(p)) return false;
  return true;
}

bool Session::settle() {
  if (!forwarder_->retune(options_) && !renew()) return false;
  made_of_ = options_;
  return true;
}

void Session::note_spread(uint64_t rss_hf) {
  for (Options* o : {&options_, &made_of_}) o->rss_hf = rss_hf, o->disable_rss = false;
  forwarder_->note_spread(rss_hf);
  for (PortMemory& m : memory_) m.rss_hf.reset();
}

void Session::start(uint32_t tx_first) {
  if (!all_started()) {
    std::fprintf(stderr, "Not all ports were started\n");
    return;
  }
  if (running()) {
    std::fprintf(stderr, "Packet forwarding already started\n");
    return;
  }
  if (!settle()) return;
  print_forward_config(*forwarder_);
  for (const uint32_t p : forwarder_->forwarding())
    if (const PortRef& ref = port(p); ref.native == nullptr && !options_.no_flush_rx)
      flush_ethdev(ref.ethdev, forwarder_->sizes_of(p).rxq);
  print_rxtx_config(*forwarder_);
  warn_of_silence(*forwarder_, tx_first, stdout);
  forwarder_->rewind(tx_first);
  clear_forward_counts();
  control_ = std::make_unique<Control>(*forwarder_, made_of_, stdout);
  control_->begin();
}

void Session::stop() {
  if (!running()) {
    std::fprintf(stderr, "Packet forwarding not started\n");
    return;
  }
  std::printf("Telling cores to stop...\nWaiting for lcores to finish...\n");
  std::fflush(stdout);
  (void)control_->end();
  failed_ |= control_->lost();
  control_.reset();
  print_forward_stats(*this);
  std::printf("\nDone.\n");
}

// While nobody forwards nobody runs a device that is polled.
bool Session::tick() {
  if (running()) {
    control_->tick();
    if (control_->over()) stop();
  } else {
    for (const PortRef& p : forwarder_->ports())
      if (p.native != nullptr && p.native->started()) p.native->device().progress();
  }
  return !stop_requested;
}

void Session::start_ports(std::span<const uint32_t> list) {
  if (all_stopped() && !same_queues(options_, made_of_)) {
    if (!renew()) return;
  }
  for (const uint32_t p : list) {
    if (forwarder_->started(p)) {
      std::printf("Port %u is already started\n", p);
      continue;
    }
    std::printf("Configuring Port %u (socket %d)\n", p, numa_node_of(port(p)));
    if (auto exit = forwarder_->start_port(p))
      say(*exit);
    else
      std::printf("Port %u: %s\n", p, text_of(mac_of(port(p))).c_str());
  }
  std::printf("Checking link statuses...\nDone\n");
}

void Session::stop_ports(std::span<const uint32_t> list) {
  if (busy("port stop")) return;
  std::printf("Stopping ports...\n");
  for (const uint32_t p : list) {
    memory_[p].flows.clear();
    forwarder_->stop_port(p);
  }
  std::printf("Checking link statuses...\nDone\n");
}

bool Session::end_captures(const port::Port* port) {
  return captures_.end(port, running() ? &forwarder_->quiescence() : nullptr, stdout);
}

void Session::clear_forward_counts() {
  for (uint32_t p = 0; p < ports(); p++) memory_[p].begun = counts_of(port(p));
  forwarder_->clear_counts();
}

}  // namespace kilim::testpmd
