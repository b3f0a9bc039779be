// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_RQ", "MODIFY_RQ", "DESTROY_RQ", "QUERY_RQ" of DevX clients. Adapter's lock held.
#include <optional>

#include "kilim/prm/queue_cmd.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/devx_wq.hh"
#include "vhca/hca/objects.hh"

namespace kilim::vhca::hca::commands {

namespace {

// Hairpin queues, shared memory (RMP) and delayed drops are not offered, nor what the profile
// lacks.
bool rq_fits(const Profile& p, In context) {
  namespace r = prm::rqc;
  const FieldRange ranges[] = {
      {"rqc.hairpin", r::hairpin, 0, 0},
      {"rqc.mem_rq_type", r::mem_rq_type, 0, 0},
      {"rqc.delay_drop_en", r::delay_drop_en, 0, 0},
      {"rqc.vsd", r::vsd, p.vlan_stripping ? 0u : 1u, 1},
      {"rqc.scatter_fcs", r::scatter_fcs, 0, p.scatter_fcs},
      {"rqc.state", r::state, prm::queue_cmd::state_reset, prm::queue_cmd::state_reset}};
  if (!p.raw_packet) refusal::lacks("a receive queue of frames");
  return p.raw_packet && lie_within(context, ranges);
}

// 512 strides and more have numbers from 0 on, 8 to 256 the ones from 10 on (Linux
// drivers/infiniband/hw/mlx5/qp.c, create_raw_packet_qp_rq(), fw_map).
constexpr uint32_t first_few = 10;

// Of the type of ring; what a WQE's strides may be create_rq() knows.
bool fill_ring(In wq, RqSpec& s) {
  namespace w = prm::wq_context;
  const uint32_t type = prm::cap_get(wq, w::wq_type);
  if (type != w::cyclic && type != w::cyclic_striding) {
    refusal::range("wq.wq_type", type, w::cyclic, w::cyclic_striding);
    return false;
  }
  s.wqes = 1u << prm::cap_get(wq, w::log_wq_sz);
  s.wqe_shift = prm::cap_get(wq, w::log_wq_stride);
  s.signature = prm::cap_get(wq, w::wq_signature) != 0;
  if (type == w::cyclic) return true;
  const uint32_t strides = prm::cap_get(wq, w::single_wqe_log_num_of_strides);
  s.log_strides =
      static_cast<uint8_t>(strides < first_few ? strides + w::min_log_strides
                                               : strides - first_few + stride::least_log_count);
  s.log_stride_bytes = static_cast<uint8_t>(prm::cap_get(wq, w::single_stride_log_num_of_bytes) +
                                            w::min_log_stride_bytes);
  s.two_byte_shift = prm::cap_get(wq, w::two_byte_shift_en) != 0;
  return true;
}

uint32_t rq_state(const wq::Qp& rq) {
  if (rq.state == QpState::reset) return prm::queue_cmd::state_reset;
  return rq.state == QpState::err ? prm::queue_cmd::state_error : prm::queue_cmd::state_ready;
}

std::optional<RqState> state_named(uint32_t state) {
  switch (state) {
    case prm::queue_cmd::state_reset:
      return RqState::reset;
    case prm::queue_cmd::state_ready:
      return RqState::ready;
    case prm::queue_cmd::state_error:
      return RqState::err;
    default:
      return std::nullopt;
  }
}

// Of counter set 0, which is nobody's, nothing is told. False: there is no such set.
bool use_counter(Hca& h, wq::Qp& rq, uint32_t number) {
  wq::QCounter* counter = number != 0 ? h.q_counters.at(number) : nullptr;
  if (number != 0 && counter == nullptr) return false;
  if (rq.counter != nullptr) rq.counter->users--;
  rq.counter = counter;
  if (counter != nullptr) counter->users++;
  return true;
}

uint32_t number_of(const Hca& h, const wq::QCounter* counter) {
  constexpr uint32_t most = 0xff;
  for (uint32_t i = 1; counter != nullptr && i <= most; i++) {
    if (h.q_counters.at(i) == counter) return i;
  }
  return 0;
}

// What fill_ring() has read, and where the ring lies.
void tell_ring(const Hca& h, Out wq, const wq::Qp& rq) {
  namespace w = prm::wq_context;
  WqShape shape{{prm::cmd::destroy_rq, rq.qpn.value()}};
  shape.type = rq.rq.striding() ? w::cyclic_striding : w::cyclic;
  shape.pd = rq.spec.pd.value();
  shape.wqes = rq.rq.wqes;
  shape.log_stride = rq.rq.shift;
  shape.ring = Va{rq.rq.base};
  shape.record = rq.spec.record;
  tell_wq(h, wq, shape);
  prm::cap_set(wq, w::wq_signature, rq.spec.rq_signature);
  if (!rq.rq.striding()) return;
  const uint32_t strides = rq.rq.log_strides;
  prm::cap_set(wq, w::single_wqe_log_num_of_strides,
               strides >= w::min_log_strides ? strides - w::min_log_strides
                                             : strides - stride::least_log_count + first_few);
  prm::cap_set(wq, w::single_stride_log_num_of_bytes,
               rq.rq.log_stride - uint32_t{w::min_log_stride_bytes});
  prm::cap_set(wq, w::two_byte_shift_en, rq.rq.two_bytes);
}

}  // namespace

Answer make_rq(Hca& h, const Client& client, In in, Out out) {
  namespace r = prm::rqc;
  const In context = in.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  const In wq = context.subspan(prm::wq_context::at);
  RqSpec spec;
  if (!rq_fits(h.config.profile, context) || !fill_ring(wq, spec))
    return noted(Status::bad_param, Refusal::rq_context);
  const auto place = find_wq(h, client, wq, spec.wqe_shift);
  if (!place) return noted(Status::bad_resource, Refusal::no_such_umem);
  const uint32_t counter = prm::cap_get(context, r::counter_set_id);
  if (counter != 0 && find_own(h.q_counters, client, counter) == nullptr)
    return no_such(Refusal::no_such_counter, "rqc.counter_set_id", counter);
  spec.pd = Pdn{prm::cap_get(wq, prm::wq_context::pd)};
  spec.cq = Cqn{prm::cap_get(context, r::cqn)};
  if (!owns_cq(h, client, spec.cq)) return no_such(Refusal::no_such_cq, "cqn", spec.cq.value());
  if (!owns_pd(h, client, spec.pd)) return no_such(Refusal::no_such_pd, "pd", spec.pd.value());
  spec.buf = place->ring;
  spec.record = place->record;
  spec.uidx = prm::cap_get(context, r::user_index);
  spec.strip_vlan = prm::cap_get(context, r::vsd) == 0;
  spec.scatter_fcs = prm::cap_get(context, r::scatter_fcs) != 0;
  spec.owner = client.owner;
  const Result<uint32_t> rqn = create_rq(h, spec, client.sink);
  if (!rqn) return refused(Status::bad_param, Refusal::rq_context, refusal::of(rqn.error()));
  (void)use_counter(h, *h.rqs.at(*rqn), counter);
  h.umems.hold({prm::cmd::destroy_rq, *rqn}, place->umems);
  return made(out, *rqn);
}

Answer change_rq(Hca& h, const Client& client, In in, Out) {
  namespace r = prm::rqc;
  const In context = in.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  wq::Qp* rq = h.rqs.at(number_in(in));
  if (rq == nullptr) return no_such(Refusal::no_such_queue, "rqn", number_in(in));
  const uint64_t mask = read<be64>(in, prm::queue_cmd::modify_bitmask).host();
  const auto from = state_named(prm::cap_get(in, prm::queue_cmd::state_now));
  const auto to = state_named(prm::cap_get(context, r::state));
  const bool strips = prm::cap_get(context, r::vsd) == 0;
  if ((mask & ~(r::mask_vsd | r::mask_counter_set)) != 0 || !from || !to ||
      ((mask & r::mask_vsd) != 0 && strips && !h.config.profile.vlan_stripping))
    return refused(Status::bad_param, Refusal::rq_context,
                   refusal::clash("modify_bitmask", mask, prm::cap_get(context, r::state)));
  const uint32_t counter = prm::cap_get(context, r::counter_set_id);
  if ((mask & r::mask_counter_set) != 0 && counter != 0 &&
      find_own(h.q_counters, client, counter) == nullptr)
    return no_such(Refusal::no_such_counter, "rqc.counter_set_id", counter);
  const RqChange change{*from, *to, (mask & r::mask_vsd) != 0, strips};
  if (modify_rq(h, number_in(in), change) != 0)
    return noted(Status::bad_res_state, Refusal::queue_state);
  if ((mask & r::mask_counter_set) != 0) (void)use_counter(h, *rq, counter);
  return {};
}

Answer end_rq(Hca& h, In in, Out) {
  const uint32_t number = number_in(in);
  wq::Qp* rq = h.rqs.at(number);
  if (rq == nullptr) return no_such(Refusal::no_such_queue, "rqn", number_in(in));
  if (rq->places != 0)
    return refused(Status::bad_res_state, Refusal::object_in_use, refusal::busy("rqn", rq->places));
  (void)use_counter(h, *rq, 0);
  if (destroy_rq(h, number) != 0) return noted(Status::bad_res_state, Refusal::object_in_use);
  h.umems.let_go({prm::cmd::destroy_rq, number});
  return {};
}

Answer query_rq(Hca& h, In in, Out out) {
  const wq::Qp* rq = h.rqs.at(number_in(in));
  if (rq == nullptr) return no_such(Refusal::no_such_queue, "rqn", number_in(in));
  const Out context = out.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  prm::cap_set(context, prm::rqc::state, rq_state(*rq));
  prm::cap_set(context, prm::rqc::vsd, !rq->spec.strip_vlan);
  prm::cap_set(context, prm::rqc::scatter_fcs, rq->spec.scatter_fcs);
  prm::cap_set(context, prm::rqc::user_index, rq->spec.uidx);
  prm::cap_set(context, prm::rqc::cqn, rq->recv_cq->cqn.value());
  prm::cap_set(context, prm::rqc::counter_set_id, number_of(h, rq->counter));
  tell_ring(h, context.subspan(prm::wq_context::at), *rq);
  return {};
}

}  // namespace kilim::vhca::hca::commands
