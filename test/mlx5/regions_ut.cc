// SPDX-License-Identifier: BSD-3-Clause
// Regions of every kind through drivers/mlx5 on a virtual device: what each permits is tried by
// RDMA.
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "kilim/detail/mem/block.hh"
#include "region_fixture.hh"
#include "ut.hh"

namespace regions_ut {
namespace {

using namespace kilim;
using mr::Access;
using mr::Mr;
using mr::OdpOperation;
using mr::OdpTransport;
using mr::Region;
using mr::ReregOutcome;
using test::config;
using test::page;
using test::Pages;
using test::Peer;
using test::VirtualDevice;

bool says(const Error& e, const char* words) {
  const bool said = std::strstr(e.what, words) != nullptr;
  if (!said) std::printf("said: %s\n", e.what);
  return said;
}

VirtualDevice& shared() {
  static VirtualDevice* v = new VirtualDevice(config("region0"));
  return *v;
}

void capabilities_of_paging() {
  const mr::OdpCaps& odp = shared().device->caps().odp;
  CU_ASSERT(odp.supported);
  CU_ASSERT(odp.implicit);
  EQUAL(odp.of(OdpTransport::rc), 0x3fu);
  EQUAL(odp.of(OdpTransport::xrc), 0x3fu);
  EQUAL(odp.of(OdpTransport::dc), 0x3fu);
  EQUAL(odp.of(OdpTransport::ud), OdpOperation::send);
  EQUAL(odp.of(OdpTransport::uc), 0u);
  CU_ASSERT_FALSE(odp.of(OdpTransport::raw_ethernet).has_value());
  EQUAL(mr::odp_table(odp).c_str(),
        "on-demand paging: general: SUPPORT SUPPORT_IMPLICIT\n"
        "  RC            SEND      RECV      WRITE     READ      ATOMIC    SRQ_RECV\n"
        "  UC            -         -         -         -         -         -\n"
        "  UD            SEND      -         -         -         -         -\n"
        "  DC            SEND      RECV      WRITE     READ      ATOMIC    SRQ_RECV\n"
        "  XRC           SEND      RECV      WRITE     READ      ATOMIC    SRQ_RECV\n"
        "  raw Ethernet  not reported\n");
  // Without DevX the firmware's word about DC cannot be had.
  VirtualDevice silent{config("region1", "no-devx")};
  CU_ASSERT_FATAL(silent.device != nullptr);
  CU_ASSERT_FALSE(silent.device->caps().odp.of(OdpTransport::dc).has_value());
  CU_ASSERT(silent.device->caps().odp.of(OdpTransport::rc).has_value());
}

void transports_are_told_apart() {
  VirtualDevice less{config("region4", "less-odp")};
  CU_ASSERT_FATAL(less.device != nullptr);
  const mr::OdpCaps& odp = less.device->caps().odp;
  EQUAL(odp.of(OdpTransport::rc), 0x2fu);
  EQUAL(odp.of(OdpTransport::xrc), 0x2du);
  EQUAL(odp.of(OdpTransport::dc), 0x2du);
  Pages memory(1);
  mr::Registrar& registrar = less.device->registrar();
  const std::array rc{mr::OdpUse{OdpTransport::rc, OdpOperation::recv}};
  CU_ASSERT(Mr::create_on_demand(registrar, memory.span(), Access::all, rc).ok());
  const std::array xrc{mr::OdpUse{OdpTransport::xrc, OdpOperation::recv}};
  const auto refused = registrar.register_on_demand(memory.span(), Access::all, xrc);
  CU_ASSERT(!refused && says(refused.error(), "XRC RECV"));
}

void windows_are_told() {
  CU_ASSERT(shared().device->caps().memory_window_type1);
  CU_ASSERT(shared().device->caps().memory_window_type2b);
  VirtualDevice vf{config("region2", "vf")};
  CU_ASSERT_FATAL(vf.device != nullptr);
  CU_ASSERT_FALSE(vf.device->caps().memory_window_type1 || vf.device->caps().memory_window_type2b);
}

void missing_bits_are_named() {
  VirtualDevice without{config("region3", "no-odp")};
  CU_ASSERT_FATAL(without.device != nullptr);
  Pages memory(1);
  auto r = without.device->registrar().register_on_demand(memory.span(), Access::all, {});
  CU_ASSERT(!r && r.error().code == EOPNOTSUPP && says(r.error(), "general capability SUPPORT"));
  r = without.device->registrar().register_implicit(Access::all, {});
  CU_ASSERT(!r && r.error().code == EOPNOTSUPP && says(r.error(), "general capability SUPPORT"));
  mr::OdpCaps only_explicit;
  only_explicit.supported = true;
  Status s = mr::odp_refusal(only_explicit, true, {});
  CU_ASSERT(!s && says(s.error(), "SUPPORT_IMPLICIT"));
  mr::Registrar& registrar = shared().device->registrar();
  const std::array uses{mr::OdpUse{OdpTransport::rc, 0x3f},
                        mr::OdpUse{OdpTransport::uc, OdpOperation::write}};
  r = registrar.register_on_demand(memory.span(), Access::all, uses);
  CU_ASSERT(!r && r.error().code == EOPNOTSUPP && says(r.error(), "UC WRITE"));
  const std::array raw{mr::OdpUse{OdpTransport::raw_ethernet, OdpOperation::srq_recv}};
  r = registrar.register_implicit(Access::all, raw);
  CU_ASSERT(!r && says(r.error(), "raw Ethernet SRQ_RECV"));
  const std::array nonsense{mr::OdpUse{OdpTransport::rc, 1u << 9}};
  EQUAL(registrar.register_implicit(Access::all, nonsense).error().code, EINVAL);
  const std::array rc{mr::OdpUse{OdpTransport::rc, 0x3f}};
  auto good = Mr::create_on_demand(registrar, memory.span(), Access::all, rc);
  CU_ASSERT(good.ok());
}

void explicit_region_needs_no_memory_yet() {
  Peer peer{*shared().device};
  CU_ASSERT_FATAL(peer.ok());
  Pages memory(2);
  ::mmap(memory.data(), 2 * page, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mr::Registrar& registrar = shared().device->registrar();
  EQUAL(registrar.register_memory(memory.span(), Access::all, page).error().code, EFAULT);
  auto m = Mr::create_on_demand(registrar, memory.span(), Access::all);
  CU_ASSERT_FATAL(m.ok());
  const Region& r = m->region();
  EQUAL(r.kind, mr::Kind::on_demand);
  CU_ASSERT(r.paged());
  EQUAL(r.entries, 2);
  EQUAL(r.node, -1);
  EQUAL(r.page_bytes, page);
  CU_ASSERT((r.access & Access::on_demand) != 0);
  CU_ASSERT_FALSE(peer.write(r.iova, r.rkey));
  ::mprotect(memory.data(), 2 * page, PROT_READ | PROT_WRITE);
  peer.own.data()[3] = std::byte{42};
  CU_ASSERT(peer.write(r.iova + page, r.rkey));
  EQUAL(memory.data()[page + 3], std::byte{42});
  EQUAL(
      registrar.register_memory(memory.span(), Access::all | Access::on_demand, page).error().code,
      EINVAL);
}

void implicit_region_is_everything() {
  Peer peer{*shared().device};
  CU_ASSERT_FATAL(peer.ok());
  auto m = Mr::create_implicit(shared().device->registrar(), Access::all);
  CU_ASSERT_FATAL(m.ok());
  const Region& r = m->region();
  EQUAL(r.kind, mr::Kind::implicit);
  EQUAL(r.address, 0);
  EQUAL(r.length, UINT64_MAX);
  EQUAL(r.entries, 0);
  CU_ASSERT(r.covers(~uint64_t{0} - 1, 1));
  Pages later(1);
  peer.own.data()[0] = std::byte{7};
  CU_ASSERT(peer.write(reinterpret_cast<uintptr_t>(later.data()), r.rkey));
  EQUAL(later.data()[0], std::byte{7});
  CU_ASSERT(peer.gather(reinterpret_cast<uintptr_t>(later.data()), r.lkey));
}

void translations_are_counted() {
  EQUAL(mr::translation_entries(4096, 4096, 4096), 1);
  EQUAL(mr::translation_entries(4095, 2, 4096), 2);
  EQUAL(mr::translation_entries(100, 1, 4096), 1);
  EQUAL(mr::translation_entries(0, 0, 4096), 0);
  EQUAL(mr::translation_entries(uint64_t{1} << 30, uint64_t{1} << 30, 1u << 30), 1);
  EQUAL(mr::translation_entries(uint64_t{1} << 30, uint64_t{1} << 30, 2u << 20), 512);
  Pages memory(3);
  auto r = Mr::create(shared().device->registrar(), memory.span().subspan(100, 2 * page),
                      Access::all, page);
  CU_ASSERT_FATAL(r.ok());
  EQUAL(r->region().entries, 3);
  EQUAL(r->region().kind, mr::Kind::pinned);
  EQUAL(r->region().node, mem::node_of(memory.data()));
}

const kilim::test::Case cases[] = {
    {"paging's capabilities are told by transport and operation", capabilities_of_paging},
    {"what one transport pages is not told of another", transports_are_told_apart},
    {"memory windows are told, and a virtual function has none", windows_are_told},
    {"a paged region the device cannot serve is refused by the missing bit's name",
     missing_bits_are_named},
    {"an explicit on-demand region needs no mapping at registration time",
     explicit_region_needs_no_memory_yet},
    {"an implicit on-demand region is the whole address space", implicit_region_is_everything},
    {"a region knows how many translations its pages need", translations_are_counted},
};

}  // namespace
}  // namespace regions_ut

KILIM_TEST_SUITE(regions, regions_ut::cases)
