// SPDX-License-Identifier: BSD-3-Clause
// A random walk over an arena of a few pages, with regions and memory windows on it, which holds
// each step against the plain model. One thread; everything is released by the destructor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "kilim/detail/umr/window.hh"
#include "region_fixture.hh"
#include "region_model.hh"

namespace kilim::test {

struct LiveRegion {
  ModelRegion model;
  mr::Region region;
};

// One of the two is there.
template <umr::WindowType T>
struct LiveWindow {
  ModelWindow model;
  uint64_t base = 0;  // what peers call its first byte
  umr::FreeWindow<T> free;
  umr::BoundWindow<T> bound;
};

class Walk {
 public:
  Walk(device::Device& device, uint64_t seed);
  ~Walk();
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  [[nodiscard]] bool ok() const;
  bool step();
  struct Tally {
    uint64_t allowed = 0, forbidden = 0, undefined = 0, advised = 0, refused = 0, forks = 0;
    uint64_t bound = 0, unbindable = 0, shut = 0, through = 0, shown_nothing = 0;
    uint64_t by_peer = 0, not_by_peer = 0, atomics = 0;
  };
  [[nodiscard]] const Tally& tally() const { return tally_; }

 private:
  static constexpr uint64_t arena_bytes = ModelArena::pages * ModelArena::page_bytes;
  using Window1 = LiveWindow<umr::WindowType::type1>;
  using Window2 = LiveWindow<umr::WindowType::type2>;

  struct Asked {
    Act act;
    uint64_t from;  // in the arena
    uint32_t bytes;
    uint64_t address;  // as the key knows it
    Lkey lkey;
    Rkey rkey;
    Expect expected;
  };

  static std::byte* reserve();
  mr::Registrar& registrar() { return device_.registrar(); }
  uint64_t below(uint64_t n) { return random_() % n; }
  std::byte* at(uint64_t offset) { return base_ + offset; }
  bool pinned(std::size_t p) const;
  void map(std::size_t p, Mapped how);
  void bury(const mr::Region& key);
  bool lives(Rkey key) const;
  bool judge(bool good, const char* what);

  ModelRegion dream();
  bool register_one();
  bool reregister_one();
  bool advise_one();
  bool access_one();
  bool deregister_one();
  bool change_mapping();
  bool move_page();
  bool protect_page();
  bool access(Peer& peer, const Asked& asked);
  bool sum_of(const Asked& a, const std::vector<std::byte>& before, const Peer& peer,
              uint64_t added);

  bool window_step();
  bool fork_child();
  [[nodiscard]] const ModelRegion* below_window(const ModelWindow& w) const;
  [[nodiscard]] const LiveRegion& to_be_shown();
  template <umr::WindowType T>
  bool on_window(LiveWindow<T>& w);
  template <umr::WindowType T>
  bool bind_one(LiveWindow<T>& w);
  template <umr::WindowType T>
  bool shut_one(LiveWindow<T>& w);
  template <umr::WindowType T>
  bool peer_shuts(LiveWindow<T>& w);
  template <umr::WindowType T>
  bool renew(LiveWindow<T>& w);
  template <umr::WindowType T>
  bool access_window(LiveWindow<T>& w);
  bool rebind_unshut(Window2& w, const umr::WindowBind& b);
  template <umr::WindowType T>
  bool bind_to(LiveWindow<T>& w, const umr::WindowBind& b, Outcome& outcome);
  static queue::Completion finish(Peer& peer, queue::WqeCursor& c);
  queue::Completion finish(queue::WqeCursor& c) { return finish(peer_, c); }

  device::Device& device_;
  Peer peer_, stranger_;  // the queue that binds windows; another one
  std::mt19937_64 random_;
  std::byte* base_;
  ModelArena arena_;
  mr::Domain other_;
  uint64_t born_ = 0;
  std::vector<LiveRegion> live_;
  std::array<Window1, 4> windows1_;
  std::array<Window2, 4> windows2_;
  std::vector<mr::Region> dead_;  // keys that let nobody do anything
  Tally tally_;
};

}  // namespace kilim::test
