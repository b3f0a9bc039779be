// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/diag/explain_range.hh"

#include <algorithm>
#include <cstddef>

#include "kilim/prm/mkc.hh"
#include "kilim/prm/umr_limits.hh"

namespace kilim::inline v1::diag::detail {

namespace {

using prm::Text;

constexpr unsigned max_depth = 8;
constexpr unsigned max_steps = 1 << 19;  // bounds the time, as an untrusted list may name itself

const char* right_name(uint32_t missing) noexcept {
  if ((missing & prm::mkey::atomic) != 0) return "atomics";
  if ((missing & prm::mkey::remote_write) != 0) return "remote writing";
  if ((missing & prm::mkey::remote_read) != 0) return "remote reading";
  if ((missing & prm::mkey::local_write) != 0) return "local writing";
  return "local reading";
}

// Says why the device refuses the key itself, before any address. False: it does not.
bool key_objects(Text& t, const MkeyRecord* k, const Range& r) {
  if (k == nullptr) {
    t.put("nobody knows key ").hex(r.key);
    return true;
  }
  if (k->key != r.key) {
    t.put("key ").hex(r.key).put(" is stale: it is ").hex(k->key).put(" now, the tag has changed");
    return true;
  }
  if (k->free) {
    t.put("key ").hex(r.key).put(" is free: it was invalidated and shows nothing");
    return true;
  }
  if (const uint32_t missing = r.rights & ~k->access; missing != 0) {
    say_key(t, *k);
    t.put(" does not allow ").put(right_name(missing));
    return true;
  }
  return false;
}

// The rights that the keys below an indirect key need: remote rights end at the first key.
uint32_t inner(uint32_t rights) noexcept {
  const bool writes =
      (rights & (prm::mkey::local_write | prm::mkey::remote_write | prm::mkey::atomic)) != 0;
  return writes ? prm::mkey::local_write : prm::mkey::local_read;
}

bool too_many(Text& t) {
  t.put("more entries than can be followed");
  return true;
}

uint64_t entry_bytes(const MkeyEntry& e) noexcept {
  return e.bytes == 0 && e.key != 0 ? uint64_t{prm::umr::max_piece_bytes} : e.bytes;
}

void say_entry(Text& t, const MkeyRecord& k, std::size_t i, uint64_t repetition) {
  t.put("entry ").dec(i);
  if (k.repeat != 1) t.put(", repetition ").dec(repetition).put(',');
  t.put(" of key ").hex(k.key).put(" (lcore ").dec(k.lcore);
  t.put(", WQE ").dec(k.wqe).put("): ");
}

// Follows the range through the entries of an indirect key, in each repetition; offsets are from
// the key's first byte.
bool explain_entries(Text& t, const MkeyBook& book, const MkeyRecord& k, Range r, unsigned depth) {
  uint64_t round = 0;  // bytes of one repetition
  for (const MkeyEntry& e : k.entries) round += entry_bytes(e);
  uint64_t offset = r.address - k.start;
  const uint64_t end = offset + r.bytes;
  uint64_t repetition = round == 0 ? k.repeat : std::min<uint64_t>(offset / round, k.repeat);
  uint64_t begin = repetition * round;
  for (; repetition < k.repeat && begin < end; repetition++) {
    for (std::size_t i = 0; i < k.entries.size() && begin < end; i++) {
      if (++*r.steps > max_steps) return too_many(t);
      const MkeyEntry& e = k.entries[i];
      const uint64_t bytes = entry_bytes(e);
      if (offset < begin + bytes) {
        const uint64_t into = offset - begin;
        const uint64_t n = std::min(bytes - into, end - offset);
        const uint64_t at = e.address + repetition * e.stride + into;
        Text mark = t;
        say_entry(t, k, i, repetition);
        if (explain_range(t, book, {e.key, at, n, inner(r.rights), r.steps}, depth + 1))
          return true;
        t = mark;
        offset += n;
      }
      begin += bytes;
    }
  }
  if (offset >= end || !k.whole) return false;
  say_key(t, k);
  t.put(" has entries for ").dec(begin).put(" bytes only, ").dec(end - begin);
  t.put(" bytes fewer than asked for");
  return true;
}

}  // namespace

void say_key(Text& t, const MkeyRecord& k) {
  if (!k.indirect()) {
    t.put("region '").put(k.name).put("' [").hex(k.start).put(", ").hex(k.start + k.length);
    t.put(')');
    return;
  }
  t.put("key ").hex(k.key).put(", bound by lcore ").dec(k.lcore).put(" with WQE ").dec(k.wqe);
}

bool explain_range(Text& t, const MkeyBook& book, const Range& r, unsigned depth) {
  if (++*r.steps > max_steps) return too_many(t);
  if (depth > max_depth) {
    t.put("keys of keys go deeper than ").dec(max_depth);
    return true;
  }
  const MkeyRecord* k = book.find(r.key);
  if (key_objects(t, k, r)) return true;
  if (r.address < k->start) {
    say_key(t, *k);
    t.put(" begins ").dec(k->start - r.address).put(" bytes behind the address");
    return true;
  }
  const uint64_t offset = r.address - k->start;
  if (offset > k->length || r.bytes > k->length - offset) {
    t.dec(r.bytes).put(" bytes at ").hex(r.address).put(" go ");
    t.dec(offset + r.bytes - k->length).put(" bytes past the end of ");
    say_key(t, *k);
    return true;
  }
  return k->indirect() && explain_entries(t, book, *k, r, depth);
}

}  // namespace kilim::inline v1::diag::detail
