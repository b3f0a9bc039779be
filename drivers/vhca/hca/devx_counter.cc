// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ALLOC_Q_COUNTER", "QUERY_Q_COUNTER", "DEALLOC_Q_COUNTER": counters of the queues that name
// them, of which this adapter keeps frames without a receive request. Adapter's lock held.
#include "kilim/prm/queue_cmd.hh"
#include "vhca/hca/commands.hh"

namespace kilim::vhca::hca::commands {

Answer make_counter(Hca& h, const Client& client, In, Out out) {
  uint32_t number = 0;
  wq::QCounter* counter = h.q_counters.create(number);
  if (counter == nullptr)
    return refused(Status::no_resources, Refusal::no_more_objects, refusal::full("counter_set_id"));
  counter->open = client.sink;
  return made(out, number);
}

Answer end_counter(Hca& h, In in, Out) {
  const wq::QCounter* counter = h.q_counters.at(number_in(in));
  if (counter == nullptr) return no_such(Refusal::no_such_counter, "counter_set_id", number_in(in));
  if (counter->users != 0)
    return refused(Status::bad_res_state, Refusal::object_in_use,
                   refusal::busy("counter_set_id", counter->users));
  h.q_counters.destroy(number_in(in));
  return {};
}

Answer query_counter(Hca& h, In in, Out out) {
  wq::QCounter* counter = h.q_counters.at(prm::cap_get(in, prm::q_counter::counter_set_id));
  if (counter == nullptr) return no_such(Refusal::no_such_counter, "counter_set_id", number_in(in));
  const be32 count{static_cast<uint32_t>(counter->out_of_buffer)};
  std::memcpy(out.data() + prm::q_counter::out_of_buffer, &count, sizeof count);
  if (prm::cap_get(in, prm::q_counter::clear) != 0) counter->out_of_buffer = 0;
  return {};
}

}  // namespace kilim::vhca::hca::commands
