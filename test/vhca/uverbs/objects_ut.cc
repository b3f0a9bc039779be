// SPDX-License-Identifier: BSD-3-Clause
// Objects of one open device: lives, use counts, events and what is reported of the adapter.
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "case_tables.hh"
#include "doorbell_page_cases.hh"
#include "request_fixture.hh"
#include "ut.hh"
#include "vhca/hca/fatal.hh"
#include "vhca/hca/hca.hh"

namespace objects_ut {
namespace {

using namespace kilim::test;
using kilim::vhca::EventSink;
using kilim::vhca::hca::Hca;
using kilim::vhca::hca::HcaConfig;
using kilim::vhca::uverbs::DeviceFile;
using kilim::vhca::wire::Wire;
using kilim::vhca::wire::WireCounters;

int open_descriptors() {
  int n = 0;
  for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

void what_is_used_cannot_be_destroyed() {
  Client c;
  Rings r;
  uint32_t pd, uar, uar_handle, cq, qp;
  EQUAL_FATAL(c.alloc_pd(pd), 0);
  EQUAL_FATAL(c.alloc_uar(uar, nullptr, &uar_handle), 0);
  EQUAL_FATAL(r.create_cq(c, uar, -1, 1, cq), 0);
  EQUAL_FATAL(r.create_qp(c, r.driver_part(uar), IB_UVERBS_QPT_RC, pd, cq, qp), 0);
  ib_uverbs_destroy_cq_resp cq_resp{};
  ib_uverbs_destroy_qp_resp qp_resp{};
  EQUAL(c.destroy_pd(pd), -EBUSY);
  EQUAL(r.destroy_cq(c, cq, cq_resp), -EBUSY);
  EQUAL(c.destroy(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY,
                  MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, uar_handle),
        -EBUSY);
  EQUAL(r.destroy_qp(c, qp, qp_resp), 0);
  EQUAL(r.destroy_cq(c, cq, cq_resp), 0);
  EQUAL(c.destroy_pd(pd), 0);
  EQUAL(c.destroy(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY,
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
    EQUAL_FATAL(get_context(*c.file), 0);
    uint32_t pd, uar, cq, qp;
    int channel, async;
    EQUAL_FATAL(c.async_fd(async), 0);
    EQUAL_FATAL(c.comp_channel(channel), 0);
    EQUAL_FATAL(c.alloc_pd(pd), 0);
    EQUAL_FATAL(c.alloc_uar(uar), 0);
    EQUAL_FATAL(r.create_cq(c, uar, channel, 1, cq), 0);
    EQUAL_FATAL(r.create_qp(c, r.driver_part(uar), IB_UVERBS_QPT_RC, pd, cq, qp), 0);
    close(channel);
    close(async);
    c.file.reset();
    c.hca.reset();
    // The adapter keeps a page that was freed for the next round.
    if (i == 0) after_first = open_descriptors();
  }
  EQUAL(open_descriptors(), after_first);
}

void channels_that_the_client_closed_are_forgotten() {
  Client c;
  int before = open_descriptors();
  for (int i = 0; i < 1000; i++) {
    int channel = -1;
    EQUAL_FATAL(c.comp_channel(channel), 0);
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
  EQUAL_FATAL(c.alloc_uar(uar), 0);
  EQUAL_FATAL(c.comp_channel(channel), 0);
  EQUAL_FATAL(r.create_cq(c, uar, channel, 0x1111, cq), 0);
  EQUAL_FATAL(other.create_cq(c, uar, channel, 0x2222, cq2), 0);
  auto raise = [&](uint32_t cqn) {
    kilim::vhca::LockGuard guard(c.hca->lock);
    kilim::test::raise_completion(*c.hca, cqn);
  };
  for (int i = 0; i < 3; i++) raise(r.cqn);
  raise(other.cqn);
  uint64_t event = 0;
  EQUAL(read(channel, &event, sizeof event), 8);
  EQUAL(event, 0x1111);
  ib_uverbs_destroy_cq_resp resp{};
  EQUAL(r.destroy_cq(c, cq, resp), 0);
  EQUAL(resp.comp_events_reported, 1);
  EQUAL(resp.async_events_reported, 0);
  EQUAL(read(channel, &event, sizeof event), 8);
  EQUAL(event, 0x2222);
  pollfd p{channel, POLLIN, 0};
  EQUAL(poll(&p, 1, 0), 0);
  EQUAL(other.destroy_cq(c, cq2, resp), 0);
  EQUAL(resp.comp_events_reported, 1);
  close(channel);
}

void a_fatal_adapter_tells_every_asynchronous_file() {
  Client c;
  int fd[2];
  EQUAL_FATAL(c.async_fd(fd[0]), 0);
  EQUAL_FATAL(c.async_fd(fd[1]), 0);
  {
    kilim::vhca::LockGuard guard(c.hca->lock);
    die(*c.hca);
  }
  for (int f : fd) {
    ib_uverbs_async_event_desc event{};
    EQUAL(read(f, &event, sizeof event), 16);
    EQUAL(event.event_type, 8);  // IBV_EVENT_DEVICE_FATAL
    close(f);
  }
}

void uar_pages_are_mapped_by_their_cookie() {
  Client c;
  uint32_t page = 0;
  uint64_t offset = 0;
  EQUAL_FATAL(c.alloc_uar(page, &offset), 0);
  DeviceFile::Mapping m;
  EQUAL(c.file->mmap({offset, 4096, PROT_WRITE, MAP_SHARED}, m), 0);
  CU_ASSERT(m.map_fd >= 0);
  EQUAL(c.file->mmap({offset, 8192, PROT_WRITE, MAP_SHARED}, m), -EINVAL);
  EQUAL(c.file->mmap({offset, 4096, PROT_WRITE, MAP_PRIVATE}, m), -EINVAL);
  EQUAL(c.file->mmap({offset + 4096, 4096, PROT_WRITE, MAP_SHARED}, m), -EINVAL);
  EQUAL(c.file->mmap({0, 4096, PROT_WRITE, MAP_SHARED}, m), -EINVAL);
  EQUAL(c.file->mmap({~uint64_t{0} << 12, 4096, PROT_WRITE, MAP_SHARED}, m), -EINVAL);
  // Another open of the device does not reach it.
  DeviceFile second(*c.hca);
  EQUAL(get_context(second), 0);
  EQUAL(second.mmap({offset, 4096, PROT_WRITE, MAP_SHARED}, m), -EINVAL);
}

void the_clock_page_is_for_reading() {
  Client c;
  DeviceFile::Mapping m;
  EQUAL(c.file->mmap({0x700000, 4096, PROT_READ | PROT_WRITE, MAP_SHARED}, m), -EPERM);
  EQUAL(c.file->mmap({0x700000, 8192, PROT_READ, MAP_SHARED}, m), -EINVAL);
  EQUAL_FATAL(c.file->mmap({0x700000, 4096, PROT_READ, MAP_SHARED}, m), 0);
  mlx5_ib_clock_info info{};
  EQUAL(pread(m.map_fd, &info, sizeof info, static_cast<off_t>(m.map_offset)),
        static_cast<ssize_t>(sizeof info));
  // A clock of 1 GHz, as Linux describes it (mlx5 lib/clock.c).
  EQUAL(info.mult, uint32_t{1} << 31);
  EQUAL(info.shift, 31);
  EQUAL(info.mask, (uint64_t{1} << 41) - 1);
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
  EQUAL(query(1, 0), 0);
  const uint8_t expected[16]{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x4b, 0x01, 0xff, 0xfe, 2, 3, 4};
  EQUAL(std::memcmp(e.gid, expected, 16), 0);
  EQUAL(e.gid_type, IB_UVERBS_GID_TYPE_ROCE_V2);
  EQUAL(query(1, 1), -ENODATA);
  EQUAL(query(1, 254), -ENODATA);
  EQUAL(query(1, 255), -EINVAL);
  EQUAL(query(2, 0), -EINVAL);
  EQUAL(query(0, 0), -EINVAL);
  ib_uverbs_gid_entry table[4]{};
  uint64_t count = 0;
  EQUAL(Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE)
            .in(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, uint64_t{sizeof e})
            .in(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, uint32_t{0})
            .out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, table)
            .out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, count)
            .run(*c.file),
        0);
  EQUAL(count, 1);
  EQUAL(std::memcmp(table[0].gid, expected, 16), 0);
}

// Linux include/uapi/rdma/ib_user_ioctl_cmds.h of 2026: method 7 of the device, attributes 0 and 1.
void a_port_says_its_speed_in_units_of_100_mbit() {
  Client c;
  const auto query = [&](uint64_t port, auto& speed) {
    return Ioctl(UVERBS_OBJECT_DEVICE, 7).in(0, port).out(1, speed).run(*c.file);
  };
  uint64_t speed = 0;
  uint32_t half = 0;
  EQUAL(query(1, speed), 0);
  ib_uverbs_query_port_resp_ex said{};
  EQUAL(Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT)
            .in(UVERBS_ATTR_QUERY_PORT_PORT_NUM, uint64_t{1})
            .out(UVERBS_ATTR_QUERY_PORT_RESP, said)
            .run(*c.file),
        0);
  EQUAL(said.legacy_resp.active_speed, 32);  // EDR, 25 Gbit/s a lane
  EQUAL(said.legacy_resp.active_width, 2);   // four lanes
  EQUAL(speed, 1000);
  EQUAL(query(0, speed), -EINVAL);
  EQUAL(query(2, speed), -EINVAL);
  EQUAL(query(1ull << 32 | 1, speed), -EINVAL);
  CU_ASSERT(query(1, half) < 0);
}

// A wire that is interface 7 of the machine and carries nothing.
class SeventhInterface final : public Wire {
 public:
  Sent send(std::span<const std::byte>) noexcept override { return Sent::taken; }
  std::span<const std::byte> peek() noexcept override { return {}; }
  void drop() noexcept override {}
  [[nodiscard]] int fd() const noexcept override { return -1; }
  [[nodiscard]] uint32_t mtu() const noexcept override { return 1500; }
  [[nodiscard]] const WireCounters& counters() noexcept override { return counters_; }
  [[nodiscard]] uint32_t interface() const noexcept override { return 7; }

