// SPDX-License-Identifier: BSD-3-Clause
// Part of eth_ut. Odd frames are spread over queues by hashes: rules laid by verbs specs and by
// match buffers lead to the same queue, the same hash and the same completion, whether the frame
// goes the straight way or the general one; and a tagged packet is spread as the packet is.
#include "eth_fixture.hh"
#include "odd_frames_fixture.hh"
#include "toeplitz_fixture.hh"
#include "vhca/hca/ports.hh"

using namespace kilim;
using namespace kilim::test;

namespace eth_odd_frames_ut {
namespace {

using kilim::test::Bytes;  // not kilim::Bytes, a number

constexpr uint8_t carries_tcp = 6, carries_udp = 17;

std::array<uint8_t, toeplitz_key_bytes> odd_key() {
  std::array<uint8_t, toeplitz_key_bytes> key;
  for (std::size_t i = 0; i < key.size(); i++) key[i] = static_cast<uint8_t>(i * 37 + 1);
  return key;
}

// The rule of a kind of packets as libmlx5's match buffers say it: version and protocol of IP.
FlowSpec by_buffer(const FlowSpec& specs) {
  constexpr std::size_t protocol_at = 16, version_at = 18;
  FlowSpec rule;
  rule.priority = specs.priority;
  rule.by_buffer = true;
  if (specs.ip_version != 0) {
    rule.buffer[version_at] = static_cast<uint8_t>(specs.ip_version << 1);
    rule.buffer_mask[version_at] = 0x1e;
  }
  if (specs.l4_protocol != 0) {
    rule.buffer[protocol_at] = specs.l4_protocol;
    rule.buffer_mask[protocol_at] = 0xff;
  }
  return rule;
}

// An adapter whose rules spread frames of each kind over two queues; what is of none goes to the
// first.
class OddRig {
 public:
  OddRig(bool straight, bool buffers) : rig_(with(straight)) {
    for (std::size_t i = 0; i < 2; i++) {
      queues_[i] = rig_.queue(i);
      record_store(queues_[i].record() + 8, be32{0});
      numbers_[i] = ready_rq(rig_, queues_[i]);
    }
    const uint32_t both = *create_rqt(*rig_.hca, {{numbers_[0], numbers_[1]}});
    const uint32_t one = *create_rqt(*rig_.hca, {{numbers_[0]}});
    for (const uint8_t version : {uint8_t{4}, uint8_t{6}})
      for (const uint8_t protocol : {carries_tcp, carries_udp, uint8_t{0}}) {
        TirSpec t{.rqt = both, .ip_version = version, .l4_protocol = protocol};
        t.fields = protocol != 0 ? 15 : hash_field::src_ip | hash_field::dst_ip;
        FlowSpec rule;
        rule.priority = protocol != 0 ? 0 : 1;
        rule.ip_version = version;
        rule.l4_protocol = protocol;
        lead(t, rule, buffers);
      }
    FlowSpec rest;
    rest.priority = 2;
    lead({.rqt = one}, rest, buffers);
  }

  // What becomes of a frame.
  struct Came {
    std::size_t queue;
    uint32_t hash, bytes;
    uint8_t hash_type, sums, types;
    bool operator==(const Came&) const = default;
  };
  // Of the last frame; each has come to one queue.
  Came pass(std::initializer_list<const Bytes*> frames) {
    Came last{};
    for (const Bytes* f : frames) {
      for (std::size_t i = 0; i < 2; i++) post(i);
      rig_.far->send(*f);
      rig_.run();
      std::size_t came = 0;
      for (std::size_t i = 0; i < 2; i++)
        for (prm::Cqe c = Rig::poll(queues_[i]); opcode(c) != prm::CqeOpcode::invalid;
             c = Rig::poll(queues_[i]), came++, waiting_[i]--)
          last = {i,
                  c.rx_hash_result.host(),
                  c.byte_cnt.host(),
                  c.rx_hash_type,
                  c.hds_ip_ext,
                  c.l4_hdr_type_etc};
      EQUAL(came, 1u);
    }
    return last;
  }

