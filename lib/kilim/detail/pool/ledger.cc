// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/pool/ledger.hh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <tuple>

#include <cxxabi.h>
#include <dlfcn.h>
#include <rte_lcore.h>

#include "kilim/detail/pool/parts.hh"

namespace kilim::inline v1::pool {

namespace {

constexpr uint64_t filling = 0x6b6b6b6b6b6b6b6b;  // POISON_FREE (Linux include/linux/poison.h)
constexpr uint64_t told_at_most = 32;             // faults but leaks

// The function that an address is in, and where its file has it, for addr2line.
std::string place(const void* at) {
  char number[40];
  Dl_info info;
  if (::dladdr(at, &info) == 0 || info.dli_fname == nullptr) {
    std::snprintf(number, sizeof number, "%p", at);
    return number;
  }
  const char* slash = std::strrchr(info.dli_fname, '/');
  const auto offset = static_cast<const char*>(at) - static_cast<const char*>(info.dli_fbase);
  std::snprintf(number, sizeof number, "+0x%tx", offset);
  std::string file = (slash != nullptr ? slash + 1 : info.dli_fname) + std::string(number);
  if (info.dli_sname == nullptr) return file;
  int failed = 0;
  char* plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &failed);
  const std::string function = failed == 0 ? plain : info.dli_sname;
  std::free(plain);
  return function + " (" + file + ")";
}

std::string name_of(const Who& who) {
  std::string s = who.lcore == LCORE_ID_ANY ? std::string("a thread that is no lcore")
                                            : "lcore " + std::to_string(who.lcore);
  if (who.tag != nullptr) s += std::string(" (") + who.tag + ")";
  if (who.at != nullptr) s += " in " + place(who.at);
  return s;
}

Who here(Who who) noexcept {
  who.lcore = rte_lcore_id();
  return who;
}

}  // namespace

void Ledger::Trace::set(Who who) noexcept {
  tag.store(who.tag, std::memory_order_relaxed);
  at.store(who.at, std::memory_order_relaxed);
  lcore.store(who.lcore, std::memory_order_relaxed);
}

Who Ledger::Trace::get() const noexcept {
  return {tag.load(std::memory_order_relaxed), at.load(std::memory_order_relaxed),
          lcore.load(std::memory_order_relaxed)};
}

Ledger::Ledger(const Arena& arena, const PoolConfig& config,
               std::unique_ptr<Entry[]> entries) noexcept
    : arena_(arena),
      first_(config.first),
      count_(config.count),
      debug_(config.debug),
      entries_(std::move(entries)) {
  std::snprintf(name_, sizeof name_, "%s", config.name);
  for (uint32_t i = 0; i < count_; i++) fill(first_ + i);
}

std::unique_ptr<Ledger> Ledger::open(const Arena& arena, const PoolConfig& config) {
  std::unique_ptr<Entry[]> entries(new (std::nothrow) Entry[config.count]);
  if (entries == nullptr) return nullptr;
  return std::unique_ptr<Ledger>(new (std::nothrow) Ledger(arena, config, std::move(entries)));
}

void Ledger::fill(uint32_t index) const noexcept {
  std::memset(arena_.buffer(index), static_cast<int>(filling & 0xff), arena_.room());
}

// The device and everybody else keep off a free buffer: who wrote is named by who freed it last.
void Ledger::check_filled(uint32_t index, const Entry& e, Who who) noexcept {
  const std::byte* const bytes = arena_.buffer(index);
  const uint32_t room = arena_.room();
  uint32_t at = 0;
  for (uint64_t word; at < room; at += sizeof word) {
    std::memcpy(&word, bytes + at, sizeof word);
    if (word != filling) break;
  }
  if (at == room) return;
  while (bytes[at] == std::byte{filling & 0xff}) at++;
  const std::string s =
      "buffer " + std::to_string(index) + " was written to while it was free, at byte " +
      std::to_string(at) + "; " +
      ((e.turn.load(std::memory_order_relaxed) >> 1) == 0
           ? "it was never allocated before"
           : name_of(e.freed.get()) + " freed it, taken by " + name_of(e.taken.get())) +
      "; seen by " + name_of(who);
  tell({PoolFault::Kind::written_when_free, index, 1, nullptr}, s.c_str());
}

