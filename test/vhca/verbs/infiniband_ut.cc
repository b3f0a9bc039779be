// SPDX-License-Identifier: BSD-3-Clause
// A port of link layer InfiniBand through libibverbs and libmlx5: its identity, connections and
// datagrams by LID and by GID, and no wire.
#include <cerrno>

#include "fabric_fixture.hh"

namespace infiniband_ut {
namespace {

using namespace kilim::test;

constexpr uint16_t own_lid = 1;
constexpr uint32_t header_bytes = 40, key = 0x2222;

Attached* device() {
  static Attached* attached = attach_device("vhca0", "infiniband");
  return attached;
}
ibv_context* opened() {
  static ibv_context* c = device() != nullptr ? open_device() : nullptr;
  return c;
}

ibv_wc_status status_of(ibv_cq* cq, ibv_wc& wc) {
  for (int i = 0; i < 200000; i++) {
    if (ibv_poll_cq(cq, 1, &wc) != 0) return wc.status;
    device()->poll();
  }
  return IBV_WC_GENERAL_ERR;
}

ibv_ah_attr address(uint16_t lid, bool with_gid) {
  ibv_ah_attr a{};
  a.port_num = 1;
  a.dlid = lid;
  a.sl = 3;
  if (!with_gid) return a;
  a.is_global = 1;
  a.grh.hop_limit = 5;
  ibv_query_gid(opened(), 1, 0, &a.grh.dgid);
  return a;
}

int to_init(ibv_qp* qp) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qkey = key;
  a.qp_access_flags = all_access;
  int own = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | own);
}

int to_rtr(ibv_qp* qp, uint32_t peer, const ibv_ah_attr& path) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = peer;
  a.min_rnr_timer = 1;
  a.max_dest_rd_atomic = 1;
  a.ah_attr = path;
  int mask = IBV_QP_STATE;
  if (qp->qp_type != IBV_QPT_UD)
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (qp->qp_type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return ibv_modify_qp(qp, &a, mask);
}

int to_rts(ibv_qp* qp) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 8;
  a.retry_cnt = 1;
  a.rnr_retry = 1;
  a.max_rd_atomic = 1;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (qp->qp_type == IBV_QPT_RC)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return ibv_modify_qp(qp, &a, mask);
}

