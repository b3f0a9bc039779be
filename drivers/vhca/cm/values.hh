// SPDX-License-Identifier: BSD-3-Clause
// What goes into the connection manager and comes out of it: one plain struct a request and one for
// all events, values in host order. IBTA, "Communication Management" (12.6 to 12.11), in the words
// of the kernel's <rdma/ib_cm.h>. Pure values, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "kilim/detail/base/ident.hh"
#include "vhca/core/spec.hh"

namespace kilim::vhca::cm {

// The local communication id: what IBTA 12.9.1 gives each end of a connection, or the request id of
// a SIDR exchange (12.11). 0: none. An id's place in the table is
// given again last, and under another number.
using CommId = Ident<struct CommIdTag, uint32_t>;

// The port spaces of the RDMA IP CM service (IBTA annex A11; rdma_cma.h, enum rdma_ucm_port_space).
enum class PortSpace : uint16_t { ipoib = 0x0002, tcp = 0x0106, udp = 0x0111, ib = 0x013f };
// cma.c, rdma_get_service_id().
constexpr uint64_t service_id_of(PortSpace space, uint16_t port) noexcept {
  return uint64_t{static_cast<uint16_t>(space)} << 16 | port;
}

// The most private data of each message in bytes (IBTA 12.6, 12.11).
namespace most {
inline constexpr std::size_t req = 92, mra = 222, rej = 148, rep = 196, rtu = 224, dreq = 220,
                             drep = 224, sidr_req = 216, sidr_rep = 136;
inline constexpr std::size_t ari = 72;        // additional information of a REJ or SIDR_REP
inline constexpr std::size_t ip_header = 36;  // of a REQ's or SIDR_REQ's private data, see IpHeader
inline constexpr std::size_t any = 224;
}  // namespace most

// Private data, or additional information: as many bytes as the message has room for when it came
// from a peer, since no message says how many of them are meant.
template <std::size_t N>
struct Bytes {
  uint16_t count = 0;
  std::array<std::byte, N> bytes{};

