// SPDX-License-Identifier: BSD-3-Clause
// Completions of signalled RDMA WRITEs, 32 at a time, four times in a row: each one's wr id,
// status, opcode, length and queue pair is read into a record; and a poll that finds nothing.
#include <cerrno>
#include <memory>
#include <vector>

#include "kilim/detail/base/barrier.hh"
#include "kilim/queue.hh"
#include "perf/compare/line.hh"

namespace kilim::perf {
namespace {

// So many rounds lie ready, as a look at the clock takes about as long as one.
constexpr uint32_t rounds = 4;
constexpr uint32_t ready = rounds * round_requests;

// Queues of which so many requests may be under way; the rig's hold a round.
struct Deep {
  RigQueue ours, theirs;
  std::vector<uint64_t> wr_ids;
  std::unique_ptr<queue::Sq> sq;
  std::unique_ptr<queue::Cq> cq;
  bool open(RigDevice& device) {
    if (!ours.create(device, ready).empty() || !theirs.create(device, ready).empty()) return false;
    wr_ids.resize(ours.sq_geometry.wqebb_count);
    sq = std::make_unique<queue::Sq>(ours.sq_geometry, wr_ids);
    cq = std::make_unique<queue::Cq>(ours.cq_geometry);
    return true;
  }
};
constexpr std::size_t deep_slot = 9;

Deep& made(Rig& r) {
  return *static_cast<Deep*>(r.of_lines[deep_slot].get());
}
bool make(Rig& r) {
  std::shared_ptr<void>& mine = r.of_lines[deep_slot];
  if (mine != nullptr) return true;
  auto fresh = std::make_shared<Deep>();
  if (!fresh->open(r.device)) return false;
  mine = fresh;
  return true;
}

uint32_t prepare_ours(Rig& r, const Case&) {
  if (!make(r)) return 0;
  queue::WqeCursor cursor{*made(r).sq};
  const Rkey key{r.target_key};
  for (uint32_t i = 0; i < ready; i++) {
    const Rig::Ours& w = r.our_writes[i % round_requests];
    const queue::Wr wr{.id = w.id, .flags = queue::WrFlags::signalled};
    if (!queue::rdma_write(cursor, {w.target, key}, w.piece, wr)) return 0;
  }
  cursor.commit();
  r.device.run();
  return ready;
}

uint32_t prepare_theirs(Rig& r, const Case&) {
  if (!make(r)) return 0;
  ibv_qp_ex* ex = made(r).theirs.ex;
  ibv_wr_start(ex);
  for (uint32_t i = 0; i < ready; i++) {
    const Rig::Theirs& w = r.their_writes[i % round_requests];
    ex->wr_id = w.id;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(ex, r.target_key, w.target);
    ibv_wr_set_sge(ex, w.piece.lkey, w.piece.addr, w.piece.length);
  }
  if (ibv_wr_complete(ex) != 0) return 0;
  r.device.run();
  return ready;
}

// The completions of a round, left for the program to look at.
std::array<queue::Completion, round_requests> done;
std::array<ibv_wc, round_requests> wc;
struct Seen {
  uint64_t wr_id;
  uint32_t status, opcode, bytes, qpn;
};
std::array<Seen, round_requests> seen;

// A round short of its completions ends the line.
[[gnu::noinline]] uint32_t kilim_poll(Rig& r, const Case&) {
  Deep& deep = made(r);
  for (uint32_t n = 0; n < rounds; n++)
    if (deep.cq->poll(done, *deep.sq) != round_requests) return 0;
  return ready;
}

[[gnu::noinline]] uint32_t peer_poll(Rig& r, const Case&) {
  ibv_cq* cq = made(r).theirs.cq;
  for (uint32_t n = 0; n < rounds; n++)
    if (ibv_poll_cq(cq, round_requests, wc.data()) != static_cast<int>(round_requests)) return 0;
  return ready;
}

uint32_t poll_ex(ibv_cq_ex* cq) {
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
[[gnu::noinline]] uint32_t peer_poll_ex(Rig& r, const Case&) {
  ibv_cq_ex* cq = made(r).theirs.cq_ex;
  for (uint32_t n = 0; n < rounds; n++)
    if (poll_ex(cq) != round_requests) return 0;
  return ready;
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

const Line completion_line = {"completions, 32 at a time",        0.16, 0.30, cases,
                              {"poll", kilim_poll, prepare_ours}, peers};
const Line empty_poll_line = {"empty poll", 0.30, 0.14, cases, {"poll", kilim_empty}, empty_peers};

}  // namespace kilim::perf