 private:
  WireCounters counters_;
};

uint32_t interface_of_first_gid(Hca& hca) {
  DeviceFile file(hca);
  EQUAL(kilim::test::get_context(file), 0);
  ib_uverbs_gid_entry e{};
  EQUAL(Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY)
            .in(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, uint64_t{1})
            .in(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, uint64_t{0})
            .in(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, uint32_t{0})
            .out(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, e)
            .run(file),
        0);
  return e.netdev_ifindex;
}

void a_gid_names_the_interface_of_its_wire() {
  HcaConfig config;
  config.name = "vhca0";
  config.profile = *kilim::vhca::find_profile("cx6dx");
  config.mac = {0x02, 0x4b, 0x01, 0x02, 0x03, 0x04};
  config.wires.push_back(std::make_unique<SeventhInterface>());
  const auto wired = std::move(*Hca::create(std::move(config)));
  EQUAL(interface_of_first_gid(*wired), 7);
  const auto alone = kilim::test::make_hca();
  EQUAL(interface_of_first_gid(*alone), 0);
}

void a_path_needs_a_gid_and_a_mac() {
  Client c;
  uint32_t pd = 0;
  EQUAL_FATAL(c.alloc_pd(pd), 0);
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
  EQUAL(attempt([](auto& a) { a.is_global = 0; }), -EINVAL);
  EQUAL(attempt([](auto& a) { a.port_num = 2; }), -EINVAL);
  EQUAL(attempt([](auto& a) { a.port_num = 0; }), -EINVAL);
  EQUAL(attempt([](auto& a) { a.grh.sgid_index = 1; }), -ENODATA);
  EQUAL(attempt([](auto& a) { a.grh.sgid_index = 255; }), -EINVAL);
  EQUAL(attempt([](auto&) {}, false), -EINVAL);  // no room for the MAC
  EQUAL(attempt([](auto& a) { a.grh.dgid[11] = 0; }), -EHOSTUNREACH);
  EQUAL(attempt([](auto&) {}), 0);
  const uint8_t mac[6]{0x02, 0x11, 0x22, 3, 4, 5};
  EQUAL(std::memcmp(driver.dmac, mac, 6), 0);
  EQUAL(c.destroy_pd(pd), -EBUSY);
  EQUAL(c.destroy(UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, UVERBS_ATTR_DESTROY_AH_HANDLE,
                  resp.ah_handle),
        0);
  EQUAL(c.destroy_pd(pd), 0);
}

