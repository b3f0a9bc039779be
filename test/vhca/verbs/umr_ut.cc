// SPDX-License-Identifier: BSD-3-Clause
// Indirect keys through libmlx5: list layout by the older and the newer interface, interleaved
// layout, keys of keys, invalidation. Data is compared, and the journal shows the pieces walked.
#include "case_tables.hh"
#include "fabric_fixture.hh"
#include "umr_cases.hh"

namespace umr_ut {
namespace {

using namespace kilim::test;

constexpr Shape umr_shape{
    rc_ops,
    MLX5DV_QP_EX_WITH_MKEY_CONFIGURE | MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MR_INTERLEAVED,
    512};

mlx5dv_mkey* create_mkey(ibv_pd* pd, uint16_t entries) {
  mlx5dv_mkey_init_attr attr{};
  attr.pd = pd;
  attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  attr.max_entries = entries;
  return mlx5dv_create_mkey(&attr);
}

// Two looped queues that may post UMRs, a key of side 0 and memory of both sides.
struct Weaver : Loop {
  Weaver()
      : Loop(umr_shape),
        mkey(create_mkey(pd[0], 16)),
        a(pd[0], 65536),
        b(pd[1], 65536),
        ex(ibv_qp_to_qp_ex(qp[0])),
        dv(mlx5dv_qp_ex_from_ibv_qp_ex(ex)) {}
  ~Weaver() {
    if (mkey != nullptr) mlx5dv_destroy_mkey(mkey);
  }
  void begin() {
    ibv_wr_start(ex);
    ex->wr_id = 1;
    ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  }
  ibv_wc_status finish() {
    int err = ibv_wr_complete(ex);
    return err == 0 ? status() : IBV_WC_GENERAL_ERR;
  }
  ibv_wc_status list(mlx5dv_mkey* key, const std::vector<ibv_sge>& sges) {
    begin();
    mlx5dv_wr_mr_list(dv, key, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
                      static_cast<uint16_t>(sges.size()), const_cast<ibv_sge*>(sges.data()));
    return finish();
  }
  ibv_wc_status invalidate(mlx5dv_mkey* key) {
    ibv_wr_start(ex);
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_local_inv(ex, key->rkey);
    return finish();
  }
  // WRITE of `bytes` through the key to the start of b.
  ibv_wc_status write_through(uint32_t lkey, uint32_t bytes, uint64_t offset = 0) {
    EQUAL(post(IBV_WR_RDMA_WRITE, {ibv_sge{offset, bytes, lkey}}, b.at(), b.mr()->rkey), 0);
    return status();
  }
  ibv_wc_status read_through(uint32_t lkey, uint32_t bytes) {
    EQUAL(post(IBV_WR_RDMA_READ, {ibv_sge{0, bytes, lkey}}, b.at(), b.mr()->rkey), 0);
    return status();
  }

