// SPDX-License-Identifier: BSD-3-Clause
// Where forms of UMR begin and end: every edge of every piece, gap and stride, keys beyond 2^31 and
// 2^32 bytes, lists beyond one WQE, states of a key as compare-and-set, invalidation by a peer,
// keys that would show themselves.
#include "case_tables.hh"
#include "form_rounds_fixture.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/umr/patch.hh"

namespace form_edges_e2e_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
namespace field = prm::umr;

// Two bytes around each border of what the key shows, one byte on either side of it, and what lies
// outside.
void check_edges(Bench& b, const BoundKey& key) {
  uint64_t border = 0;
  std::vector<uint64_t> borders{0};
  for (const std::span<std::byte>& s : key.shown) borders.push_back(border += s.size());
  const uint64_t all = border;
  for (uint64_t at : borders) {
    for (uint32_t how = 0; how < uses; how++) {
      const auto u = static_cast<Use>(how);
      if (at != 0) CU_ASSERT_TRUE(b.rig.use(u, key.lkey, key.start, key.shown, at - 1, 1));
      if (at != all) CU_ASSERT_TRUE(b.rig.use(u, key.lkey, key.start, key.shown, at, 1));
      if (at != 0 && at != all)
        CU_ASSERT_TRUE(b.rig.use(u, key.lkey, key.start, key.shown, at - 1, 2));
    }
  }
  CU_ASSERT_TRUE(b.rig.refused(key.lkey, key.start - 1, 1));
  CU_ASSERT_TRUE(b.rig.refused(key.lkey, key.start - 1, 2));
  CU_ASSERT_TRUE(b.rig.refused(key.lkey, key.start + all, 1));
  CU_ASSERT_TRUE(b.rig.refused(key.lkey, key.start + all - 1, 2));
}

