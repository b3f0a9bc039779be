// SPDX-License-Identifier: BSD-3-Clause
// For tests: rules of the frames of RDMA queues, as rdma-core's tests/test_mlx5_flow.py makes them
// (test_flow_table_drop): a flow table with one entry by firmware commands, and a rule of mlx5's
// own kind that leads to it. On the adapter of fabric_fixture.hh. One thread.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "fabric_fixture.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/flow_table.hh"
#include "kilim/prm/queue_cmd.hh"

namespace kilim::test {

// A command's bytes, field by field.
struct DevxBytes {
  DevxBytes(uint16_t opcode, std::size_t bytes) : in(bytes) {
    in[0] = static_cast<std::byte>(opcode >> 8);
    in[1] = static_cast<std::byte>(opcode);
  }
  DevxBytes& set(std::size_t at, prm::CapField f, uint32_t value) {
    prm::cap_set(std::span(in).subspan(at), f, value);
    return *this;
  }
  mlx5dv_devx_obj* make() {
    return mlx5dv_devx_obj_create(context(), in.data(), in.size(), out.data(), out.size());
  }
  [[nodiscard]] uint32_t word(std::size_t at) const {
    be32 v;
    std::memcpy(&v, out.data() + at, sizeof v);
    return v.host();
  }
  std::vector<std::byte> in;
  std::array<std::byte, 64> out{};
};

struct FlowCounter {
  FlowCounter() {
    DevxBytes c(prm::cmd::alloc_flow_counter, prm::flow_counter::command_bytes);
    object = c.make();
    CU_ASSERT_PTR_NOT_NULL_FATAL(object);
    number = c.word(8);
  }
  ~FlowCounter() { EQUAL(mlx5dv_devx_obj_destroy(object), 0); }
  FlowCounter(const FlowCounter&) = delete;
  FlowCounter& operator=(const FlowCounter&) = delete;

  [[nodiscard]] uint64_t told(std::size_t at) const {
    namespace f = prm::flow_counter;
    DevxBytes c(prm::cmd::query_flow_counter, f::command_bytes);
    const be32 asked{number};
    std::memcpy(c.in.data() + f::number, &asked, sizeof asked);
    EQUAL(mlx5dv_devx_obj_query(object, c.in.data(), c.in.size(), c.out.data(), c.out.size()), 0);
    be64 v;
    std::memcpy(&v, c.out.data() + at, sizeof v);
    return v.host();
  }
  [[nodiscard]] uint64_t packets() const { return told(prm::flow_counter::packets); }
  [[nodiscard]] uint64_t bytes() const { return told(prm::flow_counter::octets); }
  mlx5dv_devx_obj* object;
  uint32_t number = 0;
};

// A table whose one entry does this with all frames; an action of 0: it has no entry.
struct RuledTable {
  explicit RuledTable(uint32_t table_type, uint32_t action, const FlowCounter* counter = nullptr)
      : type(table_type) {
    namespace fc = prm::flow_cmd;
    namespace f = prm::flow_context;
    DevxBytes t(prm::cmd::create_flow_table, fc::table_bytes);
    t.set(0, fc::table_type, type).set(fc::context, prm::flow_table_context::level, 200);
    table = t.make();
    CU_ASSERT_PTR_NOT_NULL_FATAL(table);
    number = t.word(8) & 0xffffff;
    DevxBytes g(prm::cmd::create_flow_group, fc::group_bytes);
    group = g.set(0, fc::table_type, type).set(0, fc::table_id, number).make();
    CU_ASSERT_PTR_NOT_NULL_FATAL(group);
    if (action == 0) return;
    DevxBytes e(prm::cmd::set_flow_table_entry, fc::entry_bytes + f::destination_bytes);
    e.set(0, fc::table_type, type).set(0, fc::table_id, number);
    e.set(fc::flow_context, f::group_id, g.word(8));
    e.set(fc::flow_context, f::action, action | (counter != nullptr ? f::count : 0));
    if (counter != nullptr) {
      e.set(fc::flow_context, f::flow_counter_list_size, 1);
      e.set(fc::flow_context + f::destinations, f::destination_id, counter->number);
    }
    entry = e.make();
    CU_ASSERT_PTR_NOT_NULL_FATAL(entry);
  }
  ~RuledTable() {
    for (mlx5dv_devx_obj* o : {entry, group, table})
      if (o != nullptr) EQUAL(mlx5dv_devx_obj_destroy(o), 0);
  }
  RuledTable(const RuledTable&) = delete;
  RuledTable& operator=(const RuledTable&) = delete;

