// SPDX-License-Identifier: BSD-3-Clause
// Steering rules of the verbs kind (ibv_create_flow): Ethernet, IP, TCP and UDP can be matched;
// VXLAN's and GRE's headers and what lies behind them. Frames can be dropped, marked and counted.
// Adapter's lock held.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>

#include "kilim/detail/base/be.hh"
#include "vhca/core/refusal.hh"
#include "vhca/ethernet/match_param.hh"
#include "vhca/hca/ports.hh"
#include "vhca/hca/verb_refusals.hh"
#include "vhca/uverbs/bundle.hh"
#include "vhca/uverbs/counters.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

namespace {

// enum ib_flow_spec_type and ib_flow_flags of the kernel, which it does not export.
constexpr uint32_t spec_eth = 0x20, spec_ipv4 = 0x30, spec_ipv6 = 0x31, spec_tcp = 0x40,
                   spec_udp = 0x41, spec_vxlan = 0x50, spec_gre = 0x51, spec_tag = 0x1000,
                   spec_drop = 0x1001, spec_count = 0x1003;
constexpr uint8_t protocol_tcp = 6, protocol_udp = 17, protocol_gre = 47;
constexpr uint16_t type_ipv4 = 0x0800, type_ipv6 = 0x86dd, type_mpls = 0x8847,
                   type_mpls_group = 0x8848;
constexpr uint32_t known_specs[] = {0x20, 0x21, 0x30, 0x31,   0x34,   0x40,   0x41,
                                    0x50, 0x51, 0x60, 0x1000, 0x1001, 0x1002, 0x1003};
constexpr uint32_t inner = 0x100;
constexpr uint32_t flags_end = 1u << 3;
constexpr uint32_t max_specs = 10;

int check(hca::Hca& h, const ib_uverbs_flow_attr& a) {
  if (a.num_of_specs > max_specs)
    return hca::refuse_verb(h, -EINVAL, {hca::VerbRefusal::flow_specs, a.num_of_specs, max_specs});
  constexpr std::size_t longest = max_specs * sizeof(ib_uverbs_flow_spec_ipv6);
  if (a.flags >= flags_end) return refusal::bits("flags", a.flags, flags_end - 1);
  if (a.size > longest || a.reserved[0] != 0 || a.reserved[1] != 0)
    return refusal::most("size, less that of ibv_flow_attr,", a.size, longest);
  constexpr auto last_type = static_cast<uint32_t>(FlowSpec::Type::sniffer);
  if (a.type > last_type) return refusal::most("type", a.type, last_type);
  // Linux drivers/infiniband/hw/mlx5/fs.c, MLX5_IB_FLOW_LAST_PRIO: MLX5_BY_PASS_NUM_REGULAR_PRIOS
  // - 1.
  const uint32_t last_priority = h.config.profile.flow_priorities - 1u;
  if (a.priority > last_priority)
    return hca::refuse_verb(h, -ENOSPC,
                            {hca::VerbRefusal::flow_priority, a.priority, last_priority});
  // Rules that do not trap, and rules of what leaves, are not there.
  return a.flags == 0
             ? 0
             : hca::refuse_verb(h, -EOPNOTSUPP, {hca::VerbRefusal::flow_flags, a.flags, 0});
}

// What a request asks for.
struct Wanted {
  FlowSpec spec;
  // Of a tunnel, and of what lies in it.
  bool deep = false;
  FlowSpec inner;
  DeepMatch tunnel, tunnel_mask;
  bool counts = false;
  uint32_t counters = 0;  // handle
};

bool known(uint32_t type) {
  for (uint32_t t : known_specs) {
    if (t == (type & ~inner)) return true;
  }
  return false;
}

uint16_t host16(__be16 v) {
  return be16::from_raw(v).host();
}

void parse_eth(const ib_uverbs_flow_spec_eth& e, FlowSpec& spec) {
  spec.has_eth = true;
  std::memcpy(spec.dst.data(), e.val.dst_mac, spec.dst.size());
  std::memcpy(spec.src.data(), e.val.src_mac, spec.src.size());
  std::memcpy(spec.dst_mask.data(), e.mask.dst_mac, spec.dst_mask.size());
  std::memcpy(spec.src_mask.data(), e.mask.src_mac, spec.src_mask.size());
  spec.ether_type = host16(e.val.ether_type);
  spec.ether_type_mask = host16(e.mask.ether_type);
  spec.vlan_tag = host16(e.val.vlan_tag);
  spec.vlan_tag_mask = host16(e.mask.vlan_tag);
}

uint32_t host32(__be32 v) {
  return be32::from_raw(v).host();
}

// Nothing but zeros in a part of the input.
int expect_zero(const InBuffer& in, std::size_t at, std::size_t bytes) {
  std::byte part[64];
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t n = std::min(bytes - done, sizeof part);
    if (int err = in.read(part, n, at + done); err != 0) return err;
    if (std::any_of(part, part + n, [](std::byte b) { return b != std::byte{0}; }))
      return refusal::bytes("a part of a spec that is not known here and not zero", bytes, 0);
    done += n;
  }
  return 0;
}

