// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/pool/mbuf.hh"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>
#include <vector>

#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/pool/chain.hh"
#include "kilim/detail/pool/mbuf_row.hh"

namespace kilim::inline v1::pool {

namespace {

// rte_pktmbuf_pool_create() leaves its own words behind the mempool (rte_pktmbuf_pool_init).
bool has_mbufs(const rte_mempool& m) noexcept {
  return m.private_data_size >= sizeof(rte_pktmbuf_pool_private) &&
         m.elt_size >= sizeof(rte_mbuf) &&
         m.elt_size == sizeof(rte_mbuf) + rte_pktmbuf_priv_size(const_cast<rte_mempool*>(&m)) +
                           rte_pktmbuf_data_room_size(const_cast<rte_mempool*>(&m));
}

constexpr Error no_mbufs{EINVAL, "the mempool is none of rte_pktmbuf_pool_create()"};

void set_data(rte_mbuf& m, Handle h) noexcept {
  m.data_off = static_cast<uint16_t>(h.offset());
  m.data_len = h.length;
}

// What the first segment says of the packet.
void set_packet(rte_mbuf& first, std::span<const Handle> packet, const Arena& arena) noexcept {
  first.nb_segs = static_cast<uint16_t>(packet.size());
  first.pkt_len = packet_length(packet);
  if (!packet[0].has(Handle::side)) return;
  const SideRecord& side = arena.side(packet[0]);
  first.ol_flags |= side.flags & SideRecord::flag_bits;
  first.packet_type = side.packet_type;
  first.hash.rss = side.rx_hash;
  if ((side.flags & RTE_MBUF_F_RX_FDIR_ID) != 0) first.hash.fdir.hi = side.mark();
  first.vlan_tci = side.vlan;
}

// Converts whole packets from the front by `one`, which gets a packet and says whether it took it.
template <typename One>
Converted by_packet(std::span<const Handle> in, std::size_t most, One one) noexcept {
  Converted done;
  while (done.mbufs < most) {
    const std::span<const Handle> packet = first_packet(in.subspan(done.handles));
    if (packet.empty() || packet.size() > max_segments || !one(packet)) break;
    done.handles += static_cast<uint32_t>(packet.size());
    done.mbufs++;
  }
  return done;
}

}  // namespace

struct ExternalMbufs::Record {
  rte_mbuf_ext_shared_info info;
  rte_iova_t iova;
  ExternalMbufs* owner;
};

ExternalMbufs::ExternalMbufs(Pool& pool, rte_mempool& mbufs) noexcept
    : pool_(pool), mbufs_(mbufs) {}
ExternalMbufs::~ExternalMbufs() = default;

Result<std::unique_ptr<ExternalMbufs>> ExternalMbufs::create(Pool& pool, rte_mempool& mbufs) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (!has_mbufs(mbufs)) return no_mbufs;
  if (pool.arena().stride() != pool.arena().room())
    return Error{EINVAL, "the pool's buffers are mbufs already: use MbufPool::to_mbufs()"};
  std::unique_ptr<ExternalMbufs> e(new (std::nothrow) ExternalMbufs(pool, mbufs));
  if (e == nullptr) return Error{ENOMEM, "no memory for external mbufs"};
  if (Status s = e->set_up(); !s) return s.error();
  return e;
}

Status ExternalMbufs::set_up() {
  const Arena& arena = pool_.arena();
  records_.reset(new (std::nothrow) Record[arena.count()]);
  caches_.reset(new (std::nothrow) BufferCache* [RTE_MAX_LCORE] {});
  if (records_ == nullptr || caches_ == nullptr)
    return Error{ENOMEM, "no memory for the records of external mbufs"};
  for (uint32_t i = 0; i < arena.count(); i++) {
    Record& r = records_[i];
    r = {{}, rte_mem_virt2iova(arena.buffer(i)), this};
    r.info.free_cb = give_back;
    r.info.fcb_opaque = &r;
    rte_mbuf_ext_refcnt_set(&r.info, 0);
  }
  return Done{};
}

