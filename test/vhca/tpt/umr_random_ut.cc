// SPDX-License-Identifier: BSD-3-Clause
// Random layouts against a plain reference: pieces of 1 B to 64 KiB, unaligned, overlapping, of two
// regions and of other keys, lists and interleaved ones, inline and by pointer; gathered by WRITE
// and SEND, scattered by READ.
#include <algorithm>
#include <random>
#include <vector>

#include "kilim/prm/data_seg.hh"
#include "ut.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {
namespace umr_random_ut {
namespace {

namespace umr = prm::umr;

struct Range {
  uint64_t va, bytes;
};
using Flat = std::vector<Range>;

uint64_t length_of(const Flat& f) {
  uint64_t n = 0;
  for (const Range& r : f) n += r.bytes;
  return n;
}
// Appends bytes [at, at + n) of `from`.
void append(Flat& to, const Flat& from, uint64_t at, uint64_t n) {
  for (const Range& r : from) {
    if (n == 0) return;
    uint64_t skip = std::min(at, r.bytes);
    uint64_t take = std::min(n, r.bytes - skip);
    if (take > 0) to.push_back({r.va + skip, take});
    at -= skip;
    n -= take;
  }
}
std::byte* bytes_at(uint64_t va) {
  return reinterpret_cast<std::byte*>(va);
}

class Bench {
 public:
  Bench() : rig_(shape()) {
    r1_ = rig_.reg(arena_.va(), half, rw_access).lkey.value();
    r2_ = rig_.reg(Va{arena_.at(half)}, half, rw_access).lkey.value();
    flat_keys_ = rig_.reg(linear_, rw_access);
    list_key_ = rig_.reg(lists_, access::local_write).lkey.value();
    for (Key& k : keys_) k.key = rig_.make_key(256);
    for (std::size_t i = 0; i < arena_.size(); i++)
      arena_.data()[i] = static_cast<std::byte>(random_());
  }

  // False: the data differ from the reference, or the adapter refused.
  bool round(unsigned i) {
    Key& k = keys_[i % keys_.size()];
    return configure(k, i % keys_.size()) && (i % 3 == 2 ? scatter(k) : gather(k, i % 3 == 1));
  }
  Rig& rig() { return rig_; }

