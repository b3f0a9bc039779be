// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/registrar.hh"

#include <cerrno>
#include <vector>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/mem/block.hh"
#include "kilim/detail/mem/limits.hh"

namespace kilim::mlx5 {

static_assert(mr::Access::local_write == IBV_ACCESS_LOCAL_WRITE &&
              mr::Access::remote_write == IBV_ACCESS_REMOTE_WRITE &&
              mr::Access::remote_read == IBV_ACCESS_REMOTE_READ &&
              mr::Access::remote_atomic == IBV_ACCESS_REMOTE_ATOMIC &&
              mr::Access::mw_bind == IBV_ACCESS_MW_BIND &&
              mr::Access::zero_based == IBV_ACCESS_ZERO_BASED &&
              mr::Access::on_demand == IBV_ACCESS_ON_DEMAND &&
              mr::Access::huge_pages == IBV_ACCESS_HUGETLB &&
              mr::Access::relaxed_ordering == IBV_ACCESS_RELAXED_ORDERING);

namespace {

// On-demand regions are mapped in pages of this size, whatever the memory's own is.
constexpr uint64_t paged_page_bytes = 4096;

ibv_mr* register_with(ibv_pd* pd, std::span<std::byte> memory, uint64_t iova, uint32_t access) {
  const int flags = static_cast<int>(access);
  // ibv_reg_mr(3) makes the keys of a zero-based region count from 0.
  if ((access & mr::Access::zero_based) != 0 || iova == reinterpret_cast<uint64_t>(memory.data()))
    return ibv_reg_mr(pd, memory.data(), memory.size(), flags);
  return ibv_reg_mr_iova(pd, memory.data(), memory.size(), iova, flags);
}

// Why ibv_advise_mr(3) failed.
Error advice_refusal(int code) {
  switch (code) {
    case ENOENT:
      return {code, "a key is unknown or of memory that is pinned"};
    case EINVAL:
      return {code, "no range was named, or a key is not a region's"};
    case EPERM:
      return {code, "a region is of another protection domain, or may not be written"};
    case EFAULT:
      return {code, "a range is outside its region or not mapped"};
    case EAGAIN:
      return {code, "pages went away while they were fetched; try again"};
    case ENOMEM:
      return {code, "there is no memory for the tables of what was asked for"};
    case EOPNOTSUPP:
      return {code, "the adapter takes no such advice"};
    default:
      return {code, "the advice was not taken"};
  }
}

}  // namespace

Error VerbsRegistrar::refusal(int code, const Request& request) {
  switch (code) {
    case ENOMEM:
      if ((request.access & mr::Access::on_demand) != 0)
        return {code, "the kernel has no room for the tables of an on-demand region of this size"};
      [[fallthrough]];
    case EPERM:  // nothing at all may be locked
      mem::explain_lock_limit(request.memory.size(), sentence_);
      return {code, sentence_.data()};
    case EFAULT:
      return {code, "the memory is not mapped throughout, or not writable where access needs it"};
    case EOPNOTSUPP:
      return {code, "the adapter or its kernel driver lacks this kind of region"};
    default:
      return {code, "the adapter does not register this memory"};
  }
}

Result<mr::Region> VerbsRegistrar::add(const Request& request, ibv_pd* pd, mr::Domain domain) {
  OwnedMr mr{register_with(pd, request.memory, request.iova, request.access)};
  if (mr == nullptr) return refusal(errno, request);
  const auto address = reinterpret_cast<uint64_t>(request.memory.data());
  const bool whole = request.kind == mr::Kind::implicit;
  const mr::Region region{
      .address = address,
      .length = request.memory.size(),
      .iova = (request.access & mr::Access::zero_based) != 0 ? 0 : request.iova,
      .lkey = Lkey{mr->lkey},
      .rkey = Rkey{mr->rkey},
      .page_bytes = request.page_bytes,
      .access = request.access,
      .kind = request.kind,
      .node = static_cast<int16_t>(
          whole || request.kind == mr::Kind::on_demand ? -1 : mem::node_of(request.memory.data())),
      .entries =
          whole ? 0 : mr::translation_entries(address, request.memory.size(), request.page_bytes)};
  regions_.emplace(slot_of(region), Entry{std::move(mr), domain, false, region.kind});
  return region;
}

Result<mr::Region> VerbsRegistrar::register_memory(std::span<std::byte> memory, uint32_t access,
                                                   uint64_t page_bytes) {
  return register_memory_at(memory, Iova{reinterpret_cast<uint64_t>(memory.data())}, access,
                            page_bytes);
}

Result<mr::Region> VerbsRegistrar::register_memory_at(std::span<std::byte> memory, Iova iova,
                                                      uint32_t access, uint64_t page_bytes) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if ((access & mr::Access::on_demand) != 0)
    return Error{EINVAL, "on-demand paging is asked for by register_on_demand()"};
  const std::lock_guard lock{mutex_};
  return add({memory, iova.value(), access, page_bytes, mr::Kind::pinned}, pd_, mr::Domain{0});
}

