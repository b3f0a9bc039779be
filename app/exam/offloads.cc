// SPDX-License-Identifier: BSD-3-Clause
// E42, E44: packets that the device cuts into segments, checksums of what is received. Frames come
// from the port itself, or from --peer.
#include <algorithm>
#include <string>
#include <utility>

#include "kilim/prm/eth_seg.hh"
#include "question.hh"
#include "raw_packets.hh"

namespace kilim::exam {
namespace {

uint16_t folded(uint32_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

uint32_t sum_of(const uint8_t* at, std::size_t bytes) {
  uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes; i += 2) sum += uint32_t{at[i]} << 8 | at[i + 1];
  return sum;
}

void put16(uint8_t* at, uint32_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}

enum class Flaw : uint8_t { none, ip, udp, both, udp_zero, fragment };

// Ethernet, IPv4 and UDP to discard's port of addresses for documents (RFC 5737).
std::vector<uint8_t> udp_frame(const Mac& to, const Mac& from, Flaw flaw) {
  std::vector<uint8_t> f = frame_of(to, from, 60, 0);
  put16(&f[12], 0x0800);
  uint8_t* ip = &f[14];
  static constexpr uint8_t header[20] = {0x45, 0, 0,   60, 0x12, 0x34, 0,   0,  64,  17,
                                         0,    0, 192, 0,  2,    1,    198, 51, 100, 2};
  std::copy(std::begin(header), std::end(header), ip);
  if (flaw == Flaw::fragment) put16(ip + 6, 0x2000);  // more follow
  put16(ip + 10, folded(sum_of(ip, 20)));
  uint8_t* udp = ip + 20;
  put16(udp, 40000);
  put16(udp + 2, 9);
  put16(udp + 4, 40);
  put16(udp + 6, 0);
  const uint32_t pseudo = sum_of(ip + 12, 8) + 17 + 40;
  put16(udp + 6, folded(pseudo + sum_of(udp, 40)));
  if (flaw == Flaw::udp_zero) put16(udp + 6, 0);
  if (flaw == Flaw::ip || flaw == Flaw::both) ip[10] ^= 0x55;
  if (flaw == Flaw::udp || flaw == Flaw::both) udp[7] ^= 0x55;
  return f;
}

void ask_checksums(const Setting& setting, Answer& answer) {
  Ends e(setting, answer);
  if (const int rc = lay_rule(e.to.q, {.mac = e.to.mac, .priority = 1}); rc != 0)
    give_up(answer, "a flow rule of the port's own address is refused", rc);
  static constexpr std::pair<const char*, Flaw> frames[] = {
      {"good", Flaw::none},     {"bad IP sum", Flaw::ip},      {"bad UDP sum", Flaw::udp},
      {"both bad", Flaw::both}, {"UDP sum 0", Flaw::udp_zero}, {"a fragment", Flaw::fragment},
  };
  std::string good;
  bool told_apart = true;
  for (const auto& [name, flaw] : frames) {
    RawPort& from = e.from();
    e.to.q.receive(e.to.in, frame_room, e.to.mr_in->lkey);
    const Completion sent = from.q.run(from.whole(udp_frame(e.to.mac, from.mac, flaw)), answer);
    if (sent.failed()) answer.not_run("a frame is not sent: " + sent.text());
    const auto got = e.to.q.received.next(2);
    if (!got) answer.not_run("a frame does not arrive");
    const uint8_t sums = got->bytes[28];
    const std::string seen =
        printed("l3 %s, l4 %s, types 0x%02x", (sums & 2) != 0 ? "right" : "not said",
                (sums & 4) != 0 ? "right" : "not said", got->bytes[29]);
    answer.fact(name, seen);
    if (flaw == Flaw::none) good = seen;
    told_apart = told_apart &&
                 (flaw == Flaw::none ? (sums & 6) == 6 : (sums & 6) != 6 || flaw == Flaw::udp_zero);
  }
  answer.verdict(told_apart ? "told apart" : "not told apart");
}

constexpr Meaning checksums_mean[] = {
    {"told apart", "the checksum bits of completions are what the receive burst makes of them"},
    {"not told apart", "the receive burst must not report these sums as right: see the facts"},
};

struct Segmented {
  uint32_t mss, payload;
};

constexpr std::size_t tcp_headers = 54;  // Ethernet, IPv4, TCP

// One TSO WQE, whose headers are in line.
Wqe segmented(RawPort& from, const Mac& to, const Segmented& s) {
  std::vector<uint8_t> f = udp_frame(to, from.mac, Flaw::none);
  f[14 + 9] = 6;  // TCP
  put16(&f[16], 40 + s.payload);
  put16(&f[24], 0);
  put16(&f[24], folded(sum_of(&f[14], 20)));
  std::fill(f.begin() + 34, f.begin() + tcp_headers, uint8_t{0});
  put16(&f[34], 40000);
  put16(&f[36], 9);
  f[46] = 5 << 4;
  f[47] = 0x10;
  prm::EthSeg eth{};
  eth.mss = be16{static_cast<uint16_t>(s.mss)};
  eth.cs_flags = prm::eth::l3_csum | prm::eth::l4_csum;
  eth.inline_hdr_sz = be16{tcp_headers};
  std::copy_n(f.begin(), 2, eth.inline_hdr_start);
  Wqe w{.opcode = MLX5_OPCODE_TSO, .body = {}};
  w.add(eth).add_bytes(f.data() + 2, tcp_headers - 2);
  w.body.resize((w.body.size() + 15) / 16 * 16);
  return w.data(from.out, s.payload, from.mr_out->lkey);
}

// "ok", or how what arrives differs from segments of `mss` bytes and a rest.
std::string segments_of(Ends& e, const Segmented& s) {
  if (lay_rule(e.to.q, {.mac = e.to.mac, .priority = 1}) != 0) return "no rule";
  const uint32_t count = (s.payload + s.mss - 1) / s.mss;
  for (uint32_t i = 0; i < count + 1; i++)
    e.to.q.receive(e.to.in + std::size_t{i} * frame_room, frame_room, e.to.mr_in->lkey);
  RawPort& from = e.from();
  from.q.sq.post(segmented(from, e.to.mac, s));
  const auto sent = from.q.sent.next(2);
  if (!sent || sent->failed()) return sent ? sent->text() : "no completion";
  for (uint32_t i = 0, left = s.payload; i < count; i++) {
    const auto got = e.to.q.received.next(2);
    if (!got) return printed("%u of %u segments arrive", i, count);
    const uint32_t bytes = std::min(left, s.mss);
    if (got->byte_count() != bytes + tcp_headers)
      return printed("segment %u has %u bytes", i, got->byte_count());
    left -= bytes;
  }
  return e.to.q.received.next(0.2) ? "a segment too many" : "ok";
}

void ask_segments(const Setting& setting, Answer& answer) {
  bool all = true;
  for (const Segmented& s : {Segmented{1400, 4000}, {64, 1000}, {1, 20}, {1400, 1400}}) {
    Ends e(setting, answer, {.receive = 64});
    const std::string seen = segments_of(e, s);
    answer.fact(printed("%u bytes, MSS %u", s.payload, s.mss), seen);
    all = all && seen == "ok";
  }
  answer.verdict(all ? "as asked" : "otherwise");
}

constexpr Meaning segments_mean[] = {
    {"as asked", "TSO keeps its limits, small segments too"},
    {"otherwise", "the limits of TSO go into the capabilities: see which shape"},
};

constexpr Question rows[] = {
    {"E42", "packets that the device cuts into segments, counted by a peer",
     needs::raw | needs::peer | needs::cable, Disturbs::nothing, 20, segments_mean,
     "the shape and its error", "--profile no-tx-offloads", ask_segments},
    {"E44", "checksum bits of good and bad frames", needs::raw, Disturbs::nothing, 20,
     checksums_mean, "the bits of drivers/vhca/wq/cqe_writer.cc",
     "cannot fail here: each profile checks sums", ask_checksums},
};

}  // namespace

std::span<const Question> offload_questions() {
  return rows;
}

}  // namespace kilim::exam
