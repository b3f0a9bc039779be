// SPDX-License-Identifier: BSD-3-Clause
// drivers/mlx5 over a virtual device: what it says, what it refuses, that it recovers, and that
// nothing is left of what was made and destroyed.
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "case_tables.hh"
#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/umr/umr_wqe.hh"
#include "mlx5_fixture.hh"
#include "rwq_cases.hh"
#include "ut.hh"

namespace device_ut {
namespace {

using namespace kilim;
using test::config;
using test::Loop;
using test::VirtualDevice;

void tells_what_it_is() {
  VirtualDevice v{config("dev0")};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  const device::Caps& caps = v.device->caps();
  EQUAL(v.device->name(), "dev0");
  CU_ASSERT_TRUE(caps.umr);
  CU_ASSERT_TRUE(caps.raw_packet);
  CU_ASSERT_TRUE(caps.atomics);
  CU_ASSERT_TRUE(caps.repeated_block);
  EQUAL(caps.umr_fence, prm::UmrFence::small);
  EQUAL(caps.max_indirection, 4);
  EQUAL(caps.max_key_entries, 65536);
  EQUAL(caps.max_inline_klms, 52);
  EQUAL(caps.max_qp_wr, 32768);
  Result<device::PortInfo> port = v.device->port(1);
  CU_ASSERT_TRUE_FATAL(port.ok());
  CU_ASSERT_TRUE(port->active);
  CU_ASSERT_TRUE(port->ethernet);
  CU_ASSERT_TRUE(port->mtu_bytes >= 1024);
  CU_ASSERT_TRUE(port->speed_mbps > 0);
  CU_ASSERT_TRUE((port->mac != device::MacAddress{}) && (port->mac[0] & 1) == 0);
  CU_ASSERT_FALSE(v.device->port(9).ok());
}

void reads_the_fence() {
  VirtualDevice strong{config("dev1", "strong-fence")};
  VirtualDevice none{config("dev2", "no-fence")};
  CU_ASSERT_TRUE_FATAL(strong.device != nullptr);
  CU_ASSERT_TRUE_FATAL(none.device != nullptr);
  EQUAL(strong.device->caps().umr_fence, prm::UmrFence::strong);
  EQUAL(none.device->caps().umr_fence, prm::UmrFence::none);
}

// What others take for granted of a card: the longest send WQE, blocks of completions, the shortest
// segment that is joined.
void reads_what_may_differ() {
  VirtualDevice usual{config("dev70")}, brief{config("dev71", "short-wqes")},
      late{config("dev72", "long-lro")};
  CU_ASSERT_PTR_NOT_NULL_FATAL(usual.device.get());
  CU_ASSERT_PTR_NOT_NULL_FATAL(brief.device.get());
  CU_ASSERT_PTR_NOT_NULL_FATAL(late.device.get());
  const device::Caps &a = usual.device->caps(), &b = brief.device->caps();
  EQUAL(a.max_send_wqe, 1024);
  EQUAL(a.multi_packet, true);
  EQUAL(a.max_compressed, 128);
  EQUAL(a.lro.min_mss, 1);
  EQUAL(b.max_send_wqe, 512);
  EQUAL(b.max_inline_klms, 24);  // 32 octowords without the 8 of a UMR's head
  EQUAL(b.multi_packet, false);
  EQUAL(late.device->caps().lro.min_mss, 1348);
}

// Without RoCE no GID has the port's address in it.
void an_address_without_roce() {
  VirtualDevice v{config("dev73", "no-roce")};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  Result<device::PortInfo> port = v.device->port(1);
  CU_ASSERT_TRUE_FATAL(port.ok());
  EQUAL(port->mac, v.attached->hca()->config.mac);
  CU_ASSERT_TRUE((port->mac != device::MacAddress{}) && (port->mac[0] & 1) == 0);
}

void without_devx() {
  VirtualDevice v{config("dev3", "no-devx")};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  CU_ASSERT_FALSE(v.device->caps().umr);
  EQUAL(v.device->caps().umr_fence, prm::UmrFence::strong);
  std::array<mr::IndirectMkey, 1> key;
  EQUAL(v.device->keys().create_mkeys(4, key).error().code, EOPNOTSUPP);
  device::RcRequest request;
  request.umr = true;
  EQUAL(v.device->create_rc(request).error().code, EOPNOTSUPP);
}

// Profiles that lack something about lists: the capabilities say so, and what follows is refused.
void reads_the_limits() {
  VirtualDevice full{config("dev20", "long-lists")};
  VirtualDevice plain{config("dev21", "plain-lists")};
  VirtualDevice none{config("dev22", "no-umr-lists")};
  CU_ASSERT_TRUE_FATAL(full.device != nullptr);
  CU_ASSERT_TRUE_FATAL(plain.device != nullptr);
  CU_ASSERT_TRUE_FATAL(none.device != nullptr);
  const prm::UmrLimits f = full.device->caps().umr_limits();
  CU_ASSERT_TRUE(f.indirect_keys);
  CU_ASSERT_TRUE(f.pointer_lists);
  CU_ASSERT_TRUE(f.repeated_block);
  CU_ASSERT_TRUE(f.change_entity);
  CU_ASSERT_TRUE(f.change_atomic);
  CU_ASSERT_TRUE(f.extended_offset);
  EQUAL(f.max_key_entries, 1u << 20);
  EQUAL(f.max_indirection, 4);
  EQUAL(f.max_inline_klms, 52);
  const prm::UmrLimits p = plain.device->caps().umr_limits();
  CU_ASSERT_TRUE(p.indirect_keys);
  CU_ASSERT_TRUE(!p.pointer_lists);
  CU_ASSERT_TRUE(!p.repeated_block);
  CU_ASSERT_TRUE(!p.change_entity);
  CU_ASSERT_TRUE(!p.change_atomic);
  CU_ASSERT_TRUE(!p.extended_offset);
  EQUAL(p.max_key_entries, 256);
  EQUAL(p.max_indirection, 1);
  EQUAL(p.fence, prm::UmrFence::strong);
  CU_ASSERT_FALSE(none.device->caps().umr_limits().indirect_keys);
  std::array<mr::IndirectMkey, 1> key;
  EQUAL(none.device->keys().create_mkeys(4, key).error().code, EOPNOTSUPP);
  EQUAL(plain.device->keys().create_mkeys(257, key).error().code, EINVAL);
  CU_ASSERT_TRUE(plain.device->keys().create_mkeys(256, key).ok());
}

void refuses_queues(device::Device& d) {
  Result<device::OwnedCq> cq = device::create_cq(d, 16);
  CU_ASSERT_TRUE_FATAL(cq.ok());
  device::RcRequest request;
  request.queues = {.send_cq = (*cq)->handle, .recv_cq = (*cq)->handle, .send_wqebbs = 40000};
  EQUAL(d.create_rc(request).error().code, EINVAL);
  request.queues.send_wqebbs = 100;
  Result<device::OwnedQp> qp = device::create_rc(d, request);
  CU_ASSERT_TRUE_FATAL(qp.ok());
  EQUAL((*qp)->sq.wqebb_count, 128);
  EQUAL((*qp)->rq.wqe_count, 0);
  EQUAL(d.destroy_cq((*cq)->handle).error().code, EBUSY);
  EQUAL(d.add_flow((*qp)->handle, {}).error().code, EINVAL);
}

void refuses() {
  EQUAL(mlx5::open("no_such_device").error().code, ENODEV);
  VirtualDevice v{config("dev4")};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  device::Device& d = *v.device;
  std::array<mr::IndirectMkey, 2> keys;
  EQUAL(d.keys().create_mkeys(65537, keys).error().code, EINVAL);
  EQUAL(d.keys().create_mkeys(0, keys).error().code, EINVAL);
  EQUAL(d.create_cq(0).error().code, EINVAL);
  EQUAL(d.create_cq(~0u).error().code, EINVAL);
  EQUAL(d.destroy_cq(device::CqHandle{99}).error().code, EINVAL);
  EQUAL(d.destroy_qp(device::QpHandle{99}).error().code, EINVAL);
  EQUAL(d.create_rc({}).error().code, EINVAL);
  auto* nowhere = reinterpret_cast<std::byte*>(uintptr_t{4096});
  EQUAL(d.registrar().register_memory({nowhere, 4096}, mr::Access::local, 4096).error().code,
        EFAULT);
  refuses_queues(d);
}

// Each entry of a new ring has the owner bit that the first pass has not: a poll sees it is empty.
void a_new_ring() {
  VirtualDevice v{config("dev9")};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  for (const uint32_t bytes : {64u, 128u}) {
    auto cq = device::create_cq(*v.device, {.entries = 16, .cqe_bytes = bytes});
    CU_ASSERT_TRUE_FATAL(cq.ok());
    const queue::CqGeometry& ring = (*cq)->geometry;
    EQUAL(ring.cqe_bytes, bytes);
    uint32_t preset = 0;
    for (uint32_t i = 1; i <= ring.cqe_count; i++)
      if (ring.buf[std::size_t{i} * bytes - 1] == std::byte{0xf1}) preset++;
    EQUAL(preset, ring.cqe_count);
  }
}

// From the first page to the second, through the region.
void copy_a_page(Loop& loop, const mr::Region& r, std::span<std::byte> memory) {
  std::memset(memory.data(), 0x5a, 4096);
  queue::WqeCursor c{*loop.sq};
  const queue::Sge from{r.iova, 4096, r.lkey};
  CU_ASSERT_TRUE(queue::rdma_write(c, {r.iova + 4096, r.rkey}, from,
                                   {.id = 11, .flags = queue::WrFlags::signalled}));
  c.commit();
  const auto done = loop.wait(*loop.send_cq);
  CU_ASSERT_TRUE_FATAL(done.has_value());
  CU_ASSERT_TRUE(done->ok());
  EQUAL(loop.sq->retire(done->wqe_counter), 11);
  EQUAL(std::memcmp(memory.data(), memory.data() + 4096, 4096), 0);
}

void regions() {
  VirtualDevice v{config("dev5")};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  Loop loop{*v.device, mr::Access::all};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  std::vector<std::byte> pages(3 * 4096);
  std::byte* first =
      pages.data() + (4096 - reinterpret_cast<uintptr_t>(pages.data()) % 4096) % 4096;
  const std::span<std::byte> memory{first, 8192};
  mr::Registrar& registrar = v.device->registrar();
  Result<mr::Region> r =
      registrar.register_memory_at(memory, Iova{0x7000'0000'0000}, mr::Access::all, 4096);
  CU_ASSERT_TRUE_FATAL(r.ok());
  EQUAL(r->iova, 0x7000'0000'0000u);
  copy_a_page(loop, *r, memory);
  const Iova elsewhere_in_page{0x7000'0000'0001};
  EQUAL(registrar.register_memory_at(memory, elsewhere_in_page, mr::Access::all, 4096).error().code,
        EINVAL);
  CU_ASSERT_TRUE(registrar.deregister(*r).ok());
  EQUAL(registrar.deregister(*r).error().code, EINVAL);
}

void use_fail_recover(Loop& loop, std::span<std::byte> memory, const umr::ListRequest& request,
                      const umr::Piece& piece, const queue::Remote& to) {
  const queue::Sge through_key{0, 100, request.key};
  std::memset(memory.data() + 1000, 0, 100);
  queue::WqeCursor c{*loop.sq};
  CU_ASSERT_TRUE(umr::umr_list(c, request, umr::View::of({&piece, 1}), {}).ok());
  CU_ASSERT_TRUE(queue::rdma_write(c, to, through_key, {.flags = queue::WrFlags::signalled}));
  const uint8_t behind_use =
      umr::FencePlanner{prm::UmrFence::small}.before_umr(umr::MkeyUse::in_flight);
  CU_ASSERT_TRUE(umr::local_invalidate(c, request.key, {.flags = behind_use}).ok());
  CU_ASSERT_TRUE(queue::rdma_write(c, to, through_key, {.id = 9}));
  CU_ASSERT_TRUE(queue::send(c, through_key, {.id = 10}));
  c.commit();
  auto done = loop.wait(*loop.send_cq);
  CU_ASSERT_TRUE_FATAL(done.has_value());
  CU_ASSERT_TRUE_FATAL(done->ok());
  EQUAL(memory[1099], std::byte{7});
  done = loop.wait(*loop.send_cq);
  CU_ASSERT_TRUE_FATAL(done.has_value());
  EQUAL(done->syndrome, prm::Syndrome::local_prot);
  EQUAL(loop.sq->retire(done->wqe_counter), 9);
  done = loop.wait(*loop.send_cq);
  CU_ASSERT_TRUE_FATAL(done.has_value());
  EQUAL(done->syndrome, prm::Syndrome::wr_flush);
  EQUAL(loop.sq->retire(done->wqe_counter), 10);
  CU_ASSERT_TRUE(loop.sq->idle());
  CU_ASSERT_TRUE_FATAL(loop.recover());
}

// A key is used, invalidated, refused, and after the recovery bound anew.
void recovers_from_an_error() {
  VirtualDevice v{config("dev6")};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  Loop loop{*v.device, mr::Access::all};
  CU_ASSERT_TRUE_FATAL(loop.ok());
  std::vector<std::byte> memory(4096, std::byte{7});
  Result<mr::Mr> mr = mr::Mr::create(v.device->registrar(), memory, mr::Access::all, 4096);
  CU_ASSERT_TRUE_FATAL(mr.ok());
  const mr::Region& r = mr->region();
  std::array<mr::IndirectMkey, 1> key;
  CU_ASSERT_TRUE_FATAL(v.device->keys().create_mkeys(4, key).ok());
  const umr::Piece piece{r.iova, 100, r.lkey};
  const umr::ListRequest request{.key = key[0].lkey,
                                 .max_entries = 4,
                                 .new_tag = tag_of(key[0].lkey),
                                 .access = umr::mkey_access(mr::Access::all)};
  const queue::Remote to{r.iova + 1000, r.rkey};
  for (int round = 0; round < 3; round++) {
    use_fail_recover(loop, memory, request, piece, to);
  }
}

void raw_packets() {
  VirtualDevice v{config("dev7")};
  CU_ASSERT_PTR_NOT_NULL_FATAL(v.device.get());
  device::Device& d = *v.device;
  Result<device::OwnedCq> cq = device::create_cq(d, 64);
  CU_ASSERT_TRUE_FATAL(cq.ok());
  const device::QpRequest request{
      .send_cq = (*cq)->handle, .recv_cq = (*cq)->handle, .send_wqebbs = 64, .recv_wrs = 32};
  Result<device::OwnedQp> qp = device::create_raw_packet(d, request, 1);
  CU_ASSERT_TRUE_FATAL(qp.ok());
  EQUAL((*qp)->sq.wqebb_count, 64);
  EQUAL((*qp)->rq.wqe_count, 32);
  EQUAL((*qp)->rq.stride, 16);
  using Kind = device::FlowRule::Kind;
  for (Kind kind : {Kind::all, Kind::unicast, Kind::multicast, Kind::broadcast}) {
    Result<device::FlowHandle> flow =
        d.add_flow((*qp)->handle, {.kind = kind, .mac = {2, 0, 0, 0, 0, 1}});
    CU_ASSERT_TRUE_FATAL(flow.ok());
    CU_ASSERT_TRUE(d.remove_flow(*flow).ok());
    EQUAL(d.remove_flow(*flow).error().code, EINVAL);
  }
  CU_ASSERT_TRUE(d.reset((*qp)->handle).ok());
  CU_ASSERT_FALSE(d.endpoint((*qp)->handle).ok());
}

std::size_t open_files() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& f : std::filesystem::directory_iterator{"/proc/self/fd"}) n++;
  return n;
}

