// SPDX-License-Identifier: BSD-3-Clause
#include "identity.hh"

#include <array>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>

#include "addresses.hh"
#include "rig.hh"

namespace kilim::exam {
namespace {

constexpr std::size_t guid_bytes = 8;

void tell_guid(Answer& answer, uint64_t big_endian) {
  std::array<uint8_t, guid_bytes> bytes{};
  std::memcpy(bytes.data(), &big_endian, bytes.size());
  answer.secret("guid", bytes);
}

void tell_addresses(const Device& d, Answer& answer) {
  std::set<uint32_t> interfaces;
  for (uint32_t i = 0; i < static_cast<uint32_t>(d.port.gid_tbl_len); i++) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(d.context, 1, i, &entry, 0) != 0) continue;
    if (interfaces.insert(entry.ndev_ifindex).second)
      if (const auto mac = mac_of_interface(entry.ndev_ifindex)) answer.secret("mac", *mac);
    if (const auto mac = mac_of_gid(entry.gid)) answer.secret("mac", *mac);
    answer.secret("gid", entry.gid.raw);
  }
  tell_guid(answer, d.attr.orig_attr.node_guid);
  tell_guid(answer, d.attr.orig_attr.sys_image_guid);
}

std::string file_of(const Device& d, const char* name) {
  const std::string path = std::string(d.context->device->ibdev_path) + "/" + name;
  char text[128] = "";
  std::FILE* f = std::fopen(path.c_str(), "re");
  if (f == nullptr) return "unknown";
  const std::size_t n = std::fread(text, 1, sizeof text - 1, f);
  std::fclose(f);
  const std::string s(text, n);
  return s.substr(0, s.find('\n'));
}

}  // namespace

void identify(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  tell_addresses(d, answer);
  answer.fact("vendor", printed("0x%04x", d.attr.orig_attr.vendor_id));
  answer.fact("part", printed("%u", d.attr.orig_attr.vendor_part_id));
  answer.fact("hw_ver", printed("0x%x", d.attr.orig_attr.hw_ver));
  answer.fact("firmware", d.attr.orig_attr.fw_ver);
  answer.fact("board", file_of(d, "board_id"));
  answer.fact("ports", printed("%u", d.attr.orig_attr.phys_port_cnt));
  answer.fact("link layer", d.ethernet ? "Ethernet" : "InfiniBand");
  answer.fact("DevX", d.devx ? "yes" : "no");
  if (!setting.peer.empty()) tell_addresses(open_device(setting, answer, setting.peer), answer);
  answer.verdict("known");
}

}  // namespace kilim::exam
