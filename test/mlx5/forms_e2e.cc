// SPDX-License-Identifier: BSD-3-Clause
// Every form of UMR against a plain gather and scatter: random layouts, used by SEND, WRITE and
// READ on the side that posts and on the peer's, on devices of several profiles. What a profile
// lacks must be refused with its reason.
#include <algorithm>
#include <array>

#include "form_rounds_fixture.hh"

namespace forms_e2e_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

bool one_list(Bench& b, BoundKey& key, umr::Form form, const std::vector<BoundKey>& inner = {}) {
  ListLayout l = random_list(b.rig, key.made.max_entries, most_bytes, inner);
  const umr::ListRequest r = random_request(b.rig, key);
  umr::UmrContext context = b.context(form);
  context.levels = inner.empty() ? 1 : 2;
  queue::WqeCursor c{*b.rig.loop->sq};
  const Outcome o = umr::umr_view(c, context, r, umr::View::of(l.pieces), {});
  const bool pointer = form == umr::Form::by_pointer ||
                       (form == umr::Form::by_size && l.pieces.size() > umr::max_inline_klms);
  if (context.levels > b.rig.limits.max_indirection) return b.refusal(o, Refusal::too_deep);
  if (pointer && !b.rig.limits.pointer_lists) return b.refusal(o, Refusal::no_pointer);
  if (!pointer && l.pieces.size() > umr::max_inline_klms)
    return b.refusal(o, Refusal::too_many_inline);
  return o.ok() && b.done(c, key, r, std::move(l.shown)) && b.shows(key);
}

template <uint32_t n>
uint32_t passed(Bench& b, bool (*one)(Bench&, std::array<BoundKey, n>&),
                std::array<BoundKey, n>& keys) {
  for (uint32_t i = 0; i < random_cases; i++) {
    if (!one(b, keys)) return i;
  }
  return random_cases;
}

void lists() {
  on_profiles("list", [](Bench& b) {
    std::array<BoundKey, 3> keys{b.make({.max_entries = 52}), b.make({.max_entries = 3}),
                                 b.make({.max_entries = 17})};
    return passed<3>(
        b, [](Bench& t, auto& k) { return one_list(t, k[t.rig.below(3)], umr::Form::inline_list); },
        keys);
  });
}

void pointers() {
  on_profiles("pointer", [](Bench& b) {
    std::array<BoundKey, 2> keys{b.make({.max_entries = 250}), b.make({.max_entries = 201})};
    const uint32_t n = passed<2>(
        b, [](Bench& t, auto& k) { return one_list(t, k[t.rig.below(2)], t.any_form()); }, keys);
    EQUAL(b.tally.by_pointer > random_cases / 3, b.rig.limits.pointer_lists);
    return n;
  });
}

bool one_strided(Bench& b, BoundKey& key) {
  const bool far = b.rig.below(3) == 0;
  StridedLayout l = random_strided(b.rig, b.rig.below(4) == 0 ? 90 : 6, most_bytes, far);
  const umr::ListRequest r = random_request(b.rig, key);
  const umr::Form form = b.any_form();
  const umr::StridedView v = l.view();
  queue::WqeCursor c{*b.rig.loop->sq};
  const Outcome o = umr::umr_strided_view(c, b.context(form), r, v, {});
  const bool whole = l.fits_16_bits() && b.rig.limits.repeated_block;
  const uint64_t entries = whole ? v.count + 1 : uint64_t{v.count} * v.repeat;
  const bool pointer =
      form == umr::Form::by_pointer || (form == umr::Form::by_size && entries > 52);
  if (entries > key.made.max_entries || (pointer && !b.rig.limits.pointer_lists)) {
    const bool first = o.why == Refusal::no_repeat || o.why == Refusal::long_block ||
                       o.why == Refusal::long_stride;
    return b.refusal(o, whole ? Refusal::over_key : first ? o.why : Refusal::none);
  }
  if (!pointer && entries > 52) return b.refusal(o, Refusal::too_many_inline);
  if (!o.ok() || !b.done(c, key, r, std::move(l.shown))) return false;
  const bool is_strided = b.device_key(key).list[0].mkey.host() == prm::repeat_block_op;
  b.tally.strided += is_strided ? 1 : 0;
  return is_strided == whole && b.shows(key);
}