 private:
  static bool with(bool straight) { return Rig::straight = straight; }
  void lead(TirSpec t, const FlowSpec& rule, bool buffers) {
    t.key = odd_key();
    const uint32_t tir = *create_tir(*rig_.hca, t, &rig_.sink);
    CU_ASSERT(create_flow_to_tir(*rig_.hca, tir, buffers ? by_buffer(rule) : rule).ok());
  }
  void post(std::size_t i) {
    for (; waiting_[i] < 2; waiting_[i]++) {
      const Bytes d = rig_.pointer(rig_.room(i), 4096);
      std::memcpy(queues_[i].rq() + posted_[i] % ring_wqes * 16, d.data(), 16);
      record_store(queues_[i].record() + 8, be32{++posted_[i]});
    }
  }

  Rig rig_;
  std::array<RawQueue, 2> queues_;
  std::array<uint32_t, 2> numbers_{}, posted_{}, waiting_{};
};

uint8_t hash_of(const Shown& s) {
  if (s.version == 0) return 0;
  const uint8_t ip = s.version == 4 ? prm::cqe::hash_ipv4 : prm::cqe::hash_ipv6;
  if (!s.ports) return ip;
  return ip | (s.protocol == carries_tcp ? prm::cqe::hash_tcp : prm::cqe::hash_udp);
}

// A frame of the most usual kind in front, so that the port has something to remember wrongly.
void odd_frames_are_spread_alike_by_both_kinds_of_rules() {
  OddRig specs(true, false), buffers(true, true), slow_specs(false, false),
      slow_buffers(false, true);
  Rig::straight = true;
  const Bytes usual = make_frame({.tcp = false});
  for (const OddFrame& f : odd_frames()) {
    const OddRig::Came came = specs.pass({&usual, &f.frame});
    const bool alike = came == buffers.pass({&usual, &f.frame}) &&
                       came == slow_specs.pass({&usual, &f.frame}) &&
                       came == slow_buffers.pass({&usual, &f.frame});
    if (!alike) std::printf("%s (%zu bytes)\n", f.name.c_str(), f.frame.size());
    CU_ASSERT(alike);
    EQUAL(came.bytes, f.frame.size());
    // Ports of tunnels are others than the corpus tells of.
    if (f.name.starts_with("VXLAN")) continue;
    if (came.hash_type != hash_of(f.shown)) std::printf("%s: hash\n", f.name.c_str());
    EQUAL(came.hash_type, hash_of(f.shown));
  }
}

// Addresses lie side by side, ports behind them, in a packet of IPv4 without options.
uint32_t hash_by_hand(const Bytes& f) {
  const std::span<const std::byte> input(f.data() + 26, 12);
  return slow_toeplitz(odd_key(), {reinterpret_cast<const uint8_t*>(input.data()), input.size()});
}

void tagged_packets_are_spread_as_packets() {
  for (const bool straight : {true, false}) {
    OddRig rig(straight, false);
    Rig::straight = true;
    for (const std::initializer_list<uint16_t>& tags : {std::initializer_list<uint16_t>{},
                                                        {0x8100},
                                                        {0x88a8},
                                                        {0x88a8, 0x8100},
                                                        {0x8100, 0x8100}}) {
      std::array<std::size_t, 2> got{};
      for (uint8_t flow = 0; flow < 64; flow++) {
        Bytes f = make_frame({.tcp = false});
        f[29] = static_cast<std::byte>(flow);
        const Bytes tagged = with_tags(f, tags);
        const OddRig::Came came = rig.pass({&tagged});
        EQUAL(came.hash, hash_by_hand(f));
        EQUAL(came.queue, came.hash & 1);
        got[came.queue]++;
      }
      CU_ASSERT(got[0] > 16);
      CU_ASSERT(got[1] > 16);
    }
  }
}

constexpr Case of_odd_spread[] = {
    {"odd frames are spread alike by both kinds of rules",
     odd_frames_are_spread_alike_by_both_kinds_of_rules},
    {"tagged packets are spread as packets", tagged_packets_are_spread_as_packets},
};

}  // namespace
}  // namespace eth_odd_frames_ut

std::span<const Case> kilim::test::eth_odd_frame_cases() {
  return eth_odd_frames_ut::of_odd_spread;
}
