// SPDX-License-Identifier: BSD-3-Clause
// Random requests, equal ones on several adapters, of which some are kept from the straight way and
// some are observed: data, UMRs of every form, invalidations, by direct keys and by bound ones.
// Completions, states, counts, keys and memory must be the same. Part of plain_ut.
#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>

#include <unistd.h>

#include "dice_fixture.hh"
#include "ut.hh"

namespace kilim::vhca::test {
namespace plain_random_ut {
namespace {

// The key at a place, with the tag that it is believed to have.
uint32_t key_of(const Side& s, const Dice& dice, uint32_t place) {
  const uint32_t key = s.keys[place];
  return place < Side::bound ? key : (key & ~0xffu) | dice.keys[place - Side::bound].tag;
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
  for (uint32_t place = Side::bound; place < x.keys.size(); place++) {
    const tpt::Mkey &a = x.key(place), &b = y.key(place);
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

// One request on all sides, with the receive that it needs: a wait would be a matter of time.
// Returns how many basic blocks it takes.
uint32_t post(std::span<Side* const> sides, Dice& dice) {
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

// What is written to a completion queue, up to now.
std::vector<std::optional<Completion>> completions_of(TestCq& cq) {
  std::vector<std::optional<Completion>> all;
  while (const std::optional<Completion> c = cq.poll()) all.push_back(c);
  return all;
}

using Completions = std::array<std::vector<std::optional<Completion>>, 2>;

bool same(const Completions& x, const Completions& y) {
  for (std::size_t i = 0; i < x.size(); i++) {
    if (x[i].size() != y[i].size()) return false;
    for (std::size_t k = 0; k < x[i].size(); k++)
      if (!same(x[i][k], y[i][k])) return false;
  }
  return true;
}

// A doorbell's worth on all, each beside the first.
bool round(std::span<Side* const> sides, Dice& dice) {
  const uint32_t most = dice.below(15) + 1;
  dice.learn(*sides.back());
  for (uint32_t n = 0, blocks = 0; n < most && blocks <= 48; n++) blocks += post(sides, dice);
  bool equal = true;
  Side& first = *sides.front();
  Completions wanted;
  for (Side* s : sides) {
    s->rig.a.ring(s->rig.uar);
    (void)s->rig.hca->run();
    const Completions came = {completions_of(s->rig.cq_a), completions_of(s->rig.cq_b)};
    if (s == &first) wanted = came;
    equal = equal && same(came, wanted) && same_counts(first.journal(), s->journal()) &&
            same_memory(first, *s) && same_keys(first, *s);
    for (auto qp : {&Rig::a, &Rig::b})
      equal = equal && first.rig.state(first.rig.*qp) == s->rig.state(s->rig.*qp);
  }
  return equal;
}

// A journal's lines, which are gone with it.
struct Lines {
  Lines() {
    const int fd = ::mkstemp(path);
    if (fd >= 0) ::close(fd);
    Result<std::unique_ptr<Journal>> opened = Journal::open(path, Journal::Format::text, "vhca0");
    if (opened) journal = std::move(*opened);
  }
  ~Lines() { ::unlink(path); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  [[nodiscard]] std::string text() const {
    std::stringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }
  char path[32] = "/tmp/kilim-lines-XXXXXX";
  std::unique_ptr<Journal> journal;
};

}  // namespace
}  // namespace plain_random_ut

void both_ways_do_the_same() {
  unsigned straight = 0, refused = 0;
  uint64_t changed = 0, invalidated = 0;
  for (unsigned seed = 1; seed <= 12; seed++) {
    Side plain(seed, false), general(seed, true);
    Dice dice(seed);
    for (unsigned i = 0; i < 1500; i++) {
      CU_ASSERT_FATAL(plain_random_ut::round(std::array{&plain, &general}, dice));
      straight += plain.work() < general.work() ? 1 : 0;
      if (plain.rig.state(plain.rig.a) == QpState::rts && !dice.one_in(8)) continue;
      refused++;
      begin_again(plain);
      begin_again(general);
    }
    changed += plain.rig.journal.count(Journal::Kind::umr);
    invalidated += plain.rig.journal.count(Journal::Kind::invalidate);
  }
  CU_ASSERT(straight > 3000);
  CU_ASSERT(refused > 300);
  CU_ASSERT(changed > 3000);
  CU_ASSERT(invalidated > 100);
}

// A journal with a file has the lines of the general way, and requests go the straight way all the
// same.
void observers_change_nothing() {
  unsigned straight = 0;
  for (unsigned seed = 21; seed <= 23; seed++) {
    const plain_random_ut::Lines told, general_told;
    CU_ASSERT_FATAL(told.journal != nullptr);
    CU_ASSERT_FATAL(general_told.journal != nullptr);
    Side plain(seed, false), told_plain(seed, false, {.journal = told.journal.get()}),
        mortal(seed, false, {.fatal_at = ~uint64_t{0}}),
        general(seed, true, {.journal = general_told.journal.get()});
    Dice dice(seed);
    for (unsigned i = 0; i < 700; i++) {
      CU_ASSERT_FATAL(
          plain_random_ut::round(std::array{&plain, &told_plain, &mortal, &general}, dice));
      straight += told_plain.work() == plain.work() && mortal.work() == plain.work() &&
                          plain.work() < general.work()
                      ? 1
                      : 0;
      if (plain.rig.state(plain.rig.a) == QpState::rts && !dice.one_in(8)) continue;
      for (Side* s : {&plain, &told_plain, &mortal, &general}) begin_again(*s);
    }
    CU_ASSERT(told.text() == general_told.text());
    CU_ASSERT(told.text().size() > 100'000);
  }
  CU_ASSERT(straight > 300);
}

}  // namespace kilim::vhca::test
