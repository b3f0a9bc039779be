// SPDX-License-Identifier: BSD-3-Clause
// Part of regions_random_ut: the walk's steps with regions. Windows and children are in
// random_windows.cc.
#include <algorithm>
#include <cstdio>

#include <sys/mman.h>

#include "random_walk_fixture.hh"

namespace kilim::test {

using mr::Access;
using mr::Kind;
using mr::Region;

Walk::Walk(device::Device& device, uint64_t seed)
    : device_(device), peer_(device), stranger_(device), random_(seed), base_(reserve()) {
  auto domain = device.registrar().create_domain();
  if (domain) other_ = *domain;
  for (std::size_t p = 0; p < ModelArena::pages; p++) map(p, Mapped::write);
  for (auto& w : windows1_) (void)renew(w);
  for (auto& w : windows2_) (void)renew(w);
}

Walk::~Walk() {
  for (const LiveRegion& l : live_) (void)registrar().deregister(l.region);
  (void)registrar().destroy_domain(other_);
  ::munmap(base_, arena_bytes);
}

bool Walk::ok() const {
  return peer_.ok() && stranger_.ok() && other_.value() != 0;
}

std::byte* Walk::reserve() {
  return static_cast<std::byte*>(::mmap(far_from_all(arena_bytes), arena_bytes, PROT_NONE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

// A pinned page stays, as in a program that is in its right mind.
bool Walk::pinned(std::size_t p) const {
  for (const LiveRegion& l : live_)
    if (!l.model.paged() && l.model.meets_page(p)) return true;
  return false;
}

void Walk::bury(const Region& key) {
  dead_.push_back(key);
  if (dead_.size() > 16) dead_.erase(dead_.begin());
}

// A number may come back after 256 others.
bool Walk::lives(Rkey key) const {
  for (const LiveRegion& l : live_)
    if (l.region.rkey == key) return true;
  for (const Window1& w : windows1_)
    if (w.bound && w.bound.rkey() == key) return true;
  for (const Window2& w : windows2_)
    if (w.bound && w.bound.rkey() == key) return true;
  return false;
}

bool Walk::judge(bool good, const char* what) {
  if (!good) std::printf("%s\n", what);
  return good;
}

// New memory, or none.
void Walk::map(std::size_t p, Mapped how) {
  const int rights = how == Mapped::no     ? PROT_NONE
                     : how == Mapped::read ? PROT_READ
                                           : PROT_READ | PROT_WRITE;
  (void)::mmap(at(p * page), page, rights, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  arena_.map[p] = how;
}

ModelRegion Walk::dream() {
  ModelRegion m;
  const uint64_t kind = below(8);
  m.kind = kind == 0 ? Kind::implicit : kind < 5 ? Kind::on_demand : Kind::pinned;
  const uint64_t whole = ModelArena::pages * page;
  m.from = below(2) == 0 ? below(ModelArena::pages) * page : below(whole - 1);
  m.bytes = std::min(whole - m.from, below(2) == 0 ? (1 + below(4)) * page : 1 + below(3 * page));
  m.access = below(3) == 0 ? 15 : static_cast<uint32_t>(below(16));
  if (below(2) == 0) m.access |= Access::mw_bind;
  if (m.kind == Kind::implicit) m.from = 0, m.bytes = whole;
  return m;
}

bool Walk::register_one() {
  if (live_.size() >= 12) return true;
  LiveRegion l;
  l.model = dream();
  l.model.number = ++born_;
  const std::span<std::byte> memory{at(l.model.from), l.model.bytes};
  Result<Region> r =
      l.model.kind == Kind::implicit    ? registrar().register_implicit(l.model.access, {})
      : l.model.kind == Kind::on_demand ? registrar().register_on_demand(memory, l.model.access, {})
                                        : registrar().register_memory(memory, l.model.access, page);
  const int expected = expect_registration(arena_, l.model);
  const int code = r ? 0 : r.error().code;
  if (code != expected) std::printf("errno %d, expected %d\n", code, expected);
  if (r) {
    l.region = *r;
    live_.push_back(l);
  }
  return judge(code == expected, "registration");
}

bool Walk::deregister_one() {
  if (live_.empty()) return true;
  const std::size_t i = below(live_.size());
  const bool gone = registrar().deregister(live_[i].region).ok();
  bury(live_[i].region);
  live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
  return judge(gone, "deregistration");
}

// An undefined region is destroyed at once: that has to work, and nothing else.
bool Walk::reregister_one() {
  if (live_.empty()) return true;
  const std::size_t i = below(live_.size());
  LiveRegion& l = live_[i];
  if (l.model.kind == Kind::implicit) return true;
  const ModelRegion wanted = dream();
  ModelRegion next = l.model;
  mr::Change c;
  c.translation = below(2) == 0 && wanted.kind != Kind::implicit;
  c.access = below(2) == 0;
  c.domain = below(3) == 0;
  if (!c.translation && !c.access && !c.domain) return true;
  if (c.translation) next.from = wanted.from, next.bytes = wanted.bytes;
  if (c.access) next.access = wanted.access;
  if (c.domain) next.foreign = below(2) == 0;
  c.memory = {at(next.from), next.bytes};
  c.page_bytes = page;
  c.new_access = next.access | (l.model.paged() ? Access::on_demand : 0);
  c.new_domain = next.foreign ? other_ : mr::Domain{0};
  const mr::Rereg r = registrar().reregister(l.region, c);
  const int expected = expect_registration(arena_, next);
  if (r.error.code != expected) std::printf("errno %d, expected %d\n", r.error.code, expected);
  const bool as_expected =
      expected == 0 ? r.ok() : r.outcome == mr::ReregOutcome::command && l.region.undefined;
  if (r.ok()) {
    l.model = next;
    return judge(as_expected, "re-registration");
  }
  tally_.undefined++;
  const bool gone = registrar().reregister(l.region, c).outcome == mr::ReregOutcome::refused &&
                    registrar().deregister(l.region).ok();
  live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
  return judge(as_expected && r.error.code == expected && gone, "failed re-registration");
}

bool Walk::advise_one() {
  if (live_.empty()) return true;
  const LiveRegion& l = live_[below(live_.size())];
  const uint64_t from = l.model.from + below(l.model.bytes);
  const auto n =
      static_cast<uint32_t>(std::min(1 + below(2 * page), ModelArena::pages * page - from));
  const int advice = static_cast<int>(below(3));
  const mr::AdviceRange range{reinterpret_cast<uintptr_t>(at(from)), n, l.region.lkey};
  const Status s = registrar().advise({static_cast<mr::Advice>(advice), true, {&range, 1}});
  const int code = s ? 0 : s.error().code;
  const int expected = expect_advice(arena_, l.model, advice, from, n);
  if (code != expected) std::printf("errno %d, expected %d\n", code, expected);
  (expected == 0 ? tally_.advised : tally_.refused)++;
  return judge(code == expected, "advice");
}

// A dead key lets nobody do anything.
bool Walk::access_one() {
  const bool dead = !dead_.empty() && below(16) == 0;
  if (!dead && live_.empty()) return true;
  const LiveRegion* l = dead ? nullptr : &live_[below(live_.size())];
  const Region& r = dead ? dead_[below(dead_.size())] : l->region;
  if (dead && lives(r.rkey)) return true;
  const uint64_t start = dead ? below(ModelArena::pages) * page : l->model.from;
  const uint64_t length = dead ? page : l->model.bytes;
  const auto act = static_cast<Act>(below(4));
  auto n = static_cast<uint32_t>(below(8) == 0 ? 1 + below(2 * page) : 1 + below(64));
  uint64_t from = start + below(length);
  if (below(8) == 0 && from > 40) from -= 40;  // maybe before its first byte
  if (act == Act::remote_atomic) from &= ~uint64_t{7}, n = 8;
  if (from + n > arena_bytes) return true;
  const Expect expected = dead ? Expect::refused : expect_access(arena_, l->model, act, from, n);
  (expected == Expect::refused ? tally_.forbidden : tally_.allowed)++;
  const auto address = reinterpret_cast<uintptr_t>(at(from));
  return access(peer_, {act, from, n, address, r.lkey, r.rkey, expected});
}

// The old value has come, the new one is there.
bool Walk::sum_of(const Asked& a, const std::vector<std::byte>& before, const Peer& peer,
                  uint64_t added) {
  uint64_t old = 0, now = 0;
  std::memcpy(&old, before.data(), sizeof old);
  std::memcpy(&now, at(a.from), sizeof now);
  tally_.atomics++;
  return std::memcmp(peer.own.data(), before.data(), sizeof old) == 0 && now == old + added;
}

// Of a refused write nothing may have arrived, unless a page in its middle was missing.
bool Walk::access(Peer& peer, const Asked& a) {
  const bool visible = arena_.there(a.from, a.bytes, false);
  const std::vector<std::byte> before(at(a.from), at(a.from) + (visible ? a.bytes : 0));
  for (uint32_t i = 0; i < a.bytes; i++) peer.own.data()[i] = static_cast<std::byte>(random_());
  const uint64_t added = random_();
  const bool done = a.act == Act::remote_atomic  ? peer.add(a.address, a.rkey, added)
                    : a.act == Act::remote_write ? peer.write(a.address, a.rkey, a.bytes)
                    : a.act == Act::remote_read  ? peer.read(a.address, a.rkey, a.bytes)
                                                 : peer.gather(a.address, a.lkey, a.bytes);
  if (peer.stuck) return judge(false, "an access never ends");
  if (a.expected != Expect::either && done != (a.expected == Expect::allowed))
    return judge(false, done ? "forbidden access" : "allowed access refused");
  if (done && a.act == Act::remote_atomic)
    return judge(sum_of(a, before, peer, added), "wrong sum");
  if (done) return judge(std::memcmp(at(a.from), peer.own.data(), a.bytes) == 0, "wrong bytes");
  const bool one_page = a.from / page == (a.from + a.bytes - 1) / page;
  const bool unchanged =
      !visible || !one_page || std::memcmp(at(a.from), before.data(), a.bytes) == 0;
  return judge(unchanged, "a refused access changed memory");
}

bool Walk::change_mapping() {
  const std::size_t p = below(ModelArena::pages);
  if (pinned(p)) return true;
  const uint64_t how = below(6);
  if (how == 0) ::madvise(at(p * page), page, MADV_DONTNEED);
  if (how != 0) map(p, how == 1 ? Mapped::no : how == 2 ? Mapped::read : Mapped::write);
  return true;
}

// What lay at one place lies at another; its old place is empty.
bool Walk::move_page() {
  const std::size_t from = below(ModelArena::pages), to = below(ModelArena::pages);
  if (from == to || pinned(from) || pinned(to) || arena_.map[from] == Mapped::no) return true;
  void* moved = ::mremap(at(from * page), page, page, MREMAP_MAYMOVE | MREMAP_FIXED, at(to * page));
  if (moved == MAP_FAILED) return judge(false, "mremap");
  arena_.map[to] = arena_.map[from];
  map(from, Mapped::no);
  return true;
}

bool Walk::protect_page() {
  const std::size_t p = below(ModelArena::pages);
  if (pinned(p) || arena_.map[p] == Mapped::no) return true;
  arena_.map[p] = below(2) == 0 ? Mapped::read : Mapped::write;
  const int rights = arena_.map[p] == Mapped::read ? PROT_READ : PROT_READ | PROT_WRITE;
  return judge(::mprotect(at(p * page), page, rights) == 0, "mprotect");
}

bool Walk::step() {
  const uint64_t dice = below(1000);
  if (dice < 1) return fork_child();
  if (dice < 100) return register_one();
  if (dice < 150) return deregister_one();
  if (dice < 230) return reregister_one();
  if (dice < 400) return advise_one();
  if (dice < 500) return change_mapping();
  if (dice < 530) return move_page();
  if (dice < 570) return protect_page();
  return dice < 770 ? window_step() : access_one();
}

}  // namespace kilim::test
