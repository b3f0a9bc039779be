// SPDX-License-Identifier: BSD-3-Clause
// PRM: "MMO Work Request Operation". Adapter's lock held. Never allocates.
#include "vhca/transport/dma_copy.hh"

#include "kilim/prm/data_seg.hh"
#include "vhca/core/journal.hh"

namespace kilim::vhca::transport {

namespace {

using prm::Syndrome;

constexpr uint8_t opmod_dma = 1;
constexpr std::size_t metadata_bytes = 16;  // where other operations of this opcode keep results

}  // namespace

Verdict exec_dma_copy(wq::EngineContext& context, const wq::Qp& qp,
                      const wq::SendWqe& wqe) noexcept {
  if (context.profile->log_max_dma_copy == 0 || wqe.opmod != opmod_dma)
    return {Syndrome::local_qp_op, "an operation that the queue does not know"};
  wq::DataList data;
  if (wqe.body().size() < metadata_bytes || !wq::decode_data(wqe.body(), metadata_bytes, data) ||
      data.count != 2 || data.segments[0].immediate || data.segments[1].immediate)
    return {Syndrome::local_qp_op, "a copy needs one source and one target"};
  const tpt::Segment& from = data.segments[0];
  const tpt::Segment& to = data.segments[1];
  if (from.bytes != to.bytes || from.bytes > uint64_t{1} << context.profile->log_max_dma_copy)
    return {Syndrome::local_length, "length of a copy"};
  tpt::Access reads{qp.spec.pd, qp.qpn.value(), prm::mkey::local_read};
  tpt::Access writes{qp.spec.pd, qp.qpn.value(), prm::mkey::local_write};
  tpt::Transfer t =
      tpt::move_bytes(context.translator, {{&from, 1}, reads}, {{&to, 1}, writes}, from.bytes);
  if (!t.ok()) return (!t.source.ok() ? t.source : t.target).given_up();
  context.journal->translated(from.key, t.pieces, from.bytes);
  return Verdict::done();
}

}  // namespace kilim::vhca::transport
