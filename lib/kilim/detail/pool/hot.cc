// SPDX-License-Identifier: BSD-3-Clause
// Instantiates the whole inline API of this room, so that the style suite can see from the object's
// undefined symbols that none of it allocates, locks, logs or calls the system.
#include "kilim/detail/pool/chain.hh"
#include "kilim/detail/pool/each_data.hh"
#include "kilim/detail/pool/edit.hh"
#include "kilim/detail/pool/pool.hh"

namespace kilim::inline v1::pool::hot {

uint32_t pool_exchange(Pool& p, std::span<uint32_t> indices) noexcept {
  uint32_t n = p.pop(indices);
  p.push(indices.first(n));
  if (p.generation(0) + p.faults() + p.report_held() != 0 || !p.has(n)) return 0;
  return p.is_gone("a pool") ? 0 : n + p.available() + p.size() + p.arena().count();
}

uint32_t cache_alloc(BufferCache& s, std::span<Handle> out) noexcept {
  return s.alloc(out, 60);
}
uint32_t cache_alloc_indices(BufferCache& s, std::span<uint32_t> out) noexcept {
  return s.alloc_indices(out);
}
const uint32_t* cache_alloc_in_place(BufferCache& s, uint32_t count) noexcept {
  return s.alloc_in_place(count);
}
void cache_free(BufferCache& s, std::span<const Handle> in) noexcept {
  s.free(in);
}
void cache_free_indices(BufferCache& s, std::span<const uint32_t> in) noexcept {
  s.free_indices(in);
}
void cache_free_holds(BufferCache& s, Handle h) noexcept {
  s.free_holds(h.index, h.length);
}
void cache_free_one(BufferCache& s, Handle h) noexcept {
  s.free_one(h);
}
uint32_t cache_flush(BufferCache& s) noexcept {
  s.flush();
  s.release_owner();
  return s.held() + s.arena().stride();
}
void cache_life(Pool& p) noexcept {
  BufferCache s(p);
  s.set_tag("hot");
  s.free_one(make_handle(0, 60, 1));
}

uint64_t arena_reads(const Arena& a, Handle h) noexcept {
  SideRecord& r = a.side(h);
  r.vlan = a.has_side() && a.sides() != nullptr && a.first_address().value() != 0 ? 1 : 0;
  return a.known_at(Va{0}).address(h).value() + a.address(h).value() + a.bytes(h).size() +
         a.memory().size() + (h.has(Handle::more) ? 1 : 0) + r.mark() +
         side_records_of(h.length, h.index);
}

uint32_t arena_shares(const Arena& a, uint32_t index) noexcept {
  a.share(index, 2);
  return a.has_holders() && !a.drop(index) ? a.holders(index) : 0;
}

uint64_t first_bytes(const Arena& a, std::span<const Handle> in) noexcept {
  uint64_t sum = 0;
  each_data(a, in, [&sum](std::byte* data) noexcept { sum += static_cast<uint64_t>(*data); });
  return sum;
}

uint64_t edited(const Arena& a, Handle& h) noexcept {
  const bool cut = trim(h, 4);
  return (prepend(a, h, 4) != nullptr) + (append(a, h, 4) != nullptr) +
         (adjust(a, h, 4) != nullptr) + cut + headroom(h) + tailroom(a, h) + a.room();
}

uint64_t chained(std::span<Handle> in, BufferCache& s, std::span<std::byte> bytes) noexcept {
  const Arena& a = s.arena();
  chain(in);
  const std::span<Handle> packet = first_packet(in);
  const bool cut = adjust_packet(a, packet, 4) && trim_packet(packet, 4);
  const bool found = read_bytes(a, packet, 2, bytes) != nullptr;
  const uint32_t copied = copy_bytes(a, packet, 2, bytes) + copy_packet(packet, s, in, 64);
  return packet_length(packet) + drop_empty(packet, s) + cut + found + copied +
         linearize(packet, s);
}

uint64_t arena_memory(const ArenaMemory& m, uint32_t bytes) noexcept {
  return m.page_bytes() + m.arena().count() + stride_for(bytes);
}

}  // namespace kilim::inline v1::pool::hot
