// SPDX-License-Identifier: BSD-3-Clause
// F1 to F5: what a device says of itself. Commands and fields are those of the kernel's mlx5_ifc.h.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/hca_cap.hh"
#include "question.hh"
#include "raw_packets.hh"
#include "rig.hh"

namespace kilim::exam {
namespace {

struct Named {
  const char* name;
  uint16_t group;
  prm::CapField field;
};

// The library decides by these; the rest is in the dumps.
constexpr Named named_fields[] = {
    {"umr_fence", 0, prm::hca_cap::umr_fence},
    {"max_indirection", 0, prm::hca_cap::max_indirection},
    {"fixed_buffer_size", 0, prm::hca_cap::fixed_buffer_size},
    {"log_max_klm_list_size", 0, prm::hca_cap::log_max_klm_list_size},
    {"log_max_bsf_list_size", 0, prm::hca_cap::log_max_bsf_list_size},
    {"log_max_mkey", 0, prm::hca_cap::log_max_mkey},
    {"umr_ptr_rlkey", 0, prm::hca_cap::umr_ptr_rlkey},
    {"umr_extended_translation_offset", 0, prm::hca_cap::umr_extended_translation_offset},
    {"repeated_block_disabled", 0, prm::hca_cap::repeated_block_disabled},
    {"umr_modify_entity_size_disabled", 0, prm::hca_cap::umr_modify_entity_size_disabled},
    {"umr_modify_atomic_disabled", 0, prm::hca_cap::umr_modify_atomic_disabled},
    {"umr_indirect_mkey_disabled", 0, prm::hca_cap::umr_indirect_mkey_disabled},
    {"max_wqe_sz_sq", 0, prm::hca_cap::max_wqe_sz_sq},
    {"max_wqe_sz_rq", 0, prm::hca_cap::max_wqe_sz_rq},
    {"uar_4k", 0, prm::hca_cap::uar_4k},
    {"cqe_compression_max_num", 0, prm::hca_cap::cqe_compression_max_num},
    {"device_frequency_khz", 0, prm::hca_cap::device_frequency_khz},
    {"sho", 0, prm::hca_cap::sho},
    {"crypto", 0, prm::hca_cap::crypto},
    {"wqe_vlan_insert", 1, prm::eth_cap::wqe_vlan_insert},
    {"wqe_inline_mode", 1, prm::eth_cap::wqe_inline_mode},
    {"lro_min_mss_size", 1, prm::eth_cap::lro_min_mss_size},
    {"lro_psh_flag", 1, prm::eth_cap::lro_psh_flag},
    {"enhanced_multi_pkt_send_wqe", 1, prm::eth_cap::enhanced_multi_pkt_send_wqe},
};

// Groups of mlx5_cap_type (include/linux/mlx5/device.h) that a user may ask.
constexpr uint16_t groups[] = {0x00, 0x01, 0x02, 0x03, 0x04, 0x07, 0x0b, 0x0c,
                               0x0f, 0x11, 0x12, 0x13, 0x14, 0x1a, 0x20, 0x25};

constexpr uint16_t query_special_contexts = 0x203;

std::array<uint8_t, 16> command_of(uint16_t opcode, uint16_t op_mod) {
  std::array<uint8_t, 16> in{};
  in[0] = static_cast<uint8_t>(opcode >> 8);
  in[1] = static_cast<uint8_t>(opcode);
  in[6] = static_cast<uint8_t>(op_mod >> 8);
  in[7] = static_cast<uint8_t>(op_mod);
  return in;
}

std::string trimmed(Bytes bytes) {
  while (!bytes.empty() && bytes.back() == 0) bytes = bytes.first(bytes.size() - 1);
  return bytes.empty() ? "zeros" : hex_of(bytes);
}

std::string refusal(int rc, Bytes out) {
  return "refused: " + errno_name(rc) +
         printed(", status 0x%02x, syndrome 0x%02x%02x%02x%02x", out[0], out[4], out[5], out[6],
                 out[7]);
}

void read_group(const Device& d, uint16_t group, bool current, Answer& answer) {
  std::vector<uint8_t> out(16 + prm::cmd::hca_cap_bytes);
  const auto in =
      command_of(prm::cmd::query_hca_cap, static_cast<uint16_t>(group << 1 | (current ? 1 : 0)));
  const int rc = d.command(in, out);
  const std::string name = printed("group 0x%02x %s", group, current ? "current" : "maximum");
  answer.fact(name, rc == 0 ? trimmed(Bytes(out).subspan(16)) : refusal(rc, out));
}

void ask_caps(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  if (!d.devx) {
    answer.verdict("no DevX");
    return;
  }
  for (const Named& n : named_fields) {
    const auto value = d.capability(n.group, n.field.bit, n.field.width);
    answer.fact(n.name, value ? printed("%u", *value) : "not answered");
  }
  std::vector<uint8_t> out(16 + prm::nic_vport::context_bytes);
  int rc = d.command(command_of(prm::cmd::query_nic_vport_context, 0), out);
  const auto context = std::as_bytes(std::span(out)).subspan(16);
  answer.fact("min_wqe_inline_mode",
              rc != 0 ? refusal(rc, out)
                      : printed("%u", prm::cap_get(context, prm::nic_vport::min_wqe_inline_mode)));
  std::vector<uint8_t> special(64);
  rc = d.command(command_of(query_special_contexts, 0), special);
  answer.fact("QUERY_SPECIAL_CONTEXTS", rc != 0 ? refusal(rc, special) : "ok");
  for (const uint16_t group : groups)
    for (const bool current : {true, false}) read_group(d, group, current, answer);
  answer.verdict("read");
}

constexpr Meaning caps_mean[] = {
    {"read", "the fields are a profile of the virtual card; each that differs is a line of it"},
    {"no DevX", "capabilities are known by verbs alone: the library takes the least of each"},
};

void tell_limits(const Device& d, Answer& answer) {
  const ibv_device_attr& a = d.attr.orig_attr;
  const std::pair<const char*, uint64_t> limits[] = {
      {"device_cap_flags", a.device_cap_flags},
      {"device_cap_flags_ex", d.attr.device_cap_flags_ex},
      {"page_size_cap", a.page_size_cap},
      {"max_mr_size", a.max_mr_size},
      {"max_qp", static_cast<uint64_t>(a.max_qp)},
      {"max_qp_wr", static_cast<uint64_t>(a.max_qp_wr)},
      {"max_sge", static_cast<uint64_t>(a.max_sge)},
      {"max_cq", static_cast<uint64_t>(a.max_cq)},
      {"max_cqe", static_cast<uint64_t>(a.max_cqe)},
      {"max_mr", static_cast<uint64_t>(a.max_mr)},
      {"max_pd", static_cast<uint64_t>(a.max_pd)},
      {"max_mw", static_cast<uint64_t>(a.max_mw)},
      {"max_qp_rd_atom", static_cast<uint64_t>(a.max_qp_rd_atom)},
      {"max_srq", static_cast<uint64_t>(a.max_srq)},
      {"max_mcast_grp", static_cast<uint64_t>(a.max_mcast_grp)},
      {"max_mcast_qp_attach", static_cast<uint64_t>(a.max_mcast_qp_attach)},
      {"atomic_cap", static_cast<uint64_t>(a.atomic_cap)},
      {"local_ca_ack_delay", a.local_ca_ack_delay},
      {"odp general", d.attr.odp_caps.general_caps},
      {"odp rc", d.attr.odp_caps.per_transport_caps.rc_odp_caps},
      {"odp uc", d.attr.odp_caps.per_transport_caps.uc_odp_caps},
      {"odp ud", d.attr.odp_caps.per_transport_caps.ud_odp_caps},
      {"odp xrc", d.attr.xrc_odp_caps},
      {"timestamp mask", d.attr.completion_timestamp_mask},
      {"hca_core_clock kHz", d.attr.hca_core_clock},
      {"tso max", d.attr.tso_caps.max_tso},
      {"rss fields", d.attr.rss_caps.rx_hash_fields_mask},
      {"rwq tables", d.attr.rss_caps.max_rwq_indirection_tables},
      {"raw_packet_caps", d.attr.raw_packet_caps},
      {"tag list", d.attr.tm_caps.max_num_tags},
      {"cq moderation", d.attr.cq_mod_caps.max_cq_count},
      {"device memory", d.attr.max_dm_size},
  };
  for (const auto& [name, value] : limits)
    answer.fact(name, printed("0x%llx", static_cast<unsigned long long>(value)));
}

void tell_counters(const Device& d, Answer& answer) {
  std::error_code none;
  const std::string folder = std::string(d.context->device->ibdev_path) + "/ports/1/hw_counters";
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder, none))
    names.insert(file.path().filename().string());
  std::string all;
  for (const std::string& n : names) all += (all.empty() ? "" : " ") + n;
  answer.fact("hw_counters", all);
}

