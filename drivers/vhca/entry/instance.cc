// SPDX-License-Identifier: BSD-3-Clause
// Puts an adapter together and lets one thread at a time run it.

#include "vhca/entry/instance.hh"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <signal.h>
#include <time.h>

#include "vhca/core/lock.hh"
#include "vhca/core/order.hh"
#include "vhca/core/request_faults.hh"
#include "vhca/entry/port_ips.hh"
#include "vhca/explain/explainer.hh"
#include "vhca/hca/netdevs.hh"
#include "vhca/lint/lint.hh"
#include "vhca/memory/dma_guard.hh"
#include "vhca/tpt/odp_stats.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/port_netdev.hh"
#include "vhca/wire/slots.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::entry {
namespace {

Result<std::unique_ptr<Journal>> open_journal(const DeviceSpec& config) {
  if (config.journal.empty()) return std::make_unique<Journal>();
  const bool json = std::string_view(config.journal).ends_with(".json");
  return Journal::open(config.journal.c_str(), json ? Journal::Format::json : Journal::Format::text,
                       config.name);
}

Result<lint::LintMode> lint_mode(const DeviceSpec& config) {
  const char* word = config.lint.empty() ? ::getenv("KILIM_VHCA_LINT") : config.lint.c_str();
  if (word == nullptr || *word == '\0') return lint::LintMode::off;
  return lint::find_lint_mode(word);
}

Result<Order> order_of(const DeviceSpec& config) {
  const char* word = config.order.empty() ? ::getenv("KILIM_VHCA_ORDER") : config.order.c_str();
  if (word == nullptr || *word == '\0') return Order{};
  return find_order(word);
}

Result<bool> explains(const DeviceSpec& config) {
  const char* word =
      config.explain.empty() ? ::getenv("KILIM_VHCA_EXPLAIN") : config.explain.c_str();
  const std::string_view said = word == nullptr ? "" : word;
  if (said == "on" || said == "1") return true;
  if (said.empty() || said == "off" || said == "0") return false;
  return Error{EINVAL, "KILIM_VHCA_EXPLAIN, or explain=, is on or off"};
}

// Client memory is touched only where its faults can be caught. Asked of the kernel once in a
// while: threads rarely change these two signals.
bool faults_are_caught() noexcept {
  constexpr uint32_t calls_between_looks = 1024;
  thread_local uint32_t calls = 0;
  thread_local bool open = false;
  if (calls++ % calls_between_looks == 0) open = memory::dma::signals_open();
  return open;
}

// Which of the processes that are one adapter this is: the number of its slot.
Result<uint8_t> member_of(const wire::Wire& wire) noexcept {
  const std::optional<Mac> mac = wire.mac();
  const std::optional<uint32_t> slot = mac ? wire::slot_of(*mac) : std::nullopt;
  if (!slot) return Error{EINVAL, "only processes on a unix: wire can be one adapter"};
  if (*slot >= most_members) return Error{EBUSY, "255 processes are this adapter already"};
  return static_cast<uint8_t>(*slot);
}

// One for each port. A wire between processes tells them apart: they may be one program with one
// seed.
Status add_wires(const DeviceSpec& config, bool tells, hca::HcaConfig& to) {
  for (const std::string& spec : config.wires) {
    std::string why;
    auto wire = wire::make_wire(spec, &why);
    if (!wire.ok()) {
      if (tells) std::fprintf(stderr, "kilim-vhca: %s\n", why.c_str());
      return wire.error();
    }
    if (config.shared) {
      auto member = member_of(**wire);
      if (!member.ok()) return member.error();
      to.member = *member;
    }
    if (to.wires.empty() && config.mac.empty() && !config.shared)
      to.mac = (*wire)->mac().value_or(to.mac);
    to.wires.push_back(std::move(*wire));
  }
  return Done{};
}

// The kernel's interface beside port 1.
Status add_netdev(const DeviceSpec& config, bool tells, hca::Hca& hca) {
  if (config.netdev.empty()) return Done{};
  if (config.wires.empty() || config.shared)
    return Error{
        EINVAL,
        "netdev= needs a wire= of the device's own: an interface beside a port whose frames "
        "go nowhere would get none"};
  if (!wire::interface_of_wire(config.wires.front()).empty())
    return Error{EINVAL,
                 "netdev= needs another wire= than af_packet: and tap:, which are interfaces "
                 "themselves"};
  std::string why;
  auto netdev = wire::PortNetdev::create(config.netdev, hca.config.mac,
                                         hca.config.wires.front()->mtu(), &why);
  if (!netdev && tells) std::fprintf(stderr, "kilim-vhca: %s\n", why.c_str());
  if (!netdev) return netdev.error();
  const LockGuard guard(hca.lock);
  hca::use_netdev(hca, 1, *std::move(netdev));
  return Done{};
}

}  // namespace

