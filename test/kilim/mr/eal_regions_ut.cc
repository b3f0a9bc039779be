// SPDX-License-Identifier: BSD-3-Clause
// EAL's memory registered as it comes and goes. With huge pages EAL's own hot-plug events are
// used; where the machine has none, external memory stands for them and the events are called.
#include <algorithm>
#include <cerrno>
#include <map>

#include <rte_malloc.h>

#include "case_tables.hh"
#include "eal_regions_fixture.hh"
#include "kilim/detail/mem/limits.hh"

namespace eal_regions_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

// What a listener hears, as the set that it thinks is registered.
struct Heard {
  std::map<uint32_t, Region> live;
  bool orderly = true;

  EalRegions::Listener listener() {
    return {this,
            [](void* h, const Region& r) {
              auto* heard = static_cast<Heard*>(h);
              heard->orderly = heard->orderly && heard->live.emplace(r.lkey.value(), r).second;
            },
            [](void* h, const Region& r) {
              auto* heard = static_cast<Heard*>(h);
              heard->orderly = heard->orderly && heard->live.erase(r.lkey.value()) == 1;
            }};
  }
  [[nodiscard]] bool same_as(const Keeper& keeper) const {
    return orderly && live.size() == keeper.live.size() &&
           std::equal(live.begin(), live.end(), keeper.live.begin(),
                      [](const auto& a, const auto& b) { return a.first == b.first; });
  }
};

void all_of_eal() {
  Keeper keeper;
  {
    auto regions = EalRegions::create(keeper, Access::all);
    CU_ASSERT_FATAL(regions.ok());
    void* p = rte_malloc(nullptr, 4096, 64);
    CU_ASSERT(keeper.covers(p, 4096));
    EQUAL((*regions)->regions().size(), keeper.live.size());
    EQUAL((*regions)->follows(), hot_plug);
    for (const Region& r : (*regions)->regions()) EQUAL(r.page_bytes, hot_plug ? huge : 4096);
    rte_free(p);
  }
  CU_ASSERT(keeper.live.empty());
  keeper.room = 0;
  EQUAL(EalRegions::create(keeper, Access::all).error().code, ENOMEM);
}

void hot_plugged_memory() {
  Keeper keeper;
  Heard heard;
  auto regions = EalRegions::create(keeper, Access::all, heard.listener());
  CU_ASSERT_FATAL(regions.ok());
  const std::size_t before = keeper.live.size();
  Coming memory(**regions, 4 * huge);
  CU_ASSERT_PTR_NOT_NULL_FATAL(memory.at());
  CU_ASSERT(keeper.covers(memory.at(), huge));
  CU_ASSERT(keeper.live.size() > before);
  CU_ASSERT(heard.same_as(keeper));
  std::byte* const was = memory.at();
  memory.go();
  CU_ASSERT(!keeper.covers(was, huge));
  CU_ASSERT(heard.same_as(keeper));
  CU_ASSERT((*regions)->counts().deregistered > 0);
  EQUAL((*regions)->counts().failed, 0);
  regions->reset();
  CU_ASSERT(keeper.live.empty());
  CU_ASSERT(heard.same_as(keeper));
}

// The middle of a region goes: what is left has keys of its own before the old one ends.
void a_part_goes() {
  Keeper keeper;
  Heard heard;
  auto regions = EalRegions::create(keeper, Access::all, heard.listener());
  CU_ASSERT_FATAL(regions.ok());
  Coming memory(**regions, 4 * huge);
  CU_ASSERT_PTR_NOT_NULL_FATAL(memory.at());
  rte_mcfg_mem_read_lock();
  (*regions)->vanishing({memory.at() + huge, huge});
  rte_mcfg_mem_read_unlock();
  CU_ASSERT(keeper.covers(memory.at(), huge));
  CU_ASSERT(keeper.covers(memory.at() + 2 * huge, 2 * huge));
  CU_ASSERT(!keeper.covers(memory.at() + huge, 1));
  CU_ASSERT(heard.same_as(keeper));
  rte_mcfg_mem_read_lock();
  (*regions)->appeared({memory.at() + huge, huge});
  rte_mcfg_mem_read_unlock();
  CU_ASSERT(keeper.covers(memory.at() + huge, huge));
  CU_ASSERT(heard.same_as(keeper));
  keeper.room = keeper.live.size();  // what cannot be registered is counted
  rte_mcfg_mem_read_lock();
  (*regions)->vanishing({memory.at() + 3 * huge, 1});
  rte_mcfg_mem_read_unlock();
  CU_ASSERT((*regions)->counts().failed > 0);
  CU_ASSERT(heard.same_as(keeper));
  keeper.room = 1000;
}

const kilim::test::Case cases[] = {
    {"all memory of EAL is registered, and deregistered at the end", all_of_eal},
    {"hot-plugged memory is registered and freed memory deregistered", hot_plugged_memory},
    {"where a part of a region goes, the rest stays registered", a_part_goes},
};

}  // namespace
}  // namespace eal_regions_ut

KILIM_TEST_MAIN(eal_regions) {
  if (!kilim::test::start_growing_eal(kilim::mem::huge_pages(kilim::test::huge).free, "-m64"))
    return 2;
  return kilim::test::run_tables(
      "mr/eal_regions", {eal_regions_ut::cases, kilim::test::eal_index_cases()}, argc, argv);
}