void tell_port(const Device& d, Answer& answer) {
  answer.fact("gid_tbl_len", printed("%d", d.port.gid_tbl_len));
  answer.fact("pkey_tbl_len", printed("%d", d.port.pkey_tbl_len));
  answer.fact("port_cap_flags", printed("0x%x", d.port.port_cap_flags));
  answer.fact("active_mtu", printed("%u", 128u << d.port.active_mtu));
  answer.fact("max_msg_sz", printed("0x%x", d.port.max_msg_sz));
  answer.measured("state", printed("%d", d.port.state));
  answer.measured("active_width", printed("%d", d.port.active_width));
  answer.measured("active_speed", printed("%d", d.port.active_speed));
}

const char* kind_of_gid(uint32_t type) {
  if (type == IBV_GID_TYPE_ROCE_V2) return "RoCE v2";
  return type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1" : "InfiniBand";
}

void ask_device(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  tell_limits(d, answer);
  tell_port(d, answer);
  tell_counters(d, answer);
  bool v1 = false, v2 = false;
  for (uint32_t i = 0; i < static_cast<uint32_t>(d.port.gid_tbl_len); i++) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(d.context, 1, i, &entry, 0) != 0) continue;
    v1 = v1 || entry.gid_type == IBV_GID_TYPE_ROCE_V1;
    v2 = v2 || entry.gid_type == IBV_GID_TYPE_ROCE_V2;
    const bool local = entry.gid.raw[0] == 0xfe && entry.gid.raw[1] == 0x80;
    answer.fact(printed("gid %u", i), std::string(kind_of_gid(entry.gid_type)) +
                                          (local ? ", link-local" : ", of an address") +
                                          (entry.ndev_ifindex != 0 ? ", with a netdev" : ""));
    answer.measured(printed("gid %u bytes", i), hex_of(entry.gid.raw));
  }
  if (!d.ethernet) return answer.verdict("InfiniBand");
  answer.verdict(v1 && v2 ? "RoCE v1 and v2"
                 : v1     ? "RoCE v1 alone"
                 : v2     ? "RoCE v2 alone"
                          : "no GID");
}

