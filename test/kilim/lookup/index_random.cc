// SPDX-License-Identifier: BSD-3-Clause
// Part of index_ut. Random changes of the index, of which a plain search over all regions knows the
// right answers.
#include <cerrno>
#include <memory>
#include <random>
#include <vector>

#include "kilim/detail/lookup/front.hh"
#include "kilim/detail/lookup/index.hh"
#include "kilim/detail/mr/registrar.hh"
#include "lookup_fixture.hh"

namespace index_random_ut {
namespace {

using namespace kilim;
using namespace kilim::lookup;
using namespace kilim::mr;
using namespace kilim::test;

// What the index is meant to answer, by looking at every region.
class Plain {
 public:
  void add(const Region& r) { regions_.push_back(r); }
  void remove(std::size_t at) { regions_.erase(regions_.begin() + static_cast<long>(at)); }
  const std::vector<Region>& regions() const { return regions_; }
  Lkey find(uint64_t address, uint64_t bytes, uint32_t access) const {
    const Region* best = nullptr;
    for (const Region& r : regions_)
      if (r.covers(address, bytes) && (r.access & access) == access &&
          (best == nullptr || r.length < best->length))
        best = &r;
    return best != nullptr ? best->lkey : Lkey{0};
  }

 private:
  std::vector<Region> regions_;
};

class Sequence {
 public:
  explicit Sequence(uint32_t seed) : random_(seed) {}

  void run(int steps) {
    CU_ASSERT_TRUE_FATAL(index_ != nullptr);
    for (int step = 0; step < steps; step++) {
      const bool full = plain_.regions().size() > 60;
      if (!plain_.regions().empty() && (full || random_() % 3 == 0))
        remove();
      else
        add();
      for (int i = 0; i < 12; i++) look();
      if (step % 16 == 0) rte_rcu_qsbr_quiescent(readers_.get(), 0);
    }
    while (!plain_.regions().empty()) remove();
    for (int i = 0; i < 100; i++) look();
    rte_rcu_qsbr_quiescent(readers_.get(), 0);
    CU_ASSERT_TRUE(index_->gone(Lkey{1}));
    EQUAL(index_->waiting(), 0);
    CU_ASSERT_TRUE(found_ > 1000);
    CU_ASSERT_TRUE(found_ < looked_ - 1000);
    CU_ASSERT_TRUE(front_.misses() > 1000);
    CU_ASSERT_TRUE(front_.misses() < 2 * looked_ - 1000);
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  // Few places, so that regions meet: in the arena, across its end, across a GiB, elsewhere.
  uint64_t place() {
    constexpr uint64_t from[] = {arena, arena + arena_bytes - 2 * mib2, 90 * gib - 2 * mib2, gib};
    return from[below(4)];
  }
  uint64_t length() {
    switch (below(6)) {
      case 0:
        return mib2 * (1 + below(4));
      case 1:
        return kib4 * (1 + below(16));
      case 2:
        return 1 + below(100);
      case 3:
        return 1 + below(3 * mib2);
      case 4:
        return below(8) == 0 ? Index::widest + below(3) : kib4;
      default:
        return kib4 * (1 + below(600));
    }
  }
  uint64_t offset() {
    switch (below(3)) {
      case 0:
        return mib2 * below(4);
      case 1:
        return kib4 * below(1024);
      default:
        return below(4 * mib2);
    }
  }
  void add() {
    const Region r =
        region(place() + offset(), length(), next_++, static_cast<uint32_t>(below(32)));
    const Status ok = index_->add(r);
    CU_ASSERT_TRUE_FATAL(ok.ok());
    plain_.add(r);
  }
  void remove() {
    const std::size_t at = below(plain_.regions().size());
    CU_ASSERT_TRUE_FATAL(index_->remove(plain_.regions()[at].lkey).ok());
    plain_.remove(at);
  }
  // Near the borders of what is there, else anywhere.
  void look() {
    uint64_t address = place() + offset(), bytes = length();
    if (!plain_.regions().empty() && below(4) != 0) {
      const Region& r = plain_.regions()[below(plain_.regions().size())];
      address = (below(2) == 0 ? r.address : r.address + r.length) + below(3) - 1;
      if (below(2) == 0) bytes = r.length + below(3) - 1;
      if (below(3) == 0) bytes = 1 + below(3);
    }
    if (bytes == 0) bytes = 1;
    const auto access = static_cast<uint32_t>(below(2) == 0 ? 0 : 1u << below(5));
    const Lkey expected = plain_.find(address, bytes, access);
    EQUAL_FATAL(index_->find(address, bytes, Rights{access}), expected);
    EQUAL_FATAL(front_.find(address, bytes, Rights{access}), expected);
    EQUAL_FATAL(front_.find(address, bytes, Rights{access}), expected);
    looked_++;
    if (expected != Lkey{0}) found_++;
  }

  std::mt19937 random_;
  Qsbr readers_ = [] {
    Qsbr v = make_qsbr(1);
    rte_rcu_qsbr_thread_register(v.get(), 0);
    rte_rcu_qsbr_thread_online(v.get(), 0);
    return v;
  }();
  std::unique_ptr<Index> index_ = make_index(readers_.get());
  Front front_{*index_};
  Plain plain_;
  uint32_t next_ = 1;
  uint64_t looked_ = 0, found_ = 0;
};

void against_a_search() {
  for (uint32_t seed = 1; seed <= 4; seed++) Sequence{seed}.run(2500);
}

constexpr kilim::test::Case by_search[] = {
    {"random sequences agree with a search of all regions", against_a_search},
};

}  // namespace
}  // namespace index_random_ut

std::span<const kilim::test::Case> kilim::test::index_random_cases() {
  return index_random_ut::by_search;
}
