// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/flow_counter.hh"

#include <array>
#include <cerrno>
#include <cstring>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/queue_cmd.hh"

namespace kilim::mlx5 {

Result<FirmwareObject> create_flow_counter(ibv_context* context) {
  std::array<std::byte, 16> in{};
  prm::cap_set(in, opcode_field, prm::cmd::alloc_flow_counter);
  return create_object(context, in, "the adapter has no counters for flow rules");
}

Result<flow::Count> read_flow_counter(const FirmwareObject& counter) {
  namespace f = prm::flow_counter;
  std::array<std::byte, f::command_bytes> in{};
  std::array<std::byte, f::answer_bytes> out{};
  prm::cap_set(in, opcode_field, prm::cmd::query_flow_counter);
  const be32 number{counter.number};
  std::memcpy(in.data() + f::number, &number, sizeof number);
  if (mlx5dv_devx_obj_query(counter.object.get(), in.data(), in.size(), out.data(), out.size()) !=
      0)
    return Error{errno, "the adapter does not tell the rule's counters"};
  be64 packets, octets;
  std::memcpy(&packets, out.data() + f::packets, sizeof packets);
  std::memcpy(&octets, out.data() + f::octets, sizeof octets);
  return flow::Count{packets.host(), octets.host()};
}

}  // namespace kilim::mlx5