constexpr Meaning device_means[] = {
    {"RoCE v1 and v2",
     "as the kernel lists a port: index 0 and 1 are the link-local address twice"},
    {"RoCE v2 alone", "scripts with index 1 or 3 built in find another GID than on most cards"},
    {"RoCE v1 alone", "the loopback pair of UMR queues takes a v1 GID: path without UDP"},
    {"InfiniBand", "no packets: queues and keys alone"},
    {"no GID", "RoCE is off: UMR queues need force-loopback by DevX, the MAC is the interface's"},
};

void ask_clock(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  mlx5dv_clock_info first{};
  if (mlx5dv_get_clock_info(d.context, &first) != 0) return answer.verdict("no clock page");
  answer.fact("mult", printed("%u", first.mult));
  answer.fact("shift", printed("%u", first.shift));
  answer.fact("mask", printed("0x%llx", static_cast<unsigned long long>(first.mask)));
  const double end = seconds_now() + 0.5 * setting.effort;
  uint32_t renewals = 0;
  for (mlx5dv_clock_info last = first, now{}; seconds_now() < end;) {
    const timespec pause{0, 10000000};
    ::nanosleep(&pause, nullptr);
    if (mlx5dv_get_clock_info(d.context, &now) != 0) break;
    renewals += now.last_cycles != last.last_cycles ? 1 : 0;
    last = now;
  }
  answer.measured("renewals seen", printed("%u", renewals));
  const double hertz = static_cast<double>(d.attr.hca_core_clock) * 1000;
  const double seconds = 18446744073709551616.0 / std::max(1u, first.mult) / std::max(1.0, hertz);
  answer.fact("a 64-bit product overflows after",
              seconds > 1e6 ? "weeks" : printed("%.1f s", seconds));
  answer.verdict(seconds > 60 ? "64 bits last" : "64 bits overflow");
}

