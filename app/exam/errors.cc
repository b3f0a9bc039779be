// SPDX-License-Identifier: BSD-3-Clause
// E31 to E33: completion entries of errors, byte by byte, and of flushes.
#include <string>

#include "question.hh"
#include "rig.hh"

namespace kilim::exam {
namespace {

constexpr uint32_t bytes_of_region = 8192;

// Short timers: retries that are over end the question's rows, not its patience.
constexpr Timers short_timers{.timeout = 8, .retries = 1, .rnr_retries = 1, .rnr_timer = 1};

struct Bench {
  Device d;
  Loop l;
  uint8_t* at;
  ibv_mr* mr;
  ibv_mr* read_only;

  explicit Bench(const Device& device)
      : d(device),
        l(make_loop(d, {}, short_timers)),
        at(d.pages(bytes_of_region * 2)),
        mr(d.reg(at, bytes_of_region)),
        read_only(d.reg(at, bytes_of_region, 0)) {}
  void post(const Wqe& wqe) { l.a.sq.post(wqe); }
  [[nodiscard]] Wqe write(uint32_t lkey_off, uint32_t rkey_off) const {
    return rdma_write(at, 8, mr->lkey + lkey_off, place(at), mr->rkey + rkey_off);
  }
};

// Another region's key in all likelihood, or none's.
constexpr uint32_t wrong_key = 0x5a5a00;

struct Case {
  const char* name;
  uint8_t syndrome;  // of the PRM
  bool at_responder;
  void (*provoke)(Bench& b);
};

void to_reset(Queue& q) {
  q.modify(IBV_QPS_RESET);
}

constexpr Case cases[] = {
    {"WRITE, lkey unknown", 0x04, false, [](Bench& b) { b.post(b.write(wrong_key, 0)); }},
    {"SEND, segment out of bounds", 0x04, false,
     [](Bench& b) { b.post(send(b.at + bytes_of_region, 8, b.mr->lkey)); }},
    {"WRITE, segment longer than its region", 0x04, false,
     [](Bench& b) {
       b.post(rdma_write(b.at, bytes_of_region + 8, b.mr->lkey, place(b.at), b.mr->rkey));
     }},
    {"READ into memory without local write", 0x04, false,
     [](Bench& b) { b.post(rdma_read(b.at, 8, b.read_only->lkey, place(b.at), b.mr->rkey)); }},
    {"receive, lkey unknown", 0x04, true,
     [](Bench& b) {
       b.l.b.receive(b.at, 8, b.mr->lkey + wrong_key);
       b.post(send(b.at, 8, b.mr->lkey));
     }},
    {"SEND, whose receive fails", 0x14, false,
     [](Bench& b) {
       b.l.b.receive(b.at, 8, b.mr->lkey + wrong_key);
       b.post(send(b.at, 8, b.mr->lkey));
     }},
    {"receive, too small", 0x01, true,
     [](Bench& b) {
       b.l.b.receive(b.at, 4, b.mr->lkey);
       b.post(send(b.at, 64, b.mr->lkey));
     }},
    {"SEND, whose receive is too small", 0x12, false,
     [](Bench& b) {
       b.l.b.receive(b.at, 4, b.mr->lkey);
       b.post(send(b.at, 64, b.mr->lkey));
     }},
    {"WRITE, rkey unknown", 0x13, false, [](Bench& b) { b.post(b.write(0, wrong_key)); }},
    {"READ, rkey unknown", 0x13, false,
     [](Bench& b) { b.post(rdma_read(b.at, 8, b.mr->lkey, place(b.at), b.mr->rkey + wrong_key)); }},
    {"SEND, no receive posted", 0x16, false, [](Bench& b) { b.post(send(b.at, 8, b.mr->lkey)); }},
    {"WRITE, peer queue in RESET", 0x15, false,
     [](Bench& b) {
       to_reset(b.l.b);
       b.post(b.write(0, 0));
     }},
    {"READ, which the peer queue does not allow", 0x12, false,
     [](Bench& b) {
       ibv_qp_attr attr{};
       ibv_modify_qp(b.l.b.qp, &attr, IBV_QP_ACCESS_FLAGS);
       b.post(rdma_read(b.at, 8, b.mr->lkey, place(b.at), b.mr->rkey));
     }},
    {"LOCAL_INV of an unknown key", 0x06, false,
     [](Bench& b) { b.post({.opcode = MLX5_OPCODE_LOCAL_INVAL, .imm = 0x12345600, .body = {}}); }},
    {"flush behind an error", 0x05, false,
     [](Bench& b) {
       b.post(b.write(wrong_key, 0));
       b.l.a.sent.next();
       b.post(b.write(0, 0));
     }},
    {"flush of a receive, queue taken to ERR", 0x05, true,
     [](Bench& b) {
       b.l.b.receive(b.at, 8, b.mr->lkey);
       b.l.b.modify(IBV_QPS_ERR);
     }},
    {"an opcode that no queue has", 0x02, false,
     [](Bench& b) { b.post({.opcode = 0x3f, .body = {}}); }},
};

void ask_errors(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  std::size_t as_prm = 0;
  for (const Case& c : cases) {
    Bench b(d);
    c.provoke(b);
    const auto done = (c.at_responder ? b.l.b.received : b.l.a.sent).next(3);
    const std::string name = c.name;
    if (!done) {
      answer.fact(name, "no completion");
      continue;
    }
    answer.fact(name, done->text() + printed(" opcode 0x%02x solicited %u", done->bytes[56],
                                             done->bytes[63] >> 1 & 1));
    answer.measured(name, hex_of(done->bytes));
    as_prm += done->syndrome() == c.syndrome ? 1 : 0;
  }
  answer.verdict(as_prm == std::size(cases) ? "syndromes of the PRM" : "other syndromes");
}

constexpr Meaning errors_mean[] = {
    {"syndromes of the PRM", "each status of verbs stands as the library's table has it"},
    {"other syndromes", "lib/kilim/prm/syndrome.hh and what recovers from them: see the facts"},
};

struct Mode {
  uint8_t bits;
  const char* expected;
};

constexpr uint32_t batch = 10, failing = 2;

// Ten WRITEs, the third of which fails: which of them complete.
std::string completions_of(Bench& b, uint8_t mode) {
  for (uint32_t i = 0; i < batch; i++) {
    Wqe w = b.write(0, i == failing ? wrong_key : 0);
    w.flags = static_cast<uint8_t>(mode << 2);
    b.l.a.sq.put(w);
  }
  b.l.a.sq.ring();
  std::string seen;
  for (uint32_t i = 0; i < batch; i++) {
    const auto done = b.l.a.sent.next(i == 0 ? 2 : 0.5);
    if (!done) break;
    seen += printed("%s%u:%02x", seen.empty() ? "" : " ", done->index(), done->syndrome());
  }
  return seen;
}

void ask_modes(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  static constexpr Mode modes[] = {
      {0, "2:13 3:05 4:05 5:05 6:05 7:05 8:05 9:05"},
      {1, "2:13"},
      {2, "0:00 1:00 2:13 3:05 4:05 5:05 6:05 7:05 8:05 9:05"},
      {3, "0:00 1:00 2:13 3:05 4:05 5:05 6:05 7:05 8:05 9:05"},
  };
  bool four = true;
  for (const Mode& m : modes) {
    Bench b(d);
    const std::string seen = completions_of(b, m.bits);
    answer.fact(printed("mode %u", m.bits), seen);
    four = four && seen == m.expected;
  }
  answer.verdict(four ? "four modes" : "other completions");
}

constexpr Meaning modes_mean[] = {
    {"four modes", "unsignalled requests are told apart as the library counts them"},
    {"other completions", "how many entries a batch may leave is counted otherwise (queue/)"},
};

// Eight WRITEs behind an error or behind ERR: how many flushes, and their vendor byte.
std::string flushes_of(Bench& b, bool signalled, bool by_software) {
  if (by_software) {
    b.l.a.modify(IBV_QPS_ERR);
  } else {
    b.post(b.write(wrong_key, 0));
    b.l.a.sent.next();
  }
  for (uint32_t i = 0; i < 8; i++) {
    Wqe w = b.write(0, 0);
    b.l.a.sq.put(signalled ? w : w.silent());
  }
  b.l.a.sq.ring();
  uint32_t count = 0;
  std::string vendors;
  while (const auto done = b.l.a.sent.next(count == 0 ? 2 : 0.5)) {
    count++;
    const std::string vendor = printed(" %02x/%02x", done->syndrome(), done->vendor());
    if (!vendors.ends_with(vendor)) vendors += vendor;
  }
  return printed("%u,", count) + vendors;
}

void ask_flushes(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  bool all = true;
  for (const bool by_software : {false, true}) {
    for (const bool signalled : {true, false}) {
      Bench b(d);
      const std::string seen = flushes_of(b, signalled, by_software);
      answer.fact(std::string(by_software ? "queue taken to ERR" : "behind an error") +
                      (signalled ? "" : ", unsignalled"),
                  seen);
      all = all && seen.starts_with("8,");
    }
  }
  answer.verdict(all ? "each is flushed" : "some are not told");
}

constexpr Meaning flushes_mean[] = {
    {"each is flushed", "a queue in error is drained by counting its entries"},
    {"some are not told", "a queue in error is not drained by counting: reset it behind a wait"},
};

constexpr Question rows[] = {
    {"E32", "the completion entry of each error there is", 0, Disturbs::nothing, 60, errors_mean,
     "drivers/vhca/wq/cqe_writer.cc: vendor and hardware bytes of what differs", "--fault wqe@1+1",
     ask_errors},
    {"E31", "which of ten requests complete, by completion mode", 0, Disturbs::nothing, 30,
     modes_mean, "the four modes of drivers/vhca/wq", "--fault wqe@2", ask_modes},
    {"E33", "flushes behind an error and behind ERR", 0, Disturbs::nothing, 30, flushes_mean,
     "the vendor byte of drivers/vhca/wq/cqe_writer.cc",
     "cannot fail here: a queue in error flushes each request", ask_flushes},
};

}  // namespace

std::span<const Question> error_questions() {
  return rows;
}

}  // namespace kilim::exam