Result<std::unique_ptr<Instance>> Instance::make(const DeviceSpec& config, const Profile& profile,
                                                 bool tells) {
  if (!memory::dma::install())
    return Error{ENOSYS, "cannot install the handler for bad client memory"};
  auto journal = open_journal(config);
  if (!journal.ok()) return journal.error();

  auto lint = lint_mode(config);
  if (!lint.ok()) return lint.error();
  auto order = order_of(config);
  if (!order.ok()) return order.error();
  auto explain = explains(config);
  if (!explain.ok()) return explain.error();
  RequestFaults failing;
  if (!config.failing.empty()) {
    const auto found = find_request_faults(config.failing);
    if (!found.ok()) return found.error();
    failing = *found;
  }

  hca::HcaConfig hca_config;
  hca_config.lint = *lint;
  hca_config.order = *order;
  hca_config.explain = *explain;
  hca_config.name = config.name;
  hca_config.profile = profile;
  hca_config.mac = mac_of(config);
  hca_config.gid = parse_gid(config.gid).value_or(Gid{});
  hca_config.seed = config.seed;
  hca_config.fatal_at = config.fatal_at;
  hca_config.failing = failing;
  const Status wired = add_wires(config, tells, hca_config);
  if (!wired.ok()) return wired.error();
  hca_config.ips = ips_of(config);  // behind the wires: a tap: is there now
  hca_config.journal = journal->get();
  auto hca = hca::Hca::create(std::move(hca_config));
  if (!hca.ok()) return hca.error();

  std::unique_ptr<Instance> instance(new Instance);
  instance->wires_.reserve(AdapterWait::most);
  instance->journal_ = std::move(*journal);
  instance->hca_ = std::move(*hca);
  if (Status s = add_netdev(config, tells, *instance->hca_); !s) return s.error();
  if (config.progress == Progress::thread) {
    instance->thread_ = std::make_unique<ProgressThread>(*instance->hca_);
    if (!instance->thread_->start()) {
      return Error{EAGAIN, "cannot start the virtual device's thread"};
    }
  }
  return instance;
}

std::size_t Instance::poll(std::size_t budget) noexcept {
  if (inherited_) return 0;
  if (hca_->idle()) {
    if (thread_) thread_->client_polled();
    hca_->tick_core_clock();
    return 0;
  }
  sigset_t faults, before;
  const bool caught = faults_are_caught();
  if (!caught) {
    // Without a thread of the adapter nobody else would do the work.
    if (thread_) return 0;
    sigemptyset(&faults);
    sigaddset(&faults, SIGSEGV);
    sigaddset(&faults, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &faults, &before);
  }
  if (thread_) thread_->client_polled();
  std::size_t did = 0;
  if (hca_->lock.try_lock()) {
    if (thread_) thread_->client_turns();
    did = hca_->run(budget);
    hca_->lock.unlock();
  }
  if (!caught) pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return did;
}

std::size_t Instance::poll_for_client() noexcept {
  return poll(256);
}

// A thread of the adapter waits itself. Wires wake who asked since the last turn, so this comes
// behind one; a doorbell that it has not seen is found in the pages.
bool Instance::wait_for(AdapterWait& wait) noexcept {
  if (inherited_ || thread_) return true;
  const LockGuard guard(hca_->lock);
  wires_.clear();
  hca_->wait_set(wires_, wait.deadline_ns);
  if (wires_.size() > AdapterWait::most || wait.deadline_ns == 0 || hca_->uars.pending())
    return false;
  for (const int fd : wires_) wait.fds[wait.count++] = fd;
  return true;
}

void Instance::shared() noexcept {
  if (thread_) thread_->look_often();
}

void Instance::mapped(void* page, std::size_t length) noexcept {
  if (thread_) thread_->watch(page, length);
}

void Instance::settle() noexcept {
  constexpr timespec pause{0, 200'000};
  constexpr int pauses = 250;
  for (int i = 0; i < pauses && !inherited_; i++) {
    bool owes = false;
    {
      const LockGuard guard(hca_->lock);
      if (hca_->owes()) hca_->run(0);
      owes = hca_->owes();
    }
    if (!owes) return;
    ::nanosleep(&pause, nullptr);
  }
}

bool Instance::close_journal() noexcept {
  const LockGuard guard(hca_->lock);
  if (hca_->explainer) hca_->explainer->sum_up();
  hca_->paging.note_invalidations();
  hca_->paging.stats().leave();
  journal_->close();
  return !journal_->failed();
}

void Instance::before_fork() noexcept {
  hca_->lock.lock();
  if (thread_) thread_->before_fork();
}

void Instance::after_fork_in_parent() noexcept {
  if (thread_) thread_->after_fork_in_parent();
  hca_->lock.unlock();
}

void Instance::after_fork_in_child() noexcept {
  if (thread_) thread_->after_fork_in_child();
  hca_->lock.reset_after_fork();
  inherited_ = true;
}

}  // namespace kilim::vhca::entry
