// SPDX-License-Identifier: BSD-3-Clause
// DevX: firmware commands of a client. mlx5_ib lets pass what is on its lists, and remembers for
// each object the command that destroys it; a failure of the firmware is EREMOTEIO with status and
// syndrome in the output. Adapter's lock held.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/flow_table.hh"
#include "kilim/prm/qp_context.hh"
#include "kilim/prm/queue_cmd.hh"
#include "vhca/core/refusal.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/fatal.hh"
#include "vhca/uverbs/bundle.hh"
#include "vhca/uverbs/devx_made.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint16_t least_command = 16;
// Longer commands would be umem lists; the kernel's own limit of an attribute is 64 KiB.
constexpr uint16_t longest = 0xffff;

// Queries and the like that need no object (mlx5_ib's devx_is_general_cmd); and all of
// [general_start, general_end).
constexpr uint16_t general_opcodes[] = {0x100, 0x101, 0x10a, 0x750, 0x752, 0x754, 0x760, 0x762,
                                        0x76f, 0x770, 0x80a, 0x80d, 0x822, 0x824, 0x826, 0x842};
constexpr uint16_t general_start = 0xb00, general_end = 0xd00;
// What makes an object (devx_is_obj_create_cmd).
constexpr uint16_t create_opcodes[] = {0x200, 0x400, 0x500, 0x600, 0x700, 0x705, 0x710, 0x717,
                                       0x771, 0x782, 0x800, 0x806, 0x80e, 0x816, 0x827, 0x829,
                                       0x900, 0x904, 0x908, 0x90c, 0x912, 0x916, 0x930, 0x933,
                                       0x936, 0x939, 0x93d, 0x940, 0xa00};
// What asks an object (devx_is_obj_query_cmd), and what changes one (devx_is_obj_modify_cmd).
constexpr uint16_t query_opcodes[] = {0x201, 0x402, 0x50b, 0x702, 0x707, 0x713, 0x719, 0x725, 0x727,
                                      0x773, 0x784, 0x82a, 0x903, 0x907, 0x90b, 0x90f, 0x915, 0x919,
                                      0x932, 0x935, 0x937, 0x93b, 0x93f, 0x942, 0xa02};
constexpr uint16_t modify_opcodes[] = {0x403, 0x502, 0x503, 0x504, 0x505, 0x506, 0x507,
                                       0x50a, 0x50e, 0x703, 0x708, 0x714, 0x71a, 0x726,
                                       0x729, 0x72a, 0x785, 0x827, 0x829, 0x901, 0x905,
                                       0x909, 0x90d, 0x913, 0x917, 0x936, 0x93c, 0xa01};

template <std::size_t N>
bool listed(const uint16_t (&list)[N], uint16_t opcode) {
  return std::find(std::begin(list), std::end(list), opcode) != std::end(list);
}

// A command, its answer, and where the answer goes.
struct Command {
  std::vector<std::byte> in;
  std::vector<std::byte> out;
  OutBuffer to;

  [[nodiscard]] uint16_t opcode() const {
    prm::CmdInHdr h;
    std::memcpy(&h, in.data(), sizeof h);
    return h.opcode.host();
  }
};

int fetch_in(const Context& context, const Bundle& b, uint16_t in_id, Command& c) {
  if (!context.devx)
    return refusal::lacks(
        "a firmware command, for which this context was not opened (mlx5dv_open_device() with "
        "MLX5DV_CONTEXT_FLAGS_DEVX),",
        EINVAL);
  InBuffer in = b.in(in_id);
  c.in.resize(in.bytes());
  return in.read(c.in.data(), c.in.size());
}

int fetch(Context& context, Bundle& b, uint16_t in_id, uint16_t out_id, Command& c) {
  if (int err = fetch_in(context, b, in_id, c); err != 0) return err;
  c.to = b.out(out_id);
  c.out.resize(c.to.bytes());
  return 0;
}

// 0, -EREMOTEIO: the firmware said no, or what stopped it from being asked.
int run(Context& context, Command& c, void* owner = nullptr) {
  if (int err = hca::command(context.hca, c.in, c.out, {&context, owner}); err != 0) return err;
  prm::CmdOutHdr h;
  std::memcpy(&h, c.out.data(), sizeof h);
  return h.status == static_cast<uint8_t>(prm::cmd::Status::ok) ? 0 : -EREMOTEIO;
}

