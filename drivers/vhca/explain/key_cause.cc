// SPDX-License-Identifier: BSD-3-Clause
// Looks for the first check that fails. Adapter's lock held. Never allocates.
#include "vhca/explain/key_cause.hh"

#include <algorithm>

#include "vhca/tpt/list.hh"

namespace kilim::vhca::explain {

namespace {

constexpr uint32_t most_pieces = 1u << 16;  // of one search: the lock is held

KeyFault fault_of(const tpt::Mkey* m, uint32_t key, const tpt::Access& need) noexcept {
  if (m == nullptr) return KeyFault::unknown;
  if (m->key != key) return KeyFault::tag;
  if (m->free) return KeyFault::free;
  if (m->pd != need.pd) return KeyFault::domain;
  if (m->qpn != prm::mkey::any_qpn && m->qpn != need.qpn) return KeyFault::queue;
  if ((m->rights & need.rights) != need.rights) return KeyFault::rights;
  return KeyFault::none;
}

bool in_bounds(const tpt::Mkey& m, uint64_t offset, uint64_t bytes) noexcept {
  return m.length64 || (offset <= m.len && bytes <= m.len - offset);
}

class Search {
 public:
  Search(const tpt::KeyTable& keys, uint8_t max_indirection) noexcept
      : keys_(keys), left_(most_pieces), limit_(max_indirection) {}

  // Fills `c` where it stops; false: all of it is allowed.
  // NOLINTNEXTLINE(misc-no-recursion): as deep as the profile lets keys be
  bool stops(KeyCause& c, const tpt::Segment& s, const tpt::Access& need, unsigned depth) noexcept {
    c.key = s.key;
    c.at = s.addr;
    c.bytes = s.bytes;
    c.need = need;
    tpt::Mkey* m = keys_.at(s.key >> 8);
    c.found = m;
    c.fault = fault_of(m, s.key, need);
    if (m == nullptr && keys_.null_named(s.key) != nullptr) c.fault = KeyFault::none;
    if (c.fault != KeyFault::none) return true;
    // The bounds of a key that converts are those of the wire: the verdict's own words tell.
    if (m == nullptr || m->converts()) return false;
    const uint64_t offset = s.addr - m->start;
    if (!in_bounds(*m, offset, s.bytes)) return stop(c, KeyFault::bounds);
    if (m->mode == tpt::KeyMode::direct) return false;
    if (depth >= limit_) return stop(c, KeyFault::depth);
    return stops_in_list(c, *m, {offset, s.bytes, s.key, false}, need, depth);
  }

 private:
  static bool stop(KeyCause& c, KeyFault f) noexcept {
    c.fault = f;
    return true;
  }

  // `range`: from an offset of the list on.
  // NOLINTNEXTLINE(misc-no-recursion,readability-function-size): six parameters
  bool stops_in_list(KeyCause& c, tpt::Mkey& m, const tpt::Segment& range, const tpt::Access& need,
                     unsigned depth) noexcept {
    const KeyCause list = c;
    tpt::Access inner = need;
    inner.rights = tpt::inner_rights(need.rights);
    for (uint64_t at = range.addr, n = range.bytes; n > 0 && left_ > 0; left_--) {
      tpt::ListPlace place;
      c = list;
      c.at = at;
      c.bytes = n;
      if (!tpt::find_in_list(m, at, place)) return stop(c, KeyFault::hole);
      const uint64_t part = std::min(place.bytes, n);
      const uint32_t entry = entry_of(m, at);
      if (stops(c, {place.address, part, place.key, false}, inner, depth + 1)) {
        if (c.list == list.list) {
          c.list = m.key;
          c.entry = entry;
        }
        return true;
      }
      at += part;
      n -= part;
    }
    c = list;
    return false;
  }

  static uint32_t entry_of(const tpt::Mkey& m, uint64_t at) noexcept {
    if (m.mode == tpt::KeyMode::ksm) return static_cast<uint32_t>(at >> m.log_entity_size);
    return m.last_span;
  }