void ExternalMbufs::serve(BufferCache& cache) noexcept {
  KILIM_ASSERT(rte_lcore_id() < RTE_MAX_LCORE && &cache.pool() == &pool_);
  caches_[rte_lcore_id()] = &cache;
}
void ExternalMbufs::leave() noexcept {
  KILIM_ASSERT(rte_lcore_id() < RTE_MAX_LCORE);
  caches_[rte_lcore_id()] = nullptr;
}

// Called by whoever frees the last mbuf that shows the buffer.
void ExternalMbufs::give_back(void*, void* record) noexcept {
  const auto* const r = static_cast<const Record*>(record);
  ExternalMbufs& self = *r->owner;
  const auto index = static_cast<uint32_t>(r - self.records_.get());
  const uint32_t lcore = rte_lcore_id();
  BufferCache* const own = lcore < RTE_MAX_LCORE ? self.caches_[lcore] : nullptr;
  if (own != nullptr) return own->free_indices({&index, 1});
  BufferCache once(self.pool_);
  once.free_indices({&index, 1});
}

bool ExternalMbufs::may_show(std::span<const Handle> packet) const noexcept {
  const Arena& arena = pool_.arena();
  return !arena.has_holders() || std::all_of(packet.begin(), packet.end(), [&arena](Handle h) {
    return arena.holders(h.index) == 1;
  });
}

// The mbufs of `segments` are fresh.
rte_mbuf* ExternalMbufs::show(std::span<const Handle> packet,
                              std::span<rte_mbuf*> segments) noexcept {
  const Arena& arena = pool_.arena();
  for (std::size_t i = 0; i < packet.size(); i++) {
    const Handle h = packet[i];
    Record& r = records_[h.index];
    rte_mbuf& m = *segments[i];
    KILIM_ASSERT(rte_mbuf_ext_refcnt_read(&r.info) == 0);
    rte_mbuf_ext_refcnt_set(&r.info, 1);
    rte_pktmbuf_attach_extbuf(&m, arena.buffer(h.index), r.iova,
                              static_cast<uint16_t>(arena.room()), &r.info);
    set_data(m, h);
    m.next = i + 1 < packet.size() ? segments[i + 1] : nullptr;
  }
  set_packet(*segments[0], packet, arena);
  return segments[0];
}

Converted ExternalMbufs::to_mbufs(std::span<const Handle> in, std::span<rte_mbuf*> out) noexcept {
  rte_mbuf** to = out.data();
  return by_packet(in, out.size(), [&](std::span<const Handle> packet) noexcept {
    rte_mbuf* segments[max_segments];
    const auto n = static_cast<unsigned>(packet.size());
    if (!may_show(packet) || rte_pktmbuf_alloc_bulk(&mbufs_, segments, n) != 0) return false;
    *to++ = show(packet, {segments, n});
    return true;
  });
}

uint32_t ExternalMbufs::held() const noexcept {
  const std::span<const Record> all(records_.get(), pool_.arena().count());
  return static_cast<uint32_t>(std::count_if(all.begin(), all.end(), [](const Record& r) {
    return rte_mbuf_ext_refcnt_read(&r.info) != 0;
  }));
}

namespace {

// The range in which the data rooms of a mempool's mbufs lie.
struct Rooms {
  uintptr_t first = UINTPTR_MAX, last = 0;
  bool in_lines = true;  // each a number of lines from the others
};

void add_room(rte_mempool*, void* rooms, void* object, unsigned) {
  auto& r = *static_cast<Rooms*>(rooms);
  const auto at = reinterpret_cast<uintptr_t>(static_cast<rte_mbuf*>(object)->buf_addr);
  if (r.last != 0 && (at - r.last) % cacheline_bytes != 0) r.in_lines = false;
  r.first = std::min(r.first, at);
  r.last = std::max(r.last, at);
}

// True: the mempool's memory is one range of addresses.
bool in_one_place(rte_mempool& mempool) {
  std::vector<std::pair<uintptr_t, std::size_t>> chunks;
  for (const rte_mempool_memhdr* m = STAILQ_FIRST(&mempool.mem_list); m != nullptr;
       m = STAILQ_NEXT(m, next))
    chunks.emplace_back(reinterpret_cast<uintptr_t>(m->addr), m->len);
  std::sort(chunks.begin(), chunks.end());
  for (std::size_t i = 1; i < chunks.size(); i++)
    if (chunks[i - 1].first + chunks[i - 1].second != chunks[i].first) return false;
  return !chunks.empty();
}

}  // namespace

