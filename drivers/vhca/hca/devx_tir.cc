// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_TIR", "MODIFY_TIR", "QUERY_TIR", "DESTROY_TIR" of DevX clients. Adapter's lock held.
#include <array>
#include <cerrno>
#include <cstring>

#include "kilim/prm/flow_table.hh"
#include "kilim/prm/queue_cmd.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/hca/commands.hh"
#include "vhca/hca/objects.hh"

namespace kilim::vhca::hca::commands {

namespace {

constexpr uint8_t tcp = 6, udp = 17;

// The hash of the outer headers, or of a tunnel's inner ones: one of the two (mlx5_ib and DPDK
// choose one, qp.c, create_rss_raw_qp_tir(); mlx5_devx.c, mlx5_devx_tir_attr_set()). Symmetric
// hashes are not offered.
bool fill_hash(In context, TirSpec& s) {
  namespace t = prm::tirc;
  s.inner = prm::cap_get(context, t::inner_fields) != 0;
  constexpr FieldRange asymmetric[] = {{"tirc.rx_hash_symmetric", t::rx_hash_symmetric, 0, 0},
                                       {"tirc.rx_hash_fn", t::rx_hash_fn, 0, t::hash_toeplitz}};
  if (!lie_within(context, asymmetric)) return false;
  const uint32_t function = prm::cap_get(context, t::rx_hash_fn);
  const uint32_t outer = prm::cap_get(context, t::outer_fields);
  const uint32_t fields = s.inner ? prm::cap_get(context, t::inner_fields) : outer;
  const bool no_tunnel = s.inner && (!s.tunnels || outer != 0);
  const bool none = function == t::hash_none;
  if (no_tunnel || (none && fields != 0) || (!none && function != t::hash_toeplitz)) {
    refusal::clash("tirc.rx_hash_field_selector", fields, no_tunnel ? outer : function);
    return false;
  }
  if (none) return true;
  if ((fields & ~t::known_fields) != 0) {
    refusal::bits("tirc.rx_hash_field_selector", fields, t::known_fields);
    return false;
  }
  s.fields = static_cast<uint8_t>(fields);
  if ((fields & (hash_field::src_ip | hash_field::dst_ip)) != 0)
    s.ip_version =
        prm::cap_get(context, s.inner ? t::inner_l3_is_ipv6 : t::outer_l3_is_ipv6) != 0 ? 6 : 4;
  if ((fields & (hash_field::src_port | hash_field::dst_port)) != 0)
    s.l4_protocol =
        prm::cap_get(context, s.inner ? t::inner_l4_is_udp : t::outer_l4_is_udp) != 0 ? udp : tcp;
  std::memcpy(s.key.data(), context.data() + t::rx_hash_toeplitz_key, s.key.size());
  return true;
}

// What fill_hash() has read. A hash over nothing is none.
void tell_hash(Out context, const TirSpec& s) {
  namespace t = prm::tirc;
  prm::cap_set(context, t::rx_hash_fn, s.fields != 0 ? t::hash_toeplitz : t::hash_none);
  put(context, t::rx_hash_toeplitz_key, s.key);
  prm::cap_set(context, s.inner ? t::inner_fields : t::outer_fields, s.fields);
  prm::cap_set(context, s.inner ? t::inner_l3_is_ipv6 : t::outer_l3_is_ipv6, s.ip_version == 6);
  prm::cap_set(context, s.inner ? t::inner_l4_is_udp : t::outer_l4_is_udp, s.l4_protocol == udp);
}

// Without a size nothing could be joined.
bool fill_lro(const Profile& p, In context, TirSpec& s) {
  namespace t = prm::tirc;
  s.lro_versions = static_cast<uint8_t>(prm::cap_get(context, t::lro_enable_mask));
  s.lro_bytes = prm::cap_get(context, t::lro_max_msg_sz) * lro::unit_bytes;
  s.lro_timeout_us = prm::cap_get(context, t::lro_timeout_period_usecs);
  s.lro_min_mss = p.lro_min_mss;
  const bool fits = s.lro_versions == 0 ||
                    (p.lro && s.lro_bytes != 0 && (s.lro_versions & ~(lro::ipv4 | lro::ipv6)) == 0);
  if (!fits) refusal::clash("tirc.lro_enable_mask", s.lro_versions, s.lro_bytes);
  return fits;
}

// Where software's entries lead to it, too.
Answer tell_tir(const Hca& h, Out out, uint32_t tirn) {
  namespace f = prm::flow_cmd;
  (void)made(out, tirn);
  if (!h.config.profile.software_steering) return {};
  const uint64_t address = ethernet::icm_end::address_of(ethernet::IcmEnd::tir, tirn);
  prm::cap_set(out, f::icm_address_39_32, static_cast<uint32_t>(address >> 32));
  prm::cap_set(out, f::icm_address_31_0, static_cast<uint32_t>(address));
  return {};
}

Answer refuse_tir(const Error& error) {
  if (error.code == ENOMEM)
    return refused(Status::no_resources, Refusal::no_more_objects, refusal::full("tirn"));
  return refused(Status::bad_param, Refusal::tir_context, refusal::of(error));
}

}  // namespace

Answer make_tir(Hca& h, const Client& client, In in, Out out) {
  namespace t = prm::tirc;
  const In context = in.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  TirSpec spec;
  const uint32_t type = prm::cap_get(context, t::disp_type);
  spec.tunnels = prm::cap_get(context, t::tunneled_offload_en) != 0;
  if (spec.tunnels && !h.config.profile.tunnels)
    return refused(Status::bad_param, Refusal::tir_context,
                   refusal::lacks("tirc.tunneled_offload_en"));
  if (type > t::indirect)
    return refused(Status::bad_param, Refusal::tir_context,
                   refusal::most("tirc.disp_type", type, t::indirect));
  if (!fill_hash(context, spec) || !fill_lro(h.config.profile, context, spec))
    return noted(Status::bad_param, Refusal::tir_context);
  // Domain 0 is the adapter's own: DPDK's drop TIR names it at the probe (22.11,
  // drivers/net/mlx5/mlx5_devx.c, mlx5_devx_tir_attr_set(), before mlx5_txq_devx_obj_new()).
  const uint32_t domain = prm::cap_get(context, t::transport_domain);
  if (domain != 0 && find_own(h.domains, client, domain) == nullptr)
    return no_such(Refusal::no_such_domain, "tirc.transport_domain", domain);
  spec.rqt = prm::cap_get(context, t::indirect_table);
  // One queue is a table of one place.
  if (type == t::direct) {
    const std::array<uint32_t, 1> queue{prm::cap_get(context, t::inline_rqn)};
    spec.fields = spec.ip_version = spec.l4_protocol = 0;
    if (find_own(h.rqs, client, queue[0]) == nullptr)
      return no_such(Refusal::no_such_queue, "tirc.inline_rqn", queue[0]);
    const Result<uint32_t> table = create_rqt(h, queue, client.sink);
    if (!table) return no_such(Refusal::no_such_queue, "tirc.inline_rqn", queue[0]);
    spec.rqt = *table;
  }
  if (find_own(h.rqts, client, spec.rqt) == nullptr)
    return no_such(Refusal::no_such_queue, "tirc.indirect_table", spec.rqt);
  const Result<uint32_t> tirn = create_tir(h, spec, client.sink);
  if (!tirn && type == t::direct) (void)destroy_rqt(h, spec.rqt);
  if (!tirn) return refuse_tir(tirn.error());
  ethernet::Tir& tir = *h.tirs.at(*tirn);
  tir.direct = type == t::direct;
  tir.domain = domain;
  tir.self_lb = prm::cap_get(context, t::self_lb_block);
  return tell_tir(h, out, *tirn);
}

// The table and the hash may be others (DPDK 22.11, drivers/net/mlx5/mlx5_devx.c,
// mlx5_devx_hrxq_modify()); what is not named stays.
Answer change_tir(Hca& h, const Client& client, In in, Out) {
  namespace t = prm::tirc;
  const In context = in.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  const uint64_t mask = read<be64>(in, prm::queue_cmd::modify_bitmask).host();
  ethernet::Tir* tir = h.tirs.at(number_in(in));
  if (tir == nullptr) return no_such(Refusal::no_such_queue, "tirn", number_in(in));
  if ((mask & ~(t::mask_lro | t::mask_table | t::mask_hash | t::mask_self_lb)) != 0 || tir->direct)
    return refused(Status::bad_param, Refusal::tir_context,
                   refusal::clash("modify_bitmask", mask, tir->direct));
  TirSpec spec = tir->spec;
  if ((mask & t::mask_hash) != 0) {
    spec.fields = spec.ip_version = spec.l4_protocol = 0;
    if (!fill_hash(context, spec)) return noted(Status::bad_param, Refusal::tir_context);
  }
  if ((mask & t::mask_lro) != 0 && !fill_lro(h.config.profile, context, spec))
    return noted(Status::bad_param, Refusal::tir_context);
  if ((mask & t::mask_table) != 0) spec.rqt = prm::cap_get(context, t::indirect_table);
  if (find_own(h.rqts, client, spec.rqt) == nullptr)
    return no_such(Refusal::no_such_queue, "tirc.indirect_table", spec.rqt);
  if (modify_tir(h, number_in(in), spec) != 0)
    return noted(Status::bad_param, Refusal::tir_context);
  if ((mask & t::mask_self_lb) != 0) tir->self_lb = prm::cap_get(context, t::self_lb_block);
  return {};
}

Answer query_tir(Hca& h, In in, Out out) {
  namespace t = prm::tirc;
  const ethernet::Tir* tir = h.tirs.at(number_in(in));
  if (tir == nullptr) return no_such(Refusal::no_such_queue, "tirn", number_in(in));
  const Out context = out.subspan(prm::queue_cmd::context, prm::queue_cmd::context_bytes);
  const TirSpec& s = tir->spec;
  prm::cap_set(context, t::disp_type, tir->direct ? t::direct : t::indirect);
  if (tir->direct)
    prm::cap_set(context, t::inline_rqn, tir->table->queues[0]->qpn.value());
  else
    prm::cap_set(context, t::indirect_table, s.rqt);
  prm::cap_set(context, t::tunneled_offload_en, s.tunnels);
  prm::cap_set(context, t::transport_domain, tir->domain);
  prm::cap_set(context, t::self_lb_block, tir->self_lb);
  tell_hash(context, s);
  prm::cap_set(context, t::lro_enable_mask, s.lro_versions);
  prm::cap_set(context, t::lro_max_msg_sz, s.lro_bytes / lro::unit_bytes);
  prm::cap_set(context, t::lro_timeout_period_usecs, s.lro_timeout_us);
  return {};
}

Answer end_tir(Hca& h, In in, Out) {
  const ethernet::Tir* tir = h.tirs.at(number_in(in));
  if (tir == nullptr) return no_such(Refusal::no_such_queue, "tirn", number_in(in));
  const uint32_t table = tir->spec.rqt;
  const bool direct = tir->direct;
  if (destroy_tir(h, number_in(in)) != 0)
    return noted(Status::bad_res_state, Refusal::object_in_use);
  if (direct) (void)destroy_rqt(h, table);
  return {};
}

}  // namespace kilim::vhca::hca::commands
