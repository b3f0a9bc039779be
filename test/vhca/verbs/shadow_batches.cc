// SPDX-License-Identifier: BSD-3-Clause
// What the soak with a shadow does at once, in both directions, each on zones of its own: WRITE,
// READ, SEND and atomics, through segments, lists and interleaved keys that are bound anew each
// time, while pages that nothing uses go away. The shadow learns first what is to come out.
#include <algorithm>
#include <chrono>
#include <numeric>

#include <sys/mman.h>

#include "shadow_fixture.hh"

namespace kilim::test {
namespace {

namespace layout = shadow_layout;
constexpr std::size_t page = 4096;

uint32_t total(const std::vector<ShadowRange>& ranges) {
  uint32_t bytes = 0;
  for (const ShadowRange& r : ranges) bytes += r.bytes;
  return bytes;
}

}  // namespace

Shadow::Shadow(const ShadowConfig& c)
    : random_(c.seed), damages_(c.wire.find("corrupt") != std::string::npos) {
  for (int i = 0; i < 2; i++) ends_[i] = std::make_unique<ShadowEnd>(c, i);
  if (!ok()) return;
  for (int i = 0; i < 2; i++) {
    const bool up = ends_[i]->connect(*ends_[1 - i]) && ends_[i]->connect_loose(*ends_[1 - i]);
    if (!up) (void)complain("the ends cannot be connected");
    for (std::size_t kind = 0; kind < 3; kind++)
      for (std::size_t slot = 0; slot < layout::slots; slot++) post_loose(*ends_[i], kind, slot);
  }
}

bool Shadow::ok() const {
  return ends_[0]->ok() && ends_[1]->ok();
}

bool Shadow::complain(const char* what, uint64_t value) {
  std::printf("batch %lu: %s (%lu)\n", counts.batches, what, value);
  CU_FAIL("the soak went wrong");
  return false;
}

void Shadow::run() {
  for (const auto& e : ends_) e->attached->poll();
}

bool Shadow::wait(ShadowEnd& e, ibv_wc& wc) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  while (std::chrono::steady_clock::now() < give_up) {
    if (ibv_poll_cq(e.cq, 1, &wc) == 1) return true;
    run();
  }
  return complain("a request does not complete");
}

// Bytes of a zone, in up to four ranges that do not meet, in ascending order.
std::vector<ShadowRange> Shadow::pieces(std::size_t zone_at, std::size_t most) {
  std::vector<std::size_t> cuts(2 * (1 + below(most)));
  for (std::size_t& cut : cuts) cut = zone_at + below(layout::zone + 1);
  std::sort(cuts.begin(), cuts.end());
  std::vector<ShadowRange> ranges;
  for (std::size_t i = 0; i < cuts.size(); i += 2)
    if (cuts[i] != cuts[i + 1])
      ranges.push_back({cuts[i], static_cast<uint32_t>(cuts[i + 1] - cuts[i])});
  if (ranges.empty()) ranges.push_back({zone_at, 1});
  return ranges;
}

Shadow::Sges Shadow::sges(const ShadowEnd& e, const std::vector<ShadowRange>& ranges) const {
  Sges list;
  for (const ShadowRange& r : ranges) list.push_back(e.sge(r));
  return list;
}

std::vector<uint8_t> Shadow::take(const ShadowEnd& e,
                                  const std::vector<ShadowRange>& ranges) const {
  std::vector<uint8_t> bytes;
  for (const ShadowRange& r : ranges) {
    const auto at = e.shadow.begin() + static_cast<long>(r.at);
    bytes.insert(bytes.end(), at, at + r.bytes);
  }
  return bytes;
}

void Shadow::put(ShadowEnd& e, const std::vector<ShadowRange>& ranges,
                 std::span<const uint8_t> bytes) {
  for (const ShadowRange& r : ranges) {
    std::copy_n(bytes.begin(), r.bytes, e.shadow.begin() + static_cast<long>(r.at));
    bytes = bytes.subspan(r.bytes);
  }
}

void Shadow::write(Zones z, const std::vector<ShadowRange>& from, Sges list, bool immediate) {
  const uint32_t bytes = total(from);
  const ShadowRange to{z.far_at + below(layout::zone - bytes + 1), bytes};
  put(*z.far, {to}, take(*z.near, from));
  ibv_send_wr wr{};
  wr.opcode = immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  wr.wr.rdma = {z.far->address(to.at), z.far->region(to.at)->rkey};
  if (immediate) z.far->receive({});
  z.near->post(wr, list);
  counts.bytes += bytes;
}

