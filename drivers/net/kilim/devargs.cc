// SPDX-License-Identifier: BSD-3-Clause
#include "net/kilim/devargs.hh"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <rte_kvargs.h>

#include "kilim/detail/base/nearest.hh"
#include "kilim/detail/device/inline_arbiter.hh"

namespace kilim::net {
namespace {

struct FreeKvargs {
  void operator()(rte_kvargs* k) const noexcept { rte_kvargs_free(k); }
};

// One row for each argument. A number is checked by its range; a text by its function, which
// returns the reason for refusing it, or null.
struct Row {
  const char* key;
  const char* range;  // for people
  uint32_t Devargs::*number;
  uint32_t low, high;
  bool power_of_two;
  const char* (*text)(Devargs&, const char*);
};

const char* parse_hca(Devargs& d, const char* v) {
  if (v[0] == '\0' || std::strlen(v) > 32) return "must be a device name of 1 to 32 characters";
  d.hca.name = v;
  return nullptr;
}

// Always refused: the argument is known so that the reason can be told.
const char* parse_inline(Devargs&, const char*) {
  static const Result<device::InlineDecision> never = device::arbitrate(
      {.transport = device::Transport::raw_packet, .wish = device::InlineReceive::on});
  return never.error().what;
}

// What the mlx5 driver's name asks for is what is always so; anything else is refused with a
// reason.
const char* parse_inline_several(Devargs&, const char* v) {
  return std::string_view(v) == "0" ? nullptr
                                    : "must be 0: of WQEs of several packets none is copied; "
                                      "txq_inline_max= copies them into WQEs of their own";
}

// clang-format off
constexpr Row rows[] = {
    {"hca",      "name of an RDMA device, or vhcaN for a virtual one; default vhcaN of net_kilimN", nullptr, 0, 0, false, parse_hca},
    {"port",     "1 to 255; default 1",                         &Devargs::port, 1, 255, false, nullptr},
    {"rxq",      "1 to 64; default 1",                          &Devargs::rxq, 1, 64, false, nullptr},
    {"txq",      "1 to 64; default 1",                          &Devargs::txq, 1, 64, false, nullptr},
    {"rxd",      "64 to 8192, a power of two; default 1024",    &Devargs::rxd, 64, 8192, true, nullptr},
    {"txd",      "64 to 8192, a power of two; default 1024",    &Devargs::txd, 64, 8192, true, nullptr},
    {"relaxed_ordering_en", "0 or 1; default 1, but 0 on Intel's Haswell and Broadwell: packets may be written in another order than they came", &Devargs::relaxed_ordering, 0, 1, false, nullptr},
    {"rxq_cqe_comp_en", "0 or 1; default 0; of the ethdev: completions share entries", &Devargs::compress, 0, 1, false, nullptr},
    {"txq_mpw_en", "0 or 1; default 1; of the ethdev: several packets a WQE", &Devargs::multi_packet, 0, 1, false, nullptr},
    {"txq_inline_min", "0 to 254; default 0; of the ethdev: bytes of each frame in its WQE", &Devargs::inline_min, 0, 254, false, nullptr},
    {"txq_inline_max", "0 to 974; default 0; of the ethdev: frames up to this length in their WQEs", &Devargs::inline_max, 0, 974, false, nullptr},
    {"txqs_min_inline", "0 to 64; default 0; of the ethdev: the fewest transmit queues for txq_inline_max", &Devargs::inline_txqs, 0, 64, false, nullptr},
    {"txq_inline_mpw", "0", nullptr, 0, 0, false, parse_inline_several},
    {"mprq_en", "0 or 1; default 0; of the ethdev: several packets a receive", &Devargs::strided, 0, 1, false, nullptr},
    {"rxqs_min_mprq", "1 to 64; default 12; of the ethdev: the fewest receive queues for mprq_en", &Devargs::strided_rxqs, 1, 64, false, nullptr},
    {"mprq_log_stride_num", "1 to 16; default 6; of the ethdev: strides of a receive, by their logarithm", &Devargs::log_strides, 1, 16, false, nullptr},
    {"mprq_log_stride_size", "6 to 13; default 11; of the ethdev: bytes of a stride, by their logarithm", &Devargs::log_stride_bytes, 6, 13, false, nullptr},
    {"mprq_max_memcpy_len", "0 to 65535; default 128; of the ethdev: packets up to this length are copied into mbufs", &Devargs::copied, 0, 65535, false, nullptr},
    {"lro_timeout_usec", "0 to 65535; default 0, the shortest that the device has; of the ethdev: microseconds that a joined frame (LRO) waits for segments", &Devargs::lro_timeout_us, 0, 65535, false, nullptr},
    {"inline_recv", "refused on packet ports; connections of the library have it", nullptr, 0, 0, false, parse_inline},
};
// clang-format on

// Says what an argument is: one of the port's, or a word of virtual devices.
struct Argument {
  const Row* row = nullptr;
  const attach::Word* word = nullptr;
};

const std::vector<attach::Word>& device_words() {
  static const std::vector<attach::Word> all = attach::device_words();
  return all;
}

Argument find(std::string_view key) {
  for (const Row& r : rows)
    if (key == r.key) return {&r, nullptr};
  for (const attach::Word& w : device_words())
    if (key == w.name) return {nullptr, &w};
  return {};
}

std::string quote(const char* key, const char* value) {
  return std::string("devarg ") + key + "=" + (value == nullptr ? "" : value);
}

std::string unknown(const char* key) {
  std::vector<std::string_view> known;
  for (const Row& r : rows) known.push_back(r.key);
  for (const attach::Word& w : device_words()) known.push_back(w.name);
  std::string why =
      std::string("devarg ") + key + " is unknown" + nearest_hint(key, known) + "; known are";
  for (const std::string_view name : known) why.append(1, ' ').append(name).append(1, '=');
  return why;
}

std::string ask_for_value(const char* key, const char* range) {
  return quote(key, "") + " needs a value: " + range;
}

// Reads one argument. Returns a sentence that refuses it, or an empty string.
std::string parse(Devargs& d, const attach::Word& word, const char* value) {
  if (value == nullptr || value[0] == '\0') return ask_for_value(word.name, word.range);
  const std::string why = attach::read_word(d.hca, word.name, value);
  return why.empty() ? why : quote(word.name, value) + ": " + why;
}

std::string parse(Devargs& d, const Row& row, const char* value) {
  if (value == nullptr || value[0] == '\0') return ask_for_value(row.key, row.range);
  if (row.text != nullptr) {
    const char* why = row.text(d, value);
    return why == nullptr ? "" : quote(row.key, value) + " " + why + " (" + row.range + ")";
  }
  uint32_t n = 0;
  const char* end = value + std::strlen(value);
  const auto [at, error] = std::from_chars(value, end, n);
  const bool good = error == std::errc{} && at == end && n >= row.low && n <= row.high &&
                    (!row.power_of_two || (n & (n - 1)) == 0);
  if (!good) return quote(row.key, value) + " is out of range: " + row.range;
  d.*row.number = n;
  return "";
}

}  // namespace

bool loses_by_relaxed_ordering(uint32_t signature) noexcept {
  const uint32_t family = signature >> 8 & 0xf;
  const uint32_t model = (signature >> 4 & 0xf) | (signature >> 12 & 0xf0);
  constexpr uint32_t models[] = {0x3c, 0x3f, 0x45, 0x46, 0x3d, 0x47, 0x4f, 0x56};
  return family == 6 && std::ranges::find(models, model) != std::end(models);
}

uint32_t usual_relaxed_ordering() noexcept {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool intel = __get_cpuid(0, &eax, &ebx, &ecx, &edx) != 0 && ebx == signature_INTEL_ebx &&
                     edx == signature_INTEL_edx && ecx == signature_INTEL_ecx;
  if (intel && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && loses_by_relaxed_ordering(eax))
    return 0;
#endif
  return 1;
}

std::variant<Devargs, DevargsError> parse_devargs(const char* text) {
  Devargs d;
  if (text == nullptr || text[0] == '\0') return d;
  const std::unique_ptr<rte_kvargs, FreeKvargs> list(rte_kvargs_parse(text, nullptr));
  if (list == nullptr)
    return DevargsError{std::string("devargs \"") + text + "\" are not a list of KEY=VALUE"};
  std::vector<std::string_view> seen;
  for (unsigned i = 0; i < list->count; i++) {
    const rte_kvargs_pair& pair = list->pairs[i];
    const Argument known = find(pair.key);
    if (known.row == nullptr && known.word == nullptr) return DevargsError{unknown(pair.key)};
    const bool repeats = known.word != nullptr && known.word->repeats;
    if (!repeats && std::ranges::find(seen, std::string_view(pair.key)) != seen.end())
      return DevargsError{std::string("devarg ") + pair.key + " is given twice"};
    seen.push_back(pair.key);
    std::string why =
        known.row != nullptr ? parse(d, *known.row, pair.value) : parse(d, *known.word, pair.value);
    if (!why.empty()) return DevargsError{std::move(why)};
  }
  if (d.strided != 0 && d.compress != 0)
    return DevargsError{
        "devarg mprq_en=1 excludes rxq_cqe_comp_en=1: entries of several packets' completions do "
        "not say where in a receive each packet lies"};
  return d;
}

const char* devargs_help() noexcept {
  static const std::string text = [] {
    std::string s;
    for (const Row& r : rows) s += std::string("  ") + r.key + "=  " + r.range + "\n";
    s += "of virtual devices only:\n";
    for (const attach::Word& w : device_words())
      s += std::string("  ") + w.name + "=  " + w.range + "\n";
    return s;
  }();
  return text.c_str();
}

}  // namespace kilim::net
