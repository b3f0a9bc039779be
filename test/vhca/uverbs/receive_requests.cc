// SPDX-License-Identifier: BSD-3-Clause
// Requests for receive queues, tables of them, queue pairs that hash and matchers as no client
// library would send them: each gets the errno of ib_uverbs or mlx5_ib.
#include <array>
#include <cerrno>
#include <vector>

#include "receive_request_cases.hh"
#include "request_fixture.hh"

namespace receive_requests_ut {
namespace {

using namespace kilim::test;
constexpr uint32_t ex = IB_USER_VERBS_CMD_FLAG_EXTENDED, ready = 1;

struct WqRequest {
  ib_uverbs_ex_create_wq core{};
  mlx5_ib_create_wq driver{};
  uint16_t driver_bytes = sizeof driver;
};

struct HashRequest {
  mlx5_ib_create_qp_rss driver{};
  ib_uverbs_qp_cap cap{};
  uint64_t type = IB_UVERBS_QPT_RAW_PACKET;
  uint16_t driver_bytes = sizeof driver, answer_bytes = sizeof(mlx5_ib_create_qp_resp);
};

struct MatcherRequest {
  std::vector<uint8_t> mask = std::vector<uint8_t>(64);
  uint64_t priority = 0;
  uint8_t type = 0, criteria = 1;
  uint32_t table = 0;
};

struct FlowRequest {
  std::vector<uint8_t> value = std::vector<uint8_t>(64);
  bool to_queue = true;
  uint32_t flags = 0, tag = 0;
};

struct RequestBench {
  RequestBench() {
    EQUAL_FATAL(c.opened, 0);
    EQUAL_FATAL(r.begin(c, pd, uar, cq), 0);
    EQUAL_FATAL(wq({}, wq_handle), 0);
    EQUAL_FATAL(table({wq_handle}, table_handle), 0);
  }
  int wq(const std::function<void(WqRequest&)>& spoil, uint32_t& handle) {
    WqRequest q;
    q.core.pd_handle = pd;
    q.core.cq_handle = cq;
    q.core.max_wr = 16;
    q.core.max_sge = 1;
    q.driver.buf_addr = reinterpret_cast<uintptr_t>(r.qp);
    q.driver.db_addr = reinterpret_cast<uintptr_t>(r.qp_record);
    q.driver.rq_wqe_count = 16;
    q.driver.rq_wqe_shift = 4;
    if (spoil) spoil(q);
    ib_uverbs_ex_create_wq_resp resp{};
    mlx5_ib_create_wq_resp driver{};
    const int err =
        write_command(ex | IB_USER_VERBS_EX_CMD_CREATE_WQ)
            .in(UVERBS_ATTR_CORE_IN, q.core)
            .out(UVERBS_ATTR_CORE_OUT, resp)
            .raw(UVERBS_ATTR_UHW_IN, q.driver_bytes, reinterpret_cast<uintptr_t>(&q.driver))
            .out(UVERBS_ATTR_UHW_OUT, driver)
            .run(*c.file);
    handle = resp.wq_handle;
    return err;
  }
  int modify(const ib_uverbs_ex_modify_wq& cmd, const mlx5_ib_modify_wq& driver = {}) {
    return write_command(ex | IB_USER_VERBS_EX_CMD_MODIFY_WQ)
        .in(UVERBS_ATTR_CORE_IN, cmd)
        .in(UVERBS_ATTR_UHW_IN, driver)
        .run(*c.file);
  }
  // The handles as they are, and a word of zeros where the command would end within eight bytes.
  int table(std::vector<uint32_t> words, uint32_t& handle, uint32_t log_size = 0) {
    words.insert(words.begin(), {0, log_size});
    if (words.size() % 2 != 0) words.push_back(0);
    ib_uverbs_ex_create_rwq_ind_table_resp resp{};
    const int err = write_command(ex | IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL)
                        .raw(UVERBS_ATTR_CORE_IN, static_cast<uint16_t>(words.size() * 4),
                             reinterpret_cast<uintptr_t>(words.data()))
                        .out(UVERBS_ATTR_CORE_OUT, resp)
                        .run(*c.file);
    handle = resp.ind_tbl_handle;
    return err;
  }
  int hash(const std::function<void(HashRequest&)>& spoil, uint32_t& handle) {
    HashRequest q;
    q.driver.rx_hash_function = MLX5_RX_HASH_FUNC_TOEPLITZ;
    q.driver.rx_key_len = 40;
    if (spoil) spoil(q);
    mlx5_ib_create_qp_resp driver{};
    ib_uverbs_qp_cap cap{};
    uint32_t qpn = 1;
    Ioctl io(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE);
    io.handle(UVERBS_ATTR_CREATE_QP_HANDLE)
        .handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd)
        .handle(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, table_handle)
        .in(UVERBS_ATTR_CREATE_QP_USER_HANDLE, uint64_t{0})
        .in(UVERBS_ATTR_CREATE_QP_CAP, q.cap)
        .in(UVERBS_ATTR_CREATE_QP_TYPE, q.type)
        .out(UVERBS_ATTR_CREATE_QP_RESP_CAP, cap)
        .out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, qpn)
        .raw(UVERBS_ATTR_UHW_IN, q.driver_bytes, reinterpret_cast<uintptr_t>(&q.driver))
        .raw(UVERBS_ATTR_UHW_OUT, q.answer_bytes, reinterpret_cast<uintptr_t>(&driver));
    const int err = io.run(*c.file);
    handle = static_cast<uint32_t>(io.attr(0).data);
    if (err != 0) return err;
    return qpn == 0 && driver.comp_mask == MLX5_IB_CREATE_QP_RESP_MASK_TIRN ? 0 : -1;
  }
  int matcher(const MatcherRequest& q, uint32_t& handle) {
    Ioctl io(MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE);
    io.handle(MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE)
        .raw(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK, static_cast<uint16_t>(q.mask.size()),
             reinterpret_cast<uintptr_t>(q.mask.data()))
        .in(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA, q.criteria)
        .in(MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE, q.table)
        .raw(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE, q.type == 0 ? 2 : 0, q.priority);
    io.attr(4).attr_data.enum_data.elem_id = q.type;
    const int err = io.run(*c.file);
    handle = static_cast<uint32_t>(io.attr(0).data);
    return err;
  }
  int flow(uint32_t matcher_handle, uint32_t qp, const FlowRequest& q, uint32_t& handle) {
    Ioctl io(UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW);
    io.handle(MLX5_IB_ATTR_CREATE_FLOW_HANDLE)
        .handle(MLX5_IB_ATTR_CREATE_FLOW_MATCHER, matcher_handle)
        .raw(MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE, static_cast<uint16_t>(q.value.size()),
             reinterpret_cast<uintptr_t>(q.value.data()));
    if (q.to_queue) io.handle(MLX5_IB_ATTR_CREATE_FLOW_DEST_QP, qp);
    if (q.flags != 0) io.in(MLX5_IB_ATTR_CREATE_FLOW_FLAGS, q.flags);
    if (q.tag != 0) io.in(MLX5_IB_ATTR_CREATE_FLOW_TAG, q.tag);
    const int err = io.run(*c.file);
    handle = static_cast<uint32_t>(io.attr(0).data);
    return err;
  }
  int destroy_wq(uint32_t handle) {
    const ib_uverbs_ex_destroy_wq cmd{0, handle};
    ib_uverbs_ex_destroy_wq_resp resp{};
    return write_command(ex | IB_USER_VERBS_EX_CMD_DESTROY_WQ)
        .in(UVERBS_ATTR_CORE_IN, cmd)
        .out(UVERBS_ATTR_CORE_OUT, resp)
        .run(*c.file);
  }
  Client c;
  Rings r;
  uint32_t pd = 0, uar = 0, cq = 0, wq_handle = 0, table_handle = 0;
};

