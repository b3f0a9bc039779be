// SPDX-License-Identifier: BSD-3-Clause
// What the protocols of queues need around them: the ports' wires, one place to put a frame
// together, the queue pairs that wait for a timer or owe an answer. Owner: the adapter; its lock
// held.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "vhca/core/object_table.hh"
#include "vhca/core/verdict.hh"
#include "vhca/transport/groups.hh"
#include "vhca/transport/roce_frame.hh"
#include "vhca/wire/wire.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/qp_list.hh"
#include "vhca/wq/recv.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::transport {

class GsiClient;  // transport/gsi.hh

// The frame that a destroyed queue leaves to be sent.
struct LastAck {
  wire::Wire* wire = nullptr;
  uint8_t left = 0;  // times
  uint8_t bytes = 0;
  std::array<std::byte, 96> frame;
};

struct RoceLink {
  wq::EngineContext* context = nullptr;
  wq::ReadyList* ready = nullptr;
  const ObjectTable<wq::Qp>* qps = nullptr;
  Groups groups;
  // Executes a WQE that asks nothing of the peer, as the queue's own side does elsewhere.
  Verdict (*execute)(void* engine, wq::Qp&, const wq::SendWqe&) noexcept = nullptr;
  void* engine = nullptr;
  std::vector<wire::Wire*> wires;  // by port; null: nothing is plugged in
  std::vector<GsiClient*> gsi;     // of queue pair 1, by port; null: nobody
  uint32_t gsi_psn = 0;            // of its next datagram
  std::vector<Mac> stations;       // by port: Wire::station(); all zero: none
  Mac mac{};
  Mac member_mac{};  // where the other processes of one adapter reach this one; all zero: alone
  std::vector<Gid> gids;  // of the port, by index
  wq::QpList<&wq::Qp::timed> timed;
  wq::QpList<&wq::Qp::answering> answering;
  // A wire was full: who wants to send waits its turn until then, and nothing is tried before.
  wq::QpList<&wq::Qp::blocked> blocked;
  wire::Wire* full = nullptr;  // that wire
  uint64_t full_until_ns = 0;  // 0: it is not
  uint64_t full_pause_ns = 0;  // how long it was waited for last; longer each time in a row
  // The queue at the head of `blocked` met the full wire behind packets of its own: the others are
  // served before it, so that a queue with much to send does not starve them.
  bool first_has_sent = false;
  std::vector<LastAck> last_acks;
  uint32_t next_last_ack = 0;
  uint32_t goodbyes = 0;         // last acknowledgements still to be sent, of all queues
  std::vector<std::byte> frame;  // the one place where a frame is put together
  wq::SendWqe wqe;               // of the message in hand
  wq::RecvWqe recv;              // the receive WQE in hand

  [[nodiscard]] wire::Wire* wire_of(const wq::Qp& qp) const noexcept {
    std::size_t i = qp.attr.port == 0 ? 0 : qp.attr.port - 1u;
    return i < wires.size() ? wires[i] : nullptr;
  }
};

inline uint32_t mtu_bytes(const wq::Qp& qp) noexcept {
  uint32_t code = qp.attr.path_mtu;
  return 128u << (code < 1 ? 1 : code > 5 ? 5 : code);
}
constexpr uint32_t packets_of(uint64_t bytes, uint32_t mtu) noexcept {
  return bytes == 0 ? 1 : static_cast<uint32_t>((bytes + mtu - 1) / mtu);
}

constexpr roce::Service service_of(QpType type) noexcept {
  return type == QpType::uc                                   ? roce::Service::uc
         : type == QpType::ud                                 ? roce::Service::ud
         : type == QpType::xrc_ini || type == QpType::xrc_tgt ? roce::Service::xrc
         : type == QpType::dci || type == QpType::dct         ? roce::Service::dc
                                                              : roce::Service::rc;
}
// A packet from this queue with its headers filled in, without payload.
RocePacket packet_of(const wq::Qp&, roce::Op, uint32_t psn) noexcept;

// Sends a frame that is whole; false: the wire is full, now or since before. What a wire refuses
// for its length counts as lost.
bool send_out(RoceLink&, wire::Wire&, std::span<const std::byte> frame) noexcept;
// The wire takes no more, for a while.
void note_full(RoceLink&, wire::Wire&) noexcept;

// Where the payload of the next frame is to be put.
std::byte* payload_place(RoceLink&, uint16_t flags) noexcept;
// Puts the whole packet into link.frame; its length, 0: there is no way to that address.
std::size_t build_packet(RoceLink&, const wq::Qp&, const RocePacket&, std::size_t bytes) noexcept;
// Sends the packet with `bytes` in its payload's place; false: the wire is full.
bool send_packet(RoceLink&, const wq::Qp&, const RocePacket&, std::size_t bytes) noexcept;
// The same along another path than the queue's: a datagram's address handle names its own.
bool send_along(RoceLink&, wire::Wire&, const RocePath&, const RocePacket&,
                std::size_t bytes) noexcept;
// The UDP port that a queue's packets come from: flows differ in it.
uint16_t source_port(uint32_t qpn, uint32_t peer) noexcept;

// The part of a list behind its first `skip` bytes, `bytes` long; false: it ends before.
struct SubList {
  uint32_t count = 0;
  tpt::Segment segments[64];
};
bool cut_list(std::span<const tpt::Segment> list, uint64_t skip, uint64_t bytes, SubList&) noexcept;

}  // namespace kilim::vhca::transport
