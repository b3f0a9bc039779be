// SPDX-License-Identifier: BSD-3-Clause
// Datagrams: service ids that are resolved (SIDR), and groups.
#include <string>

#include "cm_ends.hh"

namespace kilim::oracle::cm {
namespace {

constexpr const char* group = "239.7.0.1";

void nobody_listens(Told& t) {
  Pair p(t, RDMA_PS_UDP);
  p.server.destroy(p.listener);
  t.call("connect", p.connect(p.id));
  p.client_hears();
}

void accepted(Told& t) {
  Pair p(t, RDMA_PS_UDP);
  t.call("connect", p.connect(p.id));
  p.server_hears();
  rdma_conn_param accept = param_of("welcome");
  t.call("accept", rdma_accept(p.server.last, &accept));
  p.client_hears();
  t.call("again", rdma_accept(p.server.last, &accept));
  t.call("disconnect", rdma_disconnect(p.id));
  t.call("server", rdma_disconnect(p.server.last));
  t.call("connect", p.connect(p.id));
  p.client_hears(End::quiet_ms);
}

void rejected(Told& t) {
  Pair p(t, RDMA_PS_UDP);
  p.ask();
  t.call("reject", rdma_reject(p.request, "no, thanks", 10));
  p.client_hears();
  t.call("again", rdma_reject(p.request, "no", 2));
  rdma_conn_param accept = param_of();
  t.call("accept", rdma_accept(p.request, &accept));
  p.client_hears(End::quiet_ms);
}

void request_data(Told& t, std::size_t bytes) {
  Pair p(t, RDMA_PS_UDP);
  if (t.call("connect", p.connect(p.id, std::string(bytes, 'r')))) p.server_hears();
}
void request_with_most(Told& t) {
  request_data(t, 180);
}
void request_with_more(Told& t) {
  request_data(t, 181);
}
void answer_data(Told& t, std::size_t bytes) {
  Pair p(t, RDMA_PS_UDP);
  p.ask();
  const std::string data(bytes, 'a');
  rdma_conn_param accept = param_of(data);
  if (t.call("accept", rdma_accept(p.request, &accept))) p.client_hears();
}
void answer_with_most(Told& t) {
  answer_data(t, 136);
}
void answer_with_more(Told& t) {
  answer_data(t, 137);
}

void the_server_goes(Told& t) {
  Pair p(t, RDMA_PS_UDP);
  p.ask();
  t.call("destroy", p.server.destroy(p.request));
  p.client_hears();
}

void spaces_are_apart(Told& t) {
  Pair p(t, RDMA_PS_UDP);
  rdma_cm_id* other = p.client.make(RDMA_PS_TCP);
  Address to(addresses.own, p.port);
  t.call("resolve", rdma_resolve_addr(other, nullptr, to.get(), 1000));
  p.client_hears();
  t.call("route", rdma_resolve_route(other, 1000));
  p.client_hears();
  t.call("connect", p.connect(other));
  p.client_hears();
}

void options_of_datagrams(Told& t) {
  Pair p(t, RDMA_PS_UDP);
  p.ask();
  t.call("notify", rdma_notify(p.request, IBV_EVENT_COMM_EST));
  t.call("establish", rdma_establish(p.id));
  t.call("reject", rdma_reject(p.id, "x", 1));
}

void a_group_needs_an_address(Told& t) {
  End e;
  rdma_cm_id *id = e.make(RDMA_PS_UDP), *connected = e.make(RDMA_PS_TCP);
  Address to(group), own(addresses.own), any("0.0.0.0");
  t.call("unbound", rdma_join_multicast(id, to.get(), nullptr));
  t.call("bind", rdma_bind_addr(connected, own.get()));
  t.call("connected", rdma_join_multicast(connected, to.get(), nullptr));
  t.call("bind", rdma_bind_addr(id, own.get()));
  t.call("any", rdma_join_multicast(id, any.get(), nullptr));
  t.call("leave", rdma_leave_multicast(id, to.get()));
}

void a_group_is_joined_and_left(Told& t) {
  End e;
  rdma_cm_id* id = e.make(RDMA_PS_UDP);
  Address to(group), own(addresses.own);
  t.call("bind", rdma_bind_addr(id, own.get()));
  if (t.call("join", rdma_join_multicast(id, to.get(), nullptr))) t.say(e.wait());
  if (t.call("again", rdma_join_multicast(id, to.get(), nullptr))) t.say(e.wait(End::quiet_ms));
  t.call("leave", rdma_leave_multicast(id, to.get()));
  t.call("leave", rdma_leave_multicast(id, to.get()));
  t.call("leave", rdma_leave_multicast(id, to.get()));
}

void a_group_of_a_listener(Told& t) {
  Pair p(t, RDMA_PS_UDP);
  Address to(group);
  if (t.call("listener", rdma_join_multicast(p.listener, to.get(), nullptr)))
    p.server_hears(End::quiet_ms);
  if (t.call("routed", rdma_join_multicast(p.id, to.get(), nullptr))) p.client_hears(End::quiet_ms);
}

constexpr Scenario all[] = {
    {"datagrams: nobody listens", nobody_listens},
    {"datagrams: accepted, and again", accepted},
    {"datagrams: rejected, and again", rejected},
    {"datagrams: 180 bytes", request_with_most},
    {"datagrams: 181 bytes", request_with_more},
    {"datagrams: an answer of 136 bytes", answer_with_most},
    {"datagrams: an answer of 137 bytes", answer_with_more},
    {"datagrams: the server goes before the answer", the_server_goes},
    {"datagrams: another port space", spaces_are_apart},
    {"datagrams: calls of connections", options_of_datagrams},
    {"groups: an address is needed", a_group_needs_an_address},
    {"groups: joined and left", a_group_is_joined_and_left},
    {"groups: of a listener, of a route", a_group_of_a_listener},
};

}  // namespace

std::span<const Scenario> datagrams() {
  return all;
}

}  // namespace kilim::oracle::cm
