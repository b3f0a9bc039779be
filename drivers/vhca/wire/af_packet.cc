// SPDX-License-Identifier: BSD-3-Clause
// A packet socket with vnet headers: packet(7). <linux/virtio_net.h> is not C++, so the header and
// its numbers are written out here.
#include "vhca/wire/af_packet.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace kilim::vhca::wire {

namespace {

constexpr int receive_buffer = 16 << 20;                    // bytes
constexpr std::size_t addresses_bytes = 12, tag_bytes = 4;  // IEEE 802.3, 802.1Q
// struct virtio_net_hdr, in the byte order of this machine.
struct VnetHeader {
  uint8_t flags = 0;
  uint8_t gso_type = 0;
  uint16_t header_bytes = 0;
  uint16_t gso_size = 0;
  uint16_t csum_start = 0;
  uint16_t csum_offset = 0;
};
static_assert(sizeof(VnetHeader) == 10);
// VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_*.
constexpr uint8_t needs_csum = 1;
constexpr uint8_t gso_none = 0, gso_tcpv4 = 1, gso_tcpv6 = 4, gso_udp_l4 = 5, gso_ecn = 0x80;

struct Control {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(tpacket_auxdata))];
};

// The checksum that the stack left to the card: the field holds the pseudo header's sum.
bool complete_checksum(std::span<std::byte> frame, std::size_t start, std::size_t offset) noexcept {
  if (start >= frame.size() || start + offset + 2 > frame.size()) return false;
  auto sum = static_cast<uint16_t>(~fold_sum(add_to_sum(0, frame.subspan(start))));
  if (sum == 0) sum = 0xffff;  // in UDP 0 means that there is none (RFC 768)
  std::memcpy(frame.data() + start + offset, &sum, sizeof(sum));
  return true;
}

// The tag that the kernel took out, if it did.
const tpacket_auxdata* tag_of(msghdr& m, tpacket_auxdata& room) noexcept {
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA) continue;
    std::memcpy(&room, CMSG_DATA(c), sizeof(room));
    if ((room.tp_status & TP_STATUS_VLAN_VALID) != 0) return &room;
  }
  return nullptr;
}

bool option(int fd, int level, int name, const void* value, socklen_t bytes) noexcept {
  return setsockopt(fd, level, name, value, bytes) == 0;
}

}  // namespace

Result<std::unique_ptr<Wire>> AfPacket::create(std::string_view interface) {
  std::unique_ptr<AfPacket> wire(new AfPacket);
  if (Status s = wire->open(interface); !s) return s.error();
  return std::unique_ptr<Wire>(std::move(wire));
}

Status AfPacket::open(std::string_view interface) {
  index_ = static_cast<int>(if_nametoindex(std::string(interface).c_str()));
  if (index_ == 0) return Error{ENODEV, "af_packet: no such interface in this network namespace"};
  // Protocol 0 until all options are set: nothing comes from other interfaces, nothing unfinished.
  socket_ = OwnFd(Fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
  if (!socket_) return Error{errno, "af_packet: a packet socket needs root or CAP_NET_RAW"};
  if (Status s = set_options(); !s) return s.error();
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_protocol = htons(ETH_P_ALL);
  to.sll_ifindex = index_;
  if (bind(socket_.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
    return Error{errno, "af_packet: the socket cannot be bound to the interface"};
  }
  refresh_mtu();
  memory_.resize((batch + 1) * place);
  return Done{};
}

Status AfPacket::set_options() {
  int fd = socket_.get(), on = 1, bytes = receive_buffer;
  // Promiscuous: the adapter's address is not the interface's. What we send does not come back.
  packet_mreq all{};
  all.mr_ifindex = index_;
  all.mr_type = PACKET_MR_PROMISC;
  if (!option(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) ||
      !option(fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)) ||
      !option(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) ||
      !option(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all))) {
    return Error{errno, "af_packet: the kernel refuses an option of the packet socket"};
  }
  // Above the system's limit needs CAP_NET_ADMIN; without it the limit is what we get (socket(7)).
  if (!option(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes))) {
    option(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  }
  return Done{};
}

// Somebody may change the interface's MTU, or its name, at any time.
void AfPacket::refresh_mtu() noexcept {
  ifreq r{};
  if (if_indextoname(static_cast<unsigned>(index_), r.ifr_name) == nullptr) return;
  if (ioctl(socket_.get(), SIOCGIFMTU, &r) == 0 && r.ifr_mtu > 0) {
    mtu_ = static_cast<uint32_t>(r.ifr_mtu);
  }
}

Wire::Sent AfPacket::send(std::span<const std::byte> frame) noexcept {
  VnetHeader head{};  // all zero: checksums are done, nothing is to be cut
  iovec parts[2] = {{&head, sizeof(head)}, {const_cast<std::byte*>(frame.data()), frame.size()}};
  msghdr m{};
  m.msg_iov = parts;
  m.msg_iovlen = 2;
  bool fits = frame.size() >= ether_header_bytes && frame.size() <= max_frame(mtu_);
  if (fits && pulled_) {
    counters_.tx_lost++;
    return Sent::taken;
  }
  ssize_t n = fits ? sendmsg(socket_.get(), &m, MSG_DONTWAIT) : -1;
  if (n < 0 && (!fits || errno == EMSGSIZE || errno == EINVAL)) {
    refresh_mtu();
    counters_.tx_bad_length++;
    return Sent::refused;
  }
  if (n < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)) {
    counters_.tx_busy++;
    return Sent::busy;
  }
  counters_.tx_lost += n < 0;  // the interface is down or gone: a cable that is pulled
  counters_.tx_frames++;
  counters_.tx_bytes += frame.size();
  return Sent::taken;
}