void wrong_receive_queues_are_refused() {
  struct Row {
    const char* what;
    int error;
    void (*spoil)(WqRequest&);
  };
  constexpr Row rows[] = {
      {"compatibility mask", -EOPNOTSUPP, [](WqRequest& q) { q.core.comp_mask = 1; }},
      {"reserved behind the flags", 0, [](WqRequest& q) { q.core.reserved = 1; }},
      {"no PD", -EINVAL, [](WqRequest& q) { q.core.pd_handle += 100; }},
      {"no CQ", -EINVAL, [](WqRequest& q) { q.core.cq_handle = q.core.pd_handle; }},
      {"send queue", -EINVAL, [](WqRequest& q) { q.core.wq_type = 1; }},
      {"driver's part too short", -EINVAL, [](WqRequest& q) { q.driver_bytes = 36; }},
      {"unknown wish", -EOPNOTSUPP, [](WqRequest& q) { q.driver.comp_mask = 2; }},
      {"stride of 32 bytes", -EINVAL,
       [](WqRequest& q) {
         q.driver.comp_mask = 1;
         q.driver.single_stride_log_num_of_bytes = 5;
         q.driver.single_wqe_log_num_of_strides = 9;
       }},
      {"four strides", -EINVAL,
       [](WqRequest& q) {
         q.driver.comp_mask = 1;
         q.driver.single_stride_log_num_of_bytes = 6;
         q.driver.single_wqe_log_num_of_strides = 2;
       }},
      {"too many asked for", -EINVAL, [](WqRequest& q) { q.core.max_wr = 32769; }},
      {"no WQEs", -EINVAL, [](WqRequest& q) { q.driver.rq_wqe_count = 0; }},
      {"beyond 32 bits", -EINVAL, [](WqRequest& q) { q.driver.rq_wqe_shift = 40; }},
      {"waiting for WQEs", -EOPNOTSUPP, [](WqRequest& q) { q.core.create_flags = 4; }},
      {"padded writes", -EOPNOTSUPP, [](WqRequest& q) { q.core.create_flags = 8; }},
      {"no memory", -EFAULT, [](WqRequest& q) { q.driver.buf_addr = 4096; }},
  };
  RequestBench b;
  for (const Row& row : rows) {
    uint32_t handle = 0;
    const int err = b.wq(row.spoil, handle);
    if (err != row.error) std::printf("%s: %d\n", row.what, err);
    EQUAL(err, row.error);
    if (err == 0) EQUAL(b.destroy_wq(handle), 0);
  }
}