 private:
  static constexpr uint32_t half = 131072;
  struct Key {
    uint32_t key = 0;
    uint64_t start = 0;
    Flat flat;
  };
  static RigShape shape() {
    RigShape s;
    s.b.rq_wqes = 16;
    return s;
  }
  uint32_t any(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  // Many short ones, some up to 64 KiB.
  uint32_t any_length(uint32_t most) { return std::min(most, any(1u << any(17)) + 1); }

  prm::Klm any_piece(std::size_t level, uint32_t most, Flat& flat) {
    if (level > 0 && any(3) == 0) {
      const Key& inner = keys_[any(static_cast<uint32_t>(level))];
      auto n = static_cast<uint32_t>(length_of(inner.flat));
      uint32_t bytes = any_length(std::min(n, most));
      uint32_t at = any(n - bytes + 1);
      append(flat, inner.flat, at, bytes);
      return klm(inner.start + at, bytes, inner.key);
    }
    uint32_t bytes = any_length(std::min(most, 65536u));
    uint64_t at = arena_.at(any(half - bytes + 1)) + (any(2) != 0 ? half : 0);
    flat.push_back({at, bytes});
    return klm(at, bytes, at < arena_.at(half) ? r1_ : r2_);
  }

  std::vector<prm::Klm> any_list(std::size_t level, Flat& flat) {
    std::vector<prm::Klm> list;
    uint32_t n = any(8) == 0 ? any(200) + 1 : any(24) + 1;
    uint64_t total = 0;
    for (uint32_t i = 0; i < n && total < limit - 1; i++) {
      list.push_back(any_piece(level, static_cast<uint32_t>(limit - total), flat));
      total += list.back().byte_count.host();
    }
    return list;
  }
  std::vector<prm::Klm> any_interleaved(Flat& flat) {
    uint32_t entries = any(6) + 1, repeats = any(12) + 1, bytes = 0;
    std::vector<prm::Klm> list(1);
    Flat first;
    std::vector<uint32_t> strides;
    for (uint32_t i = 0; i < entries; i++) {
      uint32_t n = any_length(2000), stride = any(4000);
      uint64_t at = arena_.at(any(half - n - stride * repeats + 1));
      list.push_back(
          repeat_entry(static_cast<uint16_t>(stride), static_cast<uint16_t>(n), r1_, at));
      first.push_back({at, n});
      strides.push_back(stride);
      bytes += n;
    }
    list[0] = repeat_head(bytes, repeats, static_cast<uint16_t>(entries));
    for (uint32_t r = 0; r < repeats; r++) {
      for (uint32_t i = 0; i < entries; i++)
        flat.push_back({first[i].va + uint64_t{r} * strides[i], first[i].bytes});
    }
    return list;
  }

  bool configure(Key& k, std::size_t level) {
    k.flat.clear();
    std::vector<prm::Klm> list = any(4) == 0 ? any_interleaved(k.flat) : any_list(level, k.flat);
    UmrShape s;
    s.mask |= umr::mask_start_addr;
    s.start = k.start = any(2) == 0 ? 0 : random_();
    s.len = length_of(k.flat);
    bool inlined = list.size() <= 52;
    if (inlined && any(4) != 0) return ok(umr_wqe(k.key, s, list));
    list.resize((list.size() + 3) / 4 * 4);
    std::memcpy(lists_.data(), list.data(), list.size() * sizeof(prm::Klm));
    s.flags = 0;
    Wqe w = umr_wqe(k.key, s, {});
    be16 octowords{static_cast<uint16_t>(list.size())};
    std::memcpy(w.bytes.data() + 20, &octowords, sizeof(octowords));
    return ok(w.data(lists_.at(0), static_cast<uint32_t>(list.size() * 16), list_key_));
  }

  bool gather(const Key& k, bool by_send) {
    auto all = static_cast<uint32_t>(length_of(k.flat));
    uint32_t n = any(all) + 1, at = any(all - n + 1);
    std::memset(linear_.data(), 0, n);
    if (by_send) rig_.b.recv(linear_.at(0), n, flat_keys_.lkey.value());
    Wqe w(by_send ? Opcode::send : Opcode::rdma_write);
    if (!by_send) w.raddr(linear_.at(0), flat_keys_.rkey.value());
    if (!ok(w.data(k.start + at, n, k.key)) || by_send != rig_.cq_b.poll().has_value())
      return false;
    Flat want;
    append(want, k.flat, at, n);
    const std::byte* got = linear_.data();
    for (const Range& r : want) {
      if (std::memcmp(got, bytes_at(r.va), r.bytes) != 0) return false;
      got += r.bytes;
    }
    return true;
  }

  bool scatter(const Key& k) {
    auto all = static_cast<uint32_t>(length_of(k.flat));
    uint32_t n = any(all) + 1, at = any(all - n + 1);
    for (uint32_t i = 0; i < n; i += 8) {
      uint64_t v = random_();
      std::memcpy(linear_.data() + i, &v, sizeof(v));
    }
    std::memcpy(shadow_.data(), arena_.data(), arena_.size());
    Flat want;
    append(want, k.flat, at, n);
    const std::byte* from = linear_.data();
    for (const Range& r : want) {
      std::memcpy(shadow_.data() + (r.va - arena_.at(0)), from, r.bytes);
      from += r.bytes;
    }
    Wqe w(Opcode::rdma_read);
    w.raddr(linear_.at(0), flat_keys_.rkey.value()).data(k.start + at, n, k.key);
    return ok(w) && std::memcmp(shadow_.data(), arena_.data(), arena_.size()) == 0;
  }

  bool ok(const Wqe& w) { return rig_.run_one(rig_.a, w).syndrome == Syndrome::none; }

  static constexpr uint64_t limit = 200'000;
  Rig rig_;
  Pages arena_{2 * half}, shadow_{2 * half}, linear_{limit + 8}, lists_{8192};
  std::mt19937_64 random_{2026};
  std::array<Key, 4> keys_;
  uint32_t r1_ = 0, r2_ = 0, list_key_ = 0;
  MrKeys flat_keys_{};
};

void random_layouts_equal_the_reference() {
  Bench t;
  unsigned good = 0;
  for (unsigned i = 0; i < 3000; i++) {
    if (!t.round(i)) break;
    good++;
  }
  EQUAL(good, 3000);
  EQUAL(t.rig().journal.count(Journal::Kind::umr), 3000);
  CU_ASSERT(t.rig().journal.pieces() > 3000 * 4);
}

const kilim::test::Case cases[] = {
    {"random layouts equal the reference", random_layouts_equal_the_reference},
};

}  // namespace
}  // namespace umr_random_ut
}  // namespace kilim::vhca::test

KILIM_TEST_SUITE(umr_random, kilim::vhca::test::umr_random_ut::cases)
