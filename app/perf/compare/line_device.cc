// SPDX-License-Identifier: BSD-3-Clause
// What the virtual device costs: 32 signalled RDMA WRITEs of 64 bytes posted by Kilim, executed,
// completed and polled, against posting and polling alone by libmlx5; and a WRITE of 64 KiB against
// the bare copy of as many bytes.
#include <cstring>

#include "kilim/detail/base/barrier.hh"
#include "kilim/queue.hh"
#include "perf/compare/line.hh"

namespace kilim::perf {
namespace {

uint32_t kilim_all(Rig& r, const Case&) {
  queue::WqeCursor cursor{*r.sq};
  queue::Remote to{0, Rkey{r.target_key}};
  for (const Rig::Ours& w : r.our_writes) {
    to.address = w.target;
    const queue::Wr wr{.id = w.id, .flags = queue::WrFlags::signalled};
    if (!queue::rdma_write(cursor, to, w.piece, wr)) return 0;
  }
  cursor.commit();
  r.device.poll();
  return r.cq->poll(completions, *r.sq);
}

uint32_t peer_post(Rig& r, const Case&) {
  ibv_qp_ex* ex = r.theirs.ex;
  ibv_wr_start(ex);
  for (const Rig::Theirs& w : r.their_writes) {
    ex->wr_id = w.id;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(ex, r.target_key, w.target);
    ibv_wr_set_sge(ex, w.piece.lkey, w.piece.addr, w.piece.length);
  }
  return ibv_wr_complete(ex) == 0 ? round_requests : 0;
}

uint32_t peer_poll(Rig& r, const Case&) {
  static std::array<ibv_wc, round_requests> wc;
  const int n = ibv_poll_cq(r.theirs.cq, round_requests, wc.data());
  return n > 0 ? static_cast<uint32_t>(n) : 0;
}

constexpr uint32_t copies = 8;

uint32_t kilim_copy(Rig& r, const Case&) {
  const queue::Sge from{reinterpret_cast<uint64_t>(r.block), block_bytes, Lkey{r.region->lkey}};
  const queue::Remote to{reinterpret_cast<uint64_t>(r.block_target), Rkey{r.target_key}};
  uint32_t done = 0;
  for (uint32_t i = 0; i < copies; i++) {
    queue::WqeCursor cursor{*r.sq};
    if (!queue::rdma_write(cursor, to, from, {.id = i, .flags = queue::WrFlags::signalled}))
      return 0;
    cursor.commit();
    r.device.poll();
    done += r.cq->poll(completions, *r.sq);
  }
  return done;
}

uint32_t bare_copy(Rig& r, const Case&) {
  for (uint32_t i = 0; i < copies; i++) {
    std::memcpy(r.block_target, r.block, block_bytes);
    forget_registers();
  }
  return copies;
}

constexpr Case small[] = {{"64 bytes", 1}};
constexpr Side small_peers[] = {{"ibv_wr_rdma_write + ibv_poll_cq", peer_post, nullptr, peer_poll}};
constexpr Case large[] = {{"64 KiB", 1}};
constexpr Side large_peers[] = {{"memcpy", bare_copy}};

}  // namespace

const Line device_write_line = {"WRITE posted, executed, polled / posted, polled",
                                0.45,
                                0.76,
                                small,
                                {"device as poller", kilim_all},
                                small_peers,
                                true};
const Line device_copy_line = {"loopback WRITE / memcpy",  1.5,         0,   large,
                               {"rdma_write", kilim_copy}, large_peers, true};

}  // namespace kilim::perf
