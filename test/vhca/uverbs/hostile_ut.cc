// SPDX-License-Identifier: BSD-3-Clause
// Ioctls and writes that no client library would send: each gets the kernel's errno, nothing else
// happens.
#include <cerrno>
#include <cstdlib>

#include <sys/mman.h>

#include "request_fixture.hh"
#include "ut.hh"

namespace hostile_ut {
namespace {

using namespace kilim::test;
using kilim::vhca::uverbs::DeviceFile;

void* const unmapped = reinterpret_cast<void*>(uintptr_t{0x1000});
constexpr uint64_t beyond = uint64_t{1} << 63;  // no address of any process

Ioctl query_port() {
  static ib_uverbs_query_port_resp_ex resp;
  Ioctl io(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
  io.in(UVERBS_ATTR_QUERY_PORT_PORT_NUM, uint64_t{1}).out(UVERBS_ATTR_QUERY_PORT_RESP, resp);
  return io;
}

void other_requests_are_no_ioctls() {
  Client c;
  EQUAL(c.opened, 0);
  EQUAL(c.file->ioctl(RDMA_VERBS_IOCTL + 1, nullptr), -ENOTTY);
  EQUAL(c.file->ioctl(0, nullptr), -ENOTTY);
}

void a_header_nowhere_is_a_fault() {
  Client c;
  EQUAL(c.file->ioctl(RDMA_VERBS_IOCTL, nullptr), -EFAULT);
  EQUAL(c.file->ioctl(RDMA_VERBS_IOCTL, unmapped), -EFAULT);
  EQUAL(c.file->ioctl(RDMA_VERBS_IOCTL, reinterpret_cast<void*>(beyond)), -EFAULT);
  EQUAL(c.file->ioctl(RDMA_VERBS_IOCTL, reinterpret_cast<void*>(~uintptr_t{0})), -EFAULT);
}

// The header ends at the last byte of a mapping, its attributes lie behind it.
void attributes_on_a_missing_page_are_a_fault() {
  Client c;
  auto* page = static_cast<uint8_t*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EQUAL_FATAL(mprotect(page + 4096, 4096, PROT_NONE), 0);
  ib_uverbs_ioctl_hdr h{};
  h.object_id = UVERBS_OBJECT_DEVICE;
  h.method_id = UVERBS_METHOD_QUERY_PORT;
  h.driver_id = RDMA_DRIVER_MLX5;
  h.num_attrs = 2;
  h.length = sizeof h + 2 * sizeof(ib_uverbs_attr);
  std::memcpy(page + 4096 - sizeof h, &h, sizeof h);
  EQUAL(c.file->ioctl(RDMA_VERBS_IOCTL, page + 4096 - sizeof h), -EFAULT);
  munmap(page, 8192);
}

void lengths_must_match_the_attributes() {
  Client c;
  for (unsigned length : {0u, 8u, 24u, 55u, 57u, 4097u, 65535u}) {
    Ioctl io = query_port();
    io.header().length = static_cast<uint16_t>(length);
    EQUAL(io.run_as_it_is(*c.file), -EINVAL);
  }
  Ioctl io = query_port();
  EQUAL(io.run(*c.file), 0);
}

void a_huge_number_of_attributes_is_refused() {
  Client c;
  Ioctl io = query_port();
  io.header().num_attrs = 65535;
  io.header().length = static_cast<uint16_t>(24 + 65535 * 16);
  EQUAL(io.run_as_it_is(*c.file), -EINVAL);
}

void a_page_full_of_attributes_is_bounded() {
  Client c;
  Ioctl io(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
  for (unsigned i = 0; i < 254; i++) {
    io.raw(static_cast<uint16_t>(0x4000 + i), 8, ~uint64_t{0});
    io.attr(i).flags = 0;  // optional ones that nobody knows are passed over
  }
  EQUAL(io.run(*c.file), -EINVAL);  // for want of the mandatory ones
  Ioctl twice = query_port();
  twice.in(UVERBS_ATTR_QUERY_PORT_PORT_NUM, uint64_t{1});
  EQUAL(twice.run(*c.file), -EINVAL);
}

void reserved_words_must_be_zero() {
  Client c;
  Ioctl a = query_port(), b = query_port(), d = query_port(), e = query_port();
  a.header().reserved1 = 1;
  b.header().reserved2 = 1;
  d.header().driver_id = RDMA_DRIVER_MLX4;
  e.attr(0).attr_data.reserved = 1;
  EQUAL(a.run(*c.file), -EPROTONOSUPPORT);
  EQUAL(b.run(*c.file), -EPROTONOSUPPORT);
  EQUAL(d.run(*c.file), -EINVAL);
  EQUAL(e.run(*c.file), -EINVAL);
}

void unknown_objects_methods_and_attributes_are_unsupported() {
  Client c;
  const struct {
    uint16_t object, method;
  } rows[] = {{UVERBS_OBJECT_DEVICE, 99},
              {UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE},
              {UVERBS_OBJECT_WQ, 0},
              {UVERBS_OBJECT_DM, 99},
              {MLX5_IB_OBJECT_VAR, 0x1000},
              {MLX5_IB_OBJECT_PP, 0x1000},
              {MLX5_IB_OBJECT_DEVX_UMEM, 0x1009},
              {0xffff, 0xffff},
              {UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR}};
  for (const auto& r : rows) {
    Ioctl io(r.object, r.method);
    EQUAL(io.run(*c.file), -EPROTONOSUPPORT);
  }
  Ioctl io = query_port();
  io.in(0x777, uint64_t{0});
  EQUAL(io.run(*c.file), -EPROTONOSUPPORT);
}

void mandatory_attributes_must_be_there() {
  Client c;
  Ioctl io(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
  io.in(UVERBS_ATTR_QUERY_PORT_PORT_NUM, uint64_t{1});
  EQUAL(io.run(*c.file), -EINVAL);
  EQUAL(Ioctl(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE).run(*c.file), -EINVAL);
}

void short_and_misplaced_buffers_are_refused() {
  Client c;
  uint8_t small[8]{};
  Ioctl io(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
  io.in(UVERBS_ATTR_QUERY_PORT_PORT_NUM, uint64_t{1}).out(UVERBS_ATTR_QUERY_PORT_RESP, small);
  EQUAL(io.run(*c.file), -EINVAL);
  for (uint64_t at : {uint64_t{0}, uint64_t{0x1000}, beyond, ~uint64_t{0} - 8}) {
    Ioctl far = query_port();
    far.attr(1).data = at;
    EQUAL(far.run(*c.file), -EFAULT);
  }
}

void nothing_but_the_context_comes_first() {
  auto hca = make_hca();
  DeviceFile file(*hca);
  Ioctl port = query_port();
  EQUAL(port.run(file), -EINVAL);
  uint64_t in = 0;
  ib_uverbs_alloc_pd_resp out{};
  EQUAL(write_command(IB_USER_VERBS_CMD_ALLOC_PD)
            .in(UVERBS_ATTR_CORE_IN, in)
            .out(UVERBS_ATTR_CORE_OUT, out)
            .run(file),
        -EINVAL);
  // The probe of rdma-core: too short, so there is such a command.
  EQUAL(write_command(IB_USER_VERBS_CMD_QUERY_DEVICE).run(file), -ENOSPC);
  DeviceFile::Mapping m;
  EQUAL(file.mmap({0x700000, 4096, PROT_READ, MAP_SHARED}, m), -EINVAL);
  EQUAL(get_context(file), 0);
  EQUAL(get_context(file), -EINVAL);  // only once
}

void unknown_flags_of_a_context_are_refused() {
  auto hca = make_hca();
  DeviceFile file(*hca);
  EQUAL(get_context(file, 0x80), -EOPNOTSUPP);
  EQUAL(get_context(file), 0);
}

void write_commands_are_checked() {
  Client c;
  EQUAL(write_command(0x100).run(*c.file), -EINVAL);
  EQUAL(write_command(0xff).run(*c.file), -EOPNOTSUPP);
  EQUAL(write_command(IB_USER_VERBS_CMD_FLAG_EXTENDED | 0xff).run(*c.file), -EOPNOTSUPP);
  Ioctl long_number(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
  long_number.in(UVERBS_ATTR_WRITE_CMD, uint64_t{1} << 40);
  EQUAL(long_number.run(*c.file), -EINVAL);
  for (uint32_t absent : {IB_USER_VERBS_CMD_MODIFY_AH, IB_USER_VERBS_CMD_PEEK_CQ})
    EQUAL(write_command(absent).run(*c.file), -EOPNOTSUPP);
}

void handles_of_nothing_and_of_another_kind_are_refused() {
  Client c;
  uint32_t pd = 0;
  EQUAL_FATAL(c.alloc_pd(pd), 0);
  EQUAL(c.destroy_pd(pd + 1), -ENOENT);
  EQUAL(c.destroy_pd(0xffffffff), -ENOENT);
  EQUAL(c.destroy_mr(pd), -EINVAL);
  EQUAL(Ioctl(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY)
            .handle(UVERBS_ATTR_DESTROY_PD_HANDLE, uint64_t{1} << 32 | pd)
            .run(*c.file),
        -EINVAL);
  EQUAL(Ioctl(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY)
            .raw(UVERBS_ATTR_DESTROY_PD_HANDLE, 8, pd)
            .run(*c.file),
        -EINVAL);
  EQUAL(c.destroy_pd(pd), 0);
  EQUAL(c.destroy_pd(pd), -ENOENT);
}

// The answer cannot be written, so the object must not stay.
void an_object_that_cannot_be_told_of_is_taken_back() {
  Client c;
  uint64_t in = 0;
  for (int i = 0; i < 3; i++) {
    EQUAL(write_command(IB_USER_VERBS_CMD_ALLOC_PD)
              .in(UVERBS_ATTR_CORE_IN, in)
              .raw(UVERBS_ATTR_CORE_OUT, 4, 0x1000)
              .run(*c.file),
          -EFAULT);
  }
  uint32_t pd = 99;
  EQUAL(c.alloc_pd(pd), 0);
  EQUAL(pd, 0);  // the handle is free again
}

void regions_of_missing_memory_are_faults() {
  Client c;
  uint32_t pd = 0;
  EQUAL_FATAL(c.alloc_pd(pd), 0);
  static uint8_t memory[4096];
  ib_uverbs_reg_mr_resp* resp =
      reinterpret_cast<ib_uverbs_reg_mr_resp*>(std::calloc(1, sizeof(ib_uverbs_reg_mr_resp)));
  using namespace kilim::vhca::access;
  EQUAL(c.reg_mr(pd, unmapped, 4096, local_write, resp), -EFAULT);
  EQUAL(c.reg_mr(pd, memory, 0, local_write, resp), -EINVAL);
  EQUAL(c.reg_mr(pd, memory, ~uint64_t{0}, local_write, resp), -EINVAL);
  EQUAL(c.reg_mr(pd, memory, 4096, remote_write, resp), -EINVAL);
  EQUAL(c.reg_mr(pd, memory, 4096, 1u << 15, resp), -EINVAL);
  EQUAL(c.reg_mr(pd, memory, ~uint64_t{0}, on_demand | local_write, resp), -EINVAL);
  EQUAL(c.reg_mr(pd, unmapped, 4096, on_demand | local_write, resp), 0);
  EQUAL(c.destroy_mr(resp->mr_handle), 0);
  EQUAL(c.reg_mr(pd + 7, memory, 4096, local_write, resp), -EINVAL);
  auto* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EQUAL(c.reg_mr(pd, page, 4096, local_write, resp), -EFAULT);
  EQUAL(c.reg_mr(pd, page, 4096, remote_read, resp), 0);
  EQUAL(c.destroy_pd(pd), -EBUSY);
  EQUAL(c.destroy_mr(resp->mr_handle), 0);
  EQUAL(c.destroy_pd(pd), 0);
  munmap(page, 4096);
  std::free(resp);
}

void odd_writes_are_refused() {
  Client c;
  struct {
    ib_uverbs_cmd_hdr h{};
    uint64_t words[4]{};
  } w;
  EQUAL(c.file->write(&w, 4), -EINVAL);
  EQUAL(c.file->write(unmapped, 64), -EFAULT);
  w.h = {IB_USER_VERBS_CMD_ALLOC_PD, 3, 2};
  EQUAL(c.file->write(&w, sizeof w), -EINVAL);  // 12 bytes are not 40
  w.h = {IB_USER_VERBS_CMD_ALLOC_PD, sizeof w / 4, 0};
  EQUAL(c.file->write(&w, sizeof w), -ENOSPC);
  w.h = {IB_USER_VERBS_CMD_ALLOC_PD, sizeof w / 4, 2};
  EQUAL(c.file->write(&w, sizeof w), -EFAULT);  // to address 0
  uint32_t answer[2]{};
  w.words[0] = reinterpret_cast<uintptr_t>(answer);
  EQUAL(c.file->write(&w, sizeof w), static_cast<ssize_t>(sizeof w));
  EQUAL(c.destroy_pd(answer[0]), 0);
}

constexpr Case cases[] = {
    {"other requests are no ioctls", other_requests_are_no_ioctls},
    {"a header nowhere is a fault", a_header_nowhere_is_a_fault},
    {"attributes on a missing page are a fault", attributes_on_a_missing_page_are_a_fault},
    {"lengths must match the attributes", lengths_must_match_the_attributes},
    {"a huge number of attributes is refused", a_huge_number_of_attributes_is_refused},
    {"a page full of attributes is bounded", a_page_full_of_attributes_is_bounded},
    {"reserved words must be zero", reserved_words_must_be_zero},
    {"unknown objects, methods and attributes are unsupported",
     unknown_objects_methods_and_attributes_are_unsupported},
    {"mandatory attributes must be there", mandatory_attributes_must_be_there},
    {"short and misplaced buffers are refused", short_and_misplaced_buffers_are_refused},
    {"nothing but the context comes first", nothing_but_the_context_comes_first},
    {"unknown flags of a context are refused", unknown_flags_of_a_context_are_refused},
    {"write commands are checked", write_commands_are_checked},
    {"handles of nothing and of another kind are refused",
     handles_of_nothing_and_of_another_kind_are_refused},
    {"an object that cannot be told of is taken back",
     an_object_that_cannot_be_told_of_is_taken_back},
    {"regions of missing memory are faults", regions_of_missing_memory_are_faults},
    {"odd writes are refused", odd_writes_are_refused},
};

}  // namespace
}  // namespace hostile_ut

KILIM_TEST_SUITE(hostile, hostile_ut::cases)
