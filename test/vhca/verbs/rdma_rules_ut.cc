// SPDX-License-Identifier: BSD-3-Clause
// Flow tables of what RDMA queues receive and send, through libibverbs and libmlx5: a rule that
// drops ends a reliable request as on a card, where nobody answers, and an unreliable one is lost
// without a word; rules count packets; what mlx5_ib or a card refuses is refused.
#include <array>
#include <cerrno>
#include <chrono>
#include <vector>

#include "rdma_rule_fixture.hh"
#include "unreliable_fixture.hh"

namespace rdma_rules_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

namespace fc = prm::flow_cmd;
namespace f = prm::flow_context;

constexpr uint32_t region_bytes = 4096;

// How a request ends, retries and all.
ibv_wc_status status_of(Loop& l) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  ibv_wc_status s = IBV_WC_GENERAL_ERR;  // nothing came
  while (s == IBV_WC_GENERAL_ERR && std::chrono::steady_clock::now() < limit) s = l.status();
  return s;
}

// Two connected queues, and what they ask of each other.
struct Talk {
  Talk() : near(l.pd[0], region_bytes), far(l.pd[1], region_bytes) {
    CU_ASSERT_FATAL(l.ok);
    fill(near.data(), region_bytes, 3);
  }
  ibv_wc_status write(uint32_t bytes = 64) {
    EQUAL(l.post(IBV_WR_RDMA_WRITE, {near.sge(0, bytes)}, far.at(), far.mr()->rkey), 0);
    return status_of(l);
  }
  [[nodiscard]] bool untouched() { return all_equal(far.data(), region_bytes, 0); }
  Loop l;
  Region near, far;
};

struct Direction {
  uint32_t type;
  mlx5dv_flow_table_type table;
};
constexpr Direction directions[] = {{fc::rdma_rx, on_arrival}, {fc::rdma_tx, on_leaving}};

void a_rule_that_drops_ends_a_write_in_vain() {
  for (const Direction& d : directions) {
    FlowCounter seen;
    RuledTable drops(d.type, f::drop, &seen);
    Talk t;
    {
      RdmaRule rule(d.table, {to_table(drops)});
      EQUAL_FATAL(rule.error, 0);
      EQUAL(t.write(), IBV_WC_RETRY_EXC_ERR);
      EQUAL(state_of(t.l.qp[0]), IBV_QPS_ERR);
      EQUAL(state_of(t.l.qp[1]), IBV_QPS_RTS);
      CU_ASSERT(t.untouched());
      CU_ASSERT(seen.packets() >= 2);  // once more by retry_cnt
    }
    Talk anew;
    EQUAL(anew.write(), IBV_WC_SUCCESS);
    EQUAL(std::memcmp(anew.near.data(), anew.far.data(), 64), 0);
  }
}

void each_request_that_waits_for_an_answer_ends_so() {
  RuledTable drops(fc::rdma_rx, f::drop);
  RdmaRule rule(on_arrival, {to_table(drops)});
  EQUAL_FATAL(rule.error, 0);
  for (const ibv_wr_opcode op :
       {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ}) {
    Talk t;
    EQUAL(t.l.post_recv(1, {t.far.sge(0, 512)}), 0);
    EQUAL(t.l.post(op, {t.near.sge(0, 64)}, t.far.at(), t.far.mr()->rkey), 0);
    EQUAL(status_of(t.l), IBV_WC_RETRY_EXC_ERR);
    CU_ASSERT(t.untouched());
    ibv_wc wc{};
    EQUAL(ibv_poll_cq(t.l.cq[1], 1, &wc), 0);
  }
  Talk t;
  EQUAL(t.l.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, t.near.sge(0, 8), t.far.at(), t.far.mr()->rkey,
                        1),
        0);
  EQUAL(status_of(t.l), IBV_WC_RETRY_EXC_ERR);
  CU_ASSERT(t.untouched());
}

void what_its_own_side_objects_to_never_leaves() {
  FlowCounter seen;
  RuledTable drops(fc::rdma_tx, f::drop, &seen);
  RdmaRule rule(on_leaving, {to_table(drops)});
  EQUAL_FATAL(rule.error, 0);
  Talk t;
  ibv_sge wrong = t.near.sge(0, 64);
  wrong.lkey += 0x100;
  EQUAL(t.l.post(IBV_WR_RDMA_WRITE, {wrong}, t.far.at(), t.far.mr()->rkey), 0);
  EQUAL(status_of(t.l), IBV_WC_LOC_PROT_ERR);
  EQUAL(seen.packets(), 0);
}

