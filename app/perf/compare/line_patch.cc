// SPDX-License-Identifier: BSD-3-Clause
// Four entries of a key of 52 change, one request per doorbell. libmlx5's key interface writes all
// 52 anew; the second line compares with a WQE that changes only those four, made by hand and
// posted through libmlx5 as raw bytes.
#include <cstring>

#include <endian.h>

#include "kilim/umr.hh"
#include "perf/compare/line.hh"

namespace kilim::perf {
namespace {

constexpr uint32_t access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr uint32_t granule = umr::klms_per_line;
constexpr prm::UmrLimits limits{.max_key_entries = 64};

uint32_t first_of(uint32_t n) noexcept {
  return n % (most_pieces / granule) * granule;
}

[[gnu::noinline]] uint32_t kilim_patch(Rig& r, const Case&) {
  const Lkey key{r.ours.key->lkey};
  const std::span<const umr::Piece> pieces = std::span{r.pieces}.first(granule);
  uint32_t n = 0;
  for (; n < round_requests; n++) {
    queue::WqeCursor cursor{*r.sq};
    const umr::Patch patch{.key = key, .max_entries = 64, .first = first_of(n)};
    const umr::UmrWr wr{.id = n, .flags = queue::WrFlags::signalled};
    if (!umr::patch(cursor, limits, patch, pieces, wr).ok()) break;
    cursor.commit();
  }
  return n;
}

[[gnu::noinline]] uint32_t rewrite(Rig& r, const Case&) {
  RigQueue& q = r.theirs;
  uint32_t n = 0;
  for (; n < round_requests; n++) {
    ibv_wr_start(q.ex);
    q.ex->wr_id = n;
    q.ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    mlx5dv_wr_mr_list(q.dv, q.key.get(), access, most_pieces, r.sges.data());
    if (ibv_wr_complete(q.ex) != 0) break;
  }
  return n;
}

// What is the same in all of them.
struct RawPatch {
  mlx5_wqe_ctrl_seg ctrl;
  mlx5_wqe_umr_ctrl_seg umr;
  uint8_t context[64];  // the mask takes nothing of it
  mlx5_wqe_data_seg entries[granule];
};
static_assert(sizeof(RawPatch) == 192);

RawPatch raw_patch(const RigQueue& q) noexcept {
  RawPatch w{};
  w.ctrl.opmod_idx_opcode = htobe32(MLX5_OPCODE_UMR);
  w.ctrl.qpn_ds = htobe32(q.qp()->qp_num << 8 | sizeof w / 16);
  w.ctrl.fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
  w.ctrl.imm = htobe32(q.key->lkey);
  w.umr.flags = MLX5_WQE_UMR_CTRL_FLAG_INLINE | MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET;
  w.umr.klm_octowords = htobe16(granule);
  return w;
}

[[gnu::noinline]] uint32_t raw(Rig& r, const Case&) {
  RigQueue& q = r.theirs;
  RawPatch w = raw_patch(q);
  uint32_t n = 0;
  for (; n < round_requests; n++) {
    w.umr.translation_offset = htobe16(static_cast<uint16_t>(first_of(n)));
    for (uint32_t i = 0; i < granule; i++) {
      const ibv_sge& s = r.sges[i];
      w.entries[i] = {htobe32(s.length), htobe32(s.lkey), htobe64(s.addr)};
    }
    ibv_wr_start(q.ex);
    q.ex->wr_id = n;
    q.ex->wr_flags = IBV_SEND_SIGNALED;
    mlx5dv_wr_raw_wqe(q.dv, &w);
    if (ibv_wr_complete(q.ex) != 0) break;
  }
  return n;
}

constexpr Case cases[] = {{"4 of 52", granule}};
constexpr Side rewrites[] = {{"mlx5dv_wr_mr_list", rewrite}};
constexpr Side by_hand[] = {{"mlx5dv_wr_raw_wqe", raw}};

}  // namespace

const Line patch_line = {
    "one granule of a 52-entry key changed", 0.15, 0.08, cases, {"patch", kilim_patch}, rewrites};
const Line raw_patch_line = {
    "the same, against a hand-made WQE", 0.60, 0.39, cases, {"patch", kilim_patch}, by_hand};

}  // namespace kilim::perf
