// SPDX-License-Identifier: BSD-3-Clause
// Ports and their GIDs. A RoCE port has no LID, a GRH on every path and GIDs of RoCE v2; an
// InfiniBand port is alone in its subnet, and its own subnet manager.
// Adapter's lock held.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include "vhca/core/refusal.hh"
#include "vhca/hca/ports.hh"
#include "vhca/uverbs/bundle.hh"
#include "vhca/uverbs/path.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint8_t mtu_4096 = 5;  // enum ib_mtu
constexpr uint8_t state_down = 1, state_active = 4;
constexpr uint8_t phys_disabled = 3, phys_link_up = 5;
constexpr uint8_t link_layer_infiniband = 1, link_layer_ethernet = 2;  // IBV_LINK_LAYER_*
constexpr uint8_t lanes_0_to_3 = 3;
constexpr uint8_t width_4x = 2, speed_edr = 32;

ib_uverbs_query_port_resp describe_port(const PortAttr& p) {
  ib_uverbs_query_port_resp r{};
  r.port_cap_flags = IB_UVERBS_PCF_CM_SUP;
  r.max_msg_sz = 1u << p.log_max_msg;
  r.gid_tbl_len = p.gid_count;
  r.pkey_tbl_len = 1;
  r.state = p.active ? state_active : state_down;
  r.max_mtu = mtu_4096;
  // 256 bytes are 1, 4096 are 5.
  uint32_t mtu = std::clamp(p.mtu, 256u, 4096u);
  r.active_mtu = static_cast<uint8_t>(std::bit_width(mtu) - 8);
  r.active_width = width_4x;
  r.active_speed = speed_edr;
  r.phys_state = p.active ? phys_link_up : phys_disabled;
  r.lid = r.sm_lid = p.lid;
  r.link_layer = p.lid != 0 ? link_layer_infiniband : link_layer_ethernet;
  if (p.lid != 0) {
    r.max_vl_num = lanes_0_to_3;
    return r;
  }
  r.port_cap_flags |= IB_UVERBS_PCF_IP_BASED_GIDS;
  r.flags = IB_UVERBS_QPF_GRH_REQUIRED;
  return r;
}

ib_uverbs_gid_entry entry_of(const PortAttr& p, const Gid& gid, uint32_t port, uint32_t index) {
  ib_uverbs_gid_entry e{};
  std::memcpy(e.gid, gid.data(), gid.size());
  e.gid_index = index;
  e.port_num = port;
  e.netdev_ifindex = p.interface;
  e.gid_type = p.lid != 0 ? IB_UVERBS_GID_TYPE_IB : IB_UVERBS_GID_TYPE_ROCE_V2;
  return e;
}

Result<PortAttr> port_of(Context& context, uint64_t number) {
  if (number > UINT32_MAX) return Error{EINVAL, "no such port"};
  return hca::query_port(context.hca, static_cast<uint32_t>(number));
}

int query_port(Context& context, Bundle& b) {
  Result<PortAttr> p = port_of(context, b.value(UVERBS_ATTR_QUERY_PORT_PORT_NUM));
  if (!p) return refusal::of(p.error());
  ib_uverbs_query_port_resp_ex resp{};
  resp.legacy_resp = describe_port(*p);
  return b.put(UVERBS_ATTR_QUERY_PORT_RESP, resp);
}

// Linux core/uverbs_std_types_device.c, UVERBS_METHOD_QUERY_PORT_SPEED, which the headers of older
// rdma-cores do not have; in units of 100 Mbit/s, of a port that is down 0
// (hw/mlx5/main.c, mlx5_ib_query_port_speed_from_port()).
constexpr uint16_t method_port_speed = UVERBS_METHOD_QUERY_GID_ENTRY + 1;
constexpr uint16_t port_speed_port = 0, port_speed_resp = 1;

int query_port_speed(Context& context, Bundle& b) {
  constexpr uint64_t edr_4x = 1000;  // what describe_port() says
  Result<PortAttr> p = port_of(context, b.value(port_speed_port));
  if (!p) return refusal::of(p.error());
  return b.put(port_speed_resp, p->active ? edr_4x : uint64_t{0});
}

// What an embedded switch would say of the port; there is none, so no flag is set.
int query_switch_port(Context& context, Bundle& b) {
  Result<PortAttr> p = port_of(context, b.value(MLX5_IB_ATTR_QUERY_PORT_PORT_NUM));
  if (!p) return refusal::of(p.error());
  return b.put(MLX5_IB_ATTR_QUERY_PORT, mlx5_ib_uapi_query_port{});
}

