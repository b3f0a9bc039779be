// SPDX-License-Identifier: BSD-3-Clause
// The adapter's calls: each finds its object and hands on. Adapter's lock held except where hca.hh
// says otherwise.
#include "vhca/hca/hca.hh"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "vhca/core/journal.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/hca/fatal.hh"
#include "vhca/hca/modify_qp.hh"
#include "vhca/hca/objects.hh"
#include "vhca/hca/scheduler.hh"
#include "vhca/hca/shared_receive.hh"
#include "vhca/hca/state.hh"
#include "vhca/memory/dma_guard.hh"
#include "vhca/transport/groups.hh"
#include "vhca/transport/roce_port.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca {

namespace {
constexpr std::size_t commands_wait_for = 256;  // requests and frames
}  // namespace

Hca::Hca(std::unique_ptr<HcaState> state) : state_(std::move(state)) {}
Hca::~Hca() = default;

Result<std::unique_ptr<Hca>> Hca::create(HcaConfig config) {
  if (!dma::install()) return Error{EPERM, "the signal handlers of the guarded copy are refused"};
  auto state = std::make_unique<HcaState>(std::move(config));
  std::vector<Wire*> wires;
  for (const std::unique_ptr<Wire>& wire : state->config.wires) wires.push_back(wire.get());
  eth_open(state->eth, wires);
  wires.resize(state->eth.ports.size());
  roce_open(state->roce, std::move(wires));
  return std::unique_ptr<Hca>(new Hca(std::move(state)));
}

Lock& Hca::lock() noexcept {
  return state_->lock;
}
const Profile& Hca::profile() const noexcept {
  return state_->config.profile;
}
const std::string& Hca::name() const noexcept {
  return state_->config.name;
}
Journal& Hca::journal() noexcept {
  return *state_->context.journal;
}
HcaState& Hca::state() noexcept {
  return *state_;
}

Result<Pdn> Hca::alloc_pd() {
  if (state_->context.dead) return Error{EIO, "the adapter is dead"};
  uint32_t number = 0;
  if (state_->pds.create(number) == nullptr)
    return Error{ENOMEM, "the adapter has no more protection domains"};
  return Pdn{number};
}

int Hca::dealloc_pd(Pdn pd) {
  Pd* p = state_->pds.at(pd.value());
  if (p == nullptr) return -EINVAL;
  if (p->users != 0 || state_->keys.uses(pd)) return -EBUSY;
  state_->pds.destroy(pd.value());
  return 0;
}

Result<MrKeys> Hca::reg_mr(const MrSpec& spec) {
  if (state_->context.dead) return Error{EIO, "the adapter is dead"};
  return vhca::reg_mr(*state_, spec);
}

int Hca::rereg_mr(MkeyIndex index, const MrSpec& spec) {
  if (state_->context.dead) return -EIO;
  state_->paging.finish(index.value());
  return vhca::rereg_mr(*state_, index, spec);
}

int Hca::advise_mr(const Advice& a) {
  if (!state_->config.profile.odp || a.advice > 2) return -EOPNOTSUPP;
  std::vector<Segment> list;
  for (const Advice::Range& r : a.list) list.push_back({r.address, r.bytes, r.lkey, false});
  return state_->paging.advise({a.pd, static_cast<Paging::Advice>(a.advice), a.flush, list});
}

OdpStats& Hca::odp_stats() noexcept {
  return state_->paging.stats();
}

void Hca::note_invalidations() noexcept {
  state_->paging.note_invalidations();
}

Result<Rkey> Hca::alloc_mw(Pdn pd, bool type2) {
  if (state_->context.dead) return Error{EIO, "the adapter is dead"};
  return vhca::alloc_mw(*state_, pd, type2);
}

int Hca::dealloc_mw(MkeyIndex index) {
  return state_->keys.destroy(index) == 0 ? 0 : -EINVAL;
}

int Hca::dereg_mr(MkeyIndex index) {
  state_->paging.finish(index.value());
  if (state_->lint) state_->lint->deregistered(index.value());
  return state_->keys.destroy(index) == 0 ? 0 : -EINVAL;
}

uint32_t Hca::enter_dm() noexcept {
  return state_->dm.enter();
}

void Hca::leave_dm(uint32_t open) noexcept {
  state_->dm.leave(open);
}

Result<DmBlock> Hca::alloc_dm(uint64_t bytes, uint32_t log_alignment, uint32_t open) {
  if (state_->context.dead) return Error{EIO, "the adapter is dead"};
  return state_->dm.alloc({bytes, log_alignment, open});
}

void Hca::free_dm(DmBlock& block, uint32_t open) noexcept {
  state_->dm.free(block, open);
}

