// SPDX-License-Identifier: BSD-3-Clause
// What a queue may be set up with: asked by Port::set_rx() and Port::set_tx(). Control lcore.
#include <algorithm>
#include <cerrno>

#include "kilim/detail/port/mtu_range.hh"
#include "kilim/detail/port/queues.hh"

namespace kilim::inline v1::port {
namespace {

constexpr uint32_t ether_header_bytes = 14;

Status check_strides(const RxSetup& setup, const QueueSizes& sizes, const pool::Arena& arena,
                     const device::SpreadCaps& caps) noexcept {
  const device::Strides& s = *setup.strides;
  if (caps.max_strides_log == 0)
    return Error{EOPNOTSUPP, "the device has no receives of several packets"};
  if (s.log_bytes < caps.min_stride_log_bytes || s.log_bytes > caps.max_stride_log_bytes ||
      s.log_count < caps.min_strides_log || s.log_count > caps.max_strides_log)
    return Error{EINVAL, "strides of this size or number are beyond the device's limits"};
  if (s.log_bytes + s.log_count > 31 || (1u << (s.log_bytes + s.log_count)) > arena.room())
    return Error{EINVAL, "the strides of a receive are more than a buffer of the arena holds"};
  if (!arena.has_holders())
    return Error{EINVAL, "packets share a buffer: the arena needs ArenaConfig::holders"};
  if (setup.config.side && (arena.side_piece() == 0 || arena.side_piece() > (1u << s.log_bytes)))
    return Error{EINVAL,
                 "packets that share a buffer have side records where the arena has one for each "
                 "stride (ArenaConfig::side_piece)"};
  if (setup.head_lines != 0)
    return Error{EINVAL, "no lines are left free before packets that share a buffer"};
  if (setup.compression != device::Compression::none)
    return Error{EINVAL, "a receive queue has strides or compressed completions, not both"};
  if (sizes.rxd >> s.log_count < 2)
    return Error{EINVAL, "rxd must be the strides of two buffers at least"};
  return Done{};
}

bool over(const pool::BufferCache& cache, const pool::Arena& arena) noexcept {
  return cache.arena().memory().data() == arena.memory().data();
}

Status check_split(const RxSetup& s, const pool::Arena& arena) noexcept {
  const RxSplit& split = s.split;
  if ((split.header_bytes != 0) != (split.headers != nullptr))
    return Error{EINVAL, "packets are split where header bytes and their buffers' cache are given"};
  if (split.header_bytes == 0) return Done{};
  if (!over(*split.headers, arena))
    return Error{EINVAL, "header buffers and the port's others lie in one arena"};
  const uint64_t room = arena.room() - uint64_t{s.head_lines} * cacheline_bytes;
  if (split.header_bytes < ether_header_bytes || split.header_bytes > room)
    return Error{EINVAL, "a packet is split behind 14 bytes or more that lie in one buffer"};
  return Done{};
}

// True: without its last buffer a receive already holds the port's longest frame.
bool beyond_mtu(const RxSetup& s, const pool::Arena& arena, uint32_t frame_mtu) noexcept {
  if (s.buffers == 1 || s.config.lro) return false;
  const uint32_t longest = (frame_mtu != 0 ? frame_mtu : longest_mtu) + frame_overhead;
  return first_room(s, arena) + uint64_t{s.segments() - 2} * arena.room() >= longest;
}

// Headers are mended in one piece: those of Ethernet with two tags, IPv6 and TCP with all options
// (DPDK doc/guides/nics/mlx5.rst, "122B").
constexpr uint32_t most_headers = 14 + 2 * 4 + 40 + 60;

Status check_lro(const RxSetup& s, const pool::Arena& arena, const device::LroCaps& caps) noexcept {
  if (!s.config.lro) return Done{};
  if (!caps.supported) return Error{EOPNOTSUPP, "the device joins no TCP segments (LRO)"};
  if (!s.config.side)
    return Error{EINVAL, "joined TCP segments (LRO) are told by side records: config.side"};
  if (s.compression != device::Compression::none)
    return Error{EINVAL, "compressed completions do not tell of joined TCP segments (LRO)"};
  if (first_room(s, arena) < most_headers)
    return Error{EINVAL, "joined TCP segments (LRO) need 122 bytes in a packet's first buffer"};
  if (caps.units(lro_of(s, arena).max_bytes) == 0)
    return Error{EINVAL, "joined TCP segments (LRO) need receives of more bytes"};
  return Done{};
}

// What a queue wants besides plain receives of one packet in one buffer.
Status check_form(const RxSetup& s, const QueueSizes& sizes, const pool::Arena& arena,
                  const device::Caps& caps) noexcept {
  if (s.real_time && !caps.real_time)
    return Error{EOPNOTSUPP, "the device does not stamp frames with the time of day"};
  if (s.config.tunnel && !caps.tx.tunnels)
    return Error{EOPNOTSUPP, "the device does not look into tunnels"};
  if (Status lro = check_lro(s, arena, caps.lro); !lro) return lro;
  if (needs_rwq(s) && !caps.spread.usable())
    return Error{EOPNOTSUPP, "the device has no receive work queues, which this needs"};
  const bool compressed = s.compression != device::Compression::none;
  const bool hash = s.compression == device::Compression::hash;
  if (compressed && !(hash ? caps.compressed_hash : caps.compressed_checksum))
    return Error{EOPNOTSUPP, "the device does not compress completions so"};
  if (s.segments() > 1 && (compressed || s.strides))
    return Error{EINVAL,
                 "packets of several buffers go with neither strides nor compressed completions"};
  return s.strides ? check_strides(s, sizes, arena, caps.spread) : Status{Done{}};
}

constexpr uint8_t inner_checksums = queue::EthOffload::inner_l3 | queue::EthOffload::inner_l4;

// What single packets, or all of them, ask of the device.
Status check_words(const TxSetup& s, const device::TxCaps& caps, bool side_records) noexcept {
  const TxOffloads& w = s.words;
  const auto checksums = static_cast<uint8_t>(s.offload | w.checksums);
  if (s.config.offloads != w.any())
    return Error{EINVAL, "config.offloads is set exactly where words may ask for something"};
  if (s.config.multi_packet)
    return Error{EINVAL, "the port itself says where WQEs have several packets"};
  if (w.any() && !side_records)
    return Error{EINVAL, "words of packets lie in side records, which the arena has not"};
  if (s.config.gathered && w.any())
    return Error{EINVAL, "gathered packets have no words: set the queue's offload"};
  if (s.config.gathered && caps.min_inline != 0)
    return Error{EOPNOTSUPP, "the device wants headers in its WQEs, and a key has none to inline"};
  if ((checksums != 0 || w.tso) && !caps.checksums)
    return Error{EOPNOTSUPP, "the device writes no checksums"};
  if ((checksums & inner_checksums) != 0 && !caps.tunnels)
    return Error{EOPNOTSUPP, "the device writes no checksums inside tunnels"};
  if (w.tso && caps.max_tso == 0) return Error{EOPNOTSUPP, "the device segments no packets (TSO)"};
  return Done{};
}

}  // namespace

bool needs_rwq(const RxSetup& setup) noexcept {
  return setup.strip_vlan || setup.config.tunnel || setup.config.lro || setup.strides ||
         setup.real_time || setup.compression != device::Compression::none;
}

Status check_rx(const RxSetup& s, const QueueSizes& sizes, const pool::Arena& arena,
                const device::Caps& caps, const device::PortInfo& port) noexcept {
  if (s.cache == nullptr) return Error{EINVAL, "a receive queue needs its worker's cache"};
  if (s.config.side && !arena.has_side())
    return Error{EINVAL, "side records were not asked of the arena"};
  const uint64_t head = uint64_t{s.head_lines} * cacheline_bytes;
  if (head >= arena.room() || head > pool::max_offset)
    return Error{EINVAL, "the lines left free before the data leave no room for it"};
  if (s.strip_vlan && !caps.spread.strip_vlan)
    return Error{EOPNOTSUPP, "the device does not strip VLAN tags"};
  if (Status form = check_form(s, sizes, arena, caps); !form) return form;
  if (Status split = check_split(s, arena); !split) return split;
  if (s.buffers == 0 || s.segments() > burst::max_rx_segments)
    return Error{EINVAL, "a packet takes 1 to 8 buffers, its header's included"};
  if (s.segments() > 1 && !over(*s.cache, arena))
    return Error{EINVAL, "the buffers of a packet lie in the port's arena"};
  if (s.segments() > 1 && s.segments() > caps.max_sge)
    return Error{EOPNOTSUPP, "the device takes fewer pieces a receive (max_sge)"};
  if (beyond_mtu(s, arena, port.frame_mtu))
    return Error{EINVAL, "the port's longest frame (its MTU) takes fewer buffers"};
  return Done{};
}

Status check_tx_buffers(const TxSetup& s) noexcept {
  if (s.cache == nullptr) return Error{EINVAL, "a transmit queue needs its worker's cache"};
  if (s.config.gathered != (s.keys != 0))
    return Error{EINVAL, "a gathered transmit queue needs keys, and another has none"};
  if (s.config.two_pools && (!s.config.multi_seg || s.headers == nullptr))
    return Error{EINVAL,
                 "buffers of two pools are sent as packets of several pieces (multi_seg), and "
                 "go back to two caches"};
  return Done{};
}

Status check_tx(const TxSetup& s, const device::TxCaps& caps, bool side_records) noexcept {
  if (s.pacing_kbps != 0 && !caps.pacing)
    return Error{EOPNOTSUPP, "the device does not pace packets: pacing_kbps must be 0"};
  if (s.pacing_kbps != 0)
    return Error{EOPNOTSUPP,
                 "rates of transmit queues are not set by kilim: pacing_kbps must be 0"};
  return check_words(s, caps, side_records);
}

}  // namespace kilim::inline v1::port
