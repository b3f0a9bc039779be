// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_XRQ", "DESTROY_XRQ", "QUERY_XRQ", "ARM_XRQ" of DevX clients: a shared receive queue
// that matches tags, as verbs' of type IBV_SRQT_TM is (Linux drivers/infiniband/hw/mlx5/srq_cmd.c,
// create_xrq_cmd(), query_xrq_cmd()). Adapter's lock held. Contexts are untrusted.
#include <bit>

#include "kilim/prm/qp_context.hh"
#include "kilim/prm/queue_cmd.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/devx_wq.hh"
#include "vhca/hca/objects.hh"

namespace kilim::vhca::hca::commands {

namespace {

// The engine fetches the data of a rendezvous itself, those of RC queues: that is what the
// capabilities say (rndv_offload_rc), and an XRQ that leaves them to software is not offered.
bool xrq_fits(In context) {
  namespace x = prm::xrqc;
  constexpr FieldRange ranges[] = {{"xrqc.topology", x::topology, x::tag_matching, x::tag_matching},
                                   {"xrqc.offload", x::offload, x::rendezvous, x::rendezvous},
                                   {"xrqc.dc", x::dc, 0, 0},
                                   {"xrqc.log_matching_list_sz", x::log_matching_list_sz, 1, ~0u}};
  return lie_within(context, ranges);
}

}  // namespace

Answer make_xrq(Hca& h, const Client& client, In in, Out out) {
  namespace x = prm::xrqc;
  if (h.config.profile.log_max_tags == 0)
    return refused(Status::bad_op, Refusal::no_tag_matching, refusal::lacks("tag matching"));
  const In context = in.subspan(x::at, x::bytes);
  const In wq = context.subspan(x::wq_at);
  SrqSpec spec;
  if (!xrq_fits(context) || !fill_shared_ring(wq, spec))
    return noted(Status::bad_param, Refusal::xrq_context);
  spec.cq = Cqn{prm::cap_get(context, x::cqn)};
  if (!owns_cq(h, client, spec.cq)) return no_such(Refusal::no_such_cq, "cqn", spec.cq.value());
  const auto place = find_wq(h, client, wq, spec.wqe_shift);
  if (!place) return noted(Status::bad_resource, Refusal::no_such_umem);
  if (!owns_pd(h, client, spec.pd)) return no_such(Refusal::no_such_pd, "pd", spec.pd.value());
  spec.buf = place->ring;
  spec.record = place->record;
  spec.uidx = prm::cap_get(context, x::user_index);
  spec.tags = 1u << prm::cap_get(context, x::log_matching_list_sz);
  spec.owner = client.owner;
  const Result<uint32_t> xrqn = create_srq(h, spec, client.sink);
  if (!xrqn) return refused(Status::bad_param, Refusal::xrq_context, refusal::of(xrqn.error()));
  h.umems.hold({prm::cmd::destroy_xrq, *xrqn}, place->umems);
  return made(out, *xrqn);
}

Answer end_xrq(Hca& h, In in, Out) {
  const uint32_t number = number_in(in);
  if (h.srqs.at(number) == nullptr) return no_such(Refusal::no_such_queue, "xrqn", number_in(in));
  if (destroy_srq(h, number) != 0) return noted(Status::bad_res_state, Refusal::object_in_use);
  h.umems.let_go({prm::cmd::destroy_xrq, number});
  return {};
}

// Verbs' queues of tags are asked too: their handle may stand for an XRQ.
Answer query_xrq(Hca& h, In in, Out out) {
  namespace x = prm::xrqc;
  const wq::Srq* srq = h.srqs.at(number_in(in));
  if (srq == nullptr || srq->tags == nullptr)
    return no_such(Refusal::no_such_queue, "xrqn", number_in(in));
  const Out context = out.subspan(x::at, x::bytes);
  const wq::TagList& tags = *srq->tags;
  prm::cap_set(context, x::state, x::good);
  prm::cap_set(context, x::topology, x::tag_matching);
  prm::cap_set(context, x::offload, x::rendezvous);
  prm::cap_set(context, x::user_index, srq->spec.uidx);
  prm::cap_set(context, x::cqn, srq->spec.cq.value());
  prm::cap_set(context, x::log_matching_list_sz,
               static_cast<uint32_t>(std::countr_zero(srq->spec.tags)));
  prm::cap_set(context, x::append_next_index, tags.next());
  prm::cap_set(context, x::sw_phase_cnt, tags.handled());
  prm::cap_set(context, x::hw_phase_cnt, tags.came());
  tell_shared_ring(h, context.subspan(x::wq_at), *srq, prm::cmd::destroy_xrq);
  return {};
}

// An event when fewer receives than this wait; it comes once for each time that it is set.
Answer arm_xrq(Hca& h, In in, Out) {
  const uint32_t lwm = read<be16>(in, prm::xrqc::arm_lwm).host();
  if (set_srq_limit(h, number_in(in), lwm) != 0)
    return noted(Status::bad_param, Refusal::xrq_context);
  return {};
}

}  // namespace kilim::vhca::hca::commands
