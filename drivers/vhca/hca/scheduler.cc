// SPDX-License-Identifier: BSD-3-Clause
// The engine's turn: doorbells, timers, ready queues, queues in error, wires. Adapter's lock held.
#include "vhca/hca/scheduler.hh"

#include <algorithm>

#include <time.h>

#include "vhca/core/journal.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/exec/send_queue.hh"
#include "vhca/hca/connections.hh"
#include "vhca/hca/doorbells.hh"
#include "vhca/hca/fatal.hh"
#include "vhca/hca/ports.hh"
#include "vhca/transport/rendezvous.hh"
#include "vhca/transport/roce_port.hh"
#include "vhca/wq/compression.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::hca {

namespace {

// A queue's share before the next one gets its turn, where there is one.
constexpr std::size_t slice = 16;
// How often queues in ERR are looked at while the engine sleeps: receive WQEs ring no doorbell.
constexpr uint64_t error_look_ns = 10'000'000;

void check_timers(Hca& h) noexcept {
  for (std::size_t i = 0; i < h.waiting.size();) {
    wq::Qp& qp = *h.waiting[i];
    if (qp.wait != wq::SqWait::none && qp.retry_at_ns > h.context.now_ns) {
      i++;
      continue;
    }
    h.waiting[i] = h.waiting.back();
    h.waiting.pop_back();
    if (qp.wait != wq::SqWait::none) h.ready.push(qp);
    qp.wait = wq::SqWait::none;
  }
}

// Software writes steering entries by requests of a queue pair of its own. Those that were posted
// before a frame was are executed before it leaves: doorbells of other pages may not have been seen
// yet, and a card takes no longer for them than for the frame.
std::size_t write_entries_first(Hca& h) noexcept {
  constexpr int most_slices = 64;
  check_all_doorbells(h);
  std::size_t done = 0;
  for (int i = 0; i < most_slices; i++) {
    wq::Qp* qp = h.ready.front();
    while (qp != nullptr && qp->type == QpType::raw_packet) qp = wq::ReadyList::after(*qp);
    if (qp == nullptr) break;
    h.ready.remove(*qp);
    done += exec::run_send_queue(h, *qp, slice);
    const bool more = qp->rc ? transport::roce_may_send(*qp)
                             : qp->state == QpState::rts && transport::has_requests(*qp);
    if (more && qp->wait == wq::SqWait::none) h.ready.push(*qp);
  }
  return done;
}

std::size_t run_ready(Hca& h, std::size_t budget) noexcept {
  std::size_t done = 0, written = 0;
  h.work_since_clock = 0;
  while (done < budget && !h.ready.empty() && !exec::due_to_die(h)) {
    wq::Qp& qp = *h.ready.front();
    h.ready.remove(qp);
    if (h.eth.soft && qp.type == QpType::raw_packet && h.eth.soft->tables.count() != 0) [[unlikely]]
      written += write_entries_first(h);
    const std::size_t left = budget - done;
    done += exec::run_send_queue(h, qp, h.ready.empty() && !qp.rc ? left : std::min(slice, left));
    bool more = qp.rc ? transport::roce_may_send(qp)
                      : qp.state == QpState::rts && transport::has_requests(qp);
    if (more && qp.wait == wq::SqWait::none) h.ready.push(qp);
    if (h.work_since_clock < exec::clock_work) continue;
    h.work_since_clock = 0;
    h.context.now_ns = clock_ns();
  }
  return done + written;
}

std::size_t flush_errors(Hca& h, std::size_t budget) noexcept {
  std::size_t done = 0;
  for (wq::Qp* qp = h.context.in_error.front(); qp != nullptr && done < budget;) {
    wq::Qp* next = wq::ErrorList::after(*qp);
    done += wq::flush_some(h.context, *qp, budget - done);
    qp = next;
  }
  return done;
}

// Whether the next turn has something to look at that no doorbell announces.
bool looks_again(const Hca& h) noexcept {
  return !h.config.wires.empty() || h.lint != nullptr || h.paging.any() || h.paging.waiting() ||
         !h.ready.empty() || !h.waiting.empty() || !h.moderated.empty() ||
         !h.context.in_error.empty() || h.managed;
}

// Of a queue that ends while the wire is full: how long it waits, and between two looks.
constexpr uint64_t last_wait_ns = 1'000'000'000;
constexpr timespec last_look{0, 100'000};

// The connection manager's timers, and who waits for an address. Apart, as few adapters have
// either.
[[gnu::noinline]] std::size_t manage_connections(Hca& h) noexcept {
  std::size_t done = 0;
  if (h.connections) done += h.connections->tick();
  if (h.guest != nullptr && h.guest->deadline() <= h.context.now_ns)
    done += h.guest->turn(h.context.now_ns);
  return done;
}

// Whether the adapter ends here: by its fault, or because a line is missing in its journal.
bool must_stop(const Hca& h) noexcept {
  return !h.context.dead && (exec::due_to_die(h) || h.context.journal->failed());
}

bool goes_on(const Hca& h, const wq::Qp& qp) noexcept {
  return !h.context.dead && qp.state == QpState::rts && qp.wait == wq::SqWait::none && !qp.broken &&
         transport::has_requests(qp);
}

}  // namespace

void send_rung(Hca& h, wq::Qp& qp) noexcept {
  if (!has_rings(qp.type) || qp.state != QpState::rts || h.context.dead) return;
  const uint64_t deadline = clock_ns() + last_wait_ns;
  check_all_doorbells(h);
  for (;;) {
    const uint16_t before = qp.sq.ci;
    run_engine(h, slice);
    if (!goes_on(h, qp)) return;
    if (qp.sq.ci != before) continue;
    if (h.roce.full_until_ns == 0 || clock_ns() > deadline) return;
    ::nanosleep(&last_look, nullptr);
  }
}

void forget_work(Hca& h, wq::Qp& qp) noexcept {
  h.ready.remove(qp);
  transport::roce_forget(h.roce, qp);
  std::erase(h.waiting, &qp);
  qp.wait = wq::SqWait::none;
  qp.retrying = false;
  qp.timeouts = 0;
  qp.stalls = 0;
  wq::cancel_tags(h.context, qp);
}

std::size_t run_engine(Hca& h, std::size_t budget) noexcept {
  h.context.now_ns = clock_ns();
  h.clock.set(h.context.now_ns);
  if (h.lint) [[unlikely]]
    h.lint->look();
  const bool records_left = check_doorbells(h);
  if (!h.waiting.empty()) check_timers(h);
  for (wq::Cq* cq : h.moderated) wq::check_period(h.context, *cq);
  const bool wired = !h.config.wires.empty();
  std::size_t done = wired ? transport::roce_begin(h.roce) : 0;
  done += h.paging.serve();
  if (wired && !h.context.dead)
    done += transport::roce_answer(h.roce);  // before requests take the wire
  done += run_ready(h, budget);
  if (must_stop(h)) die(h);
  if (!h.context.in_error.empty()) done += flush_errors(h, budget);
  if (wired) {
    transport::roce_flush(h.roce, false);  // requests first: frames that come in may take a while
    done += poll_ports(h, budget);
    if (h.managed) [[unlikely]]
      done += manage_connections(h);
    transport::roce_timers(h.roce);  // behind the frames: an answer that has come is not late
    if (!h.context.dead) done += transport::roce_answer(h.roce);
    transport::roce_flush(h.roce, true);
    tell_losses(h, done != 0);
  } else if (h.managed) [[unlikely]] {
    done += manage_connections(h);
  }
  wq::close_blocks(h.context);
  h.lock.rest(!records_left && !looks_again(h));
  // Who sleeps after a turn that did nothing may not sleep now.
  return done + (records_left ? 1 : 0);
}

uint64_t next_deadline(const Hca& h) noexcept {
  if (!h.ready.empty() || h.paging.waiting()) return 0;
  uint64_t deadline = transport::roce_deadline(h.roce);
  if (h.connections) deadline = std::min(deadline, h.connections->deadline());
  if (h.guest != nullptr) deadline = std::min(deadline, h.guest->deadline());
  for (const wq::Cq* cq : h.moderated) deadline = std::min(deadline, wq::event_deadline(*cq));
  for (const wq::Qp* qp : h.waiting) deadline = std::min(deadline, qp->retry_at_ns);
  for (const wq::Qp* qp = h.context.in_error.front(); qp != nullptr;
       qp = wq::ErrorList::after(*qp)) {
    if (!qp->broken) return std::min(deadline, clock_ns() + error_look_ns);
  }
  return deadline;
}

}  // namespace kilim::vhca::hca
