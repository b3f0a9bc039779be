// SPDX-License-Identifier: BSD-3-Clause
// The test client's queues: work requests put together by hand, rings written and completions read
// as a driver does.
#include "kilim/detail/base/mmio.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "vhca_fixture.hh"

namespace kilim::vhca::test {

Wqe::Wqe(prm::Opcode op, uint32_t imm) : bytes(16) {
  prm::CtrlSeg ctrl{};
  ctrl.opmod_idx_opcode = be32{prm::ctrl::opcode::at(static_cast<uint8_t>(op))};
  ctrl.imm = be32{imm};
  std::memcpy(bytes.data(), &ctrl, sizeof(ctrl));
}

Wqe& Wqe::raw(const void* from, std::size_t n) {
  const auto* p = static_cast<const std::byte*>(from);
  bytes.insert(bytes.end(), p, p + n);
  return *this;
}

Wqe& Wqe::raddr(uint64_t addr, uint32_t rkey) {
  prm::RaddrSeg s{be64{addr}, be32{rkey}, be32{0}};
  return raw(&s, sizeof(s));
}

Wqe& Wqe::atomic(uint64_t swap_add, uint64_t compare) {
  prm::AtomicSeg s{be64{swap_add}, be64{compare}};
  return raw(&s, sizeof(s));
}

Wqe& Wqe::data(uint64_t addr, uint32_t n, uint32_t lkey) {
  prm::DataSeg s{be32{n}, be32{lkey}, be64{addr}};
  return raw(&s, sizeof(s));
}

Wqe& Wqe::inlined(std::span<const std::byte> payload) {
  prm::InlineSeg s{be32{prm::inline_flag | static_cast<uint32_t>(payload.size())}};
  raw(&s, sizeof(s));
  raw(payload.data(), payload.size());
  bytes.resize((bytes.size() + 15) / 16 * 16);
  return *this;
}

prm::Klm klm(uint64_t addr, uint32_t bytes, uint32_t key) {
  return {be32{bytes}, be32{key}, be64{addr}};
}

prm::Klm repeat_head(uint32_t bytes, uint32_t count, uint16_t entries) {
  prm::RepeatBlockSeg s{be32{bytes}, be32{prm::repeat_block_op}, be32{count}, be16{0},
                        be16{entries}};
  prm::Klm k;
  std::memcpy(&k, &s, sizeof(k));
  return k;
}

prm::Klm repeat_entry(uint16_t stride, uint16_t bytes, uint32_t key, uint64_t addr) {
  prm::RepeatEntSeg s{be16{stride}, be16{bytes}, be32{key}, be64{addr}};
  prm::Klm k;
  std::memcpy(&k, &s, sizeof(k));
  return k;
}

Wqe umr_wqe(uint32_t key, const UmrShape& shape, std::span<const prm::Klm> entries) {
  Wqe w(prm::Opcode::umr, key);
  auto padded = static_cast<uint16_t>((entries.size() + 3) / 4 * 4);
  prm::UmrCtrlSeg ctrl{};
  ctrl.flags = shape.flags;
  ctrl.klm_octowords = be16{padded};
  ctrl.translation_offset = be16{shape.offset};
  ctrl.mkey_mask = be64{shape.mask};
  w.raw(&ctrl, sizeof(ctrl));
  prm::MkeyContextSeg mk{};
  mk.free = shape.free;
  mk.access_flags = shape.access;
  mk.qpn_mkey = be32{0xffffff00u | shape.tag.value_or(static_cast<uint8_t>(key))};
  mk.start_addr = be64{shape.start};
  mk.len = be64{shape.len};
  w.raw(&mk, sizeof(mk));
  w.raw(entries.data(), entries.size_bytes());
  w.bytes.resize(128 + std::size_t{padded} * 16);
  return w;
}

TestCq::TestCq(uint32_t n, uint32_t size)
    : memory(std::size_t{n} * size), record(64), entries(n), entry_bytes(size) {
  for (uint32_t i = 0; i < n; i++)
    memory.data()[std::size_t{i + 1} * size - 1] = std::byte{prm::cqe::invalid_op_own};
}

// Of an error only the syndrome is defined, not the length.
static Completion completion_of(const prm::Cqe& c) {
  prm::ErrCqe e;
  std::memcpy(&e, &c, sizeof(e));
  Completion done{};
  done.op = prm::cqe::opcode_of(c.op_own);
  bool error = done.op == prm::CqeOpcode::req_err || done.op == prm::CqeOpcode::resp_err;
  done.syndrome = error ? static_cast<prm::Syndrome>(e.syndrome) : prm::Syndrome::none;
  done.wqe_opcode = static_cast<uint8_t>(prm::cqe::wqe_opcode::get(c));
  done.qpn = prm::cqe::qpn::get(c);
  done.uidx = c.srqn_uidx.host();
  done.bytes = error ? 0 : c.byte_cnt.host();
  done.imm = c.imm_inval_pkey.host();
  done.rqpn = prm::cqe::rqpn::get(c);
  done.index = c.wqe_counter.host();
  done.solicited = (c.op_own & prm::cqe::solicited_bit) != 0;
  return done;
}

std::optional<Completion> TestCq::poll() {
  const std::byte* at =
      memory.data() + std::size_t{(ci & (entries - 1)) + 1} * entry_bytes - sizeof(prm::Cqe);
  prm::Cqe c;
  std::memcpy(&c, at, sizeof(c));
  bool owner = (c.op_own & prm::cqe::owner_bit) != 0;
  if (prm::cqe::opcode_of(c.op_own) == prm::CqeOpcode::invalid || owner != ((ci & entries) != 0))
    return std::nullopt;
  ci++;
  record_store(reinterpret_cast<be32*>(record.data()), be32{ci & 0xffffff});
  return completion_of(c);
}

void TestCq::arm(std::byte* uar, bool solicited_only) {
  uint32_t word = (sn & 3) << prm::arm::sn_shift | (ci & 0xffffff) |
                  (solicited_only ? prm::arm::solicited_only : prm::arm::any);
  record_store(reinterpret_cast<be32*>(record.data()) + 1, be32{word});
  mmio_store(uar + prm::uar::cq_doorbell, be64{uint64_t{word} << 32 | cqn.value()});
}

TestQp::TestQp(const QueueShape& s)
    : shape(s),
      rings(std::size_t{s.rq_wqes} << s.rq_wqe_shift),
      record(64),
      sq(std::size_t{s.sq_wqebbs} * 64) {}

void TestQp::put(const Wqe& w) {
  std::vector<std::byte> bytes = w.bytes;
  auto ds = static_cast<uint32_t>(bytes.size() / 16);
  prm::CtrlSeg ctrl;
  std::memcpy(&ctrl, bytes.data(), sizeof(ctrl));
  prm::ctrl::wqe_index::set(ctrl, pi);
  ctrl.qpn_ds = be32{prm::ctrl::qpn::at(qpn.value()) | prm::ctrl::ds::at(ds)};
  ctrl.fm_ce_se = w.flags;
  std::memcpy(bytes.data(), &ctrl, sizeof(ctrl));
  std::memcpy(&first, bytes.data(), sizeof(first));
  std::size_t ring = std::size_t{shape.sq_wqebbs} * 64;
  for (std::size_t i = 0; i < bytes.size(); i += 16)
    std::memcpy(sq.data() + (std::size_t{pi} * 64 + i) % ring, bytes.data() + i, 16);
  pi = static_cast<uint16_t>(pi + wqebbs_for(Octowords{ds}).value());
}

void TestQp::publish() {
  record_store(reinterpret_cast<be32*>(record.data()) + 1, be32{pi});
}

void TestQp::ring(std::byte* uar) {
  publish();
  mmio_store64(uar + prm::uar::blueflame + blueflame, first);
  blueflame ^= prm::uar::blueflame_bytes;
}

void TestQp::recv(std::span<const std::array<uint64_t, 3>> segments) {
  std::size_t stride = std::size_t{1} << shape.rq_wqe_shift;
  std::byte* at = rings.data() + (head & (shape.rq_wqes - 1)) * stride;
  std::size_t slots = stride / 16;
  std::size_t n = shape.rq_signature ? 1 : 0;
  if (shape.rq_signature) std::memset(at, 0x5a, 16);
  for (const std::array<uint64_t, 3>& s : segments) {
    prm::DataSeg seg{be32{static_cast<uint32_t>(s[1])}, be32{static_cast<uint32_t>(s[2])},
                     be64{s[0]}};
    std::memcpy(at + 16 * n++, &seg, sizeof(seg));
  }
  prm::DataSeg end{be32{0}, be32{prm::list_end_lkey}, be64{0}};
  if (n < slots) std::memcpy(at + 16 * n, &end, sizeof(end));
  head++;
  record_store(reinterpret_cast<be32*>(record.data()), be32{head});
}

void TestQp::recv(uint64_t addr, uint32_t bytes, uint32_t lkey) {
  std::array<uint64_t, 3> s = {addr, bytes, lkey};
  recv({&s, 1});
}

}  // namespace kilim::vhca::test