// Two queues that go to each other along `path`, and a region.
struct Pair {
  Pair(ibv_qp_type type, const ibv_ah_attr& path)
      : pd(ibv_alloc_pd(opened())), memory(pd, 1024), attr(path) {
    Shape shape;
    shape.type = type;
    for (int i = 0; i < 2; i++) {
      cq[i] = ibv_create_cq(opened(), 16, nullptr, nullptr, 0);
      qp[i] = create_qp(pd, cq[i], shape);
    }
    for (int i = 0; i < 2; i++) {
      ok = ok && qp[i] != nullptr && to_init(qp[i]) == 0 &&
           to_rtr(qp[i], qp[1 - i]->qp_num, path) == 0 && to_rts(qp[i]) == 0;
    }
    if (type == IBV_QPT_UD) ah = ibv_create_ah(pd, &attr);
    fill(memory.data(), 512, 9);
    std::memset(memory.data() + 512, 0xee, 512);
  }
  ~Pair() {
    for (int i = 0; i < 2; i++) {
      if (qp[i] != nullptr) ibv_destroy_qp(qp[i]);
      ibv_destroy_cq(cq[i]);
    }
    if (ah != nullptr) ibv_destroy_ah(ah);
    memory.release();
    ibv_dealloc_pd(pd);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // The first 300 bytes to the other side; how the sender's request ended.
  ibv_wc_status send() {
    ibv_sge to = memory.sge(512, 512), from = memory.sge(0, 300);
    ibv_recv_wr rwr{}, *bad_recv = nullptr;
    rwr.sg_list = &to;
    rwr.num_sge = 1;
    if (ibv_post_recv(qp[1], &rwr, &bad_recv) != 0) return IBV_WC_GENERAL_ERR;
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &from;
    wr.num_sge = 1;
    if (ah != nullptr) wr.wr.ud = {ah, qp[1]->qp_num, key};
    if (ibv_post_send(qp[0], &wr, &bad) != 0) return IBV_WC_GENERAL_ERR;
    ibv_wc wc{};
    return status_of(cq[0], wc);
  }
  bool arrived(std::size_t behind = 0) {
    return std::memcmp(memory.data(), memory.data() + 512 + behind, 300) == 0;
  }

  bool ok = true;
  ibv_pd* pd;
  Region memory;
  ibv_ah_attr attr;
  ibv_ah* ah = nullptr;
  ibv_cq* cq[2]{};
  ibv_qp* qp[2]{};
};

void the_port_says_infiniband() {
  CU_ASSERT_FATAL(opened() != nullptr);
  ibv_port_attr port{};
  EQUAL(ibv_query_port(opened(), 1, &port), 0);
  EQUAL(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
  EQUAL(port.lid, own_lid);
  EQUAL(port.sm_lid, own_lid);
  EQUAL(port.flags & IBV_QPF_GRH_REQUIRED, 0);
  EQUAL(port.state, IBV_PORT_ACTIVE);
  ibv_gid_entry gid{};
  EQUAL(ibv_query_gid_ex(opened(), 1, 0, &gid, 0), 0);
  EQUAL(gid.gid_type, IBV_GID_TYPE_IB);
}

void there_are_no_ethernet_queues() {
  ibv_pd* pd = ibv_alloc_pd(opened());
  ibv_cq* cq = ibv_create_cq(opened(), 16, nullptr, nullptr, 0);
  Shape shape;
  shape.type = IBV_QPT_RAW_PACKET;
  EQUAL(create_qp(pd, cq, shape), nullptr);
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
}

void connections_go_by_lid_and_by_gid() {
  for (ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    for (bool with_gid : {false, true}) {
      Pair p(type, address(own_lid, with_gid));
      CU_ASSERT_FATAL(p.ok);
      EQUAL(p.send(), IBV_WC_SUCCESS);
      ibv_wc wc{};
      EQUAL(status_of(p.cq[1], wc), IBV_WC_SUCCESS);
      CU_ASSERT(p.arrived());
    }
  }
}

void another_lid_leads_nowhere() {
  for (bool with_gid : {false, true}) {
    Pair p(IBV_QPT_RC, address(own_lid + 1, with_gid));
    CU_ASSERT_FATAL(p.ok);
    EQUAL(p.send(), IBV_WC_RETRY_EXC_ERR);
    CU_ASSERT(!p.arrived());
    Pair d(IBV_QPT_UD, address(own_lid + 1, with_gid));
    CU_ASSERT_FATAL(d.ok);
    CU_ASSERT_FATAL(d.ah != nullptr);
    EQUAL(d.send(), IBV_WC_SUCCESS);
    CU_ASSERT(!d.arrived(header_bytes));
  }
}

void another_gid_leads_nowhere() {
  ibv_ah_attr path = address(own_lid, true);
  path.grh.dgid.raw[15] ^= 1;
  Pair p(IBV_QPT_RC, path);
  CU_ASSERT_FATAL(p.ok);
  EQUAL(p.send(), IBV_WC_RETRY_EXC_ERR);
  path.grh.sgid_index = 1;  // an empty entry
  Pair q(IBV_QPT_RC, path);
  CU_ASSERT(!q.ok);
}

// The core knows them here; this adapter does not report migration.
void other_paths_are_not_supported() {
  Pair p(IBV_QPT_RC, address(own_lid, false));
  CU_ASSERT_FATAL(p.ok);
  ibv_qp_attr a{};
  a.alt_port_num = 1;
  a.alt_ah_attr = address(own_lid, false);
  EQUAL(ibv_modify_qp(p.qp[0], &a, IBV_QP_ALT_PATH), EOPNOTSUPP);
}

void datagrams_carry_a_header_only_where_asked() {
  for (bool with_gid : {false, true}) {
    Pair p(IBV_QPT_UD, address(own_lid, with_gid));
    CU_ASSERT_FATAL(p.ok);
    CU_ASSERT_FATAL(p.ah != nullptr);
    EQUAL(p.send(), IBV_WC_SUCCESS);
    ibv_wc wc{};
    EQUAL(status_of(p.cq[1], wc), IBV_WC_SUCCESS);
    EQUAL(wc.byte_len, 300 + header_bytes);
    EQUAL((wc.wc_flags & IBV_WC_GRH) != 0, with_gid);
    EQUAL(wc.slid, own_lid);
    EQUAL(wc.sl, 3);
    CU_ASSERT(p.arrived(header_bytes));
    const uint8_t* header = p.memory.data() + 512;
    EQUAL(header[6], with_gid ? 0x1b : 0);
    EQUAL(header[4] << 8 | header[5], with_gid ? 12 + 8 + 300 + 4 : 0);
  }
}

// A shared receive queue that matches tags, and what its list operations complete with.
struct Tags {
  explicit Tags(uint32_t tags) : pd(ibv_alloc_pd(opened())), memory(pd, 1024) {
    ibv_cq_init_attr_ex c{};
    c.cqe = 64;
    c.wc_flags = IBV_WC_EX_WITH_TM_INFO;
    cq = ibv_create_cq_ex(opened(), &c);
    ibv_srq_init_attr_ex a{};
    a.attr = {8, 1, 0};
    a.comp_mask =
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
    a.srq_type = IBV_SRQT_TM;
    a.pd = pd;
    a.cq = ibv_cq_ex_to_cq(cq);
    a.tm_cap = {tags, 8};
    srq = ibv_create_srq_ex(opened(), &a);
  }
  ~Tags() {
    if (srq != nullptr) EQUAL(ibv_destroy_srq(srq), 0);
    ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
    memory.release();
    ibv_dealloc_pd(pd);
  }
  // Whether a buffer is on the list.
  bool add(uint64_t tag) {
    ibv_sge sge = memory.sge(0, 64);
    ibv_ops_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_TAG_ADD;
    wr.flags = IBV_OPS_SIGNALED;
    wr.tm.add = {tag, &sge, 1, tag, ~uint64_t{0}};
    if (ibv_post_srq_ops(srq, &wr, &bad) != 0) return false;
    ibv_poll_cq_attr none{};
    for (int i = 0; i < 200000; i++) {
      device()->poll();
      if (ibv_start_poll(cq, &none) != 0) continue;
      const bool good = cq->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(cq) == IBV_WC_TM_ADD;
      ibv_end_poll(cq);
      return good;
    }
    return false;
  }
  ibv_pd* pd;
  Region memory;
  ibv_cq_ex* cq;
  ibv_srq* srq;
};

void a_list_holds_as_many_tags_as_were_asked_for() {
  for (uint32_t bad : {0u, 128u}) {
    Tags t(bad);
    EQUAL(t.srq, nullptr);
  }
  for (uint32_t tags : {1u, 4u, 5u, 127u}) {
    Tags t(tags);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t.srq);
    bool all = true;
    for (uint32_t i = 0; i < tags; i++) all = all && t.add(i);
    CU_ASSERT(all);
    CU_ASSERT(!t.add(tags));
  }
}

void wires_are_refused() {
  kilim::DeviceSpec config;
  config.name = "vhca7";
  config.profile = "infiniband";
  config.wires = {"cable:none"};
  auto attached = kilim::vhca::entry::attach(config);
  CU_ASSERT_FATAL(!attached.ok());
  EQUAL(attached.error().code, EINVAL);
}

constexpr Case cases[] = {
    {"the port says InfiniBand", the_port_says_infiniband},
    {"there are no Ethernet queues", there_are_no_ethernet_queues},
    {"connections go by LID and by GID", connections_go_by_lid_and_by_gid},
    {"another LID leads nowhere", another_lid_leads_nowhere},
    {"another GID leads nowhere", another_gid_leads_nowhere},
    {"other paths are not supported", other_paths_are_not_supported},
    {"datagrams carry a header only where asked", datagrams_carry_a_header_only_where_asked},
    {"a list holds as many tags as were asked for", a_list_holds_as_many_tags_as_were_asked_for},
    {"wires are refused", wires_are_refused},
};

}  // namespace
}  // namespace infiniband_ut

KILIM_TEST_SUITE(infiniband, infiniband_ut::cases)
