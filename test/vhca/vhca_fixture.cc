// SPDX-License-Identifier: BSD-3-Clause
// The test client of the engine.
#include "vhca_fixture.hh"

#include <cstdio>
#include <cstdlib>

#include <sys/mman.h>
#include <time.h>

#include "far.hh"
#include "kilim/detail/base/units.hh"
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
  const tpt::PageLock lock;
}

unsigned Events::of(uint32_t type) const noexcept {
  unsigned n = 0;
  for (std::size_t i = 0; i < count; i++) n += log[i].first == type ? 1u : 0u;
  return n;
}

lint::LintMode lint_of_environment() {
  const char* word = std::getenv("KILIM_VHCA_LINT");
  Result<lint::LintMode> mode = lint::find_lint_mode(word == nullptr ? "off" : word);
  return mode.ok() ? *mode : lint::LintMode::off;
}

namespace {
std::byte* map_uar(hca::Hca& hca, uint32_t& index) {
  const hca::Uar& page = **hca.uars.alloc();
  index = page.index;
  void* p = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page.fd.get(), 0);
  if (p == MAP_FAILED) stop("no UAR");
  return static_cast<std::byte*>(p);
}
}  // namespace

// An initiator has streams; a target takes its receives from a shared queue over what would be
// its own ring.
void Rig::make_dynamic(QpSpec& spec) {
  if (spec.type == QpType::dci) spec.failing_streams = 4;
  if (spec.type == QpType::dct) {
    SrqSpec shared;
    shared.pd = pd;
    shared.buf = spec.buf;
    shared.record = spec.record;
    shared.wqes = spec.rq_wqes;
    shared.wqe_shift = spec.rq_wqe_shift;
    spec.srqn = *hca::create_srq(*hca, shared, &events);
    spec.dc_key = dc_key;
    spec.sq_wqebbs = 0;
  }
  if (spec.type == QpType::dci || spec.type == QpType::dct) spec.rq_wqes = 0;
}

hca::HcaConfig Rig::config_of(const RigShape& shape) {
  hca::HcaConfig config{.name = "vhca0", .profile = shape.profile};
  config.mac = shape.mac;
  if (!shape.wire.empty()) {
    Result<std::unique_ptr<wire::Wire>> wire = wire::make_wire(shape.wire);
    if (!wire) stop(wire.error().what);
    config.wires.push_back(std::move(*wire));
  }
  if (shape.own_wire != nullptr) config.wires.emplace_back(shape.own_wire);
  config.seed = shape.seed;
  config.journal = shape.journal != nullptr ? shape.journal : &journal;
  config.lint = shape.lint;
  config.order = shape.order;
  config.explain = shape.explain;
  config.fatal_at = shape.fatal_at;
  return config;
}

void Rig::make_cq(TestCq& cq) {
  CqSpec spec;
  spec.buf = cq.memory.va();
  spec.record = cq.record.va();
  spec.cqe_count = cq.entries;
  spec.cqe_bytes = cq.entry_bytes;
  spec.uar_page = uar_page;
  spec.owner = &cq;
  cq.cqn = *hca::create_cq(*hca, spec, &events);
}

void Rig::make_qp(TestQp& qp, Cqn cqn, uint32_t uidx) {
  QpSpec spec;
  spec.type = qp.shape.type;
  spec.pd = pd;
  spec.send_cq = spec.recv_cq = cqn;
  spec.buf = qp.rings.va();
  spec.sq_buf = qp.sq.va();
  spec.record = qp.record.va();
  spec.sq_wqebbs = qp.shape.sq_wqebbs;
  spec.rq_wqes = qp.shape.rq_wqes;
  spec.rq_wqe_shift = qp.shape.rq_wqe_shift;
  spec.rq_signature = qp.shape.rq_signature;
  spec.uar_page = uar_page;
  spec.uidx = uidx;
  spec.owner = &qp;
  if (qp.shape.tags != 0) share_receives(*hca, qp, spec);
  make_dynamic(spec);
  Result<Qpn> qpn = hca::create_qp(*hca, spec, &events);
  if (!qpn) stop(qpn.error().what);
  qp.qpn = *qpn;
}

Rig::Rig(const RigShape& shape)
    : cq_a(shape.cq_entries, shape.cqe_bytes),
      cq_b(shape.cq_entries, shape.cqe_bytes),
      a(shape.a),
      b(shape.b) {
  Result<std::unique_ptr<hca::Hca>> made = hca::Hca::create(config_of(shape));
  if (!made) stop(made.error().what);
  hca = std::move(*made);
  pd = *hca::alloc_pd(*hca);
  uar = map_uar(*hca, uar_page);
  make_cq(cq_a);
  make_cq(cq_b);
  make_qp(a, cq_a.cqn, 0xa);
  make_qp(b, cq_b.cqn, 0xb);
  if (!shape.connect) return;
  to_rts(a, b.qpn);
  to_rts(b, a.qpn);
}

Rig::~Rig() {
  if (uar != nullptr) ::munmap(uar, 4096);
}

MrKeys Rig::reg(Va start, uint64_t bytes, uint32_t access) {
  MrSpec spec{pd, start, bytes, Iova{start.value()}, access};
  Result<MrKeys> keys = hca::reg_mr(*hca, spec);
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
  Result<tpt::Mkey*> m = hca->keys.create_mkey(mkc, {}, hca->config.profile);
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
  return hca::modify_qp(*hca, qp.qpn, attr, mask);
}
int Rig::to_rtr(TestQp& qp, Qpn peer) {
  QpAttr attr;
  attr.state = QpState::rtr;
  if (qp.shape.type == QpType::raw_packet)
    return hca::modify_qp(*hca, qp.qpn, attr, qp_mask::state);
  attr.path_mtu = 5;
  attr.dest_qpn = peer;
  attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = 1;
  attr.path.is_global = true;
  attr.path.port = 1;
  port_gid(test_mac, 0, attr.path.dgid);
  uint32_t answers = qp_mask::max_dest_rd_atomic | qp_mask::min_rnr_timer;
  if (qp.shape.type == QpType::xrc_ini) answers = 0;
  return hca::modify_qp(*hca, qp.qpn, attr,
                        answers | qp_mask::state | qp_mask::path | qp_mask::path_mtu |
                            qp_mask::dest_qpn | qp_mask::rq_psn);
}
int Rig::to_rts_only(TestQp& qp) {
  QpAttr attr;
  attr.state = QpState::rts;
  if (qp.shape.type == QpType::raw_packet)
    return hca::modify_qp(*hca, qp.qpn, attr, qp_mask::state);
  attr.timeout = 2;  // 16 microseconds
  attr.retry_cnt = 2;
  attr.rnr_retry = 3;
  attr.max_rd_atomic = 16;
  return hca::modify_qp(*hca, qp.qpn, attr,
                        qp_mask::state | qp_mask::timeout | qp_mask::retry_cnt |
                            qp_mask::rnr_retry | qp_mask::sq_psn | qp_mask::max_rd_atomic);
}
int Rig::to_state(TestQp& qp, QpState s) {
  QpAttr attr;
  attr.state = s;
  return hca::modify_qp(*hca, qp.qpn, attr, qp_mask::state);
}
void Rig::to_rts(TestQp& qp, Qpn peer, uint32_t access) {
  if (to_init(qp, access) != 0 || to_rtr(qp, peer) != 0 || to_rts_only(qp) != 0)
    stop("a queue does not come up");
}
QpState Rig::state(const TestQp& qp) {
  Result<QpAttr> attr = hca::query_qp(*hca, qp.qpn);
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
