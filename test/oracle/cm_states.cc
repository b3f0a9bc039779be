// SPDX-License-Identifier: BSD-3-Clause
// Calls in states that are not theirs, or twice; what the other end hears of an end; ids that are
// destroyed halfway, or move to another channel.
#include <cerrno>
#include <thread>

#include <unistd.h>

#include "cm_ends.hh"

namespace kilim::oracle::cm {
namespace {

int accept(rdma_cm_id* id) {
  rdma_conn_param p = param_of();
  return rdma_accept(id, &p);
}
int connect(rdma_cm_id* id) {
  rdma_conn_param p = param_of();
  return rdma_connect(id, &p);
}

// Bound to a device, without which librdmacm itself looks at what is not there.
void nothing_before_a_peer(Told& t) {
  End e;
  rdma_cm_id* id = e.make();
  Address at(addresses.own, fresh_port());
  t.call("bind", rdma_bind_addr(id, at.get()));
  t.call("resolve_route", rdma_resolve_route(id, 1000));
  t.call("connect", connect(id));
  t.call("accept", accept(id));
  t.call("disconnect", rdma_disconnect(id));
  t.call("notify", rdma_notify(id, IBV_EVENT_COMM_EST));
  t.call("reject", rdma_reject(id, "x", 1));
  t.call("establish", rdma_establish(id));
  ibv_qp_attr attr{};
  int mask = 0;
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR}) {
    attr.qp_state = state;
    t.call("init_qp_attr", rdma_init_qp_attr(id, &attr, &mask));
  }
}

void nothing_of_a_listener(Told& t) {
  Pair p(t);
  Address to(addresses.own, p.port);
  t.call("listen", rdma_listen(p.listener, 1));
  t.call("resolve_addr", rdma_resolve_addr(p.listener, nullptr, to.get(), 1000));
  t.call("resolve_route", rdma_resolve_route(p.listener, 1000));
  t.call("connect", connect(p.listener));
  t.call("accept", accept(p.listener));
  t.call("reject", rdma_reject(p.listener, "x", 1));
  t.call("disconnect", rdma_disconnect(p.listener));
  t.call("notify", rdma_notify(p.listener, IBV_EVENT_COMM_EST));
  t.call("bind", rdma_bind_addr(p.listener, to.get()));
}

void connect_before_a_route(Told& t) {
  End e;
  rdma_cm_id* id = e.make();
  Address to(addresses.own, fresh_port());
  t.call("resolve_addr", rdma_resolve_addr(id, nullptr, to.get(), 1000));
  t.say(e.wait());
  t.call("connect", connect(id));
  t.call("listen", rdma_listen(id, 1));
  t.call("accept", accept(id));
  t.call("resolve_addr", rdma_resolve_addr(id, nullptr, to.get(), 1000));
  t.call("resolve_route", rdma_resolve_route(id, 1000));
  t.say(e.wait());
  t.call("resolve_route", rdma_resolve_route(id, 1000));
  t.call("resolve_addr", rdma_resolve_addr(id, nullptr, to.get(), 1000));
  t.call("disconnect", rdma_disconnect(id));
  t.call("accept", accept(id));
}

// Not asked is what happens when the asking side rejects, or accepts, itself: Linux 6.1 says yes,
// lets the REQ go on, and hangs in destroying the id (cm.c, cm_send_rej_locked(), cm_destroy_id()).
void connect_twice(Told& t) {
  Pair p(t);
  t.call("connect", connect(p.id));
  t.call("again", connect(p.id));
  t.call("establish", rdma_establish(p.id));
  p.server_hears();
  p.client_hears(End::quiet_ms);
}

void accept_twice(Told& t) {
  Pair p(t);
  p.ask();
  t.call("accept", accept(p.request));
  t.call("again", accept(p.request));
  p.client_hears();
  p.client_hears(End::quiet_ms);
  t.call("establish", rdma_establish(p.id));
  p.server_hears(End::quiet_ms);
}

