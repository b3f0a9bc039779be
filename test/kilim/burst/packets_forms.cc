// SPDX-License-Identifier: BSD-3-Clause
// Part of burst_packets_random. Receives in other forms than one CQE and one buffer a packet:
// blocks of compressed completions against what their packets are by themselves, and packets that
// share buffers, each byte of which belongs to one at a time.
#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <vector>

#include "burst_fixture.hh"
#include "forms_cases.hh"
#include "rows_fixture.hh"

namespace packets_forms_ut {
namespace {

using namespace kilim;
using namespace kilim::burst;
using pool::Handle;
using test::Bench;

// One receive as a device would describe it in a CQE of its own.
struct Arrival {
  prm::Cqe cqe;
  uint32_t index = 0;
  bool hash_known = true;  // to the reader
};

// Writes completions alone or as blocks, as a card does (see test/vhca/ethernet/compression.cc,
// which holds the device to the same), and compares.
class Compressed {
 public:
  Compressed(const RxVariant& v, bool hash, uint32_t cqe_bytes)
      : burst_(v.burst), config_(v.config), hash_(hash) {
    b_.rx_memory.cq.entry_bytes = cqe_bytes;
    b_.rx->cq = queue::Cq(b_.rx_memory.cq.geometry());
    b_.rx->mini_hash = hash;
    b_.rx->refill_at = 1;
    rx_refill(*b_.rx);
  }
  // Blocks of random lengths, and a burst of a random one.
  void round() {
    for (uint32_t n = below(5); n > 0; n--) {
      const uint32_t most = std::min(can_come(), 30u);
      if (most == 0) break;
      if (below(3) != 0 && most > 1)
        block(2 + below(most - 1));
      else
        single();
    }
    receive(1 + below(26));
  }
  // A block of each length that the ring has room for in turn, now and then behind a single one,
  // and a burst of `want`.
  void round_of(uint32_t want) {
    if (due_.empty() && below(3) == 0) single();
    const uint32_t next = 2 + blocks_ % (test::RxMemory::wqes - 1);
    if (can_come() >= next) block(next);
    receive(want);
  }
  void finish() {
    while (!due_.empty()) receive(1 + below(26));
    EQUAL(b_.outstanding(), b_.rx->rq.posted());
    EQUAL(b_.rx->counters.packets.read(), packets_);
    EQUAL(b_.rx->counters.bytes.read(), bytes_);
    EQUAL(read(), made_);
    // What the device did not write since was marked.
    for (uint32_t i = 0; i < test::CqMemory::count; i++)
      CU_ASSERT_TRUE(slot(i).op_own >= prm::cqe::invalid_op_own);
  }
  [[nodiscard]] uint32_t blocks() const { return blocks_; }
  [[nodiscard]] uint32_t longest() const { return longest_; }

 private:
  static constexpr Handle untouched{0xdead, 0xbeef, 0xfff8};

  void receive(uint32_t want) {
    std::array<Handle, 40> out;
    out.fill(untouched);
    const uint32_t n = burst_(*b_.rx, std::span(out).first(want));
    for (uint32_t i = want; i < out.size(); i++) CU_ASSERT_TRUE_FATAL(out[i] == untouched);
    for (uint32_t i = 0; i < n; i++) compare(out[i]);
    while (!due_.empty() && is_error(due_.front())) due_.pop_front();
  }
  // Packets for which there are entries and receives.
  uint32_t can_come() {
    const uint32_t room = test::CqMemory::count - (made_ - read());
    return std::min(room, b_.rx->rq.posted() - static_cast<uint32_t>(due_.size()));
  }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  uint32_t read() { return b_.rx_memory.cq.record.host(); }
  static bool is_error(const Arrival& a) { return queue::Cq::is_error(a.cqe.op_own); }
  prm::Cqe& slot(uint32_t i) {
    const uint32_t halves = b_.rx_memory.cq.entry_bytes / 64;
    return b_.rx_memory.cq.cqes[(i % test::CqMemory::count + 1) * halves - 1];
  }
  [[nodiscard]] bool owner(uint32_t i) const { return (i / test::CqMemory::count & 1) != 0; }

