// SPDX-License-Identifier: BSD-3-Clause
// PRM: "ALLOC_PD", "CREATE_MKEY" of pinned memory and of memory on demand. Adapter's lock held.
#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "vhca/core/refusal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/memory/probe.hh"

namespace kilim::vhca::hca {

namespace {

constexpr uint64_t page_mask = 4095;
constexpr uint32_t known_access = access::local_write | access::remote_write | access::remote_read |
                                  access::remote_atomic | access::mw_bind | access::zero_based |
                                  access::on_demand | access::huge_pages | access::optional_mask;

// On demand, of the whole address space.
bool is_implicit(const MrSpec& s) noexcept {
  return (s.access & access::on_demand) != 0 && s.start.value() == 0 && s.length == UINT64_MAX;
}

// Null: nothing to object to.
const char* mr_objection(const Hca& h, const MrSpec& s) noexcept {
  if (!h.pd_exists(s.pd)) return "no such protection domain";
  if ((s.access & access::on_demand) != 0 && !h.config.profile.odp)
    return "the adapter has no on-demand paging";
  if ((s.access & ~known_access) != 0) return "unknown access flag";
  if ((s.access & (access::remote_write | access::remote_atomic)) != 0 &&
      (s.access & access::local_write) == 0)
    return "remote write needs local write";
  if (s.length == 0) return "an empty region";
  if ((s.start.value() & page_mask) != (s.iova.value() & page_mask))
    return "address and virtual address differ within the page";
  if (s.iova.value() + s.length < s.iova.value()) return "the region wraps";
  bool implicit = is_implicit(s);
  if (implicit && (!h.config.profile.odp_implicit || s.iova.value() != 0))
    return "no region of the whole address space, or not at address 0";
  return nullptr;
}

constexpr uint32_t mr_writes =
    access::local_write | access::remote_write | access::remote_atomic | access::mw_bind;

// The kernel pins for writing whatever could be written through the key.
int probe_mr(const MrSpec& s) noexcept {
  return memory::probe_range(s.start, s.length, (s.access & mr_writes) != 0);
}

// Pinned memory has to be there; what comes on demand need not.
int prepare_mr(Hca& h, const MrSpec& s, tpt::KeyTable::Direct& d) {
  constexpr uint64_t huge_page = uint64_t{2} << 20;
  d.pd = s.pd;
  d.start = s.iova.value();
  d.va = s.start.value();
  d.len = s.length;
  d.access = s.access;
  if ((s.access & access::on_demand) == 0) return probe_mr(s);
  d.implicit = is_implicit(s);
  tpt::PagedRegion::Shape shape{d.va, d.len, (s.access & mr_writes) != 0};
  if ((s.access & access::huge_pages) != 0) shape.unit = huge_page;
  const tpt::PageRange range = tpt::PageRange::of(d.va, d.len, shape.unit);
  if (!d.implicit && range.empty()) return refusal::least("length", d.len, 1);
  // The kernel too keeps a word for each page in one allocation.
  constexpr uint64_t most_pages = INT32_MAX / sizeof(uint64_t);
  if (!d.implicit && (range.end - range.start) / shape.unit > most_pages)
    return refusal::most("length, in pages,", (range.end - range.start) / shape.unit, most_pages,
                         ENOMEM);
  d.paged = std::make_unique<tpt::PagedRegion>(h.paging, shape);
  return 0;
}

}  // namespace

Result<Pdn> alloc_pd(Hca& h, const EventSink* open) {
  uint32_t number = 0;
  Pd* pd = h.pds.create(number);
  if (pd == nullptr) return Error{ENOMEM, "the adapter has no more protection domains"};
  pd->open = open;
  return Pdn{number};
}

int dealloc_pd(Hca& h, Pdn pd) {
  const Pd* p = h.pds.at(pd.value());
  if (p == nullptr) return refusal::absent("pd", pd.value());
  if (p->users != 0 || h.keys.uses(pd))
    return refusal::busy("the protection domain", std::max<uint64_t>(p->users, 1));
  h.pds.destroy(pd.value());
  return 0;
}

Result<MrKeys> reg_mr(Hca& h, const MrSpec& s) {
  if (const char* why = mr_objection(h, s)) return Error{EINVAL, why};
  tpt::KeyTable::Direct direct;
  if (int rc = prepare_mr(h, s, direct); rc != 0)
    return Error{-rc, rc == -ENOMEM ? "more pages than a region on demand may have"
                                    : "the range is not mapped, or not writable"};
  Result<tpt::Mkey*> m = h.keys.create_direct(std::move(direct));
  if (!m) return m.error();
  if (h.lint) h.lint->registered(**m);
  return MrKeys{Lkey{(*m)->key}, Rkey{(*m)->key}};
}

// The linter watches memory that clients can unmap: not this.
Result<MrKeys> reg_dm_mr(Hca& h, const DmMrSpec& s) {
  if (!h.pd_exists(s.pd)) return Error{EINVAL, "no such protection domain"};
  tpt::KeyTable::Direct direct;
  direct.pd = s.pd;
  direct.va = s.start.value();
  direct.len = s.length;
  direct.access = s.access;
  Result<tpt::Mkey*> m = h.keys.create_direct(std::move(direct));
  if (!m) return m.error();
  return MrKeys{Lkey{(*m)->key}, Rkey{(*m)->key}};
}

int rereg_mr(Hca& h, MkeyIndex index, const MrSpec& s) {
  h.paging.finish(index.value());
  tpt::Mkey* m = h.keys.at(index.value());
  if (m == nullptr || m->mode != tpt::KeyMode::direct)
    return refusal::absent("lkey", index.value() << 8);
  if (const char* why = mr_objection(h, s)) return refusal::text(EINVAL, why);
  tpt::KeyTable::Direct direct;
  if (int rc = prepare_mr(h, s, direct); rc != 0) return rc;
  h.keys.replace_direct(*m, std::move(direct));
  if (h.lint) h.lint->registered(*m);
  return 0;
}

namespace {
void note_end(Hca& h, MkeyIndex index) noexcept {
  const tpt::Mkey* m = h.keys.at(index.value());
  if (h.explainer && m != nullptr) h.explainer->key_ends(*m);
}
}  // namespace

Result<Rkey> alloc_mw(Hca& h, Pdn pd, bool type2) {
  if (!h.config.profile.memory_windows) return Error{EOPNOTSUPP, "the adapter has no windows"};
  if (!h.pd_exists(pd)) return Error{EINVAL, "no such protection domain"};
  Result<tpt::Mkey*> m = h.keys.create_window(pd, type2);
  if (!m) return m.error();
  return Rkey{(*m)->key};
}

int dealloc_mw(Hca& h, MkeyIndex index) {
  note_end(h, index);
  return h.keys.destroy(index) == 0 ? 0 : refusal::absent("the window's mkey_index", index.value());
}

int dereg_mr(Hca& h, MkeyIndex index) {
  h.paging.finish(index.value());
  if (h.lint) h.lint->deregistered(index.value());
  note_end(h, index);
  return h.keys.destroy(index) == 0 ? 0 : refusal::absent("the region's mkey_index", index.value());
}

int advise_mr(Hca& h, const Advice& a) {
  if (!h.config.profile.odp) return refusal::lacks("IBV_ACCESS_ON_DEMAND (on-demand paging)");
  if (a.advice > 2) return refusal::most("advice", a.advice, 2, EOPNOTSUPP);
  std::vector<tpt::Segment> list;
  for (const Advice::Range& r : a.list) list.push_back({r.address, r.bytes, r.lkey, false});
  return h.paging.advise({a.pd, static_cast<tpt::Paging::Advice>(a.advice), a.flush, list});
}

}  // namespace kilim::vhca::hca