  uint32_t type, number = 0;
  mlx5dv_devx_obj *table = nullptr, *group = nullptr, *entry = nullptr;
};

// What rules look at: bytes of the outer headers as match buffers have them (PRM
// "FTE_MATCH_SET_LYR_2_4").
struct Looked {
  std::array<uint8_t, 64> value{}, mask{};
  Looked& at(std::size_t place, std::span<const uint8_t> bytes) {
    std::copy(bytes.begin(), bytes.end(), value.begin() + static_cast<long>(place));
    std::fill_n(mask.begin() + static_cast<long>(place), bytes.size(), uint8_t{0xff});
    return *this;
  }
};

// Match buffers have their bytes behind their length.
class MatchParameters {
 public:
  explicit MatchParameters(const std::array<uint8_t, 64>& bytes) {
    get()->match_sz = bytes.size();
    std::memcpy(get()->match_buf, bytes.data(), bytes.size());
  }
  mlx5dv_flow_match_parameters* get() {
    return reinterpret_cast<mlx5dv_flow_match_parameters*>(room_.data());
  }

 private:
  std::array<uint64_t, 1 + 64 / sizeof(uint64_t)> room_{};
};

// A rule of the table that MLX5DV_FLOW_TABLE_TYPE_* names; without anything looked at: of all
// frames.
class RdmaRule {
 public:
  RdmaRule(mlx5dv_flow_table_type type, std::vector<mlx5dv_flow_action_attr> actions,
           const Looked& looked = {}) {
    MatchParameters mask(looked.mask), value(looked.value);
    const bool any = looked.mask != std::array<uint8_t, 64>{};
    mlx5dv_flow_matcher_attr attr{};
    attr.type = IBV_FLOW_ATTR_NORMAL;
    attr.match_criteria_enable = any ? 1 : 0;
    attr.match_mask = mask.get();
    attr.comp_mask = MLX5DV_FLOW_MATCHER_MASK_FT_TYPE;
    attr.ft_type = type;
    matcher_ = mlx5dv_create_flow_matcher(context(), &attr);
    if (matcher_ == nullptr) {
      error = errno;
      return;
    }
    flow_ = mlx5dv_create_flow(matcher_, value.get(), actions.size(), actions.data());
    error = flow_ != nullptr ? 0 : errno;
  }
  ~RdmaRule() {
    if (flow_ != nullptr) EQUAL(ibv_destroy_flow(flow_), 0);
    if (matcher_ != nullptr) EQUAL(mlx5dv_destroy_flow_matcher(matcher_), 0);
  }
  RdmaRule(const RdmaRule&) = delete;
  RdmaRule& operator=(const RdmaRule&) = delete;

  int error = 0;

 private:
  mlx5dv_flow_matcher* matcher_ = nullptr;
  ibv_flow* flow_ = nullptr;
};

inline mlx5dv_flow_action_attr to_table(const RuledTable& t) {
  mlx5dv_flow_action_attr a{};
  a.type = MLX5DV_FLOW_ACTION_DEST_DEVX;
  a.obj = t.table;
  return a;
}
inline mlx5dv_flow_action_attr counted_by(const FlowCounter& c) {
  mlx5dv_flow_action_attr a{};
  a.type = MLX5DV_FLOW_ACTION_COUNTERS_DEVX;
  a.obj = c.object;
  return a;
}
inline mlx5dv_flow_action_attr dropped() {
  mlx5dv_flow_action_attr a{};
  a.type = MLX5DV_FLOW_ACTION_DROP;
  return a;
}

constexpr mlx5dv_flow_table_type on_arrival = MLX5DV_FLOW_TABLE_TYPE_RDMA_RX,
                                 on_leaving = MLX5DV_FLOW_TABLE_TYPE_RDMA_TX;

}  // namespace kilim::test
