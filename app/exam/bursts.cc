// SPDX-License-Identifier: BSD-3-Clause
// E35, E41, E44: completions that share entries, sends of many packets, checksums of what is
// received. Frames come from the port itself, or from --peer.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "kilim/prm/cqe.hh"
#include "kilim/prm/eth_seg.hh"
#include "question.hh"
#include "raw_packets.hh"

namespace kilim::exam {
namespace {

// The port that frames come from: itself, or the peer.
struct Ends {
  RawPort to;
  std::unique_ptr<RawPort> peer;

  Ends(const Setting& setting, Answer& answer, const QpWish& wish = {})
      : to(setting, answer, wish) {
    if (!setting.peer.empty())
      peer = std::make_unique<RawPort>(Setting{setting.peer, "", 1}, answer);
    to.listen(answer);
  }
  [[nodiscard]] RawPort& from() { return peer != nullptr ? *peer : to; }
};

struct Seen {
  uint32_t frames = 0, compressed = 0;
  std::string fault;
};

// A compressed block whose title was read: its minis lie in the entries behind the title, which is
// frame 0 (prm/cqe.hh). All its entries are preset, as their next owner bit may be the old one.
void take_block(CompletionQueue& cq, uint32_t count, uint32_t bytes, Seen& seen) {
  if (count == 0 || count > cq.view.cqe_cnt) {
    seen.fault = printed("a block says that it has %u frames", count);
    return;
  }
  for (uint32_t i = 0; i < count; i++) {
    prm::MiniCqe mini{};
    // entry(0) is the one behind the title.
    std::memcpy(&mini, cq.entry(prm::mini_cqe::entry_of(i) - 1) + i % 8 * sizeof mini, sizeof mini);
    if (mini.byte_cnt.host() != bytes) seen.fault = "a length in a block is wrong";
  }
  for (uint32_t i = 0; i + 1 < count; i++) cq.entry(i)[63] = prm::cqe::invalid_op_own;
  cq.skip(count - 1);
  seen.frames += count;
  seen.compressed += count;
}

// One entry of the queue, or a block.
void take(CompletionQueue& cq, uint32_t bytes, Seen& seen) {
  const auto first = cq.next(seen.frames == 0 ? 2 : 0.5);
  if (!first) {
    seen.fault = "a frame is lost";
    return;
  }
  if (prm::cqe::format_of(first->bytes[63]) == 3 && !first->failed())
    return take_block(cq, first->byte_count(), bytes, seen);
  seen.frames++;
  if (first->failed())
    seen.fault = first->text();
  else if (first->byte_count() != bytes)
    seen.fault = "a length is wrong";
}

// Empty: each of `count` frames came once and in order. Numbers are their first bytes.
std::string send_batch(Ends& e, uint32_t count, Seen& seen, Answer& answer) {
  RawPort& from = e.from();
  std::vector<uint8_t> frame;
  for (uint32_t i = 0; i < count; i++) {
    frame = frame_of(e.to.mac, from.mac, 60, static_cast<uint8_t>(i));
    e.to.q.receive(e.to.in + std::size_t{i} * frame_room, frame_room, e.to.mr_in->lkey);
    Wqe w = raw_send(frame);
    std::copy(frame.begin(), frame.end(), from.out + std::size_t{i} * 64);
    w.data(from.out + std::size_t{i} * 64 + inlined, static_cast<uint32_t>(frame.size() - inlined),
           from.mr_out->lkey);
    from.q.sq.put(i + 1 == count ? w : w.silent());
  }
  from.q.sq.ring();
  const auto sent = from.q.sent.next(2);
  if (!sent || sent->failed())
    answer.not_run("frames are not sent: " + (sent ? sent->text() : "no completion"));
  const auto bytes = static_cast<uint32_t>(frame.size());
  while (seen.frames < count && seen.fault.empty()) take(e.to.q.received, bytes, seen);
  if (!seen.fault.empty()) return seen.fault;
  if (seen.frames != count) return "more frames than were sent";
  for (uint32_t i = 0; i < count; i++)
    if (e.to.in[std::size_t{i} * frame_room + 14] != static_cast<uint8_t>(i))
      return "another order";
  return "";
}

// Batches until libmlx5's receive ring, which counts what it polls itself, is full.
void ask_compression(const Setting& setting, Answer& answer) {
  mlx5dv_cq_init_attr attr{};
  attr.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
  attr.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_HASH;
  Ends e(setting, answer, {.receive = 1024, .receive_cq = &attr});
  uint32_t frames = 0, compressed = 0;
  for (uint32_t round = 0; round < 30; round++) {
    Seen seen;
    const std::string fault = send_batch(e, 31, seen, answer);
    frames += seen.frames;
    compressed += seen.compressed;
    if (fault.empty()) continue;
    answer.fact("fault", fault);
    return answer.verdict("lost or doubled");
  }
  answer.measured("frames", printed("%u", frames));
  answer.measured("frames in blocks", printed("%u", compressed));
  answer.verdict(compressed != 0 ? "none lost, in blocks" : "none lost, no blocks");
}

constexpr Meaning compression_means[] = {
    {"none lost, in blocks", "compressed completions are read as the library reads them"},
    {"none lost, no blocks",
     "the card compresses nothing at this rate: ask with --peer and more frames"},
    {"lost or doubled", "compression is off by default: presetting of entries has to be looked at"},
};

// An enhanced multi-packet WQE: one Ethernet segment, a data segment or inline data a packet.
Wqe multi_packet(RawPort& from, const std::vector<std::vector<uint8_t>>& frames,
                 bool every_other_inline) {
  Wqe w{.opcode = 0x29, .body = {}};
  w.add(prm::EthSeg{});
  for (std::size_t i = 0; i < frames.size(); i++) {
    const std::vector<uint8_t>& f = frames[i];
    const auto bytes = static_cast<uint32_t>(f.size());
    if (every_other_inline && i % 2 == 1) {
      const be32 head{0x80000000u | bytes};
      w.add(head).add_bytes(f.data(), f.size());
      w.body.resize((w.body.size() + 15) / 16 * 16);
      continue;
    }
    uint8_t* at = from.out + i * 64;
    std::copy(f.begin(), f.end(), at);
    w.data(at, bytes, from.mr_out->lkey);
  }
  return w;
}

std::string packets_of_one(Ends& e, uint32_t count, std::size_t payload, bool mixed) {
  RawPort& from = e.from();
  std::vector<std::vector<uint8_t>> frames;
  for (uint32_t i = 0; i < count; i++) {
    frames.push_back(frame_of(e.to.mac, from.mac, payload, static_cast<uint8_t>(i)));
    std::memset(e.to.in + std::size_t{i} * frame_room, 0, 128);
    e.to.q.receive(e.to.in + std::size_t{i} * frame_room, frame_room, e.to.mr_in->lkey);
  }
  if (!from.q.sq.post(multi_packet(from, frames, mixed))) return "longer than a WQE";
  const auto sent = from.q.sent.next(2);
  if (!sent || sent->failed()) return sent ? sent->text() : "no completion";
  for (uint32_t i = 0; i < count; i++) {
    const auto got = e.to.q.received.next(i == 0 ? 2 : 0.5);
    if (!got) return printed("%u of %u arrive", i, count);
    if (!std::equal(frames[i].begin(), frames[i].end(), e.to.in + std::size_t{i} * frame_room))
      return "wrong bytes";
  }
  return "ok";
}

struct Packets {
  const char* name;
  uint32_t count;
  std::size_t payload;
  bool mixed;
};

void ask_multi_packet(const Setting& setting, Answer& answer) {
  static constexpr Packets shapes[] = {
      {"4 packets", 4, 46, false},     {"4 packets, every other in line", 4, 46, true},
      {"59 bytes each", 4, 45, false}, {"60 packets", 60, 46, false},
      {"61 packets", 61, 46, false},
  };
  bool all = true, first = false;
  for (const Packets& p : shapes) {
    Ends e(setting, answer, {.receive = 128});
    const std::string seen = packets_of_one(e, p.count, p.payload, p.mixed);
    answer.fact(p.name, seen);
    all = all && seen == "ok";
    first = first || (p.name == shapes[0].name && seen == "ok");
  }
  answer.verdict(all ? "all arrive" : first ? "some shapes fail" : "refused");
}

constexpr Meaning multi_packet_means[] = {
    {"all arrive", "multi-packet WQEs keep their limits: 61 packets, mixed forms"},
    {"some shapes fail", "the limits of multi-packet WQEs follow the facts"},
    {"refused", "the port sends one packet a WQE: the capability has to say so"},
};

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

constexpr Question rows[] = {
    {"E35", "completions that share entries: lost or doubled frames", needs::raw, Disturbs::nothing,
     30, compression_means, "which frame of a block is wrong",
     "--wire cable:c+fault:drop:0.3 (--peer)", ask_compression},
    {"E41", "many packets in one send WQE", needs::raw, Disturbs::nothing, 20, multi_packet_means,
     "the error of a shape", "--profile no-mpw", ask_multi_packet},
    {"E44", "checksum bits of good and bad frames", needs::raw, Disturbs::nothing, 20,
     checksums_mean, "the bits of drivers/vhca/wq/cqe_writer.cc",
     "cannot fail here: each profile checks sums", ask_checksums},
};

}  // namespace

std::span<const Question> burst_questions() {
  return rows;
}

}  // namespace kilim::exam
