// SPDX-License-Identifier: BSD-3-Clause
// Setting: a row of the race: how completions come, what the application does with a packet, what a
// packet asks the device for. The same for all sides. Pure values, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kilim::race {

inline constexpr uint16_t burst_packets = 32;

enum class Reception : uint8_t { single, hash_minis, sum_minis };
enum class Job : uint8_t { io, mac, read };
// What packets of a burst ask for: all for the same checksums, every second one for them, all for
// one VLAN tag, each for a tag of its own, all to be segmented.
enum class Ask : uint8_t { nothing, sums, half_sums, tag, tags, tso };

// The application's part of a burst; compiled into a function of its own.
struct Work {
  Job job = Job::io;
  Ask ask = Ask::nothing;
  uint8_t segments = 1;  // of a packet that is sent: those behind the first are allocated for it
  bool held = false;     // the application keeps a reference until the next burst was sent
  friend constexpr bool operator==(const Work&, const Work&) noexcept = default;
};

struct Setting {
  std::string_view name;
  Work work{};
  uint32_t bytes = 64;
  Reception reception = Reception::single;
  uint32_t block = burst_packets;  // completions of a compressed block
  bool fast_free = true;           // RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE
  bool of_mbufs = false;           // a question that handles do not have
  // Completions are not compressed: rxq_cqe_comp_en=0, which is not DPDK's default.
  [[nodiscard]] constexpr bool is_single() const noexcept { return reception == Reception::single; }
};

inline constexpr uint32_t tail_bytes = 100;  // of each segment behind the first
inline constexpr uint16_t first_tag = 100, segment_size = 500;

inline constexpr std::array settings{
    Setting{"io"},
    Setting{.name = "io, 1,518 bytes", .bytes = 1518},
    Setting{.name = "mac", .work = {.job = Job::mac}},
    Setting{.name = "mac, 1,518 bytes", .work = {.job = Job::mac}, .bytes = 1518},
    Setting{.name = "read", .work = {.job = Job::read}},
    Setting{.name = "checksums", .work = {.ask = Ask::sums}},
    Setting{.name = "every second asks", .work = {.ask = Ask::half_sums}},
    Setting{.name = "one tag", .work = {.ask = Ask::tag}},
    Setting{.name = "32 tags", .work = {.ask = Ask::tags}},
    Setting{.name = "TSO", .work = {.ask = Ask::tso}, .bytes = 1518, .fast_free = false},
    Setting{.name = "two segments", .work = {.segments = 2}, .fast_free = false},
    Setting{.name = "four segments", .work = {.segments = 4}, .fast_free = false},
    Setting{.name = "no fast free", .fast_free = false, .of_mbufs = true},
    Setting{.name = "refcount 2", .work = {.held = true}, .fast_free = false, .of_mbufs = true},
    Setting{.name = "compressed", .reception = Reception::hash_minis},
    Setting{
        .name = "compressed, mac", .work = {.job = Job::mac}, .reception = Reception::hash_minis},
    Setting{
        .name = "compressed, read", .work = {.job = Job::read}, .reception = Reception::hash_minis},
    Setting{.name = "compressed, blocks of 7", .reception = Reception::hash_minis, .block = 7},
    Setting{.name = "compressed, checksums",
            .work = {.ask = Ask::sums},
            .reception = Reception::hash_minis},
    Setting{.name = "compressed, checksum minis", .reception = Reception::sum_minis},
};

// The function among `make.template of<work>()` that does the work of a setting.
template <typename Function, typename Make, std::size_t... I>
constexpr Function function_of(const Work& w, Make make, std::index_sequence<I...>) noexcept {
  Function found = nullptr;
  ((settings[I].work == w ? found = make.template operator()<settings[I].work>() : found), ...);
  return found;
}
template <typename Function, typename Make>
constexpr Function function_of(const Work& w, Make make) noexcept {
  return function_of<Function>(w, make, std::make_index_sequence<settings.size()>{});
}

}  // namespace kilim::race
