// SPDX-License-Identifier: BSD-3-Clause
// Part of engine_ut. Objects of an adapter: those that are in use stay, those that go leave nothing
// behind, their numbers and sizes.
#include "engine_cases.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {
namespace engine_lives {
namespace {

void objects_in_use_stay() {
  Rig rig;
  EQUAL(hca::destroy_cq(*rig.hca, rig.cq_a.cqn), -EBUSY);
  EQUAL(hca::dealloc_pd(*rig.hca, rig.pd), -EBUSY);
  EQUAL(rig.hca->uars.free(rig.uar_page), -EBUSY);
  EQUAL(hca::destroy_qp(*rig.hca, rig.a.qpn), 0);
  EQUAL(hca::destroy_cq(*rig.hca, rig.cq_a.cqn), 0);
  EQUAL(hca::destroy_qp(*rig.hca, rig.a.qpn), -EINVAL);
  EQUAL(hca::destroy_cq(*rig.hca, rig.cq_a.cqn), -EINVAL);
  Pages p(4096);
  MrKeys k = rig.reg(p, 0);
  EQUAL(hca::destroy_qp(*rig.hca, rig.b.qpn), 0);
  EQUAL(hca::destroy_cq(*rig.hca, rig.cq_b.cqn), 0);
  EQUAL(hca::dealloc_pd(*rig.hca, rig.pd), -EBUSY);
  EQUAL(hca::dereg_mr(*rig.hca, index_of(k.lkey)), 0);
  EQUAL(hca::dereg_mr(*rig.hca, index_of(k.lkey)), -EINVAL);
  CU_ASSERT(hca::dealloc_pd(*rig.hca, rig.pd) == 0 && rig.hca->uars.free(rig.uar_page) == 0);
  CU_ASSERT(rig.hca->uars.free(rig.uar_page) == -EINVAL &&
            hca::dealloc_pd(*rig.hca, rig.pd) == -EINVAL);
}

void a_thousand_lives() {
  Rig rig;
  Pages p(8192), ring(8192), record(4096);
  for (int i = 0; i < 1000; i++) {
    Pdn pd = *hca::alloc_pd(*rig.hca);
    const hca::Uar& uar = **rig.hca->uars.alloc();
    CqSpec cq;
    cq.buf = p.va();
    cq.record = record.va();
    cq.cqe_count = 8;
    cq.uar_page = uar.index;
    Cqn cqn = *hca::create_cq(*rig.hca, cq, &rig.events);
    QpSpec qp;
    qp.pd = pd;
    qp.send_cq = qp.recv_cq = cqn;
    qp.buf = ring.va();
    qp.record = Va{record.at(64)};
    qp.sq_wqebbs = 16;
    qp.rq_wqes = 16;
    qp.rq_wqe_shift = 4;
    qp.uar_page = uar.index;
    Result<Qpn> qpn = hca::create_qp(*rig.hca, qp, &rig.events);
    CU_ASSERT_FATAL(qpn.ok());
    MrKeys k = *hca::reg_mr(*rig.hca, {pd, p.va(), 4096, Iova{p.at(0)}, rw_access});
    uint32_t key = rig.make_key(64);
    EQUAL(hca::dereg_mr(*rig.hca, MkeyIndex{key >> 8}), 0);
    EQUAL(hca::dereg_mr(*rig.hca, index_of(k.lkey)), 0);
    EQUAL(hca::destroy_qp(*rig.hca, *qpn), 0);
    EQUAL(hca::destroy_cq(*rig.hca, cqn), 0);
    CU_ASSERT(rig.hca->uars.free(uar.index) == 0 && hca::dealloc_pd(*rig.hca, pd) == 0);
  }
  EQUAL(rig.hca->uars.pages().size(), 2);
  rig.a.put(Wqe(Opcode::nop));
  rig.a.ring(rig.uar);
  rig.run();
  CU_ASSERT(rig.cq_a.poll().has_value());
}

void numbers_depend_on_the_seed() {
  Rig x({.seed = 1}), y({.seed = 2}), z({.seed = 1});
  CU_ASSERT(x.make_key(4) != y.make_key(4));
  CU_ASSERT(x.a.qpn != y.a.qpn);
  EQUAL(z.a.qpn, x.a.qpn);
}

// A shift that is no size: 1 << 36 must not pass for 16.
void sizes_of_receive_requests_are_bounded() {
  Rig rig;
  QpSpec qp;
  qp.pd = rig.pd;
  qp.send_cq = qp.recv_cq = rig.cq_a.cqn;
  qp.buf = rig.a.rings.va();
  qp.record = rig.a.record.va();
  qp.uar_page = rig.uar_page;
  for (uint32_t shift : {3u, 32u, 36u, 64u, 68u, ~0u}) {
    qp.rq_wqes = 1;
    qp.rq_wqe_shift = shift;
    Result<Qpn> made = hca::create_qp(*rig.hca, qp, &rig.events);
    CU_ASSERT(!made && made.error().code == EINVAL);
    qp.rq_wqes = 0;
    made = hca::create_qp(*rig.hca, qp, &rig.events);
    CU_ASSERT_FATAL(made.ok());
    EQUAL(hca::destroy_qp(*rig.hca, *made), 0);
  }
}

const kilim::test::Case life_cases[] = {
    {"objects in use stay", objects_in_use_stay},
    {"a thousand lives", a_thousand_lives},
    {"numbers depend on the seed", numbers_depend_on_the_seed},
    {"sizes of receive requests are bounded", sizes_of_receive_requests_are_bounded},
};

}  // namespace
}  // namespace engine_lives

std::span<const kilim::test::Case> engine_life_cases() {
  return engine_lives::life_cases;
}

}  // namespace kilim::vhca::test