void strided() {
  on_profiles("strided", [](Bench& b) {
    std::array<BoundKey, 2> keys{b.make({.max_entries = 100}), b.make({.max_entries = 256})};
    const uint32_t n = passed<2>(
        b, [](Bench& t, auto& k) { return one_strided(t, k[t.rig.below(2)]); }, keys);
    EQUAL(b.tally.strided > random_cases / 4, b.rig.limits.repeated_block);
    return n;
  });
}

bool one_fixed(Bench& b, BoundKey& key, uint8_t log) {
  ListLayout l =
      random_fixed(b.rig, std::min<uint64_t>(most_bytes >> log, key.made.max_entries), log);
  const umr::ListRequest r = random_request(b.rig, key);
  umr::FixedView v;
  if (!umr::fixed_view(l.pieces, log, v).ok()) return false;
  const bool pointer = b.rig.limits.pointer_lists && log == r.log_entity && b.rig.below(2) != 0;
  queue::WqeCursor c{*b.rig.loop->sq};
  const Outcome o = umr::umr_fixed_view(
      c, b.context(pointer ? umr::Form::by_pointer : umr::Form::inline_list), r, v, {});
  if (log != r.log_entity && !b.rig.limits.change_entity)
    return b.refusal(o, Refusal::keeps_entity);
  if (!o.ok() || !b.done(c, key, r, std::move(l.shown))) return false;
  key.made.log_entity_bytes = log;
  return b.shows(key);
}

void fixed() {
  on_profiles("fixed", [](Bench& b) {
    constexpr auto ksm = mr::EntryKind::ksm;
    std::array<BoundKey, 2> keys{b.make({.max_entries = 52, .kind = ksm, .log_entity_bytes = 12}),
                                 b.make({.max_entries = 16, .kind = ksm, .log_entity_bytes = 13})};
    return passed<2>(
        b,
        [](Bench& t, auto& k) {
          const uint64_t i = t.rig.below(2);
          const uint64_t log = t.rig.below(4) == 0 ? 13 : k[i].made.log_entity_bytes;
          return one_fixed(t, k[i], static_cast<uint8_t>(log));
        },
        keys);
  });
}

// The keys at the bottom: three of lists, one strided where the device has that, one of pages.
bool bind_inner(Bench& b, std::vector<BoundKey>& inner) {
  for (uint32_t k = 0; k < 3; k++) {
    if (!one_list(b, inner[k], umr::Form::inline_list)) return false;
  }
  if (!one_fixed(b, inner[4], 12)) return false;
  do {
    if (b.rig.limits.repeated_block ? !one_strided(b, inner[3])
                                    : !one_list(b, inner[3], umr::Form::inline_list))
      return false;
  } while (inner[3].shown.empty());
  return true;
}

uint32_t nested_on(Bench& b) {
  const mr::MkeyRequest pages{.max_entries = 8, .kind = mr::EntryKind::ksm, .log_entity_bytes = 12};
  std::vector<BoundKey> inner;
  for (uint32_t i = 0; i < 4; i++) inner.push_back(b.make({.max_entries = 64}));
  inner.push_back(b.make(pages));
  BoundKey key = b.make({.max_entries = 52});
  for (uint32_t i = 0; i < random_cases; i++) {
    if (i % 16 == 0 && !bind_inner(b, inner)) return i;
    if (!one_list(b, key, umr::Form::inline_list, inner)) return i;
  }
  return random_cases;
}

void nested() {
  on_profiles("nested", nested_on);
}

const kilim::test::Case cases[] = {
    {"inline lists", lists},
    {"lists by pointer, and by size", pointers},
    {"strided layouts, as they are and as lists", strided},
    {"entries of fixed size", fixed},
    {"keys of keys", nested},
};

}  // namespace
}  // namespace forms_e2e_ut

KILIM_TEST_SUITE(forms, forms_e2e_ut::cases)
