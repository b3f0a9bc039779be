// SPDX-License-Identifier: BSD-3-Clause
#include "compat/domain.hh"

#include <cerrno>
#include <chrono>
#include <utility>

#include "compat/mapping.hh"
#include "compat/odp_uses.hh"
#include "compat/sentence.hh"
#include "mlx5/borrow.hh"
#include "mlx5/caps.hh"

namespace kilim::compat {
namespace {

constexpr uint32_t max_keys = 1u << 20;              // limit of Settings::max_keys
constexpr uint32_t entries = 16;                     // of a key, so that it spans up to 32 GiB
constexpr std::chrono::milliseconds patience{5000};  // longest wait for the adapter

// Locks the domain's mutex. At its end the next thread that locks it becomes the queue's owner
// (base/owner.hh).
class Turn {
 public:
  Turn(std::mutex& m, std::unique_ptr<port::MkeyQueue>& queue) noexcept : lock_(m), queue_(queue) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (queue_ != nullptr) queue_->release_owner();
  }

 private:
  std::lock_guard<std::mutex> lock_;
  std::unique_ptr<port::MkeyQueue>& queue_;
};

// True: access includes a right to write, so the memory must be writable.
bool writes(uint32_t access) noexcept {
  return (access & (mr::Access::all & ~mr::Access::remote_read)) != 0;
}

}  // namespace

Domain::~Domain() {
  drop_all();
}

int Domain::configure(const Settings& settings) {
  if (settings.keys == 0 || settings.max_keys < settings.keys || settings.max_keys > max_keys)
    return fail(EINVAL, "keys are 1 to 1048576, and the limit is not below what is made at once");
  if (!known_qp_types(settings.qp_types))
    return fail(EINVAL, "a type of queue pair that nobody knows");
  const std::lock_guard lock{mutex_};
  if (engine_ != nullptr)
    return fail(EBUSY, "the domain has had relaxed regions: it is configured before the first one");
  if (settings.on_demand) {
    Result<device::Caps> caps = mlx5::read_caps(context_);
    if (!caps) return fail(caps.error().code, caps.error().what);
    if (Status s = mr::odp_refusal(caps->odp, true, odp_uses_of(settings.qp_types)); !s)
      return fail(s.error().code, s.error().what);
  }
  settings_ = settings;
  return 0;
}

Status Domain::open() {
  Result<std::unique_ptr<device::Device>> device = mlx5::borrow(pd_);
  if (!device) return device.error();
  device_ = *std::move(device);
  auto queue = port::MkeyQueue::create(*device_, {.keys = settings_.keys,
                                                  .max_keys = settings_.max_keys,
                                                  .key = {.max_entries = entries},
                                                  .send_wqebbs = 512,
                                                  .access = mr::Access::all});
  if (!queue) return queue.error();
  queue_ = *std::move(queue);
  return open_engine();
}

// Makes the hidden objects at the first use, all of them or none.
int Domain::open_once() {
  if (engine_ != nullptr) return 0;
  const Status s = open();
  if (s) return 0;
  drop_all();
  return fail(s.error().code, s.error().what);
}

Status Domain::open_engine() {
  const device::Caps& caps = device_->caps();
  const uint32_t rights =
      caps.umr_atomic ? mr::Access::all : mr::Access::all & ~mr::Access::remote_atomic;
  auto engine = relaxed::Relaxed::create(queue_->binder(), {.keys = settings_.keys,
                                                            .registrar = &device_->registrar(),
                                                            .rights = rights,
                                                            .page_bytes = page_bytes});
  if (!engine) return engine.error();
  engine_ = *std::move(engine);
  if (!settings_.on_demand) return Done{};
  return engine_->cover().add_implicit(odp_uses_of(settings_.qp_types));
}

void Domain::drop_all() noexcept {
  if (queue_ != nullptr) queue_->release_owner();
  for (auto& [mr, live] : live_)
    if (live->region) engine_->deregister(std::move(live->region));
  live_.clear();
  engine_.reset();
  arenas_.clear();
  queue_.reset();
  down_ = false;
  retry_ = {};
  device_.reset();
}