// The same, with the answer written; that of a refusal too.
int run_and_answer(Context& context, Command& c) {
  int err = run(context, c);
  if (err != 0 && err != -EREMOTEIO) return err;
  int copied = c.to.write(c.out.data(), c.out.size());
  return copied != 0 ? copied : err;
}

// mlx5_ib has lists of the commands that make, ask or change an object, or that nobody may send.
int refuse_opcode(const Command& c) {
  return refusal::absent("the opcode, which this call does not send,", c.opcode());
}

int other(Context& context, Bundle& b) {
  Command c;
  int err = fetch(context, b, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, c);
  if (err != 0) return err;
  bool general = c.opcode() >= general_start && c.opcode() < general_end;
  if (!general && !listed(general_opcodes, c.opcode())) return refuse_opcode(c);
  return run_and_answer(context, c);
}

// Linux drivers/infiniband/hw/mlx5/devx.c, devx_set_umem_valid(): whatever a client says, its rings
// and records lie in umems. UCX 1.13 leaves the bits to the kernel.
void name_umems(Command& c) {
  namespace wq = prm::wq_context;
  const auto set = [&c](std::size_t at, prm::CapField field) {
    if (at + (field.bit + 31u) / 32 * 4 <= c.in.size())
      prm::cap_set(std::span(c.in).subspan(at), field, 1);
  };
  switch (c.opcode()) {
    case prm::cmd::create_cq:
      set(0, prm::cq_cmd::umem_valid);
      set(prm::cq_cmd::context, prm::cqc::dbr_umem_valid);
      break;
    case prm::cmd::create_qp:
      set(0, prm::create_qp_in::wq_umem_valid);
      set(prm::qp_cmd::in_context, prm::qpc::dbr_umem_valid);
      break;
    case prm::cmd::create_sq:
    case prm::cmd::create_rq:
    case prm::cmd::create_rmp:
      set(prm::queue_cmd::context + wq::at, wq::wq_umem_valid);
      set(prm::queue_cmd::context + wq::at, wq::dbr_umem_valid);
      break;
    case prm::cmd::create_xrq:
      set(prm::xrqc::at + prm::xrqc::wq_at, wq::wq_umem_valid);
      set(prm::xrqc::at + prm::xrqc::wq_at, wq::dbr_umem_valid);
      break;
    default:
      break;
  }
}

int create_devx(Context& context, Bundle& b) {
  Command c;
  int err = fetch(context, b, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN,
                  MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, c);
  if (err != 0) return err;
  if (!listed(create_opcodes, c.opcode())) return refuse_opcode(c);
  // What this firmware does not know it refuses without making anything.
  // mlx5_ib could not destroy more than one by a handle.
  if (c.opcode() == prm::cmd::create_psv && word_at(c.in, 8) >> 28 != 1)
    return refusal::equal("num_psv", word_at(c.in, 8) >> 28, 1);
  name_umems(c);
  auto made = std::make_unique<DevxObject>();
  DevxObject& object = *made;
  err = run(context, c, static_cast<Object*>(&object));
  if (err == -EREMOTEIO) {
    int copied = c.to.write(c.out.data(), c.out.size());
    return copied != 0 ? copied : err;
  }
  if (err != 0) return err;
  remember_made(*made, c.in, c.out);
  context.add(std::move(made), {});
  err = c.to.write(c.out.data(), c.out.size());
  if (err == 0) err = b.give(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, object.handle);
  return context.keep_unless(err, object);
}

// The number of the object that the command names.
uint32_t number_named(const Command& c) {
  constexpr std::size_t usual = 8, q_counter = 28;
  if (c.opcode() == prm::cmd::query_q_counter) return word_at(c.in, q_counter) & 0xff;
  if (c.opcode() == prm::cmd::query_flow_counter)
    return word_at(c.in, prm::flow_counter::number) & 0xffffff;
  if (c.opcode() == prm::cmd::query_flow_table) return prm::cap_get(c.in, prm::flow_cmd::table_id);
  if (c.opcode() == prm::cmd::query_flow_group) return prm::cap_get(c.in, prm::flow_cmd::group_id);
  if (c.opcode() == prm::cmd::query_flow_table_entry)
    return prm::cap_get(c.in, prm::flow_cmd::flow_index);
  return word_at(c.in, usual) & 0xffffff;
}