  mlx5dv_mkey* mkey;
  Region a, b;
  ibv_qp_ex* ex;
  mlx5dv_qp_ex* dv;
};

std::vector<uint8_t> gathered(const std::vector<ibv_sge>& sges) {
  std::vector<uint8_t> all;
  for (const ibv_sge& s : sges) {
    const auto* p = reinterpret_cast<const uint8_t*>(s.addr);
    all.insert(all.end(), p, p + s.length);
  }
  return all;
}

void a_list_gathers_and_scatters() {
  Weaver w;
  CU_ASSERT_FATAL(w.ok);
  CU_ASSERT_FATAL(w.mkey != nullptr);
  CU_ASSERT_FATAL(w.dv != nullptr);
  fill(w.a.data(), 65536, 5);
  std::vector<ibv_sge> sges{w.a.sge(1, 100), w.a.sge(5000, 1), w.a.sge(333, 2000),
                            w.a.sge(60000, 77), w.a.sge(4096, 4096)};
  uint64_t umrs = journal_count(Journal::Kind::umr);
  uint64_t pieces = shared().hca()->context.journal->pieces();
  EQUAL(w.list(w.mkey, sges), IBV_WC_SUCCESS);
  EQUAL(journal_count(Journal::Kind::umr), umrs + 1);
  std::vector<uint8_t> expected = gathered(sges);
  auto bytes = static_cast<uint32_t>(expected.size());
  EQUAL(w.write_through(w.mkey->lkey, bytes), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(w.b.data(), expected.data(), bytes), 0);
  CU_ASSERT(shared().hca()->context.journal->pieces() >= pieces + sges.size());
  // And back: what b holds is scattered over the pieces, nothing beside them changes.
  std::vector<uint8_t> before(w.a.data(), w.a.data() + 65536);
  fill(w.b.data(), bytes, 91);
  EQUAL(w.read_through(w.mkey->lkey, bytes), IBV_WC_SUCCESS);
  std::size_t at = 0;
  for (const ibv_sge& s : sges) {
    std::memcpy(before.data() + (s.addr - w.a.at()), w.b.data() + at, s.length);
    at += s.length;
  }
  EQUAL(std::memcmp(before.data(), w.a.data(), 65536), 0);
}

void the_newer_interface_configures_a_list() {
  Weaver w;
  CU_ASSERT_FATAL(w.ok);
  CU_ASSERT_FATAL(w.mkey != nullptr);
  fill(w.a.data(), 65536, 17);
  std::vector<ibv_sge> sges{w.a.sge(9, 300), w.a.sge(10000, 5000)};
  w.begin();
  mlx5dv_mkey_conf_attr conf{};
  mlx5dv_wr_mkey_configure(w.dv, w.mkey, 2, &conf);
  mlx5dv_wr_set_mkey_access_flags(w.dv, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  mlx5dv_wr_set_mkey_layout_list(w.dv, 2, sges.data());
  EQUAL(w.finish(), IBV_WC_SUCCESS);
  EQUAL(w.write_through(w.mkey->lkey, 5300), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(w.b.data(), gathered(sges).data(), 5300), 0);
  // From the middle.
  EQUAL(w.write_through(w.mkey->lkey, 1000, 250), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(w.b.data(), gathered(sges).data() + 250, 1000), 0);
}

void interleaved_layouts_by_both_interfaces() {
  Weaver w;
  CU_ASSERT_FATAL(w.ok);
  CU_ASSERT_FATAL(w.mkey != nullptr);
  fill(w.a.data(), 65536, 29);
  // Two streams: 100 bytes of every 160, then 8 of every 24, 50 times.
  mlx5dv_mr_interleaved streams[2]{{w.a.at(11), 100, 60, w.a.mr()->lkey},
                                   {w.a.at(20000), 8, 16, w.a.mr()->lkey}};
  std::vector<uint8_t> expected;
  for (unsigned i = 0; i < 50; i++) {
    const uint8_t* p = w.a.data() + 11 + i * 160;
    expected.insert(expected.end(), p, p + 100);
    p = w.a.data() + 20000 + i * 24;
    expected.insert(expected.end(), p, p + 8);
  }
  auto bytes = static_cast<uint32_t>(expected.size());
  w.begin();
  mlx5dv_wr_mr_interleaved(w.dv, w.mkey, IBV_ACCESS_LOCAL_WRITE, 50, 2, streams);
  EQUAL(w.finish(), IBV_WC_SUCCESS);
  EQUAL(w.write_through(w.mkey->lkey, bytes), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(w.b.data(), expected.data(), bytes), 0);
  std::memset(w.b.data(), 0, bytes);
  w.begin();
  mlx5dv_mkey_conf_attr conf{};
  mlx5dv_wr_mkey_configure(w.dv, w.mkey, 2, &conf);
  mlx5dv_wr_set_mkey_access_flags(w.dv, IBV_ACCESS_LOCAL_WRITE);
  mlx5dv_wr_set_mkey_layout_interleaved(w.dv, 50, 2, streams);
  EQUAL(w.finish(), IBV_WC_SUCCESS);
  EQUAL(w.write_through(w.mkey->lkey, bytes), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(w.b.data(), expected.data(), bytes), 0);
}

void a_key_of_a_key_is_walked_through() {
  Weaver w;
  mlx5dv_mkey* outer = create_mkey(w.pd[0], 4);
  CU_ASSERT_FATAL(w.ok);
  CU_ASSERT_FATAL(w.mkey != nullptr);
  CU_ASSERT_FATAL(outer != nullptr);
  fill(w.a.data(), 65536, 41);
  std::vector<ibv_sge> inner{w.a.sge(100, 50), w.a.sge(900, 70)};
  EQUAL(w.list(w.mkey, inner), IBV_WC_SUCCESS);
  std::vector<ibv_sge> of_key{{30, 60, w.mkey->lkey}, w.a.sge(5000, 10)};
  EQUAL(w.list(outer, of_key), IBV_WC_SUCCESS);
  std::vector<uint8_t> all = gathered(inner);
  std::vector<uint8_t> expected(all.begin() + 30, all.begin() + 90);
  expected.insert(expected.end(), w.a.data() + 5000, w.a.data() + 5010);
  EQUAL(w.write_through(outer->lkey, 70), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(w.b.data(), expected.data(), 70), 0);
  mlx5dv_destroy_mkey(outer);
}

void a_key_serves_the_other_side_too() {
  Weaver w;
  CU_ASSERT_FATAL(w.ok);
  CU_ASSERT_FATAL(w.mkey != nullptr);
  // A queue back: side 1 writes through the key of side 0.
  std::vector<ibv_sge> sges{w.a.sge(64, 10), w.a.sge(1000, 500)};
  w.begin();
  mlx5dv_wr_mr_list(w.dv, w.mkey, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 2, sges.data());
  EQUAL(w.finish(), IBV_WC_SUCCESS);
  fill(w.b.data(), 510, 13);
  ibv_sge from = w.b.sge(0, 510);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &from;
  wr.num_sge = 1;
  wr.wr.rdma = {0, w.mkey->rkey};
  EQUAL(ibv_post_send(w.qp[1], &wr, &bad), 0);
  EQUAL(wait_status(w.cq[1]), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(w.a.data() + 64, w.b.data(), 10), 0);
  EQUAL(std::memcmp(w.a.data() + 1000, w.b.data() + 10, 500), 0);
}

void an_invalidated_key_is_dead_until_configured_again() {
  Weaver w;
  CU_ASSERT_FATAL(w.ok);
  CU_ASSERT_FATAL(w.mkey != nullptr);
  EQUAL(w.list(w.mkey, {w.a.sge(0, 64)}), IBV_WC_SUCCESS);
  EQUAL(w.write_through(w.mkey->lkey, 64), IBV_WC_SUCCESS);
  uint64_t count = journal_count(Journal::Kind::invalidate);
  EQUAL(w.invalidate(w.mkey), IBV_WC_SUCCESS);
  EQUAL(journal_count(Journal::Kind::invalidate), count + 1);
  EQUAL(w.list(w.mkey, {w.a.sge(128, 64)}), IBV_WC_SUCCESS);
  fill(w.a.data(), 256, 3);
  EQUAL(w.write_through(w.mkey->lkey, 64), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(w.b.data(), w.a.data() + 128, 64), 0);
  EQUAL(w.invalidate(w.mkey), IBV_WC_SUCCESS);
  std::memset(w.b.data(), 0, 64);
  EQUAL(w.write_through(w.mkey->lkey, 64), IBV_WC_LOC_PROT_ERR);
  CU_ASSERT(all_equal(w.b.data(), 64, 0));
  EQUAL(state_of(w.qp[0]), IBV_QPS_ERR);
}

void a_longest_inline_list_is_fifty_two_pieces() {
  Shape big = umr_shape;
  big.inline_bytes = 828;
  Loop l(big);
  CU_ASSERT_FATAL(l.ok);
  mlx5dv_mkey* key = create_mkey(l.pd[0], 52);
  Region a(l.pd[0], 65536), b(l.pd[1], 65536);
  fill(a.data(), 65536, 1);
  std::vector<ibv_sge> sges;
  for (unsigned i = 0; i < 52; i++) sges.push_back(a.sge(i * 1201, 3 + i));
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(l.qp[0]);
  ibv_wr_start(ex);
  ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  mlx5dv_wr_mr_list(mlx5dv_qp_ex_from_ibv_qp_ex(ex), key, IBV_ACCESS_LOCAL_WRITE, 52, sges.data());
  EQUAL(ibv_wr_complete(ex), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  std::vector<uint8_t> expected = gathered(sges);
  auto bytes = static_cast<uint32_t>(expected.size());
  EQUAL(l.post(IBV_WR_RDMA_WRITE, {ibv_sge{0, bytes, key->lkey}}, b.at(), b.mr()->rkey), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(b.data(), expected.data(), bytes), 0);
  // One more cannot be encoded.
  sges.push_back(a.sge(0, 1));
  ibv_wr_start(ex);
  ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  mlx5dv_wr_mr_list(mlx5dv_qp_ex_from_ibv_qp_ex(ex), key, IBV_ACCESS_LOCAL_WRITE, 53, sges.data());
  CU_ASSERT_NOT_EQUAL(ibv_wr_complete(ex), 0);
  mlx5dv_destroy_mkey(key);
}

constexpr Case cases[] = {
    {"a list gathers and scatters", a_list_gathers_and_scatters},
    {"the newer interface configures a list", the_newer_interface_configures_a_list},
    {"interleaved layouts by both interfaces", interleaved_layouts_by_both_interfaces},
    {"a key of a key is walked through", a_key_of_a_key_is_walked_through},
    {"a key serves the other side too", a_key_serves_the_other_side_too},
    {"an invalidated key is dead until configured again",
     an_invalidated_key_is_dead_until_configured_again},
    {"a longest inline list is fifty-two pieces", a_longest_inline_list_is_fifty_two_pieces},
};

}  // namespace
}  // namespace umr_ut

KILIM_TEST_MAIN(umr) {
  return kilim::test::run_tables("verbs: UMR", {umr_ut::cases, kilim::test::hand_written_cases()},
                                 argc, argv);
}
