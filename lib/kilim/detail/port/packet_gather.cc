// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/port/packet_gather.hh"

#include <bit>
#include <cerrno>
#include <cstring>

#include "kilim/detail/base/error_text.hh"
#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/port/queues.hh"

namespace kilim::inline v1::port {
namespace {

uint32_t u16_at(std::span<const std::byte> f, std::size_t at) noexcept {
  return static_cast<uint32_t>(f[at]) << 8 | static_cast<uint32_t>(f[at + 1]);
}

// The offset behind the TCP or UDP header at `at`; 0: neither, or cut off.
uint32_t l4_end(std::span<const std::byte> f, std::size_t at, uint32_t protocol) noexcept {
  constexpr uint32_t tcp = 6;
  constexpr uint32_t udp = 17;
  if (protocol == udp && at + 8 <= f.size()) return static_cast<uint32_t>(at + 8);
  if (protocol != tcp || at + 20 > f.size()) return 0;
  return static_cast<uint32_t>(at) + (static_cast<uint32_t>(f[at + 12]) >> 4) * 4;
}

uint32_t parsed_length(std::span<const std::byte> f) noexcept {
  std::size_t at = 12;
  for (int tags = 0; tags < 2 && at + 2 <= f.size(); tags++) {
    const uint32_t type = u16_at(f, at);
    if (type != 0x8100 && type != 0x88a8) break;
    at += 4;
  }
  if (at + 2 > f.size()) return 0;
  const uint32_t type = u16_at(f, at);
  at += 2;
  if (type == 0x0800 && at + 20 <= f.size())
    return l4_end(f, at + (static_cast<uint32_t>(f[at]) & 0xf) * 4,
                  static_cast<uint32_t>(f[at + 9]));
  if (type == 0x86dd && at + 40 <= f.size())
    return l4_end(f, at + 40, static_cast<uint32_t>(f[at + 6]));
  return 0;
}

}  // namespace

uint32_t header_length(std::span<const std::byte> frame) noexcept {
  constexpr uint32_t otherwise = 64;
  const uint32_t parsed = parsed_length(frame);
  const uint32_t wanted = parsed != 0 ? parsed : otherwise;
  return wanted < frame.size() ? wanted : static_cast<uint32_t>(frame.size());
}

PacketGather::PacketGather(const pool::Arena& arena, const PacketGatherConfig& config)
    : arena_(arena), config_(config) {}

PacketGather::~PacketGather() {
  if (queue_ != nullptr) queue_->release_owner();
}

Result<std::unique_ptr<PacketGather>> PacketGather::create(device::Device& device,
                                                           const pool::Arena& arena,
                                                           const PacketGatherConfig& config) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (config.keys == 0 || (config.keys & (config.keys - 1)) != 0 || config.keys > 8192)
    return error_with(EINVAL, "a packet gather has %u keys, it must be a power of two up to 8192",
                      config.keys);
  if (config.headers == nullptr)
    return Error{EINVAL, "a packet gather needs a cache of header buffers"};
  if (config.pieces < 2 || config.pieces > burst::max_rx_segments)
    return error_with(EINVAL, "a packet gather puts %u buffers under a key, it must be 2 to %u",
                      config.pieces, burst::max_rx_segments);
  if (!device.caps().umr)
    return Error{EOPNOTSUPP, "the device binds no keys (no UMR): use another forwarding mode"};
  std::unique_ptr<PacketGather> w(new PacketGather(arena, config));
  if (Status s = w->set_up(device); !s) return s.error();
  return w;
}

// No epochs: nobody but the worker knows the keys, and it binds one again only when all work with
// it is complete. Four blocks for each key: room for one UMR (three or four blocks) or one
// invalidation (two).
Status PacketGather::set_up(device::Device& device) {
  const uint32_t blocks = config_.keys * 4;
  auto made = MkeyQueue::create(device, {.keys = config_.keys,
                                         .key = {.max_entries = config_.entries_a_key()},
                                         .send_wqebbs = blocks < 32768 ? blocks : 32768,
                                         .traffic = config_.traffic});
  if (!made) return made.error();
  queue_ = *std::move(made);
  const Status taken = claim_mkeys();
  queue_->release_owner();  // the worker's from now on
  return taken;
}

