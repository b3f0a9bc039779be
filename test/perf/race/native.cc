// SPDX-License-Identifier: BSD-3-Clause
// Kilim's own bursts, in handles, with SSE4.2 and AVX2; many packets a WQE, as net_mlx5 sends them.
#include "perf/packet/forward.hh"
#include "perf/race/racers.hh"

namespace kilim::race {
namespace {

template <perf::Way W>
struct Native {
  perf::Ours<W> side;
  std::unique_ptr<Nic> nic;
};

template <perf::Way W, bool mac>
[[gnu::noinline]] uint32_t forward(void* self) {
  auto& s = static_cast<Native<W>*>(self)->side;
  const uint32_t n = s.receive(*s.rx, s.packets);
  const std::span<const pool::Handle> came = std::span(s.packets).first(n);
  if constexpr (mac) {
    pool::each_data(s.nic.arena(), came, [](std::byte* frame) noexcept {
      std::memcpy(frame, new_addresses.both, sizeof new_addresses.both);
    });
  }
  return s.send(*s.tx, came);
}

template <perf::Way W>
uint32_t serve(void* self, uint32_t bytes) {
  return static_cast<Native<W>*>(self)->nic->turn(burst_packets, bytes);
}

template <perf::Way W>
std::string add(std::vector<Racer>& racers, const char* name, const char* pool) {
  auto self = std::make_shared<Native<W>>();
  if (!self->side.open(pool)) return std::string(name) + ": its rings cannot be made";
  perf::EmulatedNic& n = self->side.nic;
  self->nic = std::make_unique<Nic>(Rings{n.rq(), n.rx_cq(), n.sq(), n.tx_cq()});
  racers.push_back({name, self, forward<W, false>, forward<W, true>, serve<W>});
  return "";
}

}  // namespace

std::string add_native(std::vector<Racer>& racers) {
  std::string why = add<perf::ways::sse_mpw>(racers, "kilim", "race_sse");
  if (why.empty() && burst::widest_simd() >= burst::Simd::avx2)
    why = add<perf::ways::avx2_mpw>(racers, "kilim, AVX2", "race_avx2");
  return why;
}

}  // namespace kilim::race
