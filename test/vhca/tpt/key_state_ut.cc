// SPDX-License-Identifier: BSD-3-Clause
// Each kind of key and window in each state, and all that can be done to it: by a work request, by
// a peer, by command. What is expected is written from the manual, row by row, not from the
// device's table.
#include <cerrno>

#include "umr_fixture.hh"
#include "ut.hh"
#include "vhca/tpt/key_state.hh"

namespace kilim::vhca::test {

namespace key_state_ut {
namespace {

using Kind = tpt::KeyKind;
constexpr Syndrome ok = Syndrome::none, prot = Syndrome::local_prot, bind = Syndrome::mw_bind,
                   remote = Syndrome::remote_access;

// What the requester's completion says, column by column; then whether the command succeeds.
struct Row {
  const char* name;
  Kind kind;
  bool free;
  Syndrome access, umr, umr_if_free, umr_if_valid, local_inval, remote_inval;
  int destroy;
};

// clang-format off
constexpr Row rows[] = {
    // name                        kind               free   access umr   if_free if_valid local remote  destroy
    {"a region",                   Kind::fixed,       false, ok,    bind, bind,   bind,    bind, remote, 0},
    {"a fixed list, free",         Kind::fixed,       true,  prot,  bind, bind,   bind,    bind, remote, 0},
    {"a window of type 1, bound",  Kind::window_1,    false, ok,    ok,   bind,   ok,      bind, remote, 0},
    {"a window of type 1, free",   Kind::window_1,    true,  prot,  ok,   ok,     bind,    bind, remote, 0},
    {"a window of type 2, bound",  Kind::window_2,    false, ok,    ok,   bind,   ok,      ok,   ok,     0},
    {"a window of type 2, free",   Kind::window_2,    true,  prot,  ok,   ok,     bind,    bind, remote, 0},
    {"an mkey, valid",             Kind::mkey,        false, ok,    ok,   bind,   ok,      ok,   remote, 0},
    {"an mkey, free",              Kind::mkey,        true,  prot,  ok,   ok,     bind,    bind, remote, 0},
    {"an mkey of en_rinval",       Kind::mkey_remote, false, ok,    ok,   bind,   ok,      ok,   ok,     0},
    {"an mkey of en_rinval, free", Kind::mkey_remote, true,  prot,  ok,   ok,     bind,    bind, remote, 0},
};
// clang-format on

// A rig with a key of the row's kind in the row's state.
struct OneKey : UmrBench {
  explicit OneKey(const Row& row) : key(make(row)) {
    list[0] = piece(0, 64);
    if (!row.free && row.kind != Kind::fixed) EQUAL_FATAL(configure(key, 64, list), ok);
    EQUAL(of_key().free, row.free);
    EQUAL(tpt::kind_of(of_key()), row.kind);
  }
  uint32_t make(const Row& row) {
    tpt::KeyTable& keys = rig.hca->keys;
    switch (row.kind) {
      case Kind::fixed:
        if (row.free) return rig.make_key(4, false);
        address = src.at(0);
        return lkey;
      case Kind::window_1:
        return (*keys.create_window(rig.pd, false))->key;
      case Kind::window_2:
        return (*keys.create_window(rig.pd, true))->key;
      case Kind::mkey:
        return rig.make_key(4);
      case Kind::mkey_remote:
        break;
    }
    return rig.make_key(4, true, true);
  }
  tpt::Mkey& of_key() { return *rig.hca->keys.at(key >> 8); }
  Syndrome umr(uint8_t flags) {
    UmrShape shape;
    shape.flags |= flags;
    shape.len = 64;
    return post(umr_wqe(key, shape, list));
  }
  Syndrome send_with_invalidate() {
    rig.b.recv(dst.at(4096), 64, kd.lkey.value());
    Wqe w(prm::Opcode::send_inval, key);
    const Syndrome heard = post(w.data(src.at(0), 8, lkey));
    // The receive fails with a syndrome of its own.
    const std::optional<Completion> received = rig.cq_b.poll();
    CU_ASSERT_FATAL(received.has_value());
    EQUAL(received->syndrome, heard == ok ? ok : Syndrome::local_access);
    return heard;
  }
  std::array<prm::Klm, 1> list{};
  uint64_t address = 0;
  uint32_t key;
};

void is(const Row& row, const char* op, Syndrome got, Syndrome want) {
  if (got != want) std::printf("\n    %s, %s\n", row.name, op);
  EQUAL(got, want);
}

void a_free_key_admits_nobody_whatever_its_kind() {
  for (const Row& row : rows) {
    OneKey t(row);
    is(row, "access", t.gather(t.key, t.address, 16), row.access);
    EQUAL(t.of_key().free, row.free);
  }
}

void a_umr_changes_what_was_made_for_it_in_the_state_it_asks_for() {
  for (const Row& row : rows) {
    const struct {
      const char* name;
      uint8_t flags;
      Syndrome want;
    } ways[] = {{"a UMR", 0, row.umr},
                {"a UMR of a free key", prm::umr::check_not_free, row.umr_if_free},
                {"a UMR of a valid key", prm::umr::check_free, row.umr_if_valid}};
    for (const auto& way : ways) {
      OneKey t(row);
      is(row, way.name, t.umr(way.flags), way.want);
      EQUAL(t.of_key().free, row.free && way.want != ok);
    }
  }
}

void an_invalidation_frees_what_is_valid() {
  for (const Row& row : rows) {
    OneKey t(row);
    is(row, "LOCAL_INV", t.post(Wqe(prm::Opcode::local_inval, t.key)), row.local_inval);
    EQUAL(t.of_key().free, row.free || row.local_inval == ok);
  }
}

void a_peer_invalidates_type_2_and_what_allows_it() {
  for (const Row& row : rows) {
    OneKey t(row);
    is(row, "SEND with invalidate", t.send_with_invalidate(), row.remote_inval);
    EQUAL(t.of_key().free, row.free || row.remote_inval == ok);
  }
}

void a_command_removes_a_key_in_any_state() {
  for (const Row& row : rows) {
    OneKey t(row);
    tpt::KeyTable& keys = t.rig.hca->keys;
    EQUAL(keys.destroy(MkeyIndex{t.key >> 8}), row.destroy);
    CU_ASSERT_PTR_NULL(keys.at(t.key >> 8));
    EQUAL(keys.destroy(MkeyIndex{t.key >> 8}), -ENOENT);
  }
}

const kilim::test::Case cases[] = {
    {"a free key admits nobody, whatever its kind", a_free_key_admits_nobody_whatever_its_kind},
    {"a UMR changes what was made for it, in the state it asks for",
     a_umr_changes_what_was_made_for_it_in_the_state_it_asks_for},
    {"an invalidation frees what is valid", an_invalidation_frees_what_is_valid},
    {"a peer invalidates type 2 and what allows it", a_peer_invalidates_type_2_and_what_allows_it},
    {"a command removes a key in any state", a_command_removes_a_key_in_any_state},
};

}  // namespace
}  // namespace key_state_ut

}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(key_state, kilim::vhca::test::key_state_ut::cases)