void Ledger::take(std::span<const uint32_t> indices, Who who) noexcept {
  who = here(who);
  for (const uint32_t index : indices) {
    Entry& e = *entry(index);
    check_filled(index, e, who);
    e.taken.set(who);
    e.turn.store(((e.turn.load(std::memory_order_relaxed) >> 1) + 1) << 1 | 1,
                 std::memory_order_release);
  }
}

void Ledger::tell_double_free(uint32_t index, const Entry& e, Who who) noexcept {
  const bool never = e.turn.load(std::memory_order_relaxed) >> 1 == 0;
  const std::string s =
      "buffer " + std::to_string(index) + " is freed by " + name_of(who) +
      ", but nobody holds it: " +
      (never ? "it was never allocated"
             : name_of(e.freed.get()) + " freed it before, taken by " + name_of(e.taken.get()));
  tell({PoolFault::Kind::double_free, index, 1, nullptr}, s.c_str());
}

bool Ledger::expect_held(uint32_t index, Who who) noexcept {
  who = here(who);
  const Entry* const e = entry(index);
  if (e == nullptr) {
    char owner[sizeof name_];
    const bool found = index < arena_.count() && parts::find(arena_.buffer(index), owner);
    const std::string s = "buffer " + std::to_string(index) + ", freed by " + name_of(who) +
                          ", is of " + (found ? std::string("pool ") + owner : "no pool");
    tell({PoolFault::Kind::foreign_free, index, 1, nullptr}, s.c_str());
    return false;
  }
  if ((e->turn.load(std::memory_order_acquire) & 1) != 0) return true;
  tell_double_free(index, *e, who);
  return false;
}

bool Ledger::release(uint32_t index, Who who) noexcept {
  who = here(who);
  Entry& e = *entry(index);
  uint32_t turn = e.turn.load(std::memory_order_relaxed);
  if ((turn & 1) == 0 ||
      !e.turn.compare_exchange_strong(turn, turn & ~1u, std::memory_order_acq_rel)) {
    tell_double_free(index, e, who);
    return false;
  }
  e.freed.set(who);
  fill(index);
  return true;
}

uint32_t Ledger::report_held() noexcept {
  struct Held {
    uint32_t first, buffers;
  };
  std::map<std::tuple<uint32_t, const void*, const char*>, Held> by_holder;
  uint32_t all = 0;
  for (uint32_t i = 0; i < count_; i++) {
    const Entry& e = entries_[i];
    if ((e.turn.load(std::memory_order_acquire) & 1) == 0) continue;
    const Who who = e.taken.get();
    auto [held, fresh] = by_holder.try_emplace({who.lcore, who.at, who.tag}, Held{first_ + i, 0});
    held->second.buffers++;
    all++;
  }
  for (const auto& [holder, held] : by_holder) {
    const auto& [lcore, at, tag] = holder;
    const std::string s = std::to_string(held.buffers) + " of " + std::to_string(count_) +
                          " buffers did not come back, the first is " + std::to_string(held.first) +
                          ": taken by " + name_of({tag, at, lcore});
    tell({PoolFault::Kind::leak, held.first, held.buffers, nullptr}, s.c_str());
  }
  return all;
}

uint32_t Ledger::generation(uint32_t index) const noexcept {
  const Entry* const e = entry(index);
  return e == nullptr ? 0 : e->turn.load(std::memory_order_acquire) >> 1;
}

void Ledger::tell(PoolFault fault, const char* what) noexcept {
  const uint64_t before = faults_.fetch_add(fault.buffers, std::memory_order_relaxed);
  if (fault.kind != PoolFault::Kind::leak && before >= told_at_most) return;
  const std::string s = std::string("pool ") + name_ + ": " + what;
  fault.sentence = s.c_str();
  if (debug_.report != nullptr) return debug_.report(debug_.context, fault);
  std::fprintf(stderr, "kilim: %s\n", fault.sentence);
}

}  // namespace kilim::inline v1::pool
