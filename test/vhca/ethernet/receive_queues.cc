// SPDX-License-Identifier: BSD-3-Clause
// Receive queues of their own: the published hash values, WQEs that frames share, rules that drop,
// mark and count.
#include <random>

#include "eth_fixture.hh"
#include "toeplitz_fixture.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/ethernet/match_param.hh"
#include "vhca/ethernet/tir.hh"
#include "vhca/hca/ports.hh"

namespace receive_queues_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
using kilim::test::Bytes;

// Microsoft, "Verifying the RSS Hash Calculation".
struct Vector {
  std::vector<uint8_t> src, dst;
  uint16_t src_port, dst_port;
  uint32_t addresses, all;
};
const Vector vectors[] = {
    {{66, 9, 149, 187}, {161, 142, 100, 80}, 2794, 1766, 0x323e8fc2, 0x51ccc178},
    {{199, 92, 111, 2}, {65, 69, 140, 83}, 14230, 4739, 0xd718262a, 0xc626b0ea},
    {{24, 19, 198, 95}, {12, 22, 207, 184}, 12898, 38024, 0xd2d0a5de, 0x5c2b394a},
    {{38, 27, 205, 30}, {209, 142, 163, 6}, 48228, 2217, 0x82989176, 0xafc7327f},
    {{153, 39, 163, 191}, {202, 188, 127, 2}, 44251, 1303, 0x5d1809c5, 0x10e828a2},
    {{0x3f, 0xfe, 0x25, 1, 2, 0, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 7},
     {0x3f, 0xfe, 0x25, 1, 2, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1},
     2794,
     1766,
     0x2cc18cd5,
     0x40207d3d},
    {{0x3f, 0xfe, 5, 1, 0, 8, 0, 0, 2, 0x60, 0x97, 0xff, 0xfe, 0x40, 0xef, 0xab},
     {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
     14230,
     4739,
     0x0f0c461c,
     0xdde51bbf},
    {{0x3f, 0xfe, 0x19, 0, 0x45, 0x45, 0, 3, 2, 0, 0xf8, 0xff, 0xfe, 0x21, 0x67, 0xcf},
     {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0xf8, 0xff, 0xfe, 0x21, 0x67, 0xcf},
     44251,
     38024,
     0x4b61e985,
     0x02d1feef},
};

void published_values_come_out() {
  auto tir = std::make_unique<ethernet::Tir>();
  std::copy(std::begin(verification_key), std::end(verification_key), tir->spec.key.begin());
  tir->toeplitz = ethernet::Toeplitz(tir->spec.key);
  for (const Vector& v : vectors) {
    const FrameSpec s{.ipv6 = v.src.size() == 16};
    Bytes f = make_frame(s);
    const std::size_t at = l3_of(s) + (s.ipv6 ? 8 : 12);
    std::memcpy(f.data() + at, v.src.data(), v.src.size());
    std::memcpy(f.data() + at + v.src.size(), v.dst.data(), v.dst.size());
    put16(f, l4_of(s), v.src_port);
    put16(f, l4_of(s) + 2, v.dst_port);
    tir->spec.ip_version = s.ipv6 ? 6 : 4;
    tir->spec.l4_protocol = 0;
    tir->spec.fields = hash_field::src_ip | hash_field::dst_ip;
    EQUAL(hash_frame(*tir, f).value, v.addresses);
    if (!s.ipv6) EQUAL(hash_plain_ipv4(*tir, f, true).value, v.addresses);
    tir->spec.l4_protocol = 6;
    tir->spec.fields |= hash_field::src_port | hash_field::dst_port;
    EQUAL(hash_frame(*tir, f).value, v.all);
    if (!s.ipv6) EQUAL(hash_plain_ipv4(*tir, f, true).value, v.all);
    std::vector<uint8_t> input = v.src;
    input.insert(input.end(), v.dst.begin(), v.dst.end());
    EQUAL(slow_toeplitz(verification_key, input), v.addresses);
  }
}

void every_input_hashes_as_bit_by_bit() {
  uint32_t seed = 1;
  auto dice = [&seed] { return static_cast<uint8_t>((seed = seed * 1664525 + 1013904223) >> 24); };
  for (int round = 0; round < 200; round++) {
    std::array<uint8_t, toeplitz_key_bytes> key;
    for (uint8_t& byte : key) byte = dice();
    std::vector<uint8_t> input(dice() % (ethernet::Toeplitz::longest_input + 1));
    for (uint8_t& byte : input) byte = dice();
    EQUAL(ethernet::Toeplitz(key).hash(std::as_bytes(std::span(input))), slow_toeplitz(key, input));
  }
}

// Addresses and ports of the published values of IPv4, four at a time, `step` bytes apart.
void published_values_of_four(bool with_products, std::size_t step) {
  std::array<uint8_t, toeplitz_key_bytes> key;
  std::copy(std::begin(verification_key), std::end(verification_key), key.begin());
  const ethernet::Toeplitz t(key, with_products);
  for (std::size_t first : {0u, 1u}) {
    Bytes inputs(3 * step + 16);
    for (std::size_t i = 0; i < 4; i++) {
      const Vector& v = vectors[first + i];
      std::byte* at = &inputs[i * step];
      std::memcpy(at, v.src.data(), 4);
      std::memcpy(at + 4, v.dst.data(), 4);
      const be16 ports[] = {be16{v.src_port}, be16{v.dst_port}};
      std::memcpy(at + 8, ports, sizeof ports);
    }
    std::array<uint32_t, 4> values, raw;
    for (const bool ports : {false, true}) {
      t.hash_four({inputs.data(), step, ports}, values, raw);
      for (std::size_t i = 0; i < 4; i++) {
        const Vector& v = vectors[first + i];
        EQUAL(values[i], ports ? v.all : v.addresses);
        EQUAL(raw[i], be32{values[i]}.raw());
      }
    }
  }
}

// By tables, and by products where the processor has them.
void four_inputs_hash_as_bit_by_bit() {
  std::mt19937 random(7);
  for (const bool with_products : {false, true}) {
    published_values_of_four(with_products, 16);
    published_values_of_four(with_products, 72);
    for (int round = 0; round < 200; round++) {
      std::array<uint8_t, toeplitz_key_bytes> key;
      for (uint8_t& byte : key) byte = static_cast<uint8_t>(random());
      const std::size_t step = 12 + random() % 80;
      std::vector<uint8_t> inputs(3 * step + 16);
      for (uint8_t& byte : inputs) byte = static_cast<uint8_t>(random());
      std::array<uint32_t, 4> values, raw;
      const bool ports = round % 2 == 0;
      ethernet::Toeplitz(key, with_products)
          .hash_four({std::as_bytes(std::span(inputs)).data(), step, ports}, values, raw);
      for (std::size_t i = 0; i < 4; i++) {
        const auto input = std::span(inputs).subspan(i * step, ports ? 12 : 8);
        EQUAL(values[i], slow_toeplitz(key, input));
        EQUAL(raw[i], be32{values[i]}.raw());
      }
    }
  }
}

// A striding queue of WQEs with 8 strides of 64 bytes, in the rig's memory.
struct Striding {
  static constexpr uint32_t stride_bytes = 64, count = 8;
  explicit Striding(Rig& r, bool two_bytes = false) : rig(r) {
    q = r.queue(0);  // its completion queue and its memory
    std::memset(q.rq(), 0, 1024);
    record_store(record(), be32{0});
    RqSpec s;
    s.pd = r.pd;
    s.cq = q.cqn;
    s.buf = va(q.rq());
    s.record = va(record());
    s.wqes = 4;
    s.wqe_shift = 5;
    s.uidx = 0x55;
    s.log_stride_bytes = 6;
    s.log_strides = 3;
    s.two_byte_shift = two_bytes;
    rqn = *create_rq(*r.hca, s, &r.sink);
    EQUAL(modify_rq(*r.hca, rqn, {RqState::reset, RqState::ready}), 0);
    TirSpec t;
    t.rqt = *create_rqt(*r.hca, {{rqn}});
    tirn = *create_tir(*r.hca, t, &r.sink);
    CU_ASSERT(create_flow_to_tir(*r.hca, tirn, everything()).ok());
  }
  [[nodiscard]] be32* record() const { return q.record() + 8; }
  void post() {
    const Bytes d = rig.pointer(rig.room(posted), stride_bytes * count);
    std::memcpy(q.rq() + posted % 4 * 32 + 16, d.data(), 16);
    record_store(record(), be32{++posted});
  }
  prm::Cqe arrives(std::size_t bytes) {
    last = make_frame({.payload = bytes - 54});
    EQUAL(last.size(), bytes);
    rig.far->send(last);
    rig.run();
    return Rig::poll(q);
  }
  // Whether the last frame lies `at` bytes into the n-th WQE.
  bool lies(std::size_t n, std::size_t at) const {
    return std::memcmp(rig.room(n) + at, last.data(), last.size()) == 0;
  }
  Rig& rig;
  RawQueue q;
  Bytes last;
  uint32_t rqn = 0, tirn = 0, posted = 0;
};

void frames_share_a_wqe_in_order() {
  Rig r;
  Striding s(r);
  s.post();
  s.post();
  prm::Cqe c = s.arrives(60);
  EQUAL(c.byte_cnt.host(), 1u << 16 | 60u);
  EQUAL(c.wqe_counter.host(), 0);
  EQUAL(c.wqe_id.host(), 0);
  CU_ASSERT(s.lies(0, 0));
  c = s.arrives(200);
  EQUAL(c.byte_cnt.host(), 4u << 16 | 200u);
  EQUAL(c.wqe_counter.host(), 1);
  CU_ASSERT(s.lies(0, 64));
  EQUAL(c.srqn_uidx.host(), 0x55);
  c = s.arrives(192);
  EQUAL(c.byte_cnt.host(), 3u << 16 | 192u);
  EQUAL(c.wqe_counter.host(), 5);
  CU_ASSERT(s.lies(0, 320));
  c = s.arrives(64);  // the first WQE was used up to its end: no entry between
  EQUAL(c.byte_cnt.host(), 1u << 16 | 64u);
  EQUAL(c.wqe_counter.host(), 0);
  EQUAL(c.wqe_id.host(), 1);
  CU_ASSERT(s.lies(1, 0));
}

void what_does_not_fit_begins_on_the_next_wqe() {
  Rig r;
  Striding s(r);
  s.post();
  s.post();
  s.arrives(300);
  prm::Cqe c = s.arrives(250);  // four strides, and three are left
  EQUAL(c.byte_cnt.host(), 1u << 31 | 3u << 16);
  EQUAL(c.wqe_counter.host(), 5);
  EQUAL(c.wqe_id.host(), 0);
  c = Rig::poll(s.q);
  EQUAL(c.byte_cnt.host(), 4u << 16 | 250u);
  EQUAL(c.wqe_counter.host(), 0);
  EQUAL(c.wqe_id.host(), 1);
  CU_ASSERT(s.lies(1, 0));
  // Longer than any WQE: the one in hand and the next one are used up.
  s.post();
  c = s.arrives(600);
  EQUAL(c.byte_cnt.host() >> 16, 1u << 15 | 4u);
  c = Rig::poll(s.q);
  EQUAL(opcode(c), prm::CqeOpcode::resp_err);
  EQUAL(Rig::syndrome(c), 0x01);
  EQUAL(opcode(s.arrives(60)), prm::CqeOpcode::invalid);
  PortCounters n = eth_port_counters(r.hca->eth, 1);
  EQUAL(n.rx_packets, 2);
  EQUAL(n.rx_too_long, 1);
  EQUAL(n.rx_out_of_buffer, 1);
}

void two_bytes_in_front_count_as_strides_do() {
  Rig r;
  Striding s(r, true);
  s.post();
  prm::Cqe c = s.arrives(64);
  EQUAL(c.byte_cnt.host(), 2u << 16 | 64u);
  CU_ASSERT(s.lies(0, 2));
  c = s.arrives(62);
  EQUAL(c.byte_cnt.host(), 1u << 16 | 62u);
  EQUAL(c.wqe_counter.host(), 2);
  CU_ASSERT(s.lies(0, 130));
}

void bad_strides_and_strange_numbers_are_refused() {
  Rig r;
  Striding good(r);
  RqSpec s;
  s.pd = r.pd;
  s.cq = good.q.cqn;
  s.buf = va(good.q.rq());
  s.record = va(good.record());
  s.wqes = 4;
  s.wqe_shift = 5;
  struct Row {
    const char* name;
    void (*change)(RqSpec&);
  };
  const Row rows[] = {
      {"stride too short", [](RqSpec& q) { q.log_stride_bytes = 5, q.log_strides = 3; }},
      {"stride too long", [](RqSpec& q) { q.log_stride_bytes = 14, q.log_strides = 3; }},
      {"few strides", [](RqSpec& q) { q.log_stride_bytes = 6, q.log_strides = 2; }},
      {"many strides", [](RqSpec& q) { q.log_stride_bytes = 6, q.log_strides = 17; }},
      {"no link", [](RqSpec& q) { q.log_stride_bytes = 6, q.log_strides = 3, q.wqe_shift = 4; }},
      {"no power of two", [](RqSpec& q) { q.wqes = 3; }},
      {"long WQE", [](RqSpec& q) { q.wqe_shift = 10; }},
      {"record", [](RqSpec& q) { q.record = Va{q.record.value() + 1}; }},
      {"no PD", [](RqSpec& q) { q.pd = Pdn{0xfffff}; }},
      {"no CQ", [](RqSpec& q) { q.cq = Cqn{0xfffff}; }},
  };
  for (const Row& row : rows) {
    RqSpec bad = s;
    row.change(bad);
    auto made = create_rq(*r.hca, bad, &r.sink);
    if (made.ok() || made.error().code != EINVAL) CU_FAIL(row.name);
  }
  EQUAL(create_rqt(*r.hca, {{good.rqn, good.rqn, good.rqn}}).error().code, EINVAL);
  EQUAL(create_rqt(*r.hca, {{0xfffff}}).error().code, EINVAL);
  EQUAL(destroy_rq(*r.hca, good.rqn), -EBUSY);
  EQUAL(destroy_tir(*r.hca, good.tirn), -EBUSY);
}

void rules_drop_mark_and_count() {
  Rig r;
  RawQueue q = r.queue(0);
  FlowCount seen;
  FlowSpec drops;
  drops.ip_version = 6;
  drops.drops = true;
  drops.count = &seen;
  CU_ASSERT(create_ending_flow(*r.hca, drops).ok());
  FlowSpec marks = everything();
  marks.priority = 1;
  marks.tags = true;
  marks.tag = 0xabcdef;
  CU_ASSERT(create_flow(*r.hca, q.qpn, marks).ok());
  FlowSpec other = marks;
  other.tag = 1;
  EQUAL(create_flow(*r.hca, q.qpn, other).error().code, EEXIST);
  const Bytes four = make_frame({}), six = make_frame({.ipv6 = true});
  r.receive(q, r.room(1), 2000);
  r.far->send(six);
  r.far->send(four);
  r.run();
  const prm::Cqe c = Rig::poll(q);
  EQUAL(opcode(c), recv_opcode);
  EQUAL(c.byte_cnt.host(), four.size());
  EQUAL(prm::cqe::qpn::get(c), 0xabcdef);
  EQUAL(seen.packets, 1);
  EQUAL(seen.bytes, six.size());
  PortCounters n = eth_port_counters(r.hca->eth, 1);
  EQUAL(n.rx_filtered, 1);
  EQUAL(n.rx_no_rule, 0);
  EQUAL(n.rx_packets, 1);
}

// PRM "FTE_MATCH_SET_LYR_2_4".
void headers_lie_where_the_manual_says() {
  const FrameSpec four{.tags = 1, .tcp_flags = 0x12};
  Bytes f = make_frame(four);
  put16(f, 14, 0xb123);
  MatchParam m = ethernet::outer_headers(f);
  auto word = [&m](std::size_t at) { return unsigned{m[at]} << 8 | m[at + 1]; };
  CU_ASSERT(std::memcmp(m.data(), f.data() + 6, 6) == 0);
  CU_ASSERT(std::memcmp(m.data() + 8, f.data(), 6) == 0);
  EQUAL(word(6), 0x0800);
  EQUAL(word(14), 0xb123);
  EQUAL(m[16], 6);
  EQUAL(word(18), 0x8000 | 4 << 9 | 0x12);
  EQUAL(word(20), get16(f, l4_of(four)));
  EQUAL(word(22), get16(f, l4_of(four) + 2));
  EQUAL(word(28), 0);
  EQUAL(word(30), 0);
  EQUAL(word(26) >> 8, 0x50);
  CU_ASSERT(std::memcmp(m.data() + 44, f.data() + l3_of(four) + 12, 4) == 0);
  CU_ASSERT(std::memcmp(m.data() + 60, f.data() + l3_of(four) + 16, 4) == 0);
  const FrameSpec six{.ipv6 = true, .tcp = false};
  f = make_frame(six);
  m = ethernet::outer_headers(f);
  EQUAL(word(6), 0x86dd);
  EQUAL(word(14), 0);
  EQUAL(m[16], 17);
  EQUAL(word(20), 0);
  EQUAL(word(18), 6 << 9);
  EQUAL(word(28), get16(f, l4_of(six)));
  EQUAL(word(30), get16(f, l4_of(six) + 2));
  CU_ASSERT(std::memcmp(m.data() + 32, f.data() + l3_of(six) + 8, 32) == 0);
  f = make_frame({.tcp = false, .fragment = 0x2000});
  EQUAL(ethernet::outer_headers(f)[18], 0x20 | 4 << 1);
}

void rules_by_buffer_take_what_their_mask_names() {
  Rig r;
  RawQueue q = r.queue(0);
  FlowSpec rule;
  rule.by_buffer = true;
  rule.buffer_mask[16] = 0xff, rule.buffer[16] = 17;
  CU_ASSERT(create_flow(*r.hca, q.qpn, rule).ok());
  r.receive(q, r.room(1), 2000);
  r.receive(q, r.room(2), 2000);
  r.far->send(make_frame({.tcp = true}));
  r.far->send(make_frame({.tcp = false, .payload = 321}));
  r.run();
  EQUAL(Rig::poll(q).byte_cnt.host(), make_frame({.tcp = false, .payload = 321}).size());
  EQUAL(opcode(Rig::poll(q)), prm::CqeOpcode::invalid);
}

constexpr Case queue_cases[] = {
    {"headers lie where the manual says", headers_lie_where_the_manual_says},
    {"rules by buffer take what their mask names", rules_by_buffer_take_what_their_mask_names},
    {"published values come out", published_values_come_out},
    {"every input hashes as bit by bit", every_input_hashes_as_bit_by_bit},
    {"four inputs hash as bit by bit, by tables and by products", four_inputs_hash_as_bit_by_bit},
    {"frames share a WQE in order", frames_share_a_wqe_in_order},
    {"what does not fit begins on the next WQE", what_does_not_fit_begins_on_the_next_wqe},
    {"two bytes in front count as strides do", two_bytes_in_front_count_as_strides_do},
    {"bad strides and strange numbers are refused", bad_strides_and_strange_numbers_are_refused},
    {"rules drop, mark and count", rules_drop_mark_and_count},
};

}  // namespace
}  // namespace receive_queues_ut

std::span<const kilim::test::Case> kilim::test::receive_queue_cases() {
  return receive_queues_ut::queue_cases;
}
