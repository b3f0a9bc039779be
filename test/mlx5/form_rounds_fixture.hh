// SPDX-License-Identifier: BSD-3-Clause
// What the tests of UMR forms share: a device of one profile with a count of what was done, and the
// loop over profiles. One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>

#include "form_cases.hh"
#include "ut.hh"
#include "vhca/hca/hca.hh"

namespace kilim::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr uint32_t random_cases = 500;
#else
inline constexpr uint32_t random_cases = 10'000;
#endif
inline constexpr uint64_t most_bytes = FormRig::flat_bytes / 2;

// What the cases of one profile did, so that none of them is idle.
struct Tally {
  uint32_t shown = 0;
  uint32_t refused = 0;
  uint32_t strided = 0;
  uint32_t by_pointer = 0;
};

class Bench {
 public:
  Bench(const char* name, const char* profile) : rig(name, profile, 2026) {}
  [[nodiscard]] bool ok() const { return rig.ok(); }
  BoundKey make(const mr::MkeyRequest& request) {
    std::optional<mr::IndirectMkey> key = rig.key(request);
    CU_ASSERT_TRUE_FATAL(key.has_value());
    return BoundKey{*key};
  }
  umr::UmrContext context(umr::Form form = umr::Form::by_size) {
    return {.limits = rig.limits, .memory = &*rig.lists, .form = form};
  }
  umr::Form any_form() { return static_cast<umr::Form>(rig.below(3)); }
  // For a UMR behind another one of the same key.
  umr::UmrWr behind() {
    const umr::FencePlanner planner{rig.limits.fence};
    return {.flags = planner.before_umr(umr::MkeyUse::quiet)};
  }
  // Posts, waits, gives the list memory back, and knows the key as it is now.
  bool done(queue::WqeCursor& c, BoundKey& key, const umr::ListRequest& r, Shown&& shown) {
    key.lkey = r.new_key();
    key.start = r.start;
    key.shown = std::move(shown);
    return done(c);
  }
  bool done(queue::WqeCursor& c) {
    if (rig.lists->allocated() != taken_) tally.by_pointer++;
    const bool ran = rig.run(c);
    taken_ = rig.lists->allocated();
    rig.lists->release(taken_);
    tally.shown++;
    return ran;
  }
  bool shows(const BoundKey& key) { return rig.use_somehow(key.lkey, key.start, key.shown); }
  // The list as the device has it.
  const vhca::tpt::Mkey& device_key(const BoundKey& key) {
    return *rig.device->attached->hca()->keys.at(key.made.lkey.value() >> 8);
  }
  bool refusal(const Outcome& o, Refusal want) {
    tally.refused++;
    return o.why == want;
  }

  FormRig rig;
  Tally tally;

 private:
  uint64_t taken_ = 0;
};

struct On {
  const char* name;
  const char* profile;
};
inline constexpr On profiles[] = {
    {"0", "cx6dx"}, {"1", "plain-lists"}, {"2", "long-lists"}, {"3", "no-fence"}};

// Runs the cases of one form on a device of each profile.
template <typename Form>
void on_profiles(const char* what, Form form) {
  for (const On& on : profiles) {
    const std::string name = std::string{what} + on.name;
    Bench b{name.c_str(), on.profile};
    CU_ASSERT_TRUE_FATAL(b.ok());
    const uint32_t good = form(b);
    if (good != random_cases) std::printf("\n    case %u of %s\n", good, on.profile);
    EQUAL(good, random_cases);
    CU_ASSERT_TRUE(b.tally.shown > random_cases / 20 || b.rig.limits.max_indirection == 1);
    const vhca::Journal& journal = b.rig.device->journal();
    CU_ASSERT_TRUE(journal.count(vhca::Journal::Kind::umr) >= b.tally.shown);
    EQUAL(journal.count(vhca::Journal::Kind::error), 0);
  }
}

inline umr::ListRequest plain(const BoundKey& key) {
  return {.key = key.lkey,
          .max_entries = key.made.max_entries,
          .new_tag = tag_of(key.lkey),
          .access = umr::mkey_access(mr::Access::all),
          .has_start = true,
          .log_entity = key.made.log_entity_bytes,
          .start = 0x7000};
}

// Of form_borders.cc.
std::span<const kilim::test::Case> form_border_cases();

}  // namespace kilim::test