void a_child_after_fork_has_nothing() {
  Client c;
  uint32_t pd;
  EQUAL_FATAL(c.alloc_pd(pd), 0);
  c.file->disown_after_fork();
  c.alone = false;  // the objects are the parent's
  EQUAL(c.destroy_pd(pd), -EIO);
  DeviceFile::Mapping m;
  EQUAL(c.file->mmap({0x700000, 4096, PROT_READ, MAP_SHARED}, m), -EIO);
}

void a_client_that_goes_away_leaves_its_groups() {
  Client c;
  static Rings r;
  uint32_t pd, uar, cq, qp;
  EQUAL_FATAL(r.begin(c, pd, uar, cq), 0);
  EQUAL_FATAL(r.create_qp(c, r.driver_part(uar), IB_UVERBS_QPT_UD, pd, cq, qp), 0);
  ib_uverbs_attach_mcast group{};
  group.gid[0] = 0xff;
  group.qp_handle = qp;
  EQUAL(run_command(c, IB_USER_VERBS_CMD_ATTACH_MCAST, group), 0);
  EQUAL(c.hca->roce.groups.size(), 1);
  c.file.reset();
  CU_ASSERT(c.hca->roce.groups.empty());
  EQUAL(c.hca->qps.count(), 0);
}

// Handles of nothing, and of another kind.
void new_commands_check_their_handles() {
  Client c;
  uint32_t pd;
  EQUAL_FATAL(c.alloc_pd(pd), 0);
  for (uint32_t handle : {pd, 999u, ~0u}) {
    int none = handle == pd ? -EINVAL : -ENOENT;
    ib_uverbs_modify_srq srq{};
    srq.srq_handle = handle;
    EQUAL(run_command(c, IB_USER_VERBS_CMD_MODIFY_SRQ, srq), -EINVAL);
    ib_uverbs_attach_mcast group{};
    group.qp_handle = handle;
    EQUAL(run_command(c, IB_USER_VERBS_CMD_ATTACH_MCAST, group), -EINVAL);
    EQUAL(run_command(c, IB_USER_VERBS_CMD_DETACH_MCAST, group), -EINVAL);
    ib_uverbs_dealloc_mw mw{handle};
    EQUAL(run_command(c, IB_USER_VERBS_CMD_DEALLOC_MW, mw), none);
    ib_uverbs_close_xrcd xrcd{handle};
    EQUAL(run_command(c, IB_USER_VERBS_CMD_CLOSE_XRCD, xrcd), none);
  }
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
    {"a port says its speed in units of 100 Mbit/s", a_port_says_its_speed_in_units_of_100_mbit},
    {"a GID names the interface of its wire", a_gid_names_the_interface_of_its_wire},
    {"a path needs a GID and a MAC", a_path_needs_a_gid_and_a_mac},
    {"a child after fork has nothing", a_child_after_fork_has_nothing},
    {"a client that goes away leaves its groups", a_client_that_goes_away_leaves_its_groups},
    {"new commands check their handles", new_commands_check_their_handles},
};

}  // namespace
}  // namespace objects_ut

KILIM_TEST_MAIN(objects) {
  return kilim::test::run_tables(
      "uverbs: objects", {objects_ut::cases, kilim::test::doorbell_page_cases()}, argc, argv);
}
