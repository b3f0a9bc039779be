// SPDX-License-Identifier: BSD-3-Clause
// Requests whose WQE says where they go (dynamic connections, datagrams, XRC), as libmlx5 writes
// them: printed, linted, replayed and explained with their way for what it is. No device runs
// but the replay's, so nobody has to be at the other end.
#include <functional>
#include <string>

#include "kilim/detail/diag/explain.hh"
#include "kilim/detail/diag/recorder.hh"
#include "twin_fixture.hh"
#include "ut.hh"
#include "wqe_tool.hh"

namespace way_golden_ut {
namespace {

using namespace kilim;
using prm::lint::QueueKind;
using test::GoldenDevice;

constexpr uint64_t dc_key = 0x0123456789abcdef;
constexpr uint32_t target = 0x4321, shared_queue = 0x65, own_key = 0x1100, peers_key = 0x2200;
constexpr uint64_t own_address = 0x10000, peers_address = 0x9000;
constexpr uint32_t bytes = 64;

// A queue that may send.
struct Queue {
  Queue(GoldenDevice& device, ibv_qp_type type, QueueKind of_kind) : kind(of_kind) {
    cq = ibv_create_cq(device.context, 64, nullptr, nullptr, 0);
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = type;
    attr.send_cq = attr.recv_cq = cq;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = device.pd;
    attr.cap = {16, 0, 1, 0, 0};
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
    if (kind != QueueKind::datagram)
      attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    mlx5dv_qp_init_attr dv{};
    if (kind == QueueKind::dynamic) {
      dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC | MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
      dv.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI;
      dv.dc_init_attr.dci_streams = {3, 1};
    }
    qp = mlx5dv_create_qp(device.context, &attr, &dv);
    CU_ASSERT_PTR_NOT_NULL_FATAL(qp);
    EQUAL_FATAL(raise(), 0);
    ibv_ah_attr way{};
    way.is_global = 1;
    way.port_num = 1;
    way.sl = 2;  // for Ethernet a bit higher in the WQE
    way.grh = {
        .dgid = {}, .flow_label = 0x54321, .sgid_index = 0, .hop_limit = 9, .traffic_class = 8};
    ibv_query_gid(device.context, 1, 0, &way.grh.dgid);
    ah = ibv_create_ah(device.pd, &way);
    CU_ASSERT_PTR_NOT_NULL_FATAL(ah);
    mlx5dv_obj obj{};
    obj.qp.in = qp;
    obj.qp.out = &memory;
    EQUAL_FATAL(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
  }
  ~Queue() {
    ibv_destroy_qp(qp);
    ibv_destroy_ah(ah);
    ibv_destroy_cq(cq);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // libmlx5 writes nothing before its queue may send.
  [[nodiscard]] int raise() const {
    const bool connected = kind == QueueKind::xrc, datagram = kind == QueueKind::datagram;
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    int more = datagram ? IBV_QP_QKEY : connected ? IBV_QP_ACCESS_FLAGS : 0;
    if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | more) != 0) return 1;
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    ibv_query_gid(qp->context, 1, 0, &a.ah_attr.grh.dgid);
    more = datagram ? 0 : IBV_QP_PATH_MTU;
    if (connected) more |= IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (ibv_modify_qp(qp, &a, IBV_QP_STATE | more) != 0) return 2;
    a.qp_state = IBV_QPS_RTS;
    more = datagram
               ? 0
               : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | more) != 0 ? 3 : 0;
  }
  // One request; `build` names its kind.
  void post(const std::function<void(ibv_qp_ex*)>& build, uint16_t stream = 0) {
    ibv_qp_ex* qx = ibv_qp_to_qp_ex(qp);
    mlx5dv_qp_ex* dv = mlx5dv_qp_ex_from_ibv_qp_ex(qx);
    ibv_wr_start(qx);
    qx->wr_flags = IBV_SEND_SIGNALED;
    build(qx);
    if (kind == QueueKind::xrc) ibv_wr_set_xrc_srqn(qx, shared_queue);
    if (kind == QueueKind::datagram) ibv_wr_set_ud_addr(qx, ah, target, 0x11111111);
    if (kind == QueueKind::dynamic && stream == 0) mlx5dv_wr_set_dc_addr(dv, ah, target, dc_key);
    if (stream != 0) mlx5dv_wr_set_dc_addr_stream(dv, ah, target, dc_key, stream);
    ibv_wr_set_sge(qx, own_key, own_address, bytes);
    EQUAL_FATAL(ibv_wr_complete(qx), 0);
  }
  // The ring's first WQE, as many octowords as it says.
  [[nodiscard]] std::vector<std::byte> first() const {
    const auto* at = static_cast<const std::byte*>(memory.sq.buf);
    return {at, at + (std::to_integer<std::size_t>(at[7]) & 63) * 16};
  }
  void record(const char* path, uint32_t blocks) const {
    auto recorder = diag::Recorder::open(path, 1 << 16, 5, kind);
    CU_ASSERT_TRUE_FATAL(recorder.ok());
    const queue::SqGeometry ring{.buf = static_cast<std::byte*>(memory.sq.buf),
                                 .wqebb_count = memory.sq.wqe_cnt,
                                 .qpn = Qpn{qp->qp_num}};
    (*recorder)->doorbell(**recorder, ring, 0, blocks);
  }

