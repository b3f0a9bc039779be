// SPDX-License-Identifier: BSD-3-Clause
// Keys over keys: how deep a binder knows them to be, and what it refuses.
#include <array>

#include "mkey_fixture.hh"
#include "ut.hh"

namespace mkey_depth_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

bool is(const Outcome& o, Refusal why, uint32_t asked, uint32_t limit) {
  return o.why == why && o.asked == asked && o.limit == limit;
}
Piece under(const Binding& b) {
  return {0, 8, b.key().lkey};
}
View one(const Piece& p) {
  return {&p, 1, p.length};
}
Outcome bind_over(BinderFixture& r, Binding& b, const Piece& p, Bind how = {}) {
  queue::WqeCursor c{r.sq};
  const Outcome o = r.binder->bind(c, b, how, one(p));
  r.binder->commit(c);
  r.complete();
  return o;
}

// The device would take the bind and refuse the key's use, and with it the queue.
void too_deep() {
  BinderFixture r{8, {.max_indirection = 4}};
  std::array<Binding, 5> level;
  level[0] = bound(r);
  for (uint32_t i = 1; i < 4; i++) {
    level[i] = r.binder->claim();
    CU_ASSERT_TRUE(bind_over(r, level[i], under(level[i - 1])).ok());
    EQUAL(level[i].key().levels(), i + 1);
  }
  level[4] = r.binder->claim();
  const uint32_t posted = r.sq.posted();
  CU_ASSERT_TRUE(is(bind_over(r, level[4], under(level[3])), Refusal::too_deep, 5, 4));
  const Piece mixed[] = {pieces[0], under(level[3]), pieces[1]};
  queue::WqeCursor c{r.sq};
  CU_ASSERT_TRUE(is(r.binder->bind(c, level[4], {}, View::of(mixed)), Refusal::too_deep, 5, 4));
  CU_ASSERT_TRUE(is(r.binder->bind(c, level[4], {}, mixed), Refusal::too_deep, 5, 4));
  const UmrContext context{.limits = {.max_indirection = 4}};
  const Layout layout = View::of(mixed);
  CU_ASSERT_TRUE(is(r.binder->bind(c, level[4], {}, context, layout), Refusal::too_deep, 5, 4));
  EQUAL(r.sq.posted(), posted);
  EQUAL(level[4].state(), MkeyState::free);
  // What it showed before does not count any more, once it lies over memory again.
  CU_ASSERT_TRUE(bind_over(r, level[3], pieces[0]).ok());
  CU_ASSERT_TRUE(bind_over(r, level[4], under(level[3])).ok());
  EQUAL(level[4].key().levels(), 2);
}

// Of keys of others the caller says it.
void stated_levels() {
  BinderFixture r{4, {.max_indirection = 4}};
  Binding a = r.binder->claim();
  Binding b = r.binder->claim();
  CU_ASSERT_TRUE(is(bind_over(r, a, pieces[0], {.levels = 5}), Refusal::too_deep, 5, 4));
  CU_ASSERT_TRUE(bind_over(r, a, pieces[0], {.levels = 4}).ok());
  CU_ASSERT_TRUE(is(bind_over(r, b, under(a)), Refusal::too_deep, 5, 4));
  CU_ASSERT_TRUE(is(bind_over(r, b, under(a), {.levels = 2}), Refusal::too_deep, 5, 4));
  const auto list = [&](queue::WqeCursor& c, const Mkey& key, uint8_t tag,
                        const UmrWr& wr) noexcept {
    return umr_list(c, r.binder->request(key, tag, {}), view(), wr);
  };
  queue::WqeCursor c{r.sq};
  CU_ASSERT_TRUE(is(r.binder->bind_with(c, b, {.levels = 5}, list), Refusal::too_deep, 5, 4));
  CU_ASSERT_TRUE(r.binder->bind_with(c, b, {.levels = 3}, list).ok());
  const auto change = [](queue::WqeCursor& at, const Mkey& key, const UmrWr& wr) noexcept {
    return change_key(at, {.key = key.lkey, .fields = prm::umr::mask_len, .length = 7}, wr);
  };
  CU_ASSERT_TRUE(is(r.binder->change_with(c, b, {.levels = 5}, change), Refusal::too_deep, 5, 4));
  CU_ASSERT_TRUE(r.binder->change_with(c, b, {.levels = 4}, change).ok());
  CU_ASSERT_TRUE(r.binder->change_with(c, b, {}, change).ok());
  r.binder->commit(c);
  r.complete();
  CU_ASSERT_TRUE(is(bind_over(r, a, under(b)), Refusal::too_deep, 5, 4));
}

// a, b over a, c over b: what each will be counts, not what it is.
void too_deep_together() {
  BinderFixture r{8, {.max_indirection = 2}};
  Binding a = bound(r);
  Binding b = bound(r);
  Binding c = bound(r);
  const UmrContext context{
      .limits = {.max_indirection = 2}, .form = Form::inline_list, .levels = 2};
  const Piece over_a = under(a);
  const Piece over_b = under(b);
  const uint32_t posted = r.sq.posted();
  const SwapItem three[] = {{&a, view(), {}},
                            {&b, one(over_a), {.reads_keys = true}},
                            {&c, one(over_b), {.reads_keys = true}}};
  CU_ASSERT_TRUE(is(r.binder->swap(three, context, 0), Refusal::too_deep, 3, 2));
  EQUAL(r.sq.posted(), posted);
  EQUAL(b.key().levels(), 1);
  CU_ASSERT_TRUE(bind_over(r, c, under(b)).ok());  // b is what it was
  const Piece anew = under(a);
  const SwapItem two[] = {{&a, view(), {}}, {&b, one(anew), {.reads_keys = true}}};
  CU_ASSERT_TRUE(r.binder->swap(two, context, 0).ok());
  r.complete();
  EQUAL(a.key().levels(), 1);
  EQUAL(b.key().levels(), 2);
  CU_ASSERT_TRUE(is(bind_over(r, c, under(b)), Refusal::too_deep, 3, 2));
}

const kilim::test::Case cases[] = {
    {"a key that would be too deep is refused when it is bound, with the number", too_deep},
    {"of keys of others the caller says how deep they are", stated_levels},
    {"a swap is refused for what its keys would be", too_deep_together},
};

}  // namespace
}  // namespace mkey_depth_ut

KILIM_TEST_SUITE(mkey_depth, mkey_depth_ut::cases)