constexpr Meaning clock_means[] = {
    {"64 bits last", "a time since the page was read may be multiplied in 64 bits for a minute"},
    {"64 bits overflow", "times are multiplied in 128 bits, and the page is read again in time"},
    {"no clock page", "no device clock: the library has no timestamps in nanoseconds"},
};

void ask_layout(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  bool blueflame = false;
  for (const uint32_t sge : {1u, 4u, 16u, 30u}) {
    Queue q = make_queue(d, {.sge = sge, .inline_bytes = 0});
    const mlx5dv_qp& v = q.sq.view;
    answer.fact(printed("RC, %u segments", sge),
                printed("sq %u x %u, rq %u x %u, bf %u", v.sq.wqe_cnt, v.sq.stride, v.rq.wqe_cnt,
                        v.rq.stride, v.bf.size));
    answer.measured(printed("uar offset, %u segments", sge),
                    printed("0x%llx", static_cast<unsigned long long>(v.uar_mmap_offset)));
    blueflame = blueflame || v.bf.size != 0;
    if (sge == 1) answer.fact("cqe_size", printed("%u", q.sent.view.cqe_size));
  }
  answer.verdict(blueflame ? "BlueFlame" : "plain doorbells");
}

constexpr Meaning layout_means[] = {
    {"BlueFlame", "doorbells go to a BlueFlame register by one 8-byte store"},
    {"plain doorbells", "the register's page is not write-combining: doorbells cost more"},
};

void ask_priorities(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  Queue q = make_raw_queue(d);
  const Mac mac = port_mac(d);
  uint32_t taken = 0;
  std::string all;
  for (uint16_t p = 0; p < 32; p++) {
    const int rc = lay_rule(q, {.mac = mac, .priority = p});
    taken += rc == 0 ? 1 : 0;
    if (rc != 0 && all.empty()) all = printed("%u: ", p) + errno_name(rc);
  }
  answer.fact("priorities", printed("%u", taken));
  answer.fact("first refusal", all.empty() ? "none" : all);
  answer.verdict(taken >= 16 ? "16 or more" : taken >= 8 ? "8 or more" : "fewer");
}

constexpr Meaning priorities_mean[] = {
    {"16 or more", "a port's own rules may use places up to 15"},
    {"8 or more", "a port's own rules have to fit into eight places"},
    {"fewer", "rules of one priority: the port lays its own alone"},
};

constexpr Question rows[] = {
    {"F1", "capabilities by QUERY_HCA_CAP, every group", 0, Disturbs::nothing, 10, caps_mean,
     "a field of drivers/vhca/core/profile.hh, and a row of test/truth/facts.tsv",
     "--profile no-devx", ask_caps},
    {"F2", "limits, port and GID table by verbs", 0, Disturbs::nothing, 10, device_means,
     "a field of the profile, or a function that the device lacks", "--profile infiniband",
     ask_device},
    {"F3", "the clock page: factor, shift, mask, renewals", 0, Disturbs::nothing, 10, clock_means,
     "figures of the virtual card's page",
     "cannot fail here: each profile's page has the same figures", ask_clock},
    {"F4", "rings and registers of queues", 0, Disturbs::nothing, 10, layout_means,
     "layouts are read from libmlx5, so nothing but a profile's figures",
     "cannot fail here: libmlx5 lays out the rings", ask_layout},
    {"F5", "priorities of flow rules", needs::raw, Disturbs::nothing, 10, priorities_mean,
     "the places of a port's own rules", "cannot fail here: each profile has the same number",
     ask_priorities},
};

}  // namespace

std::span<const Question> fact_questions() {
  return rows;
}

}  // namespace kilim::exam
