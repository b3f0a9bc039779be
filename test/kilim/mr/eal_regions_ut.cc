// SPDX-License-Identifier: BSD-3-Clause
// EAL's memory registered as it comes and goes. With huge pages EAL's own hot-plug events are
// used; where the machine has none, external memory stands for them and the events are called.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>

#include <rte_eal.h>
#include <rte_eal_memconfig.h>
#include <rte_malloc.h>
#include <rte_memory.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kilim/mem/limits.hh"
#include "kilim/mr/eal_regions.hh"
#include "ut.hh"

namespace {

using namespace kilim;
using namespace kilim::mr;

constexpr std::size_t huge = std::size_t{2} << 20;
bool hot_plug = false;

// Keeps what is registered; overlaps with what is there are allowed, as on a device.
class Keeper final : public Registrar {
 public:
  Result<Region> register_memory(std::span<std::byte> memory, uint32_t access,
                                 uint64_t page_bytes) override {
    if (live.size() == room) return Error{ENOMEM, "no room"};
    Region r;
    r.address = r.iova = reinterpret_cast<uintptr_t>(memory.data());
    r.length = memory.size();
    r.lkey = Lkey{++keys};
    r.page_bytes = page_bytes;
    r.access = access;
    live[r.lkey.value()] = r;
    return r;
  }
  Result<Region> register_memory_at(std::span<std::byte> memory, Iova, uint32_t access,
                                    uint64_t page_bytes) override {
    return register_memory(memory, access, page_bytes);
  }
  Status deregister(const Region& r) override {
    if (live.erase(r.lkey.value()) == 0) return Error{EINVAL, "not there"};
    return Done{};
  }
  [[nodiscard]] bool covers(const void* at, std::size_t bytes) const {
    return std::any_of(live.begin(), live.end(), [&](const auto& r) {
      return r.second.covers(reinterpret_cast<uintptr_t>(at), bytes);
    });
  }
  std::map<uint32_t, Region> live;
  std::size_t room = 1000;
  uint32_t keys = 0;
};

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
    CU_ASSERT_EQUAL((*regions)->regions().size(), keeper.live.size());
    CU_ASSERT_EQUAL((*regions)->follows(), hot_plug);
    for (const Region& r : (*regions)->regions())
      CU_ASSERT(r.page_bytes == (hot_plug ? huge : 4096));
    rte_free(p);
  }
  CU_ASSERT(keeper.live.empty());
  keeper.room = 0;
  CU_ASSERT_EQUAL(EalRegions::create(keeper, Access::all).error().code, ENOMEM);
}

// Memory that comes and goes: EAL's own, or external memory with the events called by hand.
class Coming {
 public:
  Coming(EalRegions& regions, std::size_t bytes) : regions_(regions), bytes_(bytes) {
    if (hot_plug) at_ = static_cast<std::byte*>(rte_malloc(nullptr, bytes, huge));
    if (at_ != nullptr) return;  // else other processes have taken the pages
    void* p =
        ::mmap(nullptr, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    mapped_ = static_cast<std::byte*>(p);
    at_ = mapped_ + (huge - reinterpret_cast<uintptr_t>(p) % huge) % huge;
    (void)rte_extmem_register(at_, bytes, nullptr, static_cast<unsigned>(bytes / huge), huge);
    rte_mcfg_mem_read_lock();
    regions_.appeared({at_, bytes});
    rte_mcfg_mem_read_unlock();
  }
  void go() {
    if (mapped_ == nullptr) {
      rte_free(at_);
    } else if (at_ != nullptr) {
      rte_mcfg_mem_read_lock();
      regions_.vanishing({at_, bytes_});
      rte_mcfg_mem_read_unlock();
      (void)rte_extmem_unregister(at_, bytes_);
      ::munmap(mapped_, bytes_ + huge);
    }
    at_ = nullptr;
  }
  ~Coming() { go(); }
  Coming(const Coming&) = delete;
  Coming& operator=(const Coming&) = delete;
  [[nodiscard]] std::byte* at() const { return at_; }

 private:
  EalRegions& regions_;
  std::size_t bytes_;
  std::byte* at_ = nullptr;
  std::byte* mapped_ = nullptr;
};

void hot_plugged_memory() {
  Keeper keeper;
  Heard heard;
  auto regions = EalRegions::create(keeper, Access::all, heard.listener());
  CU_ASSERT_FATAL(regions.ok());
  const std::size_t before = keeper.live.size();
  Coming memory(**regions, 4 * huge);
  CU_ASSERT_PTR_NOT_NULL_FATAL(memory.at());
  CU_ASSERT(keeper.covers(memory.at(), huge) && keeper.live.size() > before);
  CU_ASSERT(heard.same_as(keeper));
  std::byte* const was = memory.at();
  memory.go();
  CU_ASSERT(!keeper.covers(was, huge));
  CU_ASSERT(heard.same_as(keeper));
  CU_ASSERT((*regions)->counts().deregistered > 0 && (*regions)->counts().failed == 0);
  regions->reset();
  CU_ASSERT(keeper.live.empty() && heard.same_as(keeper));
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
  CU_ASSERT(keeper.covers(memory.at(), huge) && keeper.covers(memory.at() + 2 * huge, 2 * huge));
  CU_ASSERT(!keeper.covers(memory.at() + huge, 1) && heard.same_as(keeper));
  rte_mcfg_mem_read_lock();
  (*regions)->appeared({memory.at() + huge, huge});
  rte_mcfg_mem_read_unlock();
  CU_ASSERT(keeper.covers(memory.at() + huge, huge) && heard.same_as(keeper));
  keeper.room = keeper.live.size();  // what cannot be registered is counted
  rte_mcfg_mem_read_lock();
  (*regions)->vanishing({memory.at() + 3 * huge, 1});
  rte_mcfg_mem_read_unlock();
  CU_ASSERT((*regions)->counts().failed > 0 && heard.same_as(keeper));
  keeper.room = 1000;
}

const kilim::test::Case cases[] = {
    {"all memory of EAL is registered, and deregistered at the end", all_of_eal},
    {"hot-plugged memory is registered and freed memory deregistered", hot_plugged_memory},
    {"where a part of a region goes, the rest stays registered", a_part_goes},
};

}  // namespace

int main(int argc, char** argv) {
  constexpr const char* by_hand = "KILIM_UT_NO_HUGE";
  hot_plug = std::getenv(by_hand) == nullptr && kilim::mem::huge_pages(huge).free >= 16;
  const char* ordinary[] = {"eal_regions_ut",    "-l0",       "--no-pci",    "--no-telemetry",
                            "--log-level=error", "--no-huge", "--no-shconf", "-m64"};
  const char* with_huge[] = {"eal_regions_ut",    "-l0",         "--no-pci", "--no-telemetry",
                             "--log-level=error", "--in-memory", "-m4"};
  if (!hot_plug) std::puts("EAL's events are called by hand");
  const int rc = hot_plug ? rte_eal_init(7, const_cast<char**>(with_huge))
                          : rte_eal_init(8, const_cast<char**>(ordinary));
  if (rc < 0 && hot_plug) {  // other processes have taken the pages
    ::setenv(by_hand, "1", 1);
    ::execv("/proc/self/exe", argv);
  }
  if (rc < 0) return 2;
  return kilim::test::run_cases("mr/eal_regions", cases, argc, argv);
}