int query_gid_entry(Context& context, Bundle& b) {
  uint64_t port = b.value(UVERBS_ATTR_QUERY_GID_ENTRY_PORT);
  uint64_t index = b.value(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
  Result<PortAttr> p = port_of(context, port);
  if (!p || b.value(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS) != 0 || index >= p->gid_count)
    return refusal::most("gid_index", index, p ? p->gid_count - 1 : 0);
  Result<Gid> gid =
      hca::query_gid(context.hca, static_cast<uint32_t>(port), static_cast<uint32_t>(index));
  if (!gid) return -gid.error().code;  // who looks through a table meets empty entries
  return b.put(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY,
               entry_of(*p, *gid, static_cast<uint32_t>(port), static_cast<uint32_t>(index)));
}

int query_gid_table(Context& context, Bundle& b) {
  uint64_t entry_bytes = b.value(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE);
  OutBuffer out = b.out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
  if (entry_bytes == 0 || b.value(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS) != 0)
    return refusal::least("entry_size", entry_bytes, 1);
  uint64_t room = out.bytes() / entry_bytes;
  uint64_t found = 0;
  for (uint32_t port = 1; port <= hca::port_count(context.hca); port++) {
    Result<PortAttr> p = port_of(context, port);
    for (uint32_t i = 0; p && i < p->gid_count; i++) {
      Result<Gid> gid = hca::query_gid(context.hca, port, i);
      if (!gid) continue;
      if (found == room) return refusal::least("max_entries", room, room + 1);
      ib_uverbs_gid_entry e = entry_of(*p, *gid, port, i);
      std::size_t n = std::min<std::size_t>(sizeof e, entry_bytes);
      if (int err = out.write_at(found * entry_bytes, &e, n); err != 0) return err;
      found++;
    }
  }
  return b.put(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, found);
}

constexpr AttrRule port_rules[] = {
    {UVERBS_ATTR_QUERY_PORT_PORT_NUM, AttrKind::in, true, 8, 8},
    {UVERBS_ATTR_QUERY_PORT_RESP, AttrKind::out, true,
     offsetof(ib_uverbs_query_port_resp_ex, reserved)},
};
constexpr AttrRule speed_rules[] = {
    {port_speed_port, AttrKind::in, true, 8, 8},
    {port_speed_resp, AttrKind::out, true, 8, 8},
};
constexpr AttrRule switch_port_rules[] = {
    {MLX5_IB_ATTR_QUERY_PORT_PORT_NUM, AttrKind::in, true, 4, 4},
    {MLX5_IB_ATTR_QUERY_PORT, AttrKind::out, true, sizeof(mlx5_ib_uapi_query_port)},
};
constexpr AttrRule entry_rules[] = {
    {UVERBS_ATTR_QUERY_GID_ENTRY_PORT, AttrKind::in, true, 4, 8},
    {UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, AttrKind::in, true, 4, 8},
    {UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, AttrKind::in, true, 4, 8},
    {UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, AttrKind::out, true,
     offsetof(ib_uverbs_gid_entry, netdev_ifindex) + 4},
};
constexpr AttrRule table_rules[] = {
    {UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, AttrKind::in, true, 8, 8},
    {UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, AttrKind::in, true, 4, 8},
    {UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, AttrKind::out, true},
    {UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, AttrKind::out, true, 8, 8},
};
constexpr Method port_table[] = {
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, WhenDead::refused, query_port,
     port_rules},  // ACCESS_REG (main.c, mlx5_query_port_roce())
    {UVERBS_OBJECT_DEVICE, method_port_speed, WhenDead::refused, query_port_speed,
     speed_rules},  // as above
    {UVERBS_OBJECT_DEVICE, MLX5_IB_METHOD_QUERY_PORT, WhenDead::runs, query_switch_port,
     switch_port_rules},  // no command without a switch (std_types.c)
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, WhenDead::runs, query_gid_entry,
     entry_rules},  // ib_core's table (core/uverbs_std_types_device.c)
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, WhenDead::runs, query_gid_table,
     table_rules},  // as above
};

}  // namespace

std::span<const Method> port_methods() {
  return port_table;
}

int cmd_query_port(Context& context, const Request& r) {
  ib_uverbs_query_port cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  Result<PortAttr> p = port_of(context, cmd.port_num);
  return p ? r.out.write(describe_port(*p)) : refusal::of(p.error());
}

}  // namespace kilim::vhca::uverbs
