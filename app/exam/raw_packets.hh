// SPDX-License-Identifier: BSD-3-Clause
// Raw packet queues of a question, their flow rules and frames. They need CAP_NET_RAW; a queue that
// is refused ends the child as "not run". Rules are on the question's own queue alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "addresses.hh"
#include "rig.hh"

namespace kilim::exam {

inline constexpr uint16_t exam_ethertype = 0x88b5;  // IEEE 802, local experiments

struct RuleWish {
  enum class Kind : uint8_t { normal, all_default } kind = Kind::normal;
  std::optional<Mac> mac{};  // nothing: each destination
  uint16_t priority = 0;
  bool ethertype = false;  // the question's own frames alone
};

// Ready to send, and to receive what rules bring.
Queue make_raw_queue(const Device& device, const QpWish& wish = {});
// 0, or the errno.
int lay_rule(Queue& q, const RuleWish& wish);
// An Ethernet header and `bytes` more, numbered.
std::vector<uint8_t> frame_of(const Mac& to, const Mac& from, std::size_t bytes, uint8_t number);
// A send WQE with the first 18 bytes of `frame` in line; segments for the rest are the caller's.
Wqe raw_send(const std::vector<uint8_t>& frame);
inline constexpr std::size_t inlined = 18;

inline constexpr uint32_t frame_room = 2048;

// A raw queue that gets its own frames, and memory for them.
struct RawPort {
  Device d;
  Mac mac;
  Queue q;
  uint8_t *out, *in;
  ibv_mr *mr_out, *mr_in;

  RawPort(const Setting& setting, Answer& answer, const QpWish& wish = {});
  // The question's frames to the own address come to this queue; else ends the child.
  void listen(Answer& answer);
  // The whole frame, of which the beginning is in line and the rest in memory.
  [[nodiscard]] Wqe whole(const std::vector<uint8_t>& frame) const;
};

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

}  // namespace kilim::exam
