// SPDX-License-Identifier: BSD-3-Clause
#include "perf/two_sided/traffic.hh"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "perf/two_sided/content.hh"

namespace kilim::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto patience = std::chrono::seconds{30};  // for the next completion
constexpr uint32_t looks_a_clock = 64;
constexpr uint32_t most_unsignalled = 64;
// Bytes without a completion: patience is for the next completion, not for half a gigabyte.
constexpr uint64_t most_unheard = 4 << 20;

// The source and the target of the messages of a queue.
struct Places {
  const Slots& slots;
  uint32_t queue;
  uint64_t own;
  Lkey own_key;
  queue::Remote target;
};

template <Work W>
bool append(queue::WqeCursor& c, const Places& p, uint64_t number, uint32_t bytes,
            uint8_t flags) noexcept {
  const uint64_t at = p.slots.count == 1 ? p.slots.at(p.queue, 0) : p.slots.at(p.queue, number);
  const uint64_t own = p.own + at;
  queue::Remote to = p.target;
  const queue::Wr wr{.id = number, .flags = flags};
  if constexpr (W == Work::atomic) {
    to.address += p.slots.at(p.queue, 0);
    return queue::fetch_and_add(
        c, {.target = to, .result_address = own, .result_key = p.own_key, .swap_or_add = 1}, wr);
  }
  to.address += at;
  if constexpr (W == Work::send) return queue::send(c, queue::Sge{own, bytes, p.own_key}, wr);
  if constexpr (W == Work::read)
    return queue::rdma_read(c, to, queue::Sge{own, bytes, p.own_key}, wr);
  return queue::rdma_write(c, to, queue::Sge{own, bytes, p.own_key}, wr);
}

class Round {
 public:
  Round(Side& side, const queue::Remote& target, const RoundPlan& plan)
      : side_(side), plan_(plan), target_(target), depth_(side.agreement().depth) {
    const uint64_t most = std::min<uint64_t>(depth_ / 2, most_unheard / plan.bytes);
    unsignalled_ = std::clamp<uint64_t>(most, 1, most_unsignalled);
  }

  template <Work W>
  RoundEnd run() {
    start_ = window_start_ = last_done_ = Clock::now();
    end_ = start_ + std::chrono::seconds{plan_.seconds};
    for (uint32_t look = 0; !finished() && side_.failure().empty(); look++) {
      for (uint32_t q = 0; q < side_.lanes().size(); q++) post<W>(q);
      side_.serve();
      for (uint32_t q = 0; q < side_.lanes().size(); q++) poll(q);
      if (plan_.seconds != 0 || look % looks_a_clock == 0) check_clock();
    }
    return summary();
  }

 private:
  // When the time is over, unsignalled messages are followed by a signalled one, so that their end
  // is heard of.
  [[nodiscard]] uint64_t allowed(const Lane& l) const noexcept {
    const uint64_t room = depth_ - (l.posted - l.done);
    if (over_) return std::min<uint64_t>(room, l.posted != l.signalled ? 1 : 0);
    if (plan_.seconds != 0) return std::min<uint64_t>(room, plan_.list);
    return std::min({room, uint64_t{plan_.list}, plan_.messages - l.posted});
  }

  template <Work W>
  void post(uint32_t q) {
    Lane& l = *side_.lanes()[q];
    const uint64_t n = allowed(l);
    if (n == 0) return;
    const Places places{side_.slots(), q, side_.own_address(), side_.region().lkey, target_};
    queue::WqeCursor cursor{l.sq()};
    const uint64_t until = l.posted + n;
    for (; l.posted != until; l.posted++) {
      if (side_.agreement().check) prepare<W>(q, l.posted);
      const bool asks = l.posted + 1 - l.signalled >= unsignalled_;
      const uint8_t flags = asks ? queue::WrFlags::signalled : queue::WrFlags::none;
      if (!append<W>(cursor, places, l.posted, plan_.bytes, flags)) break;
      if (asks) l.signalled = l.posted + 1;
    }
    if (over_ || l.posted == plan_.messages) {
      cursor.signal_last();
      l.signalled = l.posted;
    }
    cursor.commit();
  }

