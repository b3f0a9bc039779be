// SPDX-License-Identifier: BSD-3-Clause
// Where the memory of a doorbell page is: another process that has the descriptor maps it too.
#include <cerrno>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doorbell_page_cases.hh"
#include "kilim/detail/base/fd.hh"
#include "request_fixture.hh"
#include "ut.hh"
#include "vhca/core/sealed.hh"
#include "vhca/hca/hca.hh"

namespace doorbell_pages_ut {
namespace {

using namespace kilim::test;
using kilim::Fd;
using kilim::vhca::uverbs::DeviceFile;
using kilim::vhca::uverbs::MapRequest;

// What the kernel maps for whoever has a descriptor of this file.
class Elsewhere {
 public:
  Elsewhere(int fd, uint64_t offset)
      : at_(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                   static_cast<off_t>(offset))) {
    CU_ASSERT_FATAL(at_ != MAP_FAILED);
  }
  ~Elsewhere() { ::munmap(at_, 4096); }
  std::byte* bytes() const { return static_cast<std::byte*>(at_); }

 private:
  void* at_;
};

// A client with a doorbell page, which by itself it has not mapped.
struct PageClient : Client {
  PageClient() { alloc(); }
  void alloc() { EQUAL_FATAL(alloc_uar(page, &offset, &handle), 0); }
  // A mapping by this file.
  [[nodiscard]] MapRequest request(const Fd& file_of_open) const {
    return {offset, 4096, PROT_WRITE, MAP_SHARED, file_of_open.get()};
  }
  std::byte& seen() { return hca->uars.at(page)->page[100]; }

