// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_RMP", "QUERY_RMP", "DESTROY_RMP": memory for the receives of many queue pairs of
// DevX clients, to the engine a shared receive queue. Adapter's lock held.
#include "kilim/prm/qp_context.hh"
#include "kilim/prm/queue_cmd.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/devx_wq.hh"
#include "vhca/hca/objects.hh"

namespace kilim::vhca::hca::commands {

Answer make_rmp(Hca& h, const Client& client, In in, Out out) {
  const In context = in.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  const In w = context.subspan(prm::wq_context::at);
  SrqSpec spec;
  if (!fill_shared_ring(w, spec) ||
      prm::cap_get(context, prm::rmpc::state) != prm::queue_cmd::state_ready)
    return refused(Status::bad_param, Refusal::rmp_context,
                   refusal::clash("rmpc.state", prm::cap_get(context, prm::rmpc::state),
                                  prm::cap_get(w, prm::wq_context::wq_type)));
  const auto place = find_wq(h, client, w, spec.wqe_shift);
  if (!place) return noted(Status::bad_resource, Refusal::no_such_umem);
  if (!owns_pd(h, client, spec.pd)) return no_such(Refusal::no_such_pd, "pd", spec.pd.value());
  spec.buf = place->ring;
  spec.record = place->record;
  spec.owner = client.owner;
  const Result<uint32_t> rmpn = create_srq(h, spec, client.sink);
  if (!rmpn) return refused(Status::bad_param, Refusal::rmp_context, refusal::of(rmpn.error()));
  h.umems.hold({prm::cmd::destroy_rmp, *rmpn}, place->umems);
  return made(out, *rmpn);
}

Answer end_rmp(Hca& h, In in, Out) {
  const uint32_t number = number_in(in);
  if (h.srqs.at(number) == nullptr) return no_such(Refusal::no_such_queue, "rmpn", number_in(in));
  if (destroy_srq(h, number) != 0) return noted(Status::bad_res_state, Refusal::object_in_use);
  h.umems.let_go({prm::cmd::destroy_rmp, number});
  return {};
}

Answer query_rmp(Hca& h, In in, Out out) {
  const wq::Srq* srq = h.srqs.at(number_in(in));
  if (srq == nullptr) return no_such(Refusal::no_such_queue, "rmpn", number_in(in));
  const Out context = out.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  prm::cap_set(context, prm::rmpc::state, prm::queue_cmd::state_ready);
  tell_shared_ring(h, context.subspan(prm::wq_context::at), *srq, prm::cmd::destroy_rmp);
  return {};
}

}  // namespace kilim::vhca::hca::commands
