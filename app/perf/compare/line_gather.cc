// SPDX-License-Identifier: BSD-3-Clause
// 16 scattered pieces of 1 KiB go out as one message: bound into one key by a UMR, or packed by
// copying. Once what the application's core does alone, once with the device's work on the same
// core. Packing is done before the cheaper of both WRITEs, Kilim's own included. With the device on
// the core the message is also held against the sum of its floors: the same UMR with a WRITE of a
// line, in one turn, and the message's bytes by memcpy.
#include <cstring>

#include "kilim/detail/base/barrier.hh"
#include "kilim/queue.hh"
#include "kilim/umr.hh"
#include "perf/compare/line.hh"

namespace kilim::perf {
namespace {

constexpr uint32_t pieces = 16;
constexpr uint32_t message_bytes = pieces * scattered_bytes;
constexpr uint32_t messages = 16;  // of a round
constexpr uint32_t line_bytes = 64;

uint32_t poll(Rig& r) {
  return r.cq->poll(completions, *r.sq);
}

// What is the same in all messages is encoded once; where the pieces are is read for each.
bool post_gathered(Rig& r, uint32_t bytes) {
  static constexpr umr::ListShape shape{
      {.max_entries = 64, .access = umr::mkey_access(mr::Access::local_write)}, pieces};
  const Lkey memory{r.region->lkey};
  const auto piece = [&r, memory](uint32_t i) noexcept {
    return umr::Piece{reinterpret_cast<uint64_t>(r.scattered[i]), scattered_bytes, memory};
  };
  const Lkey key{r.ours.key->lkey};
  queue::WqeCursor c{*r.sq};
  const queue::Remote to{reinterpret_cast<uint64_t>(r.block_target), Rkey{r.target_key}};
  const bool ok =
      umr::umr_shape_of(c, shape, {key, tag_of(key)}, piece, {}).ok() &&
      queue::rdma_write(c, to, queue::Sge{0, bytes, key}, {.flags = queue::WrFlags::signalled});
  if (ok) c.commit();
  return ok;
}

bool post_whole(Rig& r) {
  return post_gathered(r, message_bytes);
}

void copy_to(std::byte* to, const Rig& r) {
  for (uint32_t i = 0; i < pieces; i++)
    std::memcpy(to + std::size_t{i} * scattered_bytes, r.scattered[i], scattered_bytes);
}
void pack(Rig& r) {
  copy_to(r.packed, r);
}

// What lies under a gathered message whatever moves it.
bool post_floors(Rig& r) {
  copy_to(r.block_target, r);
  forget_registers();
  return post_gathered(r, line_bytes);
}

bool post_packed(Rig& r) {
  pack(r);
  queue::WqeCursor c{*r.sq};
  const queue::Remote to{reinterpret_cast<uint64_t>(r.block_target), Rkey{r.target_key}};
  const queue::Sge from{reinterpret_cast<uint64_t>(r.packed), message_bytes, Lkey{r.region->lkey}};
  if (!queue::rdma_write(c, to, from, {.flags = queue::WrFlags::signalled})) return false;
  c.commit();
  return true;
}

bool post_packed_libmlx5(Rig& r) {
  pack(r);
  ibv_qp_ex* ex = r.theirs.ex;
  ibv_wr_start(ex);
  ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(ex, r.target_key, reinterpret_cast<uint64_t>(r.block_target));
  ibv_wr_set_sge(ex, r.region->lkey, reinterpret_cast<uint64_t>(r.packed), message_bytes);
  return ibv_wr_complete(ex) == 0;
}

template <bool (*Post)(Rig&)>
uint32_t posted(Rig& r, const Case&) {
  for (uint32_t i = 0; i < messages; i++)
    if (!Post(r)) return 0;
  return messages;
}
uint32_t polled(Rig& r, const Case&) {
  return poll(r);
}
uint32_t polled_libmlx5(Rig& r, const Case&) {
  static std::array<ibv_wc, round_requests> wc;
  const int n = ibv_poll_cq(r.theirs.cq, round_requests, wc.data());
  return n > 0 ? static_cast<uint32_t>(n) : 0;
}

template <bool (*Post)(Rig&)>
uint32_t whole(Rig& r, const Case&) {
  uint32_t done = 0;
  for (uint32_t i = 0; i < messages; i++) {
    if (!Post(r)) return 0;
    r.device.run();
    done += poll(r);
  }
  return done;
}

constexpr Case cases[] = {{"16 x 1 KiB", pieces}};
constexpr Side core_peers[] = {
    {"pack + rdma_write", posted<post_packed>, nullptr, polled},
    {"pack + ibv_wr_rdma_write", posted<post_packed_libmlx5>, nullptr, polled_libmlx5}};
constexpr Side floors[] = {{"UMR, WRITE of a line, memcpy", whole<post_floors>}};
constexpr Side device_peers[] = {{"pack + rdma_write", whole<post_packed>}};

}  // namespace

const Line gather_line = {"gather by UMR / by packing, application core only",
                          0.08,
                          0,
                          cases,
                          {"umr_shape_of + rdma_write", posted<post_whole>, nullptr, polled},
                          core_peers,
                          false,
                          275};
const Line gather_device_line = {"gather by UMR / by packing, device on the same core",
                                 0,
                                 0,
                                 cases,
                                 {"umr_shape_of + rdma_write", whole<post_whole>},
                                 device_peers,
                                 true,
                                 6400};
const Line gather_floor_line = {"gather by UMR / sum of its floors, device on the same core",
                                1.15,
                                1.13,
                                cases,
                                {"umr_shape_of + rdma_write", whole<post_whole>},
                                floors,
                                true};

}  // namespace kilim::perf
