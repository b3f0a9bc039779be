// SPDX-License-Identifier: BSD-3-Clause
// Objects of one open device: lives, use counts, events and what is reported of the adapter.
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "request.hh"
#include "ut.hh"
#include "vhca/hca/state.hh"

namespace {

using namespace kilim::test;
using kilim::vhca::DeviceFile;
using kilim::vhca::EventSink;
using kilim::vhca::Hca;

int open_descriptors() {
  int n = 0;
  for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

void what_is_used_cannot_be_destroyed() {
  Client c;
  Rings r;
  uint32_t pd, uar, uar_handle, cq, qp;
  CU_ASSERT_EQUAL_FATAL(c.alloc_pd(pd), 0);
  CU_ASSERT_EQUAL_FATAL(c.alloc_uar(uar, nullptr, &uar_handle), 0);
  CU_ASSERT_EQUAL_FATAL(r.create_cq(c, uar, -1, 1, cq), 0);
  CU_ASSERT_EQUAL_FATAL(r.create_qp(c, r.driver_part(uar), IB_UVERBS_QPT_RC, pd, cq, qp), 0);
  ib_uverbs_destroy_cq_resp cq_resp{};
  ib_uverbs_destroy_qp_resp qp_resp{};
  CU_ASSERT_EQUAL(c.destroy_pd(pd), -EBUSY);
  CU_ASSERT_EQUAL(r.destroy_cq(c, cq, cq_resp), -EBUSY);
  CU_ASSERT_EQUAL(c.destroy(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY,
                            MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, uar_handle),
                  -EBUSY);
  CU_ASSERT_EQUAL(r.destroy_qp(c, qp, qp_resp), 0);
  CU_ASSERT_EQUAL(r.destroy_cq(c, cq, cq_resp), 0);
  CU_ASSERT_EQUAL(c.destroy_pd(pd), 0);
  CU_ASSERT_EQUAL(c.destroy(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY,
                            MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, uar_handle),
                  0);
}

void closing_the_device_releases_everything() {
  auto hca = make_hca();
  int after_first = 0;
  static Rings r;
  for (int i = 0; i < 50; i++) {
    Client c;
    c.file = std::make_unique<DeviceFile>(*hca);
    CU_ASSERT_EQUAL_FATAL(get_context(*c.file), 0);
    uint32_t pd, uar, cq, qp;
    int channel, async;
    CU_ASSERT_EQUAL_FATAL(c.async_fd(async), 0);
    CU_ASSERT_EQUAL_FATAL(c.comp_channel(channel), 0);
    CU_ASSERT_EQUAL_FATAL(c.alloc_pd(pd), 0);
    CU_ASSERT_EQUAL_FATAL(c.alloc_uar(uar), 0);
    CU_ASSERT_EQUAL_FATAL(r.create_cq(c, uar, channel, 1, cq), 0);
    CU_ASSERT_EQUAL_FATAL(r.create_qp(c, r.driver_part(uar), IB_UVERBS_QPT_RC, pd, cq, qp), 0);
    close(channel);
    close(async);
    c.file.reset();
    c.hca.reset();
    // The adapter keeps a page that was freed for the next round.
    if (i == 0) after_first = open_descriptors();
  }
  CU_ASSERT_EQUAL(open_descriptors(), after_first);
}

void channels_that_the_client_closed_are_forgotten() {
  Client c;
  int before = open_descriptors();
  for (int i = 0; i < 1000; i++) {
    int channel = -1;
    CU_ASSERT_EQUAL_FATAL(c.comp_channel(channel), 0);
    close(channel);
  }
  CU_ASSERT(open_descriptors() <= before + 1);
}

// The events of a queue that goes are taken back, those of another stay, and only what was read is
// counted.
void only_events_that_were_read_are_counted() {
  Client c;
  static Rings r, other;
  uint32_t uar, cq, cq2;
  int channel;
  CU_ASSERT_EQUAL_FATAL(c.alloc_uar(uar), 0);
  CU_ASSERT_EQUAL_FATAL(c.comp_channel(channel), 0);
  CU_ASSERT_EQUAL_FATAL(r.create_cq(c, uar, channel, 0x1111, cq), 0);
  CU_ASSERT_EQUAL_FATAL(other.create_cq(c, uar, channel, 0x2222, cq2), 0);
  auto raise = [&](uint32_t cqn) {
    kilim::vhca::LockGuard guard(c.hca->lock());
    kilim::test::raise_completion(*c.hca, cqn);
  };
  for (int i = 0; i < 3; i++) raise(r.cqn);
  raise(other.cqn);
  uint64_t event = 0;
  CU_ASSERT_EQUAL(read(channel, &event, sizeof event), 8);
  CU_ASSERT_EQUAL(event, 0x1111);
  ib_uverbs_destroy_cq_resp resp{};
  CU_ASSERT_EQUAL(r.destroy_cq(c, cq, resp), 0);
  CU_ASSERT_EQUAL(resp.comp_events_reported, 1);
  CU_ASSERT_EQUAL(resp.async_events_reported, 0);
  CU_ASSERT_EQUAL(read(channel, &event, sizeof event), 8);
  CU_ASSERT_EQUAL(event, 0x2222);
  pollfd p{channel, POLLIN, 0};
  CU_ASSERT_EQUAL(poll(&p, 1, 0), 0);
  CU_ASSERT_EQUAL(other.destroy_cq(c, cq2, resp), 0);
  CU_ASSERT_EQUAL(resp.comp_events_reported, 1);
  close(channel);
}

void a_fatal_adapter_tells_every_asynchronous_file() {
  Client c;
  int fd[2];
  CU_ASSERT_EQUAL_FATAL(c.async_fd(fd[0]), 0);
  CU_ASSERT_EQUAL_FATAL(c.async_fd(fd[1]), 0);
  {
    kilim::vhca::LockGuard guard(c.hca->lock());
    c.hca->fatal();
  }
  for (int f : fd) {
    ib_uverbs_async_event_desc event{};
    CU_ASSERT_EQUAL(read(f, &event, sizeof event), 16);
    CU_ASSERT_EQUAL(event.event_type, 8);  // IBV_EVENT_DEVICE_FATAL
    close(f);
  }
}

void uar_pages_are_mapped_by_their_cookie() {
  Client c;
  uint32_t page = 0;
  uint64_t offset = 0;
  CU_ASSERT_EQUAL_FATAL(c.alloc_uar(page, &offset), 0);
  DeviceFile::Mapping m;
  CU_ASSERT_EQUAL(c.file->mmap(offset, 4096, PROT_WRITE, MAP_SHARED, m), 0);
  CU_ASSERT(m.map_fd >= 0);
  CU_ASSERT_EQUAL(c.file->mmap(offset, 8192, PROT_WRITE, MAP_SHARED, m), -EINVAL);
  CU_ASSERT_EQUAL(c.file->mmap(offset, 4096, PROT_WRITE, MAP_PRIVATE, m), -EINVAL);
  CU_ASSERT_EQUAL(c.file->mmap(offset + 4096, 4096, PROT_WRITE, MAP_SHARED, m), -EINVAL);
  CU_ASSERT_EQUAL(c.file->mmap(0, 4096, PROT_WRITE, MAP_SHARED, m), -EINVAL);
  CU_ASSERT_EQUAL(c.file->mmap(~uint64_t{0} << 12, 4096, PROT_WRITE, MAP_SHARED, m), -EINVAL);
  // Another open of the device does not reach it.
  DeviceFile second(*c.hca);
  CU_ASSERT_EQUAL(get_context(second), 0);
  CU_ASSERT_EQUAL(second.mmap(offset, 4096, PROT_WRITE, MAP_SHARED, m), -EINVAL);
}

void the_clock_page_is_for_reading() {
  Client c;
  DeviceFile::Mapping m;
  CU_ASSERT_EQUAL(c.file->mmap(0x700000, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, m), -EPERM);
  CU_ASSERT_EQUAL(c.file->mmap(0x700000, 8192, PROT_READ, MAP_SHARED, m), -EINVAL);
  CU_ASSERT_EQUAL_FATAL(c.file->mmap(0x700000, 4096, PROT_READ, MAP_SHARED, m), 0);
  mlx5_ib_clock_info info{};
  CU_ASSERT_EQUAL(pread(m.map_fd, &info, sizeof info, static_cast<off_t>(m.map_offset)),
                  static_cast<ssize_t>(sizeof info));
  CU_ASSERT_EQUAL(info.mult, 1);
  CU_ASSERT_EQUAL(info.mask, ~uint64_t{0});
}

void the_first_gid_is_link_local_and_of_roce_v2() {
  Client c;
  ib_uverbs_gid_entry e{};
  auto query = [&](uint32_t port, uint32_t index) {
    return Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY)
        .in(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, uint64_t{port})
        .in(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, uint64_t{index})
        .in(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, uint32_t{0})
        .out(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, e)
        .run(*c.file);
  };
  CU_ASSERT_EQUAL(query(1, 0), 0);
  const uint8_t expected[16]{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x4b, 0x01, 0xff, 0xfe, 2, 3, 4};
  CU_ASSERT_EQUAL(std::memcmp(e.gid, expected, 16), 0);
  CU_ASSERT_EQUAL(e.gid_type, IB_UVERBS_GID_TYPE_ROCE_V2);
  CU_ASSERT_EQUAL(query(1, 1), -ENODATA);
  CU_ASSERT_EQUAL(query(1, 16), -EINVAL);
  CU_ASSERT_EQUAL(query(2, 0), -EINVAL);
  CU_ASSERT_EQUAL(query(0, 0), -EINVAL);
  ib_uverbs_gid_entry table[4]{};
  uint64_t count = 0;
  CU_ASSERT_EQUAL(Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE)
                      .in(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, uint64_t{sizeof e})
                      .in(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, uint32_t{0})
                      .out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, table)
                      .out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, count)
                      .run(*c.file),
                  0);
  CU_ASSERT_EQUAL(count, 1);
  CU_ASSERT_EQUAL(std::memcmp(table[0].gid, expected, 16), 0);
}

