// SPDX-License-Identifier: BSD-3-Clause
// One end of the soak with a shadow: an adapter, its memory, its queues and how they are connected.
#include <algorithm>

#include <sys/mman.h>

#include "shadow_fixture.hh"

namespace kilim::test {
namespace {

namespace layout = shadow_layout;

constexpr unsigned rights = all_access | IBV_ACCESS_MW_BIND;
constexpr uint8_t macs[2][6] = {{2, 0x5d, 0, 0, 0, 1}, {2, 0x5d, 0, 0, 0, 2}};

Attached* attach_end(const ShadowConfig& c, int number) {
  DeviceSpec config;
  config.name = c.name + std::to_string(number);
  config.wires = {c.wire + std::to_string(c.seed + static_cast<uint64_t>(number))};
  config.seed = c.seed + static_cast<uint64_t>(number);
  config.order = c.order;
  auto attached = vhca::entry::attach(config);
  if (!attached) std::printf("attach: %s\n", attached.error().what);
  return attached ? *attached : nullptr;
}

ibv_ah_attr way_to(const ShadowEnd& peer) {
  ibv_ah_attr ah{};
  ah.is_global = 1;
  ah.port_num = 1;
  ah.grh.hop_limit = 1;
  ibv_query_gid(peer.context, 1, 0, &ah.grh.dgid);
  return ah;
}

mlx5dv_mkey* make_key(ibv_pd* pd) {
  mlx5dv_mkey_init_attr attr{};
  attr.pd = pd;
  attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  attr.max_entries = 16;
  return mlx5dv_create_mkey(&attr);
}

}  // namespace

ShadowEnd::ShadowEnd(const ShadowConfig& c, int number)
    : attached(attach_end(c, number)), number_(number) {
  if (attached == nullptr) return;
  context = open_device((c.name + std::to_string(number)).c_str());
  if (context == nullptr) return;
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 256, nullptr, nullptr, 0);
  loose_cq = ibv_create_cq(context, 512, nullptr, nullptr, 0);
  ok_ = pd != nullptr && cq != nullptr && loose_cq != nullptr && make_memory() && make_reliable() &&
        make_loose();
}

bool ShadowEnd::make_memory() {
  void* at =
      ::mmap(nullptr, layout::all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return false;
  memory = static_cast<uint8_t*>(at);
  fill(memory, layout::all, static_cast<uint8_t>(number_ + 1));
  shadow.assign(memory, memory + layout::all);
  pinned = ibv_reg_mr(pd, memory, layout::half, static_cast<int>(rights));
  paged = ibv_reg_mr(pd, memory + layout::half, layout::half,
                     static_cast<int>(all_access | IBV_ACCESS_ON_DEMAND));
  roving = ibv_reg_mr(pd, memory, layout::zone, static_cast<int>(all_access));
  window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
  return pinned != nullptr && paged != nullptr && roving != nullptr && window != nullptr;
}

bool ShadowEnd::make_reliable() {
  qp = create_qp(pd, cq,
                 {rc_ops, MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MR_INTERLEAVED, 512});
  if (qp == nullptr) return false;
  ex = ibv_qp_to_qp_ex(qp);
  dv = mlx5dv_qp_ex_from_ibv_qp_ex(ex);
  for (mlx5dv_mkey*& key : keys) key = make_key(pd);
  return dv != nullptr && keys[0] != nullptr && keys[1] != nullptr;
}

bool ShadowEnd::make_loose() {
  loose_memory.resize(6 * layout::slots * layout::slot);
  loose_mr = ibv_reg_mr(pd, loose_memory.data(), loose_memory.size(), IBV_ACCESS_LOCAL_WRITE);
  constexpr ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET};
  bool made = loose_mr != nullptr;
  for (std::size_t i = 0; i < loose.size(); i++) {
    loose[i] = create_qp(pd, loose_cq, {.inline_bytes = 0, .type = types[i]});
    made = made && loose[i] != nullptr;
  }
  return made;
}

