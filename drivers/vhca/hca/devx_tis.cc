// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ALLOC_TRANSPORT_DOMAIN", "CREATE_TIS", "QUERY_TIS" and what ends these. A TIS says of send
// queues in which domain they are; nothing else here follows from it. Adapter's lock held.
#include <cerrno>

#include "kilim/prm/queue_cmd.hh"
#include "vhca/core/refusal.hh"
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
  if (domain == nullptr) return refusal::absent("transport_domain", number);
  if (domain->users != 0) return refusal::busy("the transport domain", domain->users);
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
  if (tis == nullptr) return refusal::absent("tisn", tisn);
  if (tis->users != 0) return refusal::busy("the TIS", tis->users);
  h.domains.at(tis->domain)->users--;
  h.tises.destroy(tisn);
  return 0;
}

namespace commands {

Answer make_domain(Hca& h, const Client& client, In, Out out) {
  const Result<uint32_t> domain = alloc_domain(h, client.sink);
  if (!domain)
    return refused(Status::no_resources, Refusal::no_more_objects, refusal::full("tisn"));
  return made(out, *domain);
}

Answer end_domain(Hca& h, In in, Out) {
  const int rc = dealloc_domain(h, number_in(in));
  if (rc == -EINVAL) return no_such(Refusal::no_such_domain, "tisn", number_in(in));
  if (rc != 0) return noted(Status::bad_res_state, Refusal::object_in_use);
  return {};
}

Answer make_tis(Hca& h, const Client& client, In in, Out out) {
  const In context = in.subspan(prm::queue_cmd::context, prm::tisc::bytes);
  const uint32_t domain = prm::cap_get(context, prm::tisc::transport_domain);
  const Result<uint32_t> tisn = create_tis(h, domain, client.sink);
  if (tisn) return made(out, *tisn);
  if (tisn.error().code == ENOMEM)
    return refused(Status::no_resources, Refusal::no_more_objects, refusal::full("tisn"));
  return no_such(Refusal::no_such_domain, "tisc.transport_domain", domain);
}

Answer end_tis(Hca& h, In in, Out) {
  const int rc = destroy_tis(h, number_in(in));
  if (rc == -EINVAL) return no_such(Refusal::no_such_tis, "tisn", number_in(in));
  if (rc != 0) return noted(Status::bad_res_state, Refusal::object_in_use);
  return {};
}

Answer query_tis(Hca& h, In in, Out out) {
  const Tis* tis = h.tises.at(number_in(in));
  if (tis == nullptr) return no_such(Refusal::no_such_tis, "tisn", number_in(in));
  prm::cap_set(out.subspan(prm::tisc::answer, prm::tisc::bytes), prm::tisc::transport_domain,
               tis->domain);
  return {};
}

}  // namespace commands

}  // namespace kilim::vhca::hca
