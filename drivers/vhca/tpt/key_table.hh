// SPDX-License-Identifier: BSD-3-Clause
// The adapter's keys by their 24-bit index. Where numbering starts depends on the adapter's seed,
// freed numbers are used again last. Owner: the adapter; its lock held. Looking up never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/result.hh"
#include "kilim/prm/mkc.hh"
#include "vhca/core/object_table.hh"
#include "vhca/core/profile.hh"
#include "vhca/tpt/mkey.hh"

namespace kilim::vhca::tpt {

class KeyTable {
 public:
  static constexpr uint32_t most_log_deks = 16;
  // QUERY_SPECIAL_CONTEXTS, dump_fill_mkey: what is read by it is zeros, what is written is gone.
  // Any protection domain's, only for an SGE or an entry of a list (ibv_alloc_null_mr(3)). Firmware
  // has its keys at small indices; this one is none of the table's.
  static constexpr uint32_t null_key = 0x200;

  KeyTable(uint64_t seed, uint32_t max_keys);

  // A range of the client: `access` are the kernel's IB_ACCESS_* bits; `start` is what users name,
  // `va` where it lies. ENOMEM: the adapter has no more keys.
  struct Direct {
    Pdn pd;
    uint64_t start = 0, va = 0, len = 0;
    uint32_t access = 0;
    std::unique_ptr<PagedRegion> paged;  // on demand; null: pinned
    bool implicit = false;               // the whole address space
  };
  Result<Mkey*> create_direct(Direct);
  // CREATE_MKEY: an indirect key; `list` is the command's inline list (whole octowords). EINVAL
  // with a sentence: what a card answers with BAD_PARAM; ENOMEM: no more keys. The caller has
  // checked that the PD exists.
  Result<Mkey*> create_mkey(const prm::Mkc&, std::span<const std::byte> list, const Profile&);
  // A memory window: free, without rights, with room for the one piece that a bind will name.
  Result<Mkey*> create_window(Pdn, bool type2);
  // The range behind a key becomes another one; the key stays.
  void replace_direct(Mkey&, Direct) noexcept;
  // ENOENT: no such key; EBUSY: its state does not allow it (key_state.hh).
  int destroy(MkeyIndex);

  // The key with this index whatever its tag and state; null: none.
  [[nodiscard]] Mkey* at(uint32_t index) const noexcept { return keys_.at(index); }
  // The null key, where that is the one that is meant; else null.
  [[nodiscard]] Mkey* null_named(uint32_t key) const noexcept {
    return key == null_key ? &null_ : nullptr;
  }
  // Whether any key belongs to this protection domain.
  [[nodiscard]] bool uses(Pdn) const noexcept;
  [[nodiscard]] std::size_t count() const noexcept { return keys_.count(); }
  // Calls f(key) for each key, by its index.
  template <typename F>
  void for_each(F&& f) const {
    keys_.for_each(f);
  }
  // Another one whenever a direct key came, changed or went. Never 0. No work request changes such
  // a key.
  [[nodiscard]] uint64_t generation() const noexcept { return generation_; }

  // The values with which signatures begin.
  ObjectTable<Psv>& psvs() noexcept { return psvs_; }
  [[nodiscard]] const ObjectTable<Psv>& psvs() const noexcept { return psvs_; }
  // Whether the domain is not signed, or its PSV is there and of the same owner.
  [[nodiscard]] bool has_psv(const SignDomain& d, Pdn pd) const noexcept {
    if (d.kind == SignKind::none) return true;
    const Psv* psv = psvs_.at(d.psv);
    return psv != nullptr && psv->pd == pd;
  }
  // The keys of encryption.
  ObjectTable<Dek>& deks() noexcept { return deks_; }
  [[nodiscard]] const ObjectTable<Dek>& deks() const noexcept { return deks_; }
  // Whether what the key is encrypted with is there and of the same owner.
  [[nodiscard]] bool has_dek(const Crypto& c, Pdn pd) const noexcept {
    const Dek* dek = deks_.at(c.dek);
    return dek != nullptr && dek->pd == pd;
  }
  // Wrong signatures that transfers have found and nobody has told of.
  SignErrors& sign_errors() const noexcept { return sign_errors_; }

 private:
  uint64_t generation_ = 1;
  ObjectTable<Mkey> keys_;
  ObjectTable<Psv> psvs_;
  ObjectTable<Dek> deks_{1, 1u << most_log_deks};
  mutable SignErrors sign_errors_;
  uint8_t next_tag_;
  mutable Mkey null_;  // as Walk's frames have it; never changes
};

}  // namespace kilim::vhca::tpt
