// SPDX-License-Identifier: BSD-3-Clause
// The life of an id as a table: in which state what may happen, and what comes of it (IBTA 12.9.5
// and 12.9.7, "Active" and "Passive States"; 12.9.8 the tables of transitions). What has no row
// does not happen: a call is refused, a message is forgotten. Each row names the kernel's function
// that does the same (drivers/infiniband/core/cm.c). Pure values, any thread.
#pragma once

#include <cstdint>

#include "vhca/cm/values.hh"

namespace kilim::vhca::cm {

enum class Input : uint8_t {
  // calls from above
  send_req,
  send_rep,
  send_rtu,
  note_established,
  send_rej,
  answer_later,
  send_dreq,
  send_drep,
  send_sidr_req,
  send_sidr_rep,
  destroy,
  // messages
  got_req,  // a copy: the first one makes the id
  got_mra_of_req,
  got_mra_of_rep,
  got_rej,
  got_stale,  // a REJ for a stale connection
  got_rep,
  got_rtu,
  got_dreq,
  got_drep,
  got_sidr_rep,
  // time
  gave_up,  // no answer after all retries
  waited,   // time wait is over
};

enum class Timer : uint8_t {
  keep,
  stop,
  resend,  // what was sent goes again until it is answered
  later,   // the same, after the time that an MRA asks for
  wait,    // time wait begins
};

// What is sent along the way, beside what a call is for.
enum class Say : uint8_t { nothing, again, rej_timeout, rej_consumer, dreq, drep, sidr_reject };

struct Row {
  State from;
  Input input;
  State to;
  Timer timer;
  Say say;
  const char* rule;
};

// clang-format off
inline constexpr Row rows[] = {
    {State::idle,         Input::send_req,  State::req_sent,    Timer::resend, Say::nothing, "ib_send_cm_req"},
    {State::req_rcvd,     Input::send_rep,  State::rep_sent,    Timer::resend, Say::nothing, "ib_send_cm_rep"},
    {State::mra_req_sent, Input::send_rep,  State::rep_sent,    Timer::resend, Say::nothing, "ib_send_cm_rep"},
    {State::rep_rcvd,     Input::send_rtu,  State::established, Timer::stop,   Say::nothing, "ib_send_cm_rtu"},
    {State::mra_rep_sent, Input::send_rtu,  State::established, Timer::stop,   Say::nothing, "ib_send_cm_rtu"},
    {State::rep_sent,     Input::note_established, State::established, Timer::stop, Say::nothing, "cm_establish"},
    {State::mra_rep_rcvd, Input::note_established, State::established, Timer::stop, Say::nothing, "cm_establish"},
    {State::req_sent,     Input::send_rej,  State::idle,        Timer::stop,   Say::nothing, "ib_send_cm_rej"},
    {State::mra_req_rcvd, Input::send_rej,  State::idle,        Timer::stop,   Say::nothing, "ib_send_cm_rej"},
    {State::req_rcvd,     Input::send_rej,  State::idle,        Timer::stop,   Say::nothing, "ib_send_cm_rej"},
    {State::mra_req_sent, Input::send_rej,  State::idle,        Timer::stop,   Say::nothing, "ib_send_cm_rej"},
    {State::rep_rcvd,     Input::send_rej,  State::idle,        Timer::stop,   Say::nothing, "ib_send_cm_rej"},
    {State::mra_rep_sent, Input::send_rej,  State::idle,        Timer::stop,   Say::nothing, "ib_send_cm_rej"},
    {State::rep_sent,     Input::send_rej,  State::timewait,    Timer::wait,   Say::nothing, "ib_send_cm_rej"},
    {State::mra_rep_rcvd, Input::send_rej,  State::timewait,    Timer::wait,   Say::nothing, "ib_send_cm_rej"},
    {State::req_rcvd,     Input::answer_later, State::mra_req_sent, Timer::keep, Say::nothing, "ib_send_cm_mra, IB_CM_MRA_FLAG_DELAY"},
    {State::rep_rcvd,     Input::answer_later, State::mra_rep_sent, Timer::keep, Say::nothing, "ib_send_cm_mra, IB_CM_MRA_FLAG_DELAY"},
    {State::established,  Input::send_dreq, State::dreq_sent,   Timer::resend, Say::nothing, "ib_send_cm_dreq"},
    {State::dreq_rcvd,    Input::send_drep, State::timewait,    Timer::wait,   Say::nothing, "ib_send_cm_drep"},
    {State::idle,          Input::send_sidr_req, State::sidr_req_sent, Timer::resend, Say::nothing, "ib_send_cm_sidr_req"},
    {State::sidr_req_rcvd, Input::send_sidr_rep, State::idle,    Timer::stop,   Say::nothing, "ib_send_cm_sidr_rep"},

    {State::req_sent,     Input::destroy,   State::idle, Timer::stop, Say::rej_timeout,  "cm_destroy_id"},
    {State::mra_req_rcvd, Input::destroy,   State::idle, Timer::stop, Say::rej_timeout,  "cm_destroy_id"},
    {State::req_rcvd,     Input::destroy,   State::idle, Timer::stop, Say::rej_consumer, "cm_destroy_id"},
    {State::mra_req_sent, Input::destroy,   State::idle, Timer::stop, Say::rej_consumer, "cm_destroy_id"},
    {State::rep_sent,     Input::destroy,   State::idle, Timer::stop, Say::rej_consumer, "cm_destroy_id"},
    {State::mra_rep_rcvd, Input::destroy,   State::idle, Timer::stop, Say::rej_consumer, "cm_destroy_id"},
    {State::rep_rcvd,     Input::destroy,   State::idle, Timer::stop, Say::rej_consumer, "cm_destroy_id"},
    {State::mra_rep_sent, Input::destroy,   State::idle, Timer::stop, Say::rej_consumer, "cm_destroy_id"},
    {State::established,  Input::destroy,   State::idle, Timer::stop, Say::dreq,         "cm_destroy_id"},
    {State::dreq_rcvd,    Input::destroy,   State::idle, Timer::stop, Say::drep,         "cm_destroy_id"},
    {State::sidr_req_rcvd, Input::destroy,  State::idle, Timer::stop, Say::sidr_reject,  "cm_destroy_id"},

    {State::mra_req_sent, Input::got_req,   State::mra_req_sent, Timer::keep,  Say::again,   "cm_dup_req_handler"},
    {State::req_sent,     Input::got_mra_of_req, State::mra_req_rcvd, Timer::later, Say::nothing, "cm_mra_handler"},
    {State::rep_sent,     Input::got_mra_of_rep, State::mra_rep_rcvd, Timer::later, Say::nothing, "cm_mra_handler"},
    {State::req_sent,     Input::got_rep,   State::rep_rcvd,     Timer::stop,  Say::nothing, "cm_rep_handler"},
    {State::mra_req_rcvd, Input::got_rep,   State::rep_rcvd,     Timer::stop,  Say::nothing, "cm_rep_handler"},
    {State::established,  Input::got_rep,   State::established,  Timer::keep,  Say::again,   "cm_dup_rep_handler"},
    {State::mra_rep_sent, Input::got_rep,   State::mra_rep_sent, Timer::keep,  Say::again,   "cm_dup_rep_handler"},
    {State::rep_sent,     Input::got_rtu,   State::established,  Timer::stop,  Say::nothing, "cm_rtu_handler"},
    {State::mra_rep_rcvd, Input::got_rtu,   State::established,  Timer::stop,  Say::nothing, "cm_rtu_handler"},

    {State::req_sent,     Input::got_rej,   State::idle,     Timer::stop, Say::nothing, "cm_rej_handler"},
    {State::mra_req_rcvd, Input::got_rej,   State::idle,     Timer::stop, Say::nothing, "cm_rej_handler"},
    {State::rep_sent,     Input::got_rej,   State::idle,     Timer::stop, Say::nothing, "cm_rej_handler"},
    {State::mra_rep_rcvd, Input::got_rej,   State::idle,     Timer::stop, Say::nothing, "cm_rej_handler"},
    {State::req_rcvd,     Input::got_rej,   State::idle,     Timer::stop, Say::nothing, "cm_rej_handler"},
    {State::mra_req_sent, Input::got_rej,   State::idle,     Timer::stop, Say::nothing, "cm_rej_handler"},
    {State::req_sent,     Input::got_stale, State::timewait, Timer::wait, Say::nothing, "cm_rej_handler, IB_CM_REJ_STALE_CONN"},
    {State::mra_req_rcvd, Input::got_stale, State::timewait, Timer::wait, Say::nothing, "cm_rej_handler, IB_CM_REJ_STALE_CONN"},
    {State::rep_sent,     Input::got_stale, State::timewait, Timer::wait, Say::nothing, "cm_rej_handler, IB_CM_REJ_STALE_CONN"},
    {State::mra_rep_rcvd, Input::got_stale, State::timewait, Timer::wait, Say::nothing, "cm_rej_handler, IB_CM_REJ_STALE_CONN"},
    {State::req_rcvd,     Input::got_stale, State::timewait, Timer::wait, Say::nothing, "cm_rej_handler, IB_CM_REJ_STALE_CONN"},
    {State::mra_req_sent, Input::got_stale, State::timewait, Timer::wait, Say::nothing, "cm_rej_handler, IB_CM_REJ_STALE_CONN"},
    {State::rep_rcvd,     Input::got_rej,   State::timewait, Timer::wait, Say::nothing, "cm_rej_handler"},
    {State::mra_rep_sent, Input::got_rej,   State::timewait, Timer::wait, Say::nothing, "cm_rej_handler"},
    {State::established,  Input::got_rej,   State::timewait, Timer::wait, Say::nothing, "cm_rej_handler"},
    {State::dreq_sent,    Input::got_rej,   State::timewait, Timer::wait, Say::nothing, "cm_rej_handler"},
    {State::rep_rcvd,     Input::got_stale, State::timewait, Timer::wait, Say::nothing, "cm_rej_handler"},
    {State::mra_rep_sent, Input::got_stale, State::timewait, Timer::wait, Say::nothing, "cm_rej_handler"},
    {State::established,  Input::got_stale, State::timewait, Timer::wait, Say::nothing, "cm_rej_handler"},
    {State::dreq_sent,    Input::got_stale, State::timewait, Timer::wait, Say::nothing, "cm_rej_handler"},

    {State::rep_sent,     Input::got_dreq,  State::dreq_rcvd, Timer::stop, Say::nothing, "cm_dreq_handler"},
    {State::mra_rep_rcvd, Input::got_dreq,  State::dreq_rcvd, Timer::stop, Say::nothing, "cm_dreq_handler"},
    {State::established,  Input::got_dreq,  State::dreq_rcvd, Timer::stop, Say::nothing, "cm_dreq_handler"},
    {State::dreq_sent,    Input::got_dreq,  State::dreq_rcvd, Timer::stop, Say::nothing, "cm_dreq_handler"},
    {State::timewait,     Input::got_dreq,  State::timewait,  Timer::keep, Say::again,   "cm_dreq_handler, IB_CM_TIMEWAIT"},
    // The kernel answers only when the id is destroyed: until then its peer asks in vain.
    {State::idle,         Input::got_dreq,  State::idle,      Timer::keep, Say::drep,    "cm_issue_drep"},
    {State::dreq_sent,    Input::got_drep,  State::timewait,  Timer::wait, Say::nothing, "cm_drep_handler"},
    {State::dreq_rcvd,    Input::got_drep,  State::timewait,  Timer::wait, Say::nothing, "cm_drep_handler"},
    {State::sidr_req_sent, Input::got_sidr_rep, State::idle,  Timer::stop, Say::nothing, "cm_sidr_rep_handler"},

    {State::req_sent,     Input::gave_up,   State::idle,     Timer::stop, Say::nothing, "cm_process_send_error"},
    {State::mra_req_rcvd, Input::gave_up,   State::idle,     Timer::stop, Say::nothing, "cm_process_send_error"},
    {State::rep_sent,     Input::gave_up,   State::idle,     Timer::stop, Say::nothing, "cm_process_send_error"},
    {State::mra_rep_rcvd, Input::gave_up,   State::idle,     Timer::stop, Say::nothing, "cm_process_send_error"},
    {State::dreq_sent,    Input::gave_up,   State::timewait, Timer::wait, Say::nothing, "cm_process_send_error"},
    {State::sidr_req_sent, Input::gave_up,  State::idle,     Timer::stop, Say::nothing, "cm_process_send_error"},
    {State::timewait,     Input::waited,    State::idle,     Timer::stop, Say::nothing, "cm_timewait_handler"},
};
// clang-format on

// Null: that does not happen in this state.
constexpr const Row* row_of(State from, Input input) noexcept {
  for (const Row& row : rows) {
    if (row.from == from && row.input == input) return &row;
  }
  return nullptr;
}

}  // namespace kilim::vhca::cm
