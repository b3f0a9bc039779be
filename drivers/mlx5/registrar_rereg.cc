// SPDX-License-Identifier: BSD-3-Clause
// Re-registration, protection domains beside the device's own, regions shared by import.
#include <cerrno>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/mem/block.hh"
#include "mlx5/registrar.hh"

namespace kilim::mlx5 {
namespace {

mr::ReregOutcome outcome_of(int code) noexcept {
  switch (code) {
    case 0:
      return mr::ReregOutcome::done;
    case IBV_REREG_MR_ERR_INPUT:
      return mr::ReregOutcome::input;
    case IBV_REREG_MR_ERR_DONT_FORK_NEW:
      return mr::ReregOutcome::dont_fork_new;
    case IBV_REREG_MR_ERR_DO_FORK_OLD:
      return mr::ReregOutcome::do_fork_old;
    case IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW:
      return mr::ReregOutcome::command_and_do_fork_new;
    default:
      return mr::ReregOutcome::command;
  }
}

const char* sentence_of(mr::ReregOutcome outcome) noexcept {
  switch (outcome) {
    case mr::ReregOutcome::input:
      return "the change was refused before it began; the old region stands";
    case mr::ReregOutcome::dont_fork_new:
      return "the new memory could not be kept from children; the old region stands";
    case mr::ReregOutcome::do_fork_old:
      return "the new region stands; the old memory stays hidden from children";
    default:
      return "the change failed half way; the region may only be destroyed";
  }
}

mr::Rereg refused(int code, const char* what) {
  return {mr::ReregOutcome::refused, {code, what}};
}

int flags_of(const mr::Change& c) noexcept {
  return (c.translation ? IBV_REREG_MR_CHANGE_TRANSLATION : 0) |
         (c.domain ? IBV_REREG_MR_CHANGE_PD : 0) | (c.access ? IBV_REREG_MR_CHANGE_ACCESS : 0);
}

}  // namespace

ibv_pd* VerbsRegistrar::pd_of(mr::Domain domain) noexcept {
  if (domain.value() == 0) return pd_;
  const auto at = domains_.find(domain.value());
  return at == domains_.end() ? nullptr : at->second.get();
}

mr::Rereg VerbsRegistrar::reregister(mr::Region& region, const mr::Change& change) {
  const std::lock_guard lock{mutex_};
  const auto at = regions_.find(slot_of(region));
  if (at == regions_.end()) return refused(EINVAL, "the region is not registered here");
  if (at->second.undefined)
    return refused(EINVAL,
                   "the region is undefined since a change failed: it may only be destroyed");
  if (!change.translation && !change.domain && !change.access)
    return refused(EINVAL, "nothing is to change");
  if (region.kind == mr::Kind::device)
    return refused(EINVAL, "a region of device memory stays as it was registered");
  if (change.domain && pd_of(change.new_domain) == nullptr)
    return refused(EINVAL, "no such protection domain");
  const bool paged = (region.access & mr::Access::on_demand) != 0;
  if (change.access && paged != ((change.new_access & mr::Access::on_demand) != 0))
    return refused(EINVAL, "a region is paged on demand from its registration on, or never");
  return region.kind == mr::Kind::imported ? change_imported(at, region, change)
                                           : this->change(at, region, change);
}

mr::Rereg VerbsRegistrar::change(Entries::iterator at, mr::Region& region,
                                 const mr::Change& change) {
  const int rc = ibv_rereg_mr(at->second.mr.get(), flags_of(change),
                              change.domain ? pd_of(change.new_domain) : nullptr,
                              change.translation ? change.memory.data() : nullptr,
                              change.translation ? change.memory.size() : 0,
                              change.access ? static_cast<int>(change.new_access) : 0);
  const int code = errno;
  const mr::Rereg result{outcome_of(rc), {rc == 0 ? 0 : code, sentence_of(outcome_of(rc))}};
  if (result.standing() == mr::Standing::undefined) region.undefined = at->second.undefined = true;
  if (result.standing() == mr::Standing::new_region) rekey(at, region, change);
  return result;
}

// Updates the description after a success. The kernel may have given the region new keys, under
// which it is then found.
void VerbsRegistrar::rekey(Entries::iterator at, mr::Region& region, const mr::Change& change) {
  if (change.translation) {
    region.address = region.iova = reinterpret_cast<uint64_t>(change.memory.data());
    region.length = change.memory.size();
    if (!region.paged()) region.page_bytes = change.page_bytes;
    region.entries = mr::translation_entries(region.address, region.length, region.page_bytes);
    region.node = static_cast<int16_t>(region.paged() ? -1 : mem::node_of(change.memory.data()));
    if (region.kind == mr::Kind::allocated) region.kind = mr::Kind::pinned;
  }
  if (change.access) region.access = change.new_access;
  if (change.domain) at->second.domain = change.new_domain;
  region.lkey = Lkey{at->second.mr->lkey};
  region.rkey = Rkey{at->second.mr->rkey};
  auto node = regions_.extract(at);
  node.key() = slot_of(region);
  regions_.insert(std::move(node));
}

// An imported region that gets a new translation becomes a region of this process, and the one that
// was imported stays with the process that registered it. Without a new translation nothing of it
// can be changed here (the vendor's documents on shared memory regions).
mr::Rereg VerbsRegistrar::change_imported(Entries::iterator at, mr::Region& region,
                                          const mr::Change& change) {
  if (!change.translation)
    return refused(EOPNOTSUPP,
                   "domain and rights of an imported region belong to who registered it");
  if (!change.access)
    return refused(EINVAL, "an imported region does not tell its rights: name the new ones");
  const mr::Domain domain = change.domain ? change.new_domain : at->second.domain;
  const Request own{change.memory, reinterpret_cast<uint64_t>(change.memory.data()),
                    change.new_access, change.page_bytes, mr::Kind::pinned};
  Result<mr::Region> made = add(own, pd_of(domain), domain);
  if (!made) return {mr::ReregOutcome::refused, made.error()};
  regions_.erase(slot_of(region));
  region = *made;
  return {};
}

Result<mr::Domain> VerbsRegistrar::create_domain() {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const std::lock_guard lock{mutex_};
  Pd pd{ibv_alloc_pd(pd_->context)};
  if (pd == nullptr) return Error{errno, "the adapter gives no further protection domain"};
  const mr::Domain domain{next_domain_++};
  domains_.emplace(domain.value(), std::move(pd));
  return domain;
}

Status VerbsRegistrar::destroy_domain(mr::Domain domain) {
  const std::lock_guard lock{mutex_};
  const auto at = domains_.find(domain.value());
  if (at == domains_.end()) return Error{EINVAL, "no such protection domain"};
  if (const int rc = ibv_dealloc_pd(at->second.get()); rc != 0)
    return Error{rc, "regions are in the protection domain"};
  (void)at->second.release();
  domains_.erase(at);
  return Done{};
}

Result<uint32_t> VerbsRegistrar::export_region(const mr::Region& region) {
  const std::lock_guard lock{mutex_};
  const auto at = regions_.find(slot_of(region));
  if (at == regions_.end() || at->second.undefined)
    return Error{EINVAL, "the region is not registered here, or undefined"};
  return at->second.mr->handle;
}

Result<mr::Region> VerbsRegistrar::import_region(uint32_t number) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  const std::lock_guard lock{mutex_};
  OwnedMr mr{ibv_import_mr(pd_, number), DropMr{true}};
  if (mr == nullptr) return Error{errno, "no region of this number is registered on this file"};
  mr::Region region;
  region.length = mr->length;
  region.lkey = Lkey{mr->lkey};
  region.rkey = Rkey{mr->rkey};
  region.kind = mr::Kind::imported;
  if (!regions_.emplace(slot_of(region), Entry{std::move(mr), mr::Domain{0}, false, region.kind})
           .second)
    return Error{EEXIST, "the region is imported here already"};
  return region;
}

}  // namespace kilim::mlx5
