// SPDX-License-Identifier: BSD-3-Clause
// The test client of the engine.
#include "vhca_fixture.hh"

#include <cstdio>
#include <cstdlib>

#include <sys/mman.h>
#include <time.h>

#include "far.hh"
#include "kilim/base/mmio.hh"
#include "kilim/base/units.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "kilim/prm/mkc.hh"
#include "vhca/core/address.hh"
#include "vhca/hca/hca.hh"
#include "vhca/tpt/page_events.hh"
#include "vhca/wire/make.hh"

namespace kilim::vhca::test {

namespace {

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "rig: %s\n", what);
  std::abort();
}

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + 4095) / 4096 * 4096 + (bytes == 0 ? 4096 : 0);
}

}  // namespace

Pages::Pages(std::size_t bytes) : size_(whole_pages(bytes)) {
  void* p = ::mmap(kilim::test::far_from_all(size_), size_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) stop("no memory");
  data_ = static_cast<std::byte*>(p);
  address_ = reinterpret_cast<uint64_t>(p);
}
Pages::~Pages() {
  unmap();
}
void Pages::unmap() {
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
  heard_of_memory();
}

void heard_of_memory() {
  const PageLock lock;
}

unsigned Events::of(uint32_t type) const noexcept {
  unsigned n = 0;
  for (std::size_t i = 0; i < count; i++) n += log[i].first == type ? 1u : 0u;
  return n;
}

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

std::optional<Completion> TestCq::poll() {
  const std::byte* at =
      memory.data() + std::size_t{(ci & (entries - 1)) + 1} * entry_bytes - sizeof(prm::Cqe);
  prm::Cqe c;
  std::memcpy(&c, at, sizeof(c));
  bool owner = (c.op_own & prm::cqe::owner_bit) != 0;
  if (prm::cqe::opcode_of(c.op_own) == prm::CqeOpcode::invalid || owner != ((ci & entries) != 0))
    return std::nullopt;
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
  ci++;
  record_store(reinterpret_cast<be32*>(record.data()), be32{ci & 0xffffff});
  return done;
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

LintMode lint_of_environment() {
  const char* word = std::getenv("KILIM_VHCA_LINT");
  Result<LintMode> mode = find_lint_mode(word == nullptr ? "off" : word);
  return mode.ok() ? *mode : LintMode::off;
}

namespace {
std::byte* map_uar(Hca& hca, uint32_t& index) {
  const Uar& page = **hca.uars.alloc();
  index = page.index;
  void* p = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page.fd.get(), 0);
  if (p == MAP_FAILED) stop("no UAR");
  return static_cast<std::byte*>(p);
}
}  // namespace

Rig::Rig(const RigShape& shape)
    : cq_a(shape.cq_entries, shape.cqe_bytes),
      cq_b(shape.cq_entries, shape.cqe_bytes),
      a(shape.a),
      b(shape.b) {
  HcaConfig config{.name = "vhca0", .profile = shape.profile};
  config.mac = shape.mac;
  if (!shape.wire.empty()) {
    Result<std::unique_ptr<Wire>> wire = make_wire(shape.wire);
    if (!wire) stop(wire.error().what);
    config.wires.push_back(std::move(*wire));
  }
  if (shape.own_wire != nullptr) config.wires.emplace_back(shape.own_wire);
  config.seed = shape.seed;
  config.journal = shape.journal != nullptr ? shape.journal : &journal;
  config.lint = shape.lint;
  config.order = shape.order;
  config.fatal_at = shape.fatal_at;
  Result<std::unique_ptr<Hca>> made = Hca::create(std::move(config));
  if (!made) stop(made.error().what);
  hca = std::move(*made);
  pd = *alloc_pd(*hca);
  uar = map_uar(*hca, uar_page);
  for (TestCq* cq : {&cq_a, &cq_b}) {
    CqSpec spec;
    spec.buf = cq->memory.va();
    spec.record = cq->record.va();
    spec.cqe_count = cq->entries;
    spec.cqe_bytes = cq->entry_bytes;
    spec.uar_page = uar_page;
    spec.owner = cq;
    cq->cqn = *create_cq(*hca, spec, &events);
  }
  for (TestQp* qp : {&a, &b}) {
    QpSpec spec;
    spec.type = qp->shape.type;
    spec.pd = pd;
    spec.send_cq = spec.recv_cq = qp == &a ? cq_a.cqn : cq_b.cqn;
    spec.buf = qp->rings.va();
    spec.sq_buf = qp->sq.va();
    spec.record = qp->record.va();
    spec.sq_wqebbs = qp->shape.sq_wqebbs;
    spec.rq_wqes = qp->shape.rq_wqes;
    spec.rq_wqe_shift = qp->shape.rq_wqe_shift;
    spec.rq_signature = qp->shape.rq_signature;
    spec.uar_page = uar_page;
    spec.uidx = qp == &a ? 0xa : 0xb;
    spec.owner = qp;
    if (qp->shape.tags != 0) share_receives(*hca, *qp, spec);
    make_dynamic(spec);
    Result<Qpn> qpn = create_qp(*hca, spec, &events);
    if (!qpn) stop(qpn.error().what);
    qp->qpn = *qpn;
  }
  if (!shape.connect) return;
  to_rts(a, b.qpn);
  to_rts(b, a.qpn);
}

