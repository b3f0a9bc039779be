// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ALLOC_FLOW_COUNTER", "QUERY_FLOW_COUNTER", "DEALLOC_FLOW_COUNTER": one at a time or in
// bulks, read by the command; into memory (flow_counters_dump) is not offered. Adapter's lock held.
#include <bit>

#include "kilim/prm/queue_cmd.hh"
#include "vhca/hca/commands.hh"

namespace kilim::vhca::hca::commands {

namespace {

// How many a command asks for: by logarithm, or by a bit of MLX5_FC_BULK_* (Linux
// include/linux/mlx5/mlx5_ifc.h). 1: no bulk; 0: none that there is.
uint32_t counters_asked(In in) {
  namespace f = prm::flow_counter;
  const uint32_t log = prm::cap_get(in, f::bulk_log_size), bit = prm::cap_get(in, f::bulk);
  if (log != 0) return log <= ethernet::FlowCounters::most_log_bulk ? 1u << log : 0;
  if (bit == 0) return 1;
  return std::has_single_bit(bit) ? bit * f::bulk_unit : 0;
}

}  // namespace

Answer make_flow_counter(Hca& h, const Client& client, In in, Out out) {
  const uint32_t count = counters_asked(in);
  if (count == 0)
    return refused(Status::bad_param, Refusal::reserved,
                   refusal::most("flow_counter_bulk_log_size",
                                 prm::cap_get(in, prm::flow_counter::bulk_log_size),
                                 ethernet::FlowCounters::most_log_bulk));
  uint32_t number = 0;
  if (count > 1) {
    if (!h.flow_counters.create_bulk(count, client.sink, number))
      return refused(Status::no_resources, Refusal::no_more_objects,
                     refusal::full("flow_counter_id"));
    return made(out, number);
  }
  FlowCount* counter = h.flow_counters.create(number);
  if (counter == nullptr)
    return refused(Status::no_resources, Refusal::no_more_objects,
                   refusal::full("flow_counter_id"));
  counter->open = client.sink;
  return made(out, number);
}

Answer end_flow_counter(Hca& h, In in, Out) {
  if (h.flow_counters.at(number_in(in)) == nullptr)
    return no_such(Refusal::no_such_counter, "flow_counter_id", number_in(in));
  h.flow_counters.destroy(number_in(in));
  return {};
}

// Some of a bulk, one behind the other.
Answer query_flow_counter(Hca& h, const Client& client, In in, Out out) {
  namespace f = prm::flow_counter;
  const uint32_t first = read<be32>(in, f::number).host() & 0xffffff;
  const uint32_t asked = prm::cap_get(in, f::num_of_counters), count = asked != 0 ? asked : 1;
  if (find_own(h.flow_counters, client, first) == nullptr)
    return no_such(Refusal::no_such_counter, "flow_counter_id", first);
  if (prm::cap_get(in, f::dump_to_memory) != 0 || !h.flow_counters.holds(first, count))
    return refused(Status::bad_param, Refusal::reserved,
                   refusal::clash("num_of_counters", count, prm::cap_get(in, f::dump_to_memory)));
  if (out.size() < f::statistics + std::size_t{count} * f::statistics_bytes)
    return refused(Status::bad_output_len, Refusal::output_length,
                   refusal::bytes("the output", out.size(),
                                  f::statistics + std::size_t{count} * f::statistics_bytes));
  for (uint32_t i = 0; i < count; i++) {
    FlowCount& counter = *h.flow_counters.at(first + i);
    const std::size_t at = std::size_t{i} * f::statistics_bytes;
    put(out, at + f::packets, be64{counter.packets});
    put(out, at + f::octets, be64{counter.bytes});
    if (prm::cap_get(in, f::clear) != 0) counter.packets = counter.bytes = 0;
  }
  return {};
}

}  // namespace kilim::vhca::hca::commands