  Arrival next(const prm::Cqe& like) {
    Arrival a{.cqe = like};
    const auto wqe = static_cast<uint16_t>(wqe_++);
    a.index = b_.rx->rq.index(wqe);
    a.cqe.wqe_counter = be16{wqe};
    a.cqe.byte_cnt = be32{1 + below(1984)};
    a.cqe.rx_hash_result = be32{below(4) == 0 ? 0u : static_cast<uint32_t>(random_())};
    a.cqe.checksum = be16{static_cast<uint16_t>(random_())};
    return a;
  }
  prm::Cqe title() {
    prm::Cqe e{};
    test::describe_at_random(e, random_);
    return e;
  }
  void single() {
    Arrival a = next(title());
    if (below(10) == 0) {
      b_.rx_memory.cq.produced = made_++;
      b_.rx_memory.cq.write_error(prm::CqeOpcode::resp_err, a.cqe.wqe_counter.host(),
                                  prm::Syndrome::local_length);
      a.cqe.op_own = 0xe0;
      return due_.push_back(a);
    }
    a.cqe.op_own = prm::cqe::op_own(prm::CqeOpcode::resp_send, false, owner(made_));
    slot(made_++) = a.cqe;
    due_.push_back(a);
  }
  void block(uint32_t count) {
    const prm::Cqe like = title();
    // Behind the last one lies what lay there before.
    std::vector<std::array<be32, 2>> minis((count + 7) / 8 * 8, {be32{0x5a5a5a5a}, be32{1999}});
    for (uint32_t i = 0; i < count; i++) {
      Arrival a = next(like);
      const uint32_t sum = uint32_t{a.cqe.checksum.host()} << 16;
      minis[i] = {hash_ ? a.cqe.rx_hash_result : be32{sum}, a.cqe.byte_cnt};
      if (i == 0) {
        prm::Cqe first = a.cqe;
        first.byte_cnt = be32{count};
        first.op_own = static_cast<uint8_t>(0x2c | (owner(made_) ? 1 : 0));
        slot(made_) = first;
      }
      a.hash_known = hash_ || i == 0;
      due_.push_back(a);
    }
    for (uint32_t i = 0; i < count; i += 8)
      std::memcpy(static_cast<void*>(&slot(made_ + (i == 0 ? 1 : i))), &minis[i], 64);
    made_ += count;
    blocks_++;
    longest_ = std::max(longest_, count);
  }
  // Of the packet by itself, whose hash is 0 where nobody says it.
  pool::SideRecord expected(const Arrival& a, const pool::SideRecord& before) const {
    prm::Cqe e = a.cqe;
    if (!a.hash_known) e.rx_hash_result = {};
    return test::expected_side(e, config_, before);
  }
  void compare(Handle h) {
    while (!due_.empty() && is_error(due_.front())) due_.pop_front();
    CU_ASSERT_FALSE_FATAL(due_.empty());
    const Arrival a = due_.front();
    due_.pop_front();
    EQUAL_FATAL(h.index, a.index);
    EQUAL_FATAL(h.length, a.cqe.byte_cnt.host());
    EQUAL_FATAL(h.meta, pool::meta_at_line(2) | (config_.side ? Handle::side : 0u));
    if (config_.side) {
      const pool::SideRecord& side = b_.arena.side(h);
      const pool::SideRecord wanted = expected(a, side);
      CU_ASSERT_TRUE_FATAL(std::memcmp(&side, &wanted, sizeof side) == 0);
    }
    packets_++;
    bytes_ += h.length;
    b_.cache->free_one(h);
  }

