// SPDX-License-Identifier: BSD-3-Clause
// Changes of keys that are in use: granules of their lists, single fields, their state, by their
// owner and by a peer. Random ones against a plain list of entries, on devices of several profiles.
#include <algorithm>
#include <cstring>

#include "form_rounds_fixture.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/umr/patch.hh"

namespace form_changes_e2e_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
namespace field = prm::umr;

// A long key whose entries the test knows one by one.
struct Long {
  BoundKey key;
  ListLayout entries;  // a piece and its bytes each

  explicit Long(const BoundKey& k) : key(k) {}
  void show_all() { key.shown = entries.shown; }
};

// `n` entries of up to 64 bytes, or of whole pages.
ListLayout entries(FormRig& rig, uint32_t n, uint8_t log) {
  ListLayout l;
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t bytes = log != 0 ? uint64_t{1} << log : 1 + rig.below(64);
    const uint64_t at = rig.below(FormRig::arena_bytes - bytes + 1);
    l.pieces.push_back({rig.address(at), static_cast<uint32_t>(bytes), rig.arena_key(at, bytes)});
    l.shown.push_back({rig.memory(at), bytes});
  }
  return l;
}

// Binds all of it, by pointer where it is too long, in parts where the device takes no pointers.
bool bind_all(Bench& b, Long& k, uint8_t log) {
  const uint32_t n = k.key.made.max_entries;
  k.entries = entries(b.rig, n, log);
  umr::ListRequest r = random_request(b.rig, k.key);
  const umr::View all = umr::View::of(k.entries.pieces);
  umr::FixedView pages;
  if (log != 0 && !umr::fixed_view(k.entries.pieces, log, pages).ok()) return false;
  queue::WqeCursor c{*b.rig.loop->sq};
  if (n <= umr::max_inline_klms || b.rig.limits.pointer_lists) {
    const Outcome o = log != 0 ? umr::umr_fixed_view(c, b.context(), r, pages, {})
                               : umr::umr_view(c, b.context(), r, all, {});
    return o.ok() && b.done(c, k.key, r, Shown{k.entries.shown});
  }
  // The key becomes free, gets its entries part by part, and then all of its fields.
  for (uint32_t at = 0; at < n; at += 52) {
    const uint32_t count = std::min(52u, n - at);
    const umr::Patch p{.key = k.key.lkey, .max_entries = n, .first = at};
    const std::span<const umr::Piece> part = std::span{k.entries.pieces}.subspan(at, count);
    if (!umr::patch(c, b.rig.limits, p, umr::View::of(part), b.behind()).ok()) return false;
  }
  const umr::MkeyChange change{.key = k.key.lkey,
                               .fields = r.mask(),
                               .new_tag = r.new_tag,
                               .access = r.access,
                               .start = r.start,
                               .length = all.length};
  return umr::change_key(c, change, b.behind()).ok() && b.done(c, k.key, r, Shown{k.entries.shown});
}

uint64_t length_of(const ListLayout& l) {
  uint64_t n = 0;
  for (const umr::Piece& p : l.pieces) n += p.length;
  return n;
}

// New entries in a random place; then the key has another length, which a second WQE says.
bool one_patch(Bench& b, Long& k, uint8_t log) {
  const uint32_t n = k.key.made.max_entries;
  const auto first = static_cast<uint32_t>(b.rig.below((n + 3) / 4) * 4);
  const auto most = std::min<uint32_t>(n - first, 52);
  auto count = static_cast<uint32_t>(b.rig.sometimes(most));
  const bool off = count % 4 != 0 && first + count != n;
  const ListLayout l = entries(b.rig, count, log);
  umr::FixedView pages;
  if (log != 0 && !umr::fixed_view(l.pieces, log, pages).ok()) return false;
  const umr::View view = umr::View::of(l.pieces);
  const umr::Patch p{.key = k.key.lkey, .max_entries = n, .first = first};
  queue::WqeCursor c{*b.rig.loop->sq};
  Outcome o;
  if (b.rig.limits.pointer_lists && b.rig.below(3) == 0) {
    umr::StoredList list = b.rig.lists->allocate(umr::klm_octowords(count));
    if (log != 0) {
      umr::encode_ksm_list(list.memory, pages);
    } else {
      umr::encode_klm_list(list.memory, view);
    }
    list.octowords = off ? count : list.octowords;
    o = umr::patch_by_pointer(c, b.rig.limits, p, list, {});
    if (!o.ok()) b.rig.lists->release(b.rig.lists->allocated());
  } else {
    o = log != 0 ? umr::patch_fixed(c, b.rig.limits, p, pages, {})
                 : umr::patch(c, b.rig.limits, p, view, {});
  }
  if (off) return b.refusal(o, Refusal::off_granule);
  if (!o.ok()) return false;
  std::copy(l.pieces.begin(), l.pieces.end(), k.entries.pieces.begin() + first);
  std::copy(l.shown.begin(), l.shown.end(), k.entries.shown.begin() + first);
  k.show_all();
  const umr::MkeyChange longer{
      .key = k.key.lkey, .fields = field::mask_len, .length = length_of(k.entries)};
  return umr::change_key(c, longer, b.behind()).ok() && b.done(c) && b.shows(k.key);
}

void patches(const char* name, const mr::MkeyRequest& request) {
  on_profiles(name, [&request](Bench& b) {
    Long k{b.make(request)};
    const uint8_t log = request.log_entity_bytes;
    if (!bind_all(b, k, log) || !b.shows(k.key)) return 0u;
    for (uint32_t i = 0; i < random_cases; i++) {
      if (!one_patch(b, k, log)) return i;
    }
    return random_cases;
  });
}
void list_patches() {
  patches("patch", {.max_entries = 201});
}
void page_patches() {
  patches("pages", {.max_entries = 14, .kind = mr::EntryKind::ksm, .log_entity_bytes = 12});
}

