// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_RQT", "MODIFY_RQT", "QUERY_RQT", "DESTROY_RQT" of DevX clients. Adapter's lock held.
#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "kilim/prm/queue_cmd.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/objects.hh"

namespace kilim::vhca::hca::commands {

namespace {

// The numbers behind the context. Nothing: there are fewer than it says.
std::optional<std::vector<uint32_t>> numbers_of(In in) {
  const In context = in.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  const uint32_t count = prm::cap_get(context, prm::rqtc::rqt_actual_size);
  if (count > (in.size() - prm::queue_cmd::bytes) / sizeof(be32)) return std::nullopt;
  std::vector<uint32_t> numbers(count);
  for (uint32_t i = 0; i < count; i++)
    numbers[i] = read<be32>(in, prm::queue_cmd::bytes + i * sizeof(be32)).host() & 0xffffff;
  return numbers;
}

Answer list_too_short(In in) {
  const In context = in.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  return refused(
      Status::bad_input_len, Refusal::list_length,
      refusal::bytes("rqtc.rq_num", in.size() - prm::queue_cmd::bytes,
                     uint64_t{prm::cap_get(context, prm::rqtc::rqt_actual_size)} * sizeof(be32)));
}

bool owns_all(const Hca& h, const Client& client, const std::vector<uint32_t>& rqns) {
  const auto strange = std::find_if(rqns.begin(), rqns.end(), [&](uint32_t rqn) {
    return find_own(h.rqs, client, rqn) == nullptr;
  });
  if (strange != rqns.end()) refusal::absent("rqtc.rq_num", *strange);
  return strange == rqns.end();
}

}  // namespace

Answer make_rqt(Hca& h, const Client& client, In in, Out out) {
  const auto numbers = numbers_of(in);
  if (!numbers) return list_too_short(in);
  const In context = in.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  const uint32_t most = prm::cap_get(context, prm::rqtc::rqt_max_size);
  if (most < numbers->size())
    return refused(Status::bad_param, Refusal::rqt_context,
                   refusal::most("rqtc.rqt_actual_size", numbers->size(), most));
  if (!owns_all(h, client, *numbers)) return noted(Status::bad_resource, Refusal::no_such_queue);
  const Result<uint32_t> rqtn = create_rqt(h, *numbers, client.sink);
  if (!rqtn && rqtn.error().code == ENOMEM)
    return refused(Status::no_resources, Refusal::no_more_objects, refusal::full("rqtn"));
  if (!rqtn) return refused(Status::bad_param, Refusal::rqt_context, refusal::of(rqtn.error()));
  h.rqts.at(*rqtn)->most = most;
  return made(out, *rqtn);
}

Answer change_rqt(Hca& h, const Client& client, In in, Out) {
  if (read<be64>(in, prm::queue_cmd::modify_bitmask).host() != prm::rqtc::mask_list)
    return refused(
        Status::bad_param, Refusal::rqt_context,
        refusal::equal("modify_bitmask", read<be64>(in, prm::queue_cmd::modify_bitmask).host(),
                       prm::rqtc::mask_list));
  const auto numbers = numbers_of(in);
  if (!numbers) return list_too_short(in);
  if (h.rqts.at(number_in(in)) == nullptr)
    return no_such(Refusal::no_such_queue, "rqtn", number_in(in));
  if (!owns_all(h, client, *numbers)) return noted(Status::bad_resource, Refusal::no_such_queue);
  if (modify_rqt(h, number_in(in), *numbers) != 0)
    return noted(Status::bad_param, Refusal::rqt_context);
  return {};
}

// As many of its numbers as the client has room for.
Answer query_rqt(Hca& h, In in, Out out) {
  const ethernet::Rqt* table = h.rqts.at(number_in(in));
  if (table == nullptr) return no_such(Refusal::no_such_queue, "rqtn", number_in(in));
  const Out context = out.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  const auto places = static_cast<uint32_t>(table->queues.size());
  prm::cap_set(context, prm::rqtc::rqt_max_size, std::max(table->most, places));
  prm::cap_set(context, prm::rqtc::rqt_actual_size, places);
  const Out list = out.subspan(prm::queue_cmd::bytes);
  const std::size_t told = std::min<std::size_t>(places, list.size() / sizeof(be32));
  for (std::size_t i = 0; i < told; i++)
    put(list, i * sizeof(be32), be32{table->queues[i]->qpn.value()});
  return {};
}

Answer end_rqt(Hca& h, In in, Out) {
  const int rc = destroy_rqt(h, number_in(in));
  if (rc == -EINVAL) return no_such(Refusal::no_such_queue, "rqtn", number_in(in));
  if (rc != 0) return noted(Status::bad_res_state, Refusal::object_in_use);
  return {};
}

}  // namespace kilim::vhca::hca::commands
