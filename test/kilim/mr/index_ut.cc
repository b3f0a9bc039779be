// SPDX-License-Identifier: BSD-3-Clause
// Indexes from address to key against plain searches, and regions that deregister themselves.
#include <array>
#include <cerrno>
#include <map>
#include <random>

#include "kilim/mr/flat_index.hh"
#include "kilim/mr/registrar.hh"
#include "kilim/mr/sorted_index.hh"
#include "ut.hh"

namespace {

using namespace kilim;
using namespace kilim::mr;

constexpr uint64_t mib2 = 2u << 20;

Region region(uint64_t address, uint64_t length, uint32_t key) {
  return {.address = address, .length = length, .iova = address, .lkey = Lkey{key}};
}

void flat() {
  constexpr uint64_t base = 64 * mib2;
  Result<FlatIndex> made = FlatIndex::create(base, 8 * mib2, mib2);
  CU_ASSERT_TRUE_FATAL(made.ok());
  FlatIndex& index = *made;
  CU_ASSERT_TRUE(index.add(region(base, 2 * mib2, 5)).ok());
  CU_ASSERT_TRUE(index.add(region(base + 7 * mib2, mib2, 6)).ok());
  CU_ASSERT_TRUE(index.find(base) == Lkey{5});
  CU_ASSERT_TRUE(index.find(base + 2 * mib2 - 1) == Lkey{5});
  CU_ASSERT_TRUE(index.find(base + 2 * mib2) == Lkey{0});
  CU_ASSERT_TRUE(index.find(base + 8 * mib2 - 1) == Lkey{6});
  CU_ASSERT_TRUE(index.find(base + 8 * mib2) == Lkey{0});
  CU_ASSERT_TRUE(index.find(base - 1) == Lkey{0});
  CU_ASSERT_TRUE(index.find(0) == Lkey{0});
  index.remove(region(base, 2 * mib2, 5));
  CU_ASSERT_TRUE(index.find(base) == Lkey{0});
}

void flat_refuses() {
  CU_ASSERT_EQUAL(FlatIndex::create(0, mib2, 3).error().code, EINVAL);
  CU_ASSERT_EQUAL(FlatIndex::create(0, 0, 4096).error().code, EINVAL);
  CU_ASSERT_EQUAL(FlatIndex::create(~uint64_t{0}, mib2, 4096).error().code, EINVAL);
  Result<FlatIndex> made = FlatIndex::create(mib2, 4 * mib2, mib2);
  CU_ASSERT_EQUAL(made->add(region(mib2 + 4096, mib2, 1)).error().code, EINVAL);
  CU_ASSERT_EQUAL(made->add(region(mib2, 4096, 1)).error().code, EINVAL);
  CU_ASSERT_EQUAL(made->add(region(0, mib2, 1)).error().code, EINVAL);
  CU_ASSERT_EQUAL(made->add(region(4 * mib2, 2 * mib2, 1)).error().code, EINVAL);
}

void sorted_against_a_map() {
  std::mt19937 random{7};
  SortedIndex index;
  std::map<uint64_t, uint64_t> plain;  // address to length
  for (int step = 0; step < 4000; step++) {
    const uint64_t address = random() % 100000;
    const uint64_t length = 1 + random() % 200;
    bool overlaps = false;
    for (const auto& [a, l] : plain) overlaps |= address < a + l && a < address + length;
    CU_ASSERT_EQUAL_FATAL(index.add(region(address, length, 1)).ok(), !overlaps);
    if (!overlaps) plain[address] = length;
    if (step % 3 == 0) {
      const uint64_t gone = random() % 100000;
      CU_ASSERT_EQUAL_FATAL(index.remove(gone).ok(), plain.erase(gone) == 1);
      const auto next = plain.lower_bound(gone);
      if (next != plain.end()) {
        CU_ASSERT_TRUE_FATAL(index.remove(next->first).ok());
        plain.erase(next);
      }
    }
  }
  CU_ASSERT_TRUE(plain.size() > 50);
  CU_ASSERT_EQUAL(index.size(), plain.size());
  for (uint64_t at = 0; at < 101000; at++) {
    auto next = plain.upper_bound(at);
    const bool inside =
        next != plain.begin() && at - std::prev(next)->first < std::prev(next)->second;
    const Region* found = index.find(at, 1);
    CU_ASSERT_EQUAL_FATAL(found != nullptr, inside);
    if (found != nullptr) {
      CU_ASSERT_EQUAL_FATAL(found->address, std::prev(next)->first);
      const uint64_t left = found->length - (at - found->address);
      CU_ASSERT_PTR_NOT_NULL_FATAL(index.find(at, left));
      CU_ASSERT_PTR_NULL_FATAL(index.find(at, left + 1));
    }
  }
}

void sorted_refuses() {
  SortedIndex index;
  CU_ASSERT_EQUAL(index.add(region(5, 0, 1)).error().code, EINVAL);
  CU_ASSERT_EQUAL(index.add(region(5, ~uint64_t{0}, 1)).error().code, EINVAL);
  CU_ASSERT_TRUE(index.add(region(~uint64_t{0} - 9, 10, 1)).ok());
  CU_ASSERT_PTR_NOT_NULL(index.find(~uint64_t{0}, 1));
  CU_ASSERT_PTR_NULL(index.find(~uint64_t{0}, 2));
  CU_ASSERT_EQUAL(index.remove(5).error().code, ENOENT);
}

class Counting final : public Registrar {
 public:
  Result<Region> register_memory(std::span<std::byte> memory, uint32_t access,
                                 uint64_t page_bytes) override {
    if (memory.empty()) return Error{EFAULT, "nothing to register"};
    live++;
    Region r = region(reinterpret_cast<uint64_t>(memory.data()), memory.size(), 9);
    r.access = access;
    r.page_bytes = page_bytes;
    return r;
  }
  Result<Region> register_memory_at(std::span<std::byte> memory, Iova iova, uint32_t access,
                                    uint64_t page_bytes) override {
    Result<Region> r = register_memory(memory, access, page_bytes);
    if (r) r->iova = iova.value();
    return r;
  }
  Status deregister(const Region&) override {
    live--;
    return Done{};
  }
  int live = 0;
};

void mr_deregisters_once() {
  Counting registrar;
  std::array<std::byte, 64> memory{};
  {
    Result<Mr> a = Mr::create(registrar, memory, Access::local, 4096);
    Result<Mr> b = Mr::create(registrar, memory, Access::all, 4096);
    CU_ASSERT_TRUE_FATAL(a.ok() && b.ok());
    CU_ASSERT_EQUAL(registrar.live, 2);
    Mr moved = std::move(*a);
    CU_ASSERT_EQUAL(moved.region().access, Access::local);
    moved = std::move(*b);
    CU_ASSERT_EQUAL(registrar.live, 1);
  }
  CU_ASSERT_EQUAL(registrar.live, 0);
  CU_ASSERT_EQUAL(Mr::create(registrar, {}, Access::local, 4096).error().code, EFAULT);
}

const kilim::test::Case cases[] = {
    {"the flat index finds keys by block", flat},
    {"the flat index refuses regions off its blocks or outside", flat_refuses},
    {"the sorted index agrees with a map", sorted_against_a_map},
    {"the sorted index refuses empty and wrapping regions", sorted_refuses},
    {"a region deregisters itself once, also when moved", mr_deregisters_once},
};

}  // namespace

KILIM_UT_MAIN("mr/index", cases)
