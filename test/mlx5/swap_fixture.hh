// SPDX-License-Identifier: BSD-3-Clause
// For tests of swaps: keys with layouts of every form, and a binder that swaps them. One thread.
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "form_rounds_fixture.hh"
#include "kilim/detail/mkey/mkey_binder_burst.hh"

namespace kilim::test {

using mkey::Binding;
using mkey::MkeyState;

inline constexpr uint32_t entries = 512;
inline constexpr uint32_t long_entries = 70'000;  // a list of two WQEs
inline constexpr uint8_t page_log = 12;
inline constexpr mkey::Bind whole{.access = umr::mkey_access(mr::Access::all)};

// A key with what it shows; the layout's storage lives here.
struct Shower {
  enum class Kind : uint8_t { list, strided, fixed, nested };
  Binding binding;
  Kind kind = Kind::list;
  ListLayout list;
  StridedLayout strided;
  umr::FixedView pages;
  Lkey old;

  [[nodiscard]] umr::Layout layout() const {
    if (kind == Kind::strided) return strided.view();
    if (kind == Kind::fixed) return pages;
    return umr::View::of(list.pieces);
  }
  [[nodiscard]] const Shown& shown() const {
    return kind == Kind::strided ? strided.shown : list.shown;
  }
};

// A binder over the queue of a form rig, with pools of keys of both kinds.
struct SwapRig {
  Bench bench;
  FormRig& rig = bench.rig;
  std::unique_ptr<mkey::MkeyPool> plain_keys, fixed_keys;
  std::unique_ptr<mkey::Epochs> epochs;
  std::unique_ptr<mkey::MkeyBinder> plain, fixed;  // one queue, a binder for each kind of key
  uint32_t max_entries = 0;
  std::array<uint32_t, 4> kinds{};  // swapped, by Shower::Kind
  uint32_t by_pointer = 0;

  SwapRig(const char* name, const char* profile, uint32_t most = entries) : bench(name, profile) {
    if (!bench.ok()) return;
    mr::MkeySource& source = rig.device->device->keys();
    max_entries = std::min(most, rig.limits.max_key_entries);
    auto p = mkey::MkeyPool::create(source, 8, max_entries);
    auto f = mkey::MkeyPool::create(
        source, 8, {.max_entries = 64, .kind = mr::EntryKind::ksm, .log_entity_bytes = page_log});
    auto e = mkey::Epochs::create(nullptr, 4);
    if (!p || !f || !e) return;
    plain_keys = *std::move(p);
    fixed_keys = *std::move(f);
    epochs = *std::move(e);
    const mkey::MkeyBinderConfig config{.fences = umr::FencePlanner{rig.limits.fence},
                                        .keep_atomic = !rig.limits.change_atomic,
                                        .max_indirection = rig.limits.max_indirection};
    auto a = mkey::MkeyBinder::create(*rig.loop->sq, *plain_keys, *epochs, config);
    auto b = mkey::MkeyBinder::create(*rig.loop->sq, *fixed_keys, *epochs, config);
    if (!a || !b) return;
    plain = *std::move(a);
    fixed = *std::move(b);
  }
  ~SwapRig() { rig.loop->qp.destroy(); }
  [[nodiscard]] bool ok() const { return fixed != nullptr; }

  void settle() {
    plain->complete_retired();
    fixed->complete_retired();
    plain->poll();
    fixed->poll();
  }
  // The device works until all is complete; false: an error, and both binders have started over.
  bool finish() {
    queue::Sq& sq = *rig.loop->sq;
    while (!sq.idle()) {
      const std::optional<queue::Completion> done = rig.loop->wait(*rig.loop->send_cq);
      if (done && done->ok()) {
        sq.retire(done->wqe_counter);
        continue;
      }
      if (done) (void)failing->handle_completion(*done);
      recover();
      return false;
    }
    settle();
    rig.lists->release(rig.lists->allocated());
    return true;
  }
  void recover() {
    plain->recover();
    fixed->recover();
    rig.loop->recover();
    rig.lists->release(rig.lists->allocated());
    while (plain->flush() || fixed->flush()) (void)finish();
  }
  mkey::MkeyBinder* failing = nullptr;  // whose swap an error belongs to
};

// What the key shall show from now on. `inner` are keys swapped before it, by the layouts that they
// will have.
inline void choose(SwapRig& r, Shower& s, bool is_fixed, const std::vector<BoundKey>& inner) {
  FormRig& rig = r.rig;
  const bool pointers = rig.limits.pointer_lists;
  const uint64_t most = pointers && rig.below(2) == 0 ? r.max_entries : 50;
  s.list = {};
  if (is_fixed) {
    s.kind = Shower::Kind::fixed;
    s.list = random_fixed(rig, pointers ? 20 : 12, page_log);
    CU_ASSERT_TRUE_FATAL(umr::fixed_view(s.list.pieces, page_log, s.pages).ok());
    return;
  }
  const bool may_stride = rig.limits.repeated_block;
  s.kind = may_stride && rig.below(3) == 0 ? Shower::Kind::strided : Shower::Kind::list;
  if (s.kind == Shower::Kind::strided) {
    s.strided = random_strided(rig, std::min<uint64_t>(most, 100), most_bytes, false);
    return;
  }
  const bool nests = !inner.empty() && rig.limits.max_indirection > 1;
  if (nests) s.kind = Shower::Kind::nested;
  s.list = random_list(rig, most, most_bytes, nests ? inner : std::vector<BoundKey>{});
}

inline bool shows(SwapRig& r, const Shower& s) {
  const bool good = r.rig.use_somehow(s.binding.lkey(), 0, s.shown());
  r.settle();
  return good;
}

inline void give_keys(SwapRig& r, std::span<Shower> keys, bool is_fixed) {
  mkey::MkeyBinder& binder = is_fixed ? *r.fixed : *r.plain;
  for (Shower& s : keys) {
    s.binding = binder.claim();
    choose(r, s, is_fixed, {});
    queue::WqeCursor c{*r.rig.loop->sq};
    const Outcome o = binder.bind(c, s.binding, whole, r.bench.context(), s.layout());
    CU_ASSERT_TRUE_FATAL(static_cast<bool>(s.binding));
    CU_ASSERT_TRUE_FATAL(o.ok());
    binder.commit(c);
    CU_ASSERT_TRUE_FATAL(r.finish());
  }
}

}  // namespace kilim::test