void a_path_needs_a_gid_and_a_mac() {
  Client c;
  uint32_t pd = 0;
  CU_ASSERT_EQUAL_FATAL(c.alloc_pd(pd), 0);
  mlx5_ib_create_ah_resp driver{};
  ib_uverbs_create_ah_resp resp{};
  auto attempt = [&](auto change, bool room = true) {
    struct {
      uint64_t response = 0, user_handle = 0;
      uint32_t pd_handle = 0, reserved = 0;
      ib_uverbs_ah_attr attr{};
    } cmd;
    static_assert(sizeof cmd == sizeof(ib_uverbs_create_ah));
    cmd.pd_handle = pd;
    cmd.attr.is_global = 1;
    cmd.attr.port_num = 1;
    const uint8_t gid[16]{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x22, 0xff, 0xfe, 3, 4, 5};
    std::memcpy(cmd.attr.grh.dgid, gid, sizeof gid);
    change(cmd.attr);
    Ioctl io = write_command(IB_USER_VERBS_CMD_CREATE_AH);
    io.in(UVERBS_ATTR_CORE_IN, cmd).out(UVERBS_ATTR_CORE_OUT, resp);
    if (room) io.out(UVERBS_ATTR_UHW_OUT, driver);
    return io.run(*c.file);
  };
  CU_ASSERT_EQUAL(attempt([](auto& a) { a.is_global = 0; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& a) { a.port_num = 2; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& a) { a.port_num = 0; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& a) { a.grh.sgid_index = 1; }), -ENODATA);
  CU_ASSERT_EQUAL(attempt([](auto& a) { a.grh.sgid_index = 255; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto&) {}, false), -EINVAL);  // no room for the MAC
  CU_ASSERT_EQUAL(attempt([](auto& a) { a.grh.dgid[11] = 0; }), -EHOSTUNREACH);
  CU_ASSERT_EQUAL(attempt([](auto&) {}), 0);
  const uint8_t mac[6]{0x02, 0x11, 0x22, 3, 4, 5};
  CU_ASSERT_EQUAL(std::memcmp(driver.dmac, mac, 6), 0);
  CU_ASSERT_EQUAL(c.destroy_pd(pd), -EBUSY);
  CU_ASSERT_EQUAL(c.destroy(UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY,
                            UVERBS_ATTR_DESTROY_AH_HANDLE, resp.ah_handle),
                  0);
  CU_ASSERT_EQUAL(c.destroy_pd(pd), 0);
}