Result<mr::Region> VerbsRegistrar::register_on_demand(std::span<std::byte> memory, uint32_t access,
                                                      std::span<const mr::OdpUse> uses) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (Status s = mr::odp_refusal(odp_, false, uses); !s) return s.error();
  const std::lock_guard lock{mutex_};
  return add({memory, reinterpret_cast<uint64_t>(memory.data()), access | mr::Access::on_demand,
              paged_page_bytes, mr::Kind::on_demand},
             pd_, mr::Domain{0});
}

Result<mr::Region> VerbsRegistrar::register_implicit(uint32_t access,
                                                     std::span<const mr::OdpUse> uses) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (Status s = mr::odp_refusal(odp_, true, uses); !s) return s.error();
  const std::span<std::byte> all{static_cast<std::byte*>(nullptr), SIZE_MAX};
  const std::lock_guard lock{mutex_};
  return add({all, 0, access | mr::Access::on_demand, paged_page_bytes, mr::Kind::implicit}, pd_,
             mr::Domain{0});
}

Status VerbsRegistrar::deregister(const mr::Region& region) {
  const std::lock_guard lock{mutex_};
  const auto at = regions_.find(slot_of(region));
  if (at == regions_.end()) return Error{EINVAL, "the region is not registered here"};
  if (!at->second.mr.get_deleter().imported) {
    if (const int rc = ibv_dereg_mr(at->second.mr.get()); rc != 0)
      return Error{rc, "the region is still in use"};
    (void)at->second.mr.release();
  }
  regions_.erase(at);
  return Done{};
}

std::array<mr::RegionTotal, mr::kinds> VerbsRegistrar::totals() const {
  std::array<mr::RegionTotal, mr::kinds> all{};
  const std::lock_guard lock{mutex_};
  for (const auto& [slot, entry] : regions_) {
    mr::RegionTotal& of_kind = all[static_cast<std::size_t>(entry.kind)];
    of_kind.regions++;
    if (entry.kind != mr::Kind::implicit) of_kind.bytes += entry.mr->length;
  }
  return all;
}

Status VerbsRegistrar::advise(const mr::AdviceRequest& request) {
  std::vector<ibv_sge> list;
  list.reserve(request.ranges.size());
  for (const mr::AdviceRange& r : request.ranges)
    list.push_back({r.address, r.bytes, r.lkey.value()});
  const std::lock_guard lock{mutex_};
  const int rc = ibv_advise_mr(pd_, static_cast<ibv_advise_mr_advice>(request.advice),
                               request.flush ? uint32_t{IBV_ADVISE_MR_FLAG_FLUSH} : 0u, list.data(),
                               static_cast<uint32_t>(list.size()));
  return rc == 0 ? Status{Done{}} : Status{advice_refusal(rc)};
}

}  // namespace kilim::mlx5