void an_unreliable_write_is_lost_without_a_word() {
  RuledTable drops(fc::rdma_rx, f::drop);
  Unreliable u;
  CU_ASSERT_FATAL(u.ok);
  Region near(u.pd, 256), far(u.pd, 256);
  fill(near.data(), 256, 5);
  {
    RdmaRule rule(on_arrival, {to_table(drops)});
    EQUAL(u.post(IBV_WR_RDMA_WRITE, near.sge(0, 256), far.at(), far.mr()->rkey), IBV_WC_SUCCESS);
    CU_ASSERT(all_equal(far.data(), 256, 0));
  }
  EQUAL(u.post(IBV_WR_RDMA_WRITE, near.sge(0, 256), far.at(), far.mr()->rkey), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(near.data(), far.data(), 256), 0);
}

// IPv6, UDP, BTH and ICRC around, RETH in the first of three packets.
void packets_are_counted_with_what_stands_around_their_data() {
  constexpr uint64_t around = 14 + 40 + 8 + 12 + 4, reth = 16, bytes = 2500;
  for (const Direction& d : directions) {
    FlowCounter by_rule, by_entry;
    RuledTable allows(d.type, f::allow, &by_entry);
    RdmaRule rule(d.table, {to_table(allows), counted_by(by_rule)});
    EQUAL_FATAL(rule.error, 0);
    Talk t;
    EQUAL(t.write(bytes), IBV_WC_SUCCESS);
    EQUAL(std::memcmp(t.near.data(), t.far.data(), bytes), 0);
    for (const FlowCounter* c : {&by_rule, &by_entry}) {
      EQUAL(c->packets(), 3);
      EQUAL(c->bytes(), 3 * around + reth + bytes);
    }
  }
}

// Who has no entry, lets go; so does a rule for other frames.
void what_no_entry_takes_goes_on() {
  RuledTable empty(fc::rdma_rx, 0), drops(fc::rdma_rx, f::drop);
  RdmaRule to_nothing(on_arrival, {to_table(empty)});
  EQUAL_FATAL(to_nothing.error, 0);
  Talk t;
  EQUAL(t.write(), IBV_WC_SUCCESS);
  constexpr uint8_t other[] = {2, 0, 0, 0, 0, 0x77};
  RdmaRule of_others(on_arrival, {to_table(drops)}, Looked{}.at(8, other));
  EQUAL_FATAL(of_others.error, 0);
  EQUAL(t.write(), IBV_WC_SUCCESS);
}

void rules_look_at_the_headers_of_requests() {
  constexpr std::size_t udp_dport_at = 30;
  constexpr uint8_t roce[] = {0x12, 0xb7}, other[] = {0x12, 0xb8};
  RuledTable drops(fc::rdma_tx, f::drop);
  Talk t;
  {
    RdmaRule rule(on_leaving, {to_table(drops)}, Looked{}.at(udp_dport_at, other));
    EQUAL_FATAL(rule.error, 0);
    EQUAL(t.write(), IBV_WC_SUCCESS);
  }
  RdmaRule rule(on_leaving, {to_table(drops)}, Looked{}.at(udp_dport_at, roce));
  EQUAL_FATAL(rule.error, 0);
  EQUAL(t.write(), IBV_WC_RETRY_EXC_ERR);
}

void what_leaves_is_dropped_without_a_table() {
  FlowCounter seen;
  RdmaRule rule(on_leaving, {dropped(), counted_by(seen)});
  EQUAL_FATAL(rule.error, 0);
  Talk t;
  EQUAL(t.write(), IBV_WC_RETRY_EXC_ERR);
  CU_ASSERT(seen.packets() >= 2);
  CU_ASSERT(t.untouched());
}

void a_table_stays_while_a_rule_leads_to_it() {
  RuledTable table(fc::rdma_rx, 0);
  EQUAL(mlx5dv_devx_obj_destroy(table.group), 0);
  table.group = nullptr;
  RdmaRule rule(on_arrival, {to_table(table)});
  EQUAL_FATAL(rule.error, 0);
  CU_ASSERT(mlx5dv_devx_obj_destroy(table.table) != 0);
}

