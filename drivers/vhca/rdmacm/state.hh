// SPDX-License-Identifier: BSD-3-Clause
// The ids of all opens of this process, the adapters that they use, and the one lock around both.
// Order of locks: every adapter's, in the order of the list, then the state's. A command takes all;
// an adapter's engine, which calls as an observer, holds its own adapter's and takes the state's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "kilim/detail/base/fd.hh"
#include "vhca/cm/agent.hh"
#include "vhca/core/port_ip.hh"
#include "vhca/hca/hca.hh"
#include "vhca/rdmacm/sockaddr.hh"

namespace kilim::vhca::rdmacm {

// An event's number as <rdma/rdma_cma.h> has them (the kernel's rdma_cm.h, enum
// rdma_cm_event_type).
enum class EventType : uint32_t {
  addr_resolved,
  addr_error,
  route_resolved,
  route_error,
  connect_request,
  connect_response,
  connect_error,
  unreachable,
  rejected,
  established,
  disconnected,
  device_removal,
  multicast_join,
  multicast_error,
  addr_change,
  timewait_exit,
  addrinfo_resolved,
  addrinfo_error,
  user,
  internal,
};

// Types by the numbers of <rdma/ib_verbs.h>, which librdmacm passes on.
enum class CmQpType : uint8_t { rc = 2, uc = 3, ud = 4, xrc_ini = 9, xrc_tgt = 10 };

// The states of an id: cma_priv.h, enum rdma_cm_state.
enum class Stage : uint8_t {
  idle,
  addr_query,
  addr_resolved,
  route_query,
  route_resolved,
  connect,
  disconnect,
  addr_bound,
  listen,
};

struct File;
struct Id;

// An adapter, who hears what its connection manager has to say, and whose turns move the ids that
// wait for an address.
class Adapter final : public cm::Observer, public hca::TurnGuest {
 public:
  explicit Adapter(hca::Hca& h) noexcept : hca(h) {}
  cm::Answer on_event(const cm::Event&) noexcept override;
  std::size_t turn(uint64_t now) noexcept override;

  hca::Hca& hca;
  Adapter* next = nullptr;
  std::atomic<bool> hidden{false};
  // When an id of this adapter looks for its peer's address again.
  // turn() looks then, if not before. Adapter's lock held: who waits for nothing is no guest, so
  // that an engine's turn costs no more for having one.
  void look_at(uint64_t at) noexcept {
    deadline_ns = hca.guest == nullptr ? at : std::min(at, deadline_ns);
    hca.guest = this;
    hca.managed = true;
  }
  std::map<uint64_t, uint32_t> services;  // listeners of each service id
};

struct Multicast {
  uint32_t number = 0;
  Id* id = nullptr;
  uint64_t uid = 0;
  uint32_t events_reported = 0;
  sockaddr_storage address{};
};

struct Event {
  rdma_ucm_event_resp resp{};
  Id* id = nullptr;       // whose count it is: of a request the listener
  Id* request = nullptr;  // of a request: the new one
  Multicast* multicast = nullptr;
};

struct File {
  std::deque<Event> events;
  Fd client;  // the client's descriptor once more, for when its number is another's already
  Fd signal;  // its other end: a byte goes through while an event waits
  bool signalled = false;
  bool disowned = false;
};

// The kernel's ucma_context and rdma_id_private in one.
struct Id {
  uint32_t number = 0;
  File* file = nullptr;
  uint64_t uid = 0;  // 0: a request that nobody has accepted: its events are not told
  uint32_t events_reported = 0;
  uint32_t backlog = 0;  // requests that may wait to be read

  rdma_ucm_port_space space = RDMA_PS_TCP;
  CmQpType qp_type = CmQpType::rc;
  Stage stage = Stage::idle;
  sockaddr_storage source{}, destination{};
  bool has_port = false;  // the source's port is taken
  bool reuse = false, af_only = false, af_only_set = false;
  uint8_t tos = 0, ack_timeout = 0;
  bool ack_timeout_set = false;

  Adapter* adapter = nullptr;  // null: bound to none
  Gid sgid{}, dgid{};
  Mac dmac{};
  bool has_path = false;
  uint64_t resolve_until_ns = 0, look_at_ns = 0;

  cm::CommId comm;  // 0: none yet
  std::vector<Adapter*> listens_on;
  uint64_t service_id = 0;  // of a listener
  uint32_t qp_num = 0;
  bool srq = false;
  uint32_t starting_psn = 0;
  uint32_t qkey = 0;  // of datagrams: the peer's, or the default
  std::list<Multicast> groups;

  [[nodiscard]] bool is_datagram() const noexcept { return qp_type == CmQpType::ud; }
  // cma_any_addr() of the source: a loopback address that no adapter has is as good as none.
  [[nodiscard]] bool has_any_source() const noexcept {
    return is_zero(source) || (adapter == nullptr && is_loopback(source));
  }
};

struct State {
  std::map<uint32_t, std::unique_ptr<Id>> ids;
  std::map<uint32_t, Multicast*> groups;
  uint64_t mixed = 0;  // random numbers follow from it
};

// Holds every lock as long as it lives.
class Locked {
 public:
  Locked() noexcept;
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  State& operator*() const noexcept;
  State* operator->() const noexcept;

 private:
  Adapter* first_;
};
// Takes the locks without waiting for ever: for a caller that may have interrupted their holder.
class TryLocked {
 public:
  TryLocked() noexcept;
  ~TryLocked();
  TryLocked(const TryLocked&) = delete;
  TryLocked& operator=(const TryLocked&) = delete;
  explicit operator bool() const noexcept { return all_; }
  State& operator*() const noexcept;

 private:
  bool take() noexcept;
  void leave(const Adapter* end) noexcept;

  Adapter* first_;
  bool all_ = false;
};
// The state's lock alone, for who holds an adapter's.
class StateLocked {
 public:
  StateLocked() noexcept;
  ~StateLocked();
  StateLocked(const StateLocked&) = delete;
  StateLocked& operator=(const StateLocked&) = delete;
  State& operator*() const noexcept;
  State* operator->() const noexcept;
};

// Whether this process, and not its parent, made the adapters.
bool is_own_process() noexcept;
// The adapters, the newest first; hidden ones too.
Adapter* first_adapter() noexcept;
// A number that nobody can guess from the ones before is not needed: ports and sequence numbers.
uint32_t random_number(State&) noexcept;

// Ids (ids.cc). Null: as many as there can be.
Id* make_id(State&, File&, uint64_t uid, rdma_ucm_port_space, CmQpType);
// The unread events that went with it are gone; how many were read.
uint32_t destroy_id(State&, Id&);
// Finds an id of a file. `error` becomes -ENOENT if there is none, -EINVAL if it is another file's.
Id* find_id(State&, const File&, uint32_t number, int& error) noexcept;
void destroy_all(State&, File&);

// Events (events.cc).
void post(State&, Id& id, EventType, int status);
void post(const Event&);
void update_signal(File&) noexcept;

}  // namespace kilim::vhca::rdmacm
