// SPDX-License-Identifier: BSD-3-Clause
// Keys differ in their low bits, and lookups ask for the right to write 64 bytes.
#include "perf/compare/lookup_bench.hh"

#include <algorithm>
#include <random>

namespace kilim::perf {
namespace {

constexpr uint64_t message_bytes = 64;
constexpr lookup::Rights rights{mr::Access::local_write};
constexpr uint64_t block = uint64_t{2} << 20;

std::string fill(lookup::Index& index, const LookupShape& shape) {
  for (uint32_t i = 0; i < shape.regions; i++)
    if (const Status ok = index.add(shape.region(i)); !ok) return ok.error().what;
  return {};
}

std::vector<uint64_t> make_addresses(const LookupShape& shape) {
  std::vector<uint64_t> all(std::max<std::size_t>(4096, shape.regions));
  std::mt19937_64 random{1};
  for (std::size_t i = 0; i < all.size(); i++) {
    const uint64_t which =
        shape.order == Order::random ? random() % shape.regions : i * shape.regions / all.size();
    all[i] = shape.address(which) + random() % (shape.region_bytes - message_bytes) / 64 * 64;
  }
  if (shape.order == Order::sequential) std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

mr::Region LookupShape::region(uint32_t i) const noexcept {
  return {.address = address(i),
          .length = region_bytes,
          .iova = address(i),
          .lkey = Lkey{(i + 1) << 8},
          .access = mr::Access::local_write};
}

std::string LookupBench::open(const LookupShape& shape) {
  const uint64_t all = shape.address(shape.regions) - shape.address(0) + shape.region_bytes;
  auto arena = lookup::Index::create({.arena = shape.address(0), .arena_bytes = all});
  auto elsewhere = lookup::Index::create({});
  if (!arena || !elsewhere) return "no memory for the index";
  arena_ = *std::move(arena);
  elsewhere_ = *std::move(elsewhere);
  for (lookup::Index* index : {arena_.get(), elsewhere_.get()})
    if (std::string why = fill(*index, shape); !why.empty()) return why;
  front_ = std::make_unique<lookup::Front>(*elsewhere_);
  addresses_ = make_addresses(shape);
  flat_ = {shape.address(0), std::vector<uint32_t>(all / block + 1)};
  two_levels_ = std::make_unique<TwoLevelMap>();
  for (uint32_t i = 0; i < shape.regions; i++) {
    const mr::Region r = shape.region(i);
    flat_.keys[(r.address - flat_.base) / block] = r.lkey.value();
    two_levels_->set(r.address, r.lkey.value());
  }
  return {};
}

std::string LookupBench::open_cache(const LookupShape& shape) {
  std::string why;
  cache_ = RegistrationCache::open(why);
  if (!cache_) return why;
  for (uint32_t i = 0; i < shape.regions; i++)
    if (cache_->get_and_put(shape.address(i), shape.region_bytes) == 0)
      return "the registration cache refuses a region";
  return {};
}

uint64_t LookupBench::flat() const noexcept {
  uint64_t sum = 0;
  const uint32_t* keys = flat_.keys.data();
  const uint64_t base = flat_.base;
  for (const uint64_t a : addresses_) sum += keys[(a - base) / block];
  return sum;
}

uint64_t LookupBench::in_arena() const noexcept {
  uint64_t sum = 0;
  for (const uint64_t a : addresses_) sum += arena_->find(a, message_bytes, rights).value();
  return sum;
}

uint64_t LookupBench::elsewhere() const noexcept {
  uint64_t sum = 0;
  for (const uint64_t a : addresses_) sum += elsewhere_->find(a, message_bytes, rights).value();
  return sum;
}

uint64_t LookupBench::front() noexcept {
  uint64_t sum = 0;
  for (const uint64_t a : addresses_) sum += front_->find(a, message_bytes, rights).value();
  return sum;
}

uint64_t LookupBench::two_levels() const noexcept {
  uint64_t sum = 0;
  for (const uint64_t a : addresses_) {
    uint64_t size = message_bytes;
    const uint64_t key = two_levels_->translate(a, &size);
    sum += size == message_bytes ? key : 0;
  }
  return sum;
}

uint64_t LookupBench::cached() noexcept {
  uint64_t sum = 0;
  for (const uint64_t a : addresses_) sum += cache_->get_and_put(a, message_bytes);
  return sum;
}

}  // namespace kilim::perf