  Bench b_;
  RxBurst burst_;
  RxConfig config_;
  bool hash_;
  std::mt19937_64 random_{11};
  std::deque<Arrival> due_;
  uint32_t wqe_ = 0, made_ = 0, blocks_ = 0, longest_ = 0;
  uint64_t packets_ = 0, bytes_ = 0;
};

void compressed_as_one_by_one() {
  CU_ASSERT_TRUE_FATAL(test::start_eal());
  uint32_t visited = 0;
  for (const RxVariant& v : test::compiled().compressed) {
    if (v.needs > widest_simd()) continue;
    visited++;
    for (const bool hash : {true, false}) {
      for (const uint32_t cqe_bytes : {64u, 128u}) {
        Compressed c(v, hash, cqe_bytes);
        for (int i = 0; i < 400; i++) c.round();
        c.finish();
        CU_ASSERT_TRUE(c.blocks() > 100);
        CU_ASSERT_TRUE(c.longest() > 20);
      }
    }
  }
  EQUAL(visited, 10 * test::kinds_of_vectors());
}

void blocks_of_each_length() {
  CU_ASSERT_TRUE_FATAL(test::start_eal());
  for (const RxVariant& v : test::compiled().compressed) {
    if (v.needs > widest_simd()) continue;
    for (const uint32_t want : {1u, 4u, 7u, 8u, 32u}) {
      Compressed c(v, want % 2 == 0, 64);
      for (int i = 0; i < 5000 && c.blocks() < 3 * test::RxMemory::wqes; i++) c.round_of(want);
      c.finish();
      EQUAL(c.blocks(), 3 * test::RxMemory::wqes);
      EQUAL(c.longest(), test::RxMemory::wqes);
    }
  }
}

// A device that puts packets into buffers of 8 strides of 256 bytes; packets come back late and in
// any order, and their side records are theirs until then.
class Strided {
 public:
  static constexpr uint32_t wqes = 8, strides = 8, stride_bytes = 256;
  Strided(const RxVariant& v, uint32_t side_piece)
      : burst_(v.burst),
        config_(v.config),
        side_(buffers * pool::side_records_of(pool::default_stride, side_piece)) {
    arena_ =
        *pool::Arena::over(memory_, pool::default_stride, side_.data(), extra_.data(), side_piece);
    pool_.emplace(*std::move(pool::Pool::create(arena_, {.name = "strided", .count = buffers})));
    cache_.emplace(*pool_);
    const RxPlace place{arena_, test::arena_key, 0, 0, {8, 3}};
    q_.emplace(
        RxQueue{.rq = RxRing({reinterpret_cast<std::byte*>(ring_.data()), wqes, 32, &record_},
                             indices_, place),
                .cq = queue::Cq(cq_.geometry()),
                .cache = &*cache_,
                .arena = arena_,
                .refill_at = 2,
                .strides = place.strides});
    rx_refill_strides(*q_);
  }
  void round() {
    for (uint32_t n = below(12); n > 0; n--) arrive();
    std::array<Handle, 16> out;
    const uint32_t n = burst_(*q_, std::span(out).first(1 + below(15)));
    for (uint32_t i = 0; i < n; i++) compare(out[i]);
    std::shuffle(held_.begin(), held_.end(), random_);
    while (!held_.empty() && below(3) != 0) give_back();
  }
  // As a port that stops: in the middle of a buffer.
  void finish() {
    CU_ASSERT_TRUE(fillers_ > 10);
    CU_ASSERT_TRUE(errors_ > 10);
    CU_ASSERT_TRUE(packets_ > 1000);
    EQUAL(q_->counters.packets.read(), packets_);
    while (q_->strides_held == 0) round();
    rx_forget_strides(*q_);
    q_->rq.reset([this](uint32_t index) noexcept { cache_->free_indices({&index, 1}); });
    while (!held_.empty()) give_back();
    cache_->flush();
    EQUAL(pool_->available(), buffers);
    std::array<uint32_t, 2 * buffers> all{};
    EQUAL(pool_->pop(all), buffers);
    EQUAL(std::set<uint32_t>(all.begin(), all.begin() + buffers).size(), buffers);
    for (const pool::ExtraHolders& e : extra_) EQUAL(e.load(), 0);
  }

