// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CQE Compression". Adapter's lock held. Never allocates.
#include "vhca/wq/compression.hh"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kilim/prm/doorbell.hh"
#include "vhca/memory/dma.hh"
#include "vhca/wq/cqe_writer.hh"

namespace kilim::vhca::wq {

namespace {

using Words = std::array<uint64_t, sizeof(prm::Cqe) / sizeof(uint64_t)>;

Words words_of(const prm::Cqe& cqe) noexcept {
  Words w;
  static_assert(sizeof(w) == sizeof(cqe));
  std::memcpy(w.data(), &cqe, sizeof(w));
  return w;
}

// What a title says for its whole block: all but hash and checksum, of which the minis carry one
// and the other one is the first completion's (Linux mlx5e_decompress_cqe_no_hash()), the length,
// the time, which is the first one's too, and where the frame is.
bool alike(const prm::Cqe& a, const prm::Cqe& b) noexcept {
  static const Words judged = [] {
    prm::Cqe m;
    std::memset(static_cast<void*>(&m), 0xff, sizeof(m));
    m.rx_hash_result = {};
    m.checksum = {};
    m.byte_cnt = {};
    m.timestamp = {};
    m.wqe_counter = {};
    m.signature = m.op_own = 0;
    return words_of(m);
  }();
  const Words x = words_of(a), y = words_of(b);
  uint64_t different = 0;
  for (std::size_t i = 0; i < x.size(); i++) different |= (x[i] ^ y[i]) & judged[i];
  return different == 0;
}

prm::MiniCqe mini_of(const prm::Cqe& cqe, MiniFormat format) noexcept {
  if (format == MiniFormat::hash) return {cqe.rx_hash_result, cqe.byte_cnt};
  const uint32_t stride = format == MiniFormat::checksum_stride ? cqe.wqe_counter.host() : 0u;
  return {be32{prm::mini_cqe::checksum::at(cqe.checksum.host()) | stride}, cqe.byte_cnt};
}

void forget(EngineContext& context, const Cq& cq) noexcept {
  Cq** at = &context.open_blocks;
  while (*at != &cq) at = &(*at)->block->next_open;
  *at = cq.block->next_open;
}

// The minis, then the title: who sees it sees them.
bool store_block(const EngineContext& context, Cq& cq, uint32_t count) noexcept {
  CqeBlock& b = *cq.block;
  constexpr uint32_t in_entry = prm::mini_cqe::in_entry;
  const bool wrapped = (cq.producer & cq.spec.cqe_count) != 0;
  b.title.op_own = prm::cqe::op_own(prm::CqeOpcode::resp_send, false, wrapped);
  if (count == 1) return store_entry(context, cq, b.title);
  std::fill(b.minis.begin() + count, b.minis.begin() + (count + in_entry - 1) / in_entry * in_entry,
            prm::MiniCqe{});
  for (uint32_t i = 0; i < count; i += in_entry) {
    const uint64_t at = entry_address(cq, cq.producer + prm::mini_cqe::entry_of(i));
    if (!memory::dma::copy_out(Va{at}, &b.minis[i], sizeof(prm::Cqe))) return false;
  }
  b.title.byte_cnt = be32{count};
  b.title.op_own |= prm::cqe::compressed;
  return store_entry(context, cq, b.title);
}

}  // namespace

bool close_block(EngineContext& context, Cq& cq) noexcept {
  const uint32_t count = std::exchange(cq.held, 0);
  if (count == 0) return !cq.error;
  forget(context, cq);
  if (cq.error) return false;
  if (!store_block(context, cq, count)) {
    fail_cq(context, cq, "the memory of a CQ is gone");
    return false;
  }
  cq.producer = (cq.producer + count) & prm::arm::index_mask;
  if (cq.armed) fire_if_due(context, cq);
  return true;
}

void close_blocks(EngineContext& context) noexcept {
  while (context.open_blocks != nullptr) (void)close_block(context, *context.open_blocks);
}

bool write_or_hold(EngineContext& context, Cq& cq, prm::Cqe& cqe, uint16_t next) noexcept {
  CqeBlock& b = *cq.block;
  cqe.timestamp = be64{stamp(context, cq)};
  cqe.signature = 0;
  // A block lies in one piece, never around the end of the ring: DPDK 22.11's vectorised receive
  // goes through its entries, and through as many buffers, without a mask
  // (drivers/net/mlx5/mlx5_rxtx_vec_sse.h, rxq_cq_decompress_v()).
  const uint32_t to_end = cq.spec.cqe_count - (cq.producer & (cq.spec.cqe_count - 1));
  const uint32_t most = std::min(most_compressed, to_end);
  const bool follows =
      cq.held < most && cqe.wqe_counter.host() == b.next_counter && alike(b.title, cqe);
  if (cq.held != 0 && !follows && !close_block(context, cq)) return false;
  if (!claim_entry(context, cq)) return false;
  if (cq.held == 0) {
    b.title = cqe;
    b.next_open = std::exchange(context.open_blocks, &cq);
  }
  b.minis[cq.held++] = mini_of(cqe, cq.spec.mini);
  b.next_counter = next;
  return true;
}

}  // namespace kilim::vhca::wq
