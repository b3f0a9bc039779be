// SPDX-License-Identifier: BSD-3-Clause
// Device memory through libibverbs and libmlx5: copies, every operation from, to and on it, as a
// piece of an indirect key, imports, and what libmlx5 says of the adapter's limits.
#include <cerrno>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric_fixture.hh"

namespace dm_ut {
namespace {

using namespace kilim::test;

constexpr unsigned dm_access = all_access | IBV_ACCESS_ZERO_BASED;

// A block, and a region on it or on a part.
class Dm {
 public:
  explicit Dm(std::size_t bytes, uint32_t log_align = 0) {
    ibv_alloc_dm_attr attr{bytes, log_align, 0};
    dm_ = ibv_alloc_dm(context(), &attr);
  }
  ~Dm() {
    if (mr_ != nullptr) ibv_dereg_mr(mr_);
    if (dm_ != nullptr) ibv_free_dm(dm_);
  }
  Dm(const Dm&) = delete;
  Dm& operator=(const Dm&) = delete;
  bool reg(ibv_pd* pd, std::size_t offset, std::size_t bytes, unsigned access = dm_access) {
    mr_ = ibv_reg_dm_mr(pd, dm_, offset, bytes, access);
    return mr_ != nullptr;
  }
  [[nodiscard]] ibv_dm* dm() const { return dm_; }
  [[nodiscard]] uint32_t rkey() const { return mr_->rkey; }
  [[nodiscard]] ibv_sge sge(uint64_t offset, uint32_t bytes) const {
    return {offset, bytes, mr_->lkey};
  }
  int put(uint64_t at, const void* from, std::size_t n) {
    return ibv_memcpy_to_dm(dm_, at, from, n);
  }
  std::vector<uint8_t> get(uint64_t at, std::size_t n) {
    std::vector<uint8_t> bytes(n);
    EQUAL(ibv_memcpy_from_dm(bytes.data(), dm_, at, n), 0);
    return bytes;
  }

