// SPDX-License-Identifier: BSD-3-Clause
// Where forms of UMR begin and end: every edge of every piece, gap and stride, keys beyond 2^31 and
// 2^32 bytes, lists beyond one WQE, states of a key as compare-and-set, invalidation by a peer,
// keys that would show themselves.
#include <algorithm>
#include <cstring>

#include "form_rounds_fixture.hh"
#include "kilim/queue/rc_wqe.hh"
#include "kilim/umr/patch.hh"

namespace {

using namespace kilim;
using namespace kilim::test;
namespace field = prm::umr;

umr::ListRequest plain(const BoundKey& key) {
  return {.key = key.lkey,
          .max_entries = key.made.max_entries,
          .new_tag = tag_of(key.lkey),
          .access = umr::mkey_access(mr::Access::all),
          .has_start = true,
          .log_entity = key.made.log_entity_bytes,
          .start = 0x7000};
}

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

constexpr uint64_t block = 65535;

// Seven bytes on each place around 2^31, 2^32 and 3 * 2^31, of a key that shows the block again and
// again, and of one whose byte 0 is its byte 16.
void check_far_borders(Bench& b, const BoundKey& inner, const BoundKey& outer) {
  const Shown twice{{b.rig.memory(0), block}, {b.rig.memory(0), block}};
  for (uint64_t border : {uint64_t{1} << 31, uint64_t{1} << 32, uint64_t{3} << 31}) {
    for (int64_t off = -3; off <= 3; off++) {
      const uint64_t at = border + static_cast<uint64_t>(off) - 2;
      for (const BoundKey* key : {&inner, &outer}) {
        const uint64_t in_inner = key == &inner ? at : at + 16;
        for (uint32_t how = 0; how < uses; how++) {
          const uint64_t base = key->start + at - in_inner % block;
          CU_ASSERT_TRUE(
              b.rig.use(static_cast<Use>(how), key->lkey, base, twice, in_inner % block, 7));
        }
      }
    }
  }
}

// 64 KiB of memory shown often: a block of 65,535 bytes without a stride, then pieces of 2 GiB of
// that key. Every byte of the long key is known.
void beyond_4_gib() {
  Bench b{"long", "cx6dx"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  constexpr uint32_t repeat = 100'000;  // 6.5 GB
  BoundKey inner = b.make({.max_entries = 4});
  BoundKey outer = b.make({.max_entries = 8});
  const umr::StridedEntry entry{b.rig.address(0), block, 0, b.rig.arena_key(0, block)};
  umr::ListRequest r = plain(inner);
  r.start = 0;
  queue::WqeCursor c{*b.rig.loop->sq};
  CU_ASSERT_TRUE(umr::umr_strided(c, b.rig.limits, r, {&entry, 1, repeat}, {}).ok());
  CU_ASSERT_TRUE(b.done(c, inner, r, {}));
  EQUAL(b.device_key(inner).len, block * repeat);

  umr::PieceList<8> pieces;
  constexpr uint64_t length = 0x1'8000'0010;
  CU_ASSERT_TRUE(pieces.add(inner.lkey, 16, length));  // four pieces
  EQUAL(pieces.count(), 4);
  const umr::ListRequest o = plain(outer);
  queue::WqeCursor d{*b.rig.loop->sq};
  umr::UmrContext context = b.context();
  context.levels = 2;
  CU_ASSERT_TRUE(umr::umr_view(d, context, o, pieces.view(), {}).ok());
  CU_ASSERT_TRUE(b.done(d, outer, o, {}));
  EQUAL(b.device_key(outer).len, length);
  check_far_borders(b, inner, outer);
  CU_ASSERT_TRUE(b.rig.refused(outer.lkey, outer.start + length - 1, 2));
}

void use_often(Bench& b, const BoundKey& key) {
  const uint64_t all = bytes_of(key.shown);
  for (int i = 0; i < 20; i++) {
    const uint64_t bytes = 1 + b.rig.below(4000);
    const auto u = static_cast<Use>(b.rig.below(uses));
    CU_ASSERT_TRUE(b.rig.use(u, key.lkey, key.start, key.shown, b.rig.below(all - bytes), bytes));
  }
}

// A list of 150,000 entries takes three WQEs, and every entry comes to its place.
void longer_than_a_wqe() {
  Bench b{"chain", "long-lists"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  constexpr uint32_t n = 150'000;
  BoundKey key = b.make({.max_entries = n});
  ListLayout l;
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t at = i * 7919ull % (FormRig::arena_bytes - 4);
    l.pieces.push_back({b.rig.address(at), 1 + i % 4, b.rig.arena_key(at, 4)});
    l.shown.push_back({b.rig.memory(at), 1 + i % 4});
  }
  std::vector<std::byte> memory(umr::klm_octowords(n) * 16ull + 4096);
  Result<mr::Mr> region =
      mr::Mr::create(b.rig.device->device->registrar(), memory, mr::Access::local, 4096);
  CU_ASSERT_TRUE_FATAL(region.ok());
  umr::ListMemory lists{region->region()};
  umr::UmrContext context = b.context();
  const umr::ListRequest r = plain(key);
  queue::WqeCursor c{*b.rig.loop->sq};
  const Outcome small = umr::umr_view(c, context, r, umr::View::of(l.pieces), {});
  context.limits.extended_offset = false;
  const Outcome near = umr::umr_view(c, context, r, umr::View::of(l.pieces), {});
  CU_ASSERT_TRUE(near.why == Refusal::offset_too_far && near.limit == 0xffff);
  context.limits.extended_offset = true;
  CU_ASSERT_TRUE(small.why == Refusal::no_list_memory && small.asked == n && small.limit == 131072);
  context.memory = &lists;
  const uint64_t umrs = b.rig.device->journal().count(vhca::Journal::Kind::umr);
  CU_ASSERT_TRUE(umr::umr_view(c, context, r, umr::View::of(l.pieces), {}).ok());
  CU_ASSERT_TRUE_FATAL(b.done(c, key, r, Shown{l.shown}));
  EQUAL(b.device_key(key).used, umr::klm_octowords(n));
  EQUAL(umr::pointer_wqes(umr::klm_octowords(n)), 3);
  CU_ASSERT_TRUE(b.rig.device->journal().count(vhca::Journal::Kind::umr) >= umrs + 1);
  for (uint64_t i = 0; i < n; i++)
    EQUAL_FATAL(b.device_key(key).list[i].address.host(), l.pieces[i].address);
  use_often(b, key);
  // Entries beyond 2^16 change, inline and by pointer, and keep their lengths.
  for (uint32_t first : {65'532u, 65'536u, 131'072u, n - 8}) {
    for (uint32_t i = first; i < first + 8; i++) {
      const uint64_t at = b.rig.below(FormRig::arena_bytes - 4);
      l.pieces[i].address = b.rig.address(at);
      l.pieces[i].key = b.rig.arena_key(at, 4);
      l.shown[i] = {b.rig.memory(at), l.pieces[i].length};
    }
    const umr::View part = umr::View::of(std::span{l.pieces}.subspan(first, 8));
    const umr::Patch p{.key = key.lkey, .max_entries = n, .first = first};
    umr::StoredList stored = b.rig.lists->allocate(8);
    umr::encode_klm_list(stored.memory, part);
    queue::WqeCursor d{*b.rig.loop->sq};
    CU_ASSERT_TRUE(first % 8 == 0 ? umr::patch(d, b.rig.limits, p, part, {}).ok()
                                  : umr::patch_by_pointer(d, b.rig.limits, p, stored, {}).ok());
    CU_ASSERT_TRUE_FATAL(b.done(d));
    for (uint32_t i = 0; i < n; i += i + 16 < first || i > first + 16 ? 997 : 1)
      EQUAL_FATAL(b.device_key(key).list[i].address.host(), l.pieces[i].address);
    key.shown = l.shown;
    use_often(b, key);
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
    CU_ASSERT_TRUE(got->ok() && got->opcode == prm::CqeOpcode::resp_send_inv);
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
  CU_ASSERT_TRUE(o.why == Refusal::itself && o.asked == 0);
  const umr::StridedEntry strided{0x7000, 8, 8, x.lkey};
  o = umr::umr_strided_view(c, b.context(), plain(x), {&strided, 1, 2}, {});
  EQUAL(o.why, Refusal::itself);
  umr::UmrContext deep = b.context();
  deep.levels = 5;
  o = umr::umr_view(c, deep, plain(x), umr::View::of({&of_y, 1}), {});
  CU_ASSERT_TRUE(o.why == Refusal::too_deep && o.asked == 5 && o.limit == 4);
  CU_ASSERT_TRUE(umr::umr_view(c, b.context(), plain(x), umr::View::of({&of_y, 1}), {}).ok());
  CU_ASSERT_TRUE(umr::umr_view(c, b.context(), plain(y), umr::View::of({&of_x, 1}), {}).ok());
  CU_ASSERT_TRUE(b.rig.run(c));
  CU_ASSERT_TRUE(b.rig.refused(x.lkey, 0x7000, 1));
  CU_ASSERT_TRUE(b.rig.refused(y.lkey, 0x7000, 1));
}

const kilim::test::Case cases[] = {
    {"two bytes around every border, and what lies outside", edges},
    {"pieces that leave their region by one byte", regions_end},
    {"keys beyond 2^31 and 2^32 bytes", beyond_4_gib},
    {"a list of 150,000 entries takes three WQEs, and is patched", longer_than_a_wqe},
    {"checks of a key's state are a compare-and-set", compare_and_set},
    {"a peer invalidates what it may", a_peer_invalidates},
    {"a key of itself is refused", loops_lead_nowhere},
};

}  // namespace

KILIM_UT_MAIN("mlx5/form_edges", cases)
