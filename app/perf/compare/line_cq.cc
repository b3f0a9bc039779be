// SPDX-License-Identifier: BSD-3-Clause
// Completions of signalled RDMA WRITEs, 32 at a time: each one's wr id, status, opcode, length and
// queue pair is read into a record; and a poll that finds nothing.
#include <cerrno>

#include "kilim/base/barrier.hh"
#include "kilim/queue/rc_wqe.hh"
#include "kilim/queue/wqe_cursor.hh"
#include "perf/compare/line.hh"

namespace kilim::perf {
namespace {

uint32_t prepare_ours(Rig& r, const Case&) {
  queue::WqeCursor cursor{*r.sq};
  const Rkey key{r.target_key};
  for (const Rig::Ours& w : r.our_writes) {
    const queue::Wr wr{.id = w.id, .flags = queue::WrFlags::signalled};
    (void)queue::rdma_write(cursor, {w.target, key}, w.piece, wr);
  }
  cursor.commit();
  r.device.run();
  return round_requests;
}

uint32_t prepare_theirs(Rig& r, const Case&) {
  ibv_qp_ex* ex = r.theirs.ex;
  ibv_wr_start(ex);
  for (const Rig::Theirs& w : r.their_writes) {
    ex->wr_id = w.id;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(ex, r.target_key, w.target);
    ibv_wr_set_sge(ex, w.piece.lkey, w.piece.addr, w.piece.length);
  }
  (void)ibv_wr_complete(ex);
  r.device.run();
  return round_requests;
}

// Where the completions of a round are left for the program to look at.
std::array<queue::Completion, round_requests> done;
std::array<ibv_wc, round_requests> wc;
struct Seen {
  uint64_t wr_id;
  uint32_t status, opcode, bytes, qpn;
};
std::array<Seen, round_requests> seen;

[[gnu::noinline]] uint32_t kilim_poll(Rig& r, const Case&) {
  return r.cq->poll(done, *r.sq);
}

[[gnu::noinline]] uint32_t peer_poll(Rig& r, const Case&) {
  const int n = ibv_poll_cq(r.theirs.cq, round_requests, wc.data());
  return n > 0 ? static_cast<uint32_t>(n) : 0;
}

[[gnu::noinline]] uint32_t peer_poll_ex(Rig& r, const Case&) {
  ibv_cq_ex* cq = r.theirs.cq_ex;
  ibv_poll_cq_attr attr{};
  uint32_t n = 0;
  if (ibv_start_poll(cq, &attr) != 0) return 0;
  do {
    seen[n++] = {cq->wr_id, cq->status, ibv_wc_read_opcode(cq), ibv_wc_read_byte_len(cq),
                 ibv_wc_read_qp_num(cq)};
  } while (n < round_requests && ibv_next_poll(cq) == 0);
  ibv_end_poll(cq);
  return n;
}

[[gnu::noinline]] uint32_t kilim_empty(Rig& r, const Case&) {
  queue::Cq& cq = *r.cq;
  for (uint32_t n = 0; n < round_requests; n++) {
    if (cq.poll(done) != 0) return 0;
    forget_registers();  // a program does other things between two looks at a queue
  }
  return round_requests;
}

[[gnu::noinline]] uint32_t peer_empty(Rig& r, const Case&) {
  ibv_cq* cq = r.theirs.cq;
  for (uint32_t n = 0; n < round_requests; n++) {
    if (ibv_poll_cq(cq, round_requests, wc.data()) != 0) return 0;
    forget_registers();  // a program does other things between two looks at a queue
  }
  return round_requests;
}

[[gnu::noinline]] uint32_t peer_empty_ex(Rig& r, const Case&) {
  ibv_cq_ex* cq = r.theirs.cq_ex;
  ibv_poll_cq_attr attr{};
  for (uint32_t n = 0; n < round_requests; n++) {
    if (ibv_start_poll(cq, &attr) != ENOENT) return 0;
    forget_registers();  // a program does other things between two looks at a queue
  }
  return round_requests;
}

constexpr Case cases[] = {{"one queue", 1}};
constexpr Side peers[] = {{"ibv_poll_cq", peer_poll, prepare_theirs},
                          {"ibv_start_poll", peer_poll_ex, prepare_theirs}};
constexpr Side empty_peers[] = {{"ibv_poll_cq", peer_empty}, {"ibv_start_poll", peer_empty_ex}};

}  // namespace

const Line completion_line = {"completions, 32 at a time",        0.16, 0.38, cases,
                              {"poll", kilim_poll, prepare_ours}, peers};
const Line empty_poll_line = {"empty poll", 0.30, 0.15, cases, {"poll", kilim_empty}, empty_peers};

}  // namespace kilim::perf
