// SPDX-License-Identifier: BSD-3-Clause
#include "captures.hh"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <utility>

namespace kilim::testpmd {
namespace {

std::string sentence(const Error& e) {
  return std::string(e.what) + " (" + std::strerror(e.code) + ")";
}

void say(std::FILE* to, const capture::Capture& c, const char* why) {
  const capture::CaptureStats n = c.stats();
  std::fprintf(to, "capture of %s in %s: %" PRIu64 " packets, %" PRIu64 " left out%s%s\n",
               c.port().name().c_str(), c.file().c_str(), n.written, n.dropped,
               *why == '\0' ? "" : ": ", why);
}

}  // namespace

std::string Captures::begin(port::Port& port, const std::string& file) {
  auto made = capture::Capture::start(port, {.file = file});
  if (!made) return sentence(made.error());
  all_.push_back(*std::move(made));
  return "";
}

std::string Captures::begin(std::span<const std::string> all) {
  for (const std::string& text : all) {
    auto parsed = capture::parse_port_file(text);
    const std::string why = parsed ? begin(*parsed->port, parsed->file) : sentence(parsed.error());
    if (why.empty()) continue;
    all_.clear();
    return std::string("--pcap=").append(text).append(": ").append(why);
  }
  return "";
}

// One that a worker does not let go of stays, and is said.
bool Captures::end(const port::Port* port, worker::Quiescence* workers, std::FILE* to) {
  const std::size_t before = all_.size();
  std::erase_if(all_, [&](const std::unique_ptr<capture::Capture>& c) {
    if (port != nullptr && &c->port() != port) return false;
    c->set_workers(workers);
    const Status s = c->stop();
    say(to, *c, s ? "" : s.error().what);
    incomplete_ = incomplete_ || !c->stats().whole();
    return s.ok() || s.error().code != ETIMEDOUT;
  });
  return all_.size() != before;
}

void Captures::show(std::FILE* to) const {
  if (all_.empty()) std::fprintf(to, "no port is captured; capture start PORT FILE\n");
  for (const auto& c : all_) say(to, *c, "");
}

}  // namespace kilim::testpmd
