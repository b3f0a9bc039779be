// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_MKEY". Makes and removes keys. Owner: the adapter; its lock held. Control path:
// allocates; never touches client memory.
#include "vhca/tpt/key_table.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "kilim/detail/base/units.hh"
#include "kilim/prm/crypto_seg.hh"
#include "vhca/core/spec.hh"
#include "vhca/tpt/key_state.hh"
#include "vhca/tpt/list.hh"
#include "vhca/tpt/mkey_check.hh"

namespace kilim::vhca::tpt {

namespace {

// Spreads a seed over all bits (the finaliser of splitmix64).
uint64_t spread(uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// Small indices are the firmware's own; 0x1 with tag 0 is the key that ends a receive list.
constexpr uint32_t lowest_index = 0x1000;
// Indices are as low as on a card: libmlx5 takes bits 29:28 of a key that comes within a completion
// (a message with its address, say) for a flag of that completion.
constexpr uint32_t seeded_range = 0x7ffff;
// All indices of 24 bits above the lowest that there may be.
constexpr uint32_t most_keys = (1u << 24) - lowest_index - seeded_range - 1;
constexpr uint32_t lowest_psv = 0x100, seeded_psvs = 0xffff, most_psvs = 1u << 20;

uint8_t rights_of(uint32_t verbs_access) noexcept {
  uint32_t r = prm::mkey::local_read;
  if ((verbs_access & access::local_write) != 0) r |= prm::mkey::local_write;
  if ((verbs_access & access::remote_read) != 0) r |= prm::mkey::remote_read;
  if ((verbs_access & access::remote_write) != 0) r |= prm::mkey::remote_write;
  if ((verbs_access & access::remote_atomic) != 0) r |= prm::mkey::atomic;
  return static_cast<uint8_t>(r);
}

uint8_t rights_of(const prm::Mkc& c) noexcept {
  uint32_t r = 0;
  if (prm::mkc::local_read::get(c) != 0) r |= prm::mkey::local_read;
  if (prm::mkc::local_write::get(c) != 0) r |= prm::mkey::local_write;
  if (prm::mkc::remote_read::get(c) != 0) r |= prm::mkey::remote_read;
  if (prm::mkc::remote_write::get(c) != 0) r |= prm::mkey::remote_write;
  if (prm::mkc::atomic::get(c) != 0) r |= prm::mkey::atomic;
  return static_cast<uint8_t>(r);
}

}  // namespace

KeyTable::KeyTable(uint64_t seed, uint32_t max_keys)
    : keys_(lowest_index + static_cast<uint32_t>(spread(seed) & seeded_range),
            std::min(max_keys, most_keys)),
      psvs_(lowest_psv + static_cast<uint32_t>(spread(seed) & seeded_psvs), most_psvs),
      next_tag_(static_cast<uint8_t>(spread(seed) >> 56)) {
  null_.key = null_key;
  null_.mode = KeyMode::null;
  null_.rights = prm::mkey::local_read | prm::mkey::local_write;
}

Result<Mkey*> KeyTable::create_direct(Direct d) {
  uint32_t index = 0;
  Mkey* m = keys_.create(index);
  if (m == nullptr) return Error{ENOMEM, "the adapter has no more memory keys"};
  m->key = index << 8 | next_tag_++;
  m->mode = KeyMode::direct;
  replace_direct(*m, std::move(d));
  return m;
}

void KeyTable::replace_direct(Mkey& m, Direct d) noexcept {
  generation_++;
  m.rights = rights_of(d.access);
  m.pd = d.pd;
  m.start = d.start;
  m.va = d.va;
  m.len = d.len;
  m.length64 = d.implicit;
  m.paged = std::move(d.paged);
}

Result<Mkey*> KeyTable::create_window(Pdn pd, bool type2) {
  constexpr uint32_t granule = prm::umr::granule_bytes / octoword_bytes;
  uint32_t index = 0;
  Mkey* m = keys_.create(index);
  if (m == nullptr) return Error{ENOMEM, "the adapter has no more memory keys"};
  m->key = index << 8 | next_tag_++;
  m->mode = KeyMode::klm;
  m->free = true;
  m->umr_enabled = true;
  m->window = type2 ? WindowType::type_2 : WindowType::type_1;
  m->remote_invalidates = type2;
  m->rights = prm::mkey::local_read;
  m->pd = pd;
  m->capacity = granule;
  m->list = std::make_unique<prm::Klm[]>(granule);
  m->spans = std::make_unique<ListSpan[]>(granule);
  return m;
}

Result<Mkey*> KeyTable::create_mkey(const prm::Mkc& c, std::span<const std::byte> list,
                                    const Profile& profile) {
  if (const char* why = mkey_objection(c, list, profile)) return Error{EINVAL, why};
  uint32_t index = 0;
  Mkey* m = keys_.create(index);
  if (m == nullptr) return Error{ENOMEM, "the adapter has no more memory keys"};
  m->key = index << 8 | prm::mkc::tag::get(c);
  m->mode =
      prm::mkc::access_mode_1_0::get(c) == prm::mkc::access_mode_klm ? KeyMode::klm : KeyMode::ksm;
  m->free = prm::mkc::free::get(c) != 0;
  m->umr_enabled = prm::mkc::umr_en::get(c) != 0;
  m->remote_invalidates = prm::mkc::en_rinval::get(c) != 0;
  m->length64 = prm::mkc::length64::get(c) != 0;
  m->rights = rights_of(c);
  m->log_entity_size = static_cast<uint8_t>(prm::mkc::log_entity_size::get(c));
  m->pd = Pdn{prm::mkc::pd::get(c)};
  m->qpn = prm::mkc::qpn::get(c);
  m->start = c.start_addr.host();
  m->len = c.len.host();
  m->capacity = round_up(c.translations_octword_size.host(), 4);
  m->list = std::make_unique<prm::Klm[]>(m->capacity);
  m->spans = std::make_unique<ListSpan[]>(m->capacity);
  if (prm::mkc::crypto_en::get(c) != 0) m->crypto = std::make_unique<Crypto>();
  const uint32_t signature = c.bsf_octword_size.host() - (m->crypto ? prm::crypto::octowords : 0);
  if (prm::mkc::bsf_en::get(c) != 0 && signature != 0) m->signature = std::make_unique<Signature>();
  if (!list.empty()) std::memcpy(m->list.get(), list.data(), list.size());
  m->used = static_cast<uint32_t>(list.size() / octoword_bytes);
  m->only_klms = list.empty();
  compile_list(*m);
  return m;
}

int KeyTable::destroy(MkeyIndex index) {
  const Mkey* m = keys_.at(index.value());
  if (m == nullptr) return -ENOENT;
  if (!check_state(*m, KeyOp::destroy).ok()) return -EBUSY;
  keys_.destroy(index.value());
  generation_++;
  return 0;
}

bool KeyTable::uses(Pdn pd) const noexcept {
  bool found = false;
  keys_.for_each([&](const Mkey& m) { found = found || m.pd == pd; });
  psvs_.for_each([&](const Psv& p) { found = found || p.pd == pd; });
  deks_.for_each([&](const Dek& d) { found = found || d.pd == pd; });
  return found;
}

}  // namespace kilim::vhca::tpt
