// SPDX-License-Identifier: BSD-3-Clause
// Names, numbers, addresses of a device, and the launcher's variables.

#include "vhca/entry/config.hh"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include <arpa/inet.h>
#include <sys/sysmacros.h>

#include "vhca/entry/port_ips.hh"

namespace kilim::vhca::entry {
namespace {

constexpr unsigned verbs_major = 231;  // the kernel's major number of InfiniBand devices
constexpr unsigned first_uverbs_minor = 192;
constexpr char wire_separator = ',';  // wire specs contain none

uint64_t mix(uint64_t h, uint64_t value) noexcept {
  h = (h ^ value) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

void put(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);
}

std::string get(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

uint64_t get_number(const char* name, uint64_t otherwise) {
  const std::string text = get(name);
  uint64_t value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < list.size();) {
    std::size_t end = list.find(wire_separator, at);
    if (end == std::string::npos) end = list.size();
    parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string join(const std::vector<std::string>& parts) {
  std::string list;
  for (const std::string& part : parts) {
    list += part;
    list += wire_separator;
  }
  return list;
}

}  // namespace

dev_t DeviceConfig::rdev() const noexcept {
  return makedev(verbs_major, first_uverbs_minor + number);
}

dev_t rdma_cm_rdev() noexcept {
  constexpr unsigned misc_major = 10, minor_of_ours = 58;  // as the kernel gives dynamic ones
  return makedev(misc_major, minor_of_ours);
}

bool name_is_valid(std::string_view name) noexcept {
  constexpr std::string_view allowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  return !name.empty() && name.size() <= 32 && name.front() != '.' &&
         name.find_first_not_of(allowed) == std::string_view::npos;
}

std::optional<Mac> parse_mac(std::string_view text) noexcept {
  Mac mac;
  if (text.size() != mac.size() * 3 - 1) return std::nullopt;
  for (std::size_t i = 0; i < mac.size(); i++) {
    const char* at = text.data() + 3 * i;
    auto [end, error] = std::from_chars(at, at + 2, mac[i], 16);
    if (error != std::errc() || end != at + 2) return std::nullopt;
    if (i + 1 < mac.size() && at[2] != ':') return std::nullopt;
  }
  if ((mac[0] & 1) != 0 || mac == Mac{}) return std::nullopt;
  return mac;
}

std::optional<Gid> parse_gid(std::string_view text) noexcept {
  Gid gid;
  char word[INET6_ADDRSTRLEN];
  if (text.size() >= sizeof(word)) return std::nullopt;
  *std::copy(text.begin(), text.end(), word) = '\0';
  if (::inet_pton(AF_INET6, word, gid.data()) != 1) return std::nullopt;
  // RoCE puts an address of IP version 4 into another header, which this device does not build.
  constexpr Gid mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const bool special = std::equal(gid.begin(), gid.begin() + 12, mapped.begin()) ||
                       std::all_of(gid.begin(), gid.end() - 1, [](uint8_t b) { return b == 0; });
  const bool link_local = gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
  if (gid[0] == 0xff || special || link_local) return std::nullopt;
  return gid;
}

Mac mac_of(const DeviceSpec& config) noexcept {
  if (std::optional<Mac> named = parse_mac(config.mac)) return *named;
  uint64_t h = mix(0x6b696c696d, config.seed);
  for (char c : config.name) h = mix(h, static_cast<uint8_t>(c));
  Mac mac{0x02};
  for (std::size_t i = 1; i < mac.size(); i++) mac[i] = static_cast<uint8_t>(h >> (8 * i));
  return mac;
}

DeviceConfig LaunchConfig::device(uint32_t k) const {
  DeviceConfig config;
  config.attach = attach;
  config.attach.name += std::to_string(k);
  config.attach.wires.clear();
  if (k < attach.wires.size() && !attach.wires[k].empty()) {
    config.attach.wires.push_back(attach.wires[k]);
  }
  if (attach.shared) config.attach.wires = {"unix:" + tree + "/adapter" + std::to_string(k)};
  if (std::optional<Mac> mac = parse_mac(attach.mac); mac && k > 0) {
    (*mac)[5] = static_cast<uint8_t>((*mac)[5] + k);
    char text[18];
    std::snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", (*mac)[0], (*mac)[1],
                  (*mac)[2], (*mac)[3], (*mac)[4], (*mac)[5]);
    config.attach.mac = text;
  }
  if (std::optional<Gid> gid = parse_gid(attach.gid); gid && k > 0) {
    (*gid)[15] = static_cast<uint8_t>((*gid)[15] + k);
    char text[INET6_ADDRSTRLEN];
    config.attach.gid = ::inet_ntop(AF_INET6, gid->data(), text, sizeof(text));
  }
  for (std::string& ip : config.attach.ips) ip = following_ip(ip, k);
  config.number = first_number + k;
  config.tree = tree;
  if (k < netdevs.size()) config.netdev = netdevs[k];
  if (netdevs_carry) config.attach.netdev = config.netdev;
  config.netdev_answered = netdevs_answered;
  config.netdev_hidden = netdevs_hidden;
  return config;
}

void put_in_environment(const LaunchConfig& config) {
  put("KILIM_VHCA_TREE", config.tree);
  put("KILIM_VHCA_DEVICES", std::to_string(config.devices));
  put("KILIM_VHCA_FIRST", std::to_string(config.first_number));
  put("KILIM_VHCA_NAME", config.attach.name);
  put("KILIM_VHCA_PROFILE", config.attach.profile);
  put("KILIM_VHCA_WIRES", join(config.attach.wires));
  put("KILIM_VHCA_MAC", config.attach.mac);
  put("KILIM_VHCA_GID", config.attach.gid);
  put("KILIM_VHCA_IPS", join(config.attach.ips));
  put("KILIM_VHCA_SHARED", config.attach.shared ? "1" : "0");
  put("KILIM_VHCA_SEED", std::to_string(config.attach.seed));
  put("KILIM_VHCA_FATAL", std::to_string(config.attach.fatal_at));
  put("KILIM_VHCA_FAILING", config.attach.failing);
  put("KILIM_VHCA_JOURNAL", config.attach.journal);
  put("KILIM_VHCA_NETDEVS", join(config.netdevs));
  put("KILIM_VHCA_NETDEVS_CARRY", config.netdevs_carry ? "1" : "0");
  put("KILIM_VHCA_NETDEVS_ANSWERED", config.netdevs_answered ? "1" : "0");
  if (!config.attach.lint.empty()) put("KILIM_VHCA_LINT", config.attach.lint);
  if (!config.attach.order.empty()) put("KILIM_VHCA_ORDER", config.attach.order);
  if (!config.attach.explain.empty()) put("KILIM_VHCA_EXPLAIN", config.attach.explain);
}

LaunchConfig find_in_environment() {
  LaunchConfig config;
  config.tree = get("KILIM_VHCA_TREE");
  config.devices = static_cast<uint32_t>(get_number("KILIM_VHCA_DEVICES", 1));
  config.first_number = static_cast<uint32_t>(get_number("KILIM_VHCA_FIRST", 0));
  config.attach.name = get("KILIM_VHCA_NAME");
  config.attach.profile = get("KILIM_VHCA_PROFILE");
  config.attach.wires = split(get("KILIM_VHCA_WIRES"));
  config.attach.mac = get("KILIM_VHCA_MAC");
  config.attach.gid = get("KILIM_VHCA_GID");
  config.attach.ips = split(get("KILIM_VHCA_IPS"));
  config.attach.shared = get_number("KILIM_VHCA_SHARED", 0) != 0;
  config.attach.seed = get_number("KILIM_VHCA_SEED", 0);
  config.attach.fatal_at = get_number("KILIM_VHCA_FATAL", 0);
  config.attach.failing = get("KILIM_VHCA_FAILING");
  config.attach.journal = get("KILIM_VHCA_JOURNAL");
  config.attach.lint = get("KILIM_VHCA_LINT");
  config.attach.order = get("KILIM_VHCA_ORDER");
  config.attach.explain = get("KILIM_VHCA_EXPLAIN");
  config.netdevs = split(get("KILIM_VHCA_NETDEVS"));
  config.netdevs_carry = get_number("KILIM_VHCA_NETDEVS_CARRY", 0) != 0;
  config.netdevs_answered = get_number("KILIM_VHCA_NETDEVS_ANSWERED", 0) != 0;
  config.attach.progress = Progress::thread;
  return config;
}

}  // namespace kilim::vhca::entry