MbufPool::MbufPool(Pool pool, rte_mempool& mempool, uint64_t fulfilled) noexcept
    : pool_(std::move(pool)), mempool_(&mempool), fulfilled_(fulfilled) {}

Result<MbufPool> MbufPool::over(rte_mempool& mempool, uint64_t fulfilled) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (!has_mbufs(mempool)) return no_mbufs;
  const uint16_t room = rte_pktmbuf_data_room_size(&mempool);
  if (room == 0 || (rte_pktmbuf_priv_flags(&mempool) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF) != 0)
    return Error{EINVAL, "the mempool's mbufs have no data room of their own"};
  if (!in_one_place(mempool))
    return Error{EINVAL,
                 "the mempool's memory is in several places: take larger pages, or give it "
                 "one piece with rte_mempool_populate_virt()"};
  Rooms rooms;
  rte_mempool_obj_iter(&mempool, add_room, &rooms);
  if (rooms.last == 0 || !rooms.in_lines)
    return Error{EINVAL, "the mempool's mbufs are not a number of 64-byte lines apart"};
  // An index for each line: objects need not be equally far apart, they keep clear of page ends.
  auto* const first = reinterpret_cast<std::byte*>(rooms.first);
  auto arena = Arena::over_others({first, rooms.last - rooms.first + room}, cacheline_bytes, room);
  if (!arena) return arena.error();
  auto pool = Pool::of_mbufs(*arena, mempool);
  if (!pool) return pool.error();
  return MbufPool(*std::move(pool), mempool, fulfilled);
}

bool MbufPool::may_send(const rte_mbuf& packet, std::size_t room) const noexcept {
  if (packet.nb_segs > room || packet.nb_segs > max_segments) return false;
  if ((packet.ol_flags & RTE_MBUF_F_TX_OFFLOAD_MASK & ~fulfilled_) != 0) return false;
  for (const rte_mbuf* m = &packet; m != nullptr; m = m->next)
    if (m->pool != mempool_ || !RTE_MBUF_DIRECT(m) || m->data_len == 0 || m->data_off > max_offset)
      return false;
  return true;
}

Converted MbufPool::to_handles(std::span<rte_mbuf* const> in,
                               std::span<Handle> out) const noexcept {
  Converted done;
  for (; done.mbufs < in.size(); done.mbufs++) {
    const rte_mbuf& packet = *in[done.mbufs];
    if (!may_send(packet, out.size() - done.handles)) break;
    for (const rte_mbuf* m = &packet; m != nullptr; m = m->next) {
      const uint16_t more = m->next != nullptr ? Handle::more : uint16_t{0};
      out[done.handles++] = {mbuf_row::index(*mempool_, arena(), *m), m->data_len,
                             static_cast<uint16_t>(meta_at(m->data_off) | more)};
    }
  }
  return done;
}

Converted MbufPool::to_mbufs(std::span<const Handle> in, std::span<rte_mbuf*> out) const noexcept {
  rte_mbuf** to = out.data();
  return by_packet(in, out.size(), [&](std::span<const Handle> packet) noexcept {
    rte_mbuf** link = to;
    for (const Handle h : packet) {
      rte_mbuf* const m = mbuf_row::mbuf(*mempool_, arena(), h.index);
      rte_pktmbuf_reset(m);
      set_data(*m, h);
      *link = m;
      link = &m->next;
    }
    set_packet(**to++, packet, arena());
    return true;
  });
}

}  // namespace kilim::inline v1::pool