// Value and mask are half each of what lies behind a spec's head, in whole words, and may be
// shorter or longer than this kernel's: Linux drivers/infiniband/core/uverbs_cmd.c,
// ib_uverbs_kern_spec_to_ib_spec_filter().
template <typename Spec>
int read_spec(const InBuffer& in, std::size_t at, std::size_t size, Spec& spec) {
  const std::size_t half = (size - sizeof(ib_uverbs_flow_spec_hdr)) / 2;
  const std::size_t known = std::min(half, sizeof spec.val);
  if (half == 0 || half % 4 != 0) return refusal::clash("size of a spec", size, half);
  spec = {};
  at += sizeof(ib_uverbs_flow_spec_hdr);
  if (int err = in.read(&spec.val, known, at); err != 0) return err;
  if (int err = in.read(&spec.mask, known, at + half); err != 0) return err;
  return expect_zero(in, at + half + known, half - known);
}

// Each layer may say what IP carries; layers that say different things are refused (Linux fs.c,
// set_proto()).
int set_protocol(FlowSpec& spec, uint8_t value, uint8_t mask) {
  if (mask == 0) return 0;
  uint8_t &said = spec.ip.protocol, &said_mask = spec.ip_mask.protocol;
  if (said_mask != 0)
    return mask == said_mask && value == said
               ? 0
               : refusal::clash("the IP protocol of one spec", value, said);
  said = value;
  said_mask = mask;
  return 0;
}

// Time to live and flags of fragments are not matched by the card's tables that mlx5_ib uses.
int take_ipv4(hca::Hca& h, const ib_uverbs_flow_spec_ipv4& s, FlowSpec& spec) {
  if (s.mask.ttl != 0 || s.mask.flags != 0)
    return hca::refuse_verb(h, -EOPNOTSUPP, {hca::VerbRefusal::flow_ttl, s.mask.ttl, s.mask.flags});
  spec.ip_version = 4;
  const ib_uverbs_flow_ipv4_filter* from[] = {&s.val, &s.mask};
  FlowIp* to[] = {&spec.ip, &spec.ip_mask};
  for (int i = 0; i < 2; i++) {
    std::memcpy(to[i]->src.data(), &from[i]->src_ip, sizeof from[i]->src_ip);
    std::memcpy(to[i]->dst.data(), &from[i]->dst_ip, sizeof from[i]->dst_ip);
    to[i]->traffic = from[i]->tos;
  }
  return set_protocol(spec, s.val.proto, s.mask.proto);
}

int take_ipv6(hca::Hca& h, const ib_uverbs_flow_spec_ipv6& s, FlowSpec& spec) {
  if (s.mask.hop_limit != 0)
    return hca::refuse_verb(h, -EOPNOTSUPP,
                            {hca::VerbRefusal::flow_hop_limit, s.mask.hop_limit, 0});
  if (s.mask.reserved != 0) return refusal::bits("the mask's reserved byte", s.mask.reserved, 0);
  spec.ip_version = 6;
  const ib_uverbs_flow_ipv6_filter* from[] = {&s.val, &s.mask};
  FlowIp* to[] = {&spec.ip, &spec.ip_mask};
  for (int i = 0; i < 2; i++) {
    std::memcpy(to[i]->src.data(), from[i]->src_ip, to[i]->src.size());
    std::memcpy(to[i]->dst.data(), from[i]->dst_ip, to[i]->dst.size());
    to[i]->traffic = from[i]->traffic_class;
    to[i]->label = host32(from[i]->flow_label) & 0xfffff;
  }
  return set_protocol(spec, s.val.next_hdr, s.mask.next_hdr);
}

