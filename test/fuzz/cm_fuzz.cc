// SPDX-License-Identifier: BSD-3-Clause
// Any messages to a connection manager that is in use: whole ones whose ids fit, nearly fit and do
// not, bytes of any length, with calls from above and time between them. Some of what it sends
// comes back to it. At the end everything is destroyed, and nothing may be left.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "input_fixture.hh"
#include "vhca/cm/agent.hh"
#include "vhca/cm/mad.hh"

namespace kilim::fuzz {

using namespace vhca;
using namespace vhca::cm;

namespace {

constexpr uint32_t places = 24;
constexpr uint64_t service = service_id_of(PortSpace::tcp, 7);
constexpr Gid own_gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr Gid peer_gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};

enum class Step : uint8_t { bytes, message, echo, call, time, tick, wire };
constexpr uint8_t steps = 7;

class Bench : public vhca::cm::Port, public Observer {
 public:
  Bench() : agent_(config(), *this) {
    if (!agent_.listen(service, *this, 1).ok()) std::abort();
  }
  void run(Input in) {
    while (!in.done()) step(in);
    end();
  }
  bool send(const Route&, std::span<const std::byte> mad) noexcept override {
    if (mad.size() != mad_bytes) std::abort();
    if (!full_) std::copy(mad.begin(), mad.end(), last_.begin());
    return !full_;
  }
  [[nodiscard]] bool owns(const Gid& gid) const noexcept override { return gid == own_gid; }
  Answer on_event(const Event& e) noexcept override {
    if (e.private_data.count > most::any || e.info.count > most::ari) std::abort();
    if (!agent_.state(e.id).ok()) std::abort();
    if (e.kind == EventKind::request || e.kind == EventKind::sidr_request) note(e.id);
    if ((behaviour_ & 1) != 0 && e.kind == EventKind::request) (void)agent_.accept(e.id, {}, now_);
    if ((behaviour_ & 2) != 0 && e.kind == EventKind::response)
      (void)agent_.establish(e.id, {}, now_);
    if ((behaviour_ & 4) != 0) agent_.destroy(e.id, now_);
    return static_cast<Answer>((behaviour_ >> 3) % 3);
  }

 private:
  static Config config() {
    Config c;
    c.ca_guid = 1;
    c.gid = own_gid;
    c.most_ids = places;
    return c;
  }
  static Route route(bool inward) {
    Route r;
    r.sgid = own_gid;
    r.dgid = inward ? own_gid : peer_gid;
    return r;
  }
  void note(CommId id) { ids_[next_++ % ids_.size()] = id; }
  [[nodiscard]] CommId some(uint8_t which) const { return ids_[which % ids_.size()]; }
  void handle(std::span<const std::byte> mad) { agent_.handle(route(false), mad, now_); }

  // The header is right; ids are of the few that there are, or any.
  void message(Input& in) {
    Mad m{};
    const auto attribute = static_cast<std::byte>(0x10 + in.take<uint8_t>() % 12);
    const auto which = in.take<uint8_t>(), peer = in.take<uint8_t>();
    const std::vector<std::byte> body = in.bytes(in.take<uint8_t>() % 232);
    std::copy(body.begin(), body.end(), m.begin() + 24);
    m[0] = std::byte{1};
    m[1] = std::byte{7};
    m[2] = std::byte{2};
    m[3] = std::byte{3};
    m[17] = attribute;
    if ((peer & 0x80) == 0) put(m, 24, peer & 7);
    if ((which & 0x80) == 0) put(m, 28, some(which).value());
    handle(m);
  }
  static void put(Mad& m, std::size_t at, uint32_t v) {
    const be32 word{v};
    std::memcpy(&m[at], &word, sizeof(word));
  }
  void call(Input& in) {
    const auto kind = in.take<uint8_t>(), more = in.take<uint8_t>();
    const CommId id = some(more);
    const std::vector<std::byte> data = in.bytes(in.take<uint8_t>());
    switch (kind % 12) {
      case 0: {
        ConnectRequest r;
        r.service_id = service;
        r.route = route((more & 1) != 0);
        r.transport = static_cast<Transport>(more >> 1 & 3);
        r.qpn = more;
        r.max_cm_retries = more >> 3 & 15;
        r.private_data = data;
        const Result<CommId> made = agent_.connect(r, *this, 2, now_);
        if (made.ok()) note(*made);
        return;
      }
      case 1:
        return (void)agent_.accept(id, {}, now_);
      case 2:
        return (void)agent_.establish(id, data, now_);
      case 3:
        return (void)agent_.note_established(id, now_);
      case 4:
        return (void)agent_.reject(id, static_cast<Reason>(more), data, data, now_);
      case 5:
        return (void)agent_.answer_later(id, more & 63, now_);
      case 6:
        return (void)agent_.disconnect(id, data, now_);
      case 7:
        return (void)agent_.answer_disconnect(id, data, now_);
      case 8: {
        ResolveRequest r;
        r.service_id = service;
        r.route = route((more & 1) != 0);
        r.private_data = data;
        const Result<CommId> made = agent_.resolve(r, *this, 3, now_);
        if (made.ok()) note(*made);
        return;
      }
      case 9:
        return (void)agent_.answer_resolve(id, {SidrStatus::success, more, 0, data, data}, now_);
      case 10:
        return (void)agent_.qp_values(id, static_cast<QpStep>(more % 3));
      default:
        return agent_.destroy(id, now_);
    }
  }
  void step(Input& in) {
    switch (static_cast<Step>(in.take<uint8_t>() % steps)) {
      case Step::bytes:
        handle(in.bytes(in.take<uint16_t>() % 600));
        break;
      case Step::message:
        message(in);
        break;
      case Step::echo:  // what was sent last, with one byte changed
        last_[in.take<uint8_t>()] ^= static_cast<std::byte>(in.take<uint8_t>());
        handle(last_);
        break;
      case Step::call:
        call(in);
        break;
      case Step::time:
        now_ += uint64_t{in.take<uint16_t>()} << 20;
        break;
      case Step::tick:
        agent_.tick(now_);
        break;
      case Step::wire:
        behaviour_ = in.take<uint8_t>();
        full_ = (behaviour_ & 0x80) != 0;
        break;
    }
    if (agent_.ids() > places) std::abort();
  }
  // Ids that were overwritten in ids_ live on: time and good-byes end only what is known.
  void end() {
    full_ = false;
    behaviour_ = 4;
    agent_.unlisten(service);
    for (int i = 0; i < 100'000 && agent_.deadline() != ~uint64_t{0}; i++) {
      now_ = std::max(now_, agent_.deadline());
      agent_.tick(now_);
    }
    if (agent_.deadline() != ~uint64_t{0}) std::abort();
    for (const CommId id : ids_) agent_.destroy(id, now_);
    while (agent_.tick(now_) != 0) {
    }
    if (next_ <= ids_.size() && agent_.ids() != 0) std::abort();
  }