void a_child_after_fork_has_nothing() {
  Client c;
  uint32_t pd;
  CU_ASSERT_EQUAL_FATAL(c.alloc_pd(pd), 0);
  c.file->disown_after_fork();
  CU_ASSERT_EQUAL(c.destroy_pd(pd), -EIO);
  DeviceFile::Mapping m;
  CU_ASSERT_EQUAL(c.file->mmap(0x700000, 4096, PROT_READ, MAP_SHARED, m), -EIO);
}

template <typename Command>
int run_command(Client& c, uint32_t number, const Command& cmd) {
  return write_command(number).in(UVERBS_ATTR_CORE_IN, cmd).run(*c.file);
}

void a_client_that_goes_away_leaves_its_groups() {
  Client c;
  static Rings r;
  uint32_t pd, uar, cq, qp;
  CU_ASSERT_EQUAL_FATAL(c.alloc_pd(pd), 0);
  CU_ASSERT_EQUAL_FATAL(c.alloc_uar(uar), 0);
  CU_ASSERT_EQUAL_FATAL(r.create_cq(c, uar, -1, 1, cq), 0);
  CU_ASSERT_EQUAL_FATAL(r.create_qp(c, r.driver_part(uar), IB_UVERBS_QPT_UD, pd, cq, qp), 0);
  ib_uverbs_attach_mcast group{};
  group.gid[0] = 0xff;
  group.qp_handle = qp;
  CU_ASSERT_EQUAL(run_command(c, IB_USER_VERBS_CMD_ATTACH_MCAST, group), 0);
  CU_ASSERT_EQUAL(c.hca->state().groups.size(), 1);
  c.file.reset();
  CU_ASSERT(c.hca->state().groups.empty());
  CU_ASSERT_EQUAL(c.hca->state().qps.count(), 0);
}