void wrong_rules_are_refused() {
  struct Row {
    const char* what;
    mlx5dv_flow_table_type table;
    std::vector<mlx5dv_flow_action_attr> actions;
    int error;
  };
  RuledTable rx(fc::rdma_rx, f::drop), tx(fc::rdma_tx, f::drop), nic(fc::nic_rx, 0);
  FlowCounter counter;
  Talk t;
  ibv_qp* raw = create_qp(t.l.pd[0], t.l.cq[0], {.type = IBV_QPT_RAW_PACKET});
  CU_ASSERT_PTR_NOT_NULL_FATAL(raw);
  mlx5dv_flow_action_attr to_queue{}, tag{}, miss{};
  to_queue.type = MLX5DV_FLOW_ACTION_DEST_IBV_QP;
  to_queue.qp = raw;
  tag.type = MLX5DV_FLOW_ACTION_TAG;
  tag.tag_value = 1;
  miss.type = MLX5DV_FLOW_ACTION_DEFAULT_MISS;
  const Row rows[] = {
      {"no destination", on_arrival, {counted_by(counter)}, EINVAL},
      {"a drop without a table, of what arrives", on_arrival, {dropped()}, EINVAL},
      {"nothing, of what leaves", on_leaving, {counted_by(counter)}, EINVAL},
      {"a queue", on_arrival, {to_queue}, EINVAL},
      {"a queue, of what leaves", on_leaving, {to_queue}, EINVAL},
      {"a table of the other direction", on_arrival, {to_table(tx)}, EINVAL},
      {"a table of the other direction, of what leaves", on_leaving, {to_table(rx)}, EINVAL},
      {"a table of raw packets", on_arrival, {to_table(nic)}, EINVAL},
      {"raw packets to such a table", MLX5DV_FLOW_TABLE_TYPE_NIC_RX, {to_table(rx)}, EINVAL},
      {"a tag", on_arrival, {to_table(rx), tag}, EINVAL},
      {"both a table and a drop", on_leaving, {to_table(tx), dropped()}, EOPNOTSUPP},
      {"on to the next table", on_leaving, {miss}, EOPNOTSUPP},
  };
  for (const Row& row : rows) {
    const RdmaRule rule(row.table, row.actions);
    if (rule.error != row.error) std::printf("%s\n", row.what);
    EQUAL(rule.error, row.error);
  }
  EQUAL(t.write(), IBV_WC_SUCCESS);
  EQUAL(ibv_destroy_qp(raw), 0);
}

void wrong_entries_are_refused() {
  struct Row {
    const char* what;
    uint32_t type, action, to_type;
  };
  RuledTable rx(fc::rdma_rx, 0), tx(fc::rdma_tx, 0), nic(fc::nic_rx, 0);
  const Row rows[] = {
      {"nothing but a count", fc::rdma_rx, f::count, fc::rdma_rx},
      {"two ends", fc::rdma_rx, f::allow | f::drop, fc::rdma_rx},
      {"drop and destination", fc::rdma_rx, f::drop | f::forward, fc::rdma_rx},
      {"a table of the other direction", fc::rdma_rx, f::forward, fc::rdma_tx},
      {"a table of raw packets", fc::rdma_tx, f::forward, fc::nic_rx},
      {"raw packets that are let go", fc::nic_rx, f::allow, fc::nic_rx},
      {"raw packets to such a table", fc::nic_rx, f::forward, fc::rdma_rx},
  };
  const auto of = [&](uint32_t type) -> const RuledTable& {
    return type == fc::rdma_rx ? rx : type == fc::rdma_tx ? tx : nic;
  };
  for (const Row& row : rows) {
    RuledTable target(row.to_type, 0);
    const bool leads = (row.action & f::forward) != 0;
    DevxBytes e(prm::cmd::set_flow_table_entry, fc::entry_bytes + f::destination_bytes);
    e.set(0, fc::table_type, row.type).set(0, fc::table_id, of(row.type).number);
    e.set(fc::flow_context, f::action, row.action);
    e.set(fc::flow_context, f::destination_list_size, leads);
    e.set(fc::flow_context + f::destinations, f::destination_type, f::to_table);
    e.set(fc::flow_context + f::destinations, f::destination_id, target.number);
    mlx5dv_devx_obj* made = e.make();
    if (made != nullptr) std::printf("%s\n", row.what);
    CU_ASSERT_PTR_NULL(made);
  }
  DevxBytes software(prm::cmd::create_flow_table, fc::table_bytes);
  software.set(0, fc::table_type, fc::rdma_rx);
  software.set(fc::context, prm::flow_table_context::sw_owner, 1);
  CU_ASSERT_PTR_NULL(software.make());
}

