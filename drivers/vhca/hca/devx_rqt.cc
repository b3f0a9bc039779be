// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_RQT", "MODIFY_RQT", "DESTROY_RQT" of DevX clients. Adapter's lock held.
#include <cerrno>
#include <optional>
#include <vector>

#include "kilim/prm/queue_cmd.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/objects.hh"

namespace kilim::vhca::commands {

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

}  // namespace

Answer make_rqt(Hca& h, In in, Out out) {
  const auto numbers = numbers_of(in);
  if (!numbers) return {Status::bad_input_len, Refusal::list_length};
  const In context = in.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  if (prm::cap_get(context, prm::rqtc::rqt_max_size) < numbers->size())
    return {Status::bad_param, Refusal::rqt_context};
  const Result<uint32_t> rqtn = create_rqt(h, *numbers);
  if (!rqtn && rqtn.error().code == ENOMEM) return {Status::no_resources, Refusal::no_more_objects};
  if (!rqtn) return {Status::bad_param, Refusal::rqt_context};
  return made(out, *rqtn);
}

Answer change_rqt(Hca& h, In in, Out) {
  if (read<be64>(in, prm::queue_cmd::modify_bitmask).host() != prm::rqtc::mask_list)
    return {Status::bad_param, Refusal::rqt_context};
  const auto numbers = numbers_of(in);
  if (!numbers) return {Status::bad_input_len, Refusal::list_length};
  if (h.rqts.at(number_in(in)) == nullptr) return {Status::bad_resource, Refusal::no_such_queue};
  if (modify_rqt(h, number_in(in), *numbers) != 0) return {Status::bad_param, Refusal::rqt_context};
  return {};
}

Answer end_rqt(Hca& h, In in, Out) {
  const int rc = destroy_rqt(h, number_in(in));
  if (rc == -EINVAL) return {Status::bad_resource, Refusal::no_such_queue};
  if (rc != 0) return {Status::bad_res_state, Refusal::object_in_use};
  return {};
}

}  // namespace kilim::vhca::commands
