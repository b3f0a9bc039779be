// SPDX-License-Identifier: BSD-3-Clause
// Binding and ports, resolving what cannot be reached, options.
#include <infiniband/ib.h>

#include "cm_ends.hh"

namespace kilim::oracle::cm {
namespace {

int bind(rdma_cm_id* id, const std::string& text, uint16_t port) {
  Address at(text, port);
  return rdma_bind_addr(id, at.get());
}
int resolve(rdma_cm_id* id, const std::string& text, int milliseconds = 1000) {
  Address to(text, 7);
  return rdma_resolve_addr(id, nullptr, to.get(), milliseconds);
}
template <typename T>
int option(rdma_cm_id* id, int name, T value) {
  return rdma_set_option(id, RDMA_OPTION_ID, name, &value, sizeof(value));
}

void bind_twice(Told& t) {
  End e;
  rdma_cm_id* id = e.make();
  t.call("bind", bind(id, addresses.own, fresh_port()));
  t.call("again", bind(id, addresses.own, fresh_port()));
}

void a_port_in_use(Told& t) {
  End e;
  const uint16_t port = fresh_port();
  t.call("bind", bind(e.make(), addresses.own, port));
  t.call("same", bind(e.make(), addresses.own, port));
  t.call("any", bind(e.make(), "0.0.0.0", port));
  t.call("any6", bind(e.make(), "::", port));
  t.call("datagrams", bind(e.make(RDMA_PS_UDP), addresses.own, port));
}

void any_address_in_use(Told& t) {
  End e;
  const uint16_t port = fresh_port();
  t.call("any", bind(e.make(), "0.0.0.0", port));
  t.call("own", bind(e.make(), addresses.own, port));
  t.call("any", bind(e.make(), "0.0.0.0", port));
  t.call("any6", bind(e.make(), "::", port));
}

void families_apart(Told& t) {
  End e;
  const uint16_t port = fresh_port();
  rdma_cm_id *four = e.make(), *six = e.make();
  t.call("only6", option(six, RDMA_OPTION_ID_AFONLY, 1));
  t.call("any6", bind(six, "::", port));
  t.call("any", bind(four, "0.0.0.0", port));
  t.call("listen6", rdma_listen(six, 1));
  t.call("listen", rdma_listen(four, 1));
}

void a_port_that_is_shared(Told& t) {
  End e;
  const uint16_t port = fresh_port();
  rdma_cm_id *one = e.make(), *two = e.make(), *three = e.make();
  t.call("reuse", option(one, RDMA_OPTION_ID_REUSEADDR, 1));
  t.call("reuse", option(two, RDMA_OPTION_ID_REUSEADDR, 1));
  t.call("one", bind(one, addresses.own, port));
  t.call("two", bind(two, addresses.own, port));
  t.call("three", bind(three, addresses.own, port));
  t.call("listen", rdma_listen(one, 1));
  t.call("listen", rdma_listen(two, 1));
  t.call("unshare", option(two, RDMA_OPTION_ID_REUSEADDR, 0));
}

void a_port_is_free_again(Told& t) {
  End e;
  const uint16_t port = fresh_port();
  rdma_cm_id* one = e.make();
  t.call("bind", bind(one, addresses.own, port));
  t.call("listen", rdma_listen(one, 1));
  t.call("taken", bind(e.make(), addresses.own, port));
  t.call("destroy", e.destroy(one));
  rdma_cm_id* next = e.make();
  t.call("bind", bind(next, addresses.own, port));
  t.call("listen", rdma_listen(next, 1));
}

void foreign_addresses(Told& t) {
  End e;
  t.call("unreachable", bind(e.make(), addresses.unreachable, 0));
  t.call("silent", bind(e.make(), addresses.silent, 0));
  t.call("link-local", bind(e.make(), "fe80::1", 0));
  t.call("six", bind(e.make(), "2001:db8::1", 0));
}

void addresses_of_other_families(Told& t) {
  End e;
  sockaddr_storage none{};
  t.call("none", rdma_bind_addr(e.make(), reinterpret_cast<sockaddr*>(&none)));
  sockaddr_ib ib{};
  ib.sib_family = AF_IB;
  t.call("ib", rdma_bind_addr(e.make(), reinterpret_cast<sockaddr*>(&ib)));
  ib.sib_addr.sib_raw[15] = 9;
  t.call("gid", rdma_bind_addr(e.make(), reinterpret_cast<sockaddr*>(&ib)));
  Address to(addresses.own, 7), from("::");
  t.call("mixed", rdma_resolve_addr(e.make(), from.get(), to.get(), 1000));
  rdma_cm_id* id = e.make();
  t.call("bind", bind(id, addresses.own, 0));
  t.call("six", resolve(id, "2001:db8::1"));
}

void listen_without_binding(Told& t) {
  End e;
  rdma_cm_id* id = e.make();
  t.call("listen", rdma_listen(id, 0));
  t.say(rdma_get_src_port(id) != 0 ? "port" : "no port");
  t.call("again", rdma_listen(id, 0));
}

void no_route(Told& t) {
  End e;
  rdma_cm_id* id = e.make();
  if (t.call("resolve", resolve(id, addresses.unreachable))) t.say(e.wait(End::quiet_ms));
  if (t.call("again", resolve(id, addresses.own))) t.say(e.wait());
}

void a_silent_neighbour(Told& t) {
  End e;
  rdma_cm_id* id = e.make();
  if (t.call("resolve", resolve(id, addresses.silent, 300))) t.say(e.wait());
  if (t.call("again", resolve(id, addresses.own))) t.say(e.wait());
}

void resolve_while_resolving(Told& t) {
  End e;
  rdma_cm_id* id = e.make();
  t.call("resolve", resolve(id, addresses.silent, 500));
  t.call("again", resolve(id, addresses.silent, 500));
  t.call("bind", bind(id, addresses.own, 0));
  t.say(e.wait());
}

void destroy_while_resolving(Told& t) {
  End e;
  rdma_cm_id* id = e.make();
  t.call("resolve", resolve(id, addresses.silent, 5000));
  t.call("destroy", e.destroy(id));
  t.say(e.wait(End::quiet_ms));
}

void a_source_of_others(Told& t) {
  End e;
  Address to(addresses.own, 7), from(addresses.silent);
  t.call("resolve", rdma_resolve_addr(e.make(), from.get(), to.get(), 1000));
  Address own(addresses.own);
  if (t.call("own", rdma_resolve_addr(e.make(), own.get(), to.get(), 1000))) t.say(e.wait());
}

void link_local_without_scope(Told& t) {
  End e;
  t.call("resolve", resolve(e.make(), "fe80::4b:4cff:feee:ee01"));
}

void spaces_that_are_none(Told& t) {
  End e;
  rdma_cm_id* id = nullptr;
  t.call("zero", rdma_create_id(e.channel, &id, nullptr, static_cast<rdma_port_space>(0)));
  t.call("next", rdma_create_id(e.channel, &id, nullptr, static_cast<rdma_port_space>(0x10f)));
  t.call("much", rdma_create_id(e.channel, &id, nullptr, static_cast<rdma_port_space>(0x1ff)));
}

void options_that_are_none(Told& t) {
  End e;
  rdma_cm_id* id = e.make();
  uint8_t byte = 1;
  t.call("level", rdma_set_option(id, 7, RDMA_OPTION_ID_TOS, &byte, 1));
  t.call("name", rdma_set_option(id, RDMA_OPTION_ID, 77, &byte, 1));
  t.call("ib", rdma_set_option(id, RDMA_OPTION_IB, 77, &byte, 1));
  t.call("path", rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &byte, 1));
}

void options_of_wrong_length(Told& t) {
  End e;
  rdma_cm_id *id = e.make(), *datagrams = e.make(RDMA_PS_UDP);
  t.call("tos", option(id, RDMA_OPTION_ID_TOS, uint16_t{1}));
  t.call("reuse", option(id, RDMA_OPTION_ID_REUSEADDR, uint8_t{1}));
  t.call("afonly", option(id, RDMA_OPTION_ID_AFONLY, uint8_t{1}));
  t.call("timeout", option(id, RDMA_OPTION_ID_ACK_TIMEOUT, 9));
  t.call("datagrams", option(datagrams, RDMA_OPTION_ID_ACK_TIMEOUT, uint8_t{9}));
  t.call("right", option(id, RDMA_OPTION_ID_ACK_TIMEOUT, uint8_t{9}));
}

void options_in_other_states(Told& t) {
  Pair p(t);
  for (rdma_cm_id* id : {p.listener, p.id}) {
    t.call("tos", option(id, RDMA_OPTION_ID_TOS, uint8_t{8}));
    t.call("reuse", option(id, RDMA_OPTION_ID_REUSEADDR, 1));
    t.call("afonly", option(id, RDMA_OPTION_ID_AFONLY, 1));
    t.call("timeout", option(id, RDMA_OPTION_ID_ACK_TIMEOUT, uint8_t{9}));
  }
}

constexpr Scenario all[] = {
    {"bind twice", bind_twice},
    {"a port in use", a_port_in_use},
    {"any address in use", any_address_in_use},
    {"families apart", families_apart},
    {"a port that is shared", a_port_that_is_shared},
    {"a port is free again", a_port_is_free_again},
    {"foreign addresses", foreign_addresses},
    {"addresses of other families", addresses_of_other_families},
    {"listen without binding", listen_without_binding},
    {"no route", no_route},
    {"a silent neighbour", a_silent_neighbour},
    {"resolve while resolving", resolve_while_resolving},
    {"destroy while resolving", destroy_while_resolving},
    {"a source of others", a_source_of_others},
    {"link-local without scope", link_local_without_scope},
    {"port spaces that are none", spaces_that_are_none},
    {"options that are none", options_that_are_none},
    {"options of wrong length", options_of_wrong_length},
    {"options in other states", options_in_other_states},
};

}  // namespace

std::span<const Scenario> addressing() {
  return all;
}

}  // namespace kilim::oracle::cm