// A member of a group is busy. What happened to it is still there to be read.
void a_queue_that_stays_keeps_its_events() {
  Client c;
  static Rings r;
  uint32_t pd, uar, cq, qp;
  int async;
  CU_ASSERT_EQUAL_FATAL(c.async_fd(async), 0);
  CU_ASSERT_EQUAL_FATAL(c.alloc_pd(pd), 0);
  CU_ASSERT_EQUAL_FATAL(c.alloc_uar(uar), 0);
  CU_ASSERT_EQUAL_FATAL(r.create_cq(c, uar, -1, 1, cq), 0);
  CU_ASSERT_EQUAL_FATAL(r.create_qp(c, r.driver_part(uar), IB_UVERBS_QPT_UD, pd, cq, qp), 0);
  ib_uverbs_attach_mcast group{};
  group.gid[0] = 0xff;
  group.qp_handle = qp;
  CU_ASSERT_EQUAL(run_command(c, IB_USER_VERBS_CMD_ATTACH_MCAST, group), 0);
  constexpr uint32_t drained = 5;  // IBV_EVENT_SQ_DRAINED
  {
    kilim::vhca::LockGuard guard(c.hca->lock());
    raise_async(*c.hca, r.qpn, drained);
  }
  ib_uverbs_destroy_qp_resp resp{};
  CU_ASSERT_EQUAL(r.destroy_qp(c, qp, resp), -EBUSY);
  pollfd p{async, POLLIN, 0};
  CU_ASSERT_EQUAL_FATAL(poll(&p, 1, 0), 1);
  ib_uverbs_async_event_desc event{};
  CU_ASSERT_EQUAL(read(async, &event, sizeof event), 16);
  CU_ASSERT_EQUAL(event.event_type, drained);
  CU_ASSERT_EQUAL(run_command(c, IB_USER_VERBS_CMD_DETACH_MCAST, group), 0);
  CU_ASSERT_EQUAL(r.destroy_qp(c, qp, resp), 0);
  CU_ASSERT_EQUAL(resp.events_reported, 1);
  close(async);
}

