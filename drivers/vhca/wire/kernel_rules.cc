// SPDX-License-Identifier: BSD-3-Clause
// One kernel rule for each way a steering rule can be true of a frame, in the order of the port's
// rules.
#include "vhca/wire/kernel_rules.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <net/if.h>

namespace kilim::vhca::wire {

namespace {

constexpr uint8_t udp = 17;
constexpr uint16_t roce_port = 4791;  // RoCE v2: IANA, "Service Name and Transport Protocol Port"

FrameMatch::Compare compare(FrameMatch::From from, uint8_t at, uint16_t value, uint8_t bytes) {
  FrameMatch::Compare c{from, at, bytes, false, {}, {}};
  for (std::size_t i = 0; i < bytes; i++) {
    c.mask[i] = 0xff;
    c.value[i] = static_cast<uint8_t>(value >> 8 * (bytes - 1 - i));
  }
  return c;
}

// RoCE's packets are the adapter's whatever the rules say.
FrameMatch roce_of(uint16_t ether_type) {
  using From = FrameMatch::From;
  return {{compare(From::type, 0, ether_type, 2), compare(From::protocol, 0, udp, 1),
           compare(From::transport, 2, roce_port, 2)}};
}

const char* sentence(int error) {
  if (error == EPERM) return "exclusive: needs CAP_NET_ADMIN in this network namespace";
  return "exclusive: this kernel drops no frames at an interface's ingress for a process, which "
         "takes "
         "Linux 5.12 with CONFIG_NF_TABLES_NETDEV and CONFIG_NETFILTER_INGRESS; without the word "
         "the "
         "interface's kernel sees each frame too";
}

}  // namespace

Result<KernelRules> KernelRules::create(uint32_t interface) {
  char name[IF_NAMESIZE];
  if (::if_indextoname(interface, name) == nullptr)
    return Error{ENODEV, "exclusive: the interface is gone"};
  Result<NfTable> table = NfTable::create(name);
  if (!table) return Error{table.error().code, sentence(table.error().code)};
  KernelRules rules(*std::move(table));
  constexpr uint16_t ipv4 = 0x0800, ipv6 = 0x86dd;
  for (const uint16_t type : {ipv4, ipv6}) {
    const Result<uint64_t> made = rules.table_.add(roce_of(type), NfTable::Then::drop, rules.roce_);
    if (!made) return Error{made.error().code, sentence(made.error().code)};
    rules.roce_ = *made;
  }
  return rules;
}

void KernelRules::add(uint32_t rule, uint32_t behind, std::span<const FrameMatch> matches,
                      bool kernel_sees) {
  const auto before = handles_.find(behind);
  uint64_t place = before == handles_.end() ? roce_ : before->second.back();
  std::vector<uint64_t> handles;
  for (const FrameMatch& match : matches) {
    const Result<uint64_t> made =
        table_.add(match, kernel_sees ? NfTable::Then::accept : NfTable::Then::drop, place);
    if (!made) {
      cannot_say("the kernel does not take it");
      break;
    }
    place = *made;
    handles.push_back(place);
  }
  if (!handles.empty()) handles_.emplace(rule, std::move(handles));
}

void KernelRules::cannot_say(const char* why) {
  if (std::any_of(told_.begin(), told_.end(),
                  [why](const char* t) { return std::strcmp(t, why) == 0; }))
    return;
  told_.push_back(why);
  std::fprintf(stderr,
               "kilim-vhca: +exclusive: a steering rule cannot be said to the interface's kernel, "
               "which goes on seeing what the rule takes: %s\n",
               why);
}

// A handle that is gone went with its interface.
void KernelRules::remove(uint32_t rule) {
  const auto found = handles_.find(rule);
  if (found == handles_.end()) return;
  for (const uint64_t handle : found->second) (void)table_.remove(handle);
  handles_.erase(found);
}

Result<std::unique_ptr<Wire>> Exclusive::create(std::unique_ptr<Wire> inner, std::string_view) {
  Result<KernelRules> rules = KernelRules::create(inner->interface());
  if (!rules) return rules.error();
  return std::unique_ptr<Wire>(new Exclusive(std::move(inner), *std::move(rules)));
}

}  // namespace kilim::vhca::wire
