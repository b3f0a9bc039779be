// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_FLOW_TABLE", "QUERY_FLOW_TABLE", "CREATE_FLOW_GROUP", "SET_FLOW_TABLE_ENTRY",
// "QUERY_FLOW_TABLE_ENTRY", "SYNC_STEERING" and the flow sampler, of DevX clients. A table is
// either the software's, which says where its first entry lies (rdma-core v44,
// providers/mlx5/dr_devx.c), or has one entry that takes all frames. Adapter's lock held.
#include <algorithm>
#include <bit>

#include "kilim/prm/flow_table.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/rdma_flows.hh"

namespace kilim::vhca::hca::commands {

namespace {

namespace fc = prm::flow_cmd;

ethernet::SoftSteering* soft_of(const Hca& h) {
  return h.eth.soft.get();
}

void put_address(Out out, std::size_t at, uint64_t address) {
  const be64 told{address};
  std::memcpy(out.data() + at, &told, sizeof told);
}

// The table that a command names; null: none, or of another type.
ethernet::FlowTable* table_in(const Hca& h, const Client& client, In in) {
  const ethernet::SoftSteering* soft = soft_of(h);
  ethernet::FlowTable* t =
      soft != nullptr ? find_own(soft->tables, client, prm::cap_get(in, fc::table_id)) : nullptr;
  const bool fits =
      t != nullptr && prm::cap_get(in, fc::table_type) == static_cast<uint32_t>(t->type);
  return fits ? t : nullptr;
}

// Entries of tables name other tables and TIRs by number; a table that is named stays.
void use_tables(const ethernet::SoftSteering& s, const ethernet::FlowEntry& e, bool more) {
  for (const ethernet::FlowEntry::To& to : e.to) {
    ethernet::FlowTable* t = to.table ? s.tables.at(to.number) : nullptr;
    if (t != nullptr) t->users += more ? 1 : -1u;
  }
}

// Whether a table's frames may go there: to another table of its kind, or to a TIR, which frames of
// RDMA queues never are for (Linux mlx5_ifc.h, nic_rx_rdma_fwd_tir: this adapter's is 0).
bool leads_on(const Hca& h, const Client& client, ethernet::TableType from,
              ethernet::FlowEntry::To to) {
  if (!to.table)
    return !ethernet::sees_rdma(from) && find_own(h.tirs, client, to.number) != nullptr;
  const ethernet::FlowTable* next = find_own(soft_of(h)->tables, client, to.number);
  return next != nullptr && next->type == from;
}

bool read_lists(const Hca& h, const Client& client, In in, ethernet::FlowTable& of,
                ethernet::FlowEntry& e) {
  namespace f = prm::flow_context;
  const In context = in.subspan(fc::flow_context);
  const uint32_t to = prm::cap_get(context, f::destination_list_size),
                 counts = prm::cap_get(context, f::flow_counter_list_size);
  if (to > ethernet::FlowEntry::most || counts > ethernet::FlowEntry::most ||
      context.size() < f::destinations + std::size_t{to + counts} * f::destination_bytes)
    return false;
  for (uint32_t i = 0; i < to + counts; i++) {
    const In item =
        context.subspan(f::destinations + i * f::destination_bytes, f::destination_bytes);
    const uint32_t type = prm::cap_get(item, f::destination_type),
                   number = prm::cap_get(item, f::destination_id);
    if (i >= to) {
      if (find_own(h.flow_counters, client, number) == nullptr) return false;
      e.counters.push_back(number);
      continue;
    }
    const ethernet::FlowEntry::To destination{type == f::to_table, number};
    if ((type != f::to_table && type != f::to_tir) || !leads_on(h, client, of.type, destination))
      return false;
    e.to.push_back(destination);
  }
  return true;
}

// Frames of RDMA queues are dropped, go on to other tables, or to where they would go anyhow.
bool has_one_end(const ethernet::FlowTable& t, const ethernet::FlowEntry& e) {
  namespace f = prm::flow_context;
  if (!ethernet::sees_rdma(t.type)) return true;
  const uint32_t end = e.action & (f::allow | f::drop | f::forward);
  return std::has_single_bit(end) && (end == f::forward) == !e.to.empty();
}

// The group of this table that a command names; null: none.
const ethernet::FlowGroup* group_in(const ethernet::FlowTable& t, In in) {
  const auto at = std::find_if(t.groups.begin(), t.groups.end(), [&](const ethernet::FlowGroup& g) {
    return g.number == prm::cap_get(in, fc::group_id);
  });
  return at != t.groups.end() ? &*at : nullptr;
}

Answer refused_table(In in) {
  return no_such(Refusal::no_such_table, "table_id", prm::cap_get(in, fc::table_id));
}

Answer no_tables() {
  return refused(Status::bad_op, Refusal::unknown_opcode, refusal::lacks("a flow table"));
}

Answer refused_entry(const char* field, uint32_t is, uint32_t other) {
  return refused(Status::bad_param, Refusal::table_entry, refusal::clash(field, is, other));
}

}  // namespace

Answer make_flow_table(Hca& h, const Client& client, In in, Out out) {
  namespace c = prm::flow_table_context;
  const In context = in.subspan(fc::context, c::bytes);
  const uint32_t type = prm::cap_get(in, fc::table_type);
  const bool software = prm::cap_get(context, c::sw_owner) != 0;
  const uint64_t root = read<be64>(context, c::sw_owner_icm_root_0).host();
  const Profile& p = h.config.profile;
  if (!ethernet::has_flow_tables(p)) return no_tables();
  if (!ethernet::is_table_type(type) || prm::cap_get(in, fc::other_vport) != 0 ||
      prm::cap_get(context, c::table_miss_action) != 0)
    return refused(Status::bad_param, Refusal::table_context,
                   refusal::clash("table_type", type, prm::cap_get(context, c::table_miss_action)));
  const auto kind = static_cast<ethernet::TableType>(type);
  if (ethernet::sees_rdma(kind) ? software || !ethernet::has_rdma_tables(p)
                                : software && !p.software_steering)
    return refused(Status::bad_param, Refusal::table_context,
                   refusal::clash("flow_table_context.sw_owner", software, type));
  ethernet::SoftSteering& soft = flow_tables(h);
  if (software && !soft.icm.steering.has(root))
    return refused(Status::bad_param, Refusal::table_context,
                   refusal::absent("flow_table_context.sw_owner_icm_root_0", root));
  uint32_t number = 0;
  ethernet::FlowTable* made = soft.tables.create(number);
  if (made == nullptr)
    return refused(Status::no_resources, Refusal::no_more_objects, refusal::full("table_id"));
  made->number = number;
  made->open = client.sink;
  made->type = kind;
  made->software = software;
  made->root = root;
  made->properties = prm::cap_get(context, c::properties);
  made->end.table = made;
  ethernet::eth_use_soft(h.eth);
  const uint64_t address =
      software ? root : ethernet::icm_end::address_of(ethernet::IcmEnd::table, number);
  prm::cap_set(out, fc::made_id, number);
  prm::cap_set(out, fc::icm_address_39_32, static_cast<uint32_t>(address >> 32));
  prm::cap_set(out, fc::icm_address_31_0, static_cast<uint32_t>(address));
  return {};
}

Answer query_flow_table(Hca& h, const Client& client, In in, Out out) {
  namespace c = prm::flow_table_context;
  const ethernet::FlowTable* t = table_in(h, client, in);
  if (t == nullptr) return refused_table(in);
  const Out context = out.subspan(fc::context, c::bytes);
  prm::cap_set(context, c::properties, t->properties);
  put_address(
      context, c::sw_owner_icm_root_0,
      t->software ? t->root : ethernet::icm_end::address_of(ethernet::IcmEnd::table, t->number));
  return {};
}

Answer end_flow_table(Hca& h, const Client& client, In in, Out) {
  ethernet::FlowTable* t = table_in(h, client, in);
  if (t == nullptr) return refused_table(in);
  if (t->users != 0 || !t->groups.empty() || ethernet::eth_detach_qp(h.eth, t->end) != 0)
    return refused(Status::bad_res_state, Refusal::object_in_use,
                   refusal::busy("table_id", t->users + t->groups.size()));
  soft_of(h)->tables.destroy(t->number);
  return {};
}

Answer make_flow_group(Hca& h, const Client& client, In in, Out out) {
  ethernet::FlowTable* t = table_in(h, client, in);
  if (t == nullptr) return refused_table(in);
  if (t->software || in[fc::criteria_enable_at] != std::byte{0})
    return refused_entry("match_criteria_enable", static_cast<uint32_t>(in[fc::criteria_enable_at]),
                         t->software);
  const ethernet::FlowGroup group{t->next_group, prm::cap_get(in, fc::start_flow_index),
                                  prm::cap_get(in, fc::end_flow_index)};
  t->groups.push_back(group);
  t->next_group = (t->next_group + 1) & 0xffffff;
  return made(out, group.number);
}

Answer end_flow_group(Hca& h, const Client& client, In in, Out) {
  ethernet::FlowTable* t = table_in(h, client, in);
  const ethernet::FlowGroup* group = t != nullptr ? group_in(*t, in) : nullptr;
  if (group == nullptr) return refused_table(in);
  if (t->groups.size() == 1 && t->has_entry)
    return refused(Status::bad_res_state, Refusal::object_in_use, refusal::busy("group_id", 1));
  t->groups.erase(t->groups.begin() + (group - t->groups.data()));
  return {};
}

Answer set_flow_entry(Hca& h, const Client& client, In in, Out) {
  namespace f = prm::flow_context;
  ethernet::FlowTable* t = table_in(h, client, in);
  if (t == nullptr || t->groups.empty()) return refused_table(in);
  const In context = in.subspan(fc::flow_context);
  const uint32_t action = prm::cap_get(context, f::action);
  ethernet::FlowEntry e;
  e.index = prm::cap_get(in, fc::flow_index);
  e.tag = prm::cap_get(context, f::flow_tag);
  e.action = action;
  e.group = prm::cap_get(context, f::group_id);
  e.drops = (action & f::drop) != 0;
  const uint32_t ends = ethernet::sees_rdma(t->type) ? f::allow | f::drop : f::drop;
  const bool known = (action & ~(ends | f::forward | f::count)) == 0 &&
                     prm::cap_get(context, f::extended_destination) == 0;
  if (!known || t->has_entry || !read_lists(h, client, in, *t, e) || !has_one_end(*t, e))
    return refused_entry("flow_context.action", action,
                         prm::cap_get(context, f::destination_list_size));
  if (e.drops != e.to.empty() && (action & f::forward) != 0)
    return refused_entry("flow_context.action", action,
                         prm::cap_get(context, f::destination_list_size));
  t->entry = std::move(e);
  t->has_entry = true;
  use_tables(*soft_of(h), t->entry, true);
  return {};
}

Answer delete_flow_entry(Hca& h, const Client& client, In in, Out) {
  ethernet::FlowTable* t = table_in(h, client, in);
  if (t == nullptr || !t->has_entry || t->entry.index != prm::cap_get(in, fc::flow_index))
    return refused_table(in);
  use_tables(*soft_of(h), t->entry, false);
  t->entry = {};
  t->has_entry = false;
  return {};
}

Answer query_flow_group(Hca& h, const Client& client, In in, Out out) {
  const ethernet::FlowTable* t = table_in(h, client, in);
  const ethernet::FlowGroup* group = t != nullptr ? group_in(*t, in) : nullptr;
  if (group == nullptr) return refused_table(in);
  prm::cap_set(out, fc::start_flow_index, group->first);
  prm::cap_set(out, fc::end_flow_index, group->last);
  return {};
}

// As much of both lists as the client has room for.
Answer query_flow_entry(Hca& h, const Client& client, In in, Out out) {
  namespace f = prm::flow_context;
  const ethernet::FlowTable* t = table_in(h, client, in);
  if (t == nullptr || !t->has_entry || t->entry.index != prm::cap_get(in, fc::flow_index))
    return refused_table(in);
  const ethernet::FlowEntry& e = t->entry;
  const Out context = out.subspan(fc::flow_context);
  prm::cap_set(context, f::group_id, e.group);
  prm::cap_set(context, f::flow_tag, e.tag);
  prm::cap_set(context, f::action, e.action);
  prm::cap_set(context, f::destination_list_size, static_cast<uint32_t>(e.to.size()));
  prm::cap_set(context, f::flow_counter_list_size, static_cast<uint32_t>(e.counters.size()));
  Out list = context.subspan(f::destinations);
  const auto tell = [&list](uint32_t type, uint32_t number) {
    if (list.size() < f::destination_bytes) return;
    prm::cap_set(list, f::destination_type, type);
    prm::cap_set(list, f::destination_id, number);
    list = list.subspan(f::destination_bytes);
  };
  for (const ethernet::FlowEntry::To& to : e.to)
    tell(to.table ? f::to_table : f::to_tir, to.number);
  for (const uint32_t counter : e.counters) tell(0, counter);
  return {};
}

// Entries are read as they are when a frame comes: nothing is kept of them that could be stale.
Answer sync_steering(Hca& h, In, Out) {
  if (!h.config.profile.software_steering) return no_tables();
  return {};
}

Answer make_sampler(Hca& h, const Client& client, In in, Out out) {
  namespace f = prm::flow_sampler;
  const In o = in.subspan(16, f::bytes);
  ethernet::SoftSteering& soft = *soft_of(h);
  ethernet::FlowTable* sample = find_own(soft.tables, client, prm::cap_get(o, f::sample_table_id));
  ethernet::FlowTable* otherwise =
      find_own(soft.tables, client, prm::cap_get(o, f::default_table_id));
  if (sample == nullptr || otherwise == nullptr) return refused_table(in);
  if (ethernet::sees_rdma(sample->type) || ethernet::sees_rdma(otherwise->type))
    return refused_entry("sampler.sample_table_id", sample->number,
                         static_cast<uint32_t>(sample->type));
  if (prm::cap_get(o, f::sample_ratio) == 0)
    return refused(Status::bad_param, Refusal::table_entry,
                   refusal::least("sampler.sample_ratio", 0, 1));
  uint32_t number = 0;
  ethernet::FlowSampler* made = soft.samplers.create(number);
  if (made == nullptr)
    return refused(Status::no_resources, Refusal::no_more_objects, refusal::full("table_id"));
  made->ratio = prm::cap_get(o, f::sample_ratio);
  made->sample = sample->number;
  made->otherwise = otherwise->number;
  made->table_type = prm::cap_get(o, f::table_type);
  sample->users++;
  otherwise->users++;
  return commands::made(out, number);
}

Answer query_sampler(Hca& h, uint32_t number, Out out) {
  namespace f = prm::flow_sampler;
  const ethernet::FlowSampler* s = soft_of(h)->samplers.at(number);
  if (s == nullptr) return no_such(Refusal::no_such_object, "obj_id", number);
  const Out o = out.subspan(16, f::bytes);
  prm::cap_set(o, f::table_type, s->table_type);
  prm::cap_set(o, f::sample_ratio, s->ratio);
  prm::cap_set(o, f::sample_table_id, s->sample);
  prm::cap_set(o, f::default_table_id, s->otherwise);
  const uint64_t address = ethernet::icm_end::address_of(ethernet::IcmEnd::sampler, number);
  put_address(o, f::icm_address_rx, address);
  put_address(o, f::icm_address_tx, address);
  return {};
}

Answer end_sampler(Hca& h, uint32_t number) {
  ethernet::SoftSteering& soft = *soft_of(h);
  const ethernet::FlowSampler* s = soft.samplers.at(number);
  if (s == nullptr) return no_such(Refusal::no_such_object, "obj_id", number);
  for (const uint32_t t : {s->sample, s->otherwise})
    if (ethernet::FlowTable* table = soft.tables.at(t)) table->users--;
  soft.samplers.destroy(number);
  return {};
}

}  // namespace kilim::vhca::hca::commands
