// SPDX-License-Identifier: BSD-3-Clause
// RDMA WRITEs of one piece, 32 per doorbell, each with its own piece, target and wr id, the last
// one signalled. Kilim checks the queue's room at each request and remembers each wr id.
#include "kilim/queue.hh"
#include "perf/compare/line.hh"

namespace kilim::perf {
namespace {

[[gnu::noinline]] uint32_t kilim_write(Rig& r, const Case&) {
  queue::WqeCursor cursor{*r.sq};
  queue::Remote to{0, Rkey{r.target_key}};
  for (const Rig::Ours& w : r.our_writes) {
    to.address = w.target;
    if (!queue::rdma_write(cursor, to, w.piece, {.id = w.id})) return 0;
  }
  cursor.signal_last();
  cursor.commit();
  return round_requests;
}

// The requests of a round, laid out once: libmlx5 is not charged for writing them.
struct Chain {
  std::array<ibv_send_wr, round_requests> wrs{};
  explicit Chain(Rig& r) {
    for (uint32_t i = 0; i < round_requests; i++) {
      ibv_send_wr& w = wrs[i];
      w.wr_id = i;
      w.next = i + 1 < round_requests ? &wrs[i + 1] : nullptr;
      w.sg_list = &r.their_writes[i].piece;
      w.num_sge = 1;
      w.opcode = IBV_WR_RDMA_WRITE;
      w.send_flags = i + 1 < round_requests ? 0 : IBV_SEND_SIGNALED;
      w.wr.rdma = {r.their_writes[i].target, r.target_key};
    }
  }
};

[[gnu::noinline]] uint32_t peer_post_send(Rig& r, const Case&) {
  static Chain chain{r};
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(r.theirs.qp(), chain.wrs.data(), &bad) == 0 ? round_requests : 0;
}

[[gnu::noinline]] uint32_t peer_wr(Rig& r, const Case&) {
  ibv_qp_ex* ex = r.theirs.ex;
  ibv_wr_start(ex);
  for (const Rig::Theirs& w : r.their_writes) {
    ex->wr_id = w.id;
    ex->wr_flags = w.id + 1 < round_requests ? 0 : IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(ex, r.target_key, w.target);
    ibv_wr_set_sge(ex, w.piece.lkey, w.piece.addr, w.piece.length);
  }
  return ibv_wr_complete(ex) == 0 ? round_requests : 0;
}

constexpr Case cases[] = {{"64 bytes", 1}};
constexpr Side peers[] = {{"ibv_post_send", peer_post_send}, {"ibv_wr_rdma_write", peer_wr}};

}  // namespace

const Line write_line = {"RDMA WRITE, 32 per doorbell", 0.40, 0.24, cases,
                         {"rdma_write", kilim_write},   peers};

}  // namespace kilim::perf
