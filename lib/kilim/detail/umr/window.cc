// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/umr/window.hh"

namespace kilim::inline v1::umr {
namespace {

// A number as a refusal holds it: all ones stand for more.
uint32_t number(uint64_t n) noexcept {
  return n < ~0u ? static_cast<uint32_t>(n) : ~0u;
}

constexpr uint64_t mib = uint64_t{1} << 20;

}  // namespace

template <WindowType T>
Result<FreeWindow<T>> create_window(mr::WindowSource& source) {
  Result<Rkey> key = source.create_window(T);
  if (!key) return key.error();
  return FreeWindow<T>{WindowOwner{source, *key}};
}
template Result<FreeWindow<WindowType::type1>> create_window(mr::WindowSource&);
template Result<FreeWindow<WindowType::type2>> create_window(mr::WindowSource&);

void WindowOwner::drop() noexcept {
  (void)source_->destroy_window(key_);
  source_ = nullptr;
}

Outcome check_window(const WindowBind& b, WindowType type) noexcept {
  if (b.region == nullptr || b.length == 0) return {Refusal::empty, 0, 0};
  const mr::Region& r = *b.region;
  if (b.length > WindowBind::longest)
    return {Refusal::long_window, number((b.length + mib - 1) / mib), WindowBind::longest / mib};
  const uint64_t offset = b.address - r.iova;
  if (b.address < r.iova || offset > r.length || b.length > r.length - offset) {
    const uint64_t left = b.address < r.iova || offset > r.length ? 0 : r.length - offset;
    return {Refusal::beyond_region, number(b.length), number(left)};
  }
  if (r.undefined || (r.access & mr::Access::mw_bind) == 0) return {Refusal::not_bindable, 0, 0};
  const uint32_t grantable =
      WindowBind::grantable & ~(b.keep_atomic ? mr::Access::remote_atomic : 0);
  if ((b.access & ~grantable) != 0) return {Refusal::window_rights, b.access, grantable};
  constexpr uint32_t changes = mr::Access::remote_write | mr::Access::remote_atomic;
  if ((b.access & changes) != 0 && (r.access & mr::Access::local_write) == 0)
    return {Refusal::read_only, 0, 0};
  if (type == WindowType::type1 && (b.zero_based || (r.access & mr::Access::zero_based) != 0))
    return {Refusal::zero_based, 0, 0};
  return {};
}

}  // namespace kilim::inline v1::umr