void wrong_changes_are_refused() {
  RequestBench b;
  struct Row {
    int error;
    ib_uverbs_ex_modify_wq cmd;  // mask, handle, to, from, flags, their mask
    mlx5_ib_modify_wq driver;
  };
  const uint32_t h = b.wq_handle;
  const Row rows[] = {
      {-EINVAL, {0, h, ready, 0, 0, 0}, {}},
      {-EINVAL, {8, h, ready, 0, 0, 0}, {}},
      {-EINVAL, {1, h, 3, 0, 0, 0}, {}},
      {-EINVAL, {3, h, ready, 3, 0, 0}, {}},
      {-EINVAL, {3, h, ready, ready, 0, 0}, {}},
      {-EINVAL, {1, h + 100, ready, 0, 0, 0}, {}},
      {-EINVAL, {1, b.cq, ready, 0, 0, 0}, {}},
      {-EOPNOTSUPP, {4, h, 0, 0, 8, 8}, {}},
      {-EOPNOTSUPP, {1, h, ready, 0, 0, 0}, {1, 0}},
      {-EOPNOTSUPP, {1, h, ready, 0, 0, 0}, {0, 1}},
      {0, {1, h, ready, 0, 0, 0}, {}},
      {0, {4, h, 0, 0, 1, 1}, {}},
  };
  for (const Row& row : rows) EQUAL(b.modify(row.cmd, row.driver), row.error);
}

void wrong_tables_are_refused() {
  RequestBench b;
  uint32_t handle = 0;
  EQUAL(b.table({b.wq_handle, b.wq_handle}, handle, 2), -ENOSPC);
  EQUAL(b.table({b.wq_handle, 7}, handle), -EOPNOTSUPP);
  EQUAL(b.table({b.wq_handle, b.cq}, handle, 1), -EINVAL);
  EQUAL(b.table({b.wq_handle}, handle, 14), -EINVAL);
  EQUAL(b.table(std::vector<uint32_t>(4096, b.wq_handle), handle, 12), -EINVAL);
  EQUAL(b.table(std::vector<uint32_t>(2048, b.wq_handle), handle, 11), 0);
  EQUAL(b.destroy_wq(b.wq_handle), -EBUSY);
  EQUAL(b.destroy_wq(b.wq_handle + 100), -ENOENT);
  EQUAL(b.destroy_wq(b.cq), -EINVAL);
}

