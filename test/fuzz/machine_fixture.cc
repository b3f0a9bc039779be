// SPDX-License-Identifier: BSD-3-Clause
// Steps of an input, one function each.
#include "machine_fixture.hh"

#include <cstdio>
#include <cstdlib>

#include "fake_clock_fixture.hh"
#include "kilim/detail/base/mmio.hh"
#include "kilim/prm/bsf_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/mkc.hh"
#include "vhca/core/address.hh"
#include "vhca/hca/hca.hh"

namespace kilim::fuzz {

using namespace vhca;

namespace {

constexpr std::size_t region_bytes = 65536;

be32 word_at(std::span<const std::byte> bytes, std::size_t at) noexcept {
  be32 w;
  std::memcpy(&w, bytes.data() + at, sizeof(w));
  return w;
}

template <typename T>
void put_at(std::span<std::byte> bytes, std::size_t at, T value) noexcept {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

void come_to_rest(hca::Hca& hca) {
  for (int turns = 0; hca.run() != 0; turns++) {
    if (turns < 1'000'000) continue;
    std::fputs("the engine never comes to rest\n", stderr);
    std::abort();
  }
}

}  // namespace

Machine::Machine(const RigShape& shape) : rig(shape), regions{Pages{65536}, Pages{65536}} {
  reset_clock();
  make_keys();
}

Machine::~Machine() = default;

void Machine::make_keys() {
  keys.push_back(rig.reg(regions[0], vhca::test::rw_access).lkey.value());
  keys.push_back(rig.reg(regions[1], access::remote_read).lkey.value());
  for (uint32_t entries : {4u, 16u, 16u, 64u}) keys.push_back(rig.make_key(entries));
  keys.push_back(rig.make_key(4, false));
  tpt::KeyTable& table = rig.hca->keys;
  prm::Mkc mkc{};
  mkc.flags = be32{prm::mkc::free::at(1u) | prm::mkc::umr_en::at(1u) |
                   prm::mkc::access_mode_1_0::at(prm::mkc::access_mode_ksm)};
  mkc.qpn_mkey = be32{0xffffff00u};
  mkc.flags_pd = be32{rig.pd.value()};
  mkc.translations_octword_size = be32{16};
  prm::mkc::log_entity_size::set(mkc, 12);
  if (Result<tpt::Mkey*> m = table.create_mkey(mkc, {}, rig.hca->config.profile))
    keys.push_back((*m)->key);
  if (Result<Rkey> window = alloc_mw(*rig.hca, rig.pd, true)) keys.push_back(window->value());
  Pdn other = *alloc_pd(*rig.hca);
  MrSpec spec{other, regions[0].va(), region_bytes, Iova{0}, access::local_write};
  if (Result<MrKeys> foreign = reg_mr(*rig.hca, spec)) keys.push_back(foreign->lkey.value());
  make_signed_key();
}

void Machine::make_signed_key() {
  tpt::KeyTable& table = rig.hca->keys;
  prm::Mkc mkc{};
  mkc.flags = be32{prm::mkc::free::at(1u) | prm::mkc::umr_en::at(1u) |
                   prm::mkc::access_mode_1_0::at(prm::mkc::access_mode_klm)};
  mkc.qpn_mkey = be32{0xffffff00u};
  mkc.flags_pd = be32{prm::mkc::bsf_en::at(1u) | rig.pd.value()};
  mkc.bsf_octword_size = be32{prm::bsf::octowords};
  mkc.translations_octword_size = be32{16};
  if (Result<tpt::Mkey*> m = table.create_mkey(mkc, {}, rig.hca->config.profile))
    keys.push_back((*m)->key);
  uint32_t psv = 0;
  table.psvs().create(psv)->pd = rig.pd;
}

void Machine::resolve(std::span<std::byte> bytes) const {
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    uint32_t w = word_at(bytes, at).host();
    if ((w & 0xffffff00u) == key_token) {
      put_at(bytes, at, be32{keys[(w & 0xff) % keys.size()]});
    } else if ((w & 0xfffffffeu) == queue_token) {
      uint32_t qpn = (w & 1) == 0 ? rig.a.qpn.value() : rig.b.qpn.value();
      put_at(bytes, at, be32{1u << 31 | qpn});
    } else if ((w & 0xffff00ffu) == (address_token(0, 0) >> 32) && at + 8 <= bytes.size()) {
      uint32_t offset = word_at(bytes, at + 4).host();
      put_at(bytes, at, be64{regions[(w >> 8 & 0xff) % 2].va().value() + offset});
      at += 4;
    }
  }
}

// A target goes up once, whatever is tried later.
void Machine::bring_up_dynamic(TestQp& qp) {
  using namespace qp_mask;
  bool target = qp.shape.type == QpType::dct;
  QpAttr attr;
  attr.state = QpState::init;
  attr.port = 1;
  attr.access = Rig::all_access;
  modify_qp(*rig.hca, qp.qpn, attr, state | pkey_index | port | (target ? qp_mask::access : 0));
  attr.state = QpState::rtr;
  attr.path_mtu = 3;
  attr.min_rnr_timer = 1;
  attr.path.is_global = true;
  attr.path.port = 1;
  port_gid(vhca::test::test_mac, 0, attr.path.dgid);
  modify_qp(*rig.hca, qp.qpn, attr, state | path_mtu | (target ? path | min_rnr_timer : 0));
  if (target) return;
  attr.state = QpState::rts;
  attr.timeout = 8;
  attr.retry_cnt = attr.rnr_retry = 3;
  attr.max_rd_atomic = 16;
  modify_qp(*rig.hca, qp.qpn, attr,
            state | timeout | retry_cnt | rnr_retry | max_rd_atomic | sq_psn);
}

void Machine::bring_up(TestQp& qp, Qpn peer) {
  if (qp.shape.type == QpType::rc || qp.shape.type == QpType::raw_packet)
    return rig.to_rts(qp, peer);
  if (qp.shape.type == QpType::dci || qp.shape.type == QpType::dct) return bring_up_dynamic(qp);
  bool ud = qp.shape.type == QpType::ud;
  QpAttr attr;
  attr.state = QpState::init;
  attr.port = 1;
  attr.access = Rig::all_access;
  attr.qkey = 0x1111;
  uint32_t mask = qp_mask::state | qp_mask::pkey_index | qp_mask::port;
  modify_qp(*rig.hca, qp.qpn, attr, mask | (ud ? qp_mask::qkey : qp_mask::access));
  attr.state = QpState::rtr;
  attr.path_mtu = 3;
  attr.dest_qpn = peer;
  attr.path.is_global = true;
  attr.path.port = 1;
  port_gid(vhca::test::test_mac, 0, attr.path.dgid);
  mask = qp_mask::path | qp_mask::path_mtu | qp_mask::dest_qpn | qp_mask::rq_psn;
  modify_qp(*rig.hca, qp.qpn, attr, qp_mask::state | (ud ? 0 : mask));
  attr.state = QpState::rts;
  modify_qp(*rig.hca, qp.qpn, attr, qp_mask::state | qp_mask::sq_psn);
}

void Machine::bring_up() {
  bring_up(rig.a, rig.b.qpn);
  bring_up(rig.b, rig.a.qpn);
}

void Machine::step(Step s, Input& in) {
  switch (s) {
    case Step::post:
      return post(in);
    case Step::ring:
      return queue(in.take<uint8_t>()).ring(rig.uar);
    case Step::recv:
      return receive(in);
    case Step::run:
      rig.hca->run(in.take<uint8_t>());
      return;
    case Step::poll:
      for (unsigned n = in.take<uint8_t>(); n > 0; n--) {
        rig.cq_a.poll();
        rig.cq_b.poll();
      }
      return;
    case Step::time:
      pass_time(uint64_t{in.take<uint16_t>()} * 1'000'000);
      return;
    case Step::modify:
      return modify(in);
    case Step::odd:
      return odd(in);
    case Step::more:
      return;
  }
}

// With the ring's own number, index and length, or as it is.
void Machine::post(Input& in) {
  uint8_t how = in.take<uint8_t>();
  TestQp& qp = queue(how);
  std::size_t octowords = in.take<uint8_t>() % 63u + 1;
  std::vector<std::byte> bytes = in.bytes(octowords * 16);
  bool raw = (how & 2) != 0;
  resolve(std::span(bytes).subspan(raw ? 0 : 12));
  if (!raw) {
    vhca::test::Wqe wqe(prm::Opcode::nop);
    wqe.bytes = std::move(bytes);
    wqe.flags = std::to_integer<uint8_t>(wqe.bytes[11]);
    return qp.put(wqe);
  }
  std::size_t ring = std::size_t{qp.shape.sq_wqebbs} * 64;
  for (std::size_t i = 0; i < bytes.size(); i += 16)
    std::memcpy(qp.sq.data() + (std::size_t{qp.pi} * 64 + i) % ring, bytes.data() + i, 16);
  qp.pi = static_cast<uint16_t>(qp.pi + (octowords + 3) / 4);
}

void Machine::receive(Input& in) {
  TestQp& qp = queue(in.take<uint8_t>());
  std::size_t stride = std::size_t{1} << qp.shape.rq_wqe_shift;
  std::vector<std::byte> bytes = in.bytes(stride);
  resolve(bytes);
  std::memcpy(qp.rings.data() + (qp.head & (qp.shape.rq_wqes - 1)) * stride, bytes.data(), stride);
  qp.head++;
  record_store(reinterpret_cast<be32*>(qp.record.data()), be32{qp.head});
}

void Machine::modify(Input& in) {
  TestQp& qp = queue(in.take<uint8_t>());
  uint8_t to = in.take<uint8_t>();
  if (to % 8 < 7) {
    rig.to_state(qp, static_cast<QpState>(to % 8));
    return;
  }
  rig.to_state(qp, QpState::reset);
  std::memset(qp.record.data(), 0, 8);
  qp.pi = qp.head = 0;
  bring_up(qp, queue(&qp == &rig.a ? 1 : 0).qpn);
}

void Machine::odd(Input& in) {
  uint8_t what = in.take<uint8_t>();
  uint32_t with = in.take<uint32_t>();
  TestQp& qp = queue(with);
  switch (what % 8) {
    case 0:
      dereg_mr(*rig.hca, MkeyIndex{keys[with % keys.size()] >> 8});
      return;
    case 1:  // the doorbell record names anything
      record_store(reinterpret_cast<be32*>(qp.record.data()) + 1, be32{with});
      mmio_store64(rig.uar + 0x800, 1);
      return;
    case 2:
      record_store(reinterpret_cast<be32*>(qp.record.data()), be32{with});
      return;
    case 3:
      (with % 2 == 0 ? rig.cq_a : rig.cq_b).arm(rig.uar, (with & 2) != 0);
      return;
    case 4:  // memory goes away without being unregistered
      if (with % 16 == 0) regions[with >> 8 & 1].unmap();
      return;
    case 5:
      record_store(reinterpret_cast<be32*>(rig.cq_a.record.data()), be32{with});
      return;
    case 6:
      dealloc_mw(*rig.hca, MkeyIndex{keys[with % keys.size()] >> 8});
      return;
    default:
      return;
  }
}

void Machine::finish() {
  rig.hca->run();
  pass_time(60'000'000'000);
  come_to_rest(*rig.hca);
  for (unsigned n : {0u, 1u}) rig.to_state(queue(n), QpState::err);
  come_to_rest(*rig.hca);
}

Script& post(Script& s, unsigned queue, const vhca::test::Wqe& wqe) {
  std::vector<std::byte> bytes = wqe.bytes;
  bytes[11] = std::byte{wqe.flags};
  s.put(static_cast<uint8_t>(Step::post), static_cast<uint8_t>(queue),
        static_cast<uint8_t>(bytes.size() / 16 - 1));
  return s.bytes(bytes);
}

Script& receive(Script& s, unsigned queue, uint64_t address, uint32_t bytes, uint32_t key) {
  std::array<std::byte, 64> wqe{};
  prm::DataSeg data{be32{bytes}, be32{key}, be64{address}};
  prm::DataSeg end{be32{0}, be32{prm::list_end_lkey}, be64{0}};
  std::memcpy(wqe.data(), &data, sizeof(data));
  std::memcpy(wqe.data() + sizeof(data), &end, sizeof(end));
  s.put(static_cast<uint8_t>(Step::recv), static_cast<uint8_t>(queue));
  return s.bytes(wqe);
}

Script& step(Script& s, Step step, uint8_t argument) {
  return s.put(static_cast<uint8_t>(step), argument);
}

}  // namespace kilim::fuzz
