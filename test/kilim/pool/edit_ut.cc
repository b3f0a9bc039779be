// SPDX-License-Identifier: BSD-3-Clause
// Headers put on and taken off, packets of several pieces: the offsets that a handle can say, a
// VLAN tag and a tunnel's headers in place, a random run beside a string of bytes.
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "eal.hh"
#include "kilim/detail/pool/chain.hh"
#include "kilim/detail/pool/edit.hh"
#include "kilim/detail/pool/pool.hh"
#include "ut.hh"

namespace edit_ut {
namespace {

using namespace kilim::pool;

constexpr uint32_t buffers = 64;
constexpr uint32_t stride = 192;

struct Field {
  std::vector<std::byte> memory = std::vector<std::byte>(std::size_t{buffers} * stride);
  Arena arena = *Arena::over(memory, stride);
  std::optional<Pool> pool;
  std::optional<BufferCache> cache;

  explicit Field(const char* name) {
    CU_ASSERT_TRUE_FATAL(kilim::test::start_eal());
    pool.emplace(*Pool::create(arena, {.name = name, .count = buffers}));
    cache.emplace(*pool);
    EQUAL_FATAL(cache->alloc({&one, 1}, 0), 1u);
    cache->free_one(one);
  }
  // Buffers that somebody holds.
  [[nodiscard]] uint32_t away() const { return buffers - pool->available() - cache->held(); }
  Handle one;
};

// Where an arena has several side records a buffer, the packet's goes where its data go, and those
// of other packets stay.
void records_go_along() {
  std::vector<std::byte> memory(std::size_t{4} * stride);
  std::vector<SideRecord> sides(std::size_t{4} * side_records_of(stride, 64));
  EQUAL(sides.size(), 12u);
  const Arena arena = *Arena::over(memory, stride, sides.data(), nullptr, 64);
  EQUAL(arena.side_piece(), 64u);
  Handle h = make_handle(2, 64, 1);
  h.meta |= Handle::side;
  const Handle behind = make_handle(2, 64, 2);
  arena.side(h).rx_hash = 7, arena.side(behind).rx_hash = 9;
  CU_ASSERT_TRUE(&arena.side(h) != &arena.side(behind) &&
                 &arena.side(h) != &arena.side(make_handle(1, 64, 1)));
  CU_ASSERT_TRUE_FATAL(prepend(arena, h, 4) != nullptr);
  EQUAL(arena.side(h).rx_hash, 7u);
  arena.side(h).rx_hash = 8;
  CU_ASSERT_TRUE_FATAL(adjust(arena, h, 20) != nullptr);
  EQUAL(arena.side(h).rx_hash, 8u);
  CU_ASSERT_TRUE_FATAL(adjust(arena, h, 48) != nullptr);  // nothing is left of it
  EQUAL(uint32_t{h.length}, 0u);
  EQUAL(arena.side(behind).rx_hash, 9u);
  Handle without = make_handle(2, 64, 1);
  CU_ASSERT_TRUE_FATAL(adjust(arena, without, 63) != nullptr);
  CU_ASSERT_TRUE_FATAL(append(arena, without, 10) != nullptr);
  CU_ASSERT_TRUE_FATAL(adjust(arena, without, 5) != nullptr);
  EQUAL(arena.side(behind).rx_hash, 9u);
}

void to_the_last_byte() {
  Field f("ends");
  Handle h = make_handle(3, 10, 1);
  h.meta |= Handle::side | Handle::more;
  EQUAL(headroom(h), 64u);
  EQUAL(tailroom(f.arena, h), stride - 74);
  CU_ASSERT_TRUE(prepend(f.arena, h, 65) == nullptr);
  CU_ASSERT_TRUE(append(f.arena, h, stride - 73) == nullptr);
  CU_ASSERT_TRUE(adjust(f.arena, h, 11) == nullptr);
  CU_ASSERT_FALSE(trim(h, 11));
  Handle same = make_handle(3, 10, 1);
  same.meta |= Handle::side | Handle::more;
  CU_ASSERT_TRUE(h == same);
  CU_ASSERT_TRUE(prepend(f.arena, h, 64) == f.arena.buffer(3));
  CU_ASSERT_TRUE(append(f.arena, h, stride - 74) == f.arena.buffer(3) + 74);
  EQUAL(uint32_t{h.length}, stride);
  EQUAL(headroom(h) + tailroom(f.arena, h), 0u);
  CU_ASSERT_TRUE(adjust(f.arena, h, 1) == f.arena.buffer(3) + 1);
  EQUAL(uint32_t{h.length}, stride - 1);
  CU_ASSERT_TRUE(trim(h, stride - 1));
  EQUAL(headroom(h), 1u);
  EQUAL(tailroom(f.arena, h), stride - 1);
  CU_ASSERT_TRUE(h.has(Handle::side));
  CU_ASSERT_TRUE(h.has(Handle::more));
  CU_ASSERT_TRUE(!h.has(Handle::key));
}

std::vector<std::byte> counted(std::size_t n) {
  std::vector<std::byte> v(n);
  for (std::size_t i = 0; i < n; i++) v[i] = static_cast<std::byte>(i + 1);
  return v;
}

// 12 bytes of addresses, a tag of 4 behind them, and away again (rte_vlan_insert, rte_vlan_strip).
void vlan_tag_and_tunnel() {
  Field f("tags");
  Handle h = make_handle(5, 60, 1);
  const std::vector<std::byte> frame = counted(60);
  std::memcpy(f.arena.data(h), frame.data(), 60);
  std::byte* const tagged = prepend(f.arena, h, 4);
  CU_ASSERT_TRUE_FATAL(tagged == f.arena.buffer(5) + 60);
  std::memmove(tagged, tagged + 4, 12);
  std::memcpy(tagged + 12, "\x81\x00\x01\x02", 4);
  EQUAL(uint32_t{h.length}, 64u);
  CU_ASSERT_TRUE(std::memcmp(tagged, frame.data(), 12) == 0);
  CU_ASSERT_TRUE(std::memcmp(tagged + 16, &frame[12], 48) == 0);
  constexpr uint32_t vxlan = 50;  // Ethernet, IPv4, UDP, VXLAN
  std::byte* const outer = prepend(f.arena, h, vxlan);
  CU_ASSERT_TRUE_FATAL(outer == f.arena.buffer(5) + 10);
  std::memset(outer, 0xee, vxlan);
  CU_ASSERT_TRUE(adjust(f.arena, h, vxlan) == tagged);
  std::memmove(tagged + 4, tagged, 12);
  std::byte* const bare = adjust(f.arena, h, 4);
  CU_ASSERT_TRUE(bare == f.arena.buffer(5) + 64);
  CU_ASSERT_TRUE(std::memcmp(bare, frame.data(), 60) == 0);
  CU_ASSERT_TRUE(h == make_handle(5, 60, 1));
}

// A packet in pieces beside its bytes.
class Model {
 public:
  Model(Field& f, uint32_t seed) : f_(f), random_(seed) {}