  // Under --check: what message `number` holds, or where its answer comes to.
  template <Work W>
  void prepare(uint32_t q, uint64_t number) noexcept {
    const auto own = side_.own(side_.slots().at(q, number), plan_.bytes);
    if constexpr (W == Work::read || W == Work::atomic)
      std::memset(own.data(), 0xee, own.size());
    else
      stamp_message(own, number);
  }

  void poll(uint32_t q) {
    Lane& l = *side_.lanes()[q];
    queue::Completion seen[32];
    const uint32_t n = l.send_cq().poll(seen, l.sq());
    if (n == 0) return;
    for (uint32_t i = 0; i < n; i++)
      if (!seen[i].ok()) return side_.fail_by(seen[i]);
    const uint64_t until = seen[n - 1].wr_id + 1;
    if (side_.agreement().check)
      for (uint64_t m = l.done; m != until; m++) check_answer(q, m);
    done_ += until - l.done;
    l.done = until;
    progressed_ = true;
  }

  void check_answer(uint32_t q, uint64_t number) {
    const Work work = side_.agreement().work;
    const auto own = side_.own(side_.slots().at(q, number), plan_.bytes);
    bool good = true;
    if (work == Work::read) good = is_message(own, q, number % side_.slots().count);
    if (work == Work::atomic) good = std::memcmp(own.data(), &number, sizeof number) == 0;
    if (!good)
      side_.fail("answer " + std::to_string(number) + " of queue " + std::to_string(q) +
                 " is not what the peer has");
  }

  [[nodiscard]] bool finished() const noexcept {
    const auto& lanes = side_.lanes();
    return std::all_of(lanes.begin(), lanes.end(), [this](const auto& l) {
      return l->done == l->posted && (over_ || (plan_.seconds == 0 && l->done == plan_.messages));
    });
  }

  // The best sixteenth, or tenth of a second, is the peak.
  void check_clock() {
    const Clock::time_point now = Clock::now();
    const std::chrono::duration<double> window = now - window_start_;
    over_ = plan_.seconds != 0 && now >= end_;
    if (progressed_) last_done_ = now;
    progressed_ = false;
    if (now - last_done_ > patience) side_.fail("no request has completed for 30 seconds");
    const uint64_t sixteenth = plan_.messages * side_.lanes().size() / 16;
    const bool full = plan_.seconds == 0 ? done_ - window_done_ > sixteenth : window.count() > 0.1;
    if (!full || window.count() <= 0) return;
    peak_ = std::max(peak_, static_cast<double>(done_ - window_done_) / window.count());
    window_start_ = now;
    window_done_ = done_;
  }

  RoundEnd summary() const {
    const std::chrono::duration<double, std::nano> spent = Clock::now() - start_;
    const double average = static_cast<double>(done_) * 1e9 / spent.count();
    RoundEnd e;
    e.nanoseconds = static_cast<uint64_t>(spent.count());
    e.peak = static_cast<uint64_t>(std::max(peak_, average) * plan_.bytes);
    for (const auto& l : side_.lanes()) e.messages.push_back(l->done);
    return e;
  }

  Side& side_;
  const RoundPlan& plan_;
  queue::Remote target_;
  uint32_t depth_;
  uint64_t unsignalled_;  // messages, the last of which asks for a completion
  Clock::time_point start_, end_, window_start_, last_done_;
  uint64_t done_ = 0, window_done_ = 0;
  double peak_ = 0;  // messages a second
  bool over_ = false, progressed_ = false;
};

}  // namespace

RoundEnd run_round(Side& side, const queue::Remote& target, const RoundPlan& plan) {
  Round round(side, target, plan);
  switch (side.agreement().work) {
    case Work::read:
      return round.run<Work::read>();
    case Work::send:
      return round.run<Work::send>();
    case Work::atomic:
      return round.run<Work::atomic>();
    default:
      return round.run<Work::write>();
  }
}

}  // namespace kilim::perf
