// SPDX-License-Identifier: BSD-3-Clause
// E1, E2, E37, E38, E45: raw packet queues with frames to the port's own address, which the device
// turns round. With --peer frames come from the second device.
#include <algorithm>
#include <cstring>
#include <string>

#include "question.hh"
#include "raw_packets.hh"
#include "umr.hh"

namespace kilim::exam {
namespace {

constexpr uint32_t piece = 64;

// Two pieces behind each other in memory as one key; ends the child where that fails.
mlx5dv_mkey* gathered(RawPort& p, const std::array<uint8_t*, 2>& at, uint32_t bytes, uint32_t lkey,
                      Answer& answer) {
  mlx5dv_mkey* key = make_key(p.d, 4);
  Loop l = make_loop(p.d);
  const Completion c =
      l.a.run(umr(covering(p.d, key, {klm(at[0], bytes, lkey), klm(at[1], bytes, lkey)})), answer);
  if (c.failed()) answer.not_run("a key of two pieces is not bound: " + c.text());
  return key;
}

void ask_send_key(const Setting& setting, Answer& answer) {
  RawPort p(setting, answer);
  p.listen(answer);
  const auto frame = frame_of(p.mac, p.mac, 2 * piece + 4, 7);
  uint8_t* second = p.out + 1024;
  std::copy_n(frame.begin() + inlined, piece, p.out);
  std::copy_n(frame.begin() + inlined + piece, piece, second);
  const mlx5dv_mkey* key = gathered(p, {p.out, second}, piece, p.mr_out->lkey, answer);
  p.q.receive(p.in, frame_room, p.mr_in->lkey);
  const Wqe wqe = raw_send(frame).data(uint64_t{0}, 2 * piece, key->lkey);
  answer.measured("WQE behind its control segment", hex_of(wqe.body));
  const Completion c = p.q.run(wqe, answer);
  answer.fact("completion", c.text());
  if (c.failed()) return answer.verdict("refused");
  if (!p.q.received.next(2)) return answer.verdict("lost");
  answer.verdict(std::equal(frame.begin(), frame.end(), p.in) ? "whole" : "wrong bytes");
}

constexpr Meaning send_key_means[] = {
    {"whole", "gathered transmit stays as it is: a packet's segment may name an indirect key"},
    {"refused",
     "gathered transmit is gated by a capability, with a copy instead; the device refuses it too"},
    {"lost", "gathered transmit is off: the card takes the request and sends nothing"},
    {"wrong bytes", "gathered transmit is off: the card reads such a key otherwise"},
};

void ask_receive_key(const Setting& setting, Answer& answer) {
  RawPort p(setting, answer);
  p.listen(answer);
  const auto frame = frame_of(p.mac, p.mac, 1400, 3);
  uint8_t* second = p.in + 8192;
  const mlx5dv_mkey* key = gathered(p, {p.in, second}, 1024, p.mr_in->lkey, answer);
  p.q.receive(nullptr, 2048, key->lkey);
  const Completion sent = p.q.run(p.whole(frame), answer);
  if (sent.failed()) answer.not_run("a frame is not sent: " + sent.text());
  const auto got = p.q.received.next(2);
  if (!got) return answer.verdict("lost");
  answer.fact("completion", got->text());
  if (got->failed()) return answer.verdict("refused");
  const bool same = std::equal(frame.begin(), frame.begin() + 1024, p.in) &&
                    std::equal(frame.begin() + 1024, frame.end(), second);
  answer.verdict(same ? "scattered" : "wrong bytes");
}

constexpr Meaning receive_key_means[] = {
    {"scattered", "receive buffers may be named by indirect keys"},
    {"refused", "set_rx() refuses indirect keys"},
    {"lost", "set_rx() refuses indirect keys"},
    {"wrong bytes", "set_rx() refuses indirect keys"},
};

struct Destination {
  const char* name;
  Mac mac;
};

// Which of four frames a queue with this rule gets.
std::string heard_by(RawPort& p, Queue& from, const RuleWish& rule, const Destination (&to)[4]) {
  Queue q = make_raw_queue(p.d);
  for (std::size_t i = 0; i < 8; i++) q.receive(p.in + i * frame_room, frame_room, p.mr_in->lkey);
  if (const int rc = lay_rule(q, rule); rc != 0) return "refused: " + errno_name(rc);
  for (const Destination& d : to) {
    from.sq.post(p.whole(frame_of(d.mac, p.mac, 100, 1)));
    if (!from.sent.next(2)) break;
  }
  bool heard[4] = {};
  for (std::size_t i = 0; i < 8; i++) {
    if (!q.received.next(i == 0 ? 0.5 : 0.2)) break;
    const uint8_t* frame = p.in + i * frame_room;
    if (frame[12] != exam_ethertype >> 8 || frame[13] != (exam_ethertype & 0xff)) continue;
    for (std::size_t k = 0; k < 4; k++)
      if (std::memcmp(frame, to[k].mac.data(), 6) == 0) heard[k] = true;
  }
  q.destroy();
  std::string all;
  for (std::size_t k = 0; k < 4; k++)
    if (heard[k]) all += (all.empty() ? "" : ", ") + std::string(to[k].name);
  return all.empty() ? "nothing" : all;
}

void ask_rules(const Setting& setting, Answer& answer) {
  RawPort p(setting, answer);
  const Destination to[4] = {{"own address", p.mac},
                             {"broadcast", {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
                             {"group", {0x01, 0x00, 0x5e, 0x7f, 0x12, 0x34}},
                             {"other address", {0x02, 0x5e, 0x7f, 0x12, 0x34, 0x56}}};
  RawPort sender = setting.peer.empty() ? p : RawPort({setting.peer, "", 1}, answer);
  if (!setting.peer.empty()) p.out = sender.out, p.mr_out = sender.mr_out;
  const std::string by_default = heard_by(p, sender.q, {.kind = RuleWish::Kind::all_default}, to);
  answer.fact("ALL_DEFAULT", by_default);
  answer.fact("NORMAL, empty Ethernet spec", heard_by(p, sender.q, {}, to));
  answer.fact("NORMAL, own address", heard_by(p, sender.q, {.mac = p.mac}, to));
  answer.verdict(by_default.starts_with("own address") ? "default rules get it"
                                                       : "default rules do not get it");
}

constexpr Meaning rules_mean[] = {
    {"default rules get it",
     "no network interface stands before ALL_DEFAULT here: NORMAL rules stay all the same"},
    {"default rules do not get it",
     "as Linux's leftovers tables say: a port lays NORMAL rules always"},
};

// Two queues with a rule each; which of them gets the port's own frame.
const char* winner(RawPort& p, const RuleWish& one, const RuleWish& other, Answer& answer) {
  Queue a = make_raw_queue(p.d), b = make_raw_queue(p.d);
  a.receive(p.in, frame_room, p.mr_in->lkey);
  b.receive(p.in + frame_room, frame_room, p.mr_in->lkey);
  if (lay_rule(b, other) != 0 || lay_rule(a, one) != 0) return "a rule is refused";
  const Completion sent = p.q.run(p.whole(frame_of(p.mac, p.mac, 100, 1)), answer);
  if (sent.failed()) answer.not_run("a frame is not sent: " + sent.text());
  const bool first = a.received.next(0.5).has_value(), second = b.received.next(0.2).has_value();
  a.destroy();
  b.destroy();
  if (first && second) return "both";
  return first ? "first" : second ? "second" : "neither";
}

void ask_order_of_rules(const Setting& setting, Answer& answer) {
  RawPort p(setting, answer);
  const std::string lower = winner(p, {.mac = p.mac, .priority = 0},
                                   {.mac = p.mac, .priority = 1, .ethertype = true}, answer);
  answer.fact("priority 0 by address / priority 1 by address and type", lower);
  answer.fact("one priority, by address and type / by address",
              winner(p, {.mac = p.mac, .ethertype = true}, {.mac = p.mac}, answer));
  answer.fact("one priority, the same rule, laid last / first",
              winner(p, {.mac = p.mac}, {.mac = p.mac}, answer));
  answer.verdict(lower == "first" ? "the lower number" : "another order");
}

constexpr Meaning order_of_rules_means[] = {
    {"the lower number", "places of rules stay as the port lays them"},
    {"another order", "lib/kilim/detail/flow: places are counted otherwise"},
};

const char* state_of(Queue& q) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  if (ibv_query_qp(q.qp, &attr, IBV_QP_STATE, &init) != 0) return "unknown";
  static constexpr const char* names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return attr.qp_state <= IBV_QPS_ERR ? names[attr.qp_state] : "unknown";
}

// ERR, RESET, INIT, RTR, RTS; false: one of them is refused.
bool recover(RawPort& p, Queue& q, Answer& answer, const char* what) {
  bool all = true;
  std::string steps;
  const auto step = [&](const char* name, int rc) {
    all = all && rc == 0;
    steps += std::string(steps.empty() ? "" : ", ") + name + " " + errno_name(rc);
  };
  step("ERR", q.modify(IBV_QPS_ERR));
  step("RESET", q.modify(IBV_QPS_RESET));
  step("INIT to RTS", connect(p.d, q, {p.d}));
  q.sq.reset();
  answer.fact(what, steps);
  return all;
}

// A frame to oneself: true, it arrives whole.
bool arrives(RawPort& p, uint8_t number) {
  const auto frame = frame_of(p.mac, p.mac, 200, number);
  p.q.receive(p.in, frame_room, p.mr_in->lkey);
  p.q.sq.post(p.whole(frame));
  const auto sent = p.q.sent.next(2);
  if (!sent || sent->failed()) return false;
  const auto got = p.q.received.next(1);
  return got && !got->failed() && std::equal(frame.begin(), frame.end(), p.in);
}

void ask_recovery(const Setting& setting, Answer& answer) {
  RawPort p(setting, answer);
  p.listen(answer);
  p.q.receive(p.in, 64, p.mr_in->lkey);
  p.q.run(p.whole(frame_of(p.mac, p.mac, 1000, 1)), answer);
  const auto small = p.q.received.next(1);
  answer.fact("receive too small", small ? small->text() : "no completion");
  answer.fact("then the queue is", state_of(p.q));
  answer.fact("then the next frame", arrives(p, 2) ? "arrives" : "does not arrive");
  if (!recover(p, p.q, answer, "recovery of receiving")) return answer.verdict("a step is refused");
  auto frame = frame_of(p.mac, p.mac, 200, 3);
  const Completion bad =
      p.q.run(raw_send(frame).data(p.out, 100, p.mr_out->lkey + 0x5a5a00), answer);
  answer.fact("send with an unknown lkey", bad.text());
  answer.fact("then the sending queue is", state_of(p.q));
  if (!recover(p, p.q, answer, "recovery of sending")) return answer.verdict("a step is refused");
  answer.verdict(arrives(p, 4) ? "recovers" : "dead afterwards");
}

constexpr Meaning recovery_means[] = {
    {"recovers", "the order ERR, RESET, INIT, RTR, RTS stays"},
    {"a step is refused", "the move to ERR is left out, as DPDK's driver does: see which step"},
    {"dead afterwards", "a queue with an error is destroyed and made again"},
};

constexpr Question rows[] = {
    {"E37", "who gets which frames: default rule, empty rule, rule of the own address", needs::raw,
     Disturbs::nothing, 20, rules_mean, "the order of tables in drivers/vhca/ethernet",
     "--netdev (root)", ask_rules},
    {"E1", "a packet's data segment names an indirect key", needs::raw, Disturbs::nothing, 10,
     send_key_means, "the error of such a request", "--fault wqe@2", ask_send_key},
    {"E2", "a receive's data segment names an indirect key", needs::raw, Disturbs::nothing, 10,
     receive_key_means, "the error of such a receive",
     "cannot fail here: the device reads whatever a key describes", ask_receive_key},
    {"E45", "recovery of a raw queue behind an error, step by step", needs::raw, Disturbs::nothing,
     20, recovery_means,
     "the order of drivers/mlx5/qp_state.cc, and what the device does with errors", "--fault wqe@4",
     ask_recovery},
    {"E38", "which of two rules comes first", needs::raw, Disturbs::nothing, 10,
     order_of_rules_means, "the places of rules in lib/kilim/detail/flow and drivers/vhca/ethernet",
     "cannot fail here: each profile orders rules alike", ask_order_of_rules},
};

}  // namespace

std::span<const Question> packet_questions() {
  return rows;
}

}  // namespace kilim::exam
