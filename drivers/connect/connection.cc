// SPDX-License-Identifier: BSD-3-Clause
// The queue pair is no part of the id (rdma_cm(7): "user-made queue pairs"): its number goes with
// the request, its attributes come from rdma_init_qp_attr(3), and the active side says by
// rdma_establish(3) that it is ready.
#include "connect/connection.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include "kilim/detail/base/memory_reserve.hh"

namespace kilim::inline v1::connect {
namespace {

constexpr int resolve_ms = 2000;
constexpr int no_such_service = 8;  // IBTA vol. 1, 12.6.7.2 "Rejection Reason": invalid service id

struct DestroyAddresses {
  void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, DestroyAddresses>;

struct AckEvent {
  void operator()(rdma_cm_event* event) const noexcept { (void)rdma_ack_cm_event(event); }
};
using Event = std::unique_ptr<rdma_cm_event, AckEvent>;

Addresses find_address(const CmAddress& a) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = a.host.empty() ? AI_PASSIVE : 0;
  if (a.host.empty()) hints.ai_family = AF_INET6;  // which hears IPv4 too, as rdma_cm(7)'s ids do
  addrinfo* found = nullptr;
  const std::string port = std::to_string(a.port);
  if (::getaddrinfo(a.host.empty() ? nullptr : a.host.c_str(), port.c_str(), &hints, &found) != 0)
    return nullptr;
  return Addresses{found};
}

// A channel whose rdma_get_cm_event(3) never waits.
Result<CmChannel> make_channel() {
  CmChannel channel{rdma_create_event_channel()};
  if (channel == nullptr)
    return Error{errno, "there is no rdma_cm (is the module rdma_ucm loaded?)"};
  const int flags = ::fcntl(channel->fd, F_GETFL);
  if (flags < 0 || ::fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return Error{errno, "the channel of connection events waits"};
  return channel;
}

Result<CmId> make_id(rdma_event_channel* channel) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0)
    return Error{errno, "rdma_cm makes no further id"};
  return CmId{id};
}

// Null: nothing has happened.
Event next_event(rdma_event_channel* channel) {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel, &event) != 0) return nullptr;
  return Event{event};
}

bool is_of(const rdma_cm_id& id, const device::Device& device) {
  return id.verbs != nullptr &&
         std::strcmp(ibv_get_device_name(id.verbs->device), device.name()) == 0;
}

std::vector<std::byte> bytes_of(const rdma_conn_param& p) {
  const auto* from = static_cast<const std::byte*>(p.private_data);
  return from == nullptr ? std::vector<std::byte>{}
                         : std::vector<std::byte>(from, from + p.private_data_len);
}

rdma_conn_param parameters(Qpn qpn, std::span<const std::byte> data) {
  rdma_conn_param p{};
  p.private_data = data.data();
  p.private_data_len = static_cast<uint8_t>(data.size());
  p.responder_resources = RDMA_MAX_RESP_RES;
  p.initiator_depth = RDMA_MAX_INIT_DEPTH;
  p.retry_count = 7;
  p.rnr_retry_count = 7;
  p.qp_num = qpn.value();
  return p;
}

// Reads the attributes that the manager has for the state `to` into `attr`.
Status read_attributes(rdma_cm_id* id, ibv_qp_state to, ibv_qp_attr& attr) {
  int mask = 0;
  attr.qp_state = to;
  if (rdma_init_qp_attr(id, &attr, &mask) != 0)
    return Error{errno, "rdma_cm does not tell the queue pair's attributes"};
  return Done{};
}

