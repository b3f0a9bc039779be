// SPDX-License-Identifier: BSD-3-Clause
// Makes and unmakes the adapter, and its turn as threads see it. Numbers of objects start where the
// seed says. Adapter's lock held except where hca.hh says otherwise.
#include "vhca/hca/hca.hh"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "vhca/core/journal.hh"
#include "vhca/ethernet/eth.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/exec/opcodes.hh"
#include "vhca/hca/connections.hh"
#include "vhca/hca/scheduler.hh"
#include "vhca/memory/dma_guard.hh"
#include "vhca/transport/roce_port.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::hca {

namespace {
Addresses addresses_of(const HcaConfig& config) noexcept {
  const Profile& p = config.profile;
  Addresses a{config.mac, config.gid, p.lid, {}, 0, config.member, p.roce};
  // Without Ethernet there is no IP to put them into.
  if (a.lid != 0) return a;
  for (const PortIp& ip : config.ips) {
    if (a.ip_count == most_ips) break;
    if (ip.address != config.gid) a.ips[a.ip_count++] = ip.address;
  }
  return a;
}

constexpr uint32_t first_number(uint64_t seed, uint32_t lowest, unsigned shift) noexcept {
  return lowest + static_cast<uint32_t>(seed * 0x9e3779b97f4a7c15u >> shift & 0xffff);
}

// Of one of the processes that are one adapter, the numbers of queue pairs are those that it says.
constexpr uint32_t most_qps_of_member = 0x8000, lowest_qpn = 0x40;

uint32_t first_qpn(const HcaConfig& c) noexcept {
  if (c.member) return uint32_t{*c.member} << member_shift | lowest_qpn;
  return first_number(c.seed, lowest_qpn, 40);
}
uint32_t most_qps(const HcaConfig& c) noexcept {
  return c.member ? std::min(c.profile.max_qp, most_qps_of_member) : c.profile.max_qp;
}
}  // namespace

Hca::Hca(HcaConfig c)
    : exec::Engine(first_qpn(c), most_qps(c)),
      config(std::move(c)),
      addresses(addresses_of(config)),
      paging(keys),
      keys(config.seed, config.profile.max_mr),
      pds(first_number(config.seed, 0x10, 16), config.profile.max_pd),
      cqs(first_number(config.seed, 0x400, 28), config.profile.max_cq),
      srqs(first_number(config.seed, 0x200, 20), config.profile.max_srq),
      xrcds(first_number(config.seed, 0x10, 36), config.profile.max_xrcd),
      rqs(first_number(config.seed, 0x100, 24), config.profile.max_rq),
      rqts(first_number(config.seed, 0x20, 12), config.profile.max_rqt),
      tirs(first_number(config.seed, 0x80, 8), config.profile.max_tir),
      reserved_qpns(first_qpn(config) + most_qps(config)),
      domains(1, config.profile.max_transport_domains),
      tises(1, config.profile.max_tis),
      dm(config.profile, config.seed) {
  if (config.journal == nullptr) {
    own_journal = std::make_unique<Journal>();
    config.journal = own_journal.get();
  }
  context.keys = &keys;
  context.srqs = &srqs;
  context.ready = &ready;
  context.profile = &config.profile;
  context.addresses = &addresses;
  context.journal = config.journal;
  context.translator = {&keys, config.profile.max_indirection, &paging};
  eth.context = &context;
  if (config.profile.software_steering)
    eth.soft = std::make_shared<ethernet::SoftSteering>(tirs, flow_counters);
  roce.context = &context;
  roce.ready = &ready;
  roce.qps = &qps;
  roce.engine = static_cast<exec::Engine*>(this);
  roce.execute = exec::execute_here;
  fatal_at = config.fatal_at;
  context.failing = config.failing;
  paging.use_journal(*config.journal);
  set_lint(config.lint);
  if (!config.explain) return;
  explainer = std::make_unique<explain::Explainer>(explain::Explainer::Around{
      config.name.c_str(), config.journal, &keys, &config.profile, &qps, &context.now_ns});
  context.failures = explainer.get();
}

Hca::~Hca() = default;

Result<std::unique_ptr<Hca>> Hca::create(HcaConfig config) {
  if (!memory::dma::install())
    return Error{EPERM, "the signal handlers of the guarded copy are refused"};
  std::unique_ptr<Hca> hca(new Hca(std::move(config)));
  std::vector<wire::Wire*> wires;
  for (const std::unique_ptr<wire::Wire>& wire : hca->config.wires) wires.push_back(wire.get());
  ethernet::eth_open(hca->eth, wires);
  wires.resize(hca->eth.ports.size());
  transport::roce_open(hca->roce, std::move(wires));
  return hca;
}

std::size_t Hca::run(std::size_t budget) {
  return run_engine(*this, budget);
}

void Hca::wait_set(std::vector<int>& fds, uint64_t& deadline_ns) {
  if (eth.losses_news) ethernet::eth_show_losses(eth);  // a sleep may be long
  deadline_ns = next_deadline(*this);
  ethernet::eth_wait_set(eth, fds, deadline_ns);
}

bool Hca::idle() const noexcept {
  return lock.rests() && !uars.pending();
}

bool Hca::owes() const noexcept {
  return transport::roce_owes(roce);
}

void Hca::expect_stores() noexcept {
  stores_wait = true;
  lock.rest(false);
}

void Hca::tick_core_clock() noexcept {
  if (clock.shown()) clock.set(clock_ns());
}

// Regions on demand have no pages that stay, so the linter leaves them out by itself.
void Hca::set_lint(lint::LintMode mode) {
  config.lint = mode;
  if (mode == lint::LintMode::off) {
    context.observer = nullptr;
    qps.for_each([](wq::Qp& qp) { qp.watched = nullptr; });
    rqs.for_each([](wq::Qp& rq) { rq.watched = nullptr; });
    lint.reset();
    return;
  }
  lock.rest(false);
  if (lint) return lint->set_mode(mode);
  lint = std::make_unique<lint::Lint>(
      mode, lint::Lint::Around{config.name.c_str(), config.journal, &keys, &config.profile, &qps});
  context.observer = lint.get();
  keys.for_each([this](const tpt::Mkey& m) { lint->registered(m); });
  qps.for_each([this](wq::Qp& qp) { lint->join(qp); });
  rqs.for_each([this](wq::Qp& rq) { lint->join(rq); });
  srqs.for_each([this](const wq::Srq& srq) { lint->join(srq); });
}

void Hca::add_sink(EventSink* sink) {
  sinks.push_back(sink);
  eth.clients = sinks.size();
}

void Hca::remove_sink(EventSink* sink) {
  std::erase(sinks, sink);
  eth.clients = sinks.size();
}

}  // namespace kilim::vhca::hca