// Of a raw packet queue pair its queues and what leads from it can be named, by the numbers that
// its creator was told; of others the queue pair.
bool names_qp(const QpObject& qp, uint16_t creator, uint32_t number) {
  if (qp.type == QpType::dct) return creator == prm::cmd::create_dct && qp.qpn.value() == number;
  if (qp.type != QpType::raw_packet)
    return creator == prm::cmd::create_qp && qp.qpn.value() == number;
  if (creator == prm::cmd::create_tir) return qp.tirn != 0 && qp.tirn == number;
  if (creator == prm::cmd::create_tis) return qp.tisn != 0 && qp.tisn == number;
  return creator == prm::cmd::create_sq && !qp.hashes && qp.qpn.value() == number;
}

// Whether the command names the object that the handle does: its kind, then its number
// (devx_is_valid_obj_id()).
bool names(const Context& context, const Command& c, const Object& object) {
  const uint32_t number = number_named(c);
  const uint16_t creator = creator_for(c.opcode());
  switch (object.kind) {
    case Kind::devx_obj: {
      const auto& made = static_cast<const DevxObject&>(object);
      // A general object's type stands where a command has its modifier.
      const bool general = creator == prm::cmd::create_general_object;
      return creator != 0 && made.created_by == creator && number - made.number < made.count &&
             (!general || word_at(made.destroy_command, 4) == word_at(c.in, 4));
    }
    case Kind::cq:
      return creator == prm::cmd::create_cq &&
             static_cast<const CqObject&>(object).cqn.value() == number;
    case Kind::srq: {
      const auto& srq = static_cast<const SrqObject&>(object);
      // A plain one is an RMP of the firmware's.
      const wq::Srq* ring = context.hca.srqs.at(srq.srqn);
      return creator == (srq.matches_tags ? prm::cmd::create_xrq : prm::cmd::create_rmp) &&
             ring != nullptr && !ring->spec.xrc && srq.srqn == number;
    }
    case Kind::wq:
      return creator == prm::cmd::create_rq && static_cast<const WqObject&>(object).rqn == number;
    case Kind::rwq_table:
      return creator == prm::cmd::create_rqt &&
             static_cast<const RwqTableObject&>(object).rqtn == number;
    case Kind::qp:
      return names_qp(static_cast<const QpObject&>(object), creator, number);
    default:
      return false;
  }
}

// The command is one of these, and of the object that the handle stands for.
template <std::size_t N>
int check_target(const Context& context, const Bundle& b, const uint16_t (&list)[N], uint16_t id,
                 const Command& c) {
  if (!listed(list, c.opcode())) return refuse_opcode(c);
  const Object* object = b.any_object(context, id);
  if (object != nullptr && names(context, c, *object)) return 0;
  return refusal::absent("the number that the command has beside the handle", number_named(c));
}

template <std::size_t N>
int on_object(Context& context, Bundle& b, const uint16_t (&list)[N], uint16_t first_id) {
  Command c;
  if (int err = fetch(context, b, static_cast<uint16_t>(first_id + 1),
                      static_cast<uint16_t>(first_id + 2), c);
      err != 0)
    return err;
  if (int err = check_target(context, b, list, first_id, c); err != 0) return err;
  const WhenDead when_dead = hca::done_by_the_dead(c.opcode()) ? WhenDead::runs : WhenDead::refused;
  if (int err = context.refusal(when_dead); err != 0) return err;
  return run_and_answer(context, c);
}

int query_devx(Context& context, Bundle& b) {
  return on_object(context, b, query_opcodes, MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE);
}