void shared_queues_of_odd_shapes_are_refused() {
  Client c;
  static Rings r;
  uint32_t pd, uar, cq;
  CU_ASSERT_EQUAL_FATAL(c.alloc_pd(pd), 0);
  CU_ASSERT_EQUAL_FATAL(c.alloc_uar(uar), 0);
  CU_ASSERT_EQUAL_FATAL(r.create_cq(c, uar, -1, 1, cq), 0);
  auto attempt = [&](auto change) {
    ib_uverbs_create_srq cmd{};
    cmd.pd_handle = pd;
    cmd.max_wr = 15;
    cmd.max_sge = 1;
    mlx5_ib_create_srq driver{};
    driver.buf_addr = reinterpret_cast<uintptr_t>(r.qp);
    driver.db_addr = reinterpret_cast<uintptr_t>(r.qp_record);
    change(cmd, driver);
    ib_uverbs_create_srq_resp resp{};
    mlx5_ib_create_srq_resp out{};
    return write_command(IB_USER_VERBS_CMD_CREATE_SRQ)
        .in(UVERBS_ATTR_CORE_IN, cmd)
        .out(UVERBS_ATTR_CORE_OUT, resp)
        .in(UVERBS_ATTR_UHW_IN, driver)
        .out(UVERBS_ATTR_UHW_OUT, out)
        .run(*c.file);
  };
  CU_ASSERT_EQUAL(attempt([](auto&, auto&) {}), 0);
  CU_ASSERT_EQUAL(attempt([](auto& q, auto&) { q.pd_handle = 999; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& q, auto&) { q.max_wr = ~0u; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& q, auto&) { q.max_sge = 32; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& q, auto&) { q.max_sge = 1u << 28; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& q, auto&) { q.srq_limit = 16; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto&, auto& d) { d.flags = 2; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto&, auto& d) { d.uidx = 1u << 24; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto&, auto& d) { d.buf_addr = 0x1000; }), -EFAULT);
  CU_ASSERT_EQUAL(attempt([](auto&, auto& d) { d.db_addr = 0x1000; }), -EFAULT);
  CU_ASSERT_EQUAL(attempt([](auto&, auto& d) { d.db_addr += 1; }), -EINVAL);
}

// Handles of nothing, and of another kind.
void new_commands_check_their_handles() {
  Client c;
  uint32_t pd;
  CU_ASSERT_EQUAL_FATAL(c.alloc_pd(pd), 0);
  for (uint32_t handle : {pd, 999u, ~0u}) {
    int none = handle == pd ? -EINVAL : -ENOENT;
    ib_uverbs_modify_srq srq{};
    srq.srq_handle = handle;
    CU_ASSERT_EQUAL(run_command(c, IB_USER_VERBS_CMD_MODIFY_SRQ, srq), -EINVAL);
    ib_uverbs_attach_mcast group{};
    group.qp_handle = handle;
    CU_ASSERT_EQUAL(run_command(c, IB_USER_VERBS_CMD_ATTACH_MCAST, group), -EINVAL);
    CU_ASSERT_EQUAL(run_command(c, IB_USER_VERBS_CMD_DETACH_MCAST, group), -EINVAL);
    ib_uverbs_dealloc_mw mw{handle};
    CU_ASSERT_EQUAL(run_command(c, IB_USER_VERBS_CMD_DEALLOC_MW, mw), none);
    ib_uverbs_close_xrcd xrcd{handle};
    CU_ASSERT_EQUAL(run_command(c, IB_USER_VERBS_CMD_CLOSE_XRCD, xrcd), none);
  }
}

