// SPDX-License-Identifier: BSD-3-Clause
// The inputs that the harness of ioctls begins with: one of each object, shared queues, device
// memory, and every method without an object.
#include "client_arena_fixture.hh"
#include "input_fixture.hh"
#include "ioctl_fixture.hh"

namespace kilim::fuzz {
namespace {

template <typename T>
Script& attr(Script& s, uint16_t, const T& v) {
  s.put(uint8_t{0}, static_cast<uint16_t>(sizeof(v)));
  return s.value(v);
}

template <typename Core, typename Driver>
Script& command(Script& s, uint8_t number, const Core& core, uint8_t out, const Driver& driver) {
  s.put(static_cast<uint8_t>(Ask::command), number, static_cast<uint8_t>(sizeof(core)));
  s.value(core).put(out, static_cast<uint8_t>(sizeof(driver)));
  return s.value(driver);
}

template <typename Core>
Script& command(Script& s, uint8_t number, const Core& core, uint8_t out) {
  s.put(static_cast<uint8_t>(Ask::command), number, static_cast<uint8_t>(sizeof(core)));
  return s.value(core).put(out, uint8_t{0});
}

uint8_t method_number(uint16_t object, uint16_t method) {
  std::vector<const vhca::uverbs::Method*> all = all_methods();
  for (std::size_t i = 0; i < all.size(); i++) {
    if (all[i]->object == object && all[i]->method == method) return static_cast<uint8_t>(i);
  }
  return 0xff;
}

// A domain (handle 0), a doorbell page (1), a region (2), a completion queue (3), a channel.
Script objects() {
  Script s;
  s.put(uint8_t{1});
  command(s, IB_USER_VERBS_CMD_ALLOC_PD, uint64_t{0}, 4, uint64_t{0});
  s.put(static_cast<uint8_t>(Ask::ioctl),
        method_number(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC), uint8_t{5});
  s.put(uint8_t{0}, uint8_t{2}, uint8_t{0});
  s.put(uint8_t{1}, uint8_t{0}, uint16_t{8}, uint64_t{1});
  for (uint8_t i = 2; i < 5; i++) s.put(i, uint8_t{1}, i == 2 ? uint16_t{8} : uint16_t{4});
  struct {
    uint64_t response = 0, start = arena_rings, length = 8192, hca_va = arena_rings;
    uint32_t pd = 0, access = 0xf;
  } mr;
  command(s, IB_USER_VERBS_CMD_REG_MR, mr, 12);
  command(s, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, uint64_t{0}, 4);
  struct {
    uint64_t response = 0, user_handle = 5;
    uint32_t cqe = 15, vector = 0;
    int32_t channel = -1;
    uint32_t reserved = 0;
  } cq;
  mlx5_ib_create_cq d{};
  d.buf_addr = arena_rings;
  d.db_addr = arena_rings + 8000;
  d.cqe_size = 64;
  d.flags = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX;
  d.uar_page_index = 1;
  return command(s, IB_USER_VERBS_CMD_CREATE_CQ, cq, 8, d);
}

struct CreateQp {
  uint64_t response = 0, user_handle = 7;
  uint32_t pd = 0, send_cq = 3, recv_cq = 3, srq = 0;
  uint32_t send_wr = 16, recv_wr = 16, send_sge = 1, recv_sge = 1, inlined = 0;
  uint8_t sig_all = 0, type = 2, is_srq = 0, reserved = 0;
};

mlx5_ib_create_qp qp_driver() {
  mlx5_ib_create_qp d{};
  d.buf_addr = arena_rings + 0x2000;
  d.db_addr = arena_rings + 8064;
  d.sq_wqe_count = 64;
  d.rq_wqe_count = 16;
  d.rq_wqe_shift = 6;
  d.flags = MLX5_QP_FLAG_UAR_PAGE_INDEX;
  d.bfreg_index = 1;
  return d;
}

Script queues_seed() {
  Script s = objects();
  command(s, IB_USER_VERBS_CMD_CREATE_QP, CreateQp{}, 32, qp_driver());
  ib_uverbs_modify_qp m{};
  m.qp_handle = 4;
  m.attr_mask = 1 | 8 | 16 | 32;
  m.qp_state = 1;
  m.port_num = 1;
  command(s, IB_USER_VERBS_CMD_MODIFY_QP, m, 0);
  m.attr_mask = 1;
  m.qp_state = 6;
  command(s, IB_USER_VERBS_CMD_MODIFY_QP, m, 0);
  s.put(static_cast<uint8_t>(Ask::run));
  command(s, IB_USER_VERBS_CMD_QUERY_QP, std::array<uint32_t, 6>{0, 0, 4, 0x1fffff, 0, 0}, 160);
  command(s, IB_USER_VERBS_CMD_DESTROY_QP, std::array<uint32_t, 4>{0, 0, 4, 0}, 4);
  command(s, IB_USER_VERBS_CMD_DESTROY_CQ, std::array<uint32_t, 4>{0, 0, 3, 0}, 8);
  return command(s, IB_USER_VERBS_CMD_DEREG_MR, uint32_t{2}, 0);
}

Script srq_seed() {
  Script s = objects();
  struct {
    uint64_t response = 0, user_handle = 9;
    uint32_t pd = 0, max_wr = 15, max_sge = 1, limit = 0;
  } srq;
  mlx5_ib_create_srq d{};
  d.buf_addr = arena_rings + 0x4000;
  d.db_addr = arena_rings + 8128;
  command(s, IB_USER_VERBS_CMD_CREATE_SRQ, srq, 16, d);
  command(s, IB_USER_VERBS_CMD_MODIFY_SRQ, std::array<uint32_t, 4>{4, 2, 0, 3}, 0);
  command(s, IB_USER_VERBS_CMD_QUERY_SRQ, std::array<uint32_t, 4>{0, 0, 4, 0}, 16);
  command(s, IB_USER_VERBS_CMD_OPEN_XRCD, std::array<uint32_t, 4>{0, 0, ~0u, 0}, 4);
  command(s, IB_USER_VERBS_CMD_ALLOC_MW, std::array<uint32_t, 4>{0, 0, 0, 2}, 8);
  command(s, IB_USER_VERBS_CMD_REREG_MR,
          std::array<uint64_t, 6>{0, uint64_t{4} << 32 | 2, 0, 0, 0, uint64_t{1} << 32}, 8);
  return command(s, IB_USER_VERBS_CMD_DESTROY_SRQ, std::array<uint32_t, 4>{0, 0, 4, 0}, 4);
}

// A block (handle 4), its page mapped, a region on it (5), which go again.
Script device_memory_seed() {
  Script s = objects();
  auto ask = [&s](uint16_t object, uint16_t method, uint8_t attributes) -> Script& {
    return s.put(static_cast<uint8_t>(Ask::ioctl), method_number(object, method), attributes);
  };
  auto handle = [&s](uint8_t rule, uint8_t h) { s.put(rule, uint8_t{2}, h); };
  auto value = [&s](uint8_t rule, uint16_t bytes, uint64_t v) {
    s.put(rule, uint8_t{4}, bytes, v);
  };
  auto out = [&s](uint8_t rule, uint16_t bytes) { s.put(rule, uint8_t{1}, bytes); };
  ask(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, 5);
  handle(0, 0), value(1, 8, 4000), value(2, 4, 7), out(3, 8), out(4, 2);
  ask(UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_QUERY, 4);
  handle(0, 4), out(1, 8), out(2, 2), out(3, 8);
  s.put(static_cast<uint8_t>(Ask::map), uint64_t{MLX5_IB_MMAP_DEVICE_MEM} << 20, uint8_t{3 | 8},
        uint8_t{2});
  ask(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, 8);
  handle(0, 0), value(1, 8, 100), value(2, 8, 3900), handle(3, 0), value(4, 4, 0x2f), handle(5, 4);
  out(6, 4), out(7, 4);
  ask(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, 1), handle(0, 5);
  ask(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, 1), handle(0, 4);
  return s;
}

Script queries_seed() {
  Script s = objects();
  command(s, IB_USER_VERBS_CMD_QUERY_DEVICE, uint64_t{0}, 200);
  command(s, 0x80 | IB_USER_VERBS_EX_CMD_QUERY_DEVICE, uint64_t{0}, 255);
  command(s, IB_USER_VERBS_CMD_QUERY_PORT, std::array<uint64_t, 2>{0, 1}, 48);
  std::vector<const vhca::uverbs::Method*> all = all_methods();
  for (std::size_t m = 0; m < all.size(); m++) {
    auto rules = static_cast<uint8_t>(all[m]->rules.size());
    s.put(static_cast<uint8_t>(Ask::ioctl), static_cast<uint8_t>(m), rules);
    for (uint8_t i = 0; i < rules; i++) {
      bool value = all[m]->rules[i].kind == vhca::uverbs::AttrKind::in;
      bool out = all[m]->rules[i].kind == vhca::uverbs::AttrKind::out;
      uint16_t bytes = all[m]->rules[i].min;
      s.put(i, out ? uint8_t{1} : value ? uint8_t{4} : uint8_t{2});
      if (value) s.put(bytes, uint64_t{1});
      if (out) s.put(bytes);
      if (!value && !out) s.put(uint8_t{0});
    }
  }
  s.put(static_cast<uint8_t>(Ask::write), uint8_t{IB_USER_VERBS_CMD_ALLOC_PD}, uint8_t{2},
        uint8_t{1}, uint16_t{16}, uint64_t{arena_rings}, uint64_t{0});
  return s.put(static_cast<uint8_t>(Ask::map), uint64_t{0x700000}, uint8_t{1 | 8}, uint8_t{2});
}

}  // namespace

std::vector<Seed> seeds() {
  return {{"objects", objects()},
          {"queues", queues_seed()},
          {"shared queues", srq_seed()},
          {"device memory", device_memory_seed()},
          {"queries", queries_seed()}};
}

}  // namespace kilim::fuzz
