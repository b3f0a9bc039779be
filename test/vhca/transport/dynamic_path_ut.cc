// SPDX-License-Identifier: BSD-3-Clause
// Dynamic connections: what makes one, and who may have any.
#include <cerrno>
#include <cstddef>

#include "dynamic_fixture.hh"
#include "ut.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace dynamic_path_ut {
namespace {

void another_key_is_another_connection() {
  Pair p;
  Target t(p.w.right);
  Initiator ini(p.w.left);
  const uint32_t rkey = p.far_key.rkey.value();
  CU_ASSERT(good(p.post(ini, p.write(t, 0, 0, 100, rkey))));
  Wqe other = Pair::to(t, Opcode::rdma_write, 0, good_key ^ 1)
                  .raddr(p.far.at(0), rkey)
                  .data(p.near.at(100), 100, p.near_key.lkey.value());
  CU_ASSERT(failed(p.post(ini, other), Syndrome::remote_access));
  CU_ASSERT(p.same(0, 0, 100));
}

void another_traffic_class_is_another_connection() {
  Pair p;
  Target t(p.w.right);
  Initiator ini(p.w.left);
  const wq::Qp& qp = *p.w.left.hca->qps.at(ini.qp.qpn.value());
  uint64_t sessions[3] = {};
  constexpr uint8_t classes[3] = {0x20, 0x20, 0x60};
  for (std::size_t n = 0; n < 3; n++) {
    Wqe w = p.write(t, n * 100, n * 100, 100, p.far_key.rkey.value());
    w.bytes[16 + offsetof(prm::AvSeg, tclass)] = std::byte{classes[n]};
    CU_ASSERT(good(p.post(ini, w)));
    CU_ASSERT(p.same(n * 100, n * 100, 100));
    EQUAL(qp.attr.path.traffic_class, classes[n]);
    sessions[n] = qp.rc->session;
  }
  EQUAL(sessions[0], sessions[1]);
  CU_ASSERT(sessions[1] < sessions[2]);
}

void an_initiator_receives_nothing() {
  Pair p;
  Initiator ini(p.w.left);
  QpSpec spec = p.w.left.hca->qps.at(ini.qp.qpn.value())->spec;
  CU_ASSERT(hca::create_qp(*p.w.left.hca, spec, nullptr).ok());
  spec.rq_wqes = 4;
  spec.rq_wqe_shift = 6;
  const Result<Qpn> made = hca::create_qp(*p.w.left.hca, spec, nullptr);
  CU_ASSERT(!made.ok() && made.error().code == EINVAL);
}

void only_a_target_takes_dynamic_requests() {
  Pair p;
  Target t(p.w.left);
  t.qpn = p.w.left.a.qpn;  // a queue of another type
  Initiator ini(p.w.left, {.retry_cnt = 1});
  CU_ASSERT(failed(p.post(ini, p.send(t, 0, 10, 0)), Syndrome::transport_retry_exc));
}

void a_request_leaves_by_a_gid_of_the_port() {
  Pair p;
  for (Rig* where : {&p.w.right, &p.w.left}) {
    Target t(*where);
    Initiator ini(p.w.left);
    Wqe w = p.send(t, 0, 10);
    constexpr std::size_t at = 16 + offsetof(prm::AvSeg, grh_gid_fl);
    w.bytes[at] |= std::byte{0x0f};  // source GID 255
    w.bytes[at + 1] |= std::byte{0xf0};
    CU_ASSERT(failed(p.post(ini, w), Syndrome::local_qp_op));
  }
}

constexpr Case cases[] = {
    {"another key is another connection", another_key_is_another_connection},
    {"another traffic class is another connection", another_traffic_class_is_another_connection},
    {"an initiator receives nothing", an_initiator_receives_nothing},
    {"only a target takes dynamic requests", only_a_target_takes_dynamic_requests},
    {"a request leaves by a GID of the port", a_request_leaves_by_a_gid_of_the_port},
};

}  // namespace
}  // namespace dynamic_path_ut

KILIM_TEST_SUITE(dynamic_path, dynamic_path_ut::cases)