void queues_of_odd_shapes_are_refused() {
  Client c;
  static Rings r;
  uint32_t pd, uar, cq, qp;
  CU_ASSERT_EQUAL_FATAL(c.alloc_pd(pd), 0);
  CU_ASSERT_EQUAL_FATAL(c.alloc_uar(uar), 0);
  CU_ASSERT_EQUAL_FATAL(r.create_cq(c, uar, -1, 1, cq), 0);
  auto attempt = [&](auto change, uint64_t type = IB_UVERBS_QPT_RC) {
    mlx5_ib_create_qp cmd = r.driver_part(uar);
    change(cmd);
    return r.create_qp(c, cmd, type, pd, cq, qp);
  };
  auto same = [](mlx5_ib_create_qp&) {};
  CU_ASSERT_EQUAL(attempt([](auto& q) { q.sq_wqe_count = 63; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& q) { q.sq_wqe_count = 1u << 31; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& q) { q.rq_wqe_count = 65536; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& q) { q.rq_wqe_shift = 200; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& q) { q.flags = 0; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& q) { q.flags |= MLX5_QP_FLAG_TUNNEL_OFFLOADS; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& q) { q.uidx = 1u << 24; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& q) { q.bfreg_index = 999; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt([](auto& q) { q.buf_addr = 0x1000; }), -EFAULT);
  CU_ASSERT_EQUAL(attempt([](auto& q) { q.db_addr = ~uint64_t{63}; }), -EINVAL);
  CU_ASSERT_EQUAL(attempt(same, 77), -EINVAL);
  // A queue pair of the driver's own is an initiator or a target, which wants a shared queue.
  CU_ASSERT_EQUAL(attempt(same, IB_UVERBS_QPT_DRIVER), -EINVAL);
  auto both = [](auto& q) { q.flags |= MLX5_QP_FLAG_TYPE_DCI | MLX5_QP_FLAG_TYPE_DCT; };
  CU_ASSERT_EQUAL(attempt(both, IB_UVERBS_QPT_DRIVER), -EINVAL);
  auto target = [](auto& q) { q.flags = MLX5_QP_FLAG_TYPE_DCT; };
  CU_ASSERT_EQUAL(attempt(target, IB_UVERBS_QPT_DRIVER), -EINVAL);
  auto initiator = [](auto& q) { q.flags |= MLX5_QP_FLAG_TYPE_DCI; };
  CU_ASSERT_EQUAL(attempt(initiator), -EINVAL);
  // An initiator has no receive ring, a target no protection domain.
  CU_ASSERT_EQUAL(attempt(same, IB_UVERBS_QPT_XRC_INI), -EINVAL);
  CU_ASSERT_EQUAL(attempt(same, IB_UVERBS_QPT_XRC_TGT), -EINVAL);
  ib_uverbs_destroy_qp_resp resp{};
  CU_ASSERT_EQUAL(attempt(same), 0);
  CU_ASSERT_EQUAL(r.destroy_qp(c, qp, resp), 0);
}

// The older command does not hold flags against the type: mlx5_ib has the word.
void the_older_command_leaves_flags_to_the_driver() {
  Client c;
  static Rings r;
  uint32_t uar;
  ib_uverbs_ex_create_qp cmd{};
  CU_ASSERT_EQUAL_FATAL(c.alloc_pd(cmd.pd_handle), 0);
  CU_ASSERT_EQUAL_FATAL(c.alloc_uar(uar), 0);
  CU_ASSERT_EQUAL_FATAL(r.create_cq(c, uar, -1, 1, cmd.send_cq_handle), 0);
  cmd.recv_cq_handle = cmd.send_cq_handle;
  cmd.max_send_wr = cmd.max_recv_wr = 16;
  cmd.max_send_sge = cmd.max_recv_sge = 1;
  auto attempt = [&](uint8_t type, uint32_t flags) {
    cmd.qp_type = type;
    cmd.create_flags = flags;
    mlx5_ib_create_qp driver = r.driver_part(uar);
    ib_uverbs_ex_create_qp_resp resp{};
    mlx5_ib_create_qp_resp out{};
    return write_command(IB_USER_VERBS_CMD_FLAG_EXTENDED | uint32_t{IB_USER_VERBS_EX_CMD_CREATE_QP})
        .in(UVERBS_ATTR_CORE_IN, cmd)
        .out(UVERBS_ATTR_CORE_OUT, resp)
        .in(UVERBS_ATTR_UHW_IN, driver)
        .out(UVERBS_ATTR_UHW_OUT, out)
        .run(*c.file);
  };
  CU_ASSERT_EQUAL(attempt(IB_UVERBS_QPT_RC, IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK), 0);
  CU_ASSERT_EQUAL(attempt(IB_UVERBS_QPT_UD, IB_UVERBS_QP_CREATE_SCATTER_FCS), -EOPNOTSUPP);
}

constexpr Case cases[] = {
    {"what is used cannot be destroyed", what_is_used_cannot_be_destroyed},
    {"closing the device releases everything", closing_the_device_releases_everything},
    {"channels that the client closed are forgotten",
     channels_that_the_client_closed_are_forgotten},
    {"only events that were read are counted", only_events_that_were_read_are_counted},
    {"a fatal adapter tells every asynchronous file",
     a_fatal_adapter_tells_every_asynchronous_file},
    {"UAR pages are mapped by their cookie", uar_pages_are_mapped_by_their_cookie},
    {"the clock page is for reading", the_clock_page_is_for_reading},
    {"the first GID is link-local and of RoCE v2", the_first_gid_is_link_local_and_of_roce_v2},
    {"a path needs a GID and a MAC", a_path_needs_a_gid_and_a_mac},
    {"a child after fork has nothing", a_child_after_fork_has_nothing},
    {"a client that goes away leaves its groups", a_client_that_goes_away_leaves_its_groups},
    {"a queue that stays keeps its events", a_queue_that_stays_keeps_its_events},
    {"shared queues of odd shapes are refused", shared_queues_of_odd_shapes_are_refused},
    {"new commands check their handles", new_commands_check_their_handles},
    {"queues of odd shapes are refused", queues_of_odd_shapes_are_refused},
    {"the older command leaves flags to the driver", the_older_command_leaves_flags_to_the_driver},
};

}  // namespace

KILIM_UT_MAIN("uverbs: objects", cases)