Result<MrKeys> Hca::reg_dm_mr(const DmMrSpec& spec) {
  if (state_->context.dead) return Error{EIO, "the adapter is dead"};
  return vhca::reg_dm_mr(*state_, spec);
}

Result<Cqn> Hca::create_cq(const CqSpec& spec, EventSink* sink) {
  if (state_->context.dead) return Error{EIO, "the adapter is dead"};
  return vhca::create_cq(*state_, spec, sink);
}

int Hca::resize_cq(Cqn cqn, Va buf, uint32_t cqe_count) {
  if (state_->context.dead) return -EIO;
  // What was asked for before is done before: on a card a command takes longer than any request.
  run(commands_wait_for);
  return vhca::resize_cq(*state_, cqn, buf, cqe_count);
}

int Hca::moderate_cq(Cqn cqn, uint16_t count, uint16_t period_us) {
  return vhca::moderate_cq(*state_, cqn, count, period_us);
}

int Hca::destroy_cq(Cqn cqn) {
  return vhca::destroy_cq(*state_, cqn);
}

Result<Qpn> Hca::create_qp(const QpSpec& spec, EventSink* sink) {
  if (state_->context.dead) return Error{EIO, "the adapter is dead"};
  return vhca::create_qp(*state_, spec, sink);
}

int Hca::modify_qp(Qpn qpn, const QpAttr& attr, uint32_t mask) {
  Qp* qp = state_->qps.at(qpn.value());
  if (qp == nullptr) return -EINVAL;
  // mlx5_core lets a dead card's queues be ended, nothing else.
  bool ends = attr.state == QpState::reset || attr.state == QpState::err;
  if (state_->context.dead && ((mask & qp_mask::state) == 0 || !ends)) return -EIO;
  return vhca::modify_qp(*state_, *qp, attr, mask);
}

Result<QpAttr> Hca::query_qp(Qpn qpn) {
  Qp* qp = state_->qps.at(qpn.value());
  if (qp == nullptr) return Error{EINVAL, "no such queue pair"};
  if (state_->context.dead) return Error{EIO, "the adapter is dead"};
  QpAttr attr = qp->attr;
  attr.state = attr.cur_state = qp->state;
  attr.sq_draining = qp->state == QpState::sqd && !qp->sq_drained ? 1 : 0;
  return attr;
}

int Hca::open_qp(Qpn qpn, uint32_t xrcd, const QpHandle& handle) {
  return state_->context.dead ? -EIO : vhca::open_qp(*state_, qpn, xrcd, handle);
}

int Hca::destroy_qp(Qpn qpn, const void* owner) {
  return close_qp_handle(*state_, qpn, owner) ? 0 : vhca::destroy_qp(*state_, qpn);
}

Result<uint32_t> Hca::create_srq(const SrqSpec& spec, EventSink* sink) {
  if (state_->context.dead) return Error{EIO, "the adapter is dead"};
  return vhca::create_srq(*state_, spec, sink);
}

int Hca::set_srq_limit(uint32_t srqn, uint32_t limit) {
  return state_->context.dead ? -EIO : vhca::set_srq_limit(*state_, srqn, limit);
}

Result<uint32_t> Hca::query_srq_limit(uint32_t srqn) {
  const Srq* srq = state_->srqs.at(srqn);
  if (srq == nullptr) return Error{EINVAL, "no such shared receive queue"};
  if (state_->context.dead) return Error{EIO, "the adapter is dead"};
  return uint32_t{srq->limit};
}

int Hca::destroy_srq(uint32_t srqn) {
  return vhca::destroy_srq(*state_, srqn);
}

Result<uint32_t> Hca::open_xrcd(const XrcdSpec& spec) {
  if (state_->context.dead) return Error{EIO, "the adapter is dead"};
  return vhca::open_xrcd(*state_, spec);
}

int Hca::close_xrcd(uint32_t xrcd) {
  return vhca::close_xrcd(*state_, xrcd);
}

int Hca::join_group(Qpn qpn, const Gid& gid) {
  Qp* qp = state_->qps.at(qpn.value());
  if (qp == nullptr) return -EINVAL;
  return state_->context.dead
             ? -EIO
             : vhca::join_group(state_->roce.groups, state_->config.profile.max_group_members, *qp,
                                gid);
}

int Hca::leave_group(Qpn qpn, const Gid& gid) {
  Qp* qp = state_->qps.at(qpn.value());
  return qp == nullptr ? -EINVAL : vhca::leave_group(state_->roce.groups, *qp, gid);
}

void Hca::leave_groups(Qpn qpn) {
  if (Qp* qp = state_->qps.at(qpn.value())) vhca::leave_groups(state_->roce.groups, *qp);
}