  Agent agent_;
  std::array<CommId, 32> ids_{};
  std::size_t next_ = 0;
  uint64_t now_ = 1;
  uint8_t behaviour_ = 0;
  bool full_ = false;
  Mad last_{};
};

Script& call(Script& s, uint8_t kind, uint8_t more) {
  return s.put(static_cast<uint8_t>(Step::call), kind, more, uint8_t{0});
}
Script& message(Script& s, uint8_t attribute, uint8_t which, uint8_t peer) {
  return s.put(static_cast<uint8_t>(Step::message), static_cast<uint8_t>(attribute - 0x10), which,
               peer, uint8_t{0});
}

// A REQ whose values can be served, from the peer's id `peer`.
Script& request(Script& s, uint8_t peer) {
  ReqMad m{};
  m.service_id = be64{service};
  m.pkey_mtu_retries = be32{req::path_mtu::at(3u)};
  m.qpn_resources = be32{req::qpn::at(peer)};
  std::copy(own_gid.begin(), own_gid.end(), m.primary.remote_gid);
  s.put(static_cast<uint8_t>(Step::message), uint8_t{0}, uint8_t{0x80}, peer, uint8_t{231});
  return s.bytes(std::as_bytes(std::span(&m, 1)).subspan(24, 231));
}

Script passive() {
  Script s;
  request(s, 1);
  request(s, 1);
  call(s, 5, 0);
  request(s, 1);
  call(s, 1, 0);
  message(s, 0x14, 0, 1);
  message(s, 0x15, 0, 1);
  call(s, 7, 0);
  return message(s, 0x15, 0, 1);
}
Script active() {
  Script s;
  call(s, 0, 0x78);
  message(s, 0x11, 0, 1);
  message(s, 0x13, 0, 1);
  call(s, 2, 0);
  message(s, 0x13, 0, 1);
  call(s, 6, 0);
  return message(s, 0x16, 0, 1);
}
Script inward() {
  Script s;
  s.put(static_cast<uint8_t>(Step::wire), uint8_t{3});
  call(s, 0, 0x79);
  for (int i = 0; i < 4; i++) s.put(static_cast<uint8_t>(Step::tick));
  call(s, 6, 0);
  for (int i = 0; i < 4; i++) s.put(static_cast<uint8_t>(Step::tick));
  return call(s, 8, 1).put(static_cast<uint8_t>(Step::tick));
}
Script refusals() {
  Script s;
  for (uint8_t peer = 0; peer < 4; peer++) {
    s.put(static_cast<uint8_t>(Step::wire), static_cast<uint8_t>(peer << 3));
    request(s, peer);
  }
  call(s, 0, 0x10);
  message(s, 0x12, 0, 1);
  call(s, 8, 0);
  return message(s, 0x18, 1, 1);
}

}  // namespace

std::vector<Seed> seeds() {
  return {{"a passive id's life", passive()},
          {"an active id's life", active()},
          {"a port that connects to itself", inward()},
          {"requests and refusals", refusals()}};
}

void run_input(Input in) {
  Bench bench;
  bench.run(in);
}

}  // namespace kilim::fuzz
