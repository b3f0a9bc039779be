// SPDX-License-Identifier: BSD-3-Clause
// The commands of ABI 4: ucma.c, one function each of its table.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <vector>

#include "vhca/core/refusal.hh"
#include "vhca/rdmacm/call.hh"

namespace kilim::vhca::rdmacm {

namespace {

constexpr const char* is_bound_to_none =
    "the id is bound to no device: rdma_bind_addr() to an address of a port, or "
    "rdma_resolve_addr() "
    "and its event, come first";

int no_family(const sockaddr_storage& a) noexcept {
  return refusal::absent("the address family, or the length that goes with it: family",
                         a.ss_family);
}

// ucma_get_ctx() and ucma_get_ctx_dev()
int find(const Call& c, uint32_t number, Id*& id) noexcept {
  int error = 0;
  id = find_id(c.s, c.file, number, error);
  return error;
}
int find_bound(const Call& c, uint32_t number, Id*& id) noexcept {
  if (int error = find(c, number, id); error != 0) return error;
  return id->adapter != nullptr ? 0 : refusal::text(EINVAL, is_bound_to_none);
}

sockaddr_storage widen(const sockaddr_in6& from) noexcept {
  sockaddr_storage a{};
  std::memcpy(&a, &from, sizeof(from));
  return a;
}
sockaddr_storage widen(const __kernel_sockaddr_storage& from) noexcept {
  sockaddr_storage a{};
  std::memcpy(&a, &from, sizeof(a));
  return a;
}

int type_of(const rdma_ucm_create_id& cmd, CmQpType& type) noexcept {
  switch (cmd.ps) {
    case RDMA_PS_TCP:
      type = CmQpType::rc;
      return 0;
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
      type = CmQpType::ud;
      return 0;
    case RDMA_PS_IB:
      type = CmQpType{cmd.qp_type};
      return 0;
    default:
      return refusal::absent("port space (enum rdma_port_space)", cmd.ps);
  }
}

int create_id(Call& c) {
  rdma_ucm_create_id cmd;
  rdma_ucm_create_id_resp resp{};
  CmQpType type{};
  if (c.out_bytes < sizeof(resp))
    return refusal::bytes("the room for the answer", c.out_bytes, sizeof(resp), ENOSPC);
  if (int error = c.read(cmd); error != 0) return error;
  if (int error = type_of(cmd, type); error != 0) return error;
  Id* id = make_id(c.s, c.file, cmd.uid, static_cast<rdma_ucm_port_space>(cmd.ps), type);
  if (id == nullptr) return refusal::full("the id");
  resp.id = id->number;
  const int error = c.answer(cmd.response, resp);
  if (error != 0) destroy_id(c.s, *id);
  return error;
}

int destroy(Call& c) {
  rdma_ucm_destroy_id cmd;
  rdma_ucm_destroy_id_resp resp{};
  Id* id = nullptr;
  if (c.out_bytes < sizeof(resp))
    return refusal::bytes("the room for the answer", c.out_bytes, sizeof(resp), ENOSPC);
  if (int error = c.read(cmd); error != 0) return error;
  if (int error = find(c, cmd.id, id); error != 0) return error;
  resp.events_reported = destroy_id(c.s, *id);
  return c.answer(cmd.response, resp);
}

int bind_ip(Call& c) {
  rdma_ucm_bind_ip cmd;
  Id* id = nullptr;
  if (int error = c.read(cmd); error != 0) return error;
  const sockaddr_storage address = widen(cmd.addr);
  if (address_bytes_in6(address) == 0) return no_family(address);
  if (int error = find(c, cmd.id, id); error != 0) return error;
  return bind_id(c.s, *id, address);
}

int bind(Call& c) {
  rdma_ucm_bind cmd;
  Id* id = nullptr;
  if (int error = c.read(cmd); error != 0) return error;
  const sockaddr_storage address = widen(cmd.addr);
  if (cmd.reserved != 0 || cmd.addr_size == 0 || cmd.addr_size != address_bytes(address))
    return no_family(address);
  if (int error = find(c, cmd.id, id); error != 0) return error;
  return bind_id(c.s, *id, address);
}

int resolve_ip(Call& c) {
  rdma_ucm_resolve_ip cmd;
  Id* id = nullptr;
  if (int error = c.read(cmd); error != 0) return error;
  const sockaddr_storage from = widen(cmd.src_addr), to = widen(cmd.dst_addr);
  if ((from.ss_family != 0 && address_bytes_in6(from) == 0) || address_bytes_in6(to) == 0)
    return no_family(to);
  if (int error = find(c, cmd.id, id); error != 0) return error;
  return resolve_address(c.s, *id, &from, to, cmd.timeout_ms);
}

int resolve_addr(Call& c) {
  rdma_ucm_resolve_addr cmd;
  Id* id = nullptr;
  if (int error = c.read(cmd); error != 0) return error;
  const sockaddr_storage from = widen(cmd.src_addr), to = widen(cmd.dst_addr);
  if (cmd.reserved != 0 || (cmd.src_size != 0 && cmd.src_size != address_bytes(from)) ||
      cmd.dst_size == 0 || cmd.dst_size != address_bytes(to))
    return no_family(to);
  if (int error = find(c, cmd.id, id); error != 0) return error;
  return resolve_address(c.s, *id, &from, to, cmd.timeout_ms);
}

int route(Call& c) {
  rdma_ucm_resolve_route cmd;
  Id* id = nullptr;
  if (int error = c.read(cmd); error != 0) return error;
  if (int error = find_bound(c, cmd.id, id); error != 0) return error;
  if (cmd.timeout_ms == 0) return refusal::least("timeout_ms", 0, 1);  // rdma_resolve_route()
  return resolve_route(c.s, *id);
}

int query_route(Call& c) {
  rdma_ucm_query cmd;
  rdma_ucm_query_route_resp resp{};
  Id* id = nullptr;
  if (c.out_bytes < offsetof(rdma_ucm_query_route_resp, ibdev_index))
    return refusal::bytes("the room for the answer", c.out_bytes,
                          offsetof(rdma_ucm_query_route_resp, ibdev_index), ENOSPC);
  if (int error = c.read(cmd); error != 0) return error;
  if (int error = find(c, cmd.id, id); error != 0) return error;
  query_route(*id, resp);
  return c.answer(cmd.response, resp);
}

int answer_path(const Call& c, const Id& id, uint64_t response) {
  // rdma_ucm_query_path_resp with one path, which C++ has no name for.
  struct {
    uint32_t num_paths, reserved;
    ib_path_rec_data path;
  } resp{};
  constexpr std::size_t head = offsetof(rdma_ucm_query_path_resp, path_data);
  static_assert(sizeof(resp) == head + sizeof(ib_path_rec_data));
  if (c.out_bytes < head)
    return refusal::bytes("the room for the answer", c.out_bytes, head, ENOSPC);
  const bool there = query_path(id, resp.path);
  resp.num_paths = there ? 1 : 0;
  const std::size_t n = there && c.out_bytes >= sizeof(resp) ? sizeof(resp) : head;
  return memory::dma::copy_out(Va{response}, &resp, n) ? 0 : refusal::fault(response);
}

int query(Call& c) {
  rdma_ucm_query cmd;
  Id* id = nullptr;
  if (int error = c.read(cmd); error != 0) return error;
  if (int error = find(c, cmd.id, id); error != 0) return error;
  if (cmd.option == RDMA_USER_CM_QUERY_PATH) return answer_path(c, *id, cmd.response);
  if (cmd.option != RDMA_USER_CM_QUERY_ADDR && cmd.option != RDMA_USER_CM_QUERY_GID)
    return refusal::most("option", cmd.option, RDMA_USER_CM_QUERY_GID, ENOSYS);
  if (c.out_bytes < offsetof(rdma_ucm_query_addr_resp, ibdev_index))
    return refusal::bytes("the room for the answer", c.out_bytes,
                          offsetof(rdma_ucm_query_addr_resp, ibdev_index), ENOSPC);
  rdma_ucm_query_addr_resp resp{};
  cmd.option == RDMA_USER_CM_QUERY_ADDR ? query_address(*id, resp) : query_gid(*id, resp);
  return c.answer(cmd.response, resp);
}

// A command that may end before its last member, which older libraries do not know.
template <typename T>
int read_grown(const Call& c, T& cmd) noexcept {
  cmd = {};
  if (c.in_bytes < offsetof(T, ece))
    return refusal::bytes("the command", c.in_bytes, offsetof(T, ece));
  return c.read(cmd, std::min<std::size_t>(c.in_bytes, sizeof(cmd)));
}

int connect(Call& c) {
  rdma_ucm_connect cmd;
  Id* id = nullptr;
  if (int error = read_grown(c, cmd); error != 0) return error;
  if (cmd.conn_param.valid == 0) return refusal::text(EINVAL, "conn_param is missing");
  if (int error = find_bound(c, cmd.id, id); error != 0) return error;
  return connect(c.s, *id, cmd.conn_param);
}

int listen(Call& c) {
  rdma_ucm_listen cmd;
  Id* id = nullptr;
  if (int error = c.read(cmd); error != 0) return error;
  if (int error = find(c, cmd.id, id); error != 0) return error;
  return listen(c.s, *id, cmd.backlog);
}

int accept(Call& c) {
  rdma_ucm_accept cmd;
  Id* id = nullptr;
  if (int error = read_grown(c, cmd); error != 0) return error;
  if (int error = find_bound(c, cmd.id, id); error != 0) return error;
  const bool valid = cmd.conn_param.valid != 0;
  const int error = accept(c.s, *id, valid ? &cmd.conn_param : nullptr);
  if (error == 0 && valid) id->uid = cmd.uid;
  return error;
}

int reject(Call& c) {
  constexpr uint8_t consumer_defined = 28, vendor_option = 35;  // enum ib_cm_rej_reason
  rdma_ucm_reject cmd;
  Id* id = nullptr;
  if (int error = c.read(cmd); error != 0) return error;
  if (cmd.reason == 0) cmd.reason = consumer_defined;
  if (cmd.reason != consumer_defined && cmd.reason != vendor_option)
    return refusal::equal("reason", cmd.reason, consumer_defined);
  if (int error = find_bound(c, cmd.id, id); error != 0) return error;
  const auto data = std::as_bytes(std::span(cmd.private_data)).first(cmd.private_data_len);
  return reject(c.s, *id, cmd.reason, data);
}

int disconnect(Call& c) {
  rdma_ucm_disconnect cmd;
  Id* id = nullptr;
  if (int error = c.read(cmd); error != 0) return error;
  if (int error = find_bound(c, cmd.id, id); error != 0) return error;
  return disconnect(c.s, *id);
}

int qp_attr(Call& c) {
  constexpr uint32_t last_state = 6;  // IB_QPS_ERR
  rdma_ucm_init_qp_attr cmd;
  ib_uverbs_qp_attr resp;
  Id* id = nullptr;
  if (c.out_bytes < sizeof(resp))
    return refusal::bytes("the room for the answer", c.out_bytes, sizeof(resp), ENOSPC);
  if (int error = c.read(cmd); error != 0) return error;
  if (cmd.qp_state > last_state) return refusal::most("qp_state", cmd.qp_state, last_state);
  if (int error = find_bound(c, cmd.id, id); error != 0) return error;
  if (int error = init_qp_attr(c.s, *id, cmd.qp_state, resp); error != 0) return error;
  return c.answer(cmd.response, resp);
}

// -EAGAIN: there is none.
int get_event(Call& c) {
  constexpr std::size_t least =
      sizeof(rdma_ucm_event_resp) - sizeof(rdma_ucm_event_resp::reserved) - sizeof(rdma_ucm_ece);
  rdma_ucm_get_event cmd;
  if (c.out_bytes < least)
    return refusal::bytes("the room for the answer", c.out_bytes, least, ENOSPC);
  if (int error = c.read(cmd); error != 0) return error;
  if (c.file.events.empty()) return -EAGAIN;
  Event& event = c.file.events.front();
  if (int error = c.answer(cmd.response, event.resp); error != 0) return error;
  event.id->events_reported++;
  if (event.multicast != nullptr) event.multicast->events_reported++;
  if (event.request != nullptr) event.id->backlog++;
  c.file.events.pop_front();
  return 0;
}

int set_option(Call& c) {
  constexpr uint32_t most_bytes = 1 << 22;  // KMALLOC_MAX_SIZE
  rdma_ucm_set_option cmd;
  Id* id = nullptr;
  if (int error = c.read(cmd); error != 0) return error;
  if (cmd.optlen > most_bytes) return refusal::most("optlen", cmd.optlen, most_bytes);
  if (int error = find(c, cmd.id, id); error != 0) return error;
  // No option is longer than a few paths; of a longer one the beginning is enough to refuse it.
  std::vector<std::byte> value(cmd.optlen);
  if (!memory::dma::copy_in(value.data(), Va{cmd.optval}, value.size()))
    return refusal::fault(cmd.optval);
  return set_option(c.s, *id, cmd, value);
}

int notify(Call& c) {
  rdma_ucm_notify cmd;
  Id* id = nullptr;
  if (int error = c.read(cmd); error != 0) return error;
  if (int error = find(c, cmd.id, id); error != 0) return error;
  return notify(c.s, *id, cmd.event);
}

struct JoinCommand {
  uint64_t response, uid;
  uint32_t id;
  sockaddr_storage address;
};

int process_join(Call& c, const JoinCommand& cmd) {
  rdma_ucm_create_id_resp resp{};
  Id* id = nullptr;
  if (c.out_bytes < sizeof(resp))
    return refusal::bytes("the room for the answer", c.out_bytes, sizeof(resp), ENOSPC);
  if (int error = find_bound(c, cmd.id, id); error != 0) return error;
  if (int error = join(c.s, *id, cmd.address, cmd.uid, resp.id); error != 0) return error;
  const int error = c.answer(cmd.response, resp);
  uint32_t reported = 0;
  if (error != 0) (void)leave(c.s, c.file, resp.id, reported);
  return error;
}

int join_ip(Call& c) {
  rdma_ucm_join_ip_mcast cmd;
  if (int error = c.read(cmd); error != 0) return error;
  const sockaddr_storage address = widen(cmd.addr);
  if (address_bytes_in6(address) == 0) return no_family(address);
  return process_join(c, {cmd.response, cmd.uid, cmd.id, address});
}

int join_group(Call& c) {
  rdma_ucm_join_mcast cmd;
  if (int error = c.read(cmd); error != 0) return error;
  const sockaddr_storage address = widen(cmd.addr);
  if (address_bytes(address) == 0 || cmd.addr_size != address_bytes(address))
    return no_family(address);
  if (cmd.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
    return refusal::most("join_flags", cmd.join_flags, RDMA_MC_JOIN_FLAG_RESERVED - 1);
  return process_join(c, {cmd.response, cmd.uid, cmd.id, address});
}

int leave_group(Call& c) {
  rdma_ucm_destroy_id cmd;
  rdma_ucm_destroy_id_resp resp{};
  if (c.out_bytes < sizeof(resp))
    return refusal::bytes("the room for the answer", c.out_bytes, sizeof(resp), ENOSPC);
  if (int error = c.read(cmd); error != 0) return error;
  if (int error = leave(c.s, c.file, cmd.id, resp.events_reported); error != 0) return error;
  return c.answer(cmd.response, resp);
}

// By number; MIGRATE_ID is apart, since it needs another file, and there is no GET_OPTION.
constexpr Command commands[] = {
    create_id,    destroy,    bind_ip, resolve_ip,  route,   query_route, connect,
    listen,       accept,     reject,  disconnect,  qp_attr, get_event,   nullptr,
    set_option,   notify,     join_ip, leave_group, nullptr, query,       bind,
    resolve_addr, join_group, nullptr, write_event,
};
static_assert(std::size(commands) == command_count);

}  // namespace

Command command_of(uint32_t number) noexcept {
  return number < command_count ? commands[number] : nullptr;
}

// ucma_migrate_id(): the id and its unread events go from the file that `fd` names to this one.
int migrate(Call& c, File& from) {
  rdma_ucm_migrate_id cmd;
  rdma_ucm_migrate_resp resp{};
  if (int error = c.read(cmd); error != 0) return error;
  int error = 0;
  Id* id = find_id(c.s, from, cmd.id, error);
  if (id == nullptr) return error;
  id->file = &c.file;
  if (&from != &c.file) {
    for (Event& e : from.events) {
      if (e.id == id) c.file.events.push_back(e);
    }
    std::erase_if(from.events, [&](const Event& e) { return e.id == id; });
  }
  resp.events_reported = id->events_reported;
  return c.answer(cmd.response, resp);
}

}  // namespace kilim::vhca::rdmacm