bool Hca::in_group(Qpn qpn) const {
  const Qp* qp = state_->qps.at(qpn.value());
  return qp != nullptr && qp->groups != 0;
}

Result<uint32_t> Hca::create_flow(Qpn qpn, const FlowSpec& spec) {
  Qp* qp = state_->qps.at(qpn.value());
  if (qp == nullptr || qp->type != QpType::raw_packet)
    return Error{EINVAL, "flows lead to raw packet queues"};
  if (state_->context.dead) return Error{EIO, "the adapter is dead"};
  return eth_create_flow(state_->eth, *qp, spec);
}

int Hca::destroy_flow(uint32_t rule) {
  return eth_destroy_flow(state_->eth, rule);
}

PortCounters Hca::port_counters(uint32_t port) {
  return eth_port_counters(state_->eth, port);
}

void Hca::show_out_of_buffer(std::atomic<uint64_t>& sum, char* text) noexcept {
  eth_port(state_->eth, 1).out_of_buffer.use(sum, text);
}

Result<PortAttr> Hca::query_port(uint32_t port) {
  if (port == 0 || port > std::max<std::size_t>(1, state_->config.wires.size()))
    return Error{EINVAL, "no such port"};
  if (state_->context.dead) return Error{EIO, "the adapter is dead"};
  PortAttr attr;
  attr.log_max_msg = state_->config.profile.log_max_msg;
  if (port <= state_->config.wires.size() && state_->config.wires[port - 1] != nullptr) {
    attr.mtu = roce_mtu(state_->config.wires[port - 1]->mtu());
    attr.interface = state_->config.wires[port - 1]->interface();
  }
  attr.gid_count = state_->config.profile.gid_table_len;
  attr.mac = state_->config.mac;
  attr.lid = state_->config.profile.lid;
  attr.node = state_->config.node == Mac{} ? attr.mac : state_->config.node;
  return attr;
}

Result<Gid> Hca::query_gid(uint32_t port, uint32_t index) {
  if (port == 0 || port > std::max<std::size_t>(1, state_->config.wires.size()))
    return Error{EINVAL, "no such port"};
  if (index >= state_->config.profile.gid_table_len) return Error{EINVAL, "no such GID index"};
  Gid gid;
  if (!port_gid(state_->addresses, index, gid)) return Error{ENODATA, "an empty GID entry"};
  return gid;
}

std::optional<Mac> Hca::find_neighbour(uint32_t port, const Gid& gid) {
  const auto& wires = state_->config.wires;
  if (port == 0 || port > wires.size() || wires[port - 1] == nullptr) return std::nullopt;
  return wires[port - 1]->find(gid);
}

Result<Hca::UarPage> Hca::alloc_uar() {
  if (state_->context.dead) return Error{EIO, "the adapter is dead"};
  Result<Uar*> uar = state_->uars.alloc();
  if (!uar) return uar.error();
  return UarPage{(*uar)->index, (*uar)->fd.get(), 0};
}

int Hca::free_uar(uint32_t index) {
  return state_->uars.free(index);
}

int Hca::core_clock_page() {
  return state_->clock.fd();
}

void Hca::tick_core_clock() noexcept {
  if (state_->clock.shown()) state_->clock.set(clock_ns());
}

std::size_t Hca::run(std::size_t budget) {
  return run_engine(*state_, budget);
}

void Hca::set_executing(bool on) noexcept {
  state_->executing = on;
}

void Hca::wait_set(std::vector<int>& fds, uint64_t& deadline_ns) const {
  deadline_ns = next_deadline(*state_);
  eth_wait_set(state_->eth, fds, deadline_ns);
}

bool Hca::owes() const noexcept {
  return roce_owes(state_->roce);
}

bool Hca::doorbell_pending() const noexcept {
  return state_->uars.pending();
}

void Hca::stores_wait() noexcept {
  state_->stores_wait = true;
  state_->lock.rest(false);
}

uint64_t Hca::doorbells_seen() const noexcept {
  return state_->doorbells.load(std::memory_order_relaxed);
}

bool Hca::idle() const noexcept {
  return state_->lock.rests() && !state_->uars.pending();
}

std::span<const std::span<std::byte>> Hca::uar_pages() const noexcept {
  return state_->uars.pages();
}

void Hca::add_sink(EventSink* sink) {
  state_->sinks.push_back(sink);
  state_->eth.clients = state_->sinks.size();
}

void Hca::remove_sink(EventSink* sink) {
  std::erase(state_->sinks, sink);
  state_->eth.clients = state_->sinks.size();
}

void Hca::fatal() {
  die(*state_);
}

bool Hca::is_dead() const noexcept {
  return state_->context.dead;
}

}  // namespace kilim::vhca
