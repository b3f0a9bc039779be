// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ALLOC_TRANSPORT_DOMAIN", "CREATE_TIS", "QUERY_TIS" and what ends these. A TIS says of send
// queues in which domain they are; nothing else here follows from it. Adapter's lock held.
#include <cerrno>

#include "kilim/prm/queue_cmd.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/objects.hh"

namespace kilim::vhca::hca {

Result<uint32_t> alloc_domain(Hca& h, const EventSink* open) {
  uint32_t number = 0;
  TransportDomain* domain = h.domains.create(number);
  if (domain == nullptr) return Error{ENOMEM, "no more transport domains"};
  domain->open = open;
  return number;
}

int dealloc_domain(Hca& h, uint32_t number) {
  const TransportDomain* domain = h.domains.at(number);
  if (domain == nullptr) return -EINVAL;
  if (domain->users != 0) return -EBUSY;
  h.domains.destroy(number);
  return 0;
}

Result<uint32_t> create_tis(Hca& h, uint32_t number, const EventSink* open) {
  TransportDomain* domain = h.domains.at(number);
  if (domain == nullptr || domain->open != open) return Error{EINVAL, "no such transport domain"};
  uint32_t tisn = 0;
  Tis* tis = h.tises.create(tisn);
  if (tis == nullptr) return Error{ENOMEM, "the adapter has no more TISes"};
  tis->domain = number;
  tis->open = open;
  domain->users++;
  return tisn;
}

int destroy_tis(Hca& h, uint32_t tisn) {
  const Tis* tis = h.tises.at(tisn);
  if (tis == nullptr) return -EINVAL;
  if (tis->users != 0) return -EBUSY;
  h.domains.at(tis->domain)->users--;
  h.tises.destroy(tisn);
  return 0;
}

namespace commands {

Answer make_domain(Hca& h, const Client& client, In, Out out) {
  const Result<uint32_t> domain = alloc_domain(h, client.sink);
  if (!domain) return {Status::no_resources, Refusal::no_more_objects};
  return made(out, *domain);
}

Answer end_domain(Hca& h, In in, Out) {
  const int rc = dealloc_domain(h, number_in(in));
  if (rc == -EINVAL) return {Status::bad_resource, Refusal::no_such_domain};
  if (rc != 0) return {Status::bad_res_state, Refusal::object_in_use};
  return {};
}

Answer make_tis(Hca& h, const Client& client, In in, Out out) {
  const In context = in.subspan(prm::queue_cmd::context, prm::tisc::bytes);
  const uint32_t domain = prm::cap_get(context, prm::tisc::transport_domain);
  const Result<uint32_t> tisn = create_tis(h, domain, client.sink);
  if (tisn) return made(out, *tisn);
  if (tisn.error().code == ENOMEM) return {Status::no_resources, Refusal::no_more_objects};
  return {Status::bad_resource, Refusal::no_such_domain};
}

Answer end_tis(Hca& h, In in, Out) {
  const int rc = destroy_tis(h, number_in(in));
  if (rc == -EINVAL) return {Status::bad_resource, Refusal::no_such_tis};
  if (rc != 0) return {Status::bad_res_state, Refusal::object_in_use};
  return {};
}

Answer query_tis(Hca& h, In in, Out out) {
  const Tis* tis = h.tises.at(number_in(in));
  if (tis == nullptr) return {Status::bad_resource, Refusal::no_such_tis};
  prm::cap_set(out.subspan(prm::tisc::answer, prm::tisc::bytes), prm::tisc::transport_domain,
               tis->domain);
  return {};
}

}  // namespace commands

}  // namespace kilim::vhca::hca
