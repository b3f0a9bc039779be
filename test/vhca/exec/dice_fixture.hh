// SPDX-License-Identifier: BSD-3-Clause
// For plain_ut: random requests and changes of keys, and what the asker believes of the keys.
#pragma once

#include <array>
#include <random>
#include <vector>

#include "plain_fixture.hh"

namespace kilim::vhca::test {

// A request as both sides get it: addresses are offsets, keys are places.
struct Ask {
  Opcode opcode = Opcode::rdma_write;
  uint32_t local = Side::whole_src, remote = Side::whole_dst;
  uint32_t stale = 0;  // added to the local key
  uint64_t from = 0, to = 0;
  uint32_t bytes = 64, segments = 1;
  uint8_t flags = prm::ctrl::cq_update;
  bool inlined = false;
};

// A change of a bound key.
struct Entry {
  uint32_t place = Side::whole_src, bytes = 0;
  uint64_t offset = 0;
};

struct Change {
  uint32_t place = 0;
  UmrShape shape;
  std::vector<Entry> entries;
  uint8_t flags = 0;
  bool invalidates = false, by_pointer = false, strided = false;
  uint32_t stale = 0;  // added to the key
};

// What the asker believes of a bound key.
struct Belief {
  uint8_t tag = 0;
  bool free = true;
  uint64_t start = 0, len = 0;
  std::array<uint64_t, 72> bytes{};

  [[nodiscard]] uint64_t sum() const {
    uint64_t n = 0;
    for (const uint64_t b : bytes) n += b;
    return n;
  }
};

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  bool one_in(uint32_t n) { return below(n) == 0; }

  Ask ask() {
    Ask a;
    a.opcode = one_in(4) ? Opcode::rdma_read : Opcode::rdma_write;
    if (one_in(6)) a.opcode = !one_in(4) ? Opcode::send : Opcode::rdma_write_imm;
    if (one_in(30)) a.opcode = Opcode::nop;
    a.local = place(Side::whole_src);
    a.remote = place(Side::whole_dst);
    a.stale = one_in(200) ? 1 : 0;
    a.bytes = one_in(3) ? below(1u << (1 + below(13))) + 1 : below(80) + 1;
    fit(a.local, a.bytes);
    fit(a.remote, a.bytes);
    a.from = offset(a.local, a.bytes);
    a.to = offset(a.remote, a.bytes);
    if (one_in(300)) a.bytes = 0;  // 2 GiB
    if (one_in(4)) a.flags = 0;
    if (one_in(10)) a.flags |= prm::ctrl::solicited | prm::ctrl::small_fence;
    if (one_in(12)) a.segments = 2;
    a.inlined = a.opcode == Opcode::rdma_write && one_in(12);
    return a;
  }

  Change change() {
    const uint32_t k = below(3);
    Belief& b = keys[k];
    Change c;
    c.place = Side::bound + k;
    c.flags = one_in(3) ? prm::ctrl::cq_update : 0;
    c.stale = one_in(100) ? 1 : 0;
    c.invalidates = !b.free && one_in(12);
    if (c.invalidates) {
      b.free = true;
      return c;
    }
    UmrShape& s = c.shape;
    c.by_pointer = one_in(15);
    if (c.by_pointer) s.flags = 0;
    if (b.free || !one_in(6)) entries(c, k);
    if (one_in(3)) s.mask |= prm::umr::mask_start_addr;
    s.start = one_in(2) ? 0 : random_();
    if (!one_in(3)) s.tag = static_cast<uint8_t>(b.tag + below(3));
    if (one_in(20)) s.mask &= ~prm::umr::mask_mkey;
    if (one_in(20)) s.mask &= ~prm::umr::mask_free;
    if (one_in(20)) s.mask &= ~prm::umr::mask_len;
    if (one_in(400)) s.mask |= prm::umr::mask_sig_err;
    if (one_in(20)) s.access = static_cast<uint8_t>(below(8) << 3);
    if (one_in(30)) s.flags |= b.free ? prm::umr::check_not_free : prm::umr::check_free;
    if (one_in(200)) s.flags |= prm::umr::check_free;
    if (one_in(30)) s.free = prm::mkey::free;
    s.len = b.sum();
    if (one_in(20)) s.len += one_in(2) ? 1 : random_();
    if (one_in(10)) s.len = below(static_cast<uint32_t>(std::min<uint64_t>(s.len, 4096)) + 1);
    believe(b, s, k);
    return c;
  }