Result<device::Route> route_of(rdma_cm_id* id) {
  ibv_qp_attr in{}, out{};
  if (Status s = read_attributes(id, IBV_QPS_RTR, in); !s) return s.error();
  if (Status s = read_attributes(id, IBV_QPS_RTS, out); !s) return s.error();
  device::Route r;
  r.peer.qpn = Qpn{in.dest_qp_num};
  r.peer.psn = in.rq_psn;
  r.peer.lid = in.ah_attr.dlid;
  r.peer.mtu_bytes = 128u << in.path_mtu;
  std::memcpy(r.peer.gid.data(), in.ah_attr.grh.dgid.raw, r.peer.gid.size());
  r.port = id->port_num;
  r.gid_index = in.ah_attr.grh.sgid_index;
  r.hop_limit = in.ah_attr.grh.hop_limit;
  r.traffic_class = in.ah_attr.grh.traffic_class;
  r.flow_label = in.ah_attr.grh.flow_label;
  r.service_level = in.ah_attr.sl;
  r.reads_in = in.max_dest_rd_atomic;
  r.rnr_timer = in.min_rnr_timer;
  r.psn = out.sq_psn;
  r.timeout = out.timeout;
  r.retries = out.retry_cnt;
  r.rnr_retries = out.rnr_retry;
  r.reads_out = out.max_rd_atomic;
  return r;
}

// What an event says that ends a connection's beginning.
Error refusal(const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return {event.status < 0 ? -event.status : EHOSTUNREACH,
              "no device finds a way to the address"};
    case RDMA_CM_EVENT_REJECTED:
      return {ECONNREFUSED, event.status == no_such_service ? "nobody listens on this port there"
                                                            : "the other side refuses to connect"};
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return {ENODEV, "the device was removed"};
    default:
      return {ETIMEDOUT, "the other side's connection manager does not answer"};
  }
}

constexpr Error too_much{EINVAL, "56 bytes fit into a request, 196 into its answer"};
constexpr Error nowhere{EINVAL, "the host's name leads nowhere"};

}  // namespace

void DestroyCm::operator()(rdma_cm_id* id) const noexcept {
  (void)rdma_destroy_id(id);
}
void DestroyCm::operator()(rdma_event_channel* channel) const noexcept {
  rdma_destroy_event_channel(channel);
}

// ---- connection

Result<Connection> Connection::start(device::Device& device, const device::QpInfo& qp,
                                     const CmAddress& to, std::span<const std::byte> data) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (data.size() > max_request_data) return too_much;
  const Addresses address = to.host.empty() ? nullptr : find_address(to);
  if (address == nullptr) return nowhere;
  Connection c{device, qp};
  Result<CmChannel> channel = make_channel();
  if (!channel) return channel.error();
  c.channel_ = *std::move(channel);
  Result<CmId> id = make_id(c.channel_.get());
  if (!id) return id.error();
  c.id_ = *std::move(id);
  c.data_.assign(data.begin(), data.end());
  if (rdma_resolve_addr(c.id_.get(), nullptr, address->ai_addr, resolve_ms) != 0)
    return Error{errno, "no device finds a way to the address"};
  return c;
}

Status Connection::ask_peer() {
  rdma_conn_param p = parameters(qpn_, data_);
  if (rdma_connect(id_.get(), &p) != 0) return Error{errno, "rdma_cm does not send the request"};
  return Done{};
}

// The peer's answer has come: this side is ready once its queue pair is.
Status Connection::finish(const rdma_cm_event& event) {
  data_ = bytes_of(event.param.conn);
  Result<device::Route> route = route_of(id_.get());
  if (!route) return route.error();
  if (Status s = device_->connect_by(qp_, *route); !s) return s;
  if (rdma_establish(id_.get()) != 0) return Error{errno, "rdma_cm does not end the handshake"};
  state_ = State::connected;
  return Done{};
}

Status Connection::handle_event(const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (!is_of(*id_, *device_)) return Error{ENODEV, "another device has the way to the address"};
      if (rdma_resolve_route(id_.get(), resolve_ms) != 0)
        return Error{errno, "there is no route to the address"};
      return Done{};
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return ask_peer();
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return finish(event);
    case RDMA_CM_EVENT_ESTABLISHED:
      state_ = State::connected;
      return Done{};
    case RDMA_CM_EVENT_DISCONNECTED:
      (void)rdma_disconnect(id_.get());  // which answers the peer's wish
      state_ = State::disconnected;
      return Done{};
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return Done{};
    default:
      return refusal(event);
  }
}

