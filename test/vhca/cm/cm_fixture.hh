// SPDX-License-Identifier: BSD-3-Clause
// Two connection managers and a network between them that loses, doubles and turns round what it is
// told to, in a time of its own. Owner: one test case, one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "service_fixture.hh"
#include "ut.hh"
#include "vhca/cm/agent.hh"
#include "vhca/cm/mad.hh"
#include "vhca/cm/messages.hh"

namespace kilim::vhca::test {

using namespace cm;

inline constexpr uint64_t second = 1'000'000'000;

inline Gid gid_of(uint8_t host) {
  return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, host};
}
inline Mac mac_of_host(uint8_t host) {
  return {0, 0, 0, 0, 0, host};
}
inline std::span<const std::byte> bytes_of(const char* text) {
  return std::as_bytes(std::span(text, std::char_traits<char>::length(text)));
}
// Of what a case takes for granted.
inline void must(const Status& s) {
  if (!s.ok()) std::abort();
}
// An enumerator, or none, as a number that a failure shows.
template <typename E>
int number_of(std::optional<E> e) {
  return e ? static_cast<int>(*e) : -1;
}
template <typename E>
requires std::is_enum_v<E>
int number_of(E e) {
  return static_cast<int>(e);
}
inline Attribute attribute_of(const Mad& m) {
  return static_cast<Attribute>(message_of<MadHeader>(m).attribute.host());
}

struct Flying {
  uint8_t from;
  Route route;
  Mad mad;
};

class Net;