// Fetches what the kernel has, up to a batch. False: nothing.
bool AfPacket::receive() noexcept {
  if (pulled_) return false;
  std::array<mmsghdr, batch> messages{};
  std::array<std::array<iovec, 2>, batch> parts;
  std::array<VnetHeader, batch> heads{};
  std::array<Control, batch> controls;
  for (std::size_t i = 0; i < batch; ++i) {
    parts[i] = {iovec{&heads[i], sizeof(heads[i])},
                iovec{memory_.data() + i * place + headroom, place - headroom}};
    messages[i].msg_hdr.msg_iov = parts[i].data();
    messages[i].msg_hdr.msg_iovlen = 2;
    messages[i].msg_hdr.msg_control = &controls[i];
    messages[i].msg_hdr.msg_controllen = sizeof(controls[i]);
  }
  int n = recvmmsg(socket_.get(), messages.data(), batch, MSG_DONTWAIT, nullptr);
  arrived_ = next_ = 0;
  if (n <= 0) {
    // EINVAL: a kind of segmentation that this kernel cannot describe; the packet is gone.
    if (n < 0 && errno == EINVAL) counters_.rx_malformed++;
    return false;
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    take(i, messages[i].msg_len, &messages[i].msg_hdr);
  }
  return true;
}

// Makes an arrival of a message: the tag goes back in, a checksum is completed.
void AfPacket::take(std::size_t slot, std::size_t bytes, void* message) noexcept {
  auto& m = *static_cast<msghdr*>(message);
  const auto& head = *static_cast<const VnetHeader*>(m.msg_iov[0].iov_base);
  const bool whole = (m.msg_flags & MSG_TRUNC) == 0;
  if (bytes < sizeof(head) + ether_header_bytes || !whole) {
    (whole ? counters_.rx_too_short : counters_.rx_malformed)++;
    return;
  }
  Arrival a{slot * place + headroom, bytes - sizeof(head), {}};
  std::size_t start = head.csum_start;
  tpacket_auxdata aux{};
  if (const tpacket_auxdata* tag = tag_of(m, aux); tag != nullptr) {
    std::byte* frame = memory_.data() + a.at;
    std::memmove(frame - tag_bytes, frame, addresses_bytes);
    a.at -= tag_bytes;
    a.bytes += tag_bytes;
    start += tag_bytes;  // of the checksum, which the kernel counts without the tag
    bool named = (tag->tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
    std::span<std::byte> out{memory_.data() + a.at, a.bytes};
    put_be<uint16_t>(out, addresses_bytes, named ? tag->tp_vlan_tpid : uint16_t{ETH_P_8021Q});
    put_be<uint16_t>(out, addresses_bytes + 2, tag->tp_vlan_tci);
  }
  std::span<std::byte> frame{memory_.data() + a.at, a.bytes};
  uint8_t gso = head.gso_type & static_cast<uint8_t>(~gso_ecn);
  const bool partial = (head.flags & needs_csum) != 0;
  if (gso == gso_tcpv4 || gso == gso_tcpv6 || gso == gso_udp_l4) {
    // The kernel says in the same way of a packet in a tunnel that it is to be cut, and by the
    // start of the sum which one (virtio_net_hdr_from_skb()).
    a.cut = {head.gso_size, gso == gso_udp_l4 ? L4::udp : L4::tcp,
             partial ? static_cast<uint32_t>(start) : 0};
  } else if (gso != gso_none) {
    counters_.rx_malformed++;
    return;
  } else if (partial && !complete_checksum(frame, start, head.csum_offset)) {
    counters_.rx_malformed++;
    return;
  }
  arrivals_[arrived_++] = a;
}

// Shows the next frame of what has arrived; false: all of it is used up.
bool AfPacket::present_next() noexcept {
  std::span<std::byte> segment{memory_.data() + batch * place, place};
  while (segmenting_ || next_ < arrived_) {
    if (segmenting_) {
      std::size_t bytes = segmenter_.next(segment);
      segmenting_ = bytes > 0;
      shown_ = segment.first(bytes);
      if (segmenting_) return true;
      continue;
    }
    const Arrival& a = arrivals_[next_++];
    std::span<const std::byte> frame{memory_.data() + a.at, a.bytes};
    std::size_t longest = a.bytes;
    if (a.cut.payload_bytes > 0) {
      segmenting_ = segmenter_.open(frame, a.cut);
      longest = segmenter_.longest();
      if (!segmenting_) {
        counters_.rx_malformed++;
        continue;
      }
    }
    if (longest > max_frame(mtu_)) refresh_mtu();
    if (longest > max_frame(mtu_)) {
      counters_.rx_too_long++;
      segmenting_ = false;
    } else if (!segmenting_) {
      shown_ = frame;
      return true;
    }
  }
  return false;
}

std::span<const std::byte> AfPacket::peek() noexcept {
  while (shown_.empty()) {
    if (!present_next() && !receive()) break;
  }
  return shown_;
}

void AfPacket::drop() noexcept {
  if (shown_.empty()) return;
  counters_.rx_frames++;
  counters_.rx_bytes += shown_.size();
  shown_ = {};
}

const WireCounters& AfPacket::counters() noexcept {
  tpacket_stats s{};
  socklen_t bytes = sizeof(s);
  if (getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &s, &bytes) == 0) {
    counters_.rx_kernel_drops += s.tp_drops;  // the kernel counts from the last question on
  }
  return counters_;
}

}  // namespace kilim::vhca::wire
