// SPDX-License-Identifier: BSD-3-Clause
// Two adapters on one wire, each with memory that peers reach and with a shadow of it that only the
// test writes: what requests should have left there. Each batch does a few things at once, on
// ranges that do not meet, and then compares every byte. One thread, which runs both adapters;
// which things are done follows from the seed alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "fabric_fixture.hh"

namespace kilim::test {

struct ShadowCounts {
  uint64_t batches = 0, requests = 0, bytes = 0, umrs = 0, interleaved = 0, atomics = 0;
  uint64_t messages = 0, windows = 0, overstepped = 0, unanswered = 0, paged = 0, reregistered = 0,
           recoveries = 0;
  // Unreliable ones: sent, arrived with a right sum, arrived with a wrong one.
  std::array<uint64_t, 3> sent{}, right{}, wrong{};
};
enum class Loose : uint8_t { uc, ud, raw };

struct ShadowConfig {
  std::string name, wire, order;
  uint64_t seed = 1;
};

// What lies in one end's memory, by its zones: the first half pinned, the other paged on demand.
namespace shadow_layout {
inline constexpr std::size_t zone = 16384, zones = 16, half = zone * zones / 2, all = zone * zones;
inline constexpr std::size_t slot = 4096, slots = 16;  // of unreliable messages, each way
}  // namespace shadow_layout

struct ShadowRange {
  std::size_t at;
  uint32_t bytes;
};

// One adapter with all its objects, which live as long as the process.
class ShadowEnd {
 public:
  ShadowEnd(const ShadowConfig&, int number);
  [[nodiscard]] bool ok() const { return ok_; }
  // Anew, after an error too. False: it failed.
  bool connect(const ShadowEnd& peer);
  bool connect_loose(const ShadowEnd& peer);

  [[nodiscard]] uint64_t address(std::size_t at) const {
    return reinterpret_cast<uintptr_t>(memory) + at;
  }
  [[nodiscard]] const ibv_mr* region(std::size_t at) const {
    return at < shadow_layout::half ? pinned : paged;
  }
  [[nodiscard]] ibv_sge sge(ShadowRange r) const {
    return {address(r.at), r.bytes, region(r.at)->lkey};
  }
  void post(ibv_send_wr& wr, std::span<ibv_sge> from);
  void receive(std::span<ibv_sge> into);
  // The first byte that is another than in the shadow; `all`: none.
  [[nodiscard]] std::size_t first_difference() const;

  Attached* attached = nullptr;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;  // reliable
  ibv_qp_ex* ex = nullptr;
  mlx5dv_qp_ex* dv = nullptr;
  std::array<mlx5dv_mkey*, 2> keys{};  // a list, and an interleaved one
  ibv_mw* window = nullptr;
  ibv_mr *pinned = nullptr, *paged = nullptr, *roving = nullptr;
  uint8_t* memory = nullptr;
  std::vector<uint8_t> shadow;
  uint32_t expected = 0;  // completions of what is under way, with success

  ibv_cq* loose_cq = nullptr;
  std::array<ibv_qp*, 3> loose{};  // by Loose
  ibv_ah* ah = nullptr;
  ibv_flow* rule = nullptr;
  ibv_mr* loose_mr = nullptr;
  std::vector<uint8_t>
      loose_memory;  // slots to send from, then those to receive into, of each kind
  std::array<uint32_t, 3> loose_sent{};
  uint32_t loose_expected = 0;  // completions of sent ones

 private:
  bool make_memory();
  bool make_reliable();
  bool make_loose();

  int number_;
  bool ok_ = false;
};

// The wire with both ends, and what is done on it.
class Shadow {
 public:
  explicit Shadow(const ShadowConfig&);
  [[nodiscard]] bool ok() const;
  // False: something was wrong, and was told.
  bool batch();
  ShadowCounts counts;

 private:
  using Sges = std::vector<ibv_sge>;
  struct Zones {
    ShadowEnd *near, *far;
    std::size_t near_at, far_at;
  };
  // shadow_batches.cc: what may be done at once.
  void one_request(Zones z, std::array<bool, 4>& keys_used);
  void write(Zones z, const std::vector<ShadowRange>& from, Sges sges, bool immediate);
  void read(Zones z, const std::vector<ShadowRange>& into, Sges sges);
  void send(Zones z);
  void atomic(Zones z);
  void bind_list(Zones z);
  void post_list(ShadowEnd& e, const std::vector<ShadowRange>& shown);
  void bind_interleaved(Zones z);
  void through_key(Zones z, const std::vector<ShadowRange>& shown, uint32_t key);
  std::vector<ShadowRange> pieces(std::size_t zone_at, std::size_t most);
  Sges sges(const ShadowEnd& e, const std::vector<ShadowRange>& ranges) const;
  std::vector<uint8_t> take(const ShadowEnd& e, const std::vector<ShadowRange>& ranges) const;
  void put(ShadowEnd& e, const std::vector<ShadowRange>& ranges, std::span<const uint8_t> bytes);
  void page_out(ShadowEnd& e, std::size_t zone_at);
  bool settle();
  bool same();
  // shadow_steps.cc: what is done alone, since it may end in an error.
  bool bind_window(Zones z);
  bool reregister(Zones z);
  bool through_remote_key(Zones z);
  bool write_at(Zones z, ShadowRange to, uint32_t rkey, uint32_t allowed);
  bool ends_as(Zones z, ibv_wc_status wanted);
  bool recover();
  // shadow_loose.cc
  void send_loose(ShadowEnd& near, const ShadowEnd& far);
  bool take_loose(ShadowEnd& e);
  void post_loose(ShadowEnd& e, std::size_t kind, std::size_t slot);

  void run();
  bool wait(ShadowEnd& e, ibv_wc& wc);
  uint64_t below(uint64_t n) { return random_() % n; }
  bool complain(const char* what, uint64_t value = 0);

  std::mt19937_64 random_;
  std::unique_ptr<ShadowEnd> ends_[2];
  bool damages_;  // the wire does
};

}  // namespace kilim::test
