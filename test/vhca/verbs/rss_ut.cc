// SPDX-License-Identifier: BSD-3-Clause
// Receive queues of their own, tables of them, and queue pairs whose hash picks one: frames of many
// flows reach the queue that the hash names, and the completion says the hash.
#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "../ethernet/toeplitz_fixture.hh"
#include "../wire/frames_fixture.hh"
#include "raw_fixture.hh"

namespace rss_ut {
namespace {

using namespace kilim::test;

constexpr uint32_t queue_count = 4;
constexpr uint32_t wqes = 16;

// One receive queue and its CQ, with every WQE posted once it is started.
struct Queue {
  Queue(Port& p, uint32_t first_slot, uint32_t flags = 0) : port(p), slot(first_slot) {
    cq = ibv_create_cq(p.c, 64, nullptr, nullptr, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(cq);
    ibv_wq_init_attr a{};
    a.wq_type = IBV_WQT_RQ;
    a.max_wr = wqes;
    a.max_sge = 1;
    a.pd = p.pd;
    a.cq = cq;
    a.create_flags = flags;
    if (flags != 0) a.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
    wq = ibv_create_wq(p.c, &a);
    CU_ASSERT_PTR_NOT_NULL_FATAL(wq);
    EQUAL(a.max_wr, wqes);
    EQUAL(a.max_sge, 1);
  }
  ~Queue() {
    EQUAL(ibv_destroy_wq(wq), 0);
    ibv_destroy_cq(cq);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  int to(ibv_wq_state state) {
    ibv_wq_attr a{};
    a.attr_mask = IBV_WQ_ATTR_STATE;
    a.wq_state = state;
    return ibv_modify_wq(wq, &a);
  }
  int strip(bool on) {
    ibv_wq_attr a{};
    a.attr_mask = IBV_WQ_ATTR_FLAGS;
    a.flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING;
    a.flags = on ? IBV_WQ_FLAGS_CVLAN_STRIPPING : 0;
    return ibv_modify_wq(wq, &a);
  }
  void post() {
    ibv_sge sge = port.memory.sge(slot * Port::frame, Port::frame);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = slot;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    EQUAL(ibv_post_wq_recv(wq, &wr, &bad), 0);
  }
  // The entry that the next completion will be taken from, as it lies there.
  const uint8_t* entry() {
    mlx5dv_cq dv{};
    mlx5dv_obj obj{};
    obj.cq = {cq, &dv};
    EQUAL(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
    return static_cast<const uint8_t*>(dv.buf) + taken++ % dv.cqe_cnt * dv.cqe_size;
  }
  bool poll(ibv_wc& wc) { return ibv_poll_cq(cq, 1, &wc) == 1; }

  Port& port;
  uint32_t slot, taken = 0;
  ibv_cq* cq = nullptr;
  ibv_wq* wq = nullptr;
};

ibv_rwq_ind_table* table_of(ibv_context* c, std::vector<ibv_wq*> places) {
  ibv_rwq_ind_table_init_attr a{};
  while (1u << a.log_ind_tbl_size < places.size()) a.log_ind_tbl_size++;
  a.ind_tbl = places.data();
  return ibv_create_rwq_ind_table(c, &a);
}

ibv_qp* hash_qp(Port& p, ibv_rwq_ind_table* table, uint64_t fields, uint8_t key_bytes = 40) {
  static uint8_t key[40];
  std::memcpy(key, verification_key, sizeof key);
  ibv_qp_init_attr_ex a{};
  a.qp_type = IBV_QPT_RAW_PACKET;
  a.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  a.pd = p.pd;
  a.rwq_ind_tbl = table;
  a.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, key_bytes, key, fields};
  return ibv_create_qp_ex(p.c, &a);
}

ibv_flow* all_to(ibv_qp* qp) {
  ibv_flow_attr a{};
  a.type = IBV_FLOW_ATTR_ALL_DEFAULT;
  a.size = sizeof a;
  a.port = 1;
  return ibv_create_flow(qp, &a);
}

// Four queues, each in two of eight places, behind one hash.
struct Spread {
  Spread(Port& p, uint64_t fields) {
    for (uint32_t i = 0; i < queue_count; i++) {
      queues.push_back(std::make_unique<Queue>(p, 4 + i));
      EQUAL(queues[i]->to(IBV_WQS_RDY), 0);
    }
    std::vector<ibv_wq*> places;
    for (uint32_t i = 0; i < 2 * queue_count; i++) places.push_back(queues[i % queue_count]->wq);
    table = table_of(p.c, places);
    CU_ASSERT_PTR_NOT_NULL_FATAL(table);
    qp = hash_qp(p, table, fields);
    CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
    flow = all_to(qp);
    CU_ASSERT_PTR_NOT_NULL_FATAL(flow);
  }
  ~Spread() {
    EQUAL(ibv_destroy_flow(flow), 0);
    EQUAL(ibv_destroy_qp(qp), 0);
    EQUAL(ibv_destroy_rwq_ind_table(table), 0);
  }
  Spread(const Spread&) = delete;
  Spread& operator=(const Spread&) = delete;
  std::vector<std::unique_ptr<Queue>> queues;
  ibv_rwq_ind_table* table = nullptr;
  ibv_qp* qp = nullptr;
  ibv_flow* flow = nullptr;
};

// Sends it from the other end; what arrived must be the same.
void put(Cable& cable, const Bytes& f) {
  std::memcpy(cable.left.memory.data(), f.data(), f.size());
  ibv_sge sge = cable.left.memory.sge(0, static_cast<uint32_t>(f.size()));
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  EQUAL(ibv_post_send(cable.left.qp, &wr, &bad), 0);
  cable.run();
  ibv_wc wc{};
  EQUAL(ibv_poll_cq(cable.left.cq, 1, &wc), 1);
}

// The frame of flow `n`, and what of it is hashed.
Bytes flow_frame(FrameSpec s, uint8_t n, std::vector<uint8_t>& addresses,
                 std::vector<uint8_t>& ports) {
  Bytes f = make_frame(s);
  const std::size_t l3 = l3_of(s) + (s.ipv6 ? 8 : 12), bytes = s.ipv6 ? 32 : 8;
  f[l3 + bytes - 1] = std::byte{n};
  put16(f, l4_of(s), 1000u + n * 37u);
  auto take = [&f](std::size_t at, std::size_t count, std::vector<uint8_t>& to) {
    to.clear();
    for (std::size_t i = 0; i < count; i++) to.push_back(std::to_integer<uint8_t>(f[at + i]));
  };
  take(l3, bytes, addresses);
  take(l4_of(s), 4, ports);
  return f;
}

void each_flow_reaches_the_queue_that_its_hash_names() {
  struct Row {
    FrameSpec frame;
    uint64_t fields;
    bool ports;
    uint8_t type;
  };
  constexpr uint64_t v4 = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4,
                     v6 = IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6,
                     tcp = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP,
                     udp = IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP;
  const Row rows[] = {
      {{.ipv6 = false, .tcp = true}, v4 | tcp, true, 1 | 4},
      {{.ipv6 = false, .tcp = false}, v4 | udp, true, 1 | 8},
      {{.ipv6 = true, .tcp = true}, v6 | tcp, true, 2 | 4},
      {{.ipv6 = true, .tcp = false, .tags = 1}, v6 | udp, true, 2 | 8},
      {{.ipv6 = false, .tcp = true}, v4, false, 1},
      // Ports that are not of the chosen kind, and those of a fragment, are left out.
      {{.ipv6 = false, .tcp = false}, v4 | tcp, false, 1},
      {{.ipv6 = false, .tcp = false, .fragment = 0x2000}, v4 | udp, false, 1},
  };
  Cable cable;
  for (const Row& row : rows) {
    Spread spread(cable.right, row.fields);
    uint32_t reached = 0;
    for (uint8_t n = 0; n < 16; n++) {
      std::vector<uint8_t> input, ports;
      const Bytes f = flow_frame(row.frame, n, input, ports);
      if (row.ports) input.insert(input.end(), ports.begin(), ports.end());
      const uint32_t hash = slow_toeplitz(verification_key, input);
      Queue& q = *spread.queues[hash % (2 * queue_count) % queue_count];
      reached |= 1u << (hash % queue_count);
      q.post();
      put(cable, f);
      const uint8_t* entry = q.entry();
      ibv_wc wc{};
      CU_ASSERT_FATAL(q.poll(wc));
      EQUAL(wc.status, IBV_WC_SUCCESS);
      EQUAL(wc.byte_len, f.size());
      EQUAL(wc.wr_id, q.slot);
      EQUAL(std::memcmp(cable.right.memory.data() + q.slot * Port::frame, f.data(), f.size()), 0);
      EQUAL(uint32_t{entry[12]} << 24 | entry[13] << 16 | entry[14] << 8 | entry[15], hash);
      EQUAL(entry[16], row.type);
    }
    EQUAL(reached, 15);
  }
}

// Without addresses of the kind that is hashed, nothing is: the first place.
void what_cannot_be_hashed_goes_to_the_first_place() {
  Cable cable;
  Spread spread(cable.right, IBV_RX_HASH_SRC_IPV4);
  for (int i = 0; i < 2; i++) {
    spread.queues[0]->post();
    put(cable, i == 0 ? make_frame({.ipv6 = true}) : Bytes(60));
    const uint8_t* entry = spread.queues[0]->entry();
    ibv_wc wc{};
    CU_ASSERT(spread.queues[0]->poll(wc));
    EQUAL(entry[12], 0);
    EQUAL(entry[15], 0);
    EQUAL(entry[16], 0);
  }
}

void a_queue_receives_only_while_it_is_ready() {
  Cable cable;
  Queue q(cable.right, 4);
  ibv_rwq_ind_table* table = table_of(cable.right.c, {q.wq});
  ibv_qp* qp = hash_qp(cable.right, table, 0);
  CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
  ibv_flow* flow = all_to(qp);
  const Bytes f = make_frame({});
  ibv_wc wc{};
  put(cable, f);
  for (int round = 0; round < 2; round++) {
    EQUAL(q.to(IBV_WQS_RDY), 0);
    q.post();
    q.post();
    put(cable, f);
    CU_ASSERT(q.poll(wc));
    EQUAL(wc.status, IBV_WC_SUCCESS);
    CU_ASSERT_FALSE(q.poll(wc));
    EQUAL(q.to(IBV_WQS_ERR), 0);
    cable.run();
    CU_ASSERT(q.poll(wc));
    EQUAL(wc.status, IBV_WC_WR_FLUSH_ERR);
    CU_ASSERT_FALSE(q.poll(wc));
    CU_ASSERT(q.to(IBV_WQS_RDY) != 0);
    EQUAL(q.to(IBV_WQS_RESET), 0);
    put(cable, f);
    CU_ASSERT_FALSE(q.poll(wc));
  }
  ibv_destroy_flow(flow);
  ibv_destroy_qp(qp);
  ibv_destroy_rwq_ind_table(table);
}

void tags_are_stripped_as_long_as_the_queue_is_told_to() {
  Cable cable;
  Queue q(cable.right, 4, IBV_WQ_FLAGS_CVLAN_STRIPPING);
  ibv_rwq_ind_table* table = table_of(cable.right.c, {q.wq});
  ibv_qp* qp = hash_qp(cable.right, table, 0);
  CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
  ibv_flow* flow = all_to(qp);
  EQUAL(q.to(IBV_WQS_RDY), 0);
  const Bytes f = make_frame({.tags = 1});
  for (bool on : {true, false, true}) {
    EQUAL(q.strip(on), 0);
    q.post();
    put(cable, f);
    ibv_wc wc{};
    CU_ASSERT(q.poll(wc));
    EQUAL(wc.byte_len, f.size() - (on ? 4 : 0));
  }
  ibv_destroy_flow(flow);
  ibv_destroy_qp(qp);
  ibv_destroy_rwq_ind_table(table);
}

void what_is_in_use_cannot_be_destroyed() {
  Cable cable;
  Spread spread(cable.right, IBV_RX_HASH_SRC_IPV4);
  EQUAL(ibv_destroy_wq(spread.queues[1]->wq), EBUSY);
  EQUAL(ibv_destroy_rwq_ind_table(spread.table), EBUSY);
  EQUAL(ibv_destroy_qp(spread.qp), EBUSY);
  EQUAL(ibv_destroy_cq(spread.queues[0]->cq), EBUSY);
}

void a_hash_that_says_nothing_or_two_things_is_refused() {
  Cable cable;
  Port& p = cable.right;
  Queue a(p, 4), b(p, 5);
  ibv_rwq_ind_table* table = table_of(p.c, {a.wq, b.wq});
  CU_ASSERT_PTR_NOT_NULL_FATAL(table);
  auto refused = [&](uint64_t fields, uint8_t key_bytes) {
    errno = 0;
    ibv_qp* qp = hash_qp(p, table, fields, key_bytes);
    CU_ASSERT_PTR_NULL(qp);
    return errno;
  };
  EQUAL(refused(0, 40), EINVAL);
  EQUAL(refused(IBV_RX_HASH_SRC_IPV4, 39), EINVAL);
  EQUAL(refused(IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV6, 40), EINVAL);
  EQUAL(refused(IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_UDP, 40), EINVAL);
  EQUAL(refused(IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_INNER, 40), EOPNOTSUPP);
  ibv_qp* qp = hash_qp(p, table, IBV_RX_HASH_SRC_IPV4);
  CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
  ibv_qp_attr attr{};
  EQUAL(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EOPNOTSUPP);  // so says libmlx5
  EQUAL(ibv_destroy_qp(qp), 0);
  EQUAL(ibv_destroy_rwq_ind_table(table), 0);
}

void the_device_says_how_far_it_goes() {
  Cable cable;
  ibv_device_attr_ex a{};
  EQUAL(ibv_query_device_ex(cable.right.c, nullptr, &a), 0);
  EQUAL(a.rss_caps.supported_qpts, 1u << IBV_QPT_RAW_PACKET);
  EQUAL(a.rss_caps.max_rwq_indirection_table_size, 2048);
  CU_ASSERT(a.rss_caps.max_rwq_indirection_tables > 0);
  CU_ASSERT(a.max_wq_type_rq > 0);
  EQUAL(a.rss_caps.rx_hash_fields_mask, 0xff | IBV_RX_HASH_INNER);
  EQUAL(a.rss_caps.rx_hash_function, IBV_RX_HASH_FUNC_TOEPLITZ);
  Queue q(cable.right, 4);
  CU_ASSERT_PTR_NULL(table_of(cable.right.c, std::vector<ibv_wq*>(4096, q.wq)));
}

constexpr Case cases[] = {
    {"each flow reaches the queue that its hash names",
     each_flow_reaches_the_queue_that_its_hash_names},
    {"what cannot be hashed goes to the first place",
     what_cannot_be_hashed_goes_to_the_first_place},
    {"a queue receives only while it is ready", a_queue_receives_only_while_it_is_ready},
    {"tags are stripped as long as the queue is told to",
     tags_are_stripped_as_long_as_the_queue_is_told_to},
    {"what is in use cannot be destroyed", what_is_in_use_cannot_be_destroyed},
    {"a hash that says nothing or two things is refused",
     a_hash_that_says_nothing_or_two_things_is_refused},
    {"the device says how far it goes", the_device_says_how_far_it_goes},
};

}  // namespace
}  // namespace rss_ut

KILIM_TEST_SUITE(rss, rss_ut::cases)