Status PacketGather::claim_mkeys() {
  for (uint32_t slot = 0; slot < config_.keys; slot++) {
    bindings_.push_back(queue_->binder().claim());
    if (!bindings_.back()) return Error{ENOMEM, "the key pool gave fewer keys than it has"};
    free_slots_.push_back(slot);
  }
  lkeys_.resize(config_.keys);
  slots_ = {lkeys_.data(), free_slots_.data(), config_.keys, config_.headers};
  handles_.resize(std::bit_ceil(std::size_t{config_.keys} * config_.handles_a_key()));
  bursts_.resize(config_.keys);
  gathering_ = burst::SentRing(handles_, bursts_);
  return Done{};
}

uint32_t PacketGather::room(const burst::TxQueue& tx) const noexcept {
  if (failed()) return 0;
  const uint32_t binding = under_way_;
  const uint32_t sendable = burst::tx_room(tx);
  const uint32_t by_ring = tx.sent.room() / config_.handles_a_key();
  uint32_t n = sendable < by_ring ? sendable : by_ring;
  n = n > binding ? n - binding : 0;
  const uint32_t by_queue = queue_->sq().credits().value() / config_.blocks_a_key();
  n = n < by_queue ? n : by_queue;
  return n < slots_.free_count ? n : slots_.free_count;
}

// Binds the key of the next free slot and takes the slot.
bool PacketGather::bind(queue::WqeCursor& c, const umr::View& view) noexcept {
  const uint32_t slot = slots_.top();
  constexpr mkey::Bind how{.owner_only = true};
  if (!queue_->binder().bind(c, bindings_[slot], how, view).ok()) return false;
  slots_.pop_free();
  gathering_.push(
      {slot, static_cast<uint16_t>(view.length), pool::Handle::key | pool::Handle::more});
  return true;
}

bool PacketGather::gather_one(queue::WqeCursor& c, pool::Handle packet,
                              pool::Handle header) noexcept {
  umr::PieceList<2> pieces;
  pieces.add(config_.arena_key, arena_.address(header).value(), header.length);
  pieces.add(config_.arena_key, arena_.address(packet).value() + header.length,
             packet.length - header.length);
  if (!bind(c, pieces.view())) return false;
  gathering_.push(
      {header.index, header.length, static_cast<uint16_t>(header.meta | pool::Handle::more)});
  gathering_.push(packet);
  return true;
}

uint32_t PacketGather::gather(std::span<const pool::Handle> packets) noexcept {
  if (failed()) return 0;
  pool::BufferCache& headers = *config_.headers;
  queue::WqeCursor c{queue_->sq()};
  uint32_t n = 0;
  for (const pool::Handle packet : packets) {
    pool::Handle header;
    if (slots_.free_count == 0 || gathering_.room() < config_.handles_a_key()) break;
    if (headers.alloc({&header, 1}, 0) == 0) break;
    const uint32_t length = header_length(arena_.bytes(packet));
    header.length = static_cast<uint16_t>(length);
    std::memcpy(arena_.data(header), arena_.data(packet), length);
    if (!gather_one(c, packet, header)) {
      headers.free_one(header);
      break;
    }
    n++;
  }
  announce(c, n, n);
  return n;
}

// One doorbell for what was bound.
void PacketGather::announce(queue::WqeCursor& c, uint32_t packets, uint32_t keys) noexcept {
  if (packets == 0) return;
  if (keys != 0) queue_->binder().commit(c);
  gathering_.end_burst(packets, queue_->sq().posted());
  under_way_ += packets;
}

bool PacketGather::gather_chain(queue::WqeCursor& c, std::span<const pool::Handle> chain) noexcept {
  umr::PieceList<burst::max_rx_segments> pieces;
  for (const pool::Handle h : chain)
    pieces.add(config_.arena_key, arena_.address(h).value(), h.length);
  if (!bind(c, pieces.view())) return false;
  for (const pool::Handle h : chain) gathering_.push(h);
  return true;
}