  void run() {
    for (int i = 0; i < 3000; i++) {
      step();
      compare();
    }
    f_.cache->free(packet_);
    EQUAL(f_.away(), 0u);
  }

 private:
  uint32_t below(std::size_t n) { return static_cast<uint32_t>(random_() % n); }
  std::byte any() { return static_cast<std::byte>(random_()); }

  void step() {
    if (packet_.empty()) return make();
    switch (below(8)) {
      case 0:
        return put_on();
      case 1:
        return add();
      case 2:
        return take_off();
      case 3:
        return cut();
      case 4:
        return gather();
      case 5:
        return copy();
      case 6:
        return drop();
      default:
        return below(4) == 0 ? make() : read();
    }
  }
  void make() {
    f_.cache->free(packet_);
    packet_.resize(1 + below(4));
    CU_ASSERT_TRUE_FATAL(f_.cache->alloc(packet_, 0) == packet_.size());
    bytes_.clear();
    for (Handle& h : packet_) {
      h.meta = meta_at(below(stride));
      const uint32_t n = below(tailroom(f_.arena, h) + 1);
      std::byte* to = append(f_.arena, h, n);
      for (uint32_t i = 0; i < n; i++) bytes_.push_back(to[i] = any());
    }
    chain(packet_);
    CU_ASSERT_TRUE(first_packet(std::span(packet_)).size() == packet_.size());
  }
  void put_on() {
    const uint32_t n = below(60);
    std::byte* to = prepend(f_.arena, packet_[0], n);
    CU_ASSERT_TRUE_FATAL((to != nullptr) == (n <= head_room()));
    if (to == nullptr) return;
    for (uint32_t i = 0; i < n; i++) to[i] = any();
    bytes_.insert(bytes_.begin(), to, to + n);
  }
  // Before the last prepend(), which took its bytes only if it went well.
  uint32_t head_room() {
    const auto begin =
        static_cast<uint32_t>(f_.arena.data(packet_[0]) - f_.arena.buffer(packet_[0].index));
    return begin + (packet_length(packet_) - static_cast<uint32_t>(bytes_.size()));
  }
  void add() {
    const uint32_t n = below(60);
    std::byte* to = append(f_.arena, packet_.back(), n);
    if (to == nullptr) return;
    for (uint32_t i = 0; i < n; i++) bytes_.push_back(to[i] = any());
  }
  void take_off() {
    const uint32_t n = below(100);
    const bool fits = n <= bytes_.size();
    CU_ASSERT_TRUE_FATAL(adjust_packet(f_.arena, packet_, n) == fits);
    if (fits) bytes_.erase(bytes_.begin(), bytes_.begin() + n);
  }
  void cut() {
    const uint32_t n = below(100);
    const bool fits = n <= bytes_.size();
    CU_ASSERT_TRUE_FATAL(trim_packet(packet_, n) == fits);
    if (fits) bytes_.resize(bytes_.size() - n);
  }
  void gather() {
    const bool fits = bytes_.size() <= stride;
    CU_ASSERT_TRUE_FATAL(linearize(packet_, *f_.cache) == fits);
    if (fits) packet_.resize(1);
  }
  void copy() {
    std::vector<Handle> out(8);
    const uint32_t head = below(stride);
    const uint32_t n = copy_packet(packet_, *f_.cache, out, head);
    EQUAL_FATAL(n, std::max<uint32_t>(
                       1, (head + static_cast<uint32_t>(bytes_.size()) + stride - 1) / stride));
    f_.cache->free(packet_);
    packet_.assign(out.begin(), out.begin() + n);
    EQUAL(headroom(packet_[0]), head);
    CU_ASSERT_TRUE(copy_packet(packet_, *f_.cache, std::span(out).first(n - 1), head) == 0);
  }
  void drop() {
    packet_.resize(drop_empty(packet_, *f_.cache));
    for (const Handle h : packet_) CU_ASSERT_TRUE(h.length != 0 || packet_.size() == 1);
    CU_ASSERT_TRUE(first_packet(std::span(packet_)).size() == packet_.size());
  }
  void read() {
    std::byte scratch[97];
    const uint32_t at = below(bytes_.size() + 20), n = 1 + below(97);
    const std::byte* got = read_bytes(f_.arena, packet_, at, {scratch, n});
    CU_ASSERT_TRUE_FATAL((got != nullptr) == (at + n <= bytes_.size()));
    if (got != nullptr) CU_ASSERT_TRUE_FATAL(std::memcmp(got, &bytes_[at], n) == 0);
    if (got != nullptr && packet_.size() == 1)
      CU_ASSERT_TRUE(got == f_.arena.data(packet_[0]) + at);
  }
  void compare() {
    std::vector<std::byte> all(bytes_.size() + 1);
    EQUAL_FATAL(packet_length(packet_), bytes_.size());
    EQUAL_FATAL(copy_bytes(f_.arena, packet_, 0, all), bytes_.size());
    CU_ASSERT_TRUE_FATAL(std::equal(bytes_.begin(), bytes_.end(), all.begin()));
    EQUAL_FATAL(f_.away(), packet_.size());
  }