// A port, its agent and whoever uses that.
class Host : public Port, public Observer {
 public:
  Host(Net& net, uint8_t own, uint32_t most_ids, bool shared)
      : number(own), shared_(shared), net_(net), agent(config_of(own, most_ids, shared), *this) {}
  static Config config_of(uint8_t own, uint32_t most_ids, bool shared) {
    Config c;
    c.shared = shared;
    c.ca_guid = 0x0200'00ff'fe00'0000u + own;
    c.gid = gid_of(own);
    c.seed = own;
    c.ack_delay = 16;
    c.most_ids = most_ids;
    return c;
  }
  bool send(const Route& route, std::span<const std::byte> mad) noexcept override;
  [[nodiscard]] bool owns(const Gid& gid) const noexcept override {
    return gid == gid_of(number) || (shared_ && gid == gid_of(static_cast<uint8_t>(3 - number)));
  }
  void serve(uint64_t id, bool on) noexcept override { served = on ? id : 0; }
  [[nodiscard]] bool is_served(uint64_t id) noexcept override;
  // The other host is one process.
  [[nodiscard]] uint64_t process_at(const Route&, uint32_t) override { return peers_process; }
  [[nodiscard]] uint64_t process_serving(uint64_t id) override {
    return is_served(id) ? servers_process : 0;
  }
  void look_for_processes() override { looks++; }
  [[nodiscard]] bool has_gone(uint64_t process) noexcept override { return process == dead; }
  Answer on_event(const Event& e) noexcept override {
    events.push_back(e);
    return hook ? hook(e) : answer;
  }
  // The last event of that id; nothing: none.
  [[nodiscard]] std::optional<EventKind> last(CommId id) const {
    for (auto e = events.rbegin(); e != events.rend(); ++e) {
      if (e->id == id) return e->kind;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::size_t count(EventKind kind) const {
    return static_cast<std::size_t>(std::count_if(events.begin(), events.end(),
                                                  [&](const Event& e) { return e.kind == kind; }));
  }
  [[nodiscard]] std::optional<State> state(CommId id) const {
    const Result<State> s = agent.state(id);
    return s.ok() ? std::optional(*s) : std::nullopt;
  }

  uint8_t number;
  std::vector<Event> events;
  Answer answer = Answer::taken;
  std::function<Answer(const Event&)> hook;
  bool full = false;  // the wire takes nothing
  uint64_t peers_process = 0, servers_process = 0, dead = 0;
  std::size_t looks = 0;
  uint64_t served = 0;  // the service id that the others of a shared adapter know

 private:
  bool shared_;
  Net& net_;

 public:
  Agent agent;
};

class Net {
 public:
  // Shared: both are one adapter, with both addresses.
  explicit Net(uint32_t most_ids = 64, bool shared = false)
      : left(*this, 1, most_ids, shared), right(*this, 2, most_ids, shared) {}

  [[nodiscard]] Host& host(uint8_t which) { return which == 1 ? left : right; }
  [[nodiscard]] Route to(uint8_t number) const {
    Route r;
    r.sgid = gid_of(static_cast<uint8_t>(3 - number));
    r.dgid = gid_of(number);
    r.dmac = mac_of_host(number);
    return r;
  }
  // A message comes to the host, whoever sent it.
  void inject(Host& h, const Mad& mad) {
    Route back = to(static_cast<uint8_t>(3 - h.number));
    h.agent.handle(back, mad, now);
  }
  void deliver_one() {
    const Flying f = air.front();
    air.pop_front();
    inject(host(static_cast<uint8_t>(3 - f.from)), f.mad);
  }
  // Whatever moves without time.
  void settle() {
    for (;;) {
      while (!air.empty()) deliver_one();
      const std::size_t did = left.agent.tick(now) + right.agent.tick(now);
      if (did == 0 && air.empty()) return;
    }
  }
  // On to the next timer; false: none until then.
  bool step(uint64_t until) {
    settle();
    const uint64_t next = std::min(left.agent.deadline(), right.agent.deadline());
    if (next > until) {
      now = until;
      return false;
    }
    now = std::max(now, next);
    settle();
    return true;
  }
  void run_for(uint64_t ns) {
    const uint64_t until = now + ns;
    while (step(until)) {
    }
  }
  [[nodiscard]] std::size_t sent(Attribute a) const {
    return static_cast<std::size_t>(std::count_if(
        log.begin(), log.end(), [&](const Flying& f) { return attribute_of(f.mad) == a; }));
  }
  // The last message that either sent.
  [[nodiscard]] const Mad& last() const { return log.back().mad; }

  uint64_t now = 1000 * second;
  std::deque<Flying> air;   // under way
  std::vector<Flying> log;  // all that was sent, what got lost too
  // How many copies of a message arrive; the first is number 0. Absent: one.
  std::function<int(const Flying&, std::size_t number)> fate;
  Host left, right;
};

inline bool Host::is_served(uint64_t id) noexcept {
  return net_.host(static_cast<uint8_t>(3 - number)).served == id;
}

inline bool Host::send(const Route& route, std::span<const std::byte> mad) noexcept {
  if (full) return false;
  Flying f{number, route, {}};
  std::copy(mad.begin(), mad.end(), f.mad.begin());
  const int copies = net_.fate ? net_.fate(f, net_.log.size()) : 1;
  net_.log.push_back(f);
  for (int i = 0; i < copies; i++) net_.air.push_back(f);
  return true;
}

inline ConnectRequest request_to(const Net& net, uint8_t number = 2) {
  ConnectRequest r;
  r.service_id = service;
  r.route = net.to(number);
  r.qpn = 0x111;
  r.starting_psn = 0xabcdef;
  r.responder_resources = 4;
  r.initiator_depth = 7;
  r.retry_count = 5;
  r.rnr_retry_count = 6;
  r.max_cm_retries = 3;
  return r;
}
inline AcceptRequest acceptance() {
  AcceptRequest r;
  r.qpn = 0x222;
  r.starting_psn = 0x123456;
  r.responder_resources = 3;
  r.initiator_depth = 2;
  return r;
}

// Both sides as programs are: right accepts and answers, left establishes and ends it.
struct Couple {
  explicit Couple(uint8_t retries = 15, bool shared = false) : net(64, shared) {
    must(net.right.agent.listen(service, net.right, 9));
    net.right.hook = [this](const Event& e) {
      if (e.kind == EventKind::request) {
        peer = e.id;
        accepted = net.right.agent.accept(e.id, acceptance(), net.now).ok();
      }
      if (e.kind == EventKind::disconnect)
        must(net.right.agent.answer_disconnect(e.id, {}, net.now));
      return Answer::taken;
    };
    net.left.hook = [this](const Event& e) {
      if (e.kind == EventKind::response) must(net.left.agent.establish(e.id, {}, net.now));
      return Answer::taken;
    };
    ConnectRequest r = request_to(net);
    r.max_cm_retries = retries;
    id = *net.left.agent.connect(r, net.left, 8, net.now);
  }
  void end() {
    must(net.left.agent.disconnect(id, {}, net.now));
    net.run_for(1000 * second);
  }
  [[nodiscard]] bool connected() const {
    return net.left.state(id) == State::established && net.right.state(peer) == State::established;
  }
  // Each step was told once, and no id lingers.
  void check_ended() {
    EQUAL(net.left.count(EventKind::response), 1);
    EQUAL(net.right.count(EventKind::request), 1);
    EQUAL(net.right.count(EventKind::established), 1);
    EQUAL(net.right.count(EventKind::disconnect), 1);
    EQUAL(net.left.count(EventKind::disconnected), 1);
    EQUAL(net.left.count(EventKind::timewait_over), 1);
    EQUAL(net.right.count(EventKind::timewait_over), 1);
    EQUAL(net.left.events.size(), 3);
    EQUAL(net.right.events.size(), 4);
    net.left.agent.destroy(id, net.now);
    net.right.agent.destroy(peer, net.now);
    net.settle();
    EQUAL(net.left.agent.ids() + net.right.agent.ids(), 0);
    EQUAL(net.left.agent.deadline(), UINT64_MAX);
    EQUAL(net.right.agent.deadline(), UINT64_MAX);
  }
  Net net;
  CommId id, peer;
  bool accepted = false;
};

}  // namespace kilim::vhca::test
