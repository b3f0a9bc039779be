// SPDX-License-Identifier: BSD-3-Clause
// What a peer, or its connection manager, says no to, and what private data may be.
#include <string>

#include <unistd.h>

#include "cm_ends.hh"

namespace kilim::oracle::cm {
namespace {

void nobody_listens(Told& t) {
  Pair p(t);
  p.server.destroy(p.listener);
  t.call("connect", p.connect(p.id));
  p.client_hears();
  t.call("again", p.connect(p.id));
}

void rejected(Told& t, std::string_view data) {
  Pair p(t);
  p.ask();
  if (!t.call("reject", rdma_reject(p.request, data.data(), static_cast<uint8_t>(data.size()))))
    return;
  p.client_hears();
}
void rejected_with_data(Told& t) {
  rejected(t, "no, thanks");
}
void rejected_without(Told& t) {
  rejected(t, {});
}
void rejected_with_most(Told& t) {
  rejected(t, std::string(148, 'x'));
}
void rejected_with_more(Told& t) {
  rejected(t, std::string(149, 'x'));
}

void rejected_for_its_options(Told& t) {
  Pair p(t);
  p.ask();
  t.call("reject_ece", rdma_reject_ece(p.request, "ece", 3));
  p.client_hears();
}

void rejected_twice(Told& t) {
  Pair p(t);
  p.ask();
  t.call("reject", rdma_reject(p.request, "a", 1));
  t.call("again", rdma_reject(p.request, "b", 1));
  rdma_conn_param accept = param_of();
  t.call("accept", rdma_accept(p.request, &accept));
  p.client_hears();
  p.client_hears(End::quiet_ms);
}

void rejected_by_the_client(Told& t) {
  Pair p(t);
  p.ask();
  rdma_conn_param accept = param_of("welcome");
  t.call("accept", rdma_accept(p.request, &accept));
  p.client_hears();
  t.call("reject", rdma_reject(p.id, "changed my mind", 15));
  p.server_hears();
  p.client_hears(End::quiet_ms);
}

void rejected_when_established(Told& t) {
  Pair p(t);
  p.establish();
  t.call("client", rdma_reject(p.id, "late", 4));
  t.call("server", rdma_reject(p.request, "late", 4));
  p.server_hears(End::quiet_ms);
  p.client_hears(End::quiet_ms);
}

void request_data(Told& t, std::size_t bytes) {
  Pair p(t);
  if (t.call("connect", p.connect(p.id, std::string(bytes, 'r')))) p.server_hears();
}
void request_with_most(Told& t) {
  request_data(t, 56);
}
void request_with_more(Told& t) {
  request_data(t, 57);
}

void answer_data(Told& t, std::size_t bytes) {
  Pair p(t);
  p.ask();
  const std::string data(bytes, 'a');
  rdma_conn_param accept = param_of(data);
  t.call("accept", rdma_accept(p.request, &accept));
  p.client_hears();
}
void answer_with_most(Told& t) {
  answer_data(t, 196);
}
void answer_with_more(Told& t) {
  answer_data(t, 197);
}

void retries_above_seven(Told& t) {
  Pair p(t);
  rdma_conn_param request = param_of();
  request.retry_count = request.rnr_retry_count = 200;
  request.flow_control = 1;
  request.srq = 1;
  t.call("connect", rdma_connect(p.id, &request));
  p.server_hears();
  rdma_conn_param accept = param_of();
  accept.rnr_retry_count = 200;
  accept.flow_control = 1;
  t.call("accept", rdma_accept(p.server.last, &accept));
  p.client_hears();
}

void a_queue_pair_twice(Told& t) {
  Pair p(t);
  rdma_conn_param one = param_of("first");
  t.call("connect", rdma_connect(p.id, &one));
  p.server_hears();
  rdma_cm_id* other = p.make_client();
  one.private_data = "other";
  t.call("other", rdma_connect(other, &one));
  p.client_hears();
  p.server_hears(End::quiet_ms);
  rdma_conn_param accept = param_of();
  t.call("accept", rdma_accept(p.server.last, &accept));
}

void a_queue_pair_of_a_connection(Told& t) {
  Pair p(t);
  rdma_conn_param one = param_of("first");
  t.call("connect", rdma_connect(p.id, &one));
  p.server_hears();
  p.request = p.server.last;
  rdma_conn_param accept = param_of("welcome");
  t.call("accept", rdma_accept(p.request, &accept));
  p.client_hears();
  t.call("establish", rdma_establish(p.id));
  p.server_hears();
  rdma_cm_id* other = p.make_client();
  t.call("other", rdma_connect(other, &one));
  for (int i = 0; i < 2; i++) p.client_hears();
  p.server_hears();
}

void the_backlog_is_full(Told& t) {
  Pair p(t, RDMA_PS_TCP, 1);
  t.call("connect", p.connect(p.id, "one"));
  usleep(100'000);
  t.call("connect", p.connect(p.make_client(), "two"));
  usleep(500'000);
  p.server_hears();
  p.server_hears(End::quiet_ms);  // the second was not told of
  p.server_hears();               // its next copy was
}

constexpr Scenario all[] = {
    {"nobody listens", nobody_listens},
    {"reject with data", rejected_with_data},
    {"reject without data", rejected_without},
    {"reject with 148 bytes", rejected_with_most},
    {"reject with 149 bytes", rejected_with_more},
    {"reject for its options", rejected_for_its_options},
    {"reject twice, then accept", rejected_twice},
    {"the client rejects the answer", rejected_by_the_client},
    {"reject an established connection", rejected_when_established},
    {"connect with 56 bytes", request_with_most},
    {"connect with 57 bytes", request_with_more},
    {"accept with 196 bytes", answer_with_most},
    {"accept with 197 bytes", answer_with_more},
    {"more retries than seven", retries_above_seven},
    {"a queue pair in two requests", a_queue_pair_twice},
    {"a queue pair of a connection again", a_queue_pair_of_a_connection},
    {"the backlog is full", the_backlog_is_full},
};

}  // namespace

std::span<const Scenario> refusals() {
  return all;
}

}  // namespace kilim::oracle::cm
