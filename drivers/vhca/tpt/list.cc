// SPDX-License-Identifier: BSD-3-Clause
// PRM: "KLM", "KSM", "Repeat Block". Adapter's lock held. Never allocates, never touches client
// memory.
#include "vhca/tpt/list.hh"

#include <algorithm>
#include <cstring>

#include "kilim/detail/base/units.hh"

namespace kilim::vhca::tpt {

namespace {

template <typename T>
T octoword(const prm::Klm& raw) noexcept {
  static_assert(sizeof(T) == sizeof(raw));
  T t;
  std::memcpy(&t, &raw, sizeof(t));
  return t;
}

void compile_strided(Mkey& m) noexcept {
  auto head = octoword<prm::RepeatBlockSeg>(m.list[0]);
  uint32_t entries = head.num_ent.host();
  m.strided = true;
  m.list_valid = entries > 0 && entries < m.used;
  if (!m.list_valid) return;
  uint64_t end = 0;
  for (uint32_t i = 0; i < entries; i++) {
    auto e = octoword<prm::RepeatEntSeg>(m.list[i + 1]);
    end += e.byte_count.host();
    m.spans[i] = {end, e.va.host(), e.memkey.host(), e.stride.host()};
  }
  m.span_count = entries;
  m.repeat_count = head.repeat_count.host();
  m.repeat_bytes = head.byte_count.host();
  m.list_valid = m.repeat_bytes > 0;
}

void compile_klm(Mkey& m) noexcept {
  const uint64_t len = m.length64 ? ~uint64_t{0} : m.len;
  const prm::Klm* const last = m.list.get() + m.used;
  ListSpan* span = m.spans.get();
  uint64_t end = 0;
  bool padded = false;
  for (const prm::Klm* e = m.list.get(); e != last && end < len; e++) {
    uint64_t bytes = e->byte_count.host();
    const uint32_t key = e->mkey.host();
    if (bytes - 1 >= prm::umr::max_piece_bytes) [[unlikely]] {
      m.list_valid = bytes == 0;
      if (!m.list_valid) return;
      if (key == 0) {  // padding of a granule
        padded = true;
        continue;
      }
      bytes = prm::umr::max_piece_bytes;
    }
    end += bytes;
    if (padded) m.dense = false;
    *span++ = {end, e->address.host(), key, 0};
  }
  m.span_count = static_cast<uint32_t>(span - m.spans.get());
}

// Spans that are looked at one by one behind the last one found: lists are gone through in order,
// by requests that follow each other too.
constexpr uint32_t ahead = 8;

}  // namespace

void compile_list(Mkey& m) noexcept {
  m.compiled = true;
  m.list_valid = true;
  m.strided = false;
  m.dense = true;
  m.span_count = 0;
  m.last_span = 0;
  if (m.mode == KeyMode::direct || m.mode == KeyMode::ksm || m.used == 0) return;
  if (m.list[0].mkey.host() == prm::repeat_block_op) return compile_strided(m);
  compile_klm(m);
}

uint32_t find_span(Mkey& m, uint64_t at) noexcept {
  const ListSpan* const first = m.spans.get();
  const ListSpan* const last = first + m.span_count;
  const ListSpan* s = first + m.last_span;
  if (s != first && s[-1].end > at) s = first;
  // All spans before `s` end at `at` or before it.
  const ListSpan* const near = last - s > ahead ? s + ahead : last;
  while (s != near && s->end <= at) s++;
  if (s == near)
    s = std::upper_bound(s, last, at,
                         [](uint64_t a, const ListSpan& span) { return a < span.end; });
  const auto found = static_cast<uint32_t>(s - first);
  if (s != last) m.last_span = found;
  return found;
}

bool find_in_list(Mkey& m, uint64_t at, ListPlace& out) noexcept {
  if (m.mode == KeyMode::ksm) {
    uint64_t i = at >> m.log_entity_size;
    uint64_t inside = at & ((uint64_t{1} << m.log_entity_size) - 1);
    if (i >= m.used) return false;
    const prm::Klm& e = m.list[i];
    out = {e.mkey.host(), e.address.host() + inside, (uint64_t{1} << m.log_entity_size) - inside};
    return true;
  }
  if (!m.compiled) compile_list(m);
  if (!m.list_valid) return false;
  uint64_t repetition = 0;
  if (m.strided) {
    repetition = at / m.repeat_bytes;
    at %= m.repeat_bytes;
    if (repetition >= m.repeat_count) return false;
  }
  uint32_t i = find_span(m, at);
  if (i == m.span_count) return false;
  const ListSpan& s = m.spans[i];
  uint64_t begin = i == 0 ? 0 : m.spans[i - 1].end;
  out = {s.key, s.address + repetition * s.stride + (at - begin), s.end - at};
  if (m.strided) out.bytes = std::min(out.bytes, m.repeat_bytes - at);
  return true;
}

const char* list_objection(const Mkey& m, std::span<const std::byte> octowords, uint64_t first,
                           uint32_t total, const Profile& profile) noexcept {
  if (m.mode != KeyMode::klm) return nullptr;
  auto klm = [&](std::size_t i) noexcept {
    prm::Klm k;
    std::memcpy(&k, octowords.data() + i, sizeof(k));
    return k;
  };
  if (first == 0 && !octowords.empty() && klm(0).mkey.host() == prm::repeat_block_op) {
    if (profile.repeated_block_disabled) return "the adapter has no repeat block";
    const prm::Klm head = klm(0);
    const uint32_t entries = octoword<prm::RepeatBlockSeg>(head).num_ent.host();
    if (entries == 0 || entries >= total) return "a repeat block beyond its list";
    return nullptr;  // its entries have other fields
  }
  for (std::size_t i = 0; i + octoword_bytes <= octowords.size(); i += octoword_bytes) {
    if (klm(i).byte_count.host() > prm::umr::max_piece_bytes) return "an entry of more than 2 GiB";
  }
  return nullptr;
}

}  // namespace kilim::vhca::tpt