Result<Connection::State> Connection::poll() {
  device_->progress();
  while (const Event event = next_event(channel_.get()))
    if (Status s = handle_event(*event); !s) return s.error();
  return state_;
}

Status Connection::disconnect() {
  if (rdma_disconnect(id_.get()) != 0) return Error{errno, "there is nothing to part from"};
  state_ = State::disconnected;
  return device_->fail(qp_);
}

// ---- request

// The request's own offer bounds what both sides may have in flight, as librdmacm's
// rdma_accept() sets it (librdmacm/cma.c: ucma_modify_qp_rtr, ucma_modify_qp_rts).
Result<Connection> Request::accept(device::Device& device, const device::QpInfo& qp,
                                   std::span<const std::byte> data) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (id_ == nullptr) return Error{EINVAL, "the request has been answered"};
  if (data.size() > max_answer_data) return too_much;
  Connection c{device, qp};
  Result<CmChannel> channel = make_channel();
  if (!channel) return channel.error();
  if (rdma_migrate_id(id_.get(), channel->get()) != 0)
    return Error{errno, "the request does not leave its listener"};
  c.channel_ = *std::move(channel);
  Result<device::Route> route = route_of(id_.get());
  if (!route) return route.error();
  route->reads_in = std::min(route->reads_in, reads_in_);
  route->reads_out = reads_out_;
  if (Status s = device.connect_by(qp.handle, *route); !s) return s.error();
  rdma_conn_param p = parameters(qp.qpn, data);
  p.responder_resources = route->reads_in;
  p.initiator_depth = route->reads_out;
  if (rdma_accept(id_.get(), &p) != 0) return Error{errno, "rdma_cm does not send the answer"};
  c.data_ = data_;
  c.id_ = std::move(id_);
  return c;
}

Status Request::reject(std::span<const std::byte> data) {
  if (id_ == nullptr) return Error{EINVAL, "the request has been answered"};
  if (data.size() > 148) return Error{EINVAL, "148 bytes fit into a rejection"};  // rdma_reject(3)
  const CmId id = std::move(id_);
  if (rdma_reject(id.get(), data.data(), static_cast<uint8_t>(data.size())) != 0)
    return Error{errno, "the peer is gone"};
  return Done{};
}

// ---- listener

Result<Listener> Listener::create(device::Device& device, const CmAddress& at, int backlog) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const Addresses address = find_address(at);
  if (address == nullptr) return nowhere;
  Listener l{device};
  Result<CmChannel> channel = make_channel();
  if (!channel) return channel.error();
  l.channel_ = *std::move(channel);
  Result<CmId> id = make_id(l.channel_.get());
  if (!id) return id.error();
  l.id_ = *std::move(id);
  if (rdma_bind_addr(l.id_.get(), address->ai_addr) != 0)
    return Error{errno, errno == EADDRINUSE ? "another listener has this port"
                                            : "no device has this address"};
  if (rdma_listen(l.id_.get(), backlog) != 0) return Error{errno, "nobody can listen there"};
  return l;
}

Result<std::optional<Request>> Listener::poll() {
  device_->progress();
  while (const Event event = next_event(channel_.get())) {
    if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
      return Error{ENODEV, "the device was removed"};
    if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
    Request r;
    r.id_.reset(event->id);
    r.data_ = bytes_of(event->param.conn);
    r.reads_in_ = event->param.conn.responder_resources;
    r.reads_out_ = event->param.conn.initiator_depth;
    if (!is_of(*r.id_, *device_)) continue;
    return std::optional<Request>{std::move(r)};
  }
  return std::optional<Request>{};
}

uint16_t Listener::port() const noexcept {
  return be16toh(rdma_get_src_port(id_.get()));
}

}  // namespace kilim::inline v1::connect
