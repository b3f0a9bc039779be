// SPDX-License-Identifier: BSD-3-Clause
// Commands about devices. Only what Device promises to any thread is called.
#include "kilim/detail/device/devices.hh"

#include <cstdlib>
#include <string>

#include "kilim/detail/telemetry/answers.hh"

namespace kilim::inline v1::telemetry {
namespace {

using device::Device;

// The answer about every device by its name, or about the one that the first word names.
template <typename Report>
void each_device(Words words, const Dict& out, Report report) {
  const bool all = words.empty();
  const std::string_view word = words.next();
  std::string there;
  bool found = all;
  device::walk_devices([&](Device& d) {
    there += (there.empty() ? "" : ", ") + std::string(d.name());
    if (all) {
      report(d, out.child(d.name()));
    } else if (!found && (word == d.name() || word == key_of(d.name()))) {
      found = true;
      report(d, out);
    }
  });
  if (found) return;
  out.refuse("there is no open device " + std::string(word) +
             "; devices: " + (there.empty() ? "none" : there));
}

const char* name_of(prm::UmrFence f) {
  if (f == prm::UmrFence::none) return "none";
  return f == prm::UmrFence::small ? "small" : "strong";
}

void report_keys(const device::Caps& c, const Dict& out) {
  out.flag("umr", c.umr);
  out.text("umr_fence", name_of(c.umr_fence));
  out.number("max_indirection", c.max_indirection);
  out.number("max_key_entries", c.max_key_entries);
  out.number("max_inline_klms", c.max_inline_klms);
  out.number("max_send_wqe", c.max_send_wqe);
  out.flag("umr_pointer_list", c.umr_pointer_list);
  out.flag("repeated_block", c.repeated_block);
  out.flag("signatures", c.signatures);
  out.flag("memory_window_type1", c.memory_window_type1);
  out.flag("memory_window_type2b", c.memory_window_type2b);
  out.number("max_device_memory", c.max_device_memory);
}

void report_packets(const device::Caps& c, const Dict& out) {
  out.flag("raw_packet", c.raw_packet);
  out.flag("multi_packet", c.multi_packet);
  out.number("rx_queues", c.spread.queues);
  out.number("hash_tables", c.spread.tables);
  out.number("longest_hash_table", c.spread.longest_table);
  out.flag("strip_vlan", c.spread.strip_vlan);
  out.number("max_stride_log_bytes", c.spread.max_stride_log_bytes);
  out.flag("compressed_hash", c.compressed_hash);
  out.flag("compressed_checksum", c.compressed_checksum);
  out.number("max_compressed", c.max_compressed);
  out.flag("lro", c.lro.supported);
  out.number("lro_min_mss", c.lro.min_mss);
  out.flag("real_time", c.real_time);
  out.flag("tx_checksums", c.tx.checksums);
  out.flag("tx_tunnels", c.tx.tunnels);
  out.flag("tx_vlan", c.tx.vlan_insertion);
  out.flag("tx_pacing", c.tx.pacing);
  out.number("tx_max_tso", c.tx.max_tso);
}

void report_device(Device& d, const Dict& out) {
  const device::Caps& c = d.caps();
  out.text("name", d.name());
  if (d.numa_node() < 0)
    out.text("numa_node", "not reported");
  else
    out.number("numa_node", static_cast<uint64_t>(d.numa_node()));
  out.number("max_qp_wr", c.max_qp_wr);
  out.number("max_cqe", c.max_cqe);
  out.number("max_sge", c.max_sge);
  out.number("max_message", c.max_message);
  out.flag("atomics", c.atomics);
  report_keys(c, out);
  report_packets(c, out);
}

void report_regions(Device& d, const Dict& out) {
  const auto totals = d.registrar().totals();
  for (std::size_t i = 0; i < totals.size(); i++) {
    const std::string kind = mr::kind_names[i];
    out.number(kind + "_regions", totals[i].regions);
    out.number(kind + "_bytes", totals[i].bytes);
  }
}

void report_paging(Device& d, const Dict& out) {
  const device::OdpStatistics s = d.odp_statistics();
  for (std::size_t i = 0; i < device::odp_counters; i++)
    out.maybe(device::odp_counter_names[i], s.values[i]);
}

// What a queue pair gets that asks for nothing special.
void report_inline(Device& d, const Dict& out) {
  const device::Caps& c = d.caps();
  constexpr std::pair<const char*, device::Transport> kinds[] = {
      {"rc", device::Transport::rc}, {"raw_packet", device::Transport::raw_packet}};
  for (const auto& [name, transport] : kinds) {
    const auto decision = device::arbitrate({.transport = transport,
                                             .capable = c.inline_receive,
                                             .environment = std::getenv("MLX5_SCATTER_TO_CQE")});
    if (!decision) continue;
    const std::string prefix = name;
    out.number(prefix + "_received_bytes", decision->received);
    out.number(prefix + "_answered_bytes", decision->answered);
    out.text(prefix + "_why", decision->why);
  }
  out.number("tx_min_inline", c.tx.min_inline);
}

}  // namespace

void answer_device(Words words, const Dict& out) {
  each_device(words, out, report_device);
}

void answer_mr(Words words, const Dict& out) {
  each_device(words, out, report_regions);
}

void answer_odp(Words words, const Dict& out) {
  each_device(words, out, report_paging);
}

void answer_inline(Words words, const Dict& out) {
  each_device(words, out, report_inline);
}

}  // namespace kilim::inline v1::telemetry