void establish_twice(Told& t) {
  Pair p(t);
  p.establish();
  t.call("establish", rdma_establish(p.id));
  t.call("server", rdma_establish(p.request));
  p.server_hears(End::quiet_ms);
  p.client_hears(End::quiet_ms);
}

void disconnect_twice(Told& t) {
  Pair p(t);
  p.establish();
  t.call("disconnect", rdma_disconnect(p.id));
  t.call("again", rdma_disconnect(p.id));
  p.server_hears();
  t.call("server", rdma_disconnect(p.request));
  p.client_hears();
  t.call("again", rdma_disconnect(p.id));
  t.call("server", rdma_disconnect(p.request));
  t.call("connect", connect(p.id));
}

void both_disconnect(Told& t) {
  Pair p(t);
  p.establish();
  t.call("client", rdma_disconnect(p.id));
  t.call("server", rdma_disconnect(p.request));
  p.client_hears();
  p.server_hears();
}

void disconnect_before_an_answer(Told& t) {
  Pair p(t);
  p.ask();
  t.call("client", rdma_disconnect(p.id));
  t.call("server", rdma_disconnect(p.request));
  p.client_hears(End::quiet_ms);
  p.server_hears(End::quiet_ms);
}

void disconnect_before_it_is_established(Told& t) {
  Pair p(t);
  p.ask();
  t.call("accept", accept(p.request));
  p.client_hears();
  t.call("server", rdma_disconnect(p.request));
  p.client_hears(End::quiet_ms);
  t.call("client", rdma_disconnect(p.id));
  p.client_hears(End::quiet_ms);
  p.server_hears(End::quiet_ms);
}

void notify_before_and_after(Told& t) {
  Pair p(t);
  p.ask();
  t.call("early", rdma_notify(p.request, IBV_EVENT_COMM_EST));
  t.call("accept", accept(p.request));
  p.client_hears();
  t.call("other", rdma_notify(p.request, IBV_EVENT_PATH_MIG));
  t.call("notify", rdma_notify(p.request, IBV_EVENT_COMM_EST));
  p.server_hears();
  t.call("again", rdma_notify(p.request, IBV_EVENT_COMM_EST));
  t.call("client", rdma_notify(p.id, IBV_EVENT_COMM_EST));
}

void the_client_goes_before_the_answer(Told& t) {
  Pair p(t);
  p.ask();
  t.call("destroy", p.client.destroy(p.id));
  p.server_hears(End::quiet_ms);
  t.call("accept", accept(p.request));
  t.call("reject", rdma_reject(p.request, "x", 1));
}

void the_server_goes_before_the_answer(Told& t) {
  Pair p(t);
  p.ask();
  t.call("destroy", p.server.destroy(p.request));
  p.client_hears();
}

void the_listener_goes_with_its_requests(Told& t) {
  Pair p(t);
  t.call("connect", connect(p.id));
  usleep(End::quiet_ms * 1000);
  t.call("destroy", p.server.destroy(p.listener));
  p.client_hears();
}

void the_listener_goes_and_its_request_stays(Told& t) {
  Pair p(t);
  p.ask();
  t.call("destroy", p.server.destroy(p.listener));
  t.call("accept", accept(p.request));
  p.client_hears();
  t.call("establish", rdma_establish(p.id));
  p.server_hears();
}

void an_end_that_is_destroyed_is_missed(Told& t) {
  Pair p(t);
  p.establish();
  t.call("destroy", p.client.destroy(p.id));
  p.server_hears();
  t.call("disconnect", rdma_disconnect(p.request));
  p.server_hears(End::quiet_ms);
}