  const tpt::KeyTable& keys_;
  uint32_t left_;
  unsigned limit_;
};

// The key whose index is next to this one.
const tpt::Mkey* nearest(const tpt::KeyTable& keys, uint32_t index) noexcept {
  const tpt::Mkey* best = nullptr;
  const auto far = [&](const tpt::Mkey& m) {
    return m.index() > index ? m.index() - index : index - m.index();
  };
  keys.for_each([&](const tpt::Mkey& m) {
    if (best == nullptr || far(m) < far(*best)) best = &m;
  });
  return best;
}

void put_span(prm::Text& t, uint64_t start, uint64_t len) noexcept {
  t.dec(len).put(len == 1 ? " byte from " : " bytes from ").hex(start).put(" to ").hex(start + len);
}

void put_what_is_there(prm::Text& t, const tpt::Mkey& m) noexcept {
  t.hex(m.key).put(" (");
  if (m.free)
    t.put("free");
  else if (m.length64)
    t.put("the whole address space");
  else
    put_span(t, m.start, m.len);
  t.put(")");
}

void put_unknown(prm::Text& t, const KeyCause& c, const tpt::KeyTable& keys,
                 const FreedKeys& freed) noexcept {
  if (const FreedKeys::Row* row = freed.find(c.key >> 8)) {
    t.put("it was freed: key ").hex(row->key).put(" had ");
    put_span(t, row->start, row->len);
    t.put(" until it was deregistered; register the memory again, or keep it until this completes");
    return;
  }
  t.put("no key has index ").hex(c.key >> 8);
  const tpt::Mkey* near = nearest(keys, c.key >> 8);
  if (near == nullptr) {
    t.put(", this device has no key at all: register the memory with ibv_reg_mr()");
    return;
  }
  t.put("; the nearest that exists is ");
  put_what_is_there(t, *near);
  const uint32_t swapped = __builtin_bswap32(c.key);
  const tpt::Mkey* other = keys.at(swapped >> 8);
  if (other != nullptr && other->key == swapped)
    t.put("; with its bytes swapped it is a key, ").hex(swapped).put(": a missing ntohl()?");
}

void put_bounds(prm::Text& t, const KeyCause& c) noexcept {
  const tpt::Mkey& m = *c.found;
  t.put("the key has ");
  put_span(t, m.start, m.len);
  const uint64_t offset = c.at - m.start;
  if (offset > m.len) {
    t.put(c.at < m.start ? ", the range begins before" : ", the range begins behind");
    return;
  }
  const uint64_t beyond = c.bytes - (m.len - offset);
  t.put(", the last ").dec(beyond).put(beyond == 1 ? " byte lies" : " bytes lie").put(" beyond");
}

}  // namespace

void FreedKeys::add(const tpt::Mkey& m) noexcept {
  rows_[next_++ % rows_.size()] = {m.key, m.start, m.len};
}

const FreedKeys::Row* FreedKeys::find(uint32_t index) const noexcept {
  for (std::size_t i = 0; i < rows_.size(); i++) {
    const Row& row = rows_[(next_ + rows_.size() - 1 - i) % rows_.size()];
    if (row.key != 0 && row.key >> 8 == index) return &row;
  }
  return nullptr;
}

KeyCause find_key_cause(const tpt::KeyTable& keys, uint8_t max_indirection, const tpt::Segment& s,
                        const tpt::Access& need) noexcept {
  KeyCause c;
  Search(keys, max_indirection).stops(c, s, need, 0);
  return c;
}

void put_rights(prm::Text& t, uint8_t rights) noexcept {
  struct Name {
    uint32_t bit;
    const char* name;
  };
  constexpr Name names[] = {{prm::mkey::local_read, "local read"},
                            {prm::mkey::local_write, "local write"},
                            {prm::mkey::remote_read, "remote read"},
                            {prm::mkey::remote_write, "remote write"},
                            {prm::mkey::atomic, "atomics"}};
  bool any = false;
  for (const Name& n : names) {
    if ((rights & n.bit) == 0) continue;
    t.put(any ? ", " : "").put(n.name);
    any = true;
  }
  if (!any) t.put("nothing");
}

void put_range(prm::Text& t, uint64_t at, uint64_t bytes) noexcept {
  t.dec(bytes).put(bytes == 1 ? " byte at " : " bytes at ").hex(at);
}

void put_key_cause(prm::Text& t, const KeyCause& c, const tpt::KeyTable& keys,
                   const FreedKeys& freed) noexcept {
  if (c.list != 0) {
    t.put("entry ").dec(c.entry).put(" of the list of key ").hex(c.list).put(" names key ");
    t.hex(c.key).put(" and ");
    put_range(t, c.at, c.bytes);
    t.put(": ");
  }
  switch (c.fault) {
    case KeyFault::unknown:
    case KeyFault::freed:
      return put_unknown(t, c, keys, freed);
    case KeyFault::tag:
      t.put("its tag, the low byte, is ").hex(c.key & 0xff).put(" and the key is called ");
      t.hex(c.found->key).put(" now: tag ").hex(c.found->tag()).put(" would be right");
      return;
    case KeyFault::free:
      t.put("the key is free: it was invalidated, or no UMR or bind has filled it yet");
      return;
    case KeyFault::domain:
      t.put("the key is of protection domain ").hex(c.found->pd.value());
      t.put(", the queue of ").hex(c.need.pd.value());
      t.put(": make both from one ibv_pd");
      return;
    case KeyFault::queue:
      t.put("the key is bound to queue ").hex(c.found->qpn).put(" alone");
      return;
    case KeyFault::rights:
      t.put("the key does not grant ");
      put_rights(t, static_cast<uint8_t>(c.need.rights & ~c.found->rights));
      t.put(", it grants ");
      put_rights(t, c.found->rights);
      return;
    case KeyFault::bounds:
      return put_bounds(t, c);
    case KeyFault::hole:
      t.put("the list of key ").hex(c.key).put(" has nothing at offset ").hex(c.at);
      return;
    case KeyFault::depth:
      t.put("too many keys below keys: the device allows ").put("fewer levels (max_indirection)");
      return;
    case KeyFault::none:
      t.put("the key allows it");
      return;
  }
}

}  // namespace kilim::vhca::explain