  uint32_t page = 0, handle = 0;
  uint64_t offset = 0;
};

void doorbell_pages_lie_in_the_file_that_maps_them() {
  PageClient c;
  const Fd file(::memfd_create("open", 0));
  DeviceFile::Mapping m;
  EQUAL_FATAL(c.file->mmap(c.request(file), m), 0);
  EQUAL(m.map_fd, file.get());
  EQUAL(m.map_offset, c.offset);
  CU_ASSERT(m.doorbells);
  const Elsewhere other(file.get(), c.offset);
  other.bytes()[100] = std::byte{0x5a};
  CU_ASSERT(c.seen() == std::byte{0x5a});
  EQUAL(c.file->mmap(c.request(file), m), 0);
  CU_ASSERT(c.seen() == std::byte{0x5a});
}

void a_file_that_cannot_grow_leaves_the_page_where_it_is() {
  PageClient c;
  const Fd file(::memfd_create("open", MFD_ALLOW_SEALING));
  EQUAL_FATAL(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  DeviceFile::Mapping m;
  EQUAL_FATAL(c.file->mmap(c.request(file), m), 0);
  CU_ASSERT(m.map_fd != file.get());
  EQUAL(m.map_offset, 0);
  const Elsewhere client(m.map_fd, m.map_offset);
  client.bytes()[100] = std::byte{0x5a};
  CU_ASSERT(c.seen() == std::byte{0x5a});
}

// Who has it still mapped rings nobody's doorbell.
void a_page_that_is_used_again_is_in_its_first_clients_file_no_more() {
  PageClient c;
  const Fd file(::memfd_create("open", 0));
  DeviceFile::Mapping m;
  EQUAL_FATAL(c.file->mmap(c.request(file), m), 0);
  const Elsewhere before(file.get(), c.offset);
  EQUAL_FATAL(c.destroy(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY,
                        MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, c.handle),
              0);
  c.alloc();
  before.bytes()[100] = std::byte{0x5a};
  CU_ASSERT(c.seen() == std::byte{0});
}

// The adapter would end by SIGBUS at a page that a full machine cannot give when it is touched.
void a_page_is_there_before_it_is_touched() {
  PageClient c;
  const Fd file(::memfd_create("open", 0));
  DeviceFile::Mapping m;
  EQUAL_FATAL(c.file->mmap(c.request(file), m), 0);
  struct stat st;
  EQUAL_FATAL(::fstat(file.get(), &st), 0);
  CU_ASSERT_TRUE(st.st_blocks * 512 >= 4096);
}

// The page of its own, and the two clocks (uverbs/uar.cc).
void nobody_cuts_off_what_the_adapter_maps() {
  PageClient c;
  constexpr uint64_t clock_info = 7 << 20, core_clock = 5 << 20;
  for (const uint64_t offset : {c.offset, clock_info, core_clock}) {
    const int prot = offset == c.offset ? PROT_WRITE : PROT_READ;
    DeviceFile::Mapping m;
    EQUAL_FATAL(c.file->mmap({offset, 4096, prot, MAP_SHARED, -1}, m), 0);
    CU_ASSERT_TRUE(kilim::vhca::is_sealed_memory(m.map_fd, 4096));
    struct stat st;
    EQUAL_FATAL(::fstat(m.map_fd, &st), 0);
    CU_ASSERT_TRUE(st.st_blocks * 512 >= 4096);
  }
}

// A program closes all numbers (closefrom(3)) and opens files of its own.
void a_page_that_is_freed_closes_no_strangers_file() {
  PageClient c;
  DeviceFile::Mapping m;
  EQUAL_FATAL(c.file->mmap({c.offset, 4096, PROT_WRITE, MAP_SHARED, -1}, m), 0);
  const Fd strange(::memfd_create("strange", 0));
  EQUAL_FATAL(::dup2(strange.get(), m.map_fd), m.map_fd);
  EQUAL_FATAL(c.destroy(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY,
                        MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, c.handle),
              0);
  EQUAL(::close(m.map_fd), 0);
}

// A program closes all numbers (closefrom(3)) and opens files of its own. Of the kernel's clock a
// new page says the same.
void a_number_that_leads_elsewhere_is_neither_mapped_nor_closed() {
  constexpr uint64_t clock_info = 7 << 20, core_clock = 5 << 20;
  std::vector<int> numbers;
  std::vector<Fd> copies;  // so that no number is given out again
  {
    PageClient c;
    for (const uint64_t offset : {c.offset, core_clock, clock_info}) {
      const MapRequest request{offset, 4096, offset == c.offset ? PROT_WRITE : PROT_READ,
                               MAP_SHARED, -1};
      DeviceFile::Mapping m;
      EQUAL_FATAL(c.file->mmap(request, m), 0);
      Fd strange(::memfd_create("strange", 0));
      EQUAL_FATAL(::dup2(strange.get(), m.map_fd), m.map_fd);
      numbers.push_back(m.map_fd);
      const int again = c.file->mmap(request, m);
      EQUAL(again, offset == clock_info ? 0 : -ENOMEM);
      if (again == 0) CU_ASSERT(m.map_fd != numbers.back());
      copies.push_back(std::move(strange));
    }
  }
  for (const int number : numbers) EQUAL(::close(number), 0);
}

constexpr Case of_doorbell_pages[] = {
    {"a number that leads elsewhere is neither mapped nor closed",
     a_number_that_leads_elsewhere_is_neither_mapped_nor_closed},
    {"a page that is freed closes no stranger's file",
     a_page_that_is_freed_closes_no_strangers_file},
    {"a doorbell page is there before it is touched", a_page_is_there_before_it_is_touched},
    {"nobody cuts off what the adapter maps", nobody_cuts_off_what_the_adapter_maps},
    {"doorbell pages lie in the file that maps them",
     doorbell_pages_lie_in_the_file_that_maps_them},
    {"a file that cannot grow leaves the page where it is",
     a_file_that_cannot_grow_leaves_the_page_where_it_is},
    {"a page that is used again is in its first client's file no more",
     a_page_that_is_used_again_is_in_its_first_clients_file_no_more},
};

}  // namespace
}  // namespace doorbell_pages_ut

std::span<const kilim::test::Case> kilim::test::doorbell_page_cases() {
  return doorbell_pages_ut::of_doorbell_pages;
}