void wrong_hashes_are_refused() {
  struct Row {
    const char* what;
    int error;
    void (*spoil)(HashRequest&);
  };
  constexpr Row rows[] = {
      {"as it should be", 0, [](HashRequest&) {}},
      {"short key", -EINVAL, [](HashRequest& q) { q.driver.rx_key_len = 39; }},
      {"another function", -EOPNOTSUPP, [](HashRequest& q) { q.driver.rx_hash_function = 2; }},
      {"unknown wish", -EOPNOTSUPP, [](HashRequest& q) { q.driver.comp_mask = 1; }},
      {"tunnels", 0, [](HashRequest& q) { q.driver.flags = MLX5_QP_FLAG_TUNNEL_OFFLOADS; }},
      {"inner headers in tunnels", 0,
       [](HashRequest& q) {
         q.driver.flags = MLX5_QP_FLAG_TUNNEL_OFFLOADS;
         q.driver.rx_hash_fields_mask = MLX5_RX_HASH_INNER | 1;
       }},
      {"frames of its own", 0, [](HashRequest& q) { q.driver.flags = 64 | 128; }},
      {"inner headers", -EOPNOTSUPP,
       [](HashRequest& q) { q.driver.rx_hash_fields_mask = MLX5_RX_HASH_INNER | 1; }},
      {"IPsec", -EOPNOTSUPP, [](HashRequest& q) { q.driver.rx_hash_fields_mask = 0x100; }},
      {"both kinds of addresses", -EINVAL,
       [](HashRequest& q) { q.driver.rx_hash_fields_mask = 1 | 8; }},
      {"both kinds of ports", -EINVAL,
       [](HashRequest& q) { q.driver.rx_hash_fields_mask = 16 | 128; }},
      {"WQEs of its own", -EINVAL, [](HashRequest& q) { q.cap.max_recv_wr = 1; }},
      {"connected", -EOPNOTSUPP, [](HashRequest& q) { q.type = IB_UVERBS_QPT_RC; }},
      {"driver's part too short", -EINVAL, [](HashRequest& q) { q.driver_bytes -= 8; }},
      {"no room for the answer", -EINVAL, [](HashRequest& q) { q.answer_bytes = 0; }},
  };
  RequestBench b;
  for (const Row& row : rows) {
    uint32_t handle = 0;
    const int err = b.hash(row.spoil, handle);
    if (err != row.error) std::printf("%s: %d\n", row.what, err);
    EQUAL(err, row.error);
    ib_uverbs_destroy_qp_resp resp{};
    if (err == 0) EQUAL(b.r.destroy_qp(b.c, handle, resp), 0);
  }
}

void matchers_and_their_flows() {
  RequestBench b;
  uint32_t qp = 0, m = 0, f = 0, other = 0;
  EQUAL_FATAL(b.hash({}, qp), 0);
  MatcherRequest smac;
  std::fill_n(smac.mask.begin(), 6, uint8_t{0xff});
  EQUAL_FATAL(b.matcher(smac, m), 0);
  EQUAL(b.matcher({.criteria = 0x80}, other), -EINVAL);
  EQUAL(b.matcher({.type = 4}, other), -EINVAL);
  EQUAL(b.matcher({.table = 2}, other), -EOPNOTSUPP);  // the E-switch's
  EQUAL(b.matcher({.mask = std::vector<uint8_t>(513)}, other), -EINVAL);
  FlowRequest good;
  good.value[5] = 9;
  auto with = [&](void (*change)(FlowRequest&)) {
    FlowRequest q = good;
    change(q);
    return b.flow(m, qp, q, f);
  };
  for (std::size_t at = 6; at < 512; at++) {  // outside of the mask, in whatever set
    FlowRequest beyond{.value = std::vector<uint8_t>(512)};
    beyond.value[at] = 1;
    EQUAL(b.flow(m, qp, beyond, f), -EINVAL);
  }
  EQUAL(with([](FlowRequest& q) { q.to_queue = false; }), -EINVAL);
  EQUAL(with([](FlowRequest& q) { q.flags = 2; }), -EINVAL);
  EQUAL(with([](FlowRequest& q) { q.to_queue = false, q.flags = 3; }), -EINVAL);
  EQUAL(with([](FlowRequest& q) { q.tag = 1u << 24; }), -EINVAL);
  EQUAL(with([](FlowRequest& q) { q.tag = 7; }), 0);
  EQUAL(with([](FlowRequest& q) { q.to_queue = false, q.flags = 2; }), -EEXIST);
  EQUAL(b.c.destroy(MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_DESTROY,
                    MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE, m),
        -EBUSY);
  // A set's bytes that are not matched, ICMP's in the fifth set, and a set that is not looked at.
  for (const auto& [at, criteria, answer] :
       {std::array{70, 3, -EINVAL}, {256, 17, -EINVAL}, {288, 1, -EINVAL}, {288, 17, 0}}) {
    MatcherRequest deep{.mask = std::vector<uint8_t>(320),
                        .criteria = static_cast<uint8_t>(criteria)};
    deep.mask[static_cast<std::size_t>(at)] = 1;
    EQUAL(b.matcher(deep, other), 0);
    EQUAL(b.flow(other, qp, {}, f), answer);
  }
  EQUAL(b.matcher({.priority = 16}, other), 0);
  EQUAL(b.flow(other, qp, {}, f), -ENOSPC);
}

