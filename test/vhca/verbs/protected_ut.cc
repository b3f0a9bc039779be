// SPDX-License-Identifier: BSD-3-Clause
// Memory that the client protects behind its registration, as dirty tracking and guard pages do: a
// card has pinned the pages and goes on (Linux drivers/infiniband/core/umem.c, ib_umem_get()), the
// client's own protection stays what it was. Private and shared memory; the linter is silent.
#include <fstream>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "fabric_fixture.hh"
#include "vhca/tpt/memory_map.hh"

namespace protected_ut {
namespace {

using namespace kilim::test;

constexpr std::size_t page = 4096;

// Two pages, of which the second can be protected; read and written by the test in between.
class Guarded {
 public:
  explicit Guarded(bool shared) {
    if (shared) {
      fd_ = memfd_create("guarded", MFD_CLOEXEC);
      EQUAL_FATAL(ftruncate(fd_, 2 * page), 0);
    }
    void* p = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE,
                   shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd_, 0);
    CU_ASSERT_FATAL(p != MAP_FAILED);
    at_ = static_cast<uint8_t*>(p);
    fill(at_, 2 * page, 3);
  }
  ~Guarded() {
    munmap(at_, 2 * page);
    if (fd_ >= 0) close(fd_);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  void protect(int protection) { EQUAL_FATAL(mprotect(at_ + page, page, protection), 0); }
  // The protection is still what protect() has made it.
  bool is(bool readable, bool writable) {
    kilim::vhca::tpt::PageRange where;
    kilim::vhca::tpt::MappingKind kind;
    return kilim::vhca::tpt::find_mapping(at(), where, kind) && kind.may_read == readable &&
           kind.may_write == writable;
  }
  void open() { protect(PROT_READ | PROT_WRITE); }
  uint8_t* second() { return at_ + page; }
  uint64_t at() { return reinterpret_cast<uintptr_t>(at_ + page); }
  uint8_t* all() { return at_; }

 private:
  int fd_ = -1;
  uint8_t* at_ = nullptr;
};

constexpr int protections[] = {PROT_READ, PROT_NONE};

// Of files and shared memory, which an alias is: a sanitizer maps memory of its own meanwhile.
std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t lines = 0;
  for (std::string line; std::getline(maps, line);) lines += line.find('/') != std::string::npos;
  return lines;
}

// f(loop, memory, its region on this side and on the other, the protection), for each kind.
template <typename F>
void each_kind(F f) {
  for (const bool shared : {false, true}) {
    for (const int protection : protections) {
      Loop l;
      CU_ASSERT_FATAL(l.ok);
      Guarded memory(shared);
      ibv_mr* mr[2];
      for (int i = 0; i < 2; i++) {
        mr[i] = ibv_reg_mr(l.pd[i], memory.all(), 2 * page, all_access);
        CU_ASSERT_PTR_NOT_NULL_FATAL(mr[i]);
      }
      memory.protect(protection);
      const std::size_t before = mappings();
      f(l, memory, mr[0], mr[1]);
      EQUAL(mappings(), before);
      CU_ASSERT(memory.is(protection == PROT_READ, false));
      for (ibv_mr* m : mr) EQUAL(ibv_dereg_mr(m), 0);
    }
  }
}

void opened_equal(Guarded& memory, std::size_t offset, const uint8_t* bytes, std::size_t count) {
  const bool readable = memory.is(true, false);
  memory.open();
  CU_ASSERT(std::memcmp(memory.second() + offset, bytes, count) == 0);
  memory.protect(readable ? PROT_READ : PROT_NONE);
}

void a_peer_writes_and_reads() {
  each_kind([](Loop& l, Guarded& memory, ibv_mr*, ibv_mr* far) {
    Region mine(l.pd[0], 3000);
    for (const uint32_t bytes : {8u, 64u, 3000u}) {
      fill(mine.data(), bytes, static_cast<uint8_t>(bytes));
      EQUAL(l.post(IBV_WR_RDMA_WRITE, {mine.sge(0, bytes)}, memory.at() + 5, far->rkey), 0);
      EQUAL(l.status(), IBV_WC_SUCCESS);
      opened_equal(memory, 5, mine.data(), bytes);
      std::memset(mine.data(), 0, bytes);
      EQUAL(l.post(IBV_WR_RDMA_READ, {mine.sge(0, bytes)}, memory.at() + 5, far->rkey), 0);
      EQUAL(l.status(), IBV_WC_SUCCESS);
      opened_equal(memory, 5, mine.data(), bytes);
      CU_ASSERT(mine.data()[0] == static_cast<uint8_t>(bytes));
    }
    // From the page that may be written into the one that may not.
    EQUAL(l.post(IBV_WR_RDMA_WRITE, {mine.sge(0, 64)}, memory.at() - 32, far->rkey), 0);
    EQUAL(l.status(), IBV_WC_SUCCESS);
    opened_equal(memory, 0, mine.data() + 32, 32);
    CU_ASSERT(std::memcmp(memory.second() - 32, mine.data(), 32) == 0);
  });
}

void memory_of_this_side() {
  each_kind([](Loop& l, Guarded& memory, ibv_mr* near, ibv_mr*) {
    Region far(l.pd[1], 64);
    EQUAL(l.post(IBV_WR_RDMA_WRITE, {{memory.at(), 64, near->lkey}}, far.at(), far.mr()->rkey), 0);
    EQUAL(l.status(), IBV_WC_SUCCESS);
    opened_equal(memory, 0, far.data(), 64);
    fill(far.data(), 64, 99);
    EQUAL(l.post(IBV_WR_RDMA_READ, {{memory.at(), 64, near->lkey}}, far.at(), far.mr()->rkey), 0);
    EQUAL(l.status(), IBV_WC_SUCCESS);
    opened_equal(memory, 0, far.data(), 64);
  });
}

void a_receive_buffer() {
  each_kind([](Loop& l, Guarded& memory, ibv_mr*, ibv_mr* far) {
    Region mine(l.pd[0], 64);
    fill(mine.data(), 64, 17);
    EQUAL(l.post_recv(1, {{memory.at() + 100, 64, far->lkey}}), 0);
    EQUAL(l.post(IBV_WR_SEND, {mine.sge(0, 64)}), 0);
    EQUAL(l.status(), IBV_WC_SUCCESS);
    EQUAL(wait_status(l.cq[1]), IBV_WC_SUCCESS);
    opened_equal(memory, 100, mine.data(), 64);
  });
}

void words() {
  each_kind([](Loop& l, Guarded& memory, ibv_mr* near, ibv_mr* far) {
    Region mine(l.pd[0], 64), theirs(l.pd[1], 64);
    uint64_t was = 0, word = 0;
    std::memcpy(&was, mine.data(), sizeof(was));
    EQUAL(l.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, mine.sge(0, 8), memory.at(), far->rkey, 5), 0);
    EQUAL(l.status(), IBV_WC_SUCCESS);
    std::memcpy(&was, mine.data(), sizeof(was));
    word = was + 5;
    opened_equal(memory, 0, reinterpret_cast<uint8_t*>(&word), sizeof(word));
    EQUAL(
        l.post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, mine.sge(0, 8), memory.at(), far->rkey, word, 77),
        0);
    EQUAL(l.status(), IBV_WC_SUCCESS);
    word = 77;
    opened_equal(memory, 0, reinterpret_cast<uint8_t*>(&word), sizeof(word));
    // The answer's place is the protected one.
    word = 0x1234;
    std::memcpy(theirs.data(), &word, sizeof(word));
    EQUAL(l.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, {memory.at() + 8, 8, near->lkey}, theirs.at(),
                        theirs.mr()->rkey, 1),
          0);
    EQUAL(l.status(), IBV_WC_SUCCESS);
    opened_equal(memory, 8, reinterpret_cast<uint8_t*>(&word), sizeof(word));
  });
}

// What was mapped in the region's place and may be executed is not the region's.
void code_is_not_written() {
  Loop l;
  CU_ASSERT_FATAL(l.ok);
  Guarded memory(false);
  Region mine(l.pd[0], 64);
  ibv_mr* mr = ibv_reg_mr(l.pd[1], memory.all(), 2 * page, all_access);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  memory.protect(PROT_READ | PROT_EXEC);
  EQUAL(l.post(IBV_WR_RDMA_WRITE, {mine.sge(0, 64)}, memory.at(), mr->rkey), 0);
  EQUAL(l.status(), IBV_WC_REM_ACCESS_ERR);
  EQUAL(ibv_dereg_mr(mr), 0);
}

const Case cases[] = {
    {"a peer writes and reads memory that was protected", a_peer_writes_and_reads},
    {"so does the side whose memory it is", memory_of_this_side},
    {"a message is received into it", a_receive_buffer},
    {"words of it are changed, and answered into it", words},
    {"code in the place of a region is not written", code_is_not_written},
};

}  // namespace
}  // namespace protected_ut

KILIM_TEST_SUITE(protected, protected_ut::cases)
