// SPDX-License-Identifier: BSD-3-Clause
// The operations of rte_flow on an ethdev: rules are made, asked and removed through port::Port.
// Threads: as rte_flow's functions; librte_ethdev locks.
#include <cerrno>
#include <cstdio>

#include "net/kilim/ethdev.hh"
#include "net/kilim/ethdev_flow.hh"

namespace kilim::net {
namespace {

FlowRefusal check_attributes(const rte_flow_attr* attr) {
  if (attr == nullptr) return {EINVAL, RTE_FLOW_ERROR_TYPE_ATTR, nullptr, "no attributes"};
  if (attr->group != 0)
    return {ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_GROUP, attr, "the only group is 0"};
  if (attr->transfer != 0)
    return {ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_TRANSFER, attr, "rules end at this port"};
  if (attr->egress == attr->ingress)
    return {EINVAL, RTE_FLOW_ERROR_TYPE_ATTR, attr, "a rule is for one of ingress and egress"};
  if (attr->priority > flow::last_priority)
    return {ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY, attr, "priorities are 0 to 2"};
  return {};
}

int tell(const FlowRefusal& r, rte_flow_error* error) {
  return rte_flow_error_set(error, r.code, r.type, r.cause, r.what);
}

// The words that librte_ethdev was called with.
struct Asked {
  const rte_flow_attr* attr;
  const rte_flow_item* items;
  const rte_flow_action* actions;
};

rte_flow_item_type item_of(flow::Field field) noexcept {
  using F = flow::Field;
  switch (field) {
    case F::vlan:
      return RTE_FLOW_ITEM_TYPE_VLAN;
    case F::ipv4:
      return RTE_FLOW_ITEM_TYPE_IPV4;
    case F::ipv6:
      return RTE_FLOW_ITEM_TYPE_IPV6;
    case F::tcp:
      return RTE_FLOW_ITEM_TYPE_TCP;
    case F::udp:
      return RTE_FLOW_ITEM_TYPE_UDP;
    case F::tunnel:
    case F::inner:
      return RTE_FLOW_ITEM_TYPE_VXLAN;
    case F::icmp:
      return RTE_FLOW_ITEM_TYPE_ICMP;
    case F::esp:
      return RTE_FLOW_ITEM_TYPE_ESP;
    default:
      return RTE_FLOW_ITEM_TYPE_ETH;
  }
}

rte_flow_action_type action_of(flow::Field field) noexcept {
  using F = flow::Field;
  switch (field) {
    case F::queue:
      return RTE_FLOW_ACTION_TYPE_QUEUE;
    case F::rss_types:
    case F::rss_table:
      return RTE_FLOW_ACTION_TYPE_RSS;
    case F::mark:
      return RTE_FLOW_ACTION_TYPE_MARK;
    case F::count:
      return RTE_FLOW_ACTION_TYPE_COUNT;
    default:
      return RTE_FLOW_ACTION_TYPE_END;
  }
}

// The first one of this type; null: there is none.
template <typename Word, typename Type>
const Word* find_word(const Word* words, Type type) noexcept {
  for (; words->type != Type{}; words++)
    if (words->type == type) return words;
  return nullptr;
}
static_assert(RTE_FLOW_ITEM_TYPE_END == 0 && RTE_FLOW_ACTION_TYPE_END == 0);

// What the port or its device says of a rule that could be read.
int tell(const flow::RuleError& why, const Asked& asked, rte_flow_error* error) {
  const int code = why.code == 0 ? EINVAL : why.code;
  if (why.field == flow::Field::none)
    return rte_flow_error_set(error, code, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr, why.what);
  if (why.field == flow::Field::egress)
    return rte_flow_error_set(error, code, RTE_FLOW_ERROR_TYPE_ATTR_EGRESS, asked.attr, why.what);
  if (why.field == flow::Field::rewrite || why.field == flow::Field::prepend)
    return rte_flow_error_set(error, code, RTE_FLOW_ERROR_TYPE_ACTION, asked.actions, why.what);
  if (const auto type = action_of(why.field); type != RTE_FLOW_ACTION_TYPE_END)
    return rte_flow_error_set(error, code, RTE_FLOW_ERROR_TYPE_ACTION_CONF,
                              find_word(asked.actions, type), why.what);
  return rte_flow_error_set(error, code, RTE_FLOW_ERROR_TYPE_ITEM,
                            find_word(asked.items, item_of(why.field)), why.what);
}

FlowRefusal read_for(const rte_eth_dev* dev, const Asked& asked, flow::Rule& rule) {
  if (FlowRefusal r = check_attributes(asked.attr); r.code != 0) return r;
  rule.priority = static_cast<uint8_t>(asked.attr->priority);
  if (FlowRefusal r = read_pattern(asked.items, rule.match); r.code != 0) return r;
  rule.egress = asked.attr->egress != 0;
  return read_actions(asked.actions, {rule.match, ethdev_of(dev).rss(), rule.egress}, rule.action);
}

// Whether the device takes it shows only when the rule is created.
int validate(rte_eth_dev* dev, const rte_flow_attr* attr, const rte_flow_item items[],
             const rte_flow_action actions[], rte_flow_error* error) {
  const Asked asked{attr, items, actions};
  flow::Rule rule;
  if (FlowRefusal r = read_for(dev, asked, rule); r.code != 0) return tell(r, error);
  const flow::RuleError why = flow::check(
      rule, {.queues = dev->data->nb_rx_queues,
             .longest_table = ethdev_of(dev).port().device().caps().spread.longest_table});
  return why.code == 0 ? 0 : tell(why, asked, error);
}

rte_flow* create(rte_eth_dev* dev, const rte_flow_attr* attr, const rte_flow_item items[],
                 const rte_flow_action actions[], rte_flow_error* error) {
  const Asked asked{attr, items, actions};
  flow::Rule rule;
  if (FlowRefusal r = read_for(dev, asked, rule); r.code != 0) {
    tell(r, error);
    return nullptr;
  }
  flow::RuleError why;
  rte_flow* const made = ethdev_of(dev).add_flow(rule, why);
  if (made == nullptr) tell(why, asked, error);
  return made;
}

int destroy(rte_eth_dev* dev, rte_flow* flow, rte_flow_error* error) {
  if (ethdev_of(dev).remove_flow(flow) == 0) return 0;
  return tell({EINVAL, RTE_FLOW_ERROR_TYPE_HANDLE, flow, "no such rule"}, error);
}

int flush(rte_eth_dev* dev, rte_flow_error*) {
  ethdev_of(dev).flush_flows();
  return 0;
}

int query(rte_eth_dev* dev, rte_flow* flow, const rte_flow_action* action, void* data,
          rte_flow_error* error) {
  if (action->type != RTE_FLOW_ACTION_TYPE_COUNT || !flow->counts)
    return tell(
        {ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, action, "only count is asked, of a rule that counts"},
        error);
  const auto count = ethdev_of(dev).port().query_rule(flow->id);
  if (!count) return tell({EINVAL, RTE_FLOW_ERROR_TYPE_HANDLE, flow, count.error().what}, error);
  auto& to = *static_cast<rte_flow_query_count*>(data);
  to.hits_set = to.bytes_set = 1;
  to.hits = count->packets - flow->reset.packets;
  to.bytes = count->bytes - flow->reset.bytes;
  if (to.reset != 0) flow->reset = *count;
  return 0;
}

int dump(rte_eth_dev* dev, rte_flow* flow, FILE* file, rte_flow_error* error) {
  if (file != nullptr && ethdev_of(dev).dump_flows(flow, *file) == 0) return 0;
  return tell({EINVAL, RTE_FLOW_ERROR_TYPE_HANDLE, flow, "no such rule, or no file"}, error);
}

// A started port keeps its mode: DPDK's mlx5 driver, mlx5_flow.c, mlx5_flow_isolate().
int isolate(rte_eth_dev* dev, int on, rte_flow_error* error) {
  if (dev->data->dev_started != 0)
    return tell({EBUSY, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr, "port must be stopped first"},
                error);
  (void)ethdev_of(dev).port().set_isolated(on != 0);  // no rule is there to change
  return 0;
}

// No rule of a Kilim port ages, so none has.
int aged_flows(rte_eth_dev*, void**, uint32_t, rte_flow_error*) {
  return 0;
}

// librte_ethdev calls these without a look at whether there are any (rte_flow_push(),
// rte_flow_pull()): a port without queues of rules has to answer.
constexpr FlowRefusal no_queues{ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                                "rules are made at once, by no queue"};
int push(rte_eth_dev*, uint32_t, rte_flow_error* error) {
  return tell(no_queues, error);
}
int pull(rte_eth_dev*, uint32_t, rte_flow_op_result*, uint16_t, rte_flow_error* error) {
  return tell(no_queues, error);
}

constexpr rte_flow_ops make_flow_ops() noexcept {
  rte_flow_ops o{};
  o.dev_dump = dump;
  o.get_aged_flows = aged_flows;
  o.push = push;
  o.pull = pull;
  o.validate = validate;
  o.create = create;
  o.destroy = destroy;
  o.flush = flush;
  o.query = query;
  o.isolate = isolate;
  return o;
}

}  // namespace

const rte_flow_ops ethdev_flow_ops = make_flow_ops();

}  // namespace kilim::net
