// SPDX-License-Identifier: BSD-3-Clause
// Session: what the prompt works on: the options as they are now, the forwarder made of them, a run
// under way, and what was counted when the counts were cleared. Main thread; it neither forwards
// nor blocks longer than a drain.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "captures.hh"
#include "control.hh"
#include "forwarder.hh"
#include "kilim/flow.hh"
#include "options.hh"
#include "stats.hh"

namespace kilim::testpmd {

// A rule of `flow create`, by the number that testpmd gives it.
struct FlowEntry {
  flow::Rule rule;
  uint32_t group = 0;
  std::string text;  // as `flow list` shows it
  port::RuleId id;
};

// What the session keeps of a port.
struct PortMemory {
  port::PortStats cleared;  // counts when `clear port stats` was said
  port::PortStats begun;    // when forwarding began, or its counts were cleared
  port::PortStats shown;    // when they were shown last
  uint64_t shown_ns = 0;
  std::optional<uint64_t> rss_hf;  // of this port alone, by its key
  std::map<uint32_t, FlowEntry> flows;
};

class Session {
 public:
  explicit Session(const Options& options) : options_(options) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // Ports and queues of the options; all ports are started.
  std::optional<Exit> open();

  [[nodiscard]] Options& options() noexcept { return options_; }
  [[nodiscard]] Forwarder& forwarder() noexcept { return *forwarder_; }
  [[nodiscard]] std::size_t ports() const noexcept { return memory_.size(); }
  [[nodiscard]] const PortRef& port(uint32_t number) const { return forwarder_->ports()[number]; }
  [[nodiscard]] PortMemory& memory(uint32_t number) { return memory_[number]; }
  // A place <ports> or <port> of a line: the ports that it names. Empty: there is no such port,
  // which was said.
  std::vector<uint32_t> ports_of(const std::string& word) const;
  // Kilim's port of that number; null: it is none, which was said.
  port::Port* native_of(uint32_t number) const;

  // True, and says so: packets are forwarded, so that what `what` needs cannot be done.
  bool busy(const char* what) const;
  [[nodiscard]] bool running() const noexcept { return control_ != nullptr; }
  void start(uint32_t tx_first);
  void stop();
  // Every few milliseconds, between commands. False: a signal ends the program.
  bool tick();

  // Ports stop, and start with what the options are then.
  void start_ports(std::span<const uint32_t> ports);
  void stop_ports(std::span<const uint32_t> ports);
  [[nodiscard]] bool all_started() const;
  [[nodiscard]] bool all_stopped() const;
  // Makes a new forwarder of the options; ports that were started are started. False: it was said
  // why, and the options are as before.
  bool renew();
  // While nothing is forwarded: what forwards is as the options say. False: it was said why not.
  bool settle();
  // What ports spread frames by, which they do already: for further starts.
  void note_spread(uint64_t rss_hf);
  // Runs `change`, which adds a device to EAL or removes one and gives 0 or a negative errno, while
  // no port is in use. False: it was said why not.
  bool change_ports(const std::function<int()>& change);

  [[nodiscard]] Captures& captures() noexcept { return captures_; }
  // Ends the port's capture, or all. False: there was none.
  bool end_captures(const port::Port* port);

  void clear_forward_counts();
  void quit() noexcept { quits_ = true; }
  [[nodiscard]] bool quits() const noexcept { return quits_; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }

  // What `explain last` repeats: why the line under way was refused by a port, a device or EAL.
  void note_refusal(const std::string& why);
  void note_line(std::string line) { line_ = std::move(line); }
  [[nodiscard]] const std::string& refusal() const noexcept { return refusal_; }

 private:
  std::optional<Exit> make(const Options& options);
  void make_or_quit();
  void renumber_memory(std::span<const uint32_t> before);
  void say(const Exit& exit);

  Options options_;
  Options made_of_;  // the forwarder's
  std::unique_ptr<Forwarder> forwarder_;
  std::unique_ptr<Control> control_;
  Captures captures_;
  std::vector<PortMemory> memory_;
  std::string line_, refusal_;
  bool quits_ = false;
  bool failed_ = false;
};

}  // namespace kilim::testpmd
