// SPDX-License-Identifier: BSD-3-Clause
// Connections: cma.c, rdma_listen(), rdma_connect(), rdma_accept(), rdma_reject(),
// rdma_disconnect(), rdma_notify(). All locks held; what comes of it is told by an adapter's turn.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <endian.h>

#include "vhca/core/address.hh"
#include "vhca/core/refusal.hh"
#include "vhca/hca/connections.hh"
#include "vhca/rdmacm/steps.hh"

namespace kilim::vhca::rdmacm {

namespace {
constexpr const char* no_connection = "the id has no connection, not even a request of one";
}  // namespace

namespace {

constexpr uint8_t most_retries = 7;                // of 3 bits
constexpr uint32_t communication_established = 4;  // IB_EVENT_COMM_EST
constexpr uint32_t qpn_mask = 0xffffff;

int error_of(const Status& status) noexcept {
  return status.ok() ? 0 : -status.error().code;
}

std::span<const std::byte> private_data_of(const rdma_ucm_conn_param& p) noexcept {
  return std::as_bytes(std::span(p.private_data)).first(p.private_data_len);
}

cm::Transport transport_of(CmQpType type) noexcept {
  return type == CmQpType::uc                                     ? cm::Transport::uc
         : type == CmQpType::xrc_ini || type == CmQpType::xrc_tgt ? cm::Transport::xrc
                                                                  : cm::Transport::rc;
}

// cma_format_hdr(): of IPv4 the last four bytes of each address.
std::optional<cm::IpHeader> header_of(const Id& id) noexcept {
  if (id.source.ss_family == af_ib) return std::nullopt;
  const bool four = id.source.ss_family == AF_INET;
  cm::IpHeader h;
  h.version = four ? 4 : 6;
  h.source_port = port_of(id.source);
  const Gid from = gid_of(id.source), to = gid_of(id.destination);
  std::copy(from.begin() + (four ? 12 : 0), from.end(), h.source.begin() + (four ? 12 : 0));
  std::copy(to.begin() + (four ? 12 : 0), to.end(), h.destination.begin() + (four ? 12 : 0));
  return h;
}

cm::Agent* agent_of(const Id& id) {
  if (id.adapter == nullptr) return nullptr;
  auto agent = hca::connection_agent(id.adapter->hca, 1);
  return agent.ok() ? *agent : nullptr;
}

// The agent of an id that has an exchange under way; null: it has none.
cm::Agent* busy_agent_of(const Id& id) {
  return id.comm.value() != 0 ? agent_of(id) : nullptr;
}

int listen_on(Id& id, Adapter& a) {
  auto agent = hca::connection_agent(a.hca, 1);
  if (!agent.ok()) return -agent.error().code;
  uint32_t& listeners = a.services[id.service_id];
  if (listeners == 0) {
    if (int error = error_of((*agent)->listen(id.service_id, a, 0)); error != 0) {
      a.services.erase(id.service_id);
      return error;
    }
  }
  listeners++;
  id.listens_on.push_back(&a);
  return 0;
}

int resolve_peer(Id& id, cm::Agent& agent, const rdma_ucm_conn_param& p) {
  cm::ResolveRequest r;
  r.service_id = id.service_id;
  r.route = route_of(id);
  r.ip = header_of(id);
  r.private_data = private_data_of(p);
  auto comm = agent.resolve(r, *id.adapter, id.number, clock_ns());
  if (!comm.ok()) return -comm.error().code;
  id.comm = *comm;
  return 0;
}

// cma_connect_ib()
int connect_peer(Id& id, cm::Agent& agent, const rdma_ucm_conn_param& p) {
  cm::ConnectRequest r;
  r.service_id = id.service_id;
  r.route = route_of(id);
  r.transport = transport_of(id.qp_type);
  r.qpn = id.qp_num;
  r.starting_psn = id.starting_psn;
  r.responder_resources = p.responder_resources;
  r.initiator_depth = p.initiator_depth;
  r.retry_count = std::min(most_retries, p.retry_count);
  r.rnr_retry_count = std::min(most_retries, p.rnr_retry_count);
  r.path_mtu = path_mtu_of(*id.adapter);
  r.srq = id.srq;
  r.flow_control = p.flow_control != 0;
  if (id.ack_timeout_set && id.ack_timeout != 0)
    r.packet_life_time = static_cast<uint8_t>(id.ack_timeout - 1);
  r.ip = header_of(id);
  r.private_data = private_data_of(p);
  auto comm = agent.connect(r, *id.adapter, id.number, clock_ns());
  if (!comm.ok()) return -comm.error().code;
  id.comm = *comm;
  return 0;
}

// cma_accept_ib()
int accept_peer(Id& id, cm::Agent& agent, const rdma_ucm_conn_param& p) {
  cm::AcceptRequest r;
  r.qpn = id.qp_num;
  r.starting_psn = id.starting_psn;
  r.responder_resources = p.responder_resources;
  r.initiator_depth = p.initiator_depth;
  r.rnr_retry_count = std::min(most_retries, p.rnr_retry_count);
  r.srq = id.srq;
  r.flow_control = p.flow_control != 0;
  r.private_data = private_data_of(p);
  return error_of(agent.accept(id.comm, r, clock_ns()));
}

// cma_send_sidr_rep()
int answer_peer(Id& id, cm::Agent& agent, cm::SidrStatus status, std::span<const std::byte> data) {
  cm::ResolveAnswer a;
  a.status = status;
  if (status == cm::SidrStatus::success) {
    a.qpn = id.qp_num;
    a.qkey = id.qkey;
  }
  a.private_data = data;
  return error_of(agent.answer_resolve(id.comm, a, clock_ns()));
}

}  // namespace

// rdma_get_service_id()
uint64_t service_id_of(const Id& id, const sockaddr_storage& address) noexcept {
  if (address.ss_family == af_ib) return be64toh(reinterpret_cast<const SockaddrIb&>(address).sid);
  return uint64_t{id.space} << 16 | port_of(address);
}

int listen(State& s, Id& id, uint32_t backlog) {
  constexpr uint32_t most_backlog = 1024;  // ucma.c, max_backlog
  id.backlog = backlog == 0 || backlog > most_backlog ? most_backlog : backlog;
  if (id.stage == Stage::idle) {
    sockaddr_storage any{};
    any.ss_family = AF_INET;
    if (int error = bind_id(s, id, any); error != 0) return error;
  }
  if (id.stage != Stage::addr_bound)
    return refusal::text(
        EINVAL, "the id is not just bound: rdma_bind_addr() comes first, rdma_listen() once");
  if (id.reuse) {
    if (int error = check_listener(s, id); error != 0) return error;
  }
  id.service_id = service_id_of(id, id.source);
  int error = 0;
  if (id.adapter != nullptr) {
    error = listen_on(id, *id.adapter);
  } else {
    for (Adapter* a = first_adapter(); a != nullptr && error == 0; a = a->next) {
      const bool serves = !a->hidden.load(std::memory_order_relaxed) && a->hca.addresses.lid == 0;
      if (serves) error = listen_on(id, *a);
    }
  }
  if (error != 0) {
    stop_listening(id);
    return error;
  }
  id.stage = Stage::listen;
  return 0;
}

// A listener for all adapters hears those that come later too (cma_add_one()).
void listen_too(State& s, Adapter& a) {
  for (auto& [number, id] : s.ids) {
    if (id->stage == Stage::listen && id->adapter == nullptr) (void)listen_on(*id, a);
  }
}

void stop_listening(Id& id) noexcept {
  for (Adapter* a : id.listens_on) {
    const auto at = a->services.find(id.service_id);
    if (at == a->services.end() || --at->second != 0) continue;
    a->services.erase(at);
    if (auto agent = hca::connection_agent(a->hca, 1); agent.ok())
      (*agent)->unlisten(id.service_id);
  }
  id.listens_on.clear();
}

int connect(State&, Id& id, const rdma_ucm_conn_param& p) {
  if (id.stage != Stage::route_resolved)
    return refusal::text(EINVAL,
                         "the route is not resolved: rdma_resolve_route() and "
                         "RDMA_CM_EVENT_ROUTE_RESOLVED come first");
  cm::Agent* agent = agent_of(id);
  if (agent == nullptr) return refusal::text(EINVAL, no_connection);
  id.qp_num = p.qp_num & qpn_mask;
  id.srq = p.srq != 0;
  id.service_id = service_id_of(id, id.destination);
  id.stage = Stage::connect;
  const int error = id.is_datagram() ? resolve_peer(id, *agent, p) : connect_peer(id, *agent, p);
  if (error != 0) id.stage = Stage::route_resolved;
  return error;
}

int accept(State&, Id& id, const rdma_ucm_conn_param* p) {
  if (id.stage != Stage::connect)
    return refusal::text(
        EINVAL,
        "the id has no request to accept: take it from RDMA_CM_EVENT_CONNECT_REQUEST, and once");
  cm::Agent* agent = busy_agent_of(id);
  if (agent == nullptr) return refusal::text(EINVAL, no_connection);
  if (p != nullptr) {
    id.qp_num = p->qp_num & qpn_mask;
    id.srq = p->srq != 0;
  }
  int error = 0;
  if (id.is_datagram()) {
    error = answer_peer(id, *agent, cm::SidrStatus::success,
                        p != nullptr ? private_data_of(*p) : std::span<const std::byte>{});
  } else if (p != nullptr) {
    error = accept_peer(id, *agent, *p);
  } else {
    error = error_of(agent->establish(id.comm, {}, clock_ns()));
  }
  // rdma_accept(): what cannot be accepted is refused.
  if (error != 0 && !id.is_datagram())
    (void)agent->reject(id.comm, cm::Reason::consumer_defined, {}, {}, clock_ns());
  return error;
}

int reject(State&, Id& id, uint8_t reason, std::span<const std::byte> private_data) {
  cm::Agent* agent = busy_agent_of(id);
  if (agent == nullptr) return refusal::text(EINVAL, no_connection);
  if (id.is_datagram()) return answer_peer(id, *agent, cm::SidrStatus::reject, private_data);
  return error_of(agent->reject(id.comm, cm::Reason{reason}, {}, private_data, clock_ns()));
}

// Begins to disconnect, or answers who did. Neither has to be so: rdma_disconnect() looks only for
// an id of the device's manager, which a listener on one adapter has.
int disconnect(State&, Id& id) {
  if (id.stage == Stage::listen && id.adapter != nullptr) return 0;
  cm::Agent* agent = busy_agent_of(id);
  if (agent == nullptr) return refusal::text(EINVAL, no_connection);
  const uint64_t now = clock_ns();
  if (!agent->disconnect(id.comm, {}, now).ok()) (void)agent->answer_disconnect(id.comm, {}, now);
  return 0;
}

// cm.c, cm_establish(): IB_CM_USER_ESTABLISHED is told as an RTU is.
int notify(State& s, Id& id, uint32_t event) {
  cm::Agent* agent = busy_agent_of(id);
  if (agent == nullptr) return refusal::text(EINVAL, no_connection);
  if (event != communication_established)
    return refusal::equal("event", event, communication_established);
  const int error = error_of(agent->note_established(id.comm, clock_ns()));
  if (error == 0) post(s, id, EventType::established, 0);
  return error;
}

}  // namespace kilim::vhca::rdmacm
