// SPDX-License-Identifier: BSD-3-Clause
// Linux net/netfilter/nfnetlink.c, nfnetlink_rcv_batch(): the kernel carries a batch out while it
// is sent, wholly or not at all, and its answers lie in the socket then. No library speaks for us:
// this code is loaded into any program, and some of them bring another libmnl.
#include "vhca/wire/nf_table.hh"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kilim/detail/base/be.hh"
#include "vhca/wire/nf_message.hh"

namespace kilim::vhca::wire {

namespace {

constexpr const char* chain_name = "ingress";
// In front of other chains of the interface: what a card takes, none of them sees.
constexpr int32_t priority = -1000;

// Names are one for each table of a network namespace, whose processes may have one number in
// several namespaces of theirs.
std::string table_name(unsigned attempt) {
  static std::atomic<unsigned> made{0};
  char name[64];
  std::snprintf(name, sizeof name, "kilim-vhca-%d-%u-%u", ::getpid(), made++, attempt);
  return name;
}

void put_table(NfMessages& m, const std::string& name) {
  m.begin(NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
  m.put_text(NFTA_TABLE_NAME, name);
  m.put_number(NFTA_TABLE_FLAGS, NFT_TABLE_F_OWNER);
  m.end();
}

void put_chain(NfMessages& m, const std::string& table, const char* interface) {
  m.begin(NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK);
  m.put_text(NFTA_CHAIN_TABLE, table);
  m.put_text(NFTA_CHAIN_NAME, chain_name);
  const std::size_t hook = m.open(NFTA_CHAIN_HOOK);
  m.put_number(NFTA_HOOK_HOOKNUM, NF_NETDEV_INGRESS);
  m.put_number(NFTA_HOOK_PRIORITY, static_cast<uint32_t>(priority));
  m.put_text(NFTA_HOOK_DEV, interface);
  m.close(hook);
  m.put_number(NFTA_CHAIN_POLICY, NF_ACCEPT);
  m.put_text(NFTA_CHAIN_TYPE, "filter");
  m.end();
}

// The handle among the attributes of a rule; 0: it is not there.
uint64_t find_handle(const std::byte* at, std::size_t bytes) noexcept {
  while (bytes >= sizeof(nlattr)) {
    nlattr head;
    std::memcpy(&head, at, sizeof(head));
    if (head.nla_len < sizeof(head) || head.nla_len > bytes) return 0;
    be64 handle;
    if ((head.nla_type & NLA_TYPE_MASK) == NFTA_RULE_HANDLE &&
        head.nla_len == sizeof(head) + sizeof(handle)) {
      std::memcpy(&handle, at + sizeof(head), sizeof(handle));
      return handle.host();
    }
    const std::size_t step = NLA_ALIGN(head.nla_len);
    if (step >= bytes) return 0;
    at += step;
    bytes -= step;
  }
  return 0;
}

// One message of an answer: an errno, or a handle.
void take_answer(const std::byte* at, const nlmsghdr& head, int& error, uint64_t* handle) noexcept {
  const std::size_t bytes = head.nlmsg_len - sizeof(head);
  if (head.nlmsg_type == NLMSG_ERROR && bytes >= sizeof(int)) {
    int said;
    std::memcpy(&said, at + sizeof(head), sizeof(said));
    if (error == 0) error = said;
  }
  constexpr uint16_t rule = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE;
  if (head.nlmsg_type == rule && handle != nullptr && bytes > sizeof(nfgenmsg))
    *handle = find_handle(at + sizeof(head) + sizeof(nfgenmsg), bytes - sizeof(nfgenmsg));
}

}  // namespace

Result<NfTable> NfTable::create(const char* interface) {
  Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER));
  if (!socket) return Error{errno, "the kernel has no netfilter"};
  NfTable table(std::move(socket), {});
  int rc = -EEXIST;
  for (unsigned attempt = 0; attempt < 8 && rc == -EEXIST; attempt++) {
    table.name_ = table_name(attempt);
    NfMessages m;
    put_table(m, table.name_);
    put_chain(m, table.name_, interface);
    rc = table.exchange(m.finish(), nullptr);
  }
  if (rc != 0) return Error{-rc, "the kernel makes no chain at the interface's ingress"};
  return table;
}

Result<uint64_t> NfTable::add(const FrameMatch& match, Then then, uint64_t behind) {
  NfMessages m;
  const uint16_t place = behind != 0 ? NLM_F_APPEND : 0;
  m.begin(NFT_MSG_NEWRULE, static_cast<uint16_t>(NLM_F_CREATE | NLM_F_ECHO | NLM_F_ACK | place));
  m.put_text(NFTA_RULE_TABLE, name_);
  m.put_text(NFTA_RULE_CHAIN, chain_name);
  if (behind != 0) m.put_long(NFTA_RULE_POSITION, behind);
  m.put_expressions(match, then == Then::drop ? NF_DROP : NF_ACCEPT);
  m.end();
  uint64_t handle = 0;
  if (const int rc = exchange(m.finish(), &handle); rc != 0)
    return Error{-rc, "the kernel does not take the rule"};
  if (handle == 0) return Error{EPROTO, "the kernel does not say which rule it made"};
  return handle;
}

int NfTable::remove(uint64_t handle) {
  NfMessages m;
  m.begin(NFT_MSG_DELRULE, NLM_F_ACK);
  m.put_text(NFTA_RULE_TABLE, name_);
  m.put_text(NFTA_RULE_CHAIN, chain_name);
  m.put_long(NFTA_RULE_HANDLE, handle);
  m.end();
  return exchange(m.finish(), nullptr);
}

int NfTable::exchange(const std::vector<std::byte>& batch, uint64_t* handle) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  const ssize_t n = ::sendto(socket_.get(), batch.data(), batch.size(), 0,
                             reinterpret_cast<const sockaddr*>(&kernel), sizeof(kernel));
  return n < 0 ? -errno : read_answers(handle);
}

// All of them are there. Some message of a batch asks for one, so none at all is a fault.
int NfTable::read_answers(uint64_t* handle) {
  std::vector<std::byte> room(std::size_t{1} << 16);
  int error = 0;
  bool any = false;
  for (;;) {
    const ssize_t n = ::recv(socket_.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    any = true;
    auto left = static_cast<std::size_t>(n);
    const std::byte* at = room.data();
    while (left >= sizeof(nlmsghdr)) {
      nlmsghdr head;
      std::memcpy(&head, at, sizeof(head));
      if (head.nlmsg_len < sizeof(head) || head.nlmsg_len > left) break;
      take_answer(at, head, error, handle);
      const std::size_t step = NLMSG_ALIGN(head.nlmsg_len);
      if (step >= left) break;
      at += step;
      left -= step;
    }
  }
  if (error != 0) return error;
  return any ? 0 : -EPROTO;
}

}  // namespace kilim::vhca::wire
