// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ALLOC_FLOW_COUNTER", "QUERY_FLOW_COUNTER", "DEALLOC_FLOW_COUNTER": one at a time, read by
// the command; many at once and into memory are not offered. Adapter's lock held.
#include "kilim/prm/queue_cmd.hh"
#include "vhca/hca/commands.hh"

namespace kilim::vhca::commands {

Answer make_flow_counter(Hca& h, In in, Out out) {
  namespace f = prm::flow_counter;
  if (prm::cap_get(in, f::bulk) != 0 || prm::cap_get(in, f::bulk_log_size) != 0)
    return {Status::bad_param, Refusal::reserved};
  uint32_t number = 0;
  if (h.flow_counters.create(number) == nullptr)
    return {Status::no_resources, Refusal::no_more_objects};
  return made(out, number);
}

Answer end_flow_counter(Hca& h, In in, Out) {
  if (h.flow_counters.at(number_in(in)) == nullptr)
    return {Status::bad_resource, Refusal::no_such_counter};
  h.flow_counters.destroy(number_in(in));
  return {};
}

Answer query_flow_counter(Hca& h, In in, Out out) {
  namespace f = prm::flow_counter;
  FlowCount* counter = h.flow_counters.at(read<be32>(in, f::number).host() & 0xffffff);
  if (counter == nullptr) return {Status::bad_resource, Refusal::no_such_counter};
  if (prm::cap_get(in, f::dump_to_memory) != 0 || prm::cap_get(in, f::num_of_counters) > 1)
    return {Status::bad_param, Refusal::reserved};
  const be64 packets{counter->packets}, octets{counter->bytes};
  std::memcpy(out.data() + f::packets, &packets, sizeof packets);
  std::memcpy(out.data() + f::octets, &octets, sizeof octets);
  if (prm::cap_get(in, f::clear) != 0) *counter = {};
  return {};
}

}  // namespace kilim::vhca::commands