 private:
  static constexpr uint32_t buffers = 40;
  struct Due {
    Handle handle;
    pool::SideRecord side;
  };
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  // The buffer that the device fills.
  uint32_t buffer() const { return q_->rq.index(static_cast<uint16_t>(wqe_)); }
  bool has_buffer() const { return static_cast<uint16_t>(record_.host() - wqe_) != 0; }
  prm::Cqe& entry(uint32_t byte_cnt, uint32_t stride) {
    prm::Cqe& e = cq_.write(prm::CqeOpcode::resp_send, static_cast<uint16_t>(stride), byte_cnt);
    e.wqe_id = be16{static_cast<uint16_t>(wqe_)};
    return e;
  }
  void use(uint32_t n) {
    used_ += n;
    if (used_ < strides) return;
    used_ = 0;
    wqe_++;
  }
  void arrive() {
    const uint32_t bytes = 1 + below(below(3) == 0 ? 2048 : 300);
    const uint32_t need = (bytes + stride_bytes - 1) / stride_bytes;
    if (cq_.produced - cq_.record.host() > 50 || !has_buffer()) return;
    if (used_ + need > strides) {
      entry(1u << 31 | (strides - used_) << 16, used_);
      fillers_++;
      use(strides - used_);
      if (!has_buffer()) return;
    }
    check_wqe();
    if (used_ == 0 && below(12) == 0) {  // too long for any
      cq_.write_error(prm::CqeOpcode::resp_err, static_cast<uint16_t>(wqe_),
                      prm::Syndrome::local_length);
      errors_++;
      return use(strides);
    }
    Handle h{buffer(), static_cast<uint16_t>(bytes), pool::meta_at(used_ * stride_bytes)};
    prm::Cqe& e = entry(need << 16 | bytes, used_);
    e.rx_hash_result = be32{below(4) == 0 ? 0u : static_cast<uint32_t>(random_())};
    test::describe_at_random(e, random_);
    if (config_.side) h.meta |= Handle::side;
    due_.push_back({h, test::expected_side(e, config_, arena_.side(h))});
    use(need);
  }
  void check_wqe() {
    const auto& link = ring_[wqe_ % wqes][0];
    const auto& data = ring_[wqe_ % wqes][1];
    EQUAL(link.addr.host(), 0);
    EQUAL(link.byte_count.host(), 0);
    EQUAL(data.addr.host(), arena_.address({buffer(), 0, 0}).value());
    EQUAL(data.byte_count.host(), 2048);
    EQUAL(data.lkey.host(), test::arena_key.value());
  }
  void compare(Handle h) {
    CU_ASSERT_FALSE_FATAL(due_.empty());
    CU_ASSERT_TRUE_FATAL(h == due_.front().handle);
    const pool::SideRecord wanted = due_.front().side;
    due_.pop_front();
    for (const auto& [other, side] : held_) {
      const bool apart = other.index != h.index || other.offset() + other.length <= h.offset() ||
                         h.offset() + h.length <= other.offset();
      CU_ASSERT_TRUE(apart);
    }
    held_.push_back({h, wanted});
    packets_++;
  }
  void give_back() {
    const auto& [h, wanted] = held_.back();
    if (config_.side)
      CU_ASSERT_TRUE_FATAL(std::memcmp(&arena_.side(h), &wanted, sizeof wanted) == 0);
    cache_->free_one(h);
    held_.pop_back();
  }

  RxBurst burst_;
  RxConfig config_;
  std::vector<std::byte> memory_{std::size_t{buffers} * pool::default_stride};
  std::vector<pool::SideRecord> side_;
  std::array<pool::ExtraHolders, buffers> extra_{};
  pool::Arena arena_;
  std::optional<pool::Pool> pool_;
  std::optional<pool::BufferCache> cache_;
  std::array<std::array<prm::DataSeg, 2>, wqes> ring_{};
  std::array<uint32_t, wqes> indices_{};
  be32 record_{0};
  test::CqMemory cq_;
  std::optional<RxQueue> q_;
  std::mt19937_64 random_{3};
  std::deque<Due> due_;
  std::vector<Due> held_;
  uint32_t wqe_ = 0, used_ = 0, fillers_ = 0, errors_ = 0;
  uint64_t packets_ = 0;
};

void packets_share_buffers() {
  CU_ASSERT_TRUE_FATAL(test::start_eal());
  for (const RxVariant& v : test::compiled().strided) {
    for (const uint32_t side_piece : {64u, 256u}) {
      Strided s(v, side_piece);
      for (int i = 0; i < 1500; i++) s.round();
      s.finish();
    }
  }
}

constexpr kilim::test::Case of_forms[] = {
    {"compressed completions are those of one by one", compressed_as_one_by_one},
    {"blocks of each length, in bursts of 1 to 32", blocks_of_each_length},
    {"packets share buffers, and all come back", packets_share_buffers},
};

}  // namespace
}  // namespace packets_forms_ut

std::span<const kilim::test::Case> kilim::test::forms_cases() {
  return packets_forms_ut::of_forms;
}
