// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_CQ", "DESTROY_CQ", "MODIFY_CQ", "QUERY_CQ" of DevX clients. Adapter's lock held.
#include <array>
#include <bit>
#include <optional>

#include "kilim/prm/queue_cmd.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/objects.hh"

namespace kilim::vhca::hca::commands {

namespace {

constexpr uint32_t format_real_time = 1;

// Linux include/linux/mlx5/device.h, MLX5_CQE_FORMAT_*; the extended formats (2) carry flow tags
// and layers, which are not offered (mini_cqe_resp_flow_tag, mini_cqe_resp_l3_l4_tag).
constexpr uint32_t hash = 0, checksum = 1, checksum_stride = 3;

std::optional<MiniFormat> mini_of(In context) {
  if (prm::cap_get(context, prm::cqc::cqe_comp_en) == 0) return MiniFormat::none;
  if (prm::cap_get(context, prm::cqc::cqe_comp_layout) != 0) return std::nullopt;
  switch (prm::cap_get(context, prm::cqc::mini_cqe_res_format)) {
    case hash:
      return MiniFormat::hash;
    case checksum:
      return MiniFormat::checksum;
    case checksum_stride:
      return MiniFormat::checksum_stride;
    default:
      return std::nullopt;
  }
}

uint32_t code_of(MiniFormat mini) {
  if (mini == MiniFormat::hash) return hash;
  return mini == MiniFormat::checksum ? checksum : checksum_stride;
}

// What the adapter does not have, or no queue can be.
bool context_fits(const Profile& p, In context, std::optional<MiniFormat> mini) {
  namespace c = prm::cqc;
  const uint32_t times = p.real_time_clock ? format_real_time : 0, sizes = p.cqe_padding ? 2 : 1;
  const FieldRange ranges[] = {
      {"cqc.cqe_sz", c::cqe_sz, 0, sizes},
      {"cqc.cqe_comp_en", c::cqe_comp_en, 0, p.cqe_compression},
      {"cqc.cq_timestamp_format", c::cq_timestamp_format, 0, times},
      {"cqc.c_eqn", c::c_eqn, completion_event_queue, completion_event_queue},
      {"cqc.log_cq_size", c::log_cq_size, 0, log_of(p.max_cqe + 1ull)}};
  // A block of compressed entries takes several places, of which a collapsed queue has one.
  const bool collapsed = prm::cap_get(context, c::cc) != 0;
  const bool compresses = mini && *mini != MiniFormat::none;
  if (!lie_within(context, ranges)) return false;
  if (mini && !(compresses && collapsed)) return true;
  refusal::clash("cqc.mini_cqe_res_format", prm::cap_get(context, c::mini_cqe_res_format),
                 collapsed ? 1 : 0);
  return false;
}

CqSpec cq_spec(In context, MiniFormat mini) {
  namespace c = prm::cqc;
  CqSpec s;
  const uint32_t size = prm::cap_get(context, c::cqe_sz);
  s.cqe_count = 1u << prm::cap_get(context, c::log_cq_size);
  s.cqe_bytes = size == 0 ? 64 : 128;
  s.padded = size == 2;
  s.uar_page = prm::cap_get(context, c::uar_page);
  s.ignore_overrun = prm::cap_get(context, c::oi) != 0;
  s.collapsed = prm::cap_get(context, c::cc) != 0;
  s.time_of_day = prm::cap_get(context, c::cq_timestamp_format) == format_real_time;
  s.mini = mini;
  return s;
}

}  // namespace

Answer make_cq(Hca& h, const Client& client, In in, Out out) {
  constexpr uint64_t record_bytes = 8;
  namespace c = prm::cq_cmd;
  const In context = in.subspan(c::context, c::context_bytes);
  const auto mini = mini_of(context);
  if (!context_fits(h.config.profile, context, mini))
    return noted(Status::bad_param, Refusal::cq_context);
  CqSpec spec = cq_spec(context, *mini);
  if (prm::cap_get(in, c::umem_valid) == 0 || prm::cap_get(context, prm::cqc::dbr_umem_valid) == 0)
    return refused(Status::bad_param, Refusal::no_such_umem,
                   refusal::equal("cq_umem_valid and dbr_umem_valid", 0, 1));
  const std::array<uint32_t, 2> umems{prm::cap_get(in, c::umem_id),
                                      prm::cap_get(context, prm::cqc::dbr_umem_id)};
  const auto ring = h.umems.find(client.sink, {umems[0], read<be64>(in, c::umem_offset).host(),
                                               uint64_t{spec.cqe_count} * spec.cqe_bytes, true});
  const auto record = h.umems.find(
      client.sink, {umems[1], read<be64>(context, prm::cqc::dbr_addr).host(), record_bytes});
  if (!ring || !record)
    return no_such(Refusal::no_such_umem, ring ? "cqc.dbr_umem_id" : "cq_umem_id",
                   ring ? umems[1] : umems[0]);
  if (!owns_uar(h, client, spec.uar_page))
    return refused(Status::bad_param, Refusal::no_such_uar,
                   refusal::absent("uar_page", spec.uar_page));
  spec.buf = *ring;
  spec.record = *record;
  spec.record_read_only = !h.umems.writable(umems[1]);
  spec.owner = client.owner;
  const Result<Cqn> cqn = create_cq(h, spec, client.sink);
  if (!cqn) return refused(Status::bad_param, Refusal::cq_context, refusal::of(cqn.error()));
  const auto count = static_cast<uint16_t>(prm::cap_get(context, prm::cqc::cq_max_count));
  const auto period = static_cast<uint16_t>(prm::cap_get(context, prm::cqc::cq_period));
  if (count != 0 || period != 0) (void)moderate_cq(h, *cqn, count, period);
  h.umems.hold({prm::cmd::destroy_cq, cqn->value()}, umems);
  return made(out, cqn->value());
}

Answer end_cq(Hca& h, In in, Out) {
  const uint32_t number = number_in(in);
  if (h.cqs.at(number) == nullptr) return no_such(Refusal::no_such_cq, "cqn", number_in(in));
  if (destroy_cq(h, Cqn{number}) != 0) return noted(Status::bad_res_state, Refusal::object_in_use);
  h.umems.let_go({prm::cmd::destroy_cq, number});
  return {};
}

// Of what the mask may name, moderation.
Answer change_cq(Hca& h, In in, Out) {
  constexpr std::size_t mask_at = 12;
  constexpr uint32_t period_and_count = 3;
  const uint32_t number = number_in(in);
  const In context = in.subspan(prm::cq_cmd::context, prm::cq_cmd::context_bytes);
  if (h.cqs.at(number) == nullptr) return no_such(Refusal::no_such_cq, "cqn", number_in(in));
  if ((read<be32>(in, mask_at).host() & ~period_and_count) != 0)
    return refused(
        Status::bad_param, Refusal::cq_context,
        refusal::bits("modify_field_select", read<be32>(in, mask_at).host(), period_and_count));
  const auto count = static_cast<uint16_t>(prm::cap_get(context, prm::cqc::cq_max_count));
  const auto period = static_cast<uint16_t>(prm::cap_get(context, prm::cqc::cq_period));
  if (moderate_cq(h, Cqn{number}, count, period) != 0)
    return noted(Status::bad_param, Refusal::cq_context);
  return {};
}

Answer query_cq(Hca& h, In in, Out out) {
  namespace c = prm::cqc;
  constexpr uint32_t failed = 0xa;  // PRM: "CQ Context", status: overflow
  const wq::Cq* cq = h.cqs.at(number_in(in));
  if (cq == nullptr) return no_such(Refusal::no_such_cq, "cqn", number_in(in));
  const Out context = out.subspan(prm::cq_cmd::context, prm::cq_cmd::context_bytes);
  prm::cap_set(context, c::status, cq->error ? failed : 0);
  prm::cap_set(context, c::cqe_sz, cq->spec.cqe_bytes == 64 ? 0 : cq->spec.padded ? 2 : 1);
  prm::cap_set(context, c::oi, cq->spec.ignore_overrun);
  prm::cap_set(context, c::cc, cq->spec.collapsed);
  prm::cap_set(context, c::log_cq_size,
               static_cast<uint32_t>(std::countr_zero(cq->spec.cqe_count)));
  prm::cap_set(context, c::uar_page, cq->spec.uar_page);
  prm::cap_set(context, c::c_eqn, completion_event_queue);
  prm::cap_set(context, c::cq_timestamp_format, cq->spec.time_of_day ? format_real_time : 0);
  prm::cap_set(context, c::cq_max_count, cq->moderation_count);
  prm::cap_set(context, c::cq_period, static_cast<uint32_t>(cq->moderation_ns / 1000));
  if (cq->spec.mini != MiniFormat::none) {
    prm::cap_set(context, c::cqe_comp_en, 1);
    prm::cap_set(context, c::mini_cqe_res_format, code_of(cq->spec.mini));
  }
  const auto umems = h.umems.held({prm::cmd::destroy_cq, cq->cqn.value()});
  if (umems.size() == 2) {
    prm::cap_set(context, c::dbr_umem_valid, 1);
    prm::cap_set(context, c::dbr_umem_id, umems[1]);
    put(context, c::dbr_addr, be64{h.umems.offset(umems[1], cq->spec.record)});
  }
  prm::cap_set(context, c::consumer_counter, cq->consumer);
  prm::cap_set(context, c::producer_counter, cq->producer);
  return {};
}

}  // namespace kilim::vhca::hca::commands
