// SPDX-License-Identifier: BSD-3-Clause
// What can be done with an id: the kernel's rdma_cm (drivers/infiniband/core/cma.c), one function a
// call of it. 0 or a negative errno. All locks held.
#pragma once

#include <cstdint>
#include <span>

#include <rdma/rdma_user_cm.h>

#include "vhca/rdmacm/sockaddr.hh"
#include "vhca/rdmacm/state.hh"

namespace kilim::vhca::rdmacm {

inline constexpr uint32_t udp_qkey = 0x01234567;  // rdma_cm.h, RDMA_UDP_QKEY

uint64_t clock_ns() noexcept;

// addresses.cc
int bind_id(State&, Id&, const sockaddr_storage&);
int resolve_address(State&, Id&, const sockaddr_storage* source, const sockaddr_storage& to,
                    uint32_t timeout_ms);
int resolve_route(State&, Id&);
// The way to the id's peer, for the connection manager.
cm::Route route_of(const Id&) noexcept;
// Path MTU of the id's device: enum ib_mtu, 1 to 5.
uint8_t path_mtu_of(const Adapter&);
// The entry of the port's GID table; 0 where it is none.
uint8_t gid_index_of(const hca::Hca&, const Gid&) noexcept;

// ports.cc: cma_get_port(). A listener checks its port once more.
int take_port(State&, Id&);
int check_listener(State&, Id&);
// The other processes that are this adapter hear of what an id's port is to it now; and that it has
// none any more (cma_release_port()).
void tell_port(const State&, const Id&);
void give_port(const State&, Id&);

// connect.cc
int listen(State&, Id&, uint32_t backlog);
// An adapter that has come: listeners for all of them listen there too.
void listen_too(State&, Adapter&);
void stop_listening(Id&) noexcept;
int connect(State&, Id&, const rdma_ucm_conn_param&);
int accept(State&, Id&, const rdma_ucm_conn_param*);
int reject(State&, Id&, uint8_t reason, std::span<const std::byte> private_data);
int disconnect(State&, Id&);
int notify(State&, Id&, uint32_t event);
uint64_t service_id_of(const Id&, const sockaddr_storage&) noexcept;

// qp_attr.cc
int init_qp_attr(State&, Id&, uint32_t state, ib_uverbs_qp_attr&);
ib_uverbs_ah_attr ah_of(const Id&, const cm::Route&, uint8_t gid_index) noexcept;

// options.cc
int set_option(State&, Id&, const rdma_ucm_set_option&, std::span<const std::byte> value);

// multicast.cc
int join(State&, Id&, const sockaddr_storage&, uint64_t uid, uint32_t& number);
int leave(State&, File&, uint32_t number, uint32_t& events_reported);

// queries.cc. `bytes`: the room of the answer, which the functions fill up to there.
void query_route(const Id&, rdma_ucm_query_route_resp&);
void query_address(const Id&, rdma_ucm_query_addr_resp&);
void query_gid(const Id&, rdma_ucm_query_addr_resp&);
// The path record as the wire has it (IBTA 15.2.5.16); false: the id has none.
bool query_path(const Id&, ib_path_rec_data&);

}  // namespace kilim::vhca::rdmacm