// Tables can lead in circles: a frame meets so many and no more.
void circles_have_an_end() {
  RuledTable first(fc::rdma_rx, 0), second(fc::rdma_rx, 0);
  std::array<mlx5dv_devx_obj*, 2> entries{};
  const std::array<const RuledTable*, 2> tables = {&first, &second};
  for (std::size_t i = 0; i < 2; i++) {
    DevxBytes e(prm::cmd::set_flow_table_entry, fc::entry_bytes + 2 * f::destination_bytes);
    e.set(0, fc::table_type, fc::rdma_rx).set(0, fc::table_id, tables[i]->number);
    e.set(fc::flow_context, f::action, f::forward);
    e.set(fc::flow_context, f::destination_list_size, 2);
    for (const std::size_t at : {f::destinations, f::destinations + f::destination_bytes}) {
      e.set(fc::flow_context + at, f::destination_type, f::to_table);
      e.set(fc::flow_context + at, f::destination_id, tables[1 - i]->number);
    }
    entries[i] = e.make();
    CU_ASSERT_PTR_NOT_NULL_FATAL(entries[i]);
  }
  {
    RdmaRule rule(on_arrival, {to_table(first)});
    EQUAL_FATAL(rule.error, 0);
    Talk t;
    EQUAL(t.write(), IBV_WC_RETRY_EXC_ERR);  // it comes to no end
  }
  for (mlx5dv_devx_obj* e : entries) EQUAL(mlx5dv_devx_obj_destroy(e), 0);
}

void capabilities_tell_of_these_tables() {
  namespace cap = prm::rdma_table_cap;
  std::vector<std::byte> in(16), out(16 + 4096);
  in[0] = std::byte{1};  // QUERY_HCA_CAP, 0x100
  const uint16_t current = prm::cmd::cap_nic_flow << 1 | 1;
  in[7] = static_cast<std::byte>(current);
  EQUAL_FATAL(mlx5dv_devx_general_cmd(context(), in.data(), in.size(), out.data(), out.size()), 0);
  for (const std::size_t table : {cap::receive, cap::transmit}) {
    const std::span<std::byte> properties = std::span(out).subspan(16 + table / 8);
    EQUAL(prm::cap_get(properties, cap::ft_support), 1);
    EQUAL(prm::cap_get(properties, cap::flow_counter), 1);
    EQUAL(prm::cap_get(properties, cap::log_max_ft_size), 16);
    EQUAL(prm::cap_get(properties, cap::max_ft_level), 255);
  }
}

constexpr Case cases[] = {
    {"a rule that drops ends a write in vain", a_rule_that_drops_ends_a_write_in_vain},
    {"each request that waits for an answer ends so",
     each_request_that_waits_for_an_answer_ends_so},
    {"what its own side objects to never leaves", what_its_own_side_objects_to_never_leaves},
    {"an unreliable write is lost without a word", an_unreliable_write_is_lost_without_a_word},
    {"packets are counted with what stands around their data",
     packets_are_counted_with_what_stands_around_their_data},
    {"what no entry takes goes on", what_no_entry_takes_goes_on},
    {"rules look at the headers of requests", rules_look_at_the_headers_of_requests},
    {"what leaves is dropped without a table", what_leaves_is_dropped_without_a_table},
    {"a table stays while a rule leads to it", a_table_stays_while_a_rule_leads_to_it},
    {"wrong rules are refused", wrong_rules_are_refused},
    {"wrong entries are refused", wrong_entries_are_refused},
    {"tables that lead in circles have an end", circles_have_an_end},
    {"capabilities tell of these tables", capabilities_tell_of_these_tables},
};

}  // namespace
}  // namespace rdma_rules_ut

KILIM_TEST_SUITE(rdma_rules, rdma_rules_ut::cases)