void edges() {
  Bench b{"edges", "cx6dx"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  BoundKey list = b.make({.max_entries = 52});
  BoundKey pages = b.make({.max_entries = 4, .kind = mr::EntryKind::ksm, .log_entity_bytes = 12});
  for (umr::Form form : {umr::Form::inline_list, umr::Form::by_pointer}) {
    queue::WqeCursor c{*b.rig.loop->sq};
    const umr::ListRequest r = plain(list);
    ListLayout l = random_list(b.rig, 9, most_bytes);
    CU_ASSERT_TRUE(umr::umr_view(c, b.context(form), r, umr::View::of(l.pieces), {}).ok());
    CU_ASSERT_TRUE(b.done(c, list, r, std::move(l.shown)));
    check_edges(b, list);

    queue::WqeCursor s{*b.rig.loop->sq};
    StridedLayout st = random_strided(b.rig, 4, most_bytes, false);
    CU_ASSERT_TRUE(umr::umr_strided_view(s, b.context(form), r, st.view(), {}).ok());
    CU_ASSERT_TRUE(b.done(s, list, r, std::move(st.shown)));
    check_edges(b, list);

    queue::WqeCursor p{*b.rig.loop->sq};
    const umr::ListRequest f = plain(pages);
    ListLayout fixed = random_fixed(b.rig, 4, 12);
    umr::FixedView v;
    CU_ASSERT_TRUE(umr::fixed_view(fixed.pieces, 12, v).ok());
    CU_ASSERT_TRUE(umr::umr_fixed_view(p, b.context(form), f, v, {}).ok());
    CU_ASSERT_TRUE(b.done(p, pages, f, std::move(fixed.shown)));
    check_edges(b, pages);
  }
}

// Pieces that leave their region by one byte, before or behind: their other bytes can be had.
void regions_end() {
  Bench b{"ends", "cx6dx"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  BoundKey key = b.make({.max_entries = 8});
  const Lkey region = b.rig.arena_key(0, FormRig::arena_bytes);  // all of the arena
  const uint64_t end = FormRig::arena_bytes;
  const umr::Piece before{b.rig.address(0) - 1, 8, region};
  const umr::Piece behind{b.rig.address(end - 7), 8, region};
  for (const umr::Piece& piece : {before, behind}) {
    const bool first = piece.address == before.address;
    const umr::ListRequest r = plain(key);
    queue::WqeCursor c{*b.rig.loop->sq};
    CU_ASSERT_TRUE(umr::umr_list(c, r, umr::View::of({&piece, 1}), {}).ok());
    const Shown inside{{b.rig.memory(first ? 0 : end - 7), 7}};
    CU_ASSERT_TRUE(b.done(c, key, r, Shown{inside}));
    const uint64_t start = first ? key.start + 1 : key.start;
    CU_ASSERT_TRUE(b.rig.use(Use::write_from, key.lkey, start, inside, 0, 7));
    CU_ASSERT_TRUE(b.rig.use(Use::read_into, key.lkey, start, inside, 0, 7));
    CU_ASSERT_TRUE(b.rig.refused(key.lkey, key.start, 8));
    CU_ASSERT_TRUE(b.rig.refused(key.lkey, first ? key.start : key.start + 7, 1));
  }
}

// A UMR that takes only a free key, and one that takes only a key in use: of two that compete for a
// key one succeeds.
void compare_and_set() {
  Bench b{"cas", "cx6dx"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  BoundKey key = b.make({.max_entries = 4});
  const umr::Piece piece{b.rig.address(0), 64, b.rig.arena_key(0, 64)};
  umr::ListRequest claim = plain(key);
  claim.checks = field::check_not_free;  // fails if the key is not free
  for (bool wanted : {true, false}) {
    queue::WqeCursor c{*b.rig.loop->sq};
    CU_ASSERT_TRUE(umr::umr_list(c, claim, umr::View::of({&piece, 1}), {}).ok());
    EQUAL(b.rig.run(c), wanted);
  }
  for (bool wanted : {true, false}) {
    queue::WqeCursor c{*b.rig.loop->sq};
    const umr::MkeyChange drop{.key = key.lkey,
                               .fields = field::mask_free,
                               .checks = field::check_free,  // fails if the key is free
                               .free = true};
    CU_ASSERT_TRUE(umr::change_key(c, drop, {}).ok());
    EQUAL(b.rig.run(c), wanted);
  }
  CU_ASSERT_TRUE(b.device_key(key).free);
}

// The peer frees the key with its SEND, where the key was made for that.
void a_peer_invalidates() {
  Bench b{"rinval", "cx6dx"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  for (bool allowed : {true, false}) {
    BoundKey key = b.make({.max_entries = 4, .remote_invalidate = allowed});
    ListLayout l = random_list(b.rig, 4, 4096);
    const umr::ListRequest r = plain(key);
    queue::WqeCursor c{*b.rig.loop->sq};
    CU_ASSERT_TRUE(umr::umr_list(c, r, umr::View::of(l.pieces), {}).ok());
    CU_ASSERT_TRUE(b.done(c, key, r, std::move(l.shown)));
    CU_ASSERT_TRUE(b.shows(key));
    queue::Sge from{b.rig.address(0), 16, b.rig.arena_key(0, 16)};
    CU_ASSERT_TRUE(b.rig.loop->rq->post({b.rig.address(4096), 64, b.rig.arena_key(4096, 64)}, 1));
    b.rig.loop->rq->ring();
    queue::WqeCursor s{*b.rig.loop->sq};
    CU_ASSERT_TRUE(queue::send_invalidate(s, from, Rkey{key.lkey.value()}, {}));
    EQUAL(b.rig.run(s), allowed);
    EQUAL(b.device_key(key).free, allowed);
    if (!allowed) continue;
    const auto got = b.rig.loop->wait(*b.rig.loop->recv_cq);
    CU_ASSERT_TRUE_FATAL(got.has_value());
    CU_ASSERT_TRUE(got->ok());
    EQUAL(got->opcode, prm::CqeOpcode::resp_send_inv);
    EQUAL(got->imm, key.lkey.value());
    b.rig.loop->rq->retire(got->wqe_counter);
    CU_ASSERT_TRUE(b.rig.refused(key.lkey, key.start, 1));
  }
}

// The library sees a key in its own list and counts levels; what it cannot see the device refuses.
void loops_lead_nowhere() {
  Bench b{"loops", "cx6dx"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  BoundKey x = b.make({.max_entries = 4}), y = b.make({.max_entries = 4});
  const umr::Piece of_x{0x7000, 64, x.lkey}, of_y{0x7000, 64, y.lkey};
  queue::WqeCursor c{*b.rig.loop->sq};
  Outcome o = umr::umr_view(c, b.context(), plain(x), umr::View::of({&of_x, 1}), {});
  EQUAL(o.why, Refusal::itself);
  EQUAL(o.asked, 0);
  const umr::StridedEntry strided{0x7000, 8, 8, x.lkey};
  o = umr::umr_strided_view(c, b.context(), plain(x), {&strided, 1, 2}, {});
  EQUAL(o.why, Refusal::itself);
  umr::UmrContext deep = b.context();
  deep.levels = 5;
  o = umr::umr_view(c, deep, plain(x), umr::View::of({&of_y, 1}), {});
  EQUAL(o.why, Refusal::too_deep);
  EQUAL(o.asked, 5);
  EQUAL(o.limit, 4);
  CU_ASSERT_TRUE(umr::umr_view(c, b.context(), plain(x), umr::View::of({&of_y, 1}), {}).ok());
  CU_ASSERT_TRUE(umr::umr_view(c, b.context(), plain(y), umr::View::of({&of_x, 1}), {}).ok());
  CU_ASSERT_TRUE(b.rig.run(c));
  CU_ASSERT_TRUE(b.rig.refused(x.lkey, 0x7000, 1));
  CU_ASSERT_TRUE(b.rig.refused(y.lkey, 0x7000, 1));
}

const kilim::test::Case cases[] = {
    {"two bytes around every border, and what lies outside", edges},
    {"pieces that leave their region by one byte", regions_end},
    {"checks of a key's state are a compare-and-set", compare_and_set},
    {"a peer invalidates what it may", a_peer_invalidates},
    {"a key of itself is refused", loops_lead_nowhere},
};

}  // namespace
}  // namespace form_edges_e2e_ut

KILIM_TEST_MAIN(form_edges) {
  return kilim::test::run_tables(
      "mlx5/form_edges", {form_edges_e2e_ut::cases, kilim::test::form_border_cases()}, argc, argv);
}
