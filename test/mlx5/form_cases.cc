// SPDX-License-Identifier: BSD-3-Clause
#include "form_cases.hh"

#include <algorithm>

namespace kilim::test {

ListLayout random_list(FormRig& rig, uint64_t most_pieces, uint64_t budget,
                       const std::vector<BoundKey>& inner) {
  ListLayout l;
  const uint64_t n = rig.sometimes(most_pieces);
  for (uint64_t i = 0; i < n && budget != 0; i++) {
    const bool nested = !inner.empty() && rig.below(2) == 0;
    const BoundKey* key = nested ? &inner[rig.below(inner.size())] : nullptr;
    const uint64_t range = nested ? bytes_of(key->shown) : FormRig::arena_bytes;
    const uint64_t bytes = rig.sometimes(std::min(range, budget));
    const uint64_t at = rig.below(range - bytes + 1);
    const auto length = static_cast<uint32_t>(bytes);
    if (nested) {
      l.pieces.push_back({key->start + at, length, key->lkey});
      const Shown part = part_of(key->shown, at, bytes);
      l.shown.insert(l.shown.end(), part.begin(), part.end());
    } else {
      l.pieces.push_back({rig.address(at), length, rig.arena_key(at, bytes)});
      l.shown.push_back({rig.memory(at), bytes});
    }
    budget -= bytes;
  }
  return l;
}

bool StridedLayout::fits_16_bits() const {
  return std::all_of(entries.begin(), entries.end(), [](const umr::StridedEntry& e) {
    return e.bytes <= 0xffff && e.stride <= 0xffff;
  });
}

StridedLayout random_strided(FormRig& rig, uint64_t most_entries, uint64_t budget, bool far) {
  StridedLayout l;
  const uint64_t n = rig.sometimes(most_entries);
  l.repeat = static_cast<uint32_t>(rig.sometimes(far ? 4 : 40));
  const uint64_t share = std::max<uint64_t>(1, budget / n / l.repeat);
  for (uint64_t i = 0; i < n; i++) {
    const uint64_t bytes = rig.sometimes(std::min<uint64_t>(share, far ? share : 0xffff));
    const uint64_t room = (FormRig::arena_bytes - bytes) / std::max<uint32_t>(1, l.repeat - 1);
    const uint64_t most_stride = far ? room : std::min<uint64_t>(room, 0xffff);
    const uint64_t stride = rig.below(3) == 0 ? rig.below(most_stride + 1)
                                              : std::min(bytes + rig.below(64), most_stride);
    const uint64_t span = stride * (l.repeat - 1) + bytes;
    const uint64_t at = rig.below(FormRig::arena_bytes - span + 1);
    l.entries.push_back({rig.address(at), static_cast<uint32_t>(bytes),
                         static_cast<uint32_t>(stride), rig.arena_key(at, span)});
  }
  const uint64_t base = rig.address(0);
  for (uint64_t r = 0; r < l.repeat; r++) {
    for (const umr::StridedEntry& e : l.entries)
      l.shown.push_back({rig.memory(e.address - base + r * e.stride), e.bytes});
  }
  return l;
}

ListLayout random_fixed(FormRig& rig, uint64_t most_pages, uint8_t log) {
  ListLayout l;
  const uint64_t size = uint64_t{1} << log;
  const uint64_t n = rig.sometimes(most_pages);
  for (uint64_t i = 0; i < n; i++) {
    const uint64_t bytes = i + 1 == n ? rig.sometimes(size) : size;
    const uint64_t at = rig.below(FormRig::arena_bytes - size + 1);  // not on pages of memory
    l.pieces.push_back({rig.address(at), static_cast<uint32_t>(bytes), rig.arena_key(at, bytes)});
    l.shown.push_back({rig.memory(at), bytes});
  }
  return l;
}

umr::ListRequest random_request(FormRig& rig, const BoundKey& key) {
  return {.key = key.lkey,
          .max_entries = key.made.max_entries,
          .new_tag = static_cast<uint8_t>(rig.random()),
          .access = umr::mkey_access(mr::Access::all),
          .has_start = true,
          .keep_atomic = !rig.limits.change_atomic,
          .log_entity = key.made.log_entity_bytes,
          .start = rig.below(2) != 0 ? rig.random() >> 8 : 0};
}

}  // namespace kilim::test