void Shadow::read(Zones z, const std::vector<ShadowRange>& into, Sges list) {
  const uint32_t bytes = total(into);
  const ShadowRange from{z.far_at + below(layout::zone - bytes + 1), bytes};
  put(*z.near, into, take(*z.far, {from}));
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_READ;
  wr.wr.rdma = {z.far->address(from.at), z.far->region(from.at)->rkey};
  z.near->post(wr, list);
  counts.bytes += bytes;
}

// Into segments of the other end that may have more room than the message needs.
void Shadow::send(Zones z) {
  const std::vector<ShadowRange> room = pieces(z.far_at, 4);
  std::vector<ShadowRange> from = pieces(z.near_at, 4);
  while (total(from) > total(room)) {
    from.back().bytes -= std::min(from.back().bytes, total(from) - total(room));
    if (from.back().bytes == 0) from.pop_back();
  }
  std::vector<uint8_t> bytes = take(*z.near, from);
  counts.bytes += bytes.size();
  const std::vector<uint8_t> before = take(*z.far, room);
  bytes.insert(bytes.end(), before.begin() + static_cast<long>(bytes.size()), before.end());
  put(*z.far, room, bytes);
  Sges into = sges(*z.far, room), list = sges(*z.near, from);
  z.far->receive(into);
  ibv_send_wr wr{};
  wr.opcode = below(2) == 0 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
  z.near->post(wr, list);
  counts.messages++;
}

void Shadow::atomic(Zones z) {
  constexpr uint32_t bytes = 8;
  const auto place = [this](std::size_t zone) {
    return ShadowRange{zone + below(layout::zone / bytes) * bytes, bytes};
  };
  const ShadowRange old{place(z.near_at)}, at{place(z.far_at)};
  uint64_t value;
  std::memcpy(&value, z.far->shadow.data() + at.at, bytes);
  std::memcpy(z.near->shadow.data() + old.at, &value, bytes);
  const bool add = below(2) == 0;
  const uint64_t operand = add || below(4) == 0 ? random_() : value, swap = random_();
  const uint64_t result = add ? value + operand : operand == value ? swap : value;
  std::memcpy(z.far->shadow.data() + at.at, &result, bytes);
  ibv_send_wr wr{};
  wr.opcode = add ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic = {z.far->address(at.at), operand, swap, z.far->region(at.at)->rkey};
  Sges list{z.near->sge(old)};
  z.near->post(wr, list);
  counts.atomics++;
}

// Bytes that a key shows from its first one on.
void Shadow::through_key(Zones z, const std::vector<ShadowRange>& shown, uint32_t key) {
  Sges list{{0, total(shown), key}};
  if (below(2) == 0)
    write(z, shown, list, false);
  else
    read(z, shown, list);
}

void Shadow::post_list(ShadowEnd& e, const std::vector<ShadowRange>& shown) {
  Sges list = sges(e, shown);
  ibv_wr_start(e.ex);
  e.ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  mlx5dv_wr_mr_list(e.dv, e.keys[0],
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
                    static_cast<uint16_t>(list.size()), list.data());
  EQUAL(ibv_wr_complete(e.ex), 0);
  e.expected++;
  counts.umrs++;
}

void Shadow::bind_list(Zones z) {
  const std::vector<ShadowRange> shown = pieces(z.near_at, 8);
  post_list(*z.near, shown);
  through_key(z, shown, z.near->keys[0]->lkey);
}

// Two streams, each in a half of the zone.
void Shadow::bind_interleaved(Zones z) {
  const auto rounds = static_cast<uint32_t>(1 + below(40));
  const uint32_t lkey = z.near->region(z.near_at)->lkey;
  mlx5dv_mr_interleaved streams[2];
  std::vector<ShadowRange> starts;
  for (std::size_t i = 0; i < 2; i++) {
    const std::size_t most = layout::zone / 2 / rounds, bytes = 1 + below(most - 1);
    const std::size_t skip = below(most - bytes + 1);
    const std::size_t at =
        z.near_at + i * layout::zone / 2 + below(layout::zone / 2 - rounds * (bytes + skip) + 1);
    streams[i] = {z.near->address(at), static_cast<uint32_t>(bytes), static_cast<uint32_t>(skip),
                  lkey};
    starts.push_back({at, static_cast<uint32_t>(bytes)});
  }
  std::vector<ShadowRange> shown;
  for (std::size_t n = 0; n < rounds; n++)
    for (std::size_t i = 0; i < 2; i++)
      shown.push_back(
          {starts[i].at + n * (streams[i].bytes_count + streams[i].bytes_skip), starts[i].bytes});
  ibv_wr_start(z.near->ex);
  z.near->ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  mlx5dv_wr_mr_interleaved(z.near->dv, z.near->keys[1], IBV_ACCESS_LOCAL_WRITE, rounds, 2, streams);
  EQUAL(ibv_wr_complete(z.near->ex), 0);
  z.near->expected++;
  counts.interleaved++;
  through_key(z, shown, z.near->keys[1]->lkey);
}