 private:
  ibv_dm* dm_ = nullptr;
  ibv_mr* mr_ = nullptr;
};

std::vector<uint8_t> pattern(std::size_t n, uint8_t seed) {
  std::vector<uint8_t> bytes(n);
  fill(bytes.data(), n, seed);
  return bytes;
}

void the_adapter_tells_its_memory() {
  ibv_device_attr_ex attr{};
  EQUAL_FATAL(ibv_query_device_ex(context(), nullptr, &attr), 0);
  EQUAL(attr.max_dm_size, 1u << 17);
  uint8_t in[16]{1, 0, 0, 0, 0, 0, 0, 0xf << 1 | 1}, out[16 + 4096]{};
  EQUAL_FATAL(mlx5dv_devx_general_cmd(context(), in, sizeof in, out, sizeof out), 0);
  EQUAL(out[16], 0x80);      // there is such memory
  EQUAL(out[16 + 0x17], 0);  // its size, from byte 0x14: 0x00020000
  EQUAL(out[16 + 0x15], 2);
  EQUAL(out[16 + 7], 6);                        // 64 << 6
  CU_ASSERT(all_equal(out + 16 + 0x40, 4, 0));  // and no operation on it
  attach_device("bare", "no-dm");
  ibv_context* bare = open_device("bare");
  CU_ASSERT_PTR_NOT_NULL_FATAL(bare);
  EQUAL(ibv_query_device_ex(bare, nullptr, &attr), 0);
  EQUAL(attr.max_dm_size, 0);
  ibv_alloc_dm_attr ask{64, 0, 0};
  CU_ASSERT_PTR_NULL(ibv_alloc_dm(bare, &ask));
  EQUAL(ibv_close_device(bare), 0);
}

void bytes_go_in_and_come_out() {
  Dm dm(1000);
  CU_ASSERT_PTR_NOT_NULL_FATAL(dm.dm());
  std::vector<uint8_t> bytes = pattern(1000, 9);
  EQUAL(dm.put(0, bytes.data(), 1000), 0);
  EQUAL(dm.get(0, 1000), bytes);
  EQUAL(dm.put(2, bytes.data(), 4), EINVAL);
  EQUAL(dm.put(0, bytes.data(), 3), EINVAL);
  EQUAL(dm.put(1000, bytes.data(), 4), EFAULT);
  EQUAL(ibv_memcpy_from_dm(bytes.data(), dm.dm(), 0, 1004), EFAULT);
}

void every_operation_reaches_it() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Dm near(4096), far(4096);
  Region host(l.pd[0], 4096), peer(l.pd[1], 4096);
  CU_ASSERT_FATAL(near.reg(l.pd[0], 0, 4096));
  CU_ASSERT_FATAL(far.reg(l.pd[1], 0, 4096));
  std::vector<uint8_t> a = pattern(3001, 1), b = pattern(3001, 2);
  std::memcpy(host.data(), a.data(), a.size());
  // Host to the peer's device memory, and back into the own.
  EQUAL(l.post(IBV_WR_RDMA_WRITE, {host.sge(0, 3001)}, 17, far.rkey()), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(far.get(16, 3004).data() + 1, a.data(), 3001), 0);
  EQUAL(l.post(IBV_WR_RDMA_READ, {near.sge(33, 3001)}, 17, far.rkey()), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(near.get(32, 3004).data() + 1, a.data(), 3001), 0);
  // A message from device memory and host memory into device memory.
  std::memcpy(host.data(), b.data(), b.size());
  EQUAL(l.post_recv(1, {far.sge(100, 3500)}), 0);
  EQUAL(l.post(IBV_WR_SEND, {near.sge(33, 500), host.sge(500, 2501)}), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  EQUAL(wait_status(l.cq[1]), IBV_WC_SUCCESS);
  std::vector<uint8_t> got = far.get(100, 3004);
  EQUAL(std::memcmp(got.data(), a.data(), 500), 0);
  EQUAL(std::memcmp(got.data() + 500, b.data() + 500, 2501), 0);
  // Inline data, and from device memory to the peer's host memory.
  EQUAL(l.post(IBV_WR_RDMA_WRITE, {host.sge(0, 24)}, 8, far.rkey(), IBV_SEND_INLINE), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(far.get(8, 24).data(), b.data(), 24), 0);
  EQUAL(l.post(IBV_WR_RDMA_WRITE, {near.sge(33, 3001)}, peer.at(), peer.mr()->rkey), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(peer.data(), a.data(), 3001), 0);
}

void words_there_are_added_and_swapped() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Dm near(64), far(64);
  CU_ASSERT_FATAL(near.reg(l.pd[0], 0, 64));
  CU_ASSERT_FATAL(far.reg(l.pd[1], 8, 56));
  uint64_t word = 40;
  EQUAL(far.put(16, &word, 8), 0);
  EQUAL(l.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, near.sge(24, 8), 8, far.rkey(), 2), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  EQUAL(l.post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, near.sge(32, 8), 8, far.rkey(), 42, 7), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  uint64_t old[2], now;
  std::memcpy(old, near.get(24, 16).data(), 16);
  std::memcpy(&now, far.get(16, 8).data(), 8);
  EQUAL(old[0], 40);
  EQUAL(old[1], 42);
  EQUAL(now, 7);
}

void a_region_ends_where_it_ends() {
  Dm far(256);
  auto attempt = [&](uint64_t at, uint32_t n, unsigned access) {
    Loop l;
    Region host(l.pd[0], 256);
    ibv_mr* mr = ibv_reg_dm_mr(l.pd[1], far.dm(), 64, 100, access);
    CU_ASSERT_FATAL(l.ok);
    CU_ASSERT_FATAL(mr != nullptr);
    EQUAL(l.post(IBV_WR_RDMA_WRITE, {host.sge(0, n)}, at, mr->rkey), 0);
    ibv_wc_status status = l.status();
    ibv_dereg_mr(mr);
    return status;
  };
  constexpr unsigned local = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE;
  EQUAL(attempt(0, 100, dm_access), IBV_WC_SUCCESS);
  EQUAL(attempt(0, 101, dm_access), IBV_WC_REM_ACCESS_ERR);
  EQUAL(attempt(100, 1, dm_access), IBV_WC_REM_ACCESS_ERR);
  EQUAL(attempt(~uint64_t{0}, 1, dm_access), IBV_WC_REM_ACCESS_ERR);
  EQUAL(attempt(0, 1, local), IBV_WC_REM_ACCESS_ERR);
  EQUAL(attempt(0, 1, local | IBV_ACCESS_REMOTE_READ), IBV_WC_REM_ACCESS_ERR);
}

// Host and device memory are woven into one key; the peer writes over all of it.
void it_is_a_piece_of_an_indirect_key() {
  Loop l({rc_ops, MLX5DV_QP_EX_WITH_MKEY_CONFIGURE | MLX5DV_QP_EX_WITH_MR_LIST, 512});
  CU_ASSERT_FATAL(l.ok);
  Dm dm(4096);
  Region host(l.pd[0], 4096), peer(l.pd[1], 8192);
  CU_ASSERT_FATAL(dm.reg(l.pd[0], 0, 4096));
  mlx5dv_mkey_init_attr attr{};
  attr.pd = l.pd[0];
  attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  attr.max_entries = 4;
  mlx5dv_mkey* key = mlx5dv_create_mkey(&attr);
  CU_ASSERT_PTR_NOT_NULL_FATAL(key);
  ibv_sge list[]{dm.sge(1000, 100), host.sge(5, 50), dm.sge(4, 200)};
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(l.qp[0]);
  ibv_wr_start(ex);
  ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  mlx5dv_wr_mr_list(mlx5dv_qp_ex_from_ibv_qp_ex(ex), key, IBV_ACCESS_LOCAL_WRITE, 3, list);
  EQUAL(ibv_wr_complete(ex), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  std::vector<uint8_t> bytes = pattern(350, 7);
  std::memcpy(peer.data(), bytes.data(), 350);
  ibv_sge woven{0, 350, key->lkey};
  EQUAL(l.post(IBV_WR_RDMA_READ, {woven}, peer.at(), peer.mr()->rkey), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(dm.get(1000, 100).data(), bytes.data(), 100), 0);
  EQUAL(std::memcmp(host.data() + 5, bytes.data() + 100, 50), 0);
  EQUAL(std::memcmp(dm.get(4, 200).data(), bytes.data() + 150, 200), 0);
  EQUAL(l.post(IBV_WR_RDMA_WRITE, {woven}, peer.at(4096), peer.mr()->rkey), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(peer.data() + 4096, bytes.data(), 350), 0);
  // One byte more than the piece's region has.
  list[2] = dm.sge(4000, 97);
  ibv_wr_start(ex);
  ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  mlx5dv_wr_mr_list(mlx5dv_qp_ex_from_ibv_qp_ex(ex), key, IBV_ACCESS_LOCAL_WRITE, 3, list);
  EQUAL(ibv_wr_complete(ex), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  EQUAL(l.post(IBV_WR_RDMA_WRITE, {{0, 247, key->lkey}}, peer.at(), peer.mr()->rkey), 0);
  EQUAL(l.status(), IBV_WC_LOC_PROT_ERR);
  mlx5dv_destroy_mkey(key);
}

void an_import_is_the_same_memory() {
  Dm dm(4000);
  CU_ASSERT_PTR_NOT_NULL_FATAL(dm.dm());
  ibv_context* again = ibv_import_device(fcntl(context()->cmd_fd, F_DUPFD_CLOEXEC, 0));
  CU_ASSERT_PTR_NOT_NULL_FATAL(again);
  ibv_dm* imported = ibv_import_dm(again, dm.dm()->handle);
  CU_ASSERT_PTR_NOT_NULL_FATAL(imported);
  std::vector<uint8_t> bytes = pattern(4000, 3);
  EQUAL(ibv_memcpy_to_dm(imported, 0, bytes.data(), 4000), 0);
  EQUAL(dm.get(0, 4000), bytes);
  ibv_unimport_dm(imported);
  errno = 0;
  CU_ASSERT_PTR_NULL(ibv_import_dm(again, 0xfff0));
  EQUAL(errno, ENOENT);
  EQUAL(ibv_close_device(again), 0);
}

// A child after fork: the parent's block by import, its own by allocation; a READ of the parent's
// adapter finds what the child has written.
void a_child_writes_what_the_adapter_sends() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Dm dm(4096);
  Region host(l.pd[0], 4096);
  CU_ASSERT_FATAL(dm.reg(l.pd[1], 0, 4096));
  const pid_t child = fork();
  if (child == 0) {
    std::vector<uint8_t> bytes = pattern(4096, 77);
    ibv_dm* imported = ibv_import_dm(context(), dm.dm()->handle);
    if (imported == nullptr || ibv_memcpy_to_dm(imported, 0, bytes.data(), 4096) != 0) _exit(1);
    ibv_alloc_dm_attr ask{512, 0, 0};
    ibv_dm* own = ibv_alloc_dm(context(), &ask);
    if (own == nullptr || ibv_memcpy_to_dm(own, 0, bytes.data(), 512) != 0) _exit(2);
    _exit(ibv_free_dm(own) == 0 ? 0 : 3);
  }
  int status = -1;
  EQUAL(waitpid(child, &status, 0), child);
  CU_ASSERT(WIFEXITED(status));
  EQUAL(WEXITSTATUS(status), 0);
  EQUAL(l.post(IBV_WR_RDMA_READ, {host.sge(0, 4096)}, 0, dm.rkey()), 0);
  EQUAL(l.status(), IBV_WC_SUCCESS);
  EQUAL(std::memcmp(host.data(), pattern(4096, 77).data(), 4096), 0);
}

void what_a_card_lacks_is_refused() {
  Loop l;  // its domains go after the regions
  ibv_alloc_dm_attr ask{4096, 0, 0};
  mlx5dv_alloc_dm_attr of{};
  of.type = MLX5DV_DM_TYPE_STEERING_SW_ICM;
  CU_ASSERT_PTR_NULL(mlx5dv_alloc_dm(context(), &ask, &of));
  CU_ASSERT(errno == EOPNOTSUPP || errno == EPERM);
  Dm dm(64);
  CU_ASSERT_PTR_NULL(mlx5dv_dm_map_op_addr(dm.dm(), 0));
  EQUAL(errno, EOPNOTSUPP);
  CU_ASSERT_PTR_NULL(ibv_reg_dm_mr(l.pd[0], dm.dm(), 0, 64, all_access));
  EQUAL(errno, EINVAL);
  CU_ASSERT_PTR_NULL(ibv_reg_dm_mr(l.pd[0], dm.dm(), 0, 68, dm_access));
  EQUAL(errno, EINVAL);
  CU_ASSERT_FATAL(dm.reg(l.pd[0], 0, 64));
  EQUAL(ibv_free_dm(dm.dm()), EBUSY);
  Dm most(1u << 17);
  CU_ASSERT_PTR_NULL(most.dm());
  EQUAL(errno, ENOMEM);
}

constexpr Case cases[] = {
    {"the adapter tells how much memory it has", the_adapter_tells_its_memory},
    {"bytes go in and come out in words of four", bytes_go_in_and_come_out},
    {"every operation reaches device memory", every_operation_reaches_it},
    {"words in device memory are added to and swapped", words_there_are_added_and_swapped},
    {"a region on device memory ends where it ends", a_region_ends_where_it_ends},
    {"device memory is a piece of an indirect key", it_is_a_piece_of_an_indirect_key},
    {"an import is the same memory", an_import_is_the_same_memory},
    {"a child writes what the adapter sends", a_child_writes_what_the_adapter_sends},
    {"what a card lacks is refused", what_a_card_lacks_is_refused},
};

}  // namespace
}  // namespace dm_ut

KILIM_TEST_SUITE(dm, dm_ut::cases)
