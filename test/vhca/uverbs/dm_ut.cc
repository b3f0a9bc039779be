// SPDX-License-Identifier: BSD-3-Clause
// Device memory by the kernel's ABI: each refusal by its number, what is mapped, what an adapter
// has left, and what a child after fork may do.
#include <cerrno>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "request_fixture.hh"
#include "ut.hh"
#include "vhca/hca/fatal.hh"

namespace dm_ut {
namespace {

using namespace kilim::test;
using kilim::vhca::uverbs::DeviceFile;

constexpr uint64_t all_bytes = 1u << 17;

struct Dm {
  uint32_t handle = 0;
  uint64_t offset = ~uint64_t{0};
  uint16_t page = 0xffff;
};

int alloc(DeviceFile& file, uint64_t length, Dm& dm, uint32_t alignment = 0) {
  Ioctl io(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
  io.handle(UVERBS_ATTR_ALLOC_DM_HANDLE)
      .in(UVERBS_ATTR_ALLOC_DM_LENGTH, length)
      .in(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, alignment)
      .out(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, dm.offset)
      .out(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, dm.page);
  int err = io.run(file);
  dm.handle = static_cast<uint32_t>(io.attr(0).data);
  return err;
}
int free_dm(DeviceFile& file, uint32_t handle) {
  return Ioctl(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE)
      .handle(UVERBS_ATTR_FREE_DM_HANDLE, handle)
      .run(file);
}
int query(DeviceFile& file, Dm& dm, uint64_t& length) {
  return Ioctl(UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_QUERY)
      .handle(MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE, dm.handle)
      .out(MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, dm.offset)
      .out(MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, dm.page)
      .out(MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, length)
      .run(file);
}
uint64_t offset_of(uint16_t page) {
  return (uint64_t{page & 0xffu} | uint64_t{MLX5_IB_MMAP_DEVICE_MEM} << 8 |
          uint64_t{page & 0xff00u} << 8)
         << 12;
}
// The client's mapping of a block; null: refused.
uint8_t* map(DeviceFile& file, const Dm& dm, uint64_t pages) {
  DeviceFile::Mapping m;
  if (file.mmap({offset_of(dm.page), pages * 4096, PROT_READ | PROT_WRITE, MAP_SHARED}, m) != 0)
    return nullptr;
  CU_ASSERT_FALSE(m.doorbells);
  void* at = ::mmap(nullptr, pages * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, m.map_fd,
                    static_cast<off_t>(m.map_offset));
  return at == MAP_FAILED ? nullptr : static_cast<uint8_t*>(at) + dm.offset;
}
uint32_t used(const Client& c) {
  return c.hca->dm.bytes_used();
}

struct MrAsk {
  uint64_t offset = 0, length = 64;
  uint32_t access = IB_UVERBS_ACCESS_ZERO_BASED | IB_UVERBS_ACCESS_LOCAL_WRITE;
};
struct MrGot {
  uint32_t handle = 0, lkey = 0, rkey = 0;
};
int reg_mr(Client& c, uint32_t pd, uint32_t dm, const MrAsk& ask, MrGot& got) {
  Ioctl io(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG);
  io.handle(UVERBS_ATTR_REG_DM_MR_HANDLE)
      .in(UVERBS_ATTR_REG_DM_MR_OFFSET, ask.offset)
      .in(UVERBS_ATTR_REG_DM_MR_LENGTH, ask.length)
      .handle(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, pd)
      .in(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, ask.access)
      .handle(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, dm)
      .out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, got.lkey)
      .out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, got.rkey);
  int err = io.run(*c.file);
  got.handle = static_cast<uint32_t>(io.attr(0).data);
  return err;
}

void lengths_and_alignments_are_judged() {
  Client c;
  Dm dm;
  EQUAL(alloc(*c.file, 0, dm), -EINVAL);
  EQUAL(alloc(*c.file, ~uint64_t{0}, dm), -EINVAL);  // wraps to 0 when rounded up
  EQUAL(alloc(*c.file, all_bytes + 1, dm), -ENOMEM);
  EQUAL(alloc(*c.file, uint64_t{1} << 44, dm), -ENOMEM);
  EQUAL(alloc(*c.file, 64, dm, 13), -EINVAL);
  EQUAL(alloc(*c.file, 64, dm, ~0u), -EINVAL);
  EQUAL(used(c), 0);
  for (uint32_t log = 0; log <= 12; log++) {
    EQUAL(alloc(*c.file, 65, dm, log), 0);
    EQUAL(dm.offset % (1u << std::max(log, 6u)), 0);
    CU_ASSERT(dm.offset + 65 <= 4096);
  }
  EQUAL(used(c), 13 * 128);
}

void a_kind_that_the_adapter_lacks_is_refused() {
  Client c;
  auto of_type = [&](uint64_t type) {
    Dm dm;
    return Ioctl(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC)
        .handle(UVERBS_ATTR_ALLOC_DM_HANDLE)
        .in(UVERBS_ATTR_ALLOC_DM_LENGTH, uint64_t{64})
        .in(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, uint32_t{0})
        .out(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, dm.offset)
        .out(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, dm.page)
        .in(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE, type)
        .run(*c.file);
  };
  EQUAL(of_type(0), 0);
  for (uint64_t type = 1; type <= 3; type++) {
    // Without CAP_SYS_RAWIO and CAP_NET_RAW the other number comes first.
    int err = of_type(type);
    CU_ASSERT(err == -EOPNOTSUPP || err == -EPERM);
  }
  EQUAL(of_type(77), -EOPNOTSUPP);
  EQUAL(of_type(uint64_t{1} << 40), -EINVAL);
  Client without("no-dm");
  Dm dm;
  MrGot got;
  uint32_t pd;
  EQUAL(alloc(*without.file, 64, dm), -EPROTONOSUPPORT);
  EQUAL_FATAL(without.alloc_pd(pd), 0);
  EQUAL(reg_mr(without, pd, pd, {}, got), -EPROTONOSUPPORT);
}

void an_answer_that_cannot_be_given_undoes_the_block() {
  Client c;
  Dm dm;
  Ioctl no_page(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
  no_page.handle(UVERBS_ATTR_ALLOC_DM_HANDLE)
      .in(UVERBS_ATTR_ALLOC_DM_LENGTH, uint64_t{64})
      .in(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, uint32_t{0})
      .out(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, dm.offset);
  EQUAL(no_page.run(*c.file), -ENOENT);
  no_page.raw(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, 2, 8);
  EQUAL(no_page.run(*c.file), -EFAULT);
  EQUAL(used(c), 0);
}

void the_adapter_s_memory_ends() {
  Client c;
  std::vector<Dm> blocks(4);
  for (Dm& dm : blocks) EQUAL(alloc(*c.file, all_bytes / 4, dm), 0);
  Dm more;
  EQUAL(alloc(*c.file, 4, more), -ENOMEM);
  // Another open of the adapter finds as little.
  auto other = std::make_unique<DeviceFile>(*c.hca);
  EQUAL(get_context(*other), 0);
  EQUAL(alloc(*other, 4, more), -ENOMEM);
  EQUAL(free_dm(*c.file, blocks[1].handle), 0);
  EQUAL(free_dm(*c.file, blocks[1].handle), -ENOENT);
  EQUAL(alloc(*other, all_bytes / 4, more), 0);
  EQUAL(alloc(*c.file, 4, more), -ENOMEM);
  other.reset();
  EQUAL(used(c), all_bytes / 4 * 3);
  c.file.reset();
  EQUAL(used(c), 0);
}

// As many as there are pages to map, whatever is left of the memory.
void the_window_ends() {
  Client c;
  Dm dm;
  std::vector<uint32_t> handles;
  while (handles.size() < 1000 && alloc(*c.file, 4, dm) == 0) handles.push_back(dm.handle);
  EQUAL(handles.size(), 256);
  EQUAL(alloc(*c.file, 4, dm), -ENOMEM);
  EQUAL(used(c), 256 * 64);
  // Two pages in a row are needed.
  EQUAL(free_dm(*c.file, handles[10]), 0);
  EQUAL(free_dm(*c.file, handles[12]), 0);
  EQUAL(alloc(*c.file, 4097, dm), -ENOMEM);
  EQUAL(free_dm(*c.file, handles[11]), 0);
  EQUAL(alloc(*c.file, 4097, dm), 0);
}

void blocks_are_mapped_by_their_page() {
  Client c;
  Dm dm, small;
  EQUAL_FATAL(alloc(*c.file, 5000, dm), 0);
  EQUAL_FATAL(alloc(*c.file, 4, small), 0);
  DeviceFile::Mapping m;
  auto ask = [&](uint64_t offset, std::size_t length, int flags) {
    return c.file->mmap({offset, length, PROT_READ | PROT_WRITE, flags}, m);
  };
  EQUAL(ask(offset_of(dm.page), 8192, MAP_SHARED), 0);
  EQUAL(ask(offset_of(dm.page), 4096, MAP_SHARED), -EINVAL);
  EQUAL(ask(offset_of(dm.page), 12288, MAP_SHARED), -EINVAL);
  EQUAL(ask(offset_of(dm.page), 8192, MAP_PRIVATE), -EINVAL);
  EQUAL(ask(offset_of(static_cast<uint16_t>(dm.page + 1)), 8192, MAP_SHARED), -EINVAL);
  EQUAL(ask(offset_of(dm.page) + 8, 8192, MAP_SHARED), -EINVAL);
  EQUAL(ask(offset_of(dm.page) | uint64_t{1} << 60, 8192, MAP_SHARED), -EINVAL);
  uint8_t* a = map(*c.file, dm, 2);
  uint8_t* b = map(*c.file, small, 1);
  CU_ASSERT_FATAL(a != nullptr);
  CU_ASSERT_FATAL(b != nullptr);
  std::memset(a, 0x11, 5000);
  std::memset(b, 0x22, 4);
  EQUAL(a[4999], 0x11);
  EQUAL(b[0], 0x22);
  // What is mapped stays, and nobody's new block comes there.
  EQUAL(free_dm(*c.file, small.handle), 0);
  EQUAL(ask(offset_of(small.page), 4096, MAP_SHARED), -EINVAL);
  EQUAL(alloc(*c.file, 4, small), 0);
  uint8_t* other = map(*c.file, small, 1);
  CU_ASSERT_FATAL(other != nullptr);
  other[0] = 0x33;
  EQUAL(b[0], 0x22);
  // Another open reaches neither.
  DeviceFile stranger(*c.hca);
  EQUAL(get_context(stranger), 0);
  CU_ASSERT_PTR_NULL(map(stranger, dm, 2));
  uint64_t length;
  EQUAL(query(stranger, dm, length), -ENOENT);
  ::munmap(a - dm.offset, 8192);
}

// A touch of what is not there would end the process by SIGBUS, the adapter's as well as the
// client's.
void nobody_cuts_a_block_off() {
  Client c;
  Dm dm;
  EQUAL_FATAL(alloc(*c.file, 5000, dm), 0);
  DeviceFile::Mapping m;
  EQUAL_FATAL(c.file->mmap({offset_of(dm.page), 8192, PROT_READ | PROT_WRITE, MAP_SHARED}, m), 0);
  CU_ASSERT_TRUE(::ftruncate(m.map_fd, 0) == -1 && errno == EPERM);
  struct stat st;
  EQUAL_FATAL(::fstat(m.map_fd, &st), 0);
  CU_ASSERT_TRUE(st.st_blocks * 512 >= 8192);
}

void regions_are_judged() {
  Client c;
  Dm dm;
  MrGot got;
  uint32_t pd;
  EQUAL_FATAL(c.alloc_pd(pd), 0);
  EQUAL_FATAL(alloc(*c.file, 100, dm), 0);
  constexpr uint32_t zero = IB_UVERBS_ACCESS_ZERO_BASED, local = IB_UVERBS_ACCESS_LOCAL_WRITE;
  auto ask = [&](const MrAsk& a) { return reg_mr(c, pd, dm.handle, a, got); };
  EQUAL(ask({.access = local}), -EINVAL);
  EQUAL(ask({.access = zero | IB_UVERBS_ACCESS_REMOTE_WRITE}), -EINVAL);
  EQUAL(ask({.access = zero | IB_UVERBS_ACCESS_REMOTE_ATOMIC}), -EINVAL);
  for (uint32_t bit :
       {uint32_t{IB_UVERBS_ACCESS_MW_BIND}, uint32_t{IB_UVERBS_ACCESS_ON_DEMAND},
        uint32_t{IB_UVERBS_ACCESS_HUGETLB}, uint32_t{IB_UVERBS_ACCESS_RELAXED_ORDERING}, 1u << 31})
    EQUAL(ask({.access = zero | local | bit}), -EINVAL);
  // What was asked for counts, not what it was rounded up to.
  EQUAL(ask({.length = 101}), -EINVAL);
  EQUAL(ask({.offset = 101, .length = 0}), -EINVAL);
  EQUAL(ask({.offset = 50, .length = 51}), -EINVAL);
  EQUAL(ask({.offset = 64, .length = ~uint64_t{0} - 20}), -EINVAL);
  EQUAL(reg_mr(c, dm.handle, dm.handle, {}, got), -EINVAL);
  EQUAL(reg_mr(c, pd, 99, {}, got), -ENOENT);
  EQUAL(ask({.offset = 100, .length = 0}), 0);
  EQUAL(c.destroy_mr(got.handle), 0);
  EQUAL(ask({.offset = 4, .length = 96}), 0);
  EQUAL(free_dm(*c.file, dm.handle), -EBUSY);
  EQUAL(c.destroy_pd(pd), -EBUSY);
  struct {
    uint64_t response = 0;
    uint32_t handle = 0, flags = 1;  // a new translation, which is good for other regions
    uint64_t start = 0, length = 0, hca_va = 0;
    uint32_t pd = 0, access = 1;
  } change;
  alignas(64) static uint8_t host[64];
  change.handle = got.handle;
  change.start = change.hca_va = reinterpret_cast<uintptr_t>(host);
  change.length = sizeof host;
  ib_uverbs_rereg_mr_resp resp{};
  EQUAL(write_command(IB_USER_VERBS_CMD_REREG_MR)
            .in(UVERBS_ATTR_CORE_IN, change)
            .out(UVERBS_ATTR_CORE_OUT, resp)
            .run(*c.file),
        -EINVAL);
  EQUAL(c.destroy_mr(got.handle), 0);
  EQUAL(free_dm(*c.file, dm.handle), 0);
}

void there_are_no_operation_addresses() {
  Client c;
  Dm dm;
  EQUAL_FATAL(alloc(*c.file, 64, dm), 0);
  for (uint8_t op : std::initializer_list<uint8_t>{0, 1, 31, 32, 255}) {
    EQUAL(Ioctl(UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_MAP_OP_ADDR)
              .handle(MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_HANDLE, dm.handle)
              .in(MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_OP, op)
              .out(MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET, dm.offset)
              .out(MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX, dm.page)
              .run(*c.file),
          -EOPNOTSUPP);
  }
}

void a_dead_adapter_takes_its_memory_back() {
  Client c;
  Dm dm, more;
  EQUAL_FATAL(alloc(*c.file, 64, dm), 0);
  {
    kilim::vhca::LockGuard guard(c.hca->lock);
    die(*c.hca);
  }
  EQUAL(alloc(*c.file, 64, more), -EIO);
  EQUAL(free_dm(*c.file, dm.handle), 0);
}

// What the child says by its exit status.
int in_child(Client& c, int (*f)(Client&, Dm), Dm dm) {
  const pid_t child = fork();
  if (child == 0) {
    c.file->disown_after_fork();
    _exit(f(c, dm));
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int import_and_write(Client& c, Dm dm) {
  Dm found{.handle = dm.handle};
  uint64_t length = 0;
  if (query(*c.file, found, length) != 0 || length != 4000) return 1;
  uint8_t* at = map(*c.file, found, 1);
  if (at == nullptr || at[0] != 0x5a) return 2;
  at[3999] = 0xa5;
  if (free_dm(*c.file, found.handle) != -EIO) return 3;
  Dm own;
  if (alloc(*c.file, all_bytes, own) != -ENOMEM) return 4;
  if (alloc(*c.file, 64, own) != 0 || map(*c.file, own, 1) == nullptr) return 5;
  if (free_dm(*c.file, own.handle) != 0) return 6;
  // Two that are left when the child goes, without a word.
  if (alloc(*c.file, 128, own) != 0 || alloc(*c.file, 128, own) != 0) return 7;
  MrGot got;
  return reg_mr(c, 0, own.handle, {}, got) == -EIO ? 0 : 8;
}

void a_child_shares_what_there_is() {
  Client c;
  Dm dm;
  EQUAL_FATAL(alloc(*c.file, 4000, dm), 0);
  uint8_t* at = map(*c.file, dm, 1);
  CU_ASSERT_FATAL(at != nullptr);
  at[0] = 0x5a;
  EQUAL(in_child(c, import_and_write, dm), 0);
  EQUAL(at[3999], 0xa5);
  // The open is the child's too: what it took is given back with the open.
  EQUAL(used(c), 4032 + 2 * 128);
  c.file.reset();
  EQUAL(used(c), 0);
}

constexpr Case cases[] = {
    {"lengths and alignments are judged as mlx5_ib does", lengths_and_alignments_are_judged},
    {"a kind of memory that the adapter lacks is refused",
     a_kind_that_the_adapter_lacks_is_refused},
    {"an answer that cannot be given undoes the block",
     an_answer_that_cannot_be_given_undoes_the_block},
    {"the adapter's memory ends, and comes back", the_adapter_s_memory_ends},
    {"the window ends", the_window_ends},
    {"blocks are mapped by their page and share none", blocks_are_mapped_by_their_page},
    {"nobody cuts a block off, and all of it is there", nobody_cuts_a_block_off},
    {"regions are judged as ib_core and mlx5_ib do", regions_are_judged},
    {"there are no operation addresses", there_are_no_operation_addresses},
    {"a dead adapter takes its memory back", a_dead_adapter_takes_its_memory_back},
    {"a child after fork imports, allocates, and its share is not lost",
     a_child_shares_what_there_is},
};

}  // namespace
}  // namespace dm_ut

KILIM_TEST_SUITE(dm, dm_ut::cases)
