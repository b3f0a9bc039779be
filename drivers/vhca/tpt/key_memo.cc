// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Address Translation and Protection". Adapter's lock held. Never allocates, never touches
// client memory.
#include "vhca/tpt/key_memo.hh"

#include "vhca/hca/dma.hh"

namespace kilim::vhca {

bool remember_key(const KeyTable& keys, uint32_t key, Access user, KeyMemo& memo) noexcept {
  const Mkey* m = keys.at(key >> 8);
  user.rights = 0;
  if (check_key(m, key, user) != Deny::none) return false;
  if (m->mode != KeyMode::direct || m->length64 || m->paged != nullptr) return false;
  if (!dma::in_client_range(Va{m->va}, m->len)) return false;
  memo = {key, m->rights, m->start, m->len, m->va};
  return true;
}

}  // namespace kilim::vhca
