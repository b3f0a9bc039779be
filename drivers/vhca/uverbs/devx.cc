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

#include "kilim/prm/cmd.hh"
#include "vhca/uverbs/bundle.hh"

namespace kilim::vhca {

namespace {

constexpr uint16_t least_command = 16;
// Longer commands would be umem lists; the kernel's own limit of an attribute is 64 KiB.
constexpr uint16_t longest = 0xffff;

// Opcodes of queries and of programming that need no object (mlx5_ib's devx_is_general_cmd).
constexpr uint16_t general_opcodes[] = {0x100, 0x101, 0x10a, 0x122, 0x718, 0x740, 0x750,
                                        0x754, 0x762, 0x760, 0x773, 0x7a0, 0x81d, 0x82d};
// Opcodes that make an object (devx_is_obj_create_cmd).
constexpr uint16_t create_opcodes[] = {0x200, 0x400, 0x300, 0x500, 0x600, 0x700, 0x705,
                                       0x710, 0x800, 0x802, 0x803, 0x804, 0x816, 0x817,
                                       0x818, 0x904, 0x908, 0x90c, 0x910, 0x912, 0x914,
                                       0x918, 0x920, 0x930, 0x936, 0x938, 0x93d, 0xa00};

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

int fetch(Context& context, Bundle& b, uint16_t in_id, uint16_t out_id, Command& c) {
  if (!context.devx) return -EINVAL;
  InBuffer in = b.in(in_id);
  c.in.resize(in.bytes());
  if (int err = in.read(c.in.data(), c.in.size()); err != 0) return err;
  c.to = b.out(out_id);
  c.out.resize(c.to.bytes());
  return 0;
}

// 0, -EREMOTEIO: the firmware said no, or what stopped it from being asked.
int run(Context& context, Command& c) {
  if (int err = context.hca.command(c.in, c.out); err != 0) return err;
  prm::CmdOutHdr h;
  std::memcpy(&h, c.out.data(), sizeof h);
  return h.status == static_cast<uint8_t>(prm::cmd::Status::ok) ? 0 : -EREMOTEIO;
}

int other(Context& context, Bundle& b) {
  Command c;
  int err = fetch(context, b, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, c);
  if (err != 0) return err;
  if (!listed(general_opcodes, c.opcode())) return -EINVAL;
  err = run(context, c);
  if (err != 0 && err != -EREMOTEIO) return err;
  int copied = c.to.write(c.out.data(), c.out.size());
  return copied != 0 ? copied : err;
}

// DESTROY_MKEY of the key that `out` of CREATE_MKEY names. Other objects are not made here.
std::array<std::byte, 16> destroy_command_of(const Command& c) {
  struct DestroyMkeyIn {
    prm::CmdInHdr hdr;
    be32 mkey_index;
    be32 reserved;
  } in{};
  static_assert(sizeof in == 16);
  prm::CreateMkeyOut made;
  std::memcpy(&made, c.out.data(), sizeof made);
  in.hdr.opcode = be16{prm::cmd::destroy_mkey};
  in.mkey_index = made.mkey_index;
  std::array<std::byte, 16> bytes;
  std::memcpy(bytes.data(), &in, sizeof in);
  return bytes;
}

int create(Context& context, Bundle& b) {
  Command c;
  int err = fetch(context, b, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN,
                  MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, c);
  if (err != 0) return err;
  if (!listed(create_opcodes, c.opcode())) return -EINVAL;
  err = run(context, c);
  if (err == -EREMOTEIO) {
    int copied = c.to.write(c.out.data(), c.out.size());
    return copied != 0 ? copied : err;
  }
  if (err != 0) return err;
  auto made = std::make_unique<DevxObject>();
  made->destroy_command = destroy_command_of(c);
  DevxObject& object = *made;
  context.add(std::move(made), {});
  err = c.to.write(c.out.data(), c.out.size());
  if (err == 0) err = b.give(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, object.handle);
  return context.keep_unless(err, object);
}

int destroy(Context& context, Bundle& b) {
  return destroy_by(context, b, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE);
}

constexpr AttrRule other_rules[] = {
    {MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, AttrKind::in, true, least_command, longest},
    {MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, AttrKind::out, true, least_command, longest},
};
constexpr AttrRule create_rules[] = {
    {MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, AttrKind::fresh, true},
    {MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, AttrKind::in, true, least_command, longest},
    {MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, AttrKind::out, true, least_command, longest},
};
constexpr AttrRule destroy_rules[] = {
    {MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, AttrKind::object, true, 0, 0, Kind::devx_obj},
};
constexpr Method methods[] = {
    {MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, other, other_rules},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE, create, create_rules},
    {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, destroy, destroy_rules},
};

}  // namespace

std::span<const Method> devx_methods() {
  return methods;
}

int DevxObject::release(Context& context) {
  std::array<std::byte, 16> out{};
  if (int err = context.hca.command(destroy_command, out); err != 0) return err;
  return out[0] == std::byte{0} ? 0 : -EREMOTEIO;
}

}  // namespace kilim::vhca
