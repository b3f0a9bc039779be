// SPDX-License-Identifier: BSD-3-Clause
// On-demand paging against a plain model: random mapping, unmapping, moving, forgetting, forking,
// registering, advising, reading and writing. No access succeeds that the model forbids, none fails
// that it allows, the bytes are right, and faults and invalidated pages are counted exactly.
#include <random>

#include "paging_fixture.hh"

namespace kilim::vhca::test {
namespace paging_random_ut {
namespace {

constexpr std::size_t slots = 24;  // pages of the arena
constexpr int steps = 100'000;

struct ModelRegion {
  bool live = false, writable = false;
  std::size_t first = 0, pages = 0;  // implicit: all of the arena
  uint32_t key = 0;
  std::array<uint8_t, slots> table{};  // 0, 1 present, 3 writable
};

struct Model {
  std::array<bool, slots> mapped{}, writable{};
  std::vector<uint8_t> bytes = std::vector<uint8_t>(slots * page);
  std::array<ModelRegion, 4> regions;
  uint64_t faults = 0, invalidated = 0;

  // The pages' memory has changed hands.
  void gone(std::size_t at, std::size_t n) {
    for (ModelRegion& r : regions) {
      for (std::size_t i = at; r.live && i < at + n; i++) invalidated += r.table[i] != 0;
      for (std::size_t i = at; i < at + n; i++) r.table[i] = 0;
    }
  }
  [[nodiscard]] bool all(const std::array<bool, slots>& what, std::size_t at, std::size_t n) const {
    for (std::size_t i = at; i < at + n; i++) {
      if (!what[i]) return false;
    }
    return true;
  }
  [[nodiscard]] uint64_t present() const {
    uint64_t n = 0;
    for (const ModelRegion& r : regions) {
      for (uint8_t p : r.table) n += r.live && p != 0;
    }
    return n;
  }
};

class RandomWalk {
 public:
  explicit RandomWalk(uint32_t seed) : random_(seed), arena_(slots * page) {
    for (std::size_t i = 0; i < slots; i++) model_.mapped[i] = model_.writable[i] = true;
    MrSpec spec{t_.rig.pd, Va{0}, UINT64_MAX, Iova{0}, odp_access};
    model_.regions[0] = {true, true, 0, slots, hca::reg_mr(*t_.rig.hca, spec)->lkey.value(), {}};
  }
  ~RandomWalk() {
    // What has been moved away leaves holes; the mapping's own end takes the rest.
    for (ModelRegion& r : model_.regions) drop(r);
  }
  // False: something is not as the model says.
  bool step() {
    switch (below(12)) {
      case 0:
        return map();
      case 1:
        return unmap();
      case 2:
        return move();
      case 3:
        return forget();
      case 4:
        return below(20) != 0 || fork();
      case 5:
        return register_one();
      case 6:
        return advise();
      case 7:
        return client_write();
      default:
        return access();
    }
  }
  [[nodiscard]] const char* last() const { return last_; }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  uint8_t* at(std::size_t slot) { return arena_.bytes() + slot * page; }
  void range(std::size_t& first, std::size_t& n) {
    first = below(slots);
    n = 1 + below(std::min<std::size_t>(4, slots - first));
  }
  bool counts_agree() {
    return t_.stat(num_page_faults) == model_.faults &&
           t_.stat(num_invalidation_pages) == model_.invalidated &&
           t_.stat(num_odp_mr_pages) == model_.present();
  }

