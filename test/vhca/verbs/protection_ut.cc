// SPDX-License-Identifier: BSD-3-Clause
// Protection violations through verbs: the right status, the state of both queue pairs, the request
// behind flushed, memory untouched.
#include "fabric_fixture.hh"

namespace protection_ut {
namespace {

using namespace kilim::test;

constexpr uint32_t region_bytes = 4096;
constexpr uint8_t untouched = 0x5a;

// Side 0 asks side 1; `a` is side 0's memory, `b` side 1's.
struct Scene {
  explicit Scene(unsigned b_access = all_access, unsigned qp_access = all_access,
                 unsigned a_access = all_access)
      : l(Shape{rc_ops, MLX5DV_QP_EX_WITH_MKEY_CONFIGURE | MLX5DV_QP_EX_WITH_MR_LIST, 512},
          qp_access),
        a(l.pd[0], region_bytes, a_access),
        b(l.pd[1], region_bytes, b_access) {
    CU_ASSERT_FATAL(l.ok);
    CU_ASSERT_FATAL(a.mr() != nullptr);
    CU_ASSERT_FATAL(b.mr() != nullptr);
    std::memset(a.data(), 0x11, region_bytes);
    std::memset(b.data(), untouched, region_bytes);
  }
  int write(uint64_t remote, uint32_t rkey, uint32_t bytes = 64) {
    return l.post(IBV_WR_RDMA_WRITE, {a.sge(0, bytes)}, remote, rkey);
  }
  int read(uint64_t remote, uint32_t rkey, uint32_t bytes = 64) {
    return l.post(IBV_WR_RDMA_READ, {a.sge(0, bytes)}, remote, rkey);
  }
  // What was posted fails with `status`, a request behind it is flushed, nothing was written.
  void fails(ibv_wc_status status, ibv_qp_state peer = IBV_QPS_ERR) {
    EQUAL(l.post(IBV_WR_RDMA_WRITE, {a.sge(0, 8)}, b.at(), b.mr()->rkey), 0);
    uint64_t errors = journal_count(Journal::Kind::error);
    ibv_wc wc{};
    CU_ASSERT_FATAL(wait_for(l.cq[0], wc));
    EQUAL(wc.status, status);
    EQUAL(wc.wr_id, 42);
    EQUAL(l.status(), IBV_WC_WR_FLUSH_ERR);
    CU_ASSERT(journal_count(Journal::Kind::error) > errors);
    EQUAL(state_of(l.qp[0]), IBV_QPS_ERR);
    EQUAL(state_of(l.qp[1]), peer);
    CU_ASSERT(all_equal(a.data(), region_bytes, 0x11));
    CU_ASSERT(all_equal(b.data(), region_bytes, untouched));
  }

