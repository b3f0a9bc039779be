// SPDX-License-Identifier: BSD-3-Clause
// What a connection manager tells: cma.c, cma_ib_handler(), cma_ib_req_handler(),
// cma_sidr_rep_handler(); ucma.c, ucma_connect_event_handler(). That adapter's lock held.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "vhca/core/address.hh"
#include "vhca/hca/connections.hh"
#include "vhca/rdmacm/steps.hh"

namespace kilim::vhca::rdmacm {

namespace {

constexpr uint8_t patience = 24;  // cma.c, CMA_CM_MRA_SETTING

CmQpType type_of(const cm::Event& e) noexcept {
  if (e.kind == cm::EventKind::sidr_request) return CmQpType::ud;
  return e.transport == cm::Transport::uc    ? CmQpType::uc
         : e.transport == cm::Transport::xrc ? CmQpType::xrc_tgt
                                             : CmQpType::rc;
}

Gid destination_of(const cm::IpHeader& ip) noexcept {
  Gid gid = ip.destination;
  if (ip.version == 4) gid[10] = gid[11] = 0xff;
  return gid;
}
Gid source_of(const cm::IpHeader& ip) noexcept {
  Gid gid = ip.source;
  if (ip.version == 4) gid[10] = gid[11] = 0xff;
  return gid;
}

// cma_match_private_data()
bool hears(const Id& id, const cm::Event& e) noexcept {
  const sockaddr_storage& own = id.source;
  if (own.ss_family == af_ib) return true;
  if (id.has_any_source() && !id.af_only) return true;
  if (!e.ip) return false;
  const sa_family_t family = e.ip->version == 4 ? AF_INET : AF_INET6;
  if (own.ss_family != family) return false;
  return id.has_any_source() || gid_of(own) == destination_of(*e.ip);
}

Id* find_listener(State& s, const Adapter& a, const cm::Event& e) noexcept {
  for (auto& [number, id] : s.ids) {
    if (id->stage != Stage::listen || id->service_id != e.service_id) continue;
    if (id->adapter != nullptr && id->adapter != &a) continue;
    if (id->qp_type == type_of(e) && hears(*id, e)) return id.get();
  }
  return nullptr;
}

template <typename Param>
void put_private_data(const cm::Event& e, Param& param) noexcept {
  std::memcpy(param.private_data, e.private_data.bytes.data(), e.private_data.count);
  param.private_data_len = static_cast<uint8_t>(e.private_data.count);
}

// cma_set_req_event_data(), cma_set_rep_event_data()
void put_connection(const cm::Event& e, rdma_ucm_conn_param& p) noexcept {
  put_private_data(e, p);
  p.responder_resources = e.responder_resources;
  p.initiator_depth = e.initiator_depth;
  p.flow_control = e.flow_control;
  p.retry_count = e.retry_count;
  p.rnr_retry_count = e.rnr_retry_count;
  p.srq = e.srq;
  p.qp_num = e.remote_qpn;
}

Event event_of(Id& id, EventType type, int status) {
  Event event;
  event.id = &id;
  event.resp.uid = id.uid;
  event.resp.id = id.number;
  event.resp.event = static_cast<uint32_t>(type);
  event.resp.status = static_cast<uint32_t>(status);
  return event;
}

// cma_save_net_info(): ours is where the request went.
void save_addresses(Id& id, const Id& listener, const cm::Event& e) noexcept {
  id.sgid = e.route.sgid;
  id.dgid = e.route.dgid;
  id.dmac = e.route.dmac;
  if (!e.ip) return;
  id.source = address_of(destination_of(*e.ip), port_of(listener.source));
  id.destination = address_of(source_of(*e.ip), e.ip->source_port);
}

Id* make_request(State& s, Adapter& a, Id& listener, const cm::Event& e) {
  Id* id = make_id(s, *listener.file, 0, listener.space, type_of(e));
  if (id == nullptr) return nullptr;
  id->stage = Stage::connect;
  id->adapter = &a;
  id->comm = e.id;
  id->tos = listener.tos;
  id->ack_timeout = listener.ack_timeout;
  id->ack_timeout_set = listener.ack_timeout_set;
  id->has_path = true;
  id->qkey = udp_qkey;
  save_addresses(*id, listener, e);
  return id;
}

cm::Answer request(State& s, Adapter& a, const cm::Event& e) {
  Id* listener = find_listener(s, a, e);
  if (listener == nullptr) return cm::Answer::refused;
  if (listener->backlog == 0) return cm::Answer::forgotten;
  auto agent = hca::connection_agent(a.hca, 1);
  Id* id = agent.ok() ? make_request(s, a, *listener, e) : nullptr;
  if (id == nullptr) return cm::Answer::forgotten;
  (void)(*agent)->adopt(e.id, a, id->number);
  listener->backlog--;
  Event event = event_of(*listener, EventType::connect_request, 0);
  event.request = id;
  event.resp.id = id->number;
  if (id->is_datagram())
    put_private_data(e, event.resp.param.ud);
  else
    put_connection(e, event.resp.param.conn);
  post(event);
  if (!id->is_datagram()) (void)(*agent)->answer_later(e.id, patience, clock_ns());
  return cm::Answer::taken;
}

void tell(Id& id, EventType type, int status, const cm::Event& e) {
  if (id.uid == 0) return;
  Event event = event_of(id, type, status);
  put_connection(e, event.resp.param.conn);
  post(event);
}

void sidr_answer(State& s, Id& id, const cm::Event& e) {
  if (e.sidr_status != cm::SidrStatus::success)
    return post(s, id, EventType::unreachable, static_cast<int>(e.sidr_status));
  id.qkey = e.remote_qkey;
  if (id.uid == 0) return;
  Event event = event_of(id, EventType::established, 0);
  rdma_ucm_ud_param& ud = event.resp.param.ud;
  put_private_data(e, ud);
  ud.ah_attr = ah_of(id, route_of(id), gid_index_of(id.adapter->hca, id.sgid));
  ud.qp_num = e.remote_qpn;
  ud.qkey = e.remote_qkey;
  post(event);
}

// cma_comp_exch(CONNECT, DISCONNECT): told once.
void disconnected(State& s, Id& id, int status) {
  if (id.stage != Stage::connect) return;
  id.stage = Stage::disconnect;
  post(s, id, EventType::disconnected, status);
}

void answer(State& s, Id& id, const cm::Event& e) {
  using Kind = cm::EventKind;
  if (e.kind == Kind::timewait_over) {
    if (id.stage == Stage::disconnect) post(s, id, EventType::timewait_exit, 0);
    return;
  }
  if (id.stage != Stage::connect) return;
  switch (e.kind) {
    case Kind::response:
      return tell(id, EventType::connect_response, 0, e);
    case Kind::established:  // IB_CM_RTU_RECEIVED: what came with the RTU is not told
      return post(s, id, EventType::established, 0);
    case Kind::rejected:
      return tell(id, EventType::rejected, static_cast<int>(e.reason), e);
    case Kind::unreachable:
    case Kind::sidr_unreachable:
      return post(s, id, EventType::unreachable, -ETIMEDOUT);
    case Kind::disconnect:
    case Kind::disconnected:
      return disconnected(s, id, 0);
    case Kind::no_disconnect:
      return disconnected(s, id, -ETIMEDOUT);
    case Kind::sidr_answer:
      return sidr_answer(s, id, e);
    default:
      return;
  }
}

}  // namespace

cm::Answer Adapter::on_event(const cm::Event& e) noexcept {
  StateLocked state;
  if (e.kind == cm::EventKind::request || e.kind == cm::EventKind::sidr_request)
    return request(*state, *this, e);
  const auto at = state->ids.find(static_cast<uint32_t>(e.cookie));
  if (at == state->ids.end()) return cm::Answer::taken;
  Id& id = *at->second;
  if (id.adapter == this && id.comm == e.id) answer(*state, id, e);
  return cm::Answer::taken;
}

}  // namespace kilim::vhca::rdmacm
