// SPDX-License-Identifier: BSD-3-Clause
// From an address to an adapter, and to a peer's: cma.c, rdma_bind_addr(), rdma_resolve_addr();
// addr.c, addr_resolve(). The routes are the networks of the adapters' own addresses.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <netinet/in.h>
#include <time.h>

#include "vhca/core/address.hh"
#include "vhca/core/refusal.hh"
#include "vhca/hca/ports.hh"
#include "vhca/rdmacm/steps.hh"

namespace kilim::vhca::rdmacm {

namespace {

// Between two looks for a neighbour: who starts at about the same time is found soon.
constexpr uint64_t look_ns = 10'000'000;
constexpr uint64_t ms = 1'000'000;
constexpr uint32_t most_timeout_ms = 1u << 24;

bool serves(const Adapter& a) noexcept {
  return !a.hidden.load(std::memory_order_relaxed) && a.hca.addresses.lid == 0 &&
         !a.hca.context.dead;
}

Gid link_local_of(const Adapter& a) noexcept {
  Gid gid{};
  port_gid(a.hca.addresses, 0, gid);
  return gid;
}

// The interface that a scope names: a wire's own, or any number where a wire has none. Without a
// scope a peer is on the first link that there is (cma_bind_addr() lets the routes decide).
bool in_scope(const Adapter& a, uint32_t scope) {
  const Result<PortAttr> port = hca::query_port(a.hca, 1);
  return port.ok() && (scope == 0 || port->interface == 0 || port->interface == scope);
}

// The oldest that says yes: the list has the newest first.
template <typename Yes>
Adapter* find_adapter(Yes yes) {
  Adapter* found = nullptr;
  for (Adapter* a = first_adapter(); a != nullptr; a = a->next)
    if (serves(*a) && yes(*a)) found = a;
  return found;
}

// cma_translate_addr(), cma_acquire_dev_by_src_ip(): whose address it is.
Adapter* owner_of(const sockaddr_storage& address) {
  if (address.ss_family == af_ib) return nullptr;
  const Gid gid = gid_of(address);
  const uint32_t scope = scope_of(address);
  return find_adapter([&](const Adapter& a) {
    return is_own_gid(a.hca.addresses, gid) && (!is_link_local(address) || in_scope(a, scope));
  });
}

struct Way {
  Adapter* adapter = nullptr;
  Gid source{};
};

// A group is on every wire: of the oldest adapter that has an address of its kind.
Way way_to_groups(const sockaddr_storage& to) {
  Way way;
  find_adapter([&](Adapter& a) {
    for (const PortIp& ip : a.hca.config.ips) {
      if (is_ipv4(ip.address) != (to.ss_family == AF_INET)) continue;
      way = {&a, ip.address};
      break;
    }
    return false;
  });
  return way;
}

// The route table: who has the address himself, else who is in the longest network with it.
Way way_to(const sockaddr_storage& to) {
  if (Adapter* own = owner_of(to)) return {own, gid_of(to)};
  if (is_link_local(to)) {
    Adapter* a = find_adapter(
        [&](const Adapter& x) { return !x.hca.config.wires.empty() && in_scope(x, scope_of(to)); });
    return a != nullptr ? Way{a, link_local_of(*a)} : Way{};
  }
  if (is_group_gid(gid_of(to))) return way_to_groups(to);
  Way best;
  uint8_t longest = 0;
  find_adapter([&](Adapter& a) {
    for (const PortIp& ip : a.hca.config.ips) {
      if (!is_neighbour(ip, gid_of(to)) || ip.prefix < longest) continue;
      if (ip.prefix > longest || best.adapter != &a) best = {&a, ip.address};
      longest = ip.prefix;
    }
    return false;
  });
  return best;
}

std::optional<Mac> mac_of(Adapter& a, const Gid& gid) {
  if (is_own_gid(a.hca.addresses, gid)) return a.hca.config.mac;
  if (is_group_gid(gid)) return group_mac(gid);
  const bool link_local = gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
  if (link_local && gid[11] == 0xff && gid[12] == 0xfe)
    return Mac{static_cast<uint8_t>(gid[8] ^ 2), gid[9], gid[10], gid[13], gid[14], gid[15]};
  return hca::find_neighbour(a.hca, 1, gid);
}

// cma.c, addr_handler(): the id is where it was before if nothing came of it.
void end_resolve(State& s, Id& id, int error) {
  id.resolve_until_ns = id.look_at_ns = 0;
  id.stage = error == 0 ? Stage::addr_resolved : Stage::addr_bound;
  post(s, id, error == 0 ? EventType::addr_resolved : EventType::addr_error, error);
}

// One look; what is not found is looked for again.
void look(State& s, Id& id, uint64_t now) {
  if (std::optional<Mac> mac = mac_of(*id.adapter, id.dgid)) {
    id.dmac = *mac;
    return end_resolve(s, id, 0);
  }
  if (now >= id.resolve_until_ns) return end_resolve(s, id, -ETIMEDOUT);
  id.look_at_ns = std::min(now + look_ns, id.resolve_until_ns);
  id.adapter->look_at(id.look_at_ns);
}

// cma_check_linklocal()
bool lacks_scope(const sockaddr_storage& a) noexcept {
  return is_link_local(a) && scope_of(a) == 0;
}

// cma_bind_addr(): a source of the peer's family, if none was named.
int bind_for(State& s, Id& id, const sockaddr_storage* source, const sockaddr_storage& to) {
  sockaddr_storage any{};
  any.ss_family = to.ss_family;
  const bool named = source != nullptr && source->ss_family != 0;
  if (!named && is_link_local(to)) {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_scope_id = scope_of(to);
    std::memcpy(&any, &in, sizeof(in));
  }
  return bind_id(s, id, named ? *source : any);
}

// cma_resolve_loopback(): any address is this machine's own.
sockaddr_storage own_address(const sockaddr_storage& like) {
  sockaddr_storage own{};
  find_adapter([&](const Adapter& a) {
    for (const PortIp& ip : a.hca.config.ips) {
      const sockaddr_storage here = address_of(ip.address, 0);
      if (here.ss_family != like.ss_family) continue;
      own = here;
      break;
    }
    return false;
  });
  return own;
}

// An address of no interface: addr.c, rdma_find_ndev_for_src_ip_rcu(). GIDs have none to look for:
// cma.c, cma_acquire_dev_by_src_ip().
int error_of_foreign(const sockaddr_storage& a) noexcept {
  return refusal::text(a.ss_family == af_ib ? ENODEV : EADDRNOTAVAIL,
                       "no port of a device of this process has this address (--ip gives it one)");
}

}  // namespace

uint64_t clock_ns() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

int bind_id(State& s, Id& id, const sockaddr_storage& address) {
  if (address_bytes(address) == 0)
    return refusal::absent("the address family", address.ss_family, EAFNOSUPPORT);
  if (id.stage != Stage::idle) return refusal::text(EINVAL, "the id is bound already");
  if (lacks_scope(address))
    return refusal::text(EINVAL, "a link-local address needs sin6_scope_id, its interface");
  Adapter* adapter = nullptr;
  if (!is_zero(address)) {
    adapter = owner_of(address);
    // cma_any_addr(): the kernel binds a loopback address to no device.
    if (adapter == nullptr && !is_loopback(address)) return error_of_foreign(address);
  }
  id.source = address;
  id.adapter = adapter;
  if (!id.af_only_set) id.af_only = address.ss_family == AF_INET;  // bindv6only is off
  if (int error = take_port(s, id); error != 0) {
    id.source = {};
    id.adapter = nullptr;
    return error;
  }
  id.stage = Stage::addr_bound;
  if (adapter != nullptr) id.sgid = gid_of(address);
  return 0;
}

int resolve_address(State& s, Id& id, const sockaddr_storage* source, const sockaddr_storage& to,
                    uint32_t timeout_ms) {
  if (id.stage == Stage::idle) {
    if (int error = bind_for(s, id, source, to); error != 0) return error;
  }
  if (id.source.ss_family != to.ss_family)
    return refusal::equal("the destination's address family", to.ss_family, id.source.ss_family);
  if (id.stage != Stage::addr_bound)
    return refusal::text(EINVAL, "the id's address is resolved already, or it listens");
  if (to.ss_family == af_ib)
    return refusal::absent("the address family", to.ss_family,
                           ENODEV);  // cma_resolve_ib_dev(): no port speaks InfiniBand
  const uint16_t port = port_of(id.source);
  id.destination = to;
  // cma_any_addr(): a loopback address is no device's. Here a wire may lead to it.
  const bool to_any = is_zero(to) || (is_loopback(to) && way_to(to).adapter == nullptr);
  if (to_any) {
    sockaddr_storage own = own_address(to);
    if (own.ss_family == 0)
      return refusal::text(ENODEV, "no port has an address of this family (--ip gives it one)");
    set_port(own, port_of(to));
    id.destination = own;
  }
  id.stage = Stage::addr_query;
  Way way = way_to(id.destination);
  if (id.adapter != nullptr && way.adapter != nullptr && !is_zero(id.source))
    way = {id.adapter, id.sgid};
  // addr.c, rdma_resolve_ip(): only what may still be found is waited for, and told by an event.
  if (way.adapter == nullptr) {
    id.stage = Stage::addr_bound;
    return refusal::text(ENETUNREACH,
                         "no port has an address in the destination's network: addresses and "
                         "prefix lengths of both sides (--ip)?");
  }
  // addr_handler(): cma_acquire_dev_by_src_ip() finds no device that has the source.
  if (id.adapter == nullptr && is_loopback(id.source) && !to_any) {
    end_resolve(s, id, -ENODEV);
    return 0;
  }
  const uint32_t scope = scope_of(id.source);
  if (id.has_any_source()) {
    id.source = address_of(way.source, port);
    if (is_link_local(id.source)) reinterpret_cast<sockaddr_in6&>(id.source).sin6_scope_id = scope;
  }
  id.adapter = way.adapter;
  id.sgid = way.source;
  id.dgid = gid_of(id.destination);
  tell_port(s, id);
  const uint64_t now = clock_ns();
  id.resolve_until_ns = now + std::min(timeout_ms, most_timeout_ms) * ms;
  look(s, id, now);
  return 0;
}

// cma_resolve_iboe_route(): there is no subnet manager to ask, so it cannot fail later.
int resolve_route(State& s, Id& id) {
  if (id.stage != Stage::addr_resolved)
    return refusal::text(EINVAL,
                         "the address is not resolved: rdma_resolve_addr() and "
                         "RDMA_CM_EVENT_ADDR_RESOLVED come first");
  id.stage = Stage::route_resolved;
  id.has_path = true;
  post(s, id, EventType::route_resolved, 0);
  return 0;
}

cm::Route route_of(const Id& id) noexcept {
  cm::Route route;
  route.sgid = id.sgid;
  route.dgid = id.dgid;
  route.dmac = id.dmac;
  route.traffic_class = id.tos;
  return route;
}

uint8_t path_mtu_of(const Adapter& a) {
  const Result<PortAttr> port = hca::query_port(a.hca, 1);
  uint8_t code = 1;
  while (port.ok() && code < 5 && (256u << code) <= port->mtu) code++;
  return code;
}

uint8_t gid_index_of(const hca::Hca& h, const Gid& gid) noexcept {
  Gid one;
  for (uint32_t i = 0; port_gid(h.addresses, i, one); i++)
    if (one == gid) return static_cast<uint8_t>(i);
  return 0;
}

// Adapter's lock held.
std::size_t Adapter::turn(uint64_t now) noexcept {
  if (now < deadline()) return 0;
  StateLocked state;
  hca.guest = nullptr;
  for (auto& [number, id] : state->ids) {
    if (id->adapter != this || id->stage != Stage::addr_query) continue;
    if (id->look_at_ns <= now) {
      look(*state, *id, now);
    } else {
      look_at(id->look_at_ns);
    }
  }
  return 1;
}

}  // namespace kilim::vhca::rdmacm
