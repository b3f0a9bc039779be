// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/window.hh"

#include <cerrno>

#include "kilim/detail/base/memory_reserve.hh"

namespace kilim::mlx5 {

Result<Rkey> VerbsWindows::create_window(mr::WindowType type) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const bool can = type == mr::WindowType::type1 ? type1_ : type2_;
  if (!can)
    return Error{EOPNOTSUPP,
                 "the device has no memory windows of this type (a virtual function has none)"};
  const ibv_mw_type kind = type == mr::WindowType::type1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
  const std::lock_guard lock{mutex_};
  errno = 0;
  VerbsMw mw{ibv_alloc_mw(pd_, kind)};
  if (mw == nullptr) return Error{errno != 0 ? errno : ENOMEM, "no memory window was made"};
  const Rkey key{mw->rkey};
  windows_[index_of(key).value()] = std::move(mw);
  return key;
}

Status VerbsWindows::destroy_window(Rkey key) {
  const std::lock_guard lock{mutex_};
  const auto at = windows_.find(index_of(key).value());
  if (at == windows_.end()) return Error{EINVAL, "no such memory window"};
  if (const int rc = ibv_dealloc_mw(at->second.get()); rc != 0)
    return Error{rc > 0 ? rc : errno, "the memory window could not be destroyed"};
  (void)at->second.release();
  windows_.erase(at);
  return Done{};
}

}  // namespace kilim::mlx5