uint32_t PacketGather::gather_chains(std::span<const pool::Handle> chains) noexcept {
  if (failed()) return 0;
  queue::WqeCursor c{queue_->sq()};
  uint32_t packets = 0, keys = 0, taken = 0;
  for (uint32_t length; taken < chains.size(); taken += length, packets++) {
    length = burst::chain_length(chains.subspan(taken));
    if (length == 0 || length > config_.pieces || gathering_.room() < config_.handles_a_key())
      break;
    if (length == 1) {
      gathering_.push(chains[taken]);
      continue;
    }
    if (slots_.free_count == 0 || !gather_chain(c, chains.subspan(taken, length))) break;
    keys++;
  }
  announce(c, packets, keys);
  return taken;
}

uint32_t PacketGather::collect(std::span<pool::Handle> out) noexcept {
  if (failed()) [[unlikely]]
    return 0;
  const queue::Cq::Drained d = queue_->cq().drain(64);
  if (d.cqes != 0) {
    queue_->sq().retire(d.wqe_counter);
    queue_->binder().complete_retired();
  }
  const uint32_t bursts = gathering_.ended_at(queue_->sq().retired());
  if (d.error) [[unlikely]]
    fail();
  if (bursts == 0) {
    if (idle() && queue_->binder().invalidations_due() != 0)
      (void)queue_->binder().flush();  // no other doorbell is near
    return 0;
  }
  const burst::SentRing::Done done = gathering_.pop_bursts(bursts);
  uint32_t n = 0, keys = 0;
  for (const std::span<const pool::Handle> part : {done.first, done.second}) {
    for (const pool::Handle h : part) {
      out[n++] = h;
      if (!h.has(pool::Handle::key)) continue;
      lkeys_[h.index] = bindings_[h.index].lkey();
      keys++;
    }
  }
  under_way_ -= done.packets;
  gathered_.add(keys);
  return n;
}

void PacketGather::see(const queue::Completion& c) noexcept {
  if (!c.ok() && c.syndrome != prm::Syndrome::wr_flush) errors_.add(1);
  if (config_.errors != nullptr) config_.errors->note_send(c, queue_->sq().geometry());
  (void)queue_->binder().handle_completion(c);
}

// Packets of bursts that were not collected are freed by revive(), or when the queue is stopped.
void PacketGather::fail() noexcept {
  queue::Completion c[4];
  uint32_t n;
  while ((n = queue_->cq().poll(c)) != 0)
    for (uint32_t i = 0; i < n; i++) see(c[i]);
  failed_.set(true);
}

Status PacketGather::revive(pool::BufferCache& cache, pool::BufferCache& headers) noexcept {
  struct Sink {
    PacketGather& w;
    void completed(const queue::Completion& c) noexcept { w.see(c); }
    void lost(uint64_t, bool) noexcept {}
  } sink{*this};
  const Status s = queue_->recover(sink);
  queue_->release_owner();
  abandon_all(cache, headers);
  queue_->release_owner();
  return s;
}

void PacketGather::resume() noexcept {
  release_owner();
  failed_.set(false);
}

void PacketGather::abandon(std::span<const pool::Handle> chains, pool::BufferCache& cache,
                           pool::BufferCache& headers) noexcept {
  for (const pool::Handle h : chains) {
    if (h.has(pool::Handle::key)) {
      queue_->binder().invalidate(bindings_[h.index]);  // nobody shall read the packet through it
      slots_.push_free(h.index);
    } else {
      free_by_pool({&h, 1}, cache, headers);
    }
  }
}

void PacketGather::abandon_all(pool::BufferCache& cache, pool::BufferCache& headers) noexcept {
  under_way_ = 0;
  const burst::SentRing::Done left = gathering_.pop_all();
  abandon(left.first, cache, headers);
  abandon(left.second, cache, headers);
}

void PacketGather::release_owner() noexcept {
  queue_->release_owner();
}

}  // namespace kilim::inline v1::port