void thousand_rounds() {
  DeviceSpec c = config("dev8");
  Result<vhca::entry::Attached*> attached = vhca::entry::attach(c);
  CU_ASSERT_TRUE_FATAL(attached.ok());
  std::size_t files = 0;
  std::vector<std::byte> memory(4096);
  for (int round = 0; round < 1000; round++) {
    auto d = mlx5::open("dev8");
    CU_ASSERT_TRUE_FATAL(d.ok());
    Loop loop{**d, mr::Access::all};
    CU_ASSERT_TRUE_FATAL(loop.ok());
    Result<mr::Mr> mr = mr::Mr::create((*d)->registrar(), memory, mr::Access::all, 4096);
    std::array<mr::IndirectMkey, 4> keys;
    CU_ASSERT_TRUE_FATAL(mr.ok());
    CU_ASSERT_TRUE_FATAL((*d)->keys().create_mkeys(8, keys).ok());
    if (round % 2 != 0) (*d)->keys().destroy_mkeys(keys);
    if (round == 10) files = open_files();
    if (round > 10) EQUAL_FATAL(open_files(), files);
  }
}

const kilim::test::Case cases[] = {
    {"a device tells its capabilities and its port", tells_what_it_is},
    {"the fence after a UMR is read from the device", reads_the_fence},
    {"limits that may differ are read from the device", reads_what_may_differ},
    {"a port without RoCE has its address", an_address_without_roce},
    {"without DevX there are no indirect keys", without_devx},
    {"limits of lists are read from the device", reads_the_limits},
    {"what cannot be made is refused", refuses},
    {"a new completion ring says that it is empty", a_new_ring},
    {"a region may have addresses of its own", regions},
    {"a connection recovers from an error and keys are bound anew", recovers_from_an_error},
    {"raw packet queues and every kind of flow rule", raw_packets},
    {"a thousand rounds of open, create and destroy leave nothing", thousand_rounds},
};

}  // namespace
}  // namespace device_ut

KILIM_TEST_MAIN(device) {
  return kilim::test::run_tables(
      "mlx5/device", {device_ut::cases, kilim::test::rwq_cases(), kilim::test::event_cases()}, argc,
      argv);
}
