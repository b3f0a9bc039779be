// SPDX-License-Identifier: BSD-3-Clause
// Runs the scenarios of the connection manager and says what happened, a line each. Usage: cm_asker
// OWN UNREACHABLE SILENT [TEXT]: three IP addresses (cm_ends.hh); only the scenarios whose names
// contain TEXT.
#include "cm_ends.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>

namespace kilim::oracle::cm {

Addresses addresses;

namespace {

// A scenario that cannot even begin says so; the others go on.
struct NotSetUp {};

void must(Told& told, const char* what, int result) {
  if (result == 0) return;
  told.say(std::string("not set up: ") + what + "=" + strerrorname_np(errno));
  throw NotSetUp{};
}
void must_hear(Told& told, const std::string& wanted, const std::string& found) {
  if (found.starts_with(wanted)) return;
  told.say("not set up: " + found);
  throw NotSetUp{};
}

// A length, and the bytes up to the zeros behind them.
std::string data_words(const void* data, uint8_t count) {
  std::string_view bytes(static_cast<const char*>(data), data != nullptr ? count : 0);
  while (!bytes.empty() && bytes.back() == 0) bytes.remove_suffix(1);
  std::string out = std::to_string(count) + ":";
  for (const char c : bytes) {
    char hex[8];
    std::snprintf(hex, sizeof(hex), "\\%02x", static_cast<unsigned char>(c));
    out += c > ' ' && c < 127 ? std::string(1, c) : std::string(hex);
  }
  return out;
}

void add(std::string& out, char between, const std::string& more) {
  out += between;
  out += more;
}

std::string words_of(const rdma_cm_event& e) {
  constexpr std::string_view prefix = "RDMA_CM_EVENT_";
  std::string out = std::string(rdma_event_str(e.event)).substr(prefix.size());
  add(out, '/', std::to_string(e.status));
  if (e.id->ps == RDMA_PS_UDP) {
    if (e.event == RDMA_CM_EVENT_CONNECT_REQUEST || e.event == RDMA_CM_EVENT_ESTABLISHED)
      add(out, '/', data_words(e.param.ud.private_data, e.param.ud.private_data_len));
    if (e.event == RDMA_CM_EVENT_ESTABLISHED || e.event == RDMA_CM_EVENT_MULTICAST_JOIN)
      add(out, '/', std::to_string(e.param.ud.qkey));
    return out;
  }
  const rdma_conn_param& p = e.param.conn;
  add(out, '/', data_words(p.private_data, p.private_data_len));
  if (e.event == RDMA_CM_EVENT_CONNECT_REQUEST || e.event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
    for (const uint8_t value : {p.responder_resources, p.initiator_depth, p.flow_control,
                                p.retry_count, p.rnr_retry_count, p.srq})
      add(out, ',', std::to_string(value));
  }
  return out;
}

}  // namespace

void Told::say(const std::string& words) {
  text_ += (text_.empty() ? "" : " ") + words;
}
bool Told::call(const char* name, int result) {
  say(std::string(name) + "=" + (result == 0 ? "0" : strerrorname_np(errno)));
  return result == 0;
}

Address::Address(const std::string& text, uint16_t port) {
  in_addr four{};
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) {
    auto* in = reinterpret_cast<sockaddr_in*>(&storage);
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    in->sin_addr = four;
  } else {
    auto* in = reinterpret_cast<sockaddr_in6*>(&storage);
    in->sin6_family = AF_INET6;
    in->sin6_port = htons(port);
    inet_pton(AF_INET6, text.c_str(), &in->sin6_addr);
  }
}

uint16_t fresh_port() {
  static uint16_t port = 7500;
  return port++;
}

rdma_conn_param param_of(std::string_view data) {
  static uint32_t qpn = 0x1000;
  rdma_conn_param p{};
  p.private_data = data.data();
  p.private_data_len = static_cast<uint8_t>(data.size());
  p.responder_resources = 3;
  p.initiator_depth = 2;
  p.retry_count = 5;
  p.rnr_retry_count = 6;
  p.qp_num = qpn++;
  return p;
}

End::End() : channel(rdma_create_event_channel()) {
  if (channel == nullptr) std::abort();
  fcntl(channel->fd, F_SETFL, O_NONBLOCK);
}
End::~End() {
  for (rdma_cm_id* id : ids_) rdma_destroy_id(id);
  rdma_destroy_event_channel(channel);
}
rdma_cm_id* End::make(rdma_port_space space) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel, &id, nullptr, space) != 0) std::abort();
  adopt(id);
  return id;
}
void End::disown(rdma_cm_id* id) {
  std::erase(ids_, id);
}
int End::destroy(rdma_cm_id* id) {
  disown(id);
  return rdma_destroy_id(id);
}
std::string End::wait(int milliseconds) {
  pollfd readable{channel->fd, POLLIN, 0};
  rdma_cm_event* event = nullptr;
  if (poll(&readable, 1, milliseconds) != 1) return "nothing";
  if (rdma_get_cm_event(channel, &event) != 0) return std::string("?") + strerrorname_np(errno);
  last = event->id;
  if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) adopt(last);
  std::string words = words_of(*event);
  rdma_ack_cm_event(event);
  return words;
}

Pair::Pair(Told& t, rdma_port_space s, int backlog) : told(t), space(s) {
  Address at(addresses.own, port);
  listener = server.make(space);
  must(told, "bind", rdma_bind_addr(listener, at.get()));
  must(told, "listen", rdma_listen(listener, backlog));
  id = make_client();
}
rdma_cm_id* Pair::make_client() {
  rdma_cm_id* made = client.make(space);
  Address to(addresses.own, port);
  must(told, "resolve_addr", rdma_resolve_addr(made, nullptr, to.get(), 2000));
  must_hear(told, "ADDR_RESOLVED", client.wait());
  must(told, "resolve_route", rdma_resolve_route(made, 2000));
  must_hear(told, "ROUTE_RESOLVED", client.wait());
  return made;
}
int Pair::connect(rdma_cm_id* which, std::string_view data) {
  rdma_conn_param p = param_of(data);
  return rdma_connect(which, &p);
}
void Pair::ask() {
  must(told, "connect", connect(id));
  must_hear(told, "CONNECT_REQUEST", server.wait());
  request = server.last;
}
void Pair::establish() {
  ask();
  rdma_conn_param p = param_of("welcome");
  must(told, "accept", rdma_accept(request, &p));
  must_hear(told, "CONNECT_RESPONSE", client.wait());
  must(told, "establish", rdma_establish(id));
  must_hear(told, "ESTABLISHED", server.wait());
}
void Pair::server_hears(int milliseconds) {
  told.say("server:" + server.wait(milliseconds));
}
void Pair::client_hears(int milliseconds) {
  told.say("client:" + client.wait(milliseconds));
}

namespace {

void run(const Scenario& s) {
  Told told;
  try {
    s.run(told);
  } catch (const NotSetUp&) {
  }
  std::printf("%s = %s\n", s.name, told.text().c_str());
  std::fflush(stdout);
}

}  // namespace
}  // namespace kilim::oracle::cm

int main(int argc, char** argv) {
  using namespace kilim::oracle::cm;
  if (argc < 4) return 2;
  addresses = {argv[1], argv[2], argv[3]};
  const char* only = argc > 4 ? argv[4] : "";
  for (const auto& part : {refusals(), states(), addressing(), datagrams()}) {
    for (const Scenario& s : part)
      if (std::strstr(s.name, only) != nullptr) run(s);
  }
  return 0;
}
