// SPDX-License-Identifier: BSD-3-Clause
// Part of rc_loopback_ut. SEND with invalidate: which keys a peer may invalidate, and which not
// (IBTA 10.6.5).
#include "rc_loopback_fixture.hh"
#include "vhca/hca/hca.hh"

namespace kilim::vhca::test {
namespace rc_invalidate_ut {
namespace {

using prm::CqeOpcode;

void a_send_can_invalidate_a_key() {
  Bench t;
  uint32_t key = t.rig.make_key(4, true, true);
  std::array<prm::Klm, 1> list = {klm(t.dst.at(0), 256, t.kd.lkey.value())};
  UmrShape shape;
  shape.len = 256;
  EQUAL(t.rig.run_one(t.rig.a, umr_wqe(key, shape, list)).op, CqeOpcode::req);
  t.rig.b.recv(t.dst.at(4096), 64, t.kd.lkey.value());
  Wqe w(Opcode::send_inval, key);
  w.data(t.src.at(0), 8, t.ks.lkey.value());
  EQUAL(t.rig.run_one(t.rig.a, w).op, CqeOpcode::req);
  std::optional<Completion> r = t.rig.cq_b.poll();
  CU_ASSERT(r && r->op == CqeOpcode::resp_send_inv && r->imm == key);
  Wqe use(Opcode::rdma_write);
  use.raddr(0, key).data(t.src.at(0), 8, t.ks.lkey.value());
  EQUAL(t.rig.run_one(t.rig.a, use).syndrome, prm::Syndrome::remote_access);
}

// A request that is to invalidate a key is refused, and the key goes on. `owner`: its domain.
void stays_valid(Bench& t, uint32_t key, const Wqe& w, prm::Syndrome want,
                 std::optional<Pdn> owner = {}) {
  tpt::Mkey& m = *t.rig.hca->keys.at(key >> 8);
  std::array<prm::Klm, 1> list = {klm(t.dst.at(0), 256, t.kd.lkey.value())};
  UmrShape shape;
  shape.len = 256;
  EQUAL(t.rig.run_one(t.rig.a, umr_wqe(key, shape, list)).op, CqeOpcode::req);
  m.pd = owner.value_or(m.pd);
  t.rig.b.recv(t.dst.at(4096), 64, t.kd.lkey.value());
  EQUAL(t.rig.run_one(t.rig.a, w).syndrome, want);
  CU_ASSERT(!m.free);
}

Wqe peer_s(const Bench& t, uint32_t key) {
  Wqe w(Opcode::send_inval, key);
  return w.data(t.src.at(0), 8, t.ks.lkey.value());
}

void a_peer_invalidates_only_keys_that_allow_it() {
  Bench t;
  const uint32_t key = t.rig.make_key(4);
  stays_valid(t, key, peer_s(t, key), prm::Syndrome::remote_access);
}

void nobody_invalidates_by_an_old_tag() {
  for (const bool peer : {false, true}) {
    Bench t;
    const uint32_t key = t.rig.make_key(4, true, true);
    if (peer)
      stays_valid(t, key, peer_s(t, key + 1), prm::Syndrome::remote_access);
    else
      stays_valid(t, key, Wqe(Opcode::local_inval, key + 1), prm::Syndrome::mw_bind);
  }
}

void nobody_invalidates_a_key_of_another_domain() {
  for (const bool peer : {false, true}) {
    Bench t;
    const Pdn other = *hca::alloc_pd(*t.rig.hca);
    const uint32_t key = t.rig.make_key(4, true, true);
    if (peer)
      stays_valid(t, key, peer_s(t, key), prm::Syndrome::remote_access, other);
    else
      stays_valid(t, key, Wqe(Opcode::local_inval, key), prm::Syndrome::mw_bind, other);
  }
}

constexpr kilim::test::Case of_invalidation[] = {
    {"a send can invalidate a key", a_send_can_invalidate_a_key},
    {"a peer invalidates only keys that allow it", a_peer_invalidates_only_keys_that_allow_it},
    {"nobody invalidates by an old tag", nobody_invalidates_by_an_old_tag},
    {"nobody invalidates a key of another domain", nobody_invalidates_a_key_of_another_domain},
};

}  // namespace
}  // namespace rc_invalidate_ut
}  // namespace kilim::vhca::test

std::span<const kilim::test::Case> kilim::vhca::test::rc_invalidate_cases() {
  return rc_invalidate_ut::of_invalidation;
}