namespace {

int to_init(ibv_qp* qp, unsigned mask, unsigned access) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RESET;
  if (int err = ibv_modify_qp(qp, &a, IBV_QP_STATE); err != 0) return err;
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qkey = 0x5d5d;
  a.qp_access_flags = access;
  return ibv_modify_qp(qp, &a, static_cast<int>(IBV_QP_STATE | IBV_QP_PORT | mask));
}

}  // namespace

bool ShadowEnd::connect(const ShadowEnd& peer) {
  int err = to_init(qp, IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS, all_access);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = peer.qp->qp_num;
  a.max_dest_rd_atomic = 16;
  a.min_rnr_timer = 1;
  a.ah_attr = way_to(peer);
  if (err == 0)
    err = ibv_modify_qp(qp, &a,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 9;
  a.retry_cnt = 7;
  a.rnr_retry = 7;
  a.max_rd_atomic = 16;
  return err == 0 &&
         ibv_modify_qp(qp, &a,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

bool ShadowEnd::connect_loose(const ShadowEnd& peer) {
  const auto qp_of = [this](Loose k) { return loose[static_cast<std::size_t>(k)]; };
  const auto number_of = [&peer](Loose k) {
    return peer.loose[static_cast<std::size_t>(k)]->qp_num;
  };
  int err = to_init(qp_of(Loose::uc), IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS, 0);
  err |= to_init(qp_of(Loose::ud), IBV_QP_PKEY_INDEX | IBV_QP_QKEY, 0);
  err |= to_init(qp_of(Loose::raw), 0, 0);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTR;
  err |= ibv_modify_qp(qp_of(Loose::ud), &a, IBV_QP_STATE);
  err |= ibv_modify_qp(qp_of(Loose::raw), &a, IBV_QP_STATE);
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = number_of(Loose::uc);
  a.ah_attr = way_to(peer);
  err |=
      ibv_modify_qp(qp_of(Loose::uc), &a,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
  a.qp_state = IBV_QPS_RTS;
  err |= ibv_modify_qp(qp_of(Loose::uc), &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
  err |= ibv_modify_qp(qp_of(Loose::ud), &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
  err |= ibv_modify_qp(qp_of(Loose::raw), &a, IBV_QP_STATE);
  ah = ibv_create_ah(pd, &a.ah_attr);
  struct {
    ibv_flow_attr attr{};
    ibv_flow_spec_eth eth{};
  } f;
  f.attr.port = f.attr.num_of_specs = 1;
  f.attr.size = sizeof f;
  f.eth.type = IBV_FLOW_SPEC_ETH;
  f.eth.size = sizeof f.eth;
  std::copy_n(macs[number_], 6, f.eth.val.dst_mac);
  std::fill_n(f.eth.mask.dst_mac, 6, uint8_t{0xff});
  rule = ibv_create_flow(qp_of(Loose::raw), &f.attr);
  return err == 0 && ah != nullptr && rule != nullptr;
}

void ShadowEnd::post(ibv_send_wr& wr, std::span<ibv_sge> from) {
  wr.send_flags |= IBV_SEND_SIGNALED;
  wr.sg_list = from.data();
  wr.num_sge = static_cast<int>(from.size());
  ibv_send_wr* bad = nullptr;
  EQUAL(ibv_post_send(qp, &wr, &bad), 0);
  expected++;
}

void ShadowEnd::receive(std::span<ibv_sge> into) {
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.sg_list = into.data();
  wr.num_sge = static_cast<int>(into.size());
  EQUAL(ibv_post_recv(qp, &wr, &bad), 0);
  expected++;
}

std::size_t ShadowEnd::first_difference() const {
  if (std::memcmp(shadow.data(), memory, layout::all) == 0) return layout::all;
  const auto [mine, ours] = std::mismatch(shadow.begin(), shadow.end(), memory);
  return static_cast<std::size_t>(mine - shadow.begin());
}

}  // namespace kilim::test
