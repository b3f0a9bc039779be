// SPDX-License-Identifier: BSD-3-Clause
// E35, E41: completions that share entries, sends of many packets. Frames come from the port
// itself, or from --peer.
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

constexpr Question rows[] = {
    {"E35", "completions that share entries: lost or doubled frames", needs::raw, Disturbs::nothing,
     30, compression_means, "which frame of a block is wrong",
     "--wire cable:c+fault:drop:0.3 (--peer)", ask_compression},
    {"E41", "many packets in one send WQE", needs::raw, Disturbs::nothing, 20, multi_packet_means,
     "the error of a shape", "--profile no-mpw", ask_multi_packet},
};

}  // namespace

std::span<const Question> burst_questions() {
  return rows;
}

}  // namespace kilim::exam