  Field& f_;
  std::mt19937 random_;
  std::vector<Handle> packet_;
  std::vector<std::byte> bytes_;
};

void random_run() {
  for (uint32_t seed : {1u, 2u, 3u}) {
    Field f("edits");
    Model(f, seed).run();
  }
}

void no_buffers_for_a_copy() {
  Field f("none");
  std::vector<Handle> all(buffers);
  EQUAL_FATAL(f.cache->alloc(all, 100), buffers);
  Handle out[2];
  EQUAL(copy_packet({&all[0], 1}, *f.cache, out, 0), 0u);
  f.cache->free_one(all.back());
  EQUAL(copy_packet({&all[0], 1}, *f.cache, out, 100), 0u);  // it wants two
  EQUAL(f.cache->held(), 1u);
  EQUAL(copy_packet({&all[0], 1}, *f.cache, out, 92), 1u);
  f.cache->free(out[0].index == all.back().index ? std::span(all) : std::span<Handle>());
  EQUAL(f.away(), 0u);
}

const kilim::test::Case cases[] = {
    {"side records go along with the data", records_go_along},
    {"data move by single bytes, to the buffer's ends and not beyond", to_the_last_byte},
    {"a VLAN tag and a tunnel are put on and taken off in place", vlan_tag_and_tunnel},
    {"a random run of edits keeps a packet's bytes", random_run},
    {"a copy without buffers takes none", no_buffers_for_a_copy},
};

}  // namespace
}  // namespace edit_ut

KILIM_TEST_SUITE(edit, edit_ut::cases)
