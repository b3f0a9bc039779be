// SPDX-License-Identifier: BSD-3-Clause
// Sources: rtnetlink(7), netlink(7); struct rtnl_link_stats64 of linux/if_link.h.
#include "vhca/wire/interface_drops.hh"

#include <cstring>

#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

namespace kilim::vhca::wire {

namespace {

constexpr std::size_t answer_bytes = 16 << 10;  // of one link, which has a few KiB

// The statistics among the attributes of a link; false: they are not there.
bool find_dropped(const nlmsghdr* m, uint64_t& dropped) noexcept {
  const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(m));
  auto left = static_cast<int>(m->nlmsg_len) - static_cast<int>(NLMSG_SPACE(sizeof(*link)));
  for (const rtattr* a = IFLA_RTA(link); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
    rtnl_link_stats64 stats;
    if (a->rta_type != IFLA_STATS64 || RTA_PAYLOAD(a) < sizeof(stats)) continue;
    std::memcpy(&stats, RTA_DATA(a), sizeof(stats));
    dropped = stats.tx_dropped;
    return true;
  }
  return false;
}

}  // namespace

InterfaceDrops::InterfaceDrops(uint32_t index) noexcept
    : socket_(Fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE))),
      index_(index) {
  (void)ask(base_);
}

bool InterfaceDrops::ask(uint64_t& dropped) noexcept {
  if (!socket_) return false;
  struct {
    nlmsghdr head;
    ifinfomsg link;
  } question{};
  question.head.nlmsg_len = sizeof(question);
  question.head.nlmsg_type = RTM_GETLINK;
  question.head.nlmsg_flags = NLM_F_REQUEST;
  question.link.ifi_index = static_cast<int>(index_);
  if (::send(socket_.get(), &question, sizeof(question), MSG_DONTWAIT) < 0) return false;
  alignas(nlmsghdr) std::byte answer[answer_bytes];
  const ssize_t n = ::recv(socket_.get(), answer, sizeof(answer), MSG_DONTWAIT);
  const auto* m = reinterpret_cast<const nlmsghdr*>(answer);
  return n > 0 && NLMSG_OK(m, static_cast<uint32_t>(n)) && m->nlmsg_type == RTM_NEWLINK &&
         find_dropped(m, dropped);
}

uint64_t InterfaceDrops::read() noexcept {
  uint64_t now = 0;
  if (ask(now) && now >= base_) known_ = now - base_;
  return known_;
}

}  // namespace kilim::vhca::wire
