// SPDX-License-Identifier: BSD-3-Clause
// Part of cm_ut. Every state meets every input. What happens then is written down here a second
// time, from IBTA 12.9.8 and the kernel's cm.c; where nothing is written down, nothing happens.
#include "cm_cases.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace transitions_ut {
namespace {

enum class On : uint8_t {
  accept,
  establish,
  note,
  reject,
  later,
  disconnect,
  answer_disconnect,
  answer_resolve,
  destroy,
  req,
  mra_of_req,
  mra_of_rep,
  rej,
  stale,
  rep,
  rtu,
  dreq,
  drep,
  sidr_rep,
  time,
};
constexpr std::size_t inputs = 20, states = 15;
constexpr State gone = static_cast<State>(99);  // the id is no more

// What is sent at once, and what the observer hears; nothing: none.
struct Want {
  State from;
  On on;
  State to;
  std::optional<Attribute> sends;
  std::optional<EventKind> hears;
};

using enum State;
constexpr std::optional<Attribute> silent = std::nullopt;
constexpr std::optional<EventKind> unheard = std::nullopt;

// clang-format off
constexpr Want table[] = {
    {req_rcvd,      On::accept,     rep_sent,     Attribute::rep,  unheard},
    {mra_req_sent,  On::accept,     rep_sent,     Attribute::rep,  unheard},
    {rep_rcvd,      On::establish,  established,  Attribute::rtu,  unheard},
    {mra_rep_sent,  On::establish,  established,  Attribute::rtu,  unheard},
    {rep_sent,      On::note,       established,  silent,          unheard},
    {mra_rep_rcvd,  On::note,       established,  silent,          unheard},
    {req_sent,      On::reject,     idle,         Attribute::rej,  unheard},
    {mra_req_rcvd,  On::reject,     idle,         Attribute::rej,  unheard},
    {req_rcvd,      On::reject,     idle,         Attribute::rej,  unheard},
    {mra_req_sent,  On::reject,     idle,         Attribute::rej,  unheard},
    {rep_rcvd,      On::reject,     idle,         Attribute::rej,  unheard},
    {mra_rep_sent,  On::reject,     idle,         Attribute::rej,  unheard},
    {rep_sent,      On::reject,     timewait,     Attribute::rej,  unheard},
    {mra_rep_rcvd,  On::reject,     timewait,     Attribute::rej,  unheard},
    {req_rcvd,      On::later,      mra_req_sent, silent,          unheard},
    {rep_rcvd,      On::later,      mra_rep_sent, silent,          unheard},
    {established,   On::disconnect, dreq_sent,    Attribute::dreq, unheard},
    {dreq_rcvd,     On::answer_disconnect, timewait, Attribute::drep, unheard},
    {sidr_req_rcvd, On::answer_resolve, idle,     Attribute::sidr_rep, unheard},

    {idle,          On::destroy, gone, silent,          unheard},
    {req_sent,      On::destroy, gone, Attribute::rej,  unheard},
    {req_rcvd,      On::destroy, gone, Attribute::rej,  unheard},
    {mra_req_sent,  On::destroy, gone, Attribute::rej,  unheard},
    {mra_req_rcvd,  On::destroy, gone, Attribute::rej,  unheard},
    {rep_sent,      On::destroy, gone, Attribute::rej,  unheard},
    {rep_rcvd,      On::destroy, gone, Attribute::rej,  unheard},
    {mra_rep_sent,  On::destroy, gone, Attribute::rej,  unheard},
    {mra_rep_rcvd,  On::destroy, gone, Attribute::rej,  unheard},
    {established,   On::destroy, gone, Attribute::dreq, unheard},
    {dreq_sent,     On::destroy, gone, silent,          unheard},
    {dreq_rcvd,     On::destroy, gone, Attribute::drep, unheard},
    {timewait,      On::destroy, gone, silent,          unheard},
    {sidr_req_sent, On::destroy, gone, silent,          unheard},
    {sidr_req_rcvd, On::destroy, gone, Attribute::sidr_rep, unheard},

    {mra_req_sent,  On::req,        mra_req_sent, Attribute::mra,  unheard},
    {req_sent,      On::mra_of_req, mra_req_rcvd, silent,          EventKind::later},
    {rep_sent,      On::mra_of_rep, mra_rep_rcvd, silent,          EventKind::later},
    {req_sent,      On::rep,        rep_rcvd,     silent,          EventKind::response},
    {mra_req_rcvd,  On::rep,        rep_rcvd,     silent,          EventKind::response},
    {established,   On::rep,        established,  Attribute::rtu,  unheard},
    {mra_rep_sent,  On::rep,        mra_rep_sent, Attribute::mra,  unheard},
    {rep_sent,      On::rtu,        established,  silent,          EventKind::established},
    {mra_rep_rcvd,  On::rtu,        established,  silent,          EventKind::established},

    {req_sent,      On::rej,   idle,     silent, EventKind::rejected},
    {mra_req_rcvd,  On::rej,   idle,     silent, EventKind::rejected},
    {req_rcvd,      On::rej,   idle,     silent, EventKind::rejected},
    {mra_req_sent,  On::rej,   idle,     silent, EventKind::rejected},
    {rep_sent,      On::rej,   idle,     silent, EventKind::rejected},
    {mra_rep_rcvd,  On::rej,   idle,     silent, EventKind::rejected},
    {rep_rcvd,      On::rej,   timewait, silent, EventKind::rejected},
    {mra_rep_sent,  On::rej,   timewait, silent, EventKind::rejected},
    {established,   On::rej,   timewait, silent, EventKind::rejected},
    {dreq_sent,     On::rej,   timewait, silent, EventKind::rejected},
    {req_sent,      On::stale, timewait, silent, EventKind::rejected},
    {mra_req_rcvd,  On::stale, timewait, silent, EventKind::rejected},
    {req_rcvd,      On::stale, timewait, silent, EventKind::rejected},
    {mra_req_sent,  On::stale, timewait, silent, EventKind::rejected},
    {rep_sent,      On::stale, timewait, silent, EventKind::rejected},
    {mra_rep_rcvd,  On::stale, timewait, silent, EventKind::rejected},
    {rep_rcvd,      On::stale, timewait, silent, EventKind::rejected},
    {mra_rep_sent,  On::stale, timewait, silent, EventKind::rejected},
    {established,   On::stale, timewait, silent, EventKind::rejected},
    {dreq_sent,     On::stale, timewait, silent, EventKind::rejected},

    {rep_sent,      On::dreq,  dreq_rcvd, silent, EventKind::disconnect},
    {mra_rep_rcvd,  On::dreq,  dreq_rcvd, silent, EventKind::disconnect},
    {established,   On::dreq,  dreq_rcvd, silent, EventKind::disconnect},
    {dreq_sent,     On::dreq,  dreq_rcvd, silent, EventKind::disconnect},
    {idle,          On::dreq,  idle,      Attribute::drep, unheard},
    {timewait,      On::dreq,  timewait,  Attribute::drep, unheard},
    {dreq_sent,     On::drep,  timewait,  silent, EventKind::disconnected},
    {dreq_rcvd,     On::drep,  timewait,  silent, EventKind::disconnected},
    {sidr_req_sent, On::sidr_rep, idle,   silent, EventKind::sidr_answer},

    {req_sent,      On::time,  idle,      Attribute::req,  EventKind::unreachable},
    {mra_req_rcvd,  On::time,  idle,      Attribute::req,  EventKind::unreachable},
    {rep_sent,      On::time,  idle,      Attribute::rep,  EventKind::unreachable},
    {mra_rep_rcvd,  On::time,  idle,      Attribute::rep,  EventKind::unreachable},
    {dreq_sent,     On::time,  idle,      Attribute::dreq, EventKind::timewait_over},
    {timewait,      On::time,  idle,      silent,          EventKind::timewait_over},
    {sidr_req_sent, On::time,  idle,      Attribute::sidr_req, EventKind::sidr_unreachable},
};
// clang-format on

const Want* want_of(State from, On on) {
  for (const Want& w : table) {
    if (w.from == from && w.on == on) return &w;
  }
  return nullptr;
}

// An id in a state, and what it and its peer call each other.
struct Subject {
  Net net;
  Host* host = nullptr;
  CommId id;
  uint32_t peer = 0;  // 0: not known to the id
};

CommId request_id(const Host& h) {
  return h.events.empty() ? CommId{} : h.events.front().id;
}

// What never arrives stays in net.log.
void drop_all(Net& net) {
  net.fate = [](const Flying&, std::size_t) { return 0; };
}

void ask(Subject& s) {
  EQUAL_FATAL(s.net.right.agent.listen(service, s.net.right, 9).ok(), true);
  const auto id = s.net.left.agent.connect(request_to(s.net), s.net.left, 8, s.net.now);
  EQUAL_FATAL(id.ok(), true);
  s.id = *id;
  s.host = &s.net.left;
}

// The active one, at `left`.
void bring_active(Subject& s, State to) {
  Net& net = s.net;
  ask(s);
  if (to == req_sent) return drop_all(net);
  net.settle();
  const CommId peer = request_id(net.right);
  if (to == mra_req_rcvd) {
    must(net.right.agent.answer_later(peer, 20, net.now));
    net.inject(net.right, net.log.front().mad);
    net.settle();
    return drop_all(net);
  }
  if (to == idle) {
    must(net.right.agent.reject(peer, Reason::no_qp, {}, {}, net.now));
    net.settle();
    return drop_all(net);
  }
  s.peer = peer.value();
  must(net.right.agent.accept(peer, acceptance(), net.now));
  net.settle();
  drop_all(net);
  if (to == mra_rep_sent) must(net.left.agent.answer_later(s.id, 20, net.now));
  if (to == rep_rcvd || to == mra_rep_sent) return;
  must(net.left.agent.establish(s.id, {}, net.now));
  if (to == established) return;
  must(net.left.agent.disconnect(s.id, {}, net.now));
}

// The passive one, at `right`.
void bring_passive(Subject& s, State to) {
  Net& net = s.net;
  ask(s);
  s.peer = s.id.value();
  net.settle();
  s.host = &net.right;
  s.id = request_id(net.right);
  if (to == mra_req_sent) must(net.right.agent.answer_later(s.id, 20, net.now));
  if (to == req_rcvd || to == mra_req_sent) return drop_all(net);
  must(net.right.agent.accept(s.id, acceptance(), net.now));
  if (to == rep_sent) return drop_all(net);
  net.settle();
  if (to == mra_rep_rcvd) {
    must(net.left.agent.answer_later(CommId{s.peer}, 20, net.now));
    net.inject(net.left, net.last());
    net.settle();
    return drop_all(net);
  }
  must(net.left.agent.establish(CommId{s.peer}, {}, net.now));
  net.settle();
  must(net.left.agent.disconnect(CommId{s.peer}, {}, net.now));
  net.settle();
  drop_all(net);
  if (to == timewait) must(net.right.agent.answer_disconnect(s.id, {}, net.now));
}

void bring_sidr(Subject& s, State to) {
  Net& net = s.net;
  must(net.right.agent.listen(service, net.right, 9));
  ResolveRequest r;
  r.service_id = service;
  r.route = net.to(2);
  r.max_cm_retries = 2;
  s.host = &net.left;
  s.id = *net.left.agent.resolve(r, net.left, 8, net.now);
  if (to == sidr_req_sent) return drop_all(net);
  s.peer = s.id.value();
  net.settle();
  s.host = &net.right;
  s.id = request_id(net.right);
  drop_all(net);
}

void bring(Subject& s, State to) {
  const bool passive = to == req_rcvd || to == mra_req_sent || to == rep_sent ||
                       to == mra_rep_rcvd || to == dreq_rcvd || to == timewait;
  if (to == sidr_req_sent || to == sidr_req_rcvd)
    bring_sidr(s, to);
  else if (passive)
    bring_passive(s, to);
  else
    bring_active(s, to);
  EQUAL_FATAL(number_of(s.host->state(s.id)), number_of(to));
  s.host->events.clear();
}

constexpr uint32_t unknown_peer = 0x77;

// The message of that kind from the id's peer.
Mad message(const Subject& s, On on) {
  const Names n{s.peer != 0 ? s.peer : unknown_peer, s.id.value(), 5};
  const About about = s.peer != 0 ? About::other : About::req;
  const bool right = s.host->number == 2;
  const Sender from{right ? 0x0200'00ff'fe00'0001u : 0x0200'00ff'fe00'0002u, 16, false};
  Mad m{};
  switch (on) {
    case On::req: {
      ConnectRequest r = request_to(s.net, s.host->number);
      write_req(m, {n.local, 0, 5}, from, r);
      break;
    }
    case On::mra_of_req:
      write_mra(m, n, About::req, 21);
      break;
    case On::mra_of_rep:
      write_mra(m, n, About::rep, 21);
      break;
    case On::rej:
      write_rej(m, n, {about, Reason::no_qp, {}, {}});
      break;
    case On::stale:
      write_rej(m, n, {about, Reason::stale_connection, {}, {}});
      break;
    case On::rep:
      write_rep(m, n, from, acceptance());
      break;
    case On::rtu:
      write_rtu(m, n, {});
      break;
    case On::dreq:
      write_dreq(m, n, right ? 0x222 : 0x111, {});
      break;
    case On::drep:
      write_drep(m, n, {});
      break;
    default:
      write_sidr_rep(m, {0, s.id.value(), 5}, service, {});
      break;
  }
  return m;
}

// Whether the call was taken; a message or time always is.
bool carry_out(Subject& s, On on) {
  Agent& a = s.host->agent;
  switch (on) {
    case On::accept:
      return a.accept(s.id, acceptance(), s.net.now).ok();
    case On::establish:
      return a.establish(s.id, {}, s.net.now).ok();
    case On::note:
      return a.note_established(s.id, s.net.now).ok();
    case On::reject:
      return a.reject(s.id, Reason::no_qp, {}, {}, s.net.now).ok();
    case On::later:
      return a.answer_later(s.id, 20, s.net.now).ok();
    case On::disconnect:
      return a.disconnect(s.id, {}, s.net.now).ok();
    case On::answer_disconnect:
      return a.answer_disconnect(s.id, {}, s.net.now).ok();
    case On::answer_resolve:
      return a.answer_resolve(s.id, {}, s.net.now).ok();
    case On::destroy:
      a.destroy(s.id, s.net.now);
      return true;
    case On::time:
      s.net.run_for(4000 * second);
      return true;
    default:
      s.net.inject(*s.host, message(s, on));
      return true;
  }
}

// What the host itself sent last since `from`, about this id or anything else.
std::optional<Attribute> sent_since(const Subject& s, std::size_t from) {
  for (std::size_t i = s.net.log.size(); i > from; i--) {
    if (s.net.log[i - 1].from == s.host->number) return attribute_of(s.net.log[i - 1].mad);
  }
  return std::nullopt;
}

void meet(State from, On on) {
  Subject s;
  bring(s, from);
  const Want* want = want_of(from, on);
  const std::size_t before = s.net.log.size();
  const bool taken = carry_out(s, on);
  const bool call = on < On::destroy;
  if (call) EQUAL(taken, want != nullptr);
  const std::optional<State> after = s.host->state(s.id);
  EQUAL(number_of(after.value_or(gone)), number_of(want != nullptr ? want->to : from));
  EQUAL(number_of(s.host->last(s.id)), number_of(want != nullptr ? want->hears : unheard));
  if (want != nullptr) EQUAL(number_of(sent_since(s, before)), number_of(want->sends));
}

void every_state_meets_every_input() {
  for (std::size_t from = 0; from < states; from++) {
    for (std::size_t on = 0; on < inputs; on++) {
      const unsigned failed = CU_get_number_of_failures();
      meet(static_cast<State>(from), static_cast<On>(on));
      if (CU_get_number_of_failures() != failed) std::printf("  state %zu, input %zu\n", from, on);
    }
  }
}

void time_wait_lasts_as_long_as_the_queue_pairs_ack_timeout() {
  Subject s;
  bring(s, timewait);
  const uint64_t began = s.net.now;
  // Packet life time 18 and an ack delay of 16: cm_ack_timeout() says 19, which are 2048 ms.
  EQUAL(s.host->agent.deadline(), began + 2'048'000'000);
  s.net.run_for(2'047'999'999);
  EQUAL(s.host->state(s.id), timewait);
  s.net.run_for(1);
  EQUAL(s.host->state(s.id), idle);
}

void an_mra_stretches_the_time_of_an_answer() {
  Subject s;
  bring(s, mra_req_rcvd);
  // Service timeout 20 is 4096 ms, and the ack timeout 19 half of it.
  EQUAL(s.host->agent.deadline(), s.net.now + 6'144'000'000);
}

constexpr Case all[] = {
    {"every state meets every input", every_state_meets_every_input},
    {"time wait lasts as long as the queue pair's ack timeout",
     time_wait_lasts_as_long_as_the_queue_pairs_ack_timeout},
    {"an MRA stretches the time of an answer", an_mra_stretches_the_time_of_an_answer},
};

}  // namespace
}  // namespace transitions_ut

std::span<const Case> kilim::vhca::test::transition_cases() {
  return transitions_ut::all;
}