// The octowords beside a patch are the ones that were there.
void nothing_else_changes() {
  Bench b{"else", "cx6dx"};
  CU_ASSERT_TRUE_FATAL(b.ok());
  Long k{b.make({.max_entries = 64})};
  CU_ASSERT_TRUE_FATAL(bind_all(b, k, 0));
  const vhca::tpt::Mkey& m = b.device_key(k.key);
  prm::Klm before[64];
  std::memcpy(before, m.list.get(), sizeof before);
  const uint64_t len = m.len, start = m.start;
  const uint32_t key = m.key;
  const uint8_t rights = m.rights;
  const ListLayout l = entries(b.rig, 8, 0);
  queue::WqeCursor c{*b.rig.loop->sq};
  const umr::Patch p{.key = k.key.lkey, .max_entries = 64, .first = 20};
  CU_ASSERT_TRUE(umr::patch(c, b.rig.limits, p, umr::View::of(l.pieces), {}).ok());
  CU_ASSERT_TRUE(b.done(c));
  EQUAL(std::memcmp(before, m.list.get(), 20 * 16), 0);
  CU_ASSERT_NOT_EQUAL(std::memcmp(&before[20], &m.list[20], 8 * 16), 0);
  EQUAL(std::memcmp(&before[28], &m.list[28], 36 * 16), 0);
  EQUAL(m.len, len);
  EQUAL(m.start, start);
  EQUAL(m.key, key);
  EQUAL(m.rights, rights);
  CU_ASSERT_TRUE(!m.free);
}

// Rights, length, start address and tag, each in every other change.
umr::MkeyChange any_change(Bench& b, Lkey key, uint64_t all, uint32_t& access) {
  umr::MkeyChange ch{.key = key};
  if (b.rig.below(2) != 0) {
    ch.fields |= field::mask_local_write | field::mask_remote_read | field::mask_remote_write;
    access = static_cast<uint32_t>(b.rig.below(8));
    ch.access = umr::mkey_access(access);
  }
  if (b.rig.below(2) != 0) {
    ch.fields |= field::mask_len;
    ch.length = b.rig.sometimes(all);
  }
  if (b.rig.below(2) != 0) {
    ch.fields |= field::mask_start_addr;
    ch.start = b.rig.random() >> 8;
  }
  if (b.rig.below(2) != 0) {
    ch.fields |= field::mask_mkey;
    ch.new_tag = static_cast<uint8_t>(b.rig.random());
  }
  return ch;
}

// The right that an access needs of the key.
uint32_t right_for(Use how) {
  switch (how) {
    case Use::write_into:
      return mr::Access::remote_write;
    case Use::read_from:
      return mr::Access::remote_read;
    case Use::recv_into:
    case Use::read_into:
      return mr::Access::local_write;
    default:
      return 0;
  }
}

// A random change of single fields; the test knows what each of them does to an access.
bool one_change(Bench& b, BoundKey& key, uint32_t& access) {
  const uint32_t had = access;
  const umr::MkeyChange ch = any_change(b, key.lkey, bytes_of(key.shown), access);
  queue::WqeCursor c{*b.rig.loop->sq};
  const Outcome o = umr::change_key(c, ch, {});
  if (ch.fields == 0) return had == access && b.refusal(o, Refusal::no_such_change);
  if (!o.ok() || !b.done(c)) return false;
  const Lkey old = key.lkey;
  if ((ch.fields & field::mask_start_addr) != 0) key.start = ch.start;
  if ((ch.fields & field::mask_mkey) != 0) key.lkey = Lkey{(old.value() & ~0xffu) | ch.new_tag};
  if ((ch.fields & field::mask_len) != 0) key.shown = part_of(key.shown, 0, ch.length);
  const auto how = static_cast<Use>(b.rig.below(uses));
  const uint32_t needs = right_for(how);
  if (old != key.lkey && b.rig.below(8) == 0 && !b.rig.refused(old, key.start, 1)) return false;
  const uint64_t n = bytes_of(key.shown);
  if ((access & needs) == needs) return b.rig.use(how, key.lkey, key.start, key.shown, 0, n);
  b.tally.refused++;
  return !b.rig.use(how, key.lkey, key.start, key.shown, 0, n);
}

void changes() {
  for (const On& on : profiles) {
    const std::string name = std::string{"change"} + on.name;
    Bench b{name.c_str(), on.profile};
    CU_ASSERT_TRUE_FATAL(b.ok());
    Long k{b.make({.max_entries = 40})};
    uint32_t access = 0, good = 0;
    for (; good < random_cases; good++) {
      if (good % 4 == 0) {
        if (!bind_all(b, k, 0)) break;
        access = mr::Access::all;
      }
      if (!one_change(b, k.key, access)) break;
    }
    if (good != random_cases) std::printf("\n    case %u of %s\n", good, on.profile);
    EQUAL(good, random_cases);
    CU_ASSERT_TRUE(b.tally.refused > random_cases / 16);
  }
}

const kilim::test::Case cases[] = {
    {"granules of a list are patched, inline and by pointer", list_patches},
    {"granules of pages are patched, inline and by pointer", page_patches},
    {"a patch changes nothing else", nothing_else_changes},
    {"access, length, start and tag change one by one", changes},
};

}  // namespace
}  // namespace form_changes_e2e_ut

KILIM_TEST_SUITE(form_changes, form_changes_e2e_ut::cases)
