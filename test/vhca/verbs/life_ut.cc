// SPDX-License-Identifier: BSD-3-Clause
// Lives of objects through libibverbs: what is in use stays, rounds of creation leave nothing, a
// duplicated descriptor is the same device, asynchronous events are counted.
#include <cerrno>

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include "fabric_fixture.hh"

namespace life_ut {
namespace {

using namespace kilim::test;

void the_device_says_what_it_is() {
  ibv_device_attr_ex attr{};
  EQUAL(ibv_query_device_ex(context(), nullptr, &attr), 0);
  EQUAL(attr.orig_attr.max_sge_rd, 30);
  EQUAL(attr.orig_attr.vendor_id, 0x02c9);
  EQUAL(attr.orig_attr.vendor_part_id, 0x101d);
  EQUAL(attr.orig_attr.atomic_cap, IBV_ATOMIC_HCA);
  EQUAL(attr.orig_attr.phys_port_cnt, 1);
  EQUAL(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
  constexpr uint32_t connected = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
                                 IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
                                 IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
  EQUAL(attr.odp_caps.per_transport_caps.rc_odp_caps, connected);
  EQUAL(attr.xrc_odp_caps, connected);
  EQUAL(attr.odp_caps.per_transport_caps.ud_odp_caps, IBV_ODP_SUPPORT_SEND);
  EQUAL(attr.odp_caps.per_transport_caps.uc_odp_caps, 0);
  EQUAL(attr.max_dm_size, 1u << 17);
  EQUAL(attr.rss_caps.supported_qpts, 1u << IBV_QPT_RAW_PACKET);
  EQUAL(attr.orig_attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG, 0);
  constexpr unsigned there = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                             IBV_DEVICE_XRC | IBV_DEVICE_MEM_MGT_EXTENSIONS;
  EQUAL(attr.orig_attr.device_cap_flags & there, there);
  CU_ASSERT(attr.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING);
  CU_ASSERT(attr.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM);
  EQUAL(attr.raw_packet_caps, unsigned{IBV_RAW_PACKET_CAP_IP_CSUM} |
                                  IBV_RAW_PACKET_CAP_SCATTER_FCS |
                                  IBV_RAW_PACKET_CAP_CVLAN_STRIPPING);
  ibv_port_attr port{};
  EQUAL(ibv_query_port(context(), 1, &port), 0);
  EQUAL(port.state, IBV_PORT_ACTIVE);
  EQUAL(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EQUAL(port.active_mtu, IBV_MTU_4096);
  EQUAL(port.max_msg_sz, 1u << 30);
  EQUAL(ibv_query_port(context(), 2, &port), EINVAL);
  ibv_gid_entry gid{};
  EQUAL(ibv_query_gid_ex(context(), 1, 0, &gid, 0), 0);
  EQUAL(gid.gid_type, IBV_GID_TYPE_ROCE_V2);
  EQUAL(ibv_query_gid_ex(context(), 1, 5, &gid, 0), ENODATA);
  mlx5dv_context dv{};
  EQUAL(mlx5dv_query_device(context(), &dv), 0);
  CU_ASSERT(dv.flags & MLX5DV_CONTEXT_FLAGS_CQE_V1);
}

void what_is_in_use_is_busy() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Region r(l.pd[0], 64);
  EQUAL(ibv_destroy_cq(l.cq[0]), EBUSY);
  EQUAL(ibv_dealloc_pd(l.pd[0]), EBUSY);
  ibv_ah_attr ah{};
  ah.is_global = 1;
  ah.port_num = 1;
  EQUAL(ibv_query_gid(context(), 1, 0, &ah.grh.dgid), 0);
  ibv_pd* pd = ibv_alloc_pd(context());
  ibv_ah* handle = ibv_create_ah(pd, &ah);
  CU_ASSERT_PTR_NOT_NULL_FATAL(handle);
  EQUAL(ibv_dealloc_pd(pd), EBUSY);
  EQUAL(ibv_destroy_ah(handle), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
  ah.is_global = 0;
  CU_ASSERT_PTR_NULL(ibv_create_ah(l.pd[0], &ah));
}

void an_address_handle_has_the_mac_of_its_gid() {
  ibv_pd* pd = ibv_alloc_pd(context());
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  const uint8_t gid[16]{0xfe, 0x80, 0,    0,    0,    0,    0,    0,
                        0x00, 0x22, 0x33, 0xff, 0xfe, 0x44, 0x55, 0x66};
  std::memcpy(attr.grh.dgid.raw, gid, 16);
  ibv_ah* ah = ibv_create_ah(pd, &attr);
  CU_ASSERT_PTR_NOT_NULL_FATAL(ah);
  mlx5dv_ah av{};
  mlx5dv_obj obj{};
  obj.ah = {ah, &av};
  EQUAL(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH), 0);
  const uint8_t mac[6]{0x02, 0x22, 0x33, 0x44, 0x55, 0x66};
  EQUAL(std::memcmp(av.av->rmac, mac, 6), 0);
  ibv_destroy_ah(ah);
  ibv_dealloc_pd(pd);
}

void queries_tell_what_was_set() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  EQUAL(ibv_query_qp(l.qp[0], &a, 0, &init), 0);
  EQUAL(a.qp_state, IBV_QPS_RTS);
  EQUAL(a.dest_qp_num, l.qp[1]->qp_num);
  EQUAL(a.path_mtu, IBV_MTU_1024);
  EQUAL(a.timeout, 8);
  EQUAL(a.max_rd_atomic, 16);
  EQUAL(a.port_num, 1);
  EQUAL(a.qp_access_flags & all_access, all_access & ~1u);
  EQUAL(init.cap.max_recv_wr, 32);
  EQUAL(a.ah_attr.is_global, 1);
}

void a_queue_in_reset_names_the_first_port() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  a.qp_state = IBV_QPS_RESET;
  EQUAL(ibv_modify_qp(l.qp[0], &a, IBV_QP_STATE), 0);
  EQUAL(ibv_query_qp(l.qp[0], &a, IBV_QP_STATE | IBV_QP_PORT, &init), 0);
  EQUAL(a.qp_state, IBV_QPS_RESET);
  EQUAL(a.port_num, 1);
}

// Illegal transitions and missing attributes are refused, and nothing changes.
void transitions_need_their_attributes() {
  ibv_pd* pd = ibv_alloc_pd(context());
  ibv_cq* cq = ibv_create_cq(context(), 16, nullptr, nullptr, 0);
  ibv_qp* qp = create_qp(pd, cq);
  CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTS;
  EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE), EINVAL);
  a.qp_state = IBV_QPS_INIT;
  EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE), EINVAL);
  a.port_num = 9;
  EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        EINVAL);
  EQUAL(state_of(qp), IBV_QPS_RESET);
  EQUAL(connect(qp, qp->qp_num), 0);
  a = {};
  a.qp_state = IBV_QPS_RESET;
  EQUAL(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
  EQUAL(connect(qp, qp->qp_num), 0);  // and again from the beginning
  EQUAL(ibv_destroy_qp(qp), 0);
  EQUAL(ibv_destroy_cq(cq), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

int open_descriptors() {
  int n = 0;
  for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

void a_round() {
  ibv_context* c = open_device();
  ibv_comp_channel* channel = ibv_create_comp_channel(c);
  ibv_pd* pd = ibv_alloc_pd(c);
  ibv_cq* cq = ibv_create_cq(c, 16, nullptr, channel, 0);
  ibv_qp* qp = create_qp(pd, cq);
  uint64_t word = 0;
  ibv_mr* mr = ibv_reg_mr(pd, &word, 8, IBV_ACCESS_LOCAL_WRITE);
  mlx5dv_mkey_init_attr attr{};
  attr.pd = pd;
  attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  attr.max_entries = 4;
  mlx5dv_mkey* key = mlx5dv_create_mkey(&attr);
  CU_ASSERT_FATAL(qp != nullptr);
  CU_ASSERT_FATAL(mr != nullptr);
  CU_ASSERT_FATAL(key != nullptr);
  EQUAL_FATAL(connect(qp, qp->qp_num), 0);
  EQUAL(mlx5dv_destroy_mkey(key), 0);
  EQUAL(ibv_dereg_mr(mr), 0);
  EQUAL(ibv_destroy_qp(qp), 0);
  EQUAL(ibv_destroy_cq(cq), 0);
  EQUAL(ibv_destroy_comp_channel(channel), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
  EQUAL(ibv_close_device(c), 0);
}

// A table may reach its size late; what leaks grows every time.
void a_thousand_rounds_leave_nothing() {
  constexpr int tries = 3;
  for (int i = 0; i < 100; i++) a_round();
  int descriptors = open_descriptors();
  bool grew = true;
  for (int n = 0; n < tries && grew; n++) {
    std::size_t bytes = mallinfo2().uordblks;
    for (int i = 0; i < 1000; i++) a_round();
    grew = mallinfo2().uordblks > bytes + 4096;
  }
  EQUAL(open_descriptors(), descriptors);
  CU_ASSERT_FALSE(grew);
}

void an_imported_device_shares_the_objects() {
  ibv_pd* pd = ibv_alloc_pd(context());
  Region r(pd, 4096);
  ibv_context* second = ibv_import_device(dup(context()->cmd_fd));
  CU_ASSERT_PTR_NOT_NULL_FATAL(second);
  ibv_pd* same = ibv_import_pd(second, pd->handle);
  CU_ASSERT_PTR_NOT_NULL_FATAL(same);
  ibv_mr* mr = ibv_import_mr(same, r.mr()->handle);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  EQUAL(mr->lkey, r.mr()->lkey);
  EQUAL(mr->length, 4096);
  ibv_unimport_mr(mr);
  // A queue of the imported context in the shared domain.
  ibv_cq* cq = ibv_create_cq(second, 16, nullptr, nullptr, 0);
  ibv_qp* qp = create_qp(same, cq);
  CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
  EQUAL(ibv_destroy_qp(qp), 0);
  EQUAL(ibv_destroy_cq(cq), 0);
  ibv_unimport_pd(same);
  EQUAL(ibv_close_device(second), 0);
  r.release();
  EQUAL(ibv_dealloc_pd(pd), 0);
}

void an_import_needs_a_handle_and_gives_nothing_back() {
  errno = 0;
  CU_ASSERT_PTR_NULL(ibv_import_device(-1));
  ibv_context* second = ibv_import_device(dup(context()->cmd_fd));
  CU_ASSERT_PTR_NOT_NULL_FATAL(second);
  ibv_pd* pd = ibv_alloc_pd(context());
  Region r(pd, 4096);
  CU_ASSERT_PTR_NULL(ibv_import_pd(second, 0xffff));
  EQUAL(errno, ENOENT);
  CU_ASSERT_PTR_NULL(ibv_import_pd(second, r.mr()->handle));  // of another kind
  EQUAL(errno, EINVAL);
  ibv_pd* same = ibv_import_pd(second, pd->handle);
  CU_ASSERT_PTR_NOT_NULL_FATAL(same);
  CU_ASSERT_PTR_NULL(ibv_import_mr(same, 0xffff));
  EQUAL(errno, ENOENT);
  ibv_mr* mr = ibv_import_mr(same, r.mr()->handle);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  // What was imported is not released; what was made is busy while it has users, whose they are.
  ibv_unimport_mr(mr);
  ibv_unimport_pd(same);
  EQUAL(ibv_dealloc_pd(pd), EBUSY);
  // Either context may release it; then the other's handle leads nowhere.
  same = ibv_import_pd(second, pd->handle);
  mr = ibv_import_mr(same, r.mr()->handle);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  const uint32_t handle = r.mr()->handle;
  r.release();
  CU_ASSERT_PTR_NULL(ibv_import_mr(same, handle));
  ibv_unimport_mr(mr);
  // Closing the imported context leaves the first one's objects.
  ibv_unimport_pd(same);
  EQUAL(ibv_close_device(second), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

void domains_are_busy_while_they_are_used() {
  ibv_pd* pd = ibv_alloc_pd(context());
  ibv_td_init_attr of_td{};
  ibv_td* td = ibv_alloc_td(context(), &of_td);
  CU_ASSERT_PTR_NOT_NULL_FATAL(td);
  of_td.comp_mask = 1;
  CU_ASSERT_PTR_NULL(ibv_alloc_td(context(), &of_td));
  ibv_parent_domain_init_attr attr{};
  CU_ASSERT_PTR_NULL(ibv_alloc_parent_domain(context(), &attr));  // of no domain
  EQUAL(errno, EINVAL);
  attr.pd = pd;
  attr.td = td;
  attr.comp_mask = 1u << 31;
  CU_ASSERT_PTR_NULL(ibv_alloc_parent_domain(context(), &attr));
  EQUAL(errno, EINVAL);
  attr.comp_mask = 0;
  ibv_pd* parent = ibv_alloc_parent_domain(context(), &attr);
  CU_ASSERT_PTR_NOT_NULL_FATAL(parent);
  EQUAL(ibv_dealloc_td(td), EBUSY);
  EQUAL(ibv_dealloc_pd(pd), EBUSY);
  ibv_cq* cq = ibv_create_cq(context(), 16, nullptr, nullptr, 0);
  ibv_qp* qp = create_qp(parent, cq);
  CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
  EQUAL(ibv_dealloc_pd(parent), EBUSY);
  EQUAL(ibv_destroy_qp(qp), 0);
  EQUAL(ibv_destroy_cq(cq), 0);
  EQUAL(ibv_dealloc_pd(parent), 0);
  EQUAL(ibv_dealloc_td(td), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
}

// mlx5_ib's own bounds of a path, beside those of the core.
void a_path_has_a_rate_that_exists() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EQUAL(ibv_query_qp(l.qp[0], &attr, IBV_QP_AV, &init), 0);
  attr.qp_state = IBV_QPS_SQD;
  EQUAL(ibv_modify_qp(l.qp[0], &attr, IBV_QP_STATE), 0);
  for (int i = 0; i < 10; i++) shared().poll();
  const std::pair<uint8_t, int> rows[] = {{1, EINVAL}, {23, EINVAL}, {0, 0}, {2, 0}, {22, 0}};
  for (auto [rate, error] : rows) {
    attr.ah_attr.static_rate = rate;
    EQUAL(ibv_modify_qp(l.qp[0], &attr, IBV_QP_AV), error);
  }
  attr.ah_attr.static_rate = 0;
  attr.ah_attr.grh.sgid_index = 15;  // the last one, empty
  EQUAL(ibv_modify_qp(l.qp[0], &attr, IBV_QP_AV), ENODATA);
}

void a_drained_queue_is_announced() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Region a(l.pd[0], 64), b(l.pd[1], 64);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  EQUAL(ibv_modify_qp(l.qp[0], &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  for (int i = 0; i < 10; i++) shared().poll();
  pollfd p{context()->async_fd, POLLIN, 0};
  EQUAL_FATAL(poll(&p, 1, 0), 1);
  ibv_async_event event{};
  EQUAL(ibv_get_async_event(context(), &event), 0);
  EQUAL(event.event_type, IBV_EVENT_SQ_DRAINED);
  CU_ASSERT_PTR_EQUAL(event.element.qp, l.qp[0]);
  ibv_ack_async_event(&event);
}

// An event that nobody read does not keep the queue from being destroyed.
void an_event_that_nobody_reads_is_taken_back() {
  {
    Loop l;
    CU_ASSERT_FATAL(l.ok);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_SQD;
    attr.en_sqd_async_notify = 1;
    EQUAL(ibv_modify_qp(l.qp[0], &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    for (int i = 0; i < 10; i++) shared().poll();
    pollfd p{context()->async_fd, POLLIN, 0};
    EQUAL(poll(&p, 1, 0), 1);
  }
  pollfd p{context()->async_fd, POLLIN, 0};
  EQUAL(poll(&p, 1, 0), 0);
}

constexpr Case cases[] = {
    {"the device says what it is", the_device_says_what_it_is},
    {"what is in use is busy", what_is_in_use_is_busy},
    {"an address handle has the MAC of its GID", an_address_handle_has_the_mac_of_its_gid},
    {"queries tell what was set", queries_tell_what_was_set},
    {"a queue in reset names the first port", a_queue_in_reset_names_the_first_port},
    {"transitions need their attributes", transitions_need_their_attributes},
    {"a thousand rounds leave nothing", a_thousand_rounds_leave_nothing},
    {"an imported device shares the objects", an_imported_device_shares_the_objects},
    {"an import needs a handle and gives nothing back",
     an_import_needs_a_handle_and_gives_nothing_back},
    {"domains are busy while they are used", domains_are_busy_while_they_are_used},
    {"a path has a rate that exists", a_path_has_a_rate_that_exists},
    {"a drained queue is announced", a_drained_queue_is_announced},
    {"an event that nobody reads is taken back", an_event_that_nobody_reads_is_taken_back},
};

}  // namespace
}  // namespace life_ut

KILIM_TEST_MAIN(life) {
  // Before anything is registered, as programs that fork do.
  if (ibv_fork_init() != 0) return 2;
  return kilim::test::run_cases("verbs: lives", life_ut::cases, argc, argv);
}