bool Domain::close() {
  const Turn turn{mutex_, queue_};
  if (engine_ != nullptr) engine_->poll();
  if (!live_.empty() || (engine_ != nullptr && engine_->waiting() != 0)) return false;
  drop_all();
  return true;
}

relaxed::Answer Domain::append(const relaxed::Relaxed::Request& r, relaxed::Region& region) {
  engine_->cover().follow_eal();
  queue::WqeCursor c{queue_->sq()};
  const relaxed::Answer a = engine_->register_memory(c, r, region);
  engine_->commit(c);
  return a;
}

// If there is no key or no memory may be locked, flushes first: regions that wait for their
// invalidation hold both. If there is still no key, makes further ones.
relaxed::Answer Domain::append_or_make_room(const relaxed::Relaxed::Request& r,
                                            relaxed::Region& region) {
  using relaxed::Answer;
  Answer a = append(r, region);
  const bool locked =
      a == Answer::not_covered && (engine_->refusal() == ENOMEM || engine_->refusal() == EPERM);
  if ((a == Answer::dry || locked) && engine_->waiting() != 0 && settle()) a = append(r, region);
  if (a == Answer::dry && grow()) a = append(r, region);
  return a;
}

bool Domain::grow() {
  queue_->release_owner();
  if (!queue_->grow(settings_.keys)) return false;
  engine_->grow(queue_->keys());
  return true;
}

int Domain::refuse(const relaxed::Relaxed::Request& r, relaxed::Answer why) {
  if (why == relaxed::Answer::dry) {
    const bool limit = queue_->keys() == settings_.max_keys;
    return fail(EAGAIN, limit
                            ? "no key is free: as many as kilim_relaxed_config() allows are in use"
                            : "no key is free, and the adapter makes no further one");
  }
  const bool refused = why == relaxed::Answer::not_covered;
  return fail_over(reinterpret_cast<const void*>(r.address),
                   refused ? engine_->refusal() : relaxed::errno_of(why), relaxed::text(why));
}

// Waits until everything that was deregistered is invalidated and its keys are free. False: the
// adapter did not answer in time.
bool Domain::settle() {
  if (!is_up()) return false;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  bool flushed = engine_->flush();
  while (!flushed && std::chrono::steady_clock::now() < deadline) {
    if (!queue_->wait(patience) && !recover()) return false;
    flushed = engine_->flush();
  }
  for (int i = 0; i < 3; i++)
    engine_->poll();  // ends the epoch: no other worker or queue delays it
  return flushed;
}

// Whether the queue may be used. One that could not be brought back is tried again, each time after
// a longer pause.
bool Domain::is_up() {
  return !down_ || (retry_.due(port::Retry::now_ns()) && recover());
}

bool Domain::recover() {
  struct Sink {
    mkey::MkeyBinder& binder;
    void completed(const queue::Completion& c) noexcept { (void)binder.handle_completion(c); }
    void lost(uint64_t, bool) noexcept {}
  } sink{queue_->binder()};
  down_ = !queue_->recover(sink).ok();
  if (down_)
    retry_.failed(port::Retry::now_ns());
  else
    retry_ = {};
  return !down_;
}

