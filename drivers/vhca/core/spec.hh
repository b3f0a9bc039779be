// SPDX-License-Identifier: BSD-3-Clause
// What uverbs asks of the adapter: one plain struct a request, values in host order, already
// checked for shape only. Pure values, any thread.
#pragma once

#if !defined(__x86_64__)
#error "the virtual device is for x86-64 only: its guarded copy and its signal handler are"
#endif

#include <array>
#include <cstdint>

#include "kilim/detail/base/ident.hh"

namespace kilim::vhca::ethernet {
struct RewriteList;  // ethernet/rewrite.hh
}  // namespace kilim::vhca::ethernet

namespace kilim::vhca {

class EventSink;

using Gid = std::array<uint8_t, 16>;
using Mac = std::array<uint8_t, 6>;

// EUI-64 of an adapter's address, as cards' node GUIDs are made (the local bit is not turned), in
// host order.
constexpr uint64_t guid_of(const Mac& m) noexcept {
  uint64_t g = 0;
  for (const uint8_t byte : {m[0], m[1], m[2], uint8_t{0xff}, uint8_t{0xfe}, m[3], m[4], m[5]})
    g = g << 8 | byte;
  return g;
}

// IBTA access rights as the kernel numbers them (IB_ACCESS_*, <rdma/ib_user_ioctl_verbs.h>
// IB_UVERBS_ACCESS_*).
namespace access {
inline constexpr uint32_t local_write = 1u << 0;
inline constexpr uint32_t remote_write = 1u << 1;
inline constexpr uint32_t remote_read = 1u << 2;
inline constexpr uint32_t remote_atomic = 1u << 3;
inline constexpr uint32_t mw_bind = 1u << 4;
inline constexpr uint32_t zero_based = 1u << 5;
inline constexpr uint32_t on_demand = 1u << 6;
inline constexpr uint32_t huge_pages = 1u << 7;
inline constexpr uint32_t optional_mask = 0x3ff00000u;  // relaxed ordering among them
}  // namespace access

struct MrSpec {
  Pdn pd;
  Va start;
  uint64_t length = 0;
  Iova iova;            // the address that work requests use (hca_va)
  uint32_t access = 0;  // bits of access::
};

// A range of a block of device memory, known to users as 0 and up.
struct DmMrSpec {
  Pdn pd;
  Va start;  // as the adapter has it mapped
  uint64_t length = 0;
  uint32_t access = 0;
};

// A number of 24 bits above a variant of 8; both are the same here, as cards give them.
struct MrKeys {
  Lkey lkey;
  Rkey rkey;
};

// What a compressed completion says besides its length (PRM "CQ Context", mini_cqe_res_format).
enum class MiniFormat : uint8_t { none, hash, checksum, checksum_stride };
inline constexpr uint32_t most_compressed = 128;  // completions of a compressed block

struct CqSpec {
  Va buf;                              // the ring, of the client
  Va record;                           // doorbell record: consumer index, arm word
  uint32_t cqe_count = 0;              // a power of two
  uint32_t cqe_bytes = 64;             // or 128
  uint32_t uar_page = 0;               // whose doorbell arms it
  bool ignore_overrun = false;         // a full ring is written on (cqc.oi)
  void* owner = nullptr;               // handed back with every event
  bool padded = false;                 // 128-byte entries are written whole
  bool time_of_day = false;            // stamps are seconds and nanoseconds of UTC
  MiniFormat mini = MiniFormat::none;  // none: entries are never compressed
  bool collapsed = false;              // every entry is written to the first place (cqc.cc)
  bool record_read_only = false;       // the record lies in a umem that the adapter may not write
};

// dci, dct: initiator and target of dynamic connections.
enum class QpType : uint8_t { rc, uc, ud, raw_packet, xrc_ini, xrc_tgt, dci, dct };
// Targets have neither rings nor a doorbell.
constexpr bool has_rings(QpType t) noexcept {
  return t != QpType::xrc_tgt && t != QpType::dct;
}

enum class QpState : uint8_t { reset, init, rtr, rts, sqd, sqe, err };  // numbered as in verbs

struct QpSpec {
  QpType type = QpType::rc;
  Pdn pd;
  Cqn send_cq;
  Cqn recv_cq;
  Va buf;                     // receive ring, then send ring
  Va sq_buf;                  // send ring of a raw packet queue pair; 0: behind the receive ring
  Va record;                  // doorbell record: receive, send
  uint32_t sq_wqebbs = 0;     // a power of two, 64 bytes each; 0: no send queue
  uint32_t rq_wqes = 0;       // a power of two; 0: no receive queue
  uint32_t rq_wqe_shift = 0;  // log2 of a receive WQE's bytes
  uint32_t uar_page = 0;      // whose doorbell starts it
  uint32_t uidx = 0;          // the client's number for it, which CQEs carry
  uint32_t srqn = 0;          // receives come from this shared queue; 0: from its own ring
  uint32_t xrcd = 0;          // of an XRC target
  uint64_t dc_key = 0;        // of a DC target: what its initiators have to name
  // Of a DC initiator: as many of its streams may fail before it does; 0: it has none.
  uint32_t failing_streams = 0;
  uint64_t max_message = uint64_t{1} << 30;  // bytes; the profile's
  bool rq_signature = false;                 // a 16-byte signature segment opens each receive WQE
  // The longest SEND that is received into its completion, and the longest answer of a READ or an
  // atomic that comes in one; 0: none.
  uint8_t scatter_received = 0;
  uint8_t scatter_answers = 0;
  bool block_self_multicast = false;  // own datagrams to a group do not come back
  // Of a raw packet queue: frames keep their check sequence, tags go to the completion, frames of
  // the same client come back.
  bool scatter_fcs = false;
  bool strip_vlan = false;
  bool own_unicast = false;
  bool own_multicast = false;
  bool tunnels = false;          // completions tell of the headers in a tunnel
  bool software_parser = false;  // send WQEs may say where headers lie
  bool many_packets = false;     // a client's command said that send WQEs may hold several
  void* owner = nullptr;         // handed back with every event
};

struct SrqSpec {
  Pdn pd;
  Va buf;
  Va record;               // doorbell record: receive
  uint32_t wqes = 0;       // a power of two
  uint32_t wqe_shift = 0;  // log2 of a WQE's bytes, its link included
  uint32_t limit = 0;      // fewer receive WQEs than this raise an event; 0: none
  uint32_t uidx = 0;
  bool cyclic = false;  // what QUERY_XRQ says of the ring; entries are linked all the same
  bool xrc = false;
  uint32_t xrcd = 0;      // of an XRC queue
  uint32_t tags = 0;      // entries of the matching list, a power of two; 0: it matches no tags
  Cqn cq;                 // of an XRC queue, and of one that matches tags
  void* owner = nullptr;  // handed back with every event
};

// An XRC domain; with a file it is the same one for all who name that file.
struct XrcdSpec {
  bool by_file = false;
  uint64_t device = 0, inode = 0;  // of the file, as fstat(2) tells them
  bool create = true;              // EAGAIN: no domain of that file yet
  bool exclusive = false;          // EINVAL: there is one
};

// Attributes of MODIFY_QP, QUERY_QP. Mask bits are the kernel's (IB_QP_STATE ...), see qp_mask
// below.
struct QpAttr {
  QpState state = QpState::reset;
  QpState cur_state = QpState::reset;
  uint8_t path_mtu = 0;  // 1..5: 256..4096 bytes
  uint32_t qkey = 0;
  uint32_t rq_psn = 0;  // packet sequence numbers have 24 bits
  uint32_t sq_psn = 0;
  Qpn dest_qpn;
  uint32_t access = 0;  // access::remote_*
  uint16_t pkey_index = 0;
  uint8_t port = 0;
  uint8_t sq_draining = 0;
  uint8_t max_rd_atomic = 0;
  uint8_t max_dest_rd_atomic = 0;
  uint8_t min_rnr_timer = 0;  // 5 bits
  uint8_t timeout = 0;        // 5 bits: 4.096 us << timeout, 0: for ever (ibv_modify_qp(3))
  uint8_t retry_cnt = 0;      // 3 bits
  uint8_t rnr_retry = 0;      // 3 bits
  uint8_t en_sqd_async_notify = 0;
  uint32_t rate_limit = 0;  // kilobits a second; 0: none
  // The address vector of a connected queue pair (struct ib_uverbs_qp_dest).
  struct Path {
    Gid dgid{};
    uint32_t flow_label = 0;
    uint16_t dlid = 0;
    uint8_t sgid_index = 0, hop_limit = 0, traffic_class = 0, sl = 0, src_path_bits = 0,
            static_rate = 0;
    bool is_global = false;
    uint8_t port = 0;
    Mac dmac{};
    uint16_t udp_sport = 0;  // of the wire's packets; 0: as the queue's number and the peer's say
  } path;
};

// enum ib_qp_attr_mask (ib_verbs.h).
namespace qp_mask {
inline constexpr uint32_t state = 1u << 0, cur_state = 1u << 1, en_sqd_async = 1u << 2,
                          access = 1u << 3, pkey_index = 1u << 4, port = 1u << 5, qkey = 1u << 6,
                          path = 1u << 7, path_mtu = 1u << 8, timeout = 1u << 9,
                          retry_cnt = 1u << 10, rnr_retry = 1u << 11, rq_psn = 1u << 12,
                          max_rd_atomic = 1u << 13, alt_path = 1u << 14, min_rnr_timer = 1u << 15,
                          sq_psn = 1u << 16, max_dest_rd_atomic = 1u << 17,
                          path_mig_state = 1u << 18, cap = 1u << 19, dest_qpn = 1u << 20,
                          rate_limit = 1u << 25;
}  // namespace qp_mask

// What a rule says of an IP header; IPv4 addresses take the first four bytes of theirs.
struct FlowIp {
  Gid src{}, dst{};
  uint8_t protocol = 0;  // of what IP carries
  uint8_t traffic = 0;   // type of service, traffic class
  uint32_t label = 0;    // IPv6
  bool operator==(const FlowIp&) const = default;
};
struct FlowPorts {
  uint16_t src = 0, dst = 0;  // host order
  bool operator==(const FlowPorts&) const = default;
};

// PRM "FTE_MATCH_SET_LYR_2_4": the outer headers, in the order of the wire. The inner ones are laid
// out alike, and what lies between the two, "FTE_MATCH_SET_MISC", is as long.
using MatchParam = std::array<uint8_t, 64>;

// What a rule asks beyond the outer headers: of a tunnel and of what lies in it.
struct DeepMatch {
  MatchParam misc{}, inner{};
  bool operator==(const DeepMatch&) const = default;
};

// What a rule has seen. Owner: whoever made it; it outlives its rules.
struct FlowCount {
  uint64_t packets = 0, bytes = 0;
  const EventSink* open = nullptr;  // whose it is, where a firmware command made it
};

// A steering rule of `ibv_create_flow`; addresses and masks as the Ethernet spec has them.
// Headers that a rule puts in front of a frame. Owner: whoever made it; it outlives its rules.
struct Prepend {
  static constexpr std::size_t most = 128;
  std::array<std::byte, most> bytes{};
  uint32_t count = 0;
  uint8_t type = 0;  // mlx5_reformat_ctx_type, where a firmware command made it
};

struct FlowSpec {
  enum class Type : uint8_t { normal, all_default, mc_default, sniffer } type = Type::normal;
  uint16_t priority = 0;
  uint8_t port = 1;
  bool has_eth = false;
  Mac dst{}, dst_mask{}, src{}, src_mask{};
  uint16_t ether_type = 0, ether_type_mask = 0;  // host order
  uint16_t vlan_tag = 0, vlan_tag_mask = 0;      // host order
  uint8_t ip_version = 0;                        // 4, 6; 0: says nothing of IP
  FlowIp ip, ip_mask;
  uint8_t l4_protocol = 0;  // 6 TCP, 17 UDP; 0: says nothing of it
  FlowPorts ports, ports_mask;
  // A rule of mlx5's own kind matches by a buffer; it says nothing of the above.
  bool by_buffer = false;
  MatchParam buffer{}, buffer_mask{};
  bool deep = false;  // it looks at these too
  DeepMatch deeper{}, deeper_mask{};
  // The frame ends here, and is counted as taken by nobody with `misses`.
  bool drops = false;
  bool misses = false;
  bool tags = false;  // its completions carry the tag, 24 bits
  uint32_t tag = 0;
  FlowCount* count = nullptr;
  bool egress = false;               // of frames that leave; it leads to the wire or drops
  const Prepend* prepend = nullptr;  // of such a rule
  const ethernet::RewriteList* rewrite = nullptr;  // likewise: what it does to the headers first
};

// What a port tells: ibv_query_port() and sysfs.
struct PortAttr {
  bool active = true;
  uint32_t mtu = 4096;     // RoCE path MTU in bytes
  uint32_t gid_count = 0;  // entries of its GID table
  Mac mac{};
  Mac node{};        // of the adapter as a whole
  uint16_t lid = 0;  // 0: an Ethernet port
  uint8_t log_max_msg = 30;
  uint32_t interface = 0;  // index of the machine's interface that is its wire; 0: none
};

// The receiver of the adapter's events. Called with the adapter's lock held: never blocks, never
// allocates.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // An armed completion queue has got the CQE that it was armed for.
  virtual void completion(void* cq_owner) noexcept = 0;
  // `type` is an IB_EVENT_* number (verbs enum ibv_event_type); owner is the CQ's or the QP's, null
  // for the device.
  virtual void async(uint32_t type, void* owner) noexcept = 0;
};

}  // namespace kilim::vhca
