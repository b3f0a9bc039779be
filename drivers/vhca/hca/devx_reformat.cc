// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ALLOC_PACKET_REFORMAT_CONTEXT", "QUERY_PACKET_REFORMAT_CONTEXT" and what ends one: headers
// that entries of steering by software put in front of frames. Called by the table of commands
// alone; what a client sends is untrusted. Adapter's lock held.
#include <algorithm>

#include "kilim/prm/flow_table.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/hca/commands.hh"

namespace kilim::vhca::hca::commands {

Answer make_reformat(Hca& h, In in, Out out) {
  namespace r = prm::reformat_cmd;
  ethernet::SoftSteering* soft = h.eth.soft.get();
  if (!h.config.profile.software_steering)
    return refused(Status::bad_op, Refusal::unknown_opcode, refusal::lacks("a packet reformat"));
  const uint32_t type = prm::cap_get(in, r::type), bytes = prm::cap_get(in, r::data_size);
  if ((type != r::l2_to_l2_tunnel && type != r::l2_to_l3_tunnel) || bytes == 0 ||
      bytes > Prepend::most || in.size() < r::data + bytes)
    return refused(Status::bad_param, Refusal::reformat,
                   bytes > Prepend::most ? refusal::most("reformat_data_size", bytes, Prepend::most)
                                         : refusal::clash("reformat_type", type, bytes));
  uint32_t number = 0;
  Prepend* p = soft->reformats.create(number);
  if (p == nullptr)
    return refused(Status::no_resources, Refusal::no_more_objects,
                   refusal::full("packet_reformat_id"));
  p->type = static_cast<uint8_t>(type);
  p->count = bytes;
  std::memcpy(p->bytes.data(), in.data() + r::data, bytes);
  return made(out, number);
}

Answer end_reformat(Hca& h, In in, Out) {
  ethernet::SoftSteering* soft = h.eth.soft.get();
  if (soft == nullptr || soft->reformats.at(number_in(in)) == nullptr)
    return no_such(Refusal::no_such_object, "packet_reformat_id", number_in(in));
  soft->reformats.destroy(number_in(in));
  return {};
}

// As many bytes as the client has room for; their number is told all the same.
Answer query_reformat(Hca& h, In in, Out out) {
  namespace r = prm::reformat_cmd;
  const ethernet::SoftSteering* soft = h.eth.soft.get();
  const Prepend* p = soft != nullptr ? soft->reformats.at(number_in(in)) : nullptr;
  if (p == nullptr) return no_such(Refusal::no_such_object, "packet_reformat_id", number_in(in));
  prm::cap_set(out, r::type, p->type);
  prm::cap_set(out, r::data_size, p->count);
  std::memcpy(out.data() + r::data, p->bytes.data(),
              std::min<std::size_t>(p->count, out.size() - r::data));
  return {};
}

}  // namespace kilim::vhca::hca::commands