  // False: longer than this holds.
  bool assign(std::span<const std::byte> from) noexcept {
    if (from.size() > N) return false;
    if (!from.empty()) std::memcpy(bytes.data(), from.data(), from.size());
    count = static_cast<uint16_t>(from.size());
    return true;
  }
  [[nodiscard]] std::span<const std::byte> view() const noexcept { return {bytes.data(), count}; }
};
using PrivateData = Bytes<most::any>;

// First in the private data of a REQ or SIDR_REQ whose service id lies in a port space (IBTA annex
// A11, "IP Addressing Annex"; the kernel's struct cma_hdr).
struct IpHeader {
  uint8_t version = 4;  // 4 or 6
  uint16_t source_port = 0;
  // Network order; of IPv4 the last four bytes, the first twelve are 0.
  std::array<uint8_t, 16> source{}, destination{};
};

// The way of a message, and of the connection that it is about (RoCE: IBTA annex A17). `sgid` is
// one of the port's own. Traffic for an own `dgid` never leaves the adapter.
struct Route {
  Gid sgid{}, dgid{};
  Mac dmac{};
  uint8_t traffic_class = 0, hop_limit = 64;
  uint32_t flow_label = 0;
  uint8_t service_level = 0;
};

enum class Transport : uint8_t { rc, uc, xrc };

// Times are IBTA's 5-bit exponents: 4.096 us * 2^n.
constexpr uint64_t time_of(unsigned exponent) noexcept {
  return uint64_t{4096} << (exponent & 31);
}

// Fields of a REQ (IBTA 12.6.5).
struct ConnectRequest {
  uint64_t service_id = 0;
  Route route;
  Transport transport = Transport::rc;
  uint32_t qpn = 0;
  uint32_t qkey = 0;
  uint32_t starting_psn = 0;
  uint8_t responder_resources = 0;  // RDMA reads and atomics that this side takes at once
  uint8_t initiator_depth = 0;      // the same that it makes
  uint8_t retry_count = 7, rnr_retry_count = 7;
  uint8_t path_mtu = 3;  // 1 to 5: 256 to 4096 bytes (enum ib_mtu)
  bool srq = false;
  bool flow_control = true;
  uint8_t remote_cm_timeout = 20;  // cma.c: CMA_CM_RESPONSE_TIMEOUT
  uint8_t local_cm_timeout = 20;   // the peer's patience with us
  uint8_t max_cm_retries = 15;     // cma.c: CMA_MAX_CM_RETRIES
  uint8_t packet_life_time = 18;   // cma.c: CMA_IBOE_PACKET_LIFETIME
  std::optional<IpHeader> ip;      // there: the private data has 36 bytes less
  std::span<const std::byte> private_data;
};

// Fields of a REP (IBTA 12.6.8).
struct AcceptRequest {
  uint32_t qpn = 0;  // of an XRC target too
  uint32_t qkey = 0;
  uint32_t starting_psn = 0;
  uint8_t responder_resources = 0, initiator_depth = 0;
  uint8_t rnr_retry_count = 7;
  bool srq = false;
  bool flow_control = true;
  std::span<const std::byte> private_data;
};

// Why a REQ or REP is refused (IBTA 12.6.7.2, <rdma/ib_cm.h> enum ib_cm_rej_reason).
enum class Reason : uint16_t {
  no_qp = 1,
  no_eec = 2,
  no_resources = 3,
  timeout = 4,
  unsupported = 5,
  invalid_comm_id = 6,
  invalid_comm_instance = 7,
  invalid_service_id = 8,
  invalid_transport_type = 9,
  stale_connection = 10,
  rdc_not_exist = 11,
  invalid_gid = 12,
  invalid_lid = 13,
  invalid_sl = 14,
  invalid_traffic_class = 15,
  invalid_hop_limit = 16,
  invalid_packet_rate = 17,
  invalid_alternate_gid = 18,
  invalid_mtu = 26,
  insufficient_responder_resources = 27,
  consumer_defined = 28,
  invalid_rnr_retry = 29,
  duplicate_local_comm_id = 30,
  invalid_class_version = 31,
  vendor_option_not_supported = 35,
};

// Fields of a SIDR_REQ (IBTA 12.11.1).
struct ResolveRequest {
  uint64_t service_id = 0;
  Route route;
  uint32_t timeout_ms = 4000;  // cma.c, cma_resolve_ib_udp(): 1 << (CMA_CM_RESPONSE_TIMEOUT - 8)
  uint8_t max_cm_retries = 15;
  std::optional<IpHeader> ip;
  std::span<const std::byte> private_data;
};
// <rdma/ib_cm.h>, enum ib_cm_sidr_status.
enum class SidrStatus : uint8_t {
  success = 0,
  unsupported = 1,
  reject = 2,
  no_qp = 3,
  redirect = 4,
  unsupported_version = 5,
};
// What a SIDR_REP carries.
struct ResolveAnswer {
  SidrStatus status = SidrStatus::success;
  uint32_t qpn = 0;
  uint32_t qkey = 0;
  std::span<const std::byte> info;  // additional information
  std::span<const std::byte> private_data;
};

enum class EventKind : uint8_t {
  request,           // a REQ for a listener: answer by accept(), reject() or answer_later()
  response,          // a REP: answer by establish() or reject()
  established,       // an RTU; or, of the kernel's COMM_EST, the first message on the queue pair
  rejected,          // a REJ
  later,             // an MRA: the peer takes its time, our timer was set anew
  unreachable,       // no answer to a REQ or REP after all retries
  disconnect,        // a DREQ: answer by answer_disconnect()
  disconnected,      // a DREP
  no_disconnect,     // no answer to a DREQ after all retries; the id is in time wait now
  timewait_over,     // the numbers of the connection's queue pair may be used again; the id is idle
  sidr_request,      // a SIDR_REQ for a listener: answer by answer_resolve()
  sidr_answer,       // a SIDR_REP
  sidr_unreachable,  // no answer to a SIDR_REQ after all retries
};

// What happened to `id`. Fields that a kind does not name are zero.
struct Event {
  EventKind kind = EventKind::request;
  CommId id;
  uint64_t cookie = 0;  // of the id; of a (SIDR) request the listener's
  // request, sidr_request: where it came from, with the addresses turned for the answer
  Route route;
  uint64_t service_id = 0;     // request, sidr_request, sidr_answer
  std::optional<IpHeader> ip;  // request, sidr_request: taken off the private data
  // request, response: of the peer's queue pair
  Transport transport = Transport::rc;
  uint32_t remote_qpn = 0;   // sidr_answer too
  uint32_t remote_qkey = 0;  // sidr_answer too
  uint64_t remote_ca_guid = 0;
  uint32_t starting_psn = 0;
  // Both are seen from here: the peer's initiator depth is our responder resources (cm.c,
  // cm_format_req_event()).
  uint8_t responder_resources = 0, initiator_depth = 0;
  uint8_t retry_count = 0, rnr_retry_count = 0;
  uint8_t path_mtu = 0;
  uint8_t local_ack_timeout = 0;
  uint8_t target_ack_delay = 0;  // response
  uint8_t remote_cm_timeout = 0, local_cm_timeout = 0;
  bool srq = false, flow_control = false;
  // rejected: the reason, and the message refused; later: the time; sidr_answer: the status
  Reason reason{};
  SidrStatus sidr_status{};
  uint8_t service_timeout = 0;
  Bytes<most::ari> info;  // rejected, sidr_answer
  PrivateData private_data;
};

// What the observer says to a request; to any other event it is not looked at.
enum class Answer : uint8_t {
  taken,
  // No room for it: forgotten without a word, so that a copy of it may find room (cm.c,
  // cm_process_work() of -ENOMEM).
  forgotten,
  // REJ with Reason::consumer_defined. Of a sidr_request, this and `forgotten`: SIDR_REP with
  // SidrStatus::reject (cm.c, cm_destroy_id()).
  refused,
};

// IBTA 12.9.5 and 12.9.7; the kernel's enum ib_cm_state. Listeners are no ids here.
enum class State : uint8_t {
  idle,
  req_sent,
  req_rcvd,
  mra_req_sent,  // the next copy of the REQ is answered by an MRA
  mra_req_rcvd,
  rep_sent,
  rep_rcvd,
  mra_rep_sent,
  mra_rep_rcvd,
  established,
  dreq_sent,
  dreq_rcvd,
  timewait,
  sidr_req_sent,
  sidr_req_rcvd,
};

// The state that a queue pair is to be brought to.
enum class QpStep : uint8_t { init, rtr, rts };

// What it needs of the connection for that (cm.c, cm_init_qp_*_attr()).
struct QpValues {
  Route route;
  Transport transport = Transport::rc;
  uint32_t dest_qpn = 0;
  uint32_t rq_psn = 0, sq_psn = 0;
  uint8_t path_mtu = 0;
  uint8_t max_rd_atomic = 0, max_dest_rd_atomic = 0;
  uint8_t timeout = 0, retry_count = 0, rnr_retry = 0;
  uint8_t min_rnr_timer = 0;
};

}  // namespace kilim::vhca::cm
