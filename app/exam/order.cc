// SPDX-License-Identifier: BSD-3-Clause
// E15 to E19: what a missing or a small fence lets happen, and UMRs that never complete.
#include <algorithm>
#include <cstring>
#include <ctime>
#include <string>

#include "question.hh"
#include "umr.hh"

namespace kilim::exam {
namespace {

constexpr uint8_t no_fence = 0, small_fence = 1, strong_fence = 3;
constexpr std::size_t read_bytes = std::size_t{64} << 10;

// Two source buffers of different bytes, a destination, a key that is bound to one of them.
struct Rebinding {
  Device d;
  Loop l;
  std::size_t bytes;
  uint8_t *first, *second, *third;
  ibv_mr *mr_first, *mr_second, *mr_third;
  mlx5dv_mkey* key;

  Rebinding(const Setting& setting, Answer& answer, std::size_t size, const Timers& timers = {})
      : d(open_device(setting, answer)),
        l(make_loop(d, {}, timers)),
        bytes(size),
        first(d.pages(size)),
        second(d.pages(size)),
        third(d.pages(size)),
        mr_first(d.reg(first, size)),
        mr_second(d.reg(second, size)),
        mr_third(d.reg(third, size)),
        key(make_key(d, 4)) {
    std::memset(first, 'A', size);
    std::memset(second, 'B', size);
  }
  [[nodiscard]] Wqe bind(bool to_second) const {
    const auto n = static_cast<uint32_t>(bytes);
    return umr(covering(
        d, key, {to_second ? klm(second, n, mr_second->lkey) : klm(first, n, mr_first->lkey)}));
  }
  // Ends the child where the key cannot be bound at all.
  void bind_first(Answer& answer) {
    const Completion c = l.a.run(bind(false), answer);
    if (c.failed()) answer.not_run("a key is not bound: " + c.text());
  }
  [[nodiscard]] Wqe gather() const {
    return rdma_write(nullptr, static_cast<uint32_t>(bytes), key->lkey, place(third),
                      mr_third->rkey);
  }
  [[nodiscard]] bool third_is(char c) const {
    return std::all_of(third, third + bytes,
                       [c](uint8_t b) { return b == static_cast<uint8_t>(c); });
  }
};

// E15, E18: `umrs` key changes, then a WRITE through the key with this fence; how often the data
// were not those of the last one.
struct Race {
  uint32_t rounds = 0, wrong = 0;
  std::string error;
};

Race race(Rebinding& r, uint32_t rounds, uint32_t umrs, uint8_t fence, Answer& answer) {
  Race out;
  bool to_second = false;
  for (; out.rounds < rounds; out.rounds++) {
    for (uint32_t i = 0; i < umrs; i++) {
      to_second = !to_second;
      r.l.a.sq.put(r.bind(to_second).silent());
    }
    const Completion c = r.l.a.run(r.gather().fenced(fence), answer);
    if (c.failed()) {
      out.error = c.text();
      return out;
    }
    if (!r.third_is(to_second ? 'B' : 'A')) out.wrong++;
  }
  return out;
}

void ask_unfenced(const Setting& setting, Answer& answer) {
  Rebinding r(setting, answer, 64);
  r.bind_first(answer);
  const Race out = race(r, 200 * setting.effort, 1, no_fence, answer);
  answer.measured("rounds", printed("%u", out.rounds));
  answer.measured("wrong", printed("%u", out.wrong));
  if (!out.error.empty()) answer.fact("error", out.error);
  answer.verdict(!out.error.empty() ? "an error" : out.wrong != 0 ? "wrong data" : "never wrong");
}

constexpr Meaning unfenced_means[] = {
    {"wrong data", "the fence behind a UMR stays, and is proven to be needed"},
    {"never wrong",
     "the fence stays: documents ask for it, and a race that is not seen is no promise"},
    {"an error", "the fence stays: without it the key is not usable yet"},
};

void ask_two_umrs(const Setting& setting, Answer& answer) {
  Rebinding r(setting, answer, 64);
  r.bind_first(answer);
  const Race out = race(r, 100 * setting.effort, 3, small_fence, answer);
  answer.measured("rounds", printed("%u", out.rounds));
  answer.measured("wrong", printed("%u", out.wrong));
  if (!out.error.empty()) answer.fact("error", out.error);
  answer.verdict(!out.error.empty() ? "an error"
                 : out.wrong != 0   ? "not the last"
                                    : "the last wins");
}

constexpr Meaning two_umrs_mean[] = {
    {"the last wins", "chains of UMRs of one key may go without fences between them"},
    {"not the last", "a fence between two UMRs of one key stays"},
    {"an error", "a UMR of a key that is being changed fails: a fence between stays"},
};

// A READ into the key, whose answer is under way while the key is bound elsewhere.
std::string read_and_rebind(Rebinding& r, uint8_t fence, Answer& answer) {
  const Completion bound = r.l.a.run(r.bind(false).fenced(strong_fence), answer);
  if (bound.failed()) return bound.text();
  std::memset(r.first, 'A', r.bytes);
  std::memset(r.second, 'B', r.bytes);
  std::memset(r.third, 'C', r.bytes);
  Wqe read = rdma_read(nullptr, static_cast<uint32_t>(r.bytes), r.key->lkey, place(r.third),
                       r.mr_third->rkey);
  r.l.a.sq.put(read);
  r.l.a.sq.put(r.bind(true).fenced(fence));
  r.l.a.sq.ring();
  for (int i = 0; i < 2; i++) {
    const auto done = r.l.a.sent.next();
    if (!done) return "no completion";
    if (done->failed()) return done->text();
  }
  const bool kept = std::all_of(r.second, r.second + r.bytes, [](uint8_t b) { return b == 'B'; });
  return kept ? "first" : "second";
}

void ask_read_in_flight(const Setting& setting, Answer& answer) {
  Rebinding r(setting, answer, read_bytes);
  bool small_is_wrong = false, strong_is_wrong = false;
  std::string error;
  for (uint32_t i = 0; i < 20 * setting.effort && error.empty(); i++) {
    for (const uint8_t fence : {small_fence, strong_fence}) {
      const std::string where = read_and_rebind(r, fence, answer);
      if (where == "second") (fence == small_fence ? small_is_wrong : strong_is_wrong) = true;
      if (where != "first" && where != "second") {
        error = where;
        break;
      }
    }
  }
  if (!error.empty()) answer.fact("error", error);
  answer.fact("behind a strong fence", strong_is_wrong ? "in the second buffer" : "in the first");
  answer.verdict(!error.empty()   ? "an error"
                 : small_is_wrong ? "small lands wrong"
                                  : "small suffices");
}

constexpr Meaning read_means[] = {
    {"small lands wrong", "the strong fence before a rebind with READs in flight stays"},
    {"small suffices",
     "not seen to be needed; the strong fence stays until a peer that is slow is tried"},
    {"an error", "a READ whose key changes under it fails: the strong fence stays"},
};

// A SEND that has to be sent again, since its receive comes late, while its key is bound elsewhere.
void ask_resent(const Setting& setting, Answer& answer) {
  // rnr_timer 16: 2.56 ms; rnr_retries 7: without an end (IBTA, RNR NAK timer field).
  Rebinding r(setting, answer, 1024, {.rnr_retries = 7, .rnr_timer = 16});
  r.bind_first(answer);
  r.l.a.sq.put(send(nullptr, static_cast<uint32_t>(r.bytes), r.key->lkey));
  r.l.a.sq.put(r.bind(true).fenced(small_fence));
  r.l.a.sq.ring();
  const timespec pause{0, 1000000};
  ::nanosleep(&pause, nullptr);
  r.l.b.receive(r.third, static_cast<uint32_t>(r.bytes), r.mr_third->lkey);
  const auto sent = r.l.a.sent.next(), received = r.l.b.received.next();
  if (!sent || !received) return answer.verdict("nothing arrives");
  answer.fact("the SEND", sent->text());
  answer.verdict(sent->failed() ? "an error" : r.third_is('A') ? "old data" : "new data");
}

constexpr Meaning resent_means[] = {
    {"new data", "a strong fence before a rebind is needed behind SENDs and WRITEs too"},
    {"old data", "note: the second transmission read the first buffer, or the key waited"},
    {"nothing arrives", "a SEND whose key changes is lost: a strong fence is needed"},
    {"an error", "a SEND whose key changes fails: a strong fence is needed"},
};

struct Column {
  uint8_t hops;
  uint8_t gid_index;
};

struct Tries {
  uint32_t complete = 0;
  double longest = 0;
  std::string end = "all complete";
};

Tries try_umrs(const Device& d, Queue& q, uint32_t count) {
  Tries t;
  mlx5dv_mkey* key = make_key(d, 4);
  uint8_t* at = d.pages(4096);
  ibv_mr* mr = d.reg(at, 4096);
  for (; t.complete < count; t.complete++) {
    const double start = seconds_now();
    q.sq.post(umr(covering(d, key, {klm(at, 64, mr->lkey)})));
    const auto done = q.sent.next(2);
    t.longest = std::max(t.longest, seconds_now() - start);
    if (done && !done->failed()) continue;
    t.end = done ? "an error: " + done->text() : "never completes";
    break;
  }
  return t;
}

void ask_loopback(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  std::vector<Column> columns;
  for (const uint8_t hops : {uint8_t{64}, uint8_t{1}, uint8_t{0}})
    for (uint8_t gid = 0; gid < 4; gid++) {
      ibv_gid_entry entry{};
      if (ibv_query_gid_ex(d.context, 1, gid, &entry, 0) == 0) columns.push_back({hops, gid});
    }
  bool hangs = false, fails = false;
  for (const Column& c : columns) {
    Queue q = make_queue(d, {});
    Device own = d;
    ibv_query_gid(d.context, 1, c.gid_index, &own.gid);
    const int rc = connect(own, q, {own, q.qp->qp_num, {}, c.gid_index, c.hops});
    const std::string name = printed("hop limit %u, gid %u", c.hops, c.gid_index);
    if (rc != 0) {
      answer.fact(name, "not connected: " + errno_name(rc));
      continue;
    }
    const Tries t = try_umrs(d, q, 100 * setting.effort);
    answer.fact(name, t.end);
    answer.measured(name, printed("%u complete, longest %.1f us", t.complete, t.longest * 1e6));
    hangs = hangs || t.end == "never completes";
    fails = fails || t.end.starts_with("an error");
  }
  answer.verdict(hangs ? "some never complete" : fails ? "an error" : "all complete");
}

constexpr Meaning loopback_means[] = {
    {"all complete", "the loopback pair of UMR queues stays as it is"},
    {"some never complete", "the columns that hang are forbidden in drivers/mlx5/qp_state.cc"},
    {"an error", "the columns that fail are forbidden in drivers/mlx5/qp_state.cc"},
};

constexpr Question rows[] = {
    {"E15", "a WRITE behind a UMR without a fence", 0, Disturbs::nothing, 20, unfenced_means,
     "which error a key gives that is not bound yet", "--order late-umr", ask_unfenced},
    {"E16", "a rebind while a READ is in flight: small against strong fence", 0, Disturbs::nothing,
     20, read_means, "whether even a strong fence lets a READ land elsewhere", "--order late-read",
     ask_read_in_flight},
    {"E17", "a rebind while a SEND may be sent again", 0, Disturbs::nothing, 20, resent_means,
     "which error the SEND gets", "--order resend", ask_resent},
    {"E18", "three UMRs of one key in a row, without fences", 0, Disturbs::nothing, 20,
     two_umrs_mean, "which error it is", "--fault wqe@3", ask_two_umrs},
    {"E19", "UMRs on a loopback queue, by hop limit and GID", 0, Disturbs::nothing, 30,
     loopback_means, "which hop limits and GIDs a loopback pair may have", "--fault wqe@100",
     ask_loopback},
};

}  // namespace

std::span<const Question> order_questions() {
  return rows;
}

}  // namespace kilim::exam