  bool map() {
    last_ = "map";
    std::size_t first, n;
    range(first, n);
    const bool writable = below(4) != 0;
    const int flags = (below(3) == 0 ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_FIXED;
    const int prot = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    if (::mmap(at(first), n * page, prot, flags, -1, 0) != at(first)) return false;
    model_.gone(first, n);
    for (std::size_t i = first; i < first + n; i++) {
      model_.mapped[i] = true;
      model_.writable[i] = writable;
    }
    std::memset(model_.bytes.data() + first * page, 0, n * page);
    return counts_agree();
  }
  bool unmap() {
    last_ = "unmap";
    std::size_t first, n;
    range(first, n);
    if (::munmap(at(first), n * page) != 0) return false;
    model_.gone(first, n);
    for (std::size_t i = first; i < first + n; i++) model_.mapped[i] = model_.writable[i] = false;
    return counts_agree();
  }
  // One page to another place.
  bool move() {
    last_ = "move";
    const std::size_t from = below(slots), to = below(slots);
    if (from == to || !model_.mapped[from]) return true;
    void* got = ::mremap(at(from), page, page, MREMAP_MAYMOVE | MREMAP_FIXED, at(to));
    if (got != at(to)) return false;
    model_.gone(to, 1);
    model_.gone(from, 1);
    std::memcpy(&model_.bytes[to * page], &model_.bytes[from * page], page);
    model_.mapped[to] = true;
    model_.writable[to] = model_.writable[from];
    model_.mapped[from] = model_.writable[from] = false;
    return counts_agree();
  }
  bool forget() {
    last_ = "forget";
    const std::size_t slot = below(slots);
    if (!model_.mapped[slot]) return true;
    ::madvise(at(slot), page, MADV_DONTNEED);
    model_.gone(slot, 1);
    // Shared memory keeps its bytes, private memory is zeroes again: the client can tell.
    std::memcpy(&model_.bytes[slot * page], at(slot), page);
    return counts_agree();
  }
  bool fork() {
    last_ = "fork";
    t_.rig.hca->lock.lock();
    tpt::page_events::before_fork();
    t_.rig.hca->lock.unlock();
    model_.gone(0, slots);
    return counts_agree();
  }
  void drop(ModelRegion& r) {
    if (r.live) hca::dereg_mr(*t_.rig.hca, MkeyIndex{r.key >> 8});
    r = {};
  }
  bool register_one() {
    last_ = "register";
    ModelRegion& r = model_.regions[1 + below(3)];
    drop(r);
    range(r.first, r.pages);
    r.live = true;
    r.writable = below(2) == 0;
    uint32_t access = r.writable ? odp_access : read_only;
    MrSpec spec{t_.rig.pd, Va{arena_.at(r.first * page)}, r.pages * page,
                Iova{arena_.at(r.first * page)}, access};
    Result<MrKeys> keys = hca::reg_mr(*t_.rig.hca, spec);
    if (keys.ok()) r.key = keys->lkey.value();
    return keys.ok() && counts_agree();
  }
  bool advise() {
    last_ = "advise";
    ModelRegion& r = model_.regions[below(4)];
    std::size_t first, n;
    range(first, n);
    if (!r.live) return true;
    const bool write = below(2) == 0;
    const bool inside = first >= r.first && first + n <= r.first + r.pages;
    int expected = 0;
    if (write && !r.writable)
      expected = -EPERM;
    else if (!inside || !model_.all(model_.mapped, first, n))
      expected = -EFAULT;
    else if (write && !model_.all(model_.writable, first, n))
      expected = -EPERM;
    auto advice = write ? tpt::Paging::Advice::prefetch_write : tpt::Paging::Advice::prefetch;
    int got =
        t_.advise(advice, true, arena_.at(first * page), static_cast<uint32_t>(n * page), r.key);
    for (std::size_t i = first; got == 0 && i < first + n; i++) r.table[i] = write ? 3 : 1;
    return got == expected && counts_agree();
  }
  bool client_write() {
    last_ = "client's write";
    const std::size_t slot = below(slots), offset = below(page);
    if (!model_.mapped[slot] || !model_.writable[slot]) return true;
    at(slot)[offset] = model_.bytes[slot * page + offset] = static_cast<uint8_t>(random_());
    return true;
  }
  // Whether the model lets the adapter in; what it learns is noted.
  bool allowed(ModelRegion& r, std::size_t first, std::size_t n, bool write) {
    if (first < r.first || first + n > r.first + r.pages || (write && !r.writable)) return false;
    const uint8_t need = write ? 3 : 1;
    bool there = true;
    for (std::size_t i = first; i < first + n; i++) there = there && (r.table[i] & need) == need;
    if (there) return true;
    model_.faults++;
    const auto& able = r.writable ? model_.writable : model_.mapped;
    if (!model_.all(able, first, n)) return false;
    for (std::size_t i = first; i < first + n; i++) r.table[i] = r.writable ? 3 : 1;
    return true;
  }
  bool access() {
    last_ = "access";
    ModelRegion& r = model_.regions[below(4)];
    if (!r.live) return true;
    const std::size_t where = below(slots * page - 1);
    const std::size_t n = 1 + below(std::min<std::size_t>(3 * page, slots * page - where));
    const bool write = below(2) == 0;
    const std::size_t first = where / page, last = (where + n - 1) / page;
    // Rights before bounds, bounds to the byte: regions here begin and end with pages.
    const bool expected = allowed(r, first, last - first + 1, write);
    std::vector<std::byte> data(n);
    for (std::byte& b : data) b = static_cast<std::byte>(random_());
    tpt::Segment s{arena_.at(where), n, r.key, false};
    const tpt::Translator& translator = t_.rig.hca->context.translator;
    ::kilim::vhca::tpt::Access need{t_.rig.pd, prm::mkey::any_qpn,
                                    write ? prm::mkey::remote_write : prm::mkey::remote_read, true};
    Verdict d = tpt::protection::page;
    for (int i = 0; i < 2 && d.misses_page(); i++) {
      d = write ? tpt::scatter_bytes(translator, data.data(), n, {{&s, 1}, need}).target
                : tpt::gather_bytes(translator, {{&s, 1}, need}, data.data(), n).source;
    }
    if (d.ok() != expected) return false;
    if (expected && write) std::memcpy(&model_.bytes[where], data.data(), n);
    bool same = !expected || std::memcmp(&model_.bytes[where], data.data(), n) == 0;
    if (expected && write) same = same && std::memcmp(arena_.bytes() + where, data.data(), n) == 0;
    return same && counts_agree();
  }

  std::mt19937 random_;
  Bench t_;
  Mapping arena_;
  Model model_;
  const char* last_ = "";
};

void the_adapter_agrees_with_the_model() {
  const uint32_t seed = std::random_device{}();
  RandomWalk walk(seed);
  for (int i = 0; i < steps; i++) {
    if (walk.step()) continue;
    std::printf("seed %u, step %d: %s\n", seed, i, walk.last());
    CU_FAIL("the adapter and the model differ");
    return;
  }
}

const kilim::test::Case cases[] = {
    {"the adapter agrees with the model", the_adapter_agrees_with_the_model},
};

}  // namespace
}  // namespace paging_random_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(paging_random, kilim::vhca::test::paging_random_ut::cases)