int take_ports(uint32_t type, const ib_uverbs_flow_spec_tcp_udp& s, FlowSpec& spec) {
  spec.l4_protocol = type == spec_tcp ? protocol_tcp : protocol_udp;
  spec.ports = {host16(s.val.src_port), host16(s.val.dst_port)};
  spec.ports_mask = {host16(s.mask.src_port), host16(s.mask.dst_port)};
  return set_protocol(spec, spec.l4_protocol, 0xff);
}

int odd_size(const ib_uverbs_flow_spec_hdr& h) {
  return refusal::clash("size of a spec", h.size, h.type);
}

// What becomes of the frame. The handle of what counts is kept for later.
// NOLINTNEXTLINE(readability-function-size): five parameters and the adapter
int take_action(hca::Hca& hca, const InBuffer& in, std::size_t at, const ib_uverbs_flow_spec_hdr& h,
                Wanted& w) {
  if (h.type == spec_drop) {
    w.spec.drops = true;
    return h.size == sizeof(ib_uverbs_flow_spec_action_drop) ? 0 : odd_size(h);
  }
  ib_uverbs_flow_spec_action_tag s;  // that of a count is laid out alike
  if (h.size != sizeof s) return odd_size(h);
  if (int err = in.read(&s, sizeof s, at); err != 0) return err;
  if (h.type == spec_count) {
    w.counts = true;
    w.counters = s.tag_id;
    return 0;
  }
  w.spec.tags = true;
  w.spec.tag = s.tag_id;
  constexpr uint32_t tags = 1u << 24;
  if (s.tag_id < tags) return 0;
  return hca::refuse_verb(hca, -EINVAL, {hca::VerbRefusal::flow_tag, s.tag_id, tags});
}

// One layer each: a second spec of the same layer is refused.
int parse_spec(hca::Hca& hca, const InBuffer& in, std::size_t at, const ib_uverbs_flow_spec_hdr& h,
               FlowSpec& spec) {
  if (h.type == spec_eth && !spec.has_eth) {
    ib_uverbs_flow_spec_eth s;
    if (int err = read_spec(in, at, h.size, s); err != 0) return err;
    parse_eth(s, spec);
    return 0;
  }
  if (h.type == spec_ipv4 && spec.ip_version == 0) {
    ib_uverbs_flow_spec_ipv4 s;
    int err = read_spec(in, at, h.size, s);
    return err != 0 ? err : take_ipv4(hca, s, spec);
  }
  if (h.type == spec_ipv6 && spec.ip_version == 0) {
    ib_uverbs_flow_spec_ipv6 s;
    int err = read_spec(in, at, h.size, s);
    return err != 0 ? err : take_ipv6(hca, s, spec);
  }
  if ((h.type == spec_tcp || h.type == spec_udp) && spec.l4_protocol == 0) {
    ib_uverbs_flow_spec_tcp_udp s;
    int err = read_spec(in, at, h.size, s);
    return err != 0 ? err : take_ports(h.type, s, spec);
  }
  return hca::refuse_verb(hca, -EOPNOTSUPP, {hca::VerbRefusal::flow_layer_twice, h.type});
}

