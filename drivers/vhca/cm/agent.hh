// SPDX-License-Identifier: BSD-3-Clause
// The connection manager of one port: IBTA chapter 12 over queue pair 1, as the kernel's
// drivers/infiniband/core/cm.c does it. Owner: the adapter (hca/connections.hh makes one when it is
// first asked for). Every call needs the adapter's lock held, and so has the observer when it is
// called: it may call the agent back, must not wait, and runs on whatever thread runs the engine.
// Time is what the caller says (CLOCK_MONOTONIC nanoseconds), so tests have their own. What comes
// from the wire is untrusted. Only construction, listen() and a look for peers that died allocate.
//
// Calls send at once what they have to send, or leave it to the next tick() where the wire is full;
// what goes to the own port is delivered by tick() only, so no event comes out of a call. After a
// call the engine has to take a turn (Hca::run(), or the progress thread's kick()), since timers
// may have become shorter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kilim/detail/base/result.hh"
#include "vhca/cm/values.hh"

namespace kilim::vhca::cm {

// Whoever uses an id: the client above.
class Observer {
 public:
  virtual ~Observer() = default;
  // The event is the agent's, good until it returns.
  virtual Answer on_event(const Event&) noexcept = 0;
};

// The port that an agent serves; see hca/connections.hh.
class Port {
 public:
  virtual ~Port() = default;
  // Takes a whole MAD for queue pair 1 at the route's end; false: not now, again later.
  virtual bool send(const Route&, std::span<const std::byte> mad) noexcept = 0;
  // Whether a GID is in the port's table.
  [[nodiscard]] virtual bool owns(const Gid&) const noexcept = 0;
  // Several processes may be one adapter (Config::shared). serve() says that this one listens for a
  // service id from now on, or no more; is_served() whether another one does.
  virtual void serve(uint64_t, bool) noexcept {}
  [[nodiscard]] virtual bool is_served(uint64_t) noexcept { return false; }
  // The process at the route's end, of several that are one adapter that of the queue pair: a
  // number that no other one has; 0: the port does not know. Then, from one look to the next,
  // whether it has gone: one that is stopped has not. Control path: they open files.
  [[nodiscard]] virtual uint64_t process_at(const Route&, uint32_t) { return 0; }
  // The one of these processes that listens for a service id, as is_served() says.
  [[nodiscard]] virtual uint64_t process_serving(uint64_t) { return 0; }
  virtual void look_for_processes() {}
  [[nodiscard]] virtual bool has_gone(uint64_t) noexcept { return false; }
};

struct Config {
  uint64_t ca_guid = 0;         // of the adapter, host order
  Gid gid{};                    // the port's first, for who named a wrong one
  uint64_t seed = 0;            // ids depend on it
  bool shared = false;          // other agents serve the port's GIDs too, and hear what this hears
  uint8_t ack_delay = 0;        // of the adapter (ibv_device_attr.local_ca_ack_delay)
  uint32_t most_ids = 1 << 16;  // of all kinds, those in time wait too
  uint32_t most_listeners = 1 << 12;
};

// What came and went, for tests and telemetry (the kernel's cm_tx_msgs and so on).
struct Counts {
  uint64_t received = 0, duplicates = 0, malformed = 0, unmatched = 0;
  uint64_t sent = 0, retries = 0, refused = 0, lost = 0;
};

struct AgentState;

class Agent {
 public:
  Agent(const Config&, Port&);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Requests for a service id go to `observer`, with `cookie`. One listener a service id:
  // EADDRINUSE. Who has several of them, told apart by addresses, looks at Event::ip.
  Status listen(uint64_t service_id, Observer& observer, uint64_t cookie);
  // Requests that were reported stay.
  void unlisten(uint64_t service_id) noexcept;

  // Who hears of an id that a request made, and by what cookie; before: the listener's.
  Status adopt(CommId, Observer&, uint64_t cookie) noexcept;

  // Errors: EINVAL (a value does not fit its field, private data too long, not in that state, no
  // such id), ENOMEM (all ids are in use), EADDRNOTAVAIL (the route's sgid is none of the port).
  Result<CommId> connect(const ConnectRequest&, Observer&, uint64_t cookie, uint64_t now) noexcept;
  Status accept(CommId, const AcceptRequest&, uint64_t now) noexcept;
  // Sends RTU (ib_send_cm_rtu()): the id is established.
  Status establish(CommId, std::span<const std::byte> private_data, uint64_t now) noexcept;
  // The queue pair has got a message before the RTU came (ib_cm_notify() of COMM_EST): the id is
  // established, without an event. EISCONN: it was.
  Status note_established(CommId, uint64_t now) noexcept;
  // An empty `private_data` is all zeroes on the wire, here and below.
  Status reject(CommId, Reason, std::span<const std::byte> info,
                std::span<const std::byte> private_data, uint64_t now) noexcept;
  // A copy of the REQ (or REP) from now on is answered by an MRA of this service timeout
  // (ib_send_cm_mra() with IB_CM_MRA_FLAG_DELAY).
  Status answer_later(CommId, uint8_t service_timeout, uint64_t now) noexcept;
  // Sends DREQ (ib_send_cm_dreq()). EINVAL where there is no connection, or no more.
  Status disconnect(CommId, std::span<const std::byte> private_data, uint64_t now) noexcept;
  // Sends DREP (ib_send_cm_drep()): the id is in time wait.
  Status answer_disconnect(CommId, std::span<const std::byte> private_data, uint64_t now) noexcept;

  Result<CommId> resolve(const ResolveRequest&, Observer&, uint64_t cookie, uint64_t now) noexcept;
  Status answer_resolve(CommId, const ResolveAnswer&, uint64_t now) noexcept;

  // No events from now on. Says good-bye to the peer as ib_destroy_cm_id() does: REJ before, DREQ
  // after the connection is there, once and without waiting for an answer. An unknown id: nothing.
  void destroy(CommId, uint64_t now) noexcept;
  // For modify_qp; the route leads to the peer. EINVAL in states that do not know them yet.
  [[nodiscard]] Result<QpValues> qp_values(CommId, QpStep) const noexcept;

  // A datagram that came to queue pair 1. `route` leads back to its sender.
  void handle(const Route& route, std::span<const std::byte> mad, uint64_t now) noexcept;
  // Sends what waits, delivers what goes to the own port, lets timers run out. Not 0: it did
  // something.
  std::size_t tick(uint64_t now) noexcept;
  // When tick() has to be called next; UINT64_MAX: not before something happens.
  [[nodiscard]] uint64_t deadline() const noexcept;

  [[nodiscard]] const Counts& counts() const noexcept;
  [[nodiscard]] uint32_t ids() const noexcept;  // in use, those in time wait too
  // EINVAL: no such id.
  [[nodiscard]] Result<State> state(CommId) const noexcept;

 private:
  std::unique_ptr<AgentState> state_;
};

}  // namespace kilim::vhca::cm
