// SPDX-License-Identifier: BSD-3-Clause
// Requests as values. Adapter's lock held. Never allocates.
#include "vhca/transport/request.hh"

#include <algorithm>
#include <cstring>

#include "kilim/prm/av_seg.hh"
#include "kilim/prm/data_seg.hh"

namespace kilim::vhca::transport {

namespace {

using prm::Opcode;
using prm::Syndrome;
using roce::Op;
using Kind = RequestKind;

// clang-format off
constexpr RequestRow rows[] = {
    {Opcode::send,           Kind::send,   true,  Op::send_first,   Op::send_middle,  Op::send_last,       Op::send_only},
    {Opcode::send_imm,       Kind::send,   true,  Op::send_first,   Op::send_middle,  Op::send_last_imm,   Op::send_only_imm},
    {Opcode::send_inval,     Kind::send,   false, Op::send_first,   Op::send_middle,  Op::send_last_inval, Op::send_only_inval},
    {Opcode::rdma_write,     Kind::write,  true,  Op::write_first,  Op::write_middle, Op::write_last,      Op::write_only},
    {Opcode::rdma_write_imm, Kind::write,  true,  Op::write_first,  Op::write_middle, Op::write_last_imm,  Op::write_only_imm},
    {Opcode::rdma_read,      Kind::read,   false, Op::read_request, Op::read_request, Op::read_request,    Op::read_request},
    {Opcode::atomic_cs,      Kind::atomic, false, Op::compare_swap, Op::compare_swap, Op::compare_swap,    Op::compare_swap},
    {Opcode::atomic_fa,      Kind::atomic, false, Op::fetch_add,    Op::fetch_add,    Op::fetch_add,       Op::fetch_add},
};
// clang-format on

template <typename Segment>
bool take(std::span<const std::byte> body, std::size_t& at, Segment& s) noexcept {
  if (body.size() < at + sizeof(s)) return false;
  std::memcpy(&s, body.data() + at, sizeof(s));
  at += sizeof(s);
  return true;
}

// Reads the segments before the data; false: the WQE is too short.
bool read_head(const wq::Qp& qp, Kind kind, std::span<const std::byte> body, std::size_t& at,
               RequestData& r) noexcept {
  if (qp.type == QpType::xrc_ini) {
    prm::XrcSeg xrc;
    if (!take(body, at, xrc)) return false;
    r.srqn = xrc.srqn.host() & roce::psn_mask;
  }
  if (qp.type == QpType::dci && !take(body, at, r.to)) return false;
  if (kind == Kind::send) return true;
  prm::RaddrSeg raddr;
  if (!take(body, at, raddr)) return false;
  r.remote_addr = raddr.raddr.host();
  r.rkey = raddr.rkey.host();
  if (kind != Kind::atomic) return true;
  prm::AtomicSeg atomic;
  if (!take(body, at, atomic)) return false;
  r.swap_add = atomic.swap_add.host();
  r.compare = atomic.compare.host();
  return true;
}

bool has_inline_data(const wq::DataList& data) noexcept {
  return std::any_of(data.segments.begin(), data.segments.begin() + data.count,
                     [](const tpt::Segment& s) { return s.immediate; });
}

}  // namespace

const RequestRow* request_row(QpType type, uint8_t opcode) noexcept {
  for (const RequestRow& row : rows) {
    if (static_cast<uint8_t>(row.opcode) != opcode) continue;
    return type != QpType::uc || row.unreliable ? &row : nullptr;
  }
  return nullptr;
}

Verdict read_request(const wq::Qp& qp, const RequestRow& row, const wq::SendWqe& wqe,
                     RequestData& r) noexcept {
  std::span<const std::byte> body = wqe.body();
  std::size_t at = 0;
  // Why mlx5_ib says that a READ has 30 segments (MLX5_MAX_SGE_RD, include/linux/mlx5/device.h).
  if (row.kind == Kind::read && wqe.ds > prm::max_read_ds)
    return malformed("a READ of more than 512 bytes");
  if (!read_head(qp, row.kind, body, at, r)) return malformed("WQE shorter than its opcode");
  if (qp.type == QpType::dci && prm::av::extended::get(r.to) == 0)
    return malformed("an address without its second half");
  if (!wq::decode_data(body, at, r.data)) return malformed("data segments beyond the WQE");
  if (is_answered(row.kind) && has_inline_data(r.data))
    return malformed("an answer cannot go into the WQE");
  r.bytes = row.kind == Kind::atomic ? 8 : r.data.total;
  // A port's longest message bounds the sum of the segments (IBTA 10.8.6, Local Length Error).
  if (r.data.total > qp.spec.max_message || r.data.total < r.bytes)
    return {Syndrome::local_length, "length of a message"};
  return Verdict::done();
}

Verdict check_own_memory(const wq::EngineContext& context, const wq::Qp& qp, const RequestRow& row,
                         const RequestData& r) noexcept {
  uint32_t bad_key = 0;
  tpt::SegmentList list = own_memory(qp, row.kind, r);
  Verdict d = tpt::check_list(context.translator, list, r.bytes, bad_key);
  if (d.ok()) d = tpt::page_in(context.translator, list, r.bytes);
  return d;
}

}  // namespace kilim::vhca::transport
