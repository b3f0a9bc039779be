// SPDX-License-Identifier: BSD-3-Clause
// Options: ucma.c, ucma_set_option_id() and ucma_set_ib_path(); cma.c, rdma_set_service_type() and
// the ones beside it. All locks held.
#include <cerrno>
#include <cstring>

#include "vhca/core/refusal.hh"
#include "vhca/rdmacm/steps.hh"

namespace kilim::vhca::rdmacm {

namespace {

constexpr const char* too_late =
    "the id is too far for this option: set it before rdma_bind_addr()";

using Value = std::span<const std::byte>;

int set_tos(Id& id, Value value) {
  if (value.size() != 1) return refusal::equal("optlen", value.size(), 1);
  id.tos = static_cast<uint8_t>(value[0]);
  return 0;
}

bool read_flag(Value value, bool& on) noexcept {
  int number = 0;
  if (value.size() != sizeof(number)) return false;
  std::memcpy(&number, value.data(), sizeof(number));
  on = number != 0;
  return true;
}

int set_reuse(const State& s, Id& id, Value value) {
  bool on = false;
  if (!read_flag(value, on)) return refusal::equal("optlen", value.size(), sizeof(int));
  if ((!on || id.stage == Stage::listen) && id.stage != Stage::idle)
    return refusal::text(EINVAL, too_late);
  id.reuse = on;
  tell_port(s, id);
  return 0;
}

int set_af_only(const State& s, Id& id, Value value) {
  bool on = false;
  if (!read_flag(value, on)) return refusal::equal("optlen", value.size(), sizeof(int));
  if (id.stage != Stage::idle && id.stage != Stage::addr_bound)
    return refusal::text(EINVAL, too_late);
  id.af_only_set = true;
  id.af_only = on;
  tell_port(s, id);
  return 0;
}

int set_ack_timeout(Id& id, Value value) {
  if (value.size() != 1) return refusal::equal("optlen", value.size(), 1);
  if (id.qp_type != CmQpType::rc && id.qp_type != CmQpType::xrc_ini)
    return refusal::clash(
        "RDMA_OPTION_ID_ACK_TIMEOUT of a queue that nothing acknowledges: qp_type",
        static_cast<uint64_t>(id.qp_type), 0);
  id.ack_timeout = static_cast<uint8_t>(value[0]);
  id.ack_timeout_set = true;
  return 0;
}

// A path that the client found itself; of it the traffic class and the hop limit are the route's on
// RoCE, so what is left is that it is there.
int set_path(State& s, Id& id, Value value) {
  constexpr uint32_t wanted = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  if (value.size() % sizeof(ib_path_rec_data) != 0)
    return refusal::equal("optlen", value.size(), sizeof(ib_path_rec_data));
  bool found = false;
  for (std::size_t at = 0; at < value.size() && !found; at += sizeof(ib_path_rec_data)) {
    uint32_t flags = 0;
    std::memcpy(&flags, value.data() + at, sizeof(flags));
    found = flags == wanted;
  }
  if (!found || id.adapter == nullptr || id.stage != Stage::addr_resolved)
    return refusal::text(EINVAL,
                         "no path is primary, or the address is not resolved yet: "
                         "RDMA_CM_EVENT_ADDR_RESOLVED comes first");
  id.stage = Stage::route_resolved;
  id.has_path = true;
  post(s, id, EventType::route_resolved, 0);
  return 0;
}

}  // namespace

int set_option(State& s, Id& id, const rdma_ucm_set_option& cmd, Value value) {
  if (cmd.level == RDMA_OPTION_IB)
    return cmd.optname == RDMA_OPTION_IB_PATH ? set_path(s, id, value)
                                              : refusal::absent("optname", cmd.optname, ENOSYS);
  if (cmd.level != RDMA_OPTION_ID) return refusal::absent("level", cmd.level, ENOSYS);
  switch (cmd.optname) {
    case RDMA_OPTION_ID_TOS:
      return set_tos(id, value);
    case RDMA_OPTION_ID_REUSEADDR:
      return set_reuse(s, id, value);
    case RDMA_OPTION_ID_AFONLY:
      return set_af_only(s, id, value);
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      return set_ack_timeout(id, value);
    default:
      return refusal::absent("optname", cmd.optname, ENOSYS);
  }
}

}  // namespace kilim::vhca::rdmacm
