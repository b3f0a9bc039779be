// SPDX-License-Identifier: BSD-3-Clause
// The table of commands, and the one function that EAL calls for all of them.
#include "kilim/detail/telemetry/endpoints.hh"

#include <array>
#include <atomic>
#include <charconv>
#include <string_view>

#include <rte_telemetry.h>

#include "kilim/detail/telemetry/answers.hh"

namespace kilim::inline v1::telemetry {

namespace {

struct Row {
  Endpoint said;
  Answer* answer;
};

// clang-format off
constexpr Row rows[] = {
    {{"/kilim/list", "Names of ports, devices and pools, and lcores of workers. Parameters: none"}, answer_list},
    {{"/kilim/info", "Version and process; of a port its addresses, sizes and state. Parameters: none, or a port's name or number"}, answer_info},
    {{"/kilim/stats", "Counts of ports since they were made. Parameters: none, or a port's name or number"}, answer_stats},
    {{"/kilim/xstats", "Counts of a port and of each queue, flat, 16 queues at a time. Parameters: port[,first queue]"}, answer_xstats},
    {{"/kilim/queues", "Counts and states of a port's queues, 16 at a time. Parameters: port[,first queue]"}, answer_queues},
    {{"/kilim/workers", "Rounds, cycles and sleeps of poll loops. Parameters: none, or an lcore"}, answer_workers},
    {{"/kilim/pools", "Packet buffers: how many, and how many lie free in the pool's ring. Parameters: none, or a pool's name"}, answer_pools},
    {{"/kilim/umr", "Work requests that bound, invalidated and swapped mkeys. Parameters: none"}, answer_umr},
    {{"/kilim/mkeys", "Pools of indirect mkeys: how many keys, and how many lie free in the ring. Parameters: none"}, answer_mkeys},
    {{"/kilim/mr", "Registered memory by kind. Parameters: none, or a device's name"}, answer_mr},
    {{"/kilim/odp", "Statistics of on-demand paging, of all devices or of one. Parameters: none, or a device's name"}, answer_odp},
    {{"/kilim/inline", "What arrives in completion entries, what must stand in work requests, and why. Parameters: none, or a device's name"}, answer_inline},
    {{"/kilim/flows", "A port's filter, spreading and flow rules with their counts, 64 rules at a time. Parameters: port[,first rule]"}, answer_flows},
    {{"/kilim/device", "Capabilities of devices. Parameters: none, or a device's name"}, answer_device},
};
// clang-format on

constexpr auto said = [] {
  std::array<Endpoint, std::size(rows)> all{};
  for (std::size_t i = 0; i < all.size(); i++) all[i] = rows[i].said;
  return all;
}();

std::atomic<bool> on{true};

int answer(const char* command, const char* parameters, rte_tel_data* data) {
  const Dict out(data);
  if (!enabled()) {
    out.refuse("this program has switched Kilim's telemetry off");
    return 0;
  }
  for (const Row& row : rows)
    if (std::string_view(row.said.path) == command) row.answer(Words(parameters), out);
  return 0;
}

}  // namespace

std::span<const Endpoint> endpoints() noexcept {
  return said;
}

// A second registration of a command is EEXIST, and nothing else happens.
void offer() noexcept {
  for (const Row& row : rows)
    (void)rte_telemetry_register_cmd(row.said.path, answer, row.said.help);
}

void set_enabled(bool enable) noexcept {
  on.store(enable, std::memory_order_relaxed);
}

bool enabled() noexcept {
  return on.load(std::memory_order_relaxed);
}

std::optional<uint32_t> number_in(std::string_view word) noexcept {
  uint32_t n = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (word.empty() || error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return n;
}

}  // namespace kilim::inline v1::telemetry
