// SPDX-License-Identifier: BSD-3-Clause
// Sources: Linux drivers/net/ethernet/mellanox/mlx5/core/en_fs.c, mlx5e_handle_netdev_addr() and
// mlx5e_fs_set_rx_mode_work(): which frames the interface's tables take; net/core/net-procfs.c,
// dev_mc_seq_show(); netdevice(7), rtnetlink(7).
#include "vhca/wire/port_netdev.hh"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace kilim::vhca::wire {

namespace {

constexpr uint64_t look_ns = 1'000'000;         // between two looks at the socket of notices
constexpr uint64_t groups_age_ns = 10'000'000;  // no notice tells of a group that was joined
constexpr std::size_t list_bytes = 64 << 10;    // of all groups of all interfaces

ifreq request_of(const std::string& name) noexcept {
  ifreq r{};
  name.copy(r.ifr_name, IFNAMSIZ - 1);
  return r;
}

// Tells of changes of links (rtnetlink(7)).
Fd open_news() noexcept {
  Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (socket && ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return {};
  return socket;
}

// The interface has the port's address, as a card's has.
Status set_address(int socket, const std::string& name, const Mac& mac) noexcept {
  ifreq r = request_of(name);
  if (::ioctl(socket, SIOCGIFHWADDR, &r) != 0)
    return Error{errno, "the interface does not tell its address"};
  if (std::memcmp(r.ifr_hwaddr.sa_data, mac.data(), mac.size()) == 0) return Done{};
  r.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::memcpy(r.ifr_hwaddr.sa_data, mac.data(), mac.size());
  if (::ioctl(socket, SIOCSIFHWADDR, &r) != 0)
    return Error{errno, "the interface does not take the port's address"};
  return Done{};
}

// The next word of a line; the line loses it.
std::string_view next_word(std::string_view& line) noexcept {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

// "01005e000001"; nothing: that is none.
std::optional<Mac> parse_hex(std::string_view text) noexcept {
  Mac mac;
  if (text.size() != 2 * mac.size()) return std::nullopt;
  for (std::size_t i = 0; i < mac.size(); i++) {
    const char* at = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(at, at + 2, mac[i], 16);
    if (error != std::errc() || end != at + 2) return std::nullopt;
  }
  return mac;
}

std::string netdev_sentence(std::string_view name, const Error& e) {
  const std::string begin =
      "netdev '" + std::string(name) + "': " + e.what + " (" + std::strerror(e.code) + ")";
  if (e.code == EBUSY) return begin + "; another process has it: each has an interface of its own.";
  if (e.code == EPERM)
    return begin +
           "; it needs CAP_NET_ADMIN, or a TAP that was made for this user (ip tuntap add).";
  return begin + ".";
}

}  // namespace

Result<std::unique_ptr<PortNetdev>> PortNetdev::create(std::string_view name, const Mac& mac,
                                                       uint32_t mtu, std::string* why) {
  const auto refused = [&](const Error& e) {
    if (why != nullptr) *why = netdev_sentence(name, e);
    return e;
  };
  auto tap = TapWire::create_for(name, mtu);
  if (!tap) return refused(tap.error());
  Fd control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Fd news = open_news();
  if (!control || !news) return refused({errno, "no socket can be made"});
  if (Status s = set_address(control.get(), std::string(name), mac); !s) return refused(s.error());
  return std::unique_ptr<PortNetdev>(
      new PortNetdev(name, *std::move(tap), std::move(control), std::move(news)));
}

PortNetdev::PortNetdev(std::string_view name, std::unique_ptr<Wire> tap, Fd control, Fd news)
    : name_(name),
      tap_(std::move(tap)),
      control_(std::move(control)),
      news_(std::move(news)),
      text_(list_bytes) {
  groups_.reserve(list_bytes / 32);
  read_state();
  read_groups();
}

void PortNetdev::read_state() noexcept {
  ifreq r = request_of(name_);
  if (!control_.ours() || ::ioctl(control_.get(), SIOCGIFFLAGS, &r) != 0) {
    state_.up = false;
    return;
  }
  const auto flags = static_cast<unsigned short>(r.ifr_flags);
  state_.up = (flags & IFF_UP) != 0;
  state_.promiscuous = (flags & IFF_PROMISC) != 0;
  state_.all_groups = (flags & IFF_ALLMULTI) != 0;
  if (::ioctl(control_.get(), SIOCGIFMTU, &r) == 0 && r.ifr_mtu > 0)
    state_.mtu = static_cast<uint32_t>(r.ifr_mtu);
  if (::ioctl(control_.get(), SIOCGIFHWADDR, &r) == 0)
    std::memcpy(state_.mac.data(), r.ifr_hwaddr.sa_data, state_.mac.size());
}

// "3    eth0            2     0     01005e000001", a line a group of any interface.
void PortNetdev::read_groups() noexcept {
  groups_ns_ = now_ns_;
  const Fd file(::open("/proc/thread-self/net/dev_mcast", O_RDONLY | O_CLOEXEC));
  std::size_t bytes = 0;
  while (file && bytes < text_.size()) {
    const ssize_t n = ::read(file.get(), text_.data() + bytes, text_.size() - bytes);
    if (n <= 0) break;
    bytes += static_cast<std::size_t>(n);
  }
  groups_.clear();
  std::string_view text(text_.data(), bytes);
  while (!text.empty() && groups_.size() < groups_.capacity()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    (void)next_word(line);  // the number
    if (next_word(line) != name_) continue;
    for (int i = 0; i < 2; i++) (void)next_word(line);  // users
    if (const auto mac = parse_hex(next_word(line))) groups_.push_back(*mac);
  }
}

bool PortNetdev::wants(std::span<const std::byte> frame) noexcept {
  if (!state_.up || frame.size() < ether_header_bytes) return false;
  if (state_.promiscuous) return true;
  Mac to;
  std::memcpy(to.data(), frame.data(), to.size());
  if ((to[0] & 1) == 0) return to == state_.mac;
  constexpr Mac everyone{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  if (state_.all_groups || to == everyone) return true;
  if (now_ns_ - groups_ns_ >= groups_age_ns) read_groups();
  return std::find(groups_.begin(), groups_.end(), to) != groups_.end();
}

void PortNetdev::give(std::span<const std::byte> frame) noexcept {
  if (tap_->send(frame) == Wire::Sent::taken) taken_++;
}

bool PortNetdev::read_news() noexcept {
  bool any = false;
  char notice[64];  // what it says is asked for anew
  while (news_.ours()) {
    const ssize_t n = ::recv(news_.get(), notice, sizeof notice, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && errno != ENOBUFS) break;  // ENOBUFS: notices were lost, so there were some
    any = true;
  }
  return any;
}

bool PortNetdev::look(uint64_t now_ns) noexcept {
  now_ns_ = now_ns;
  if (now_ns - looked_ns_ < look_ns) return false;
  looked_ns_ = now_ns;
  tap_->cork(true);  // a descriptor that is ours no more is seen here
  if (!read_news()) return false;
  const State before = state_;
  read_state();
  return before.up != state_.up || before.mtu != state_.mtu;
}

void PortNetdev::add_fds(std::vector<int>& fds) const {
  for (const int fd : {tap_->fd(), news_.get()})
    if (fd >= 0) fds.push_back(fd);
}

}  // namespace kilim::vhca::wire
