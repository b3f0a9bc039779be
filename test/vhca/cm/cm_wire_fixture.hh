// SPDX-License-Identifier: BSD-3-Clause
// Programs above the managers of two adapters on a cable. Owner: one test case.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "service_fixture.hh"
#include "ut.hh"
#include "vhca/cm/messages.hh"
#include "vhca/core/core_clock.hh"
#include "vhca/hca/connections.hh"
#include "wire_fixture.hh"

namespace kilim::vhca::test {

using namespace vhca::cm;

inline uint64_t now() {
  return clock_ns();
}

// A program that listens, connects and goes on by itself.
class Program : public cm::Observer {
 public:
  Program(Rig& rig, uint32_t qpn) : agent(**hca::connection_agent(*rig.hca, 1)), qpn_(qpn) {}
  Answer on_event(const Event& e) noexcept override {
    events.push_back(e);
    AcceptRequest accept;
    accept.qpn = qpn_;
    accept.starting_psn = 0x777;
    accept.responder_resources = accept.initiator_depth = 4;
    if (e.kind == EventKind::request) done(agent.accept(e.id, accept, now()));
    if (e.kind == EventKind::response) done(agent.establish(e.id, {}, now()));
    if (e.kind == EventKind::disconnect) done(agent.answer_disconnect(e.id, {}, now()));
    if (e.kind == EventKind::sidr_request)
      done(agent.answer_resolve(e.id, {SidrStatus::success, qpn_, 0x55, {}, {}}, now()));
    return Answer::taken;
  }
  static void done(const Status& s) noexcept {
    if (!s.ok()) std::abort();
  }
  [[nodiscard]] bool heard(EventKind kind) const {
    return !events.empty() && events.back().kind == kind;
  }
  [[nodiscard]] bool is(CommId id, State state) const {
    const Result<State> s = agent.state(id);
    return s.ok() && *s == state;
  }
  Agent& agent;
  std::vector<Event> events;

 private:
  uint32_t qpn_;
};

inline Route route(const Mac& from, const Mac& to) {
  Route r;
  port_gid(from, 0, r.sgid);
  port_gid(to, 0, r.dgid);
  r.dmac = to;
  return r;
}

// Of an impatient program: a message that is lost goes again after three milliseconds.
inline ConnectRequest request_for(const Route& way, uint32_t qpn) {
  ConnectRequest r;
  r.service_id = service;
  r.route = way;
  r.qpn = qpn;
  r.starting_psn = 0x999;
  r.responder_resources = r.initiator_depth = 4;
  r.packet_life_time = 8;
  r.remote_cm_timeout = r.local_cm_timeout = 8;
  return r;
}

inline LinkShape shape_of(const std::string& wire = "") {
  LinkShape s;
  s.left_wire = wire;
  // A capture of one end has all.
  if (wire.find("tee:") == std::string::npos) s.right_wire = wire;
  return s;
}

// What queue pair 1 takes and leaves (queue_pair_1.cc).
std::span<const kilim::test::Case> queue_pair_1_cases();

}  // namespace kilim::vhca::test