// Headers in front: of this kind and table, of a length that is a frame's at least.
int reformat(RequestBench& b, std::size_t bytes, uint64_t type, uint64_t table, uint32_t& handle) {
  const std::vector<std::byte> data(bytes);
  Ioctl io(UVERBS_OBJECT_FLOW_ACTION, MLX5_IB_METHOD_FLOW_ACTION_CREATE_PACKET_REFORMAT);
  io.handle(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_HANDLE)
      .in(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_TYPE, type)
      .in(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_FT_TYPE, table)
      .raw(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_DATA_BUF, static_cast<uint16_t>(bytes),
           reinterpret_cast<uintptr_t>(data.data()));
  const int err = io.run(*b.c.file);
  handle = static_cast<uint32_t>(io.attr(0).data);
  return err;
}

void rules_of_what_leaves_have_no_destination() {
  RequestBench b;
  uint32_t qp = 0, m = 0, f = 0, action = 0;
  EQUAL_FATAL(b.hash({}, qp), 0);
  EQUAL_FATAL(b.matcher({.table = 1}, m), 0);
  FlowRequest q;
  EQUAL(b.flow(m, qp, q, f), -EINVAL);
  q.to_queue = false;
  q.flags = 1;  // a miss
  EQUAL(b.flow(m, qp, q, f), -EINVAL);
  q.flags = 0;
  q.tag = 7;
  EQUAL(b.flow(m, qp, q, f), -EINVAL);
  q.tag = 0;
  EQUAL(b.flow(m, qp, q, f), 0);
  EQUAL(b.c.destroy(UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY, UVERBS_ATTR_DESTROY_FLOW_HANDLE,
                    f),
        0);
  EQUAL(reformat(b, 50, 1, 1, action), 0);
  EQUAL(b.c.destroy(UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY,
                    UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE, action),
        0);
  EQUAL(reformat(b, 13, 1, 1, action), -EINVAL);
  EQUAL(reformat(b, 129, 1, 1, action), -EINVAL);
  EQUAL(reformat(b, 50, 3, 1, action), -EOPNOTSUPP);
  EQUAL(reformat(b, 50, 1, 0, action), -EOPNOTSUPP);
  b.c.hca->config.profile.egress_rules = false;
  EQUAL(b.matcher({.table = 1}, m), -EOPNOTSUPP);
  EQUAL(reformat(b, 50, 1, 1, action), -EOPNOTSUPP);
}

void counters_tell_what_they_are_bound_to() {
  RequestBench b;
  Ioctl io(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE);
  io.handle(UVERBS_ATTR_CREATE_COUNTERS_HANDLE);
  EQUAL_FATAL(io.run(*b.c.file), 0);
  const uint64_t handle = io.attr(0).data;
  std::array<uint64_t, 2> values{};
  EQUAL(Ioctl(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ)
            .handle(UVERBS_ATTR_READ_COUNTERS_HANDLE, handle)
            .out(UVERBS_ATTR_READ_COUNTERS_BUFF, values)
            .run(*b.c.file),
        -EINVAL);  // no rule has said what they tell
  EQUAL(b.c.destroy(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY,
                    UVERBS_ATTR_DESTROY_COUNTERS_HANDLE, static_cast<uint32_t>(handle)),
        0);
}

constexpr Case request_cases[] = {
    {"wrong receive queues are refused", wrong_receive_queues_are_refused},
    {"wrong changes are refused", wrong_changes_are_refused},
    {"wrong tables are refused", wrong_tables_are_refused},
    {"wrong hashes are refused", wrong_hashes_are_refused},
    {"matchers and their flows", matchers_and_their_flows},
    {"rules of what leaves have no destination", rules_of_what_leaves_have_no_destination},
    {"counters tell what they are bound to", counters_tell_what_they_are_bound_to},
};

}  // namespace
}  // namespace receive_requests_ut

std::span<const kilim::test::Case> kilim::test::receive_request_cases() {
  return receive_requests_ut::request_cases;
}
