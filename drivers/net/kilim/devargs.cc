// SPDX-License-Identifier: BSD-3-Clause
#include "net/kilim/devargs.hh"

#include <charconv>
#include <cstring>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

#include <rte_kvargs.h>

#include "kilim/base/nearest.hh"
#include "kilim/device/inline_arbiter.hh"

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

const char* parse_wire(Devargs& d, const char* v) {
  if (v[0] == '\0') return "must be a wire spec";
  d.hca.wire = v;
  return nullptr;
}

const char* parse_progress(Devargs& d, const char* v) {
  const std::string_view s = v;
  if (s != "poll" && s != "thread") return "must be poll or thread";
  d.hca.progress = s == "thread" ? attach::Progress::thread : attach::Progress::poll;
  return nullptr;
}

const char* parse_fault(Devargs& d, const char* v) {
  constexpr std::string_view fatal = "fatal@";
  const std::string_view s = v;
  if (!s.starts_with(fatal)) {
    d.hca.failing = s;
    return attach::refusal_of_failing(s) == nullptr ? nullptr : "must be fatal@N, wqe@N or wqe@N+M";
  }
  const auto [at, error] = std::from_chars(v + fatal.size(), v + s.size(), d.hca.fatal_at);
  const bool good = error == std::errc{} && at == v + s.size() && d.hca.fatal_at != 0;
  return good ? nullptr : "must be fatal@N with N from 1";
}

const char* parse_lint(Devargs& d, const char* v) {
  const std::string_view s = v;
  if (s != "off" && s != "warn" && s != "error") return "must be off, warn or error";
  d.hca.lint = v;
  return nullptr;
}

const char* parse_order(Devargs& d, const char* v) {
  d.hca.order = v;  // checked by the device when it is attached
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
    {"port",     "1 to 2; default 1",                           &Devargs::port, 1, 2, false, nullptr},
    {"rxq",      "1 to 64; default 1",                          &Devargs::rxq, 1, 64, false, nullptr},
    {"txq",      "1 to 64; default 1",                          &Devargs::txq, 1, 64, false, nullptr},
    {"rxd",      "64 to 8192, a power of two; default 1024",    &Devargs::rxd, 64, 8192, true, nullptr},
    {"txd",      "64 to 8192, a power of two; default 1024",    &Devargs::txd, 64, 8192, true, nullptr},
    {"wire",     "af_packet:IFACE, pcap:IN[:OUT], tap:NAME, cable:NAME, unix:DIR, shm:DIR, udp: or dgram: and addresses, each with +tee:FILE, +fault:..., af_packet: with +exclusive; virtual devices only", nullptr, 0, 0, false, parse_wire},
    {"progress", "poll or thread; default poll; virtual devices only", nullptr, 0, 0, false, parse_progress},
    {"fault",    "fatal@N: the device dies with its N-th send request; wqe@N or wqe@N+M: that one fails, and each M-th behind it; virtual devices only", nullptr, 0, 0, false, parse_fault},
    {"lint",     "off, warn or error: what becomes of wrong send WQEs; default off; virtual devices only", nullptr, 0, 0, false, parse_lint},
    {"order",    "strict, weak, late-umr, late-read or resend, all but the first also with :SEED: when what no fence holds happens; default strict; virtual devices only", nullptr, 0, 0, false, parse_order},
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

const Row* find(std::string_view key) {
  for (const Row& r : rows)
    if (key == r.key) return &r;
  return nullptr;
}

std::string quote(const char* key, const char* value) {
  return std::string("devarg ") + key + "=" + (value == nullptr ? "" : value);
}

std::string unknown(const char* key) {
  std::vector<std::string_view> known;
  for (const Row& r : rows) known.push_back(r.key);
  std::string why =
      std::string("devarg ") + key + " is unknown" + nearest_hint(key, known) + "; known are";
  for (const Row& r : rows) why += std::string(" ") + r.key + "=";
  return why;
}

// Reads one argument. Returns a sentence that refuses it, or an empty string.
std::string parse(Devargs& d, const Row& row, const char* value) {
  if (value == nullptr || value[0] == '\0')
    return quote(row.key, "") + " needs a value: " + row.range;
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

std::variant<Devargs, DevargsError> parse_devargs(const char* text) {
  Devargs d;
  if (text == nullptr || text[0] == '\0') return d;
  const std::unique_ptr<rte_kvargs, FreeKvargs> list(rte_kvargs_parse(text, nullptr));
  if (list == nullptr)
    return DevargsError{std::string("devargs \"") + text + "\" are not a list of KEY=VALUE"};
  uint32_t seen = 0;
  for (unsigned i = 0; i < list->count; i++) {
    const rte_kvargs_pair& pair = list->pairs[i];
    const Row* row = find(pair.key);
    if (row == nullptr) return DevargsError{unknown(pair.key)};
    const uint32_t bit = 1u << (row - rows);
    if ((seen & bit) != 0)
      return DevargsError{std::string("devarg ") + row->key + " is given twice"};
    seen |= bit;
    std::string why = parse(d, *row, pair.value);
    if (!why.empty()) return DevargsError{std::move(why)};
  }
  if (d.strided != 0 && d.compress != 0)
    return DevargsError{
        "devarg mprq_en=1 excludes rxq_cqe_comp_en=1: entries of several packets' completions do "
        "not say where in a receive each packet lies"};
  if (attach::is_virtual_name(d.hca.name) || d.hca.name.empty()) {
    std::string why = d.hca.wire.empty() ? "" : attach::refusal_of_wire(d.hca.wire);
    if (!why.empty()) return DevargsError{std::move(why)};
  }
  return d;
}

const char* devargs_help() noexcept {
  static const std::string text = [] {
    std::string s;
    for (const Row& r : rows) s += std::string("  ") + r.key + "=  " + r.range + "\n";
    return s;
  }();
  return text.c_str();
}

}  // namespace kilim::net