ibv_mr* Domain::register_memory(void* memory, std::size_t bytes, int access) {
  const Turn turn{mutex_, queue_};
  if (open_once() != 0) return nullptr;
  constexpr uint32_t optional = IBV_ACCESS_OPTIONAL_RANGE;
  const relaxed::Relaxed::Request request{reinterpret_cast<uint64_t>(memory), bytes,
                                          static_cast<uint32_t>(access) & ~optional, 0};
  // Pinning fails for memory that is not mapped. On demand the adapter would fail at the first use.
  if (settings_.on_demand && !is_mapped(pages_of(memory, bytes), writes(request.access))) {
    (void)fail_over(memory, EFAULT, "the memory is not mapped throughout, or not writable");
    return nullptr;
  }
  if (!is_up()) {
    (void)fail(EIO,
               "the adapter did not take the queue that registers back to work; a later call tries "
               "it again");
    return nullptr;
  }
  auto live = std::make_unique<Live>();
  if (const relaxed::Answer a = append_or_make_room(request, live->region);
      a != relaxed::Answer::done) {
    (void)refuse(request, a);
    return nullptr;
  }
  if (!queue_->wait(patience) || !live->region.valid()) {
    (void)recover();
    engine_->deregister(std::move(live->region));
    (void)fail(EIO, "the adapter refused the registration");
    return nullptr;
  }
  live->mr.addr = memory;
  live->mr.length = bytes;
  return adopt(std::move(live));
}

// Completes the caller's view of a valid region, and keeps the region until deregister().
ibv_mr* Domain::adopt(std::unique_ptr<Live> live) {
  live->mr.context = context_;
  live->mr.pd = pd_;
  live->mr.lkey = live->region.lkey().value();
  live->mr.rkey = live->region.rkey().value();
  ibv_mr* mr = &live->mr;
  live_.emplace(mr, std::move(live));
  return mr;
}

int Domain::deregister(ibv_mr* mr) {
  const Turn turn{mutex_, queue_};
  const auto at = live_.find(mr);
  if (at == live_.end()) return fail(EINVAL, "this is no relaxed region, or no more");
  engine_->deregister(std::move(at->second->region));
  live_.erase(at);
  return 0;
}

int Domain::flush() {
  const Turn turn{mutex_, queue_};
  if (engine_ == nullptr || settle()) return 0;
  return fail(EIO, "the adapter does not invalidate the regions");
}

// Registers the arena with all rights, so that later regions of any rights lie in it; read-only
// memory with the right to remote reading.
int Domain::add_arena(void* memory, std::size_t bytes) {
  const Turn turn{mutex_, queue_};
  if (const int code = open_once(); code != 0) return code;
  const auto [begin, end] = pages_of(memory, bytes);
  if (bytes == 0 || end <= begin) return fail(EINVAL, "the memory is empty or wraps");
  if (arenas_.contains(memory)) return fail(EEXIST, "an arena begins there already");
  const std::span<std::byte> pages{reinterpret_cast<std::byte*>(begin), end - begin};
  mr::Registrar& registrar = device_->registrar();
  Result<mr::Mr> mr = mr::Mr::create(registrar, pages, mr::Access::all, page_bytes);
  if (!mr) mr = mr::Mr::create(registrar, pages, mr::Access::remote_read, page_bytes);
  if (!mr) return fail_over(memory, mr.error().code, "the memory cannot be registered");
  if (Status s = engine_->cover().add(mr->region()); !s)
    return fail(s.error().code, s.error().what);
  arenas_.emplace(memory, *std::move(mr));
  return 0;
}

int Domain::end_arena(void* memory) {
  const Turn turn{mutex_, queue_};
  const auto at = arenas_.find(memory);
  if (at == arenas_.end()) return fail(EINVAL, "no arena begins there");
  if (!settle()) return fail(EIO, "the adapter does not invalidate the regions");
  if (!engine_->cover().withdraw(at->second.region()))
    return fail(EBUSY, "relaxed regions lie in the arena, which takes no more of them");
  arenas_.erase(at);
  return 0;
}

int Domain::usable(const ibv_mr* mr, const ibv_qp* qp) {
  const Turn turn{mutex_, queue_};
  const auto at = live_.find(mr);
  if (at == live_.end()) return fail(EINVAL, "this is no relaxed region, or no more");
  const mr::OdpUse use = odp_use_of(qp->qp_type, qp->srq != nullptr);
  const Status s = at->second->region.usable(device_->caps().odp, {&use, 1});
  return s ? 0 : fail(s.error().code, s.error().what);
}

}  // namespace kilim::compat