// Linux fs.c, parse_flow_attr(), IB_FLOW_SPEC_VXLAN_TUNNEL and IB_FLOW_SPEC_GRE: a VXLAN spec
// leaves the port of UDP alone; one of GRE says what IP carries (a layer of IP comes before it),
// and nothing of GRE's bits.
int parse_tunnel_spec(const InBuffer& in, std::size_t at, const ib_uverbs_flow_spec_hdr& h,
                      Wanted& w) {
  w.deep = true;
  if (h.type == spec_vxlan) {
    ib_uverbs_flow_spec_tunnel s;
    if (int err = read_spec(in, at, h.size, s); err != 0) return err;
    if ((host32(s.val.tunnel_id) | host32(s.mask.tunnel_id)) >> 24 != 0)
      return refusal::most("tunnel_id", host32(s.val.tunnel_id | s.mask.tunnel_id), 0xffffff);
    const be32 value{host32(s.val.tunnel_id) << 8}, mask{host32(s.mask.tunnel_id) << 8};
    std::memcpy(w.tunnel.misc.data() + ethernet::match_place::vni, &value, 3);
    std::memcpy(w.tunnel_mask.misc.data() + ethernet::match_place::vni, &mask, 3);
    return 0;
  }
  ib_uverbs_flow_spec_gre s;
  if (int err = read_spec(in, at, h.size, s); err != 0) return err;
  if (s.mask.c_ks_res0_ver != 0)
    return refusal::bits("c_ks_res0_ver", host16(s.mask.c_ks_res0_ver), 0, EOPNOTSUPP);
  if (int err = set_protocol(w.spec, protocol_gre, 0xff); err != 0) return err;
  std::memcpy(w.tunnel.misc.data() + ethernet::match_place::gre_protocol, &s.val.protocol, 2);
  std::memcpy(w.tunnel_mask.misc.data() + ethernet::match_place::gre_protocol, &s.mask.protocol, 2);
  std::memcpy(w.tunnel.misc.data() + ethernet::match_place::gre_key, &s.val.key, 4);
  std::memcpy(w.tunnel_mask.misc.data() + ethernet::match_place::gre_key, &s.mask.key, 4);
  return 0;
}

bool names_tunnel(uint32_t type) {
  return type == spec_vxlan || type == spec_gre || (type & inner) != 0;
}

// Whatever a spec matches.
int parse_match(Context& context, const InBuffer& in, std::size_t at, ib_uverbs_flow_spec_hdr h,
                Wanted& w) {
  if (!names_tunnel(h.type)) return parse_spec(context.hca, in, at, h, w.spec);
  if (!context.hca.config.profile.tunnels) return refusal::lacks("a spec of a tunnel");
  if (h.type == spec_vxlan || h.type == spec_gre) return parse_tunnel_spec(in, at, h, w);
  w.deep = true;
  h.type &= ~inner;
  return parse_spec(context.hca, in, at, h, w.inner);
}

// An Ethernet type that is named, whole, must be that of the IP layer that is, or one of MPLS
// (Linux fs.c, is_valid_ethertype()).
int check_layers(hca::Hca& h, const FlowSpec& s) {
  if (s.ip_version == 0 || s.ether_type_mask == 0) return 0;
  const uint16_t wanted = s.ip_version == 4 ? type_ipv4 : type_ipv6;
  const bool fits =
      s.ether_type == wanted || s.ether_type == type_mpls || s.ether_type == type_mpls_group;
  if (fits && s.ether_type_mask == 0xffff) return 0;
  return hca::refuse_verb(h, -EINVAL, {hca::VerbRefusal::flow_ether_type, s.ether_type, wanted});
}

bool is_action(uint32_t type) {
  return type == spec_tag || type == spec_drop || type == spec_count;
}

// mlx5_ib marks nothing that no other rule took (fs.c, _create_flow_rule()).
int check_actions(const FlowSpec& s) {
  const bool defaults =
      s.type == FlowSpec::Type::all_default || s.type == FlowSpec::Type::mc_default;
  return s.tags && defaults ? refusal::clash("tag_id", s.tag, static_cast<uint64_t>(s.type)) : 0;
}

constexpr std::size_t specs_at = sizeof(ib_uverbs_create_flow);

// All specs must have come, and what lies behind them must be nothing.
int check_length(const InBuffer& in, std::size_t specs) {
  return in.bytes() < specs_at + specs
             ? refusal::bytes("the command with its specs", in.bytes(), specs_at + specs, ENOSPC)
             : in.zero_from(specs_at + specs);
}

