// SPDX-License-Identifier: BSD-3-Clause
// Owners of queues over a device that only counts.
#include <cerrno>
#include <cstdlib>

#include "kilim/detail/device/owned.hh"
#include "ut.hh"

namespace owned_ut {
namespace {

using namespace kilim;
using namespace kilim::device;

class Counting final : public Device {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "counting"; }
  [[nodiscard]] const Caps& caps() const noexcept override { return caps_; }
  [[nodiscard]] int numa_node() const noexcept override { return -1; }
  Result<PortInfo> port(uint8_t) override { return PortInfo{}; }
  mr::Registrar& registrar() noexcept override { std::abort(); }
  mr::MkeySource& keys() noexcept override { std::abort(); }
  mr::WindowSource& windows() noexcept override { std::abort(); }
  Result<CqInfo> create_cq(const CqRequest&) override {
    cqs++;
    return CqInfo{};
  }
  Result<SrqInfo> create_srq(const SrqRequest&) override {
    srqs++;
    return SrqInfo{.handle = SrqHandle{6}, .geometry = {}};
  }
  Status destroy_srq(SrqHandle srq) override {
    EQUAL(srq, SrqHandle{6});
    srqs--;
    return Done{};
  }
  Status destroy_cq(CqHandle) override {
    cqs--;
    return Done{};
  }
  Result<QpInfo> create_rc(const RcRequest&) override {
    qps++;
    return QpInfo{.handle = QpHandle{5}, .qpn = Qpn{77}};
  }
  Result<QpInfo> create_uc(const UcRequest&) override {
    qps++;
    return QpInfo{.handle = QpHandle{5}, .qpn = Qpn{77}};
  }
  Result<Endpoint> endpoint(QpHandle) override { return Endpoint{.qpn = Qpn{77}}; }
  Status connect(QpHandle qp, const Endpoint& peer) override {
    if (refuse_connect) return Error{ENETUNREACH, "no way"};
    EQUAL(qp, QpHandle{5});
    EQUAL(peer.qpn, Qpn{77});
    return Done{};
  }
  Result<QpInfo> create_raw_packet(const QpRequest&, uint8_t) override {
    return Error{EPERM, "not allowed"};
  }
  Result<FlowHandle> add_flow(QpHandle, const FlowRule&) override { return FlowHandle{1}; }
  Status remove_flow(FlowHandle) override { return Done{}; }
  Status reset(QpHandle) override { return Done{}; }
  Status fail(QpHandle) override { return Done{}; }
  Status destroy_qp(QpHandle qp) override {
    EQUAL(qp, QpHandle{5});
    qps--;
    return Done{};
  }
  [[nodiscard]] bool lost() noexcept override { return false; }
  void progress() noexcept override {}

  int cqs = 0;
  int qps = 0;
  int srqs = 0;
  bool refuse_connect = false;

 private:
  Caps caps_;
};

void destroys_once() {
  Counting device;
  {
    Result<OwnedCq> a = create_cq(device, 8);
    Result<OwnedCq> b = create_cq(device, 8);
    OwnedCq c = std::move(*a);
    c = std::move(*b);
    EQUAL(device.cqs, 1);
    c.destroy();
    EQUAL(device.cqs, 0);
    CU_ASSERT_FALSE(static_cast<bool>(c));
  }
  EQUAL(device.cqs, 0);
}

void loopback() {
  Counting device;
  {
    Result<OwnedQp> qp = create_rc_loopback(device, {});
    CU_ASSERT_TRUE_FATAL(qp.ok());
    EQUAL((*qp)->qpn, Qpn{77});
    EQUAL(device.qps, 1);
  }
  EQUAL(device.qps, 0);
  device.refuse_connect = true;
  EQUAL(create_rc_loopback(device, {}).error().code, ENETUNREACH);
  EQUAL(device.qps, 0);
  EQUAL(create_raw_packet(device, {}, 1).error().code, EPERM);
}

void other_kinds() {
  Counting device;
  {
    Result<OwnedSrq> srq = create_srq(device, {.recv_wrs = 8});
    Result<OwnedQp> qp = create_uc(device, {});
    Result<OwnedCq> cq = create_cq(device, {.entries = 8, .cqe_bytes = 128});
    CU_ASSERT_TRUE(srq.ok());
    CU_ASSERT_TRUE(qp.ok());
    CU_ASSERT_TRUE(cq.ok());
    EQUAL(device.srqs, 1);
    EQUAL(device.qps, 1);
    EQUAL(device.cqs, 1);
  }
  EQUAL(device.srqs, 0);
  EQUAL(device.qps, 0);
  EQUAL(device.cqs, 0);
}

const kilim::test::Case cases[] = {
    {"a queue is destroyed once, also when moved", destroys_once},
    {"a loopback that cannot be connected leaves nothing behind", loopback},
    {"shared receive queues and unreliable connections are owned alike", other_kinds},
};

}  // namespace
}  // namespace owned_ut

KILIM_TEST_SUITE(owned, owned_ut::cases)
