// SPDX-License-Identifier: BSD-3-Clause
// The same random requests on two adapters, one of which is kept from the straight way: data, UMRs
// of every form, invalidations, by direct keys and by woven ones. Completions, states, counts, keys
// and memory must be the same. Part of plain_ut.
#include "plain_fixture.hh"
#include "ut.hh"

namespace kilim::vhca::test {
namespace {

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

// A change of a woven key.
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

// What the asker believes of a woven key.
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
    if (one_in(20)) a.opcode = one_in(2) ? Opcode::send : Opcode::rdma_write_imm;
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
    c.place = Side::woven + k;
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
      const Mkey& m = side.key(Side::woven + k);
      keys[k] = {m.tag(), m.free, m.start, m.len, {}};
      for (uint32_t i = 0; i < m.used; i++) keys[k].bytes[i] = m.list[i].byte_count.host();
    }
  }
  std::array<Belief, 3> keys;

 private:
  uint32_t place(uint32_t usual) {
    if (one_in(3)) return woven(usual);
    return one_in(6) ? below(Side::list_memory) : usual;
  }
  uint32_t woven(uint32_t otherwise) {
    const uint32_t k = below(3);
    return keys[k].free && !one_in(40) ? otherwise : Side::woven + k;
  }
  void fit(uint32_t place, uint32_t& bytes) {
    if (place < Side::woven || one_in(60)) return;
    const uint64_t len = std::min(keys[place - Side::woven].len, keys[place - Side::woven].sum());
    if (len < bytes) bytes = static_cast<uint32_t>(std::max<uint64_t>(len, 1));
  }
  uint64_t offset(uint32_t place, uint32_t bytes) {
    const bool listed = place >= Side::woven;
    const Belief* b = listed ? &keys[place - Side::woven] : nullptr;
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
    if (one_in(80)) e.place = Side::woven + below(3);
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

// The key at a place, with the tag that it is believed to have.
uint32_t key_of(const Side& s, const Dice& dice, uint32_t place) {
  const uint32_t key = s.keys[place];
  return place < Side::woven ? key : (key & ~0xffu) | dice.keys[place - Side::woven].tag;
}

Wqe wqe_of(const Side& s, const Dice& dice, const Ask& a) {
  Wqe w(a.opcode, 0x1234);
  w.flags = a.flags;
  if (a.opcode == Opcode::nop) return w;
  if (a.opcode != Opcode::send) w.raddr(s.address_of(a.remote, a.to), key_of(s, dice, a.remote));
  if (a.inlined) {
    std::array<std::byte, 20> text{};
    text.fill(std::byte{0x5a});
    return w.inlined(text);
  }
  const uint32_t first = a.segments == 2 ? a.bytes / 2 : a.bytes;
  const uint64_t from = s.address_of(a.local, a.from);
  const uint32_t key = key_of(s, dice, a.local);
  w.data(from, first, key + a.stale);
  if (a.segments == 2) w.data(from + first, a.bytes - first, key);
  return w;
}

std::vector<prm::Klm> list_of(const Side& s, const Dice& dice, const Change& c) {
  std::vector<prm::Klm> list;
  for (const Entry& e : c.entries) {
    const bool padding = e.bytes == 0 && e.offset == 0;
    list.push_back(padding
                       ? prm::Klm{}
                       : klm(s.address_of(e.place, e.offset), e.bytes, key_of(s, dice, e.place)));
  }
  if (!c.strided) return list;
  list[0] = repeat_head(64, 3, 1);
  list[1] = repeat_entry(96, 64, s.keys[Side::whole_src], s.src.at(8));
  return list;
}

// `before`: the tags as they were when the change was thought of.
Wqe wqe_of(Side& s, const Dice& before, const Change& c) {
  const uint32_t key = key_of(s, before, c.place) + c.stale;
  if (c.invalidates) {
    Wqe w(Opcode::local_inval, key);
    w.flags = c.flags;
    return w;
  }
  const std::vector<prm::Klm> list = list_of(s, before, c);
  Wqe w = umr_wqe(key, c.shape, c.by_pointer ? std::span<const prm::Klm>{} : list);
  w.flags = c.flags;
  if (!c.by_pointer) return w;
  const be16 octowords{static_cast<uint16_t>((list.size() + 3) / 4 * 4)};
  std::memcpy(w.bytes.data() + 16 + 4, &octowords, sizeof(octowords));
  std::memset(s.lists.data(), 0, s.lists.size());
  if (!list.empty()) std::memcpy(s.lists.data(), list.data(), list.size() * sizeof(prm::Klm));
  return w.data(s.lists.at(0), 16, s.keys[Side::list_memory]);
}

bool same(const std::optional<Completion>& x, const std::optional<Completion>& y) {
  if (!x || !y) return x.has_value() == y.has_value();
  return x->op == y->op && x->syndrome == y->syndrome && x->wqe_opcode == y->wqe_opcode &&
         x->qpn == y->qpn && x->uidx == y->uidx && x->bytes == y->bytes && x->imm == y->imm &&
         x->rqpn == y->rqpn && x->index == y->index && x->solicited == y->solicited;
}

bool same_completions(TestCq& x, TestCq& y) {
  for (;;) {
    const std::optional<Completion> a = x.poll(), b = y.poll();
    if (!same(a, b)) return false;
    if (!a) return true;
  }
}

bool same_counts(const Journal& x, const Journal& y) {
  bool equal = x.pieces() == y.pieces();
  for (std::size_t k = 0; k < Journal::kinds; k++)
    equal =
        equal && x.count(static_cast<Journal::Kind>(k)) == y.count(static_cast<Journal::Kind>(k));
  return equal;
}

bool same_memory(const Side& x, const Side& y) {
  return std::memcmp(x.src.data(), y.src.data(), region_bytes) == 0 &&
         std::memcmp(x.dst.data(), y.dst.data(), region_bytes) == 0;
}

bool same_keys(Side& x, Side& y) {
  bool equal = x.keys == y.keys;
  for (uint32_t place = Side::woven; place < x.keys.size(); place++) {
    const Mkey &a = x.key(place), &b = y.key(place);
    equal = equal && a.key == b.key && a.free == b.free && a.rights == b.rights &&
            a.start == b.start && a.len == b.len && a.used == b.used;
    for (uint32_t i = 0; equal && i < a.used; i++)
      equal = a.list[i].byte_count.host() == b.list[i].byte_count.host() &&
              a.list[i].mkey.host() == b.list[i].mkey.host();
  }
  return equal;
}

uint32_t blocks_of(const Wqe& w) {
  return static_cast<uint32_t>(w.bytes.size() + 63) / 64;
}

// One request on both sides, with the receive that it needs: a wait would be a matter of time.
// Returns how many basic blocks it takes.
uint32_t post(std::array<Side*, 2> sides, Dice& dice) {
  uint32_t blocks = 0;
  if (dice.one_in(4)) {
    const Dice before = dice;
    const Change c = dice.change();
    for (Side* s : sides) {
      const Wqe w = wqe_of(*s, before, c);
      blocks = blocks_of(w);
      s->rig.a.put(w);
    }
    return blocks;
  }
  const Ask a = dice.ask();
  const bool receives = a.opcode == Opcode::send || a.opcode == Opcode::rdma_write_imm;
  for (Side* s : sides) {
    if (receives) s->rig.b.recv(s->dst.at(0), region_bytes, s->keys[Side::whole_dst]);
    const Wqe w = wqe_of(*s, dice, a);
    blocks = blocks_of(w);
    s->rig.a.put(w);
  }
  return blocks;
}

// A doorbell's worth on both.
bool round(Side& plain, Side& general, Dice& dice) {
  const uint32_t most = dice.below(15) + 1;
  dice.learn(general);
  for (uint32_t n = 0, blocks = 0; n < most && blocks <= 48; n++)
    blocks += post({&plain, &general}, dice);
  for (Side* s : {&plain, &general}) {
    s->rig.a.ring(s->rig.uar);
    (void)s->rig.hca->run();
  }
  bool equal = same_completions(plain.rig.cq_a, general.rig.cq_a) &&
               same_completions(plain.rig.cq_b, general.rig.cq_b) &&
               same_counts(plain.rig.journal, general.rig.journal) && same_memory(plain, general) &&
               same_keys(plain, general);
  for (auto qp : {&Rig::a, &Rig::b})
    equal = equal && plain.rig.state(plain.rig.*qp) == general.rig.state(general.rig.*qp);
  return equal;
}

}  // namespace

void both_ways_do_the_same() {
  unsigned straight = 0, refused = 0;
  uint64_t changed = 0, invalidated = 0;
  for (unsigned seed = 1; seed <= 12; seed++) {
    Side plain(seed, false), general(seed, true);
    Dice dice(seed);
    for (unsigned i = 0; i < 1500; i++) {
      CU_ASSERT_FATAL(round(plain, general, dice));
      straight += plain.work() < general.work() ? 1 : 0;
      if (plain.rig.state(plain.rig.a) == QpState::rts && !dice.one_in(8)) continue;
      refused++;
      begin_again(plain);
      begin_again(general);
    }
    changed += plain.rig.journal.count(Journal::Kind::umr);
    invalidated += plain.rig.journal.count(Journal::Kind::invalidate);
  }
  CU_ASSERT(straight > 3000 && refused > 300 && changed > 3000 && invalidated > 100);
}

}  // namespace kilim::vhca::test
