// SPDX-License-Identifier: BSD-3-Clause
// An indirect key is given a new list: one UMR per doorbell, and 32. Both get an array of pieces
// that lies ready, libmlx5 of ibv_sge, Kilim of Piece, which nobody has summed up or checked; both
// write it inline, with access rights and a completion, and add up the lengths while they write.
// Kilim checks each piece besides. Lines of their own show the writer for processors with AVX2.
#include "kilim/detail/burst/simd.hh"
#include "kilim/umr.hh"
#include "perf/compare/line.hh"

namespace kilim::perf {
namespace {

constexpr uint32_t access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

umr::ListRequest request_of(const Rig& r) noexcept {
  const Lkey key{r.ours.key->lkey};
  return {.key = key,
          .max_entries = 64,
          .new_tag = tag_of(key),
          .access = umr::mkey_access(mr::Access::local_write | mr::Access::remote_write)};
}

umr::ShapedKey key_of(const Rig& r) noexcept {
  const Lkey key{r.ours.key->lkey};
  return {.key = key, .new_tag = tag_of(key)};
}

constexpr umr::UmrWr signalled(uint64_t id) noexcept {
  return {.id = id, .flags = queue::WrFlags::signalled};
}

// The shape of the round's lists.
umr::ListShape shape{{}, 0};
uint32_t form(Rig& r, const Case& c) {
  shape = umr::ListShape{request_of(r), c.pieces, burst::widest_simd()};
  return shape.ok() ? 1 : 0;
}
std::span<const umr::Piece> pieces_of(const Rig& r, const Case& c) noexcept {
  return std::span{r.pieces}.first(c.pieces);
}

// Round by round as many requests as both queues surely hold.
constexpr uint32_t requests(const Case&) noexcept {
  return round_requests;
}

using Append = Outcome (*)(queue::WqeCursor&, const umr::ShapedKey&, std::span<const umr::Piece>,
                           uint32_t) noexcept;
[[gnu::always_inline]] inline Outcome by_base(queue::WqeCursor& c, const umr::ShapedKey& key,
                                              std::span<const umr::Piece> pieces,
                                              uint32_t n) noexcept {
  return umr::umr_shape(c, shape, key, pieces, signalled(n));
}
[[gnu::always_inline]] inline Outcome by_chosen(queue::WqeCursor& c, const umr::ShapedKey& key,
                                                std::span<const umr::Piece> pieces,
                                                uint32_t n) noexcept {
  return umr::umr_shape_chosen(c, shape, key, pieces, signalled(n));
}

template <Append One>
[[gnu::noinline]] uint32_t kilim_single(Rig& r, const Case& c) {
  const umr::ShapedKey key = key_of(r);
  const std::span<const umr::Piece> pieces = pieces_of(r, c);
  uint32_t n = 0;
  for (; n < requests(c); n++) {
    queue::WqeCursor cursor{*r.sq};
    if (!One(cursor, key, pieces, n).ok()) break;
    cursor.commit();
  }
  return n;
}

template <Append One>
[[gnu::noinline]] uint32_t kilim_batch(Rig& r, const Case& c) {
  const umr::ShapedKey key = key_of(r);
  const std::span<const umr::Piece> pieces = pieces_of(r, c);
  queue::WqeCursor cursor{*r.sq};
  uint32_t n = 0;
  for (; n < requests(c); n++) {
    if (!One(cursor, key, pieces, n).ok()) break;
  }
  cursor.commit();
  return n;
}

void one_list(Rig& r, const Case& c, uint32_t n) {
  RigQueue& q = r.theirs;
  q.ex->wr_id = n;
  q.ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  mlx5dv_wr_mr_list(q.dv, q.key.get(), access, static_cast<uint16_t>(c.pieces), r.sges.data());
}

void one_configure(Rig& r, const Case& c, uint32_t n) {
  RigQueue& q = r.theirs;
  q.ex->wr_id = n;
  q.ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  mlx5dv_mkey_conf_attr attr{};
  mlx5dv_wr_mkey_configure(q.dv, q.key.get(), 2, &attr);
  mlx5dv_wr_set_mkey_access_flags(q.dv, access);
  mlx5dv_wr_set_mkey_layout_list(q.dv, static_cast<uint16_t>(c.pieces), r.sges.data());
}

template <void (*One)(Rig&, const Case&, uint32_t)>
[[gnu::noinline]] uint32_t peer_single(Rig& r, const Case& c) {
  uint32_t n = 0;
  for (; n < requests(c); n++) {
    ibv_wr_start(r.theirs.ex);
    One(r, c, n);
    if (ibv_wr_complete(r.theirs.ex) != 0) break;
  }
  return n;
}

template <void (*One)(Rig&, const Case&, uint32_t)>
[[gnu::noinline]] uint32_t peer_batch(Rig& r, const Case& c) {
  ibv_wr_start(r.theirs.ex);
  for (uint32_t n = 0; n < requests(c); n++) One(r, c, n);
  return ibv_wr_complete(r.theirs.ex) == 0 ? requests(c) : 0;
}

constexpr Case sizes[] = {{"4 entries", 4}, {"16 entries", 16}, {"52 entries", 52}};
constexpr Side single_peers[] = {{"mlx5dv_wr_mr_list", peer_single<one_list>},
                                 {"mlx5dv_wr_mkey_configure", peer_single<one_configure>}};
constexpr Side batch_peers[] = {{"mlx5dv_wr_mr_list", peer_batch<one_list>},
                                {"mlx5dv_wr_mkey_configure", peer_batch<one_configure>}};

}  // namespace

const Line umr_single_line = {"UMR list, one per doorbell",
                              0.48,
                              0.305,
                              sizes,
                              {"umr_shape", kilim_single<by_base>, form},
                              single_peers};
const Line umr_batch_line = {"UMR list, 32 per doorbell",
                             0.45,
                             0.305,
                             sizes,
                             {"umr_shape", kilim_batch<by_base>, form},
                             batch_peers};
const Line umr_wide_single_line = {"UMR list, one per doorbell, AVX2",
                                   0.48,
                                   0.285,
                                   sizes,
                                   {"umr_shape_chosen", kilim_single<by_chosen>, form},
                                   single_peers};
const Line umr_wide_batch_line = {"UMR list, 32 per doorbell, AVX2",
                                  0.45,
                                  0.285,
                                  sizes,
                                  {"umr_shape_chosen", kilim_batch<by_chosen>, form},
                                  batch_peers};

}  // namespace kilim::perf