Rig::~Rig() {
  if (uar != nullptr) ::munmap(uar, 4096);
}

MrKeys Rig::reg(Va start, uint64_t bytes, uint32_t access) {
  MrSpec spec{pd, start, bytes, Iova{start.value()}, access};
  Result<MrKeys> keys = reg_mr(*hca, spec);
  if (!keys) stop(keys.error().what);
  return *keys;
}
MrKeys Rig::reg(const Pages& p, uint32_t access) {
  return reg(p.va(), p.size(), access);
}

uint32_t Rig::make_key(uint32_t entries, bool umr, bool rinval) {
  prm::Mkc mkc{};
  mkc.flags =
      be32{prm::mkc::free::at(1u) | prm::mkc::umr_en::at(umr ? 1u : 0u) |
           prm::mkc::local_read::at(1u) | prm::mkc::access_mode_1_0::at(prm::mkc::access_mode_klm)};
  mkc.qpn_mkey = be32{0xffffff00u};
  mkc.flags_pd = be32{pd.value() | prm::mkc::en_rinval::at(rinval ? 1u : 0u)};
  mkc.translations_octword_size = be32{round_up(entries, 4)};
  Result<Mkey*> m = hca->keys.create_mkey(mkc, {}, hca->config.profile);
  if (!m) stop(m.error().what);
  return (*m)->key;
}

int Rig::to_init(TestQp& qp, uint32_t access) {
  QpAttr attr;
  attr.state = QpState::init;
  attr.port = 1;
  attr.access = access;
  uint32_t mask = qp_mask::state | qp_mask::pkey_index | qp_mask::port | qp_mask::access;
  if (qp.shape.type == QpType::raw_packet) mask = qp_mask::state | qp_mask::port;
  return modify_qp(*hca, qp.qpn, attr, mask);
}
int Rig::to_rtr(TestQp& qp, Qpn peer) {
  QpAttr attr;
  attr.state = QpState::rtr;
  if (qp.shape.type == QpType::raw_packet) return modify_qp(*hca, qp.qpn, attr, qp_mask::state);
  attr.path_mtu = 5;
  attr.dest_qpn = peer;
  attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = 1;
  attr.path.is_global = true;
  attr.path.port = 1;
  port_gid(test_mac, 0, attr.path.dgid);
  uint32_t answers = qp_mask::max_dest_rd_atomic | qp_mask::min_rnr_timer;
  if (qp.shape.type == QpType::xrc_ini) answers = 0;
  return modify_qp(*hca, qp.qpn, attr,
                   answers | qp_mask::state | qp_mask::path | qp_mask::path_mtu |
                       qp_mask::dest_qpn | qp_mask::rq_psn);
}
int Rig::to_rts_only(TestQp& qp) {
  QpAttr attr;
  attr.state = QpState::rts;
  if (qp.shape.type == QpType::raw_packet) return modify_qp(*hca, qp.qpn, attr, qp_mask::state);
  attr.timeout = 2;  // 16 microseconds
  attr.retry_cnt = 2;
  attr.rnr_retry = 3;
  attr.max_rd_atomic = 16;
  return modify_qp(*hca, qp.qpn, attr,
                   qp_mask::state | qp_mask::timeout | qp_mask::retry_cnt | qp_mask::rnr_retry |
                       qp_mask::sq_psn | qp_mask::max_rd_atomic);
}
int Rig::to_state(TestQp& qp, QpState s) {
  QpAttr attr;
  attr.state = s;
  return modify_qp(*hca, qp.qpn, attr, qp_mask::state);
}
void Rig::to_rts(TestQp& qp, Qpn peer, uint32_t access) {
  if (to_init(qp, access) != 0 || to_rtr(qp, peer) != 0 || to_rts_only(qp) != 0)
    stop("a queue does not come up");
}
QpState Rig::state(const TestQp& qp) {
  Result<QpAttr> attr = query_qp(*hca, qp.qpn);
  return attr ? attr->state : QpState::reset;
}

void Rig::run() {
  while (hca->run() != 0) {
  }
}
std::optional<Completion> Rig::wait(TestCq& cq) {
  for (int i = 0; i < 20'000; i++) {
    run();
    if (std::optional<Completion> c = cq.poll()) return c;
    timespec pause{0, 100'000};
    ::nanosleep(&pause, nullptr);
  }
  return std::nullopt;
}
Completion Rig::run_one(TestQp& qp, const Wqe& w) {
  qp.put(w);
  qp.ring(uar);
  std::optional<Completion> c = wait(&qp == &a ? cq_a : cq_b);
  if (!c) stop("no completion");
  return *c;
}

}  // namespace kilim::vhca::test