// The specs behind the command; their sizes must add up.
int parse_specs(Context& context, const InBuffer& in, const ib_uverbs_flow_attr& a, Wanted& w) {
  std::size_t at = specs_at;
  const std::size_t end = at + a.size;
  for (unsigned i = 0; i < a.num_of_specs; i++) {
    ib_uverbs_flow_spec_hdr h;
    if (int err = in.read(&h, sizeof h, at); err != 0) return err;
    if (h.size < sizeof h || h.size > end - at || h.reserved != 0) return odd_size(h);
    if (!known(h.type)) return refusal::absent("type of a spec", h.type);
    const int err = is_action(h.type) ? take_action(context.hca, in, at, h, w)
                                      : parse_match(context, in, at, h, w);
    if (err != 0) return err;
    at += h.size;
  }
  if (int err = check_actions(w.spec); err != 0) return err;
  if (at != end) return refusal::equal("the sum of the specs' sizes", at - specs_at, a.size);
  if (int err = check_layers(context.hca, w.inner); err != 0) return err;
  if (int err = check_layers(context.hca, w.spec); err != 0 || !w.deep) return err;
  ethernet::use_buffer(w.spec, w.inner, w.tunnel, w.tunnel_mask);
  return 0;
}

// The driver's part says what the counters tell; without a spec it must say nothing.
int find_counters(Context& context, const Request& r, Wanted& w, CountersObject*& counters) {
  if (!w.counts) return r.driver_in.zero_from(0);
  counters = context.find<CountersObject>(w.counters);
  if (counters == nullptr)
    return refusal::absent("the counters of IBV_FLOW_SPEC_ACTION_COUNT", w.counters);
  w.spec.count = &counters->count;
  return bind_counters(*counters, r.driver_in);
}

int destroy_flow(Context& context, Bundle& b) {
  return destroy_by(context, b, UVERBS_ATTR_DESTROY_FLOW_HANDLE);
}

constexpr AttrRule flow_destroy_rules[] = {
    {UVERBS_ATTR_DESTROY_FLOW_HANDLE, AttrKind::object, true, 0, 0, Kind::flow},
};
constexpr Method flow_table[] = {
    {UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY, WhenDead::runs, destroy_flow,
     flow_destroy_rules},
};

}  // namespace

std::span<const Method> flow_methods() {
  return flow_table;
}

int FlowObject::release(Context& context) {
  return hca::destroy_flow(context.hca, rule);
}

int cmd_create_flow(Context& context, const Request& r) {
  ib_uverbs_create_flow cmd;
  if (int err = r.in.read(&cmd, sizeof cmd); err != 0) return err;
  if (cmd.comp_mask != 0) return refusal::bits("comp_mask", cmd.comp_mask, 0);
  hca::Hca& h = context.hca;
  if (int err = check(h, cmd.flow_attr); err != 0) return err;
  if (int err = check_length(r.in, cmd.flow_attr.size); err != 0) return err;
  auto* qp = context.find<QpObject>(cmd.qp_handle);
  if (qp == nullptr) return refusal::absent("qp_handle", cmd.qp_handle);
  if (qp->type != QpType::raw_packet)
    return hca::refuse_verb(h, -EINVAL, {hca::VerbRefusal::flow_not_raw, qp->qpn.value()});
  const uint32_t port = cmd.flow_attr.port;
  if (!hca::has_port(h, port))
    return hca::refuse_verb(h, -EINVAL, {hca::VerbRefusal::flow_port, port, hca::port_count(h)});
  Wanted w;
  w.spec.type = static_cast<FlowSpec::Type>(cmd.flow_attr.type);
  w.spec.priority = cmd.flow_attr.priority;
  w.spec.port = cmd.flow_attr.port;
  if (int err = parse_specs(context, r.in, cmd.flow_attr, w); err != 0) return err;
  CountersObject* counters = nullptr;
  if (int err = find_counters(context, r, w, counters); err != 0) return err;
  Result<uint32_t> rule = qp->hashes ? hca::create_flow_to_tir(context.hca, qp->tirn, w.spec)
                                     : hca::create_flow(context.hca, qp->qpn, w.spec);
  if (!rule) return refusal::of(rule.error());
  auto made = std::make_unique<FlowObject>();
  made->rule = *rule;
  FlowObject& flow = *made;
  context.add(std::move(made), {qp, counters});
  return context.keep_unless(r.out.write(ib_uverbs_create_flow_resp{0, flow.handle}), flow);
}

int cmd_destroy_flow(Context& context, const Request& r) {
  ib_uverbs_destroy_flow cmd;
  if (int err = r.in.read(cmd); err != 0) return err;
  return cmd.comp_mask != 0 ? refusal::bits("comp_mask", cmd.comp_mask, 0)
                            : destroy_handle<FlowObject>(context, cmd.flow_handle);
}

}  // namespace kilim::vhca::uverbs