// rdma_destroy_id(3): blocks until the id's events are acknowledged.
void destroy_waits_for_acknowledgement(Told& t) {
  Pair p(t);
  t.call("connect", p.connect(p.id));
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(p.server.channel, &event) != 0 && errno == EAGAIN) usleep(1000);
  if (event == nullptr) return t.say("no event");
  p.server.adopt(event->id);
  p.server.disown(p.listener);
  bool over = false;
  std::thread destroyer([&] {
    rdma_destroy_id(p.listener);
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
  });
  usleep(300'000);
  t.say(__atomic_load_n(&over, __ATOMIC_ACQUIRE) ? "did not wait" : "waits");
  rdma_ack_cm_event(event);
  destroyer.join();
  t.say("over");
}

void an_id_migrates_with_its_events(Told& t) {
  Pair p(t);
  End other;
  t.call("connect", p.connect(p.id));
  usleep(End::quiet_ms * 1000);
  t.call("migrate", rdma_migrate_id(p.listener, other.channel));
  t.say("old:" + p.server.wait(End::quiet_ms));
  p.server.disown(p.listener);
  other.adopt(p.listener);
  t.say("new:" + other.wait());
  if (other.last == nullptr) return;
  t.call("reject", rdma_reject(other.last, "moved", 5));
  p.client_hears();
  t.call("same", rdma_migrate_id(p.id, p.client.channel));
  t.call("destroy", other.destroy(p.listener));
}

void a_connection_migrates(Told& t) {
  Pair p(t);
  p.establish();
  End other;
  t.call("migrate", rdma_migrate_id(p.request, other.channel));
  p.server.disown(p.request);
  other.adopt(p.request);
  t.call("disconnect", rdma_disconnect(p.id));
  t.say("new:" + other.wait());
  p.server_hears(End::quiet_ms);
}

// librdmacm tells the kernel which file the id comes from.
void migrate_from_what_is_no_channel(Told& t) {
  End e, other;
  rdma_cm_id* id = e.make();
  int ends[2] = {-1, -1};
  if (pipe(ends) != 0) return t.say("no pipe");
  close(ends[1]);
  for (const int fd : ends) {
    rdma_event_channel no_channel{fd};
    id->channel = &no_channel;
    t.call(fd == ends[0] ? "pipe" : "closed", rdma_migrate_id(id, other.channel));
    id->channel = e.channel;
  }
  rdma_cm_id* of_another = other.make();
  of_another->channel = e.channel;
  t.call("another", rdma_migrate_id(of_another, other.channel));
  of_another->channel = other.channel;
  close(ends[0]);
  Address at(addresses.own, fresh_port());
  t.call("bind", rdma_bind_addr(id, at.get()));
}

void no_event_is_there(Told& t) {
  End e;
  rdma_cm_event* event = nullptr;
  t.call("get_cm_event", rdma_get_cm_event(e.channel, &event));
}

constexpr Scenario all[] = {
    {"nothing before a peer", nothing_before_a_peer},
    {"nothing of a listener", nothing_of_a_listener},
    {"connect before a route", connect_before_a_route},
    {"connect twice", connect_twice},
    {"accept twice", accept_twice},
    {"establish twice", establish_twice},
    {"disconnect twice", disconnect_twice},
    {"both disconnect", both_disconnect},
    {"disconnect before an answer", disconnect_before_an_answer},
    {"disconnect before it is established", disconnect_before_it_is_established},
    {"notify before and after", notify_before_and_after},
    {"the client goes before the answer", the_client_goes_before_the_answer},
    {"the server goes before the answer", the_server_goes_before_the_answer},
    {"the listener goes with its requests", the_listener_goes_with_its_requests},
    {"the listener goes and its request stays", the_listener_goes_and_its_request_stays},
    {"an end that is destroyed is missed", an_end_that_is_destroyed_is_missed},
    {"destroy waits for acknowledgement", destroy_waits_for_acknowledgement},
    {"an id migrates with its events", an_id_migrates_with_its_events},
    {"a connection migrates", a_connection_migrates},
    {"migrate from what is no channel", migrate_from_what_is_no_channel},
    {"no event is there", no_event_is_there},
};

}  // namespace

std::span<const Scenario> states() {
  return all;
}

}  // namespace kilim::oracle::cm