  Loop l;
  Region a, b;
};

void a_remote_key_that_does_not_exist() {
  Scene s;
  EQUAL(s.write(s.b.at(), 0xfffff000), 0);
  s.fails(IBV_WC_REM_ACCESS_ERR);
}
void a_remote_key_with_another_tag() {
  Scene s;
  EQUAL(s.write(s.b.at(), s.b.mr()->rkey ^ 1), 0);
  s.fails(IBV_WC_REM_ACCESS_ERR);
}
void a_write_beyond_the_end() {
  Scene s;
  EQUAL(s.write(s.b.at(region_bytes - 63), s.b.mr()->rkey), 0);
  s.fails(IBV_WC_REM_ACCESS_ERR);
}
void a_write_before_the_beginning() {
  Scene s;
  EQUAL(s.write(s.b.at() - 1, s.b.mr()->rkey), 0);
  s.fails(IBV_WC_REM_ACCESS_ERR);
}
void a_read_that_wraps_around_the_address_space() {
  Scene s;
  EQUAL(s.read(~uint64_t{0} - 10, s.b.mr()->rkey), 0);
  s.fails(IBV_WC_REM_ACCESS_ERR);
}
void a_write_to_a_region_without_remote_write() {
  Scene s(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  EQUAL(s.write(s.b.at(), s.b.mr()->rkey), 0);
  s.fails(IBV_WC_REM_ACCESS_ERR);
}
void a_read_of_a_region_without_remote_read() {
  Scene s(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  EQUAL(s.read(s.b.at(), s.b.mr()->rkey), 0);
  s.fails(IBV_WC_REM_ACCESS_ERR);
}
void an_atomic_on_a_region_without_remote_atomic() {
  Scene s(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  EQUAL(s.l.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, s.a.sge(0, 8), s.b.at(), s.b.mr()->rkey, 1),
        0);
  s.fails(IBV_WC_REM_ACCESS_ERR);
}
void an_atomic_that_is_not_aligned() {
  Scene s;
  EQUAL(s.l.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, s.a.sge(0, 8), s.b.at(4), s.b.mr()->rkey, 1),
        0);
  s.fails(IBV_WC_REM_INV_REQ_ERR);
}
void a_region_of_another_protection_domain() {
  Scene s;
  EQUAL(s.write(s.a.at(), s.a.mr()->rkey), 0);  // side 0's own, offered to side 1
  s.fails(IBV_WC_REM_ACCESS_ERR);
}
void a_write_that_the_queue_pair_does_not_permit() {
  Scene s(all_access, IBV_ACCESS_REMOTE_READ);
  EQUAL(s.write(s.b.at(), s.b.mr()->rkey), 0);
  s.fails(IBV_WC_REM_INV_REQ_ERR);
}
void a_read_that_the_queue_pair_does_not_permit() {
  Scene s(all_access, IBV_ACCESS_REMOTE_WRITE);
  EQUAL(s.read(s.b.at(), s.b.mr()->rkey), 0);
  s.fails(IBV_WC_REM_INV_REQ_ERR);
}
void a_region_that_was_deregistered() {
  Scene s;
  uint32_t rkey = 0;
  {
    Region gone(s.l.pd[1], 64);
    rkey = gone.mr()->rkey;
    gone.release();
    EQUAL(s.write(gone.at(), rkey), 0);
    s.fails(IBV_WC_REM_ACCESS_ERR);
    CU_ASSERT(all_equal(gone.data(), 64, 0));
  }
}
void a_remote_key_that_was_invalidated() {
  Scene s;
  mlx5dv_mkey_init_attr attr{};
  attr.pd = s.l.pd[1];
  attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  attr.max_entries = 4;
  mlx5dv_mkey* key = mlx5dv_create_mkey(&attr);
  CU_ASSERT_PTR_NOT_NULL_FATAL(key);
  ibv_sge sge = s.b.sge(0, 128);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(s.l.qp[1]);
  ibv_wr_start(ex);
  ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  mlx5dv_wr_mr_list(mlx5dv_qp_ex_from_ibv_qp_ex(ex), key,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 1, &sge);
  EQUAL(ibv_wr_complete(ex), 0);
  EQUAL(wait_status(s.l.cq[1]), IBV_WC_SUCCESS);
  ibv_wr_start(ex);
  ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_local_inv(ex, key->rkey);
  EQUAL(ibv_wr_complete(ex), 0);
  EQUAL(wait_status(s.l.cq[1]), IBV_WC_SUCCESS);
  EQUAL(s.write(0, key->rkey), 0);
  s.fails(IBV_WC_REM_ACCESS_ERR);
  mlx5dv_destroy_mkey(key);
}
void a_local_key_that_does_not_exist() {
  Scene s;
  EQUAL(s.l.post(IBV_WR_RDMA_WRITE, {ibv_sge{s.a.at(), 64, 0xfffff000}}, s.b.at(), s.b.mr()->rkey),
        0);
  s.fails(IBV_WC_LOC_PROT_ERR, IBV_QPS_RTS);
}
void a_local_segment_beyond_the_end() {
  Scene s;
  EQUAL(s.l.post(IBV_WR_RDMA_WRITE, {s.a.sge(region_bytes - 63, 64)}, s.b.at(), s.b.mr()->rkey), 0);
  s.fails(IBV_WC_LOC_PROT_ERR, IBV_QPS_RTS);
}
void a_local_key_of_another_protection_domain() {
  Scene s;
  EQUAL(s.l.post(IBV_WR_RDMA_WRITE, {s.b.sge(0, 64)}, s.b.at(), s.b.mr()->rkey), 0);
  s.fails(IBV_WC_LOC_PROT_ERR, IBV_QPS_RTS);
}
void a_read_into_a_region_without_local_write() {
  Scene s(all_access, all_access, IBV_ACCESS_REMOTE_READ);
  EQUAL(s.read(s.b.at(), s.b.mr()->rkey), 0);
  s.fails(IBV_WC_LOC_PROT_ERR, IBV_QPS_RTS);
}
void a_message_longer_than_its_receive() {
  Scene s;
  EQUAL(s.l.post_recv(1, {s.b.sge(0, 63)}), 0);
  EQUAL(s.l.post(IBV_WR_SEND, {s.a.sge(0, 64)}), 0);
  s.fails(IBV_WC_REM_INV_REQ_ERR);
  EQUAL(wait_status(s.l.cq[1]), IBV_WC_LOC_LEN_ERR);
}
void a_receive_into_a_region_without_local_write() {
  Scene s(IBV_ACCESS_REMOTE_READ);
  EQUAL(s.l.post_recv(1, {s.b.sge(0, 64)}), 0);
  EQUAL(s.l.post(IBV_WR_SEND, {s.a.sge(0, 64)}), 0);
  s.fails(IBV_WC_REM_OP_ERR);
  EQUAL(wait_status(s.l.cq[1]), IBV_WC_LOC_PROT_ERR);
}
void a_receiver_that_never_is_ready() {
  Scene s;
  EQUAL(s.l.post(IBV_WR_SEND, {s.a.sge(0, 64)}), 0);
  s.fails(IBV_WC_RNR_RETRY_EXC_ERR, IBV_QPS_RTS);
}

constexpr Case cases[] = {
    {"a remote key that does not exist", a_remote_key_that_does_not_exist},
    {"a remote key with another tag", a_remote_key_with_another_tag},
    {"a write beyond the end", a_write_beyond_the_end},
    {"a write before the beginning", a_write_before_the_beginning},
    {"a read that wraps around the address space", a_read_that_wraps_around_the_address_space},
    {"a write to a region without remote write", a_write_to_a_region_without_remote_write},
    {"a read of a region without remote read", a_read_of_a_region_without_remote_read},
    {"an atomic on a region without remote atomic", an_atomic_on_a_region_without_remote_atomic},
    {"an atomic that is not aligned", an_atomic_that_is_not_aligned},
    {"a region of another protection domain", a_region_of_another_protection_domain},
    {"a write that the queue pair does not permit", a_write_that_the_queue_pair_does_not_permit},
    {"a read that the queue pair does not permit", a_read_that_the_queue_pair_does_not_permit},
    {"a region that was deregistered", a_region_that_was_deregistered},
    {"a remote key that was invalidated", a_remote_key_that_was_invalidated},
    {"a local key that does not exist", a_local_key_that_does_not_exist},
    {"a local segment beyond the end", a_local_segment_beyond_the_end},
    {"a local key of another protection domain", a_local_key_of_another_protection_domain},
    {"a read into a region without local write", a_read_into_a_region_without_local_write},
    {"a message longer than its receive", a_message_longer_than_its_receive},
    {"a receive into a region without local write", a_receive_into_a_region_without_local_write},
    {"a receiver that never is ready", a_receiver_that_never_is_ready},
};

}  // namespace
}  // namespace protection_ut

KILIM_TEST_SUITE(protection, protection_ut::cases)