  // The truth about the keys, which a refused change did not become.
  void learn(Side& side) {
    for (uint32_t k = 0; k < keys.size(); k++) {
      const tpt::Mkey& m = side.key(Side::bound + k);
      keys[k] = {m.tag(), m.free, m.start, m.len, {}};
      for (uint32_t i = 0; i < m.used; i++) keys[k].bytes[i] = m.list[i].byte_count.host();
    }
  }
  std::array<Belief, 3> keys;

 private:
  uint32_t place(uint32_t usual) {
    if (one_in(3)) return bound(usual);
    return one_in(6) ? below(Side::list_memory) : usual;
  }
  uint32_t bound(uint32_t otherwise) {
    const uint32_t k = below(3);
    return keys[k].free && !one_in(40) ? otherwise : Side::bound + k;
  }
  void fit(uint32_t place, uint32_t& bytes) {
    if (place < Side::bound || one_in(60)) return;
    const uint64_t len = std::min(keys[place - Side::bound].len, keys[place - Side::bound].sum());
    if (len < bytes) bytes = static_cast<uint32_t>(std::max<uint64_t>(len, 1));
  }
  uint64_t offset(uint32_t place, uint32_t bytes) {
    const bool listed = place >= Side::bound;
    const Belief* b = listed ? &keys[place - Side::bound] : nullptr;
    const uint64_t direct = place == Side::half ? region_bytes / 2 : region_bytes;
    const uint64_t len = listed ? std::min(b->len, b->sum()) : direct;
    const uint64_t start = listed ? b->start : 0;
    const uint64_t last = len > bytes ? len - bytes : 0;
    if (one_in(300)) return start + last + 1;
    if (one_in(4)) return start + last;  // to the last byte
    return start + below(static_cast<uint32_t>(std::min<uint64_t>(last, region_bytes)) + 1);
  }

  Entry entry() {
    Entry e;
    e.place = one_in(3) ? Side::whole_dst : Side::whole_src;
    if (one_in(25)) e.place = below(Side::list_memory);
    if (one_in(80)) e.place = Side::bound + below(3);
    e.bytes = one_in(3) ? below(2048) + 1 : below(100) + 1;
    const uint32_t size = e.place == Side::half ? region_bytes / 2 : region_bytes;
    e.offset = one_in(4) ? size - e.bytes : below(size - e.bytes + 1);
    if (one_in(400)) e.offset++;
    if (one_in(400)) e.bytes = one_in(2) ? 0 : 0x80000001;
    if (one_in(40)) e = {};  // padding
    return e;
  }
  void entries(Change& c, uint32_t k) {
    const uint32_t capacity = Side::capacities[k];
    c.entries.resize(1 + below(std::min(capacity, 52u)));
    for (Entry& e : c.entries) e = entry();
    const auto padded = static_cast<uint32_t>((c.entries.size() + 3) / 4 * 4);
    if (one_in(3)) {
      c.shape.flags |= prm::umr::has_translation_offset;
      c.shape.offset = static_cast<uint16_t>(below((capacity - padded) / 4 + 1) * 4);
      if (one_in(100)) c.shape.offset = static_cast<uint16_t>(c.shape.offset + below(capacity));
    }
    c.strided = c.entries.size() > 2 && one_in(150);
    for (uint32_t i = 0; i < padded && c.shape.offset + i < capacity; i++)
      keys[k].bytes[c.shape.offset + i] = i < c.entries.size() ? c.entries[i].bytes : 0;
  }
  static void believe(Belief& b, const UmrShape& s, uint32_t) {
    if ((s.mask & prm::umr::mask_mkey) != 0 && s.tag) b.tag = *s.tag;
    if ((s.mask & prm::umr::mask_free) != 0) b.free = s.free != 0;
    if ((s.mask & prm::umr::mask_start_addr) != 0) b.start = s.start;
    if ((s.mask & prm::umr::mask_len) != 0) b.len = s.len;
  }

  std::minstd_rand random_;
};

}  // namespace kilim::vhca::test