// Each key shows one thing at a time.
void Shadow::one_request(Zones z, std::array<bool, 4>& keys_used) {
  const std::size_t side = z.near == ends_[0].get() ? 0 : 2;
  const auto claim = [&keys_used](std::size_t key) { return !std::exchange(keys_used[key], true); };
  counts.requests++;
  const uint64_t kind = below(9);
  if (kind < 2 && claim(side)) return bind_list(z);
  // The kernel's fault handler does not know interleaved keys (tpt/fault_walk.hh).
  if (kind == 2 && z.near_at < layout::half && claim(side + 1)) return bind_interleaved(z);
  if (kind == 3) return atomic(z);
  if (kind == 4) return send(z);
  const std::vector<ShadowRange> mine = pieces(z.near_at, 4);
  if (kind % 2 == 0) return read(z, mine, sges(*z.near, mine));
  write(z, mine, sges(*z.near, mine), below(4) == 0);
}

// A few pages of a zone that is paged on demand go, and are zero when they come back.
void Shadow::page_out(ShadowEnd& e, std::size_t zone_at) {
  if (zone_at < layout::half) return;
  const std::size_t first = below(layout::zone / page), n = 1 + below(layout::zone / page - first);
  const std::size_t at = zone_at + first * page, bytes = n * page;
  void* const where = e.memory + at;
  if (below(2) == 0) {
    EQUAL(::madvise(where, bytes, MADV_DONTNEED), 0);
  } else {
    EQUAL(::munmap(where, bytes), 0);
    void* const again = ::mmap(where, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CU_ASSERT_FATAL(again == where);
  }
  std::fill_n(e.shadow.begin() + static_cast<long>(at), bytes, uint8_t{0});
  counts.paged++;
}

bool Shadow::settle() {
  for (const auto& e : ends_)
    for (; e->expected != 0; e->expected--) {
      ibv_wc wc{};
      if (!wait(*e, wc)) return false;
      if (wc.status != IBV_WC_SUCCESS) return complain(ibv_wc_status_str(wc.status), wc.opcode);
    }
  return true;
}

bool Shadow::same() {
  for (const auto& e : ends_)
    if (const std::size_t at = e->first_difference(); at != layout::all)
      return complain("a byte is not the shadow's", at);
  return true;
}

bool Shadow::batch() {
  std::array<std::size_t, layout::zones> near{}, far{};
  std::iota(near.begin(), near.end(), 0);
  std::iota(far.begin(), far.end(), 0);
  // The same permutation of each build: std::shuffle() is free to differ.
  for (std::size_t i = layout::zones - 1; i > 0; i--) {
    std::swap(near[i], near[below(i + 1)]);
    std::swap(far[i], far[below(i + 1)]);
  }
  // A zone of an end is in one request, whichever side that end is on.
  const std::size_t n = 1 + below(6);
  std::array<bool, 4> keys_used{};
  for (std::size_t i = 0; i < n; i++) {
    const std::size_t side = below(2);
    const auto of = [&](std::size_t end) { return (end == 0 ? near : far)[i] * layout::zone; };
    one_request({ends_[side].get(), ends_[1 - side].get(), of(side), of(1 - side)}, keys_used);
  }
  if (below(8) == 0) page_out(*ends_[0], near[n] * layout::zone);
  if (below(8) == 0) page_out(*ends_[1], far[n] * layout::zone);
  for (std::size_t i = 0; i < 2; i++)
    if (below(4) == 0) send_loose(*ends_[i], *ends_[1 - i]);
  if (!settle()) return false;
  for (const auto& e : ends_)
    if (!take_loose(*e)) return false;
  if (!same()) return false;
  const std::size_t side = below(2);
  const auto pinned_zone = [this] { return below(layout::zones / 2) * layout::zone; };
  const Zones z{ends_[side].get(), ends_[1 - side].get(), pinned_zone(), pinned_zone()};
  const uint64_t alone = below(40);
  if (alone == 0 && !(bind_window(z) && same())) return false;
  if (alone == 1 && !(reregister(z) && same())) return false;
  if (alone == 2 && !(through_remote_key(z) && same())) return false;
  counts.batches++;
  return true;
}

}  // namespace kilim::test
