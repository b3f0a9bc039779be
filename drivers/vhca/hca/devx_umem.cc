// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_UMEM", "DESTROY_UMEM". Adapter's lock held.
#include "vhca/hca/devx_umem.hh"

#include <cerrno>

#include "vhca/core/refusal.hh"

namespace kilim::vhca::hca {

int UmemTable::destroy(uint32_t number) {
  const Umem* umem = umems_.at(number);
  if (umem == nullptr) return refusal::absent("umem_id", number);
  if (umem->users != 0) return refusal::busy("the umem", umem->users);
  umems_.destroy(number);
  return 0;
}

std::optional<Va> UmemTable::find(const EventSink* client, const Place& place) const noexcept {
  const Umem* umem = place.umem <= 0xffffff ? umems_.at(place.umem) : nullptr;
  if (umem == nullptr || umem->client != client) return std::nullopt;
  if (place.written && !umem->writable) return std::nullopt;
  if (place.offset > umem->bytes || place.bytes > umem->bytes - place.offset) return std::nullopt;
  return Va{umem->start.value() + place.offset};
}

bool UmemTable::writable(uint32_t number) const noexcept {
  const Umem* umem = number <= 0xffffff ? umems_.at(number) : nullptr;
  return umem != nullptr && umem->writable;
}

std::span<const uint32_t> UmemTable::held(User user) const noexcept {
  const auto at = held_.find(user);
  return at != held_.end() ? std::span<const uint32_t>(at->second) : std::span<const uint32_t>{};
}

void UmemTable::hold(User user, std::span<const uint32_t> umems) {
  std::vector<uint32_t>& held = held_[user];
  for (const uint32_t number : umems) {
    held.push_back(number);
    umems_.at(number)->users++;
  }
}

void UmemTable::let_go(User user) {
  const auto at = held_.find(user);
  if (at == held_.end()) return;
  for (const uint32_t number : at->second) umems_.at(number)->users--;
  held_.erase(at);
}

}  // namespace kilim::vhca::hca
