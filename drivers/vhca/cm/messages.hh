// SPDX-License-Identifier: BSD-3-Clause
// Values into messages and messages into values. Writers take what was checked by fits() and fill
// the whole datagram; readers take any 256 bytes. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "vhca/cm/mad.hh"
#include "vhca/cm/values.hh"

namespace kilim::vhca::cm {

// What every message between two ids says of itself.
struct Names {
  uint32_t local = 0, remote = 0;
  uint64_t tid = 0;
};

// Whether every value fits its field.
bool fits(const ConnectRequest&) noexcept;
bool fits(const AcceptRequest&) noexcept;
bool fits(const ResolveRequest&) noexcept;
bool fits(const ResolveAnswer&) noexcept;

// cm.c, cm_ack_timeout(): the adapter's delay and twice the life time of a packet, rounded.
uint8_t ack_timeout_of(uint8_t ack_delay, uint8_t packet_life_time) noexcept;
// cm.c, cm_convert_to_ms(): 4.096 us * 2^n roughly, a millisecond at least.
constexpr uint64_t rough_ns(unsigned exponent) noexcept {
  return 1'000'000u * (uint64_t{1} << (exponent > 8 ? (exponent & 31) - 8 : 0));
}

// What of a REQ and a REP is not in its request.
struct Sender {
  uint64_t ca_guid = 0;
  uint8_t ack_delay = 0;
  bool xrc = false;  // of a REP: its queue pair is a target
};
void write_req(Mad&, const Names&, const Sender&, const ConnectRequest&) noexcept;
void write_rep(Mad&, const Names&, const Sender&, const AcceptRequest&) noexcept;
void write_rtu(Mad&, const Names&, std::span<const std::byte> private_data) noexcept;
void write_drep(Mad&, const Names&, std::span<const std::byte> private_data) noexcept;
void write_mra(Mad&, const Names&, About, uint8_t service_timeout) noexcept;
struct Refusal {
  About about = About::other;
  Reason reason = Reason::consumer_defined;
  std::span<const std::byte> info, private_data;
};
void write_rej(Mad&, const Names&, const Refusal&) noexcept;
void write_dreq(Mad&, const Names&, uint32_t remote_qpn,
                std::span<const std::byte> private_data) noexcept;
void write_sidr_req(Mad&, const Names&, const ResolveRequest&) noexcept;
// names.remote is the id of the request.
void write_sidr_rep(Mad&, const Names&, uint64_t service_id, const ResolveAnswer&) noexcept;

// A message's fields; `mad` has mad_bytes.
template <typename Message>
Message message_of(std::span<const std::byte> mad) noexcept {
  static_assert(sizeof(Message) <= mad_bytes);
  Message m;
  std::memcpy(&m, mad.data(), sizeof(m));
  return m;
}

// Whether it is a datagram of communication management: whole, of the version that is spoken here.
bool is_cm_mad(std::span<const std::byte> mad) noexcept;
// False: a transport service that none has here (RD, or an extended one that is not XRC).
bool transport_of(const ReqMad&, Transport&) noexcept;
// cm.c, cm_req_has_alt_path(), and by its GID: LIDs mean nothing on RoCE.
bool has_alternate(const ReqMad&) noexcept;
// The way back: as the REQ's primary path says, but from the GID that the packet came to, and to
// the neighbour that it came from (cm_format_paths_from_req(), and cm_init_av_by_path() with the
// packet's sgid_attr: Linux 6.1 takes a REQ whose path names another GID of this side).
Route route_of(const ReqMad&, const Route& packet) noexcept;

// What the message says, into an event that is otherwise zero. Private data whole; of a REQ and a
// SIDR_REQ in a port space behind its IP header, if there is a right one.
void read_req(const ReqMad&, Event&) noexcept;
void read_rep(const RepMad&, bool xrc, Event&) noexcept;
void read_rej(const RejMad&, Event&) noexcept;
void read_sidr_req(const SidrReqMad&, Event&) noexcept;
void read_sidr_rep(const SidrRepMad&, Event&) noexcept;

}  // namespace kilim::vhca::cm