// The same, with the answer in a file of answers (MLX5_IB_METHOD_DEVX_OBJ_ASYNC_QUERY): here it is
// there when the call returns. A refusal is an answer too; -EAGAIN: too many wait to be read.
int query_async(Context& context, Bundle& b) {
  Command c;
  int err = fetch_in(context, b, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_CMD_IN, c);
  if (err == 0)
    err = check_target(context, b, query_opcodes, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_HANDLE, c);
  if (err != 0) return err;
  EventFile* file =
      context.event_file(EventFile::Kind::devx_command, b.fd(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_FD));
  if (file == nullptr)
    return refusal::descriptor("the file of answers", b.fd(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_FD));
  const uint64_t bytes = b.value(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_OUT_LEN);
  if (bytes < least_command || bytes > longest)
    return refusal::range("outlen", bytes, least_command, longest);
  const uint64_t wr_id = b.value(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_WR_ID);
  std::vector<std::byte> message(sizeof wr_id + bytes);
  static_assert(sizeof(mlx5_ib_uapi_devx_async_cmd_hdr) == sizeof wr_id);
  std::memcpy(message.data(), &wr_id, sizeof wr_id);
  const std::span<std::byte> answer = std::span(message).subspan(sizeof wr_id);
  err = hca::command(context.hca, c.in, answer, {&context, nullptr});
  if (err != 0) return err;
  return file->post(message.data(), message.size())
             ? 0
             : refusal::full("the file of answers, which nobody reads", EAGAIN);
}

int modify(Context& context, Bundle& b) {
  return on_object(context, b, modify_opcodes, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE);
}

// The one completion vector's event queue.
int query_eqn(Context&, Bundle& b) {
  uint64_t vector = b.value(MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC);
  return vector != 0 ? refusal::most("vector", vector, 0, ENOENT)
                     : b.put(MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, hca::completion_event_queue);
}

int destroy_devx(Context& context, Bundle& b) {
  return destroy_by(context, b, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE);
}

constexpr AttrRule other_rules[] = {
    {MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, AttrKind::in, true, least_command, longest},
    {MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, AttrKind::out, true, least_command, longest},
};
constexpr AttrRule devx_create_rules[] = {
    {MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, AttrKind::fresh, true},
    {MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, AttrKind::in, true, least_command, longest},
    {MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, AttrKind::out, true, least_command, longest},
};
constexpr AttrRule devx_destroy_rules[] = {
    {MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, AttrKind::object, true, 0, 0, Kind::devx_obj},
};
constexpr AttrRule devx_query_rules[] = {
    {MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE, AttrKind::any_object, true},
    {MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN, AttrKind::in, true, least_command, longest},
    {MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, AttrKind::out, true, least_command, longest},
};
constexpr AttrRule devx_async_rules[] = {
    {MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_HANDLE, AttrKind::any_object, true},
    {MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_CMD_IN, AttrKind::in, true, least_command, longest},
    {MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_FD, AttrKind::fd, true},
    {MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_WR_ID, AttrKind::in, true, 8, 8},
    {MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_OUT_LEN, AttrKind::in, true, 2, 8},
};
constexpr AttrRule modify_rules[] = {
    {MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, AttrKind::any_object, true},
    {MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, AttrKind::in, true, least_command, longest},
    {MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, AttrKind::out, true, least_command, longest},
};
constexpr AttrRule eqn_rules[] = {
    {MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC, AttrKind::in, true, 4, 4},
    {MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, AttrKind::out, true, 4, 4},
};
constexpr Method devx_table[] = {
    {MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_EQN, WhenDead::runs, query_eqn,
     eqn_rules},  // no command (devx.c)
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY, WhenDead::refused, query_devx,
     devx_query_rules},  // queries
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_ASYNC_QUERY, WhenDead::refused, query_async,
     devx_async_rules},  // queries
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY, WhenDead::judges, modify,
     modify_rules},  // 2ERR_QP and 2RST_QP are done
    {MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, WhenDead::refused, other,
     other_rules},  // queries
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE, WhenDead::refused, create_devx,
     devx_create_rules},  // what creates
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, WhenDead::runs, destroy_devx,
     devx_destroy_rules},
};

}  // namespace

std::span<const Method> devx_methods() {
  return devx_table;
}

int DevxObject::release(Context& context) {
  std::array<std::byte, 16> out{};
  const auto in = std::span(destroy_command).first(destroy_bytes);
  if (int err = hca::command(context.hca, in, out, {&context, nullptr}); err != 0) return err;
  return out[0] == std::byte{0} ? 0 : -EREMOTEIO;
}

}  // namespace kilim::vhca::uverbs
