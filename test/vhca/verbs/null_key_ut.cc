// SPDX-License-Identifier: BSD-3-Clause
// The null region (ibv_alloc_null_mr(3)): what is read of it is zeros, what is written is gone, in
// SGEs and as a hole in the list of a key; never for the other side by itself.
#include "fabric_fixture.hh"

namespace null_key_ut {
namespace {

using namespace kilim::test;

constexpr uint32_t bytes = 256 * 1024;
constexpr Shape umr_shape{rc_ops, MLX5DV_QP_EX_WITH_MKEY_CONFIGURE | MLX5DV_QP_EX_WITH_MR_LIST,
                          512};

struct Scene : Loop {
  Scene() : Loop(umr_shape), a(pd[0], bytes), b(pd[1], bytes), null(ibv_alloc_null_mr(pd[0])) {
    CU_ASSERT_FATAL(ok);
    CU_ASSERT_FATAL(null != nullptr);
    fill(a.data(), bytes, 3);
    fill(b.data(), bytes, 5);
  }
  ~Scene() { ibv_dereg_mr(null); }
  [[nodiscard]] ibv_sge hole(uint32_t length) const { return {0, length, null->lkey}; }

  Region a, b;
  ibv_mr* null;
};

void it_is_read_as_zeros() {
  Scene s;
  EQUAL(s.null->length, SIZE_MAX);
  EQUAL(s.post(IBV_WR_RDMA_WRITE, {s.a.sge(0, 10), s.hole(100), s.a.sge(10, 20)}, s.b.at(),
               s.b.mr()->rkey),
        0);
  EQUAL(s.status(), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(s.b.data(), s.a.data(), 10), 0);
  CU_ASSERT(all_equal(s.b.data() + 10, 100, 0));
  EQUAL(std::memcmp(s.b.data() + 110, s.a.data() + 10, 20), 0);
  CU_ASSERT(s.b.data()[130] != 0);
  // Longer than whatever lies behind it, from any address.
  EQUAL(s.post(IBV_WR_RDMA_WRITE, {{~uint64_t{0} - 5, bytes, s.null->lkey}}, s.b.at(),
               s.b.mr()->rkey),
        0);
  EQUAL(s.status(), IBV_WC_SUCCESS);
  CU_ASSERT(all_equal(s.b.data(), bytes, 0));
}

void what_is_written_is_gone() {
  Scene s;
  EQUAL(s.post(IBV_WR_RDMA_READ, {s.a.sge(0, 8), s.hole(bytes - 16), s.a.sge(8, 8)}, s.b.at(),
               s.b.mr()->rkey),
        0);
  EQUAL(s.status(), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(s.a.data(), s.b.data(), 8), 0);
  EQUAL(std::memcmp(s.a.data() + 8, s.b.data() + bytes - 8, 8), 0);
  // It does not remember what was written.
  EQUAL(s.post(IBV_WR_RDMA_WRITE, {s.hole(bytes)}, s.b.at(), s.b.mr()->rkey), 0);
  EQUAL(s.status(), IBV_WC_SUCCESS);
  CU_ASSERT(all_equal(s.b.data(), bytes, 0));
  // A message goes into a receive whose middle nobody wants; the null region is any domain's.
  ibv_sge into[] = {s.b.sge(0, 4), s.hole(92), s.b.sge(4, 4)};
  ibv_recv_wr receive{}, *bad = nullptr;
  receive.sg_list = into;
  receive.num_sge = 3;
  EQUAL(ibv_post_recv(s.qp[1], &receive, &bad), 0);
  EQUAL(s.post(IBV_WR_SEND, {s.a.sge(0, 100)}), 0);
  EQUAL(s.status(), IBV_WC_SUCCESS);
  EQUAL(wait_status(s.cq[1]), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(s.b.data(), s.a.data(), 4), 0);
  EQUAL(std::memcmp(s.b.data() + 4, s.a.data() + 96, 4), 0);
  CU_ASSERT(all_equal(s.b.data() + 8, bytes - 8, 0));
  // And the answer of an atomic.
  uint64_t was = 0, now = 0;
  std::memcpy(&was, s.b.data(), 8);
  EQUAL(s.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, s.hole(8), s.b.at(), s.b.mr()->rkey, 5), 0);
  EQUAL(s.status(), IBV_WC_SUCCESS);
  std::memcpy(&now, s.b.data(), 8);
  EQUAL(now, was + 5);
}

void it_is_a_hole_in_a_list() {
  Scene s;
  mlx5dv_mkey_init_attr attr{};
  attr.pd = s.pd[0];
  attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  attr.max_entries = 8;
  mlx5dv_mkey* key = mlx5dv_create_mkey(&attr);
  CU_ASSERT_FATAL(key != nullptr);
  std::vector<ibv_sge> list{s.a.sge(0, 1000), s.hole(100000), s.a.sge(5000, 1000), s.hole(16)};
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(s.qp[0]);
  ibv_wr_start(ex);
  ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  mlx5dv_wr_mr_list(mlx5dv_qp_ex_from_ibv_qp_ex(ex), key, all_access, 4, list.data());
  EQUAL(ibv_wr_complete(ex), 0);
  EQUAL(s.status(), IBV_WC_SUCCESS);
  constexpr uint32_t whole = 1000 + 100000 + 1000 + 16;
  // Gathered through it.
  EQUAL(s.post(IBV_WR_RDMA_WRITE, {{0, whole, key->lkey}}, s.b.at(), s.b.mr()->rkey), 0);
  EQUAL(s.status(), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(s.b.data(), s.a.data(), 1000), 0);
  CU_ASSERT(all_equal(s.b.data() + 1000, 100000, 0));
  EQUAL(std::memcmp(s.b.data() + 101000, s.a.data() + 5000, 1000), 0);
  CU_ASSERT(all_equal(s.b.data() + 102000, 16, 0));
  // The other side writes, reads and adds there.
  const auto from_peer = [&](ibv_wr_opcode opcode, ibv_sge sge, uint64_t at, uint64_t add = 0) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.atomic = {at, add, 0, key->rkey};
    if (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ) wr.wr.rdma = {at, key->rkey};
    EQUAL(ibv_post_send(s.qp[1], &wr, &bad), 0);
    return wait_status(s.cq[1]);
  };
  fill(s.b.data(), whole, 77);
  const std::vector<uint8_t> before(s.a.data(), s.a.data() + bytes);
  EQUAL(from_peer(IBV_WR_RDMA_WRITE, s.b.sge(0, whole), 0), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(s.a.data(), s.b.data(), 1000), 0);
  EQUAL(std::memcmp(s.a.data() + 5000, s.b.data() + 101000, 1000), 0);
  EQUAL(std::memcmp(s.a.data() + 1000, before.data() + 1000, 4000), 0);
  EQUAL(std::memcmp(s.a.data() + 6000, before.data() + 6000, bytes - 6000), 0);
  EQUAL(from_peer(IBV_WR_RDMA_READ, s.b.sge(0, whole), 0), IBV_WC_SUCCESS);
  CU_ASSERT(all_equal(s.b.data() + 1000, 100000, 0));
  EQUAL(std::memcmp(s.b.data(), s.a.data(), 1000), 0);
  for (int i = 0; i < 2; i++) {
    fill(s.b.data(), 8, 9);
    EQUAL(from_peer(IBV_WR_ATOMIC_FETCH_AND_ADD, s.b.sge(0, 8), 2000, 3), IBV_WC_SUCCESS);
    CU_ASSERT(all_equal(s.b.data(), 8, 0));  // it found nothing there, the second time too
  }
  EQUAL(from_peer(IBV_WR_RDMA_READ, s.b.sge(0, 32), whole - 31), IBV_WC_REM_ACCESS_ERR);
  mlx5dv_destroy_mkey(key);
}

void the_other_side_cannot_name_it() {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    Scene s;
    EQUAL(s.post(opcode, {s.a.sge(0, 8)}, 0, s.null->lkey), 0);
    EQUAL(s.status(), IBV_WC_REM_ACCESS_ERR);
  }
  // Nor another tag of its index, nor its neighbours.
  for (const uint32_t other : {1u, 0x100u}) {
    Scene s;
    EQUAL(s.post(IBV_WR_RDMA_WRITE, {{0, 8, s.null->lkey + other}}, s.b.at(), s.b.mr()->rkey), 0);
    EQUAL(s.status(), IBV_WC_LOC_PROT_ERR);
  }
}

constexpr Case cases[] = {
    {"it is read as zeros", it_is_read_as_zeros},
    {"what is written is gone", what_is_written_is_gone},
    {"it is a hole in a list", it_is_a_hole_in_a_list},
    {"the other side cannot name it", the_other_side_cannot_name_it},
};

}  // namespace
}  // namespace null_key_ut

KILIM_TEST_SUITE(null_key, null_key_ut::cases)