  QueueKind kind;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_ah* ah = nullptr;
  mlx5dv_qp memory{};
};

void write(ibv_qp_ex* qx) {
  ibv_wr_rdma_write(qx, peers_key, peers_address);
}
void add(ibv_qp_ex* qx) {
  ibv_wr_atomic_fetch_add(qx, peers_key, peers_address, 1);
}
void send(ibv_qp_ex* qx) {
  ibv_wr_send(qx);
}

void has(const std::string& text, const std::string& part) {
  const bool there = text.find(part) != std::string::npos;
  if (!there) std::printf("no '%s' in: %s\n", part.c_str(), text.c_str());
  CU_ASSERT_TRUE(there);
}

std::string told(const char* word, const Queue& q, uint32_t blocks, int& status) {
  test::ScratchFile file;
  q.record(file.path, blocks);
  return test::wqe_tool(word, file.path, status);
}

GoldenDevice& device() {
  static GoldenDevice d{"way0"};
  return d;
}

constexpr const char* data_line = "\n    0x40 bytes key 0x1100 at 0x10000\n";
constexpr const char* remote_line = "\n    remote key 0x2200 at 0x9000";

// 6 octowords each: two basic blocks.
void dynamic_requests_are_read() {
  Queue q{device(), IBV_QPT_DRIVER, QueueKind::dynamic};
  q.post(write);
  q.post(add, 5);
  int status = 0;
  const std::string text = told("print", q, 4, status);
  has(text, "RDMA_WRITE index 0 ");
  has(text, "\n    to target 0x4321 key 0x123456789abcdef sl 4 rlid 0x");
  has(text, " at GID fe80000000000000");
  has(text, " hops 9 class 0x8 flow 0x54321 stream 0\n" + std::string(remote_line + 1) + data_line);
  has(text, "ATOMIC_FA index 2 ");
  has(text, " stream 5\n");
  has(told("lint", q, 4, status), " 0 findings");
  EQUAL(status, 0);
  has(told("replay", q, 4, status), "1 doorbells replayed, 0 WQEs failed");
  EQUAL(status, 0);
}

// As drivers of others write it, where the adapter takes a compact address: without its second
// half.
void the_short_way_is_read() {
  Queue q{device(), IBV_QPT_DRIVER, QueueKind::dynamic};
  q.post(write);
  auto* ring = static_cast<std::byte*>(q.memory.sq.buf);
  constexpr std::size_t way = 16, half = 16, whole = 48, rest = 32;
  std::memmove(ring + way + half, ring + way + whole, rest);
  ring[way + 8] &= std::byte{0x7f};
  ring[7] = std::byte{(way + half + rest) / 16};
  int status = 0;
  const std::string text = told("print", q, 1, status);
  has(text, "\n    to target 0x4321 key 0x123456789abcdef sl 4 rlid 0x");
  has(text, " short stream 0\n");
  has(text, std::string(remote_line) + data_line);
  const std::string linted = told("lint", q, 1, status);
  has(linted, "short-way: ");
  has(linted, " 1 findings");
  has(told("replay", q, 1, status), "1 doorbells replayed, 0 WQEs failed");
}

void datagrams_and_shared_connections_are_read() {
  int status = 0;
  Queue ud{device(), IBV_QPT_UD, QueueKind::datagram};
  ud.post(send);
  std::string text = told("print", ud, 2, status);
  has(text, "\n    to queue 0x4321 key 0x11111111 sl 4 rlid 0x");
  has(text, " flow 0x54321" + std::string(data_line));
  has(told("lint", ud, 2, status), " 0 findings");
  Queue xrc{device(), IBV_QPT_XRC_SEND, QueueKind::xrc};
  xrc.post(write);
  text = told("print", xrc, 1, status);
  has(text, "\n    to shared queue 0x65" + std::string(remote_line) + data_line);
  has(told("lint", xrc, 1, status), " 0 findings");
  has(told("replay", xrc, 1, status), "1 doorbells replayed, 0 WQEs failed");
}

std::string explained(const Queue& q, prm::Syndrome s, diag::MkeyBook& book) {
  const std::vector<std::byte> wqe = q.first();
  book.learn(wqe, 0, q.kind);
  queue::Completion c;
  c.opcode = prm::CqeOpcode::req_err;
  c.wqe_opcode = prm::Opcode::rdma_write;
  c.syndrome = s;
  std::array<char, 1024> buffer;
  prm::Text text{buffer};
  diag::explain(text, c, wqe, book, q.kind);
  return std::string(text.view());
}

void errors_behind_a_way_are_explained() {
  mr::Region own{.address = own_address, .length = bytes - 1, .iova = own_address};
  own.lkey = Lkey{own_key};
  mr::Region peers{.address = peers_address, .length = bytes - 2, .iova = peers_address};
  peers.lkey = Lkey{peers_key};
  peers.access = mr::Access::all;
  diag::MkeyBook book;
  book.region(own, "own");
  book.region(peers, "peer's");
  const std::pair<ibv_qp_type, QueueKind> types[] = {{IBV_QPT_DRIVER, QueueKind::dynamic},
                                                     {IBV_QPT_XRC_SEND, QueueKind::xrc}};
  for (const auto& [type, kind] : types) {
    Queue q{device(), type, kind};
    q.post(write);
    has(explained(q, prm::Syndrome::local_prot, book),
        "segment 0: 64 bytes at 0x10000 go 1 bytes past the end of region 'own'");
    has(explained(q, prm::Syndrome::remote_access, book),
        "remote side: 64 bytes at 0x9000 go 2 bytes past the end of region 'peer's'");
    // A request without a mistake is not blamed for its way.
    has(explained(q, prm::Syndrome::local_qp_op, book), "the book of keys holds no reason");
  }
  EQUAL(book.find(own_key)->uses, 6);
  EQUAL(book.find(own_key)->faults, 2);
  EQUAL(book.find(peers_key)->faults, 2);
}

const test::Case cases[] = {
    {"a request on a dynamic connection is read with its way", dynamic_requests_are_read},
    {"a way without its second half is read as such", the_short_way_is_read},
    {"datagrams and XRC requests are read with their way",
     datagrams_and_shared_connections_are_read},
    {"an error behind a way is explained", errors_behind_a_way_are_explained},
};

}  // namespace
}  // namespace way_golden_ut

KILIM_TEST_SUITE(way, way_golden_ut::cases)
