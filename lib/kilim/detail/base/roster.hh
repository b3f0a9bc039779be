// SPDX-License-Identifier: BSD-3-Clause
// Roster: the objects of one kind in this process, in the order in which they were made, for who
// looks at all of them, such as telemetry. A room has one, constant-initialised, as a variable of a
// source; it is never destroyed, so that objects may leave it at the very end. Any thread; locks,
// so never in a burst.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

namespace kilim::inline v1 {

// A function that is shown objects one by one: refers to the caller's, and owns nothing.
template <typename T>
class Visit {
 public:
  template <typename F>
  Visit(const F& see) noexcept  // NOLINT(google-explicit-constructor): callers pass a lambda
      : context_(std::addressof(see)),
        call_([](const void* c, T& object) { (*static_cast<const F*>(c))(object); }) {}
  void operator()(T& object) const { call_(context_, object); }

 private:
  const void* context_;
  void (*call_)(const void* context, T& object);
};

template <typename T>
class Roster {
 public:
  constexpr Roster() noexcept = default;
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;

  // An object enters when it is complete, and leaves before anything of it goes; leave() waits for
  // a walk that is under way. To leave without having entered does nothing.
  void enter(T& object) {
    const std::lock_guard lock{mutex_};
    if (list_ == nullptr) list_ = new std::vector<T*>;
    list_->push_back(&object);
  }
  void leave(T& object) noexcept {
    const std::lock_guard lock{mutex_};
    if (list_ != nullptr) std::erase(*list_, &object);
  }
  // Shows each object; none of them comes or leaves meanwhile, so `see` makes and destroys none.
  void walk(Visit<T> see) {
    const std::lock_guard lock{mutex_};
    if (list_ == nullptr) return;
    for (T* object : *list_) see(*object);
  }
  // Keeps walks out while the lock lives. Guards changes of an object that has no lock of its own.
  [[nodiscard]] std::unique_lock<std::mutex> hold() { return std::unique_lock{mutex_}; }

 private:
  std::mutex mutex_;
  std::vector<T*>* list_ = nullptr;
};

}  // namespace kilim::inline v1
