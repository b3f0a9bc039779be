// SPDX-License-Identifier: BSD-3-Clause
#include "compat/domain.hh"

#include <cerrno>
#include <chrono>

#include "compat/sentence.hh"
#include "mlx5/borrow.hh"

namespace kilim::compat {
namespace {

constexpr uint32_t keys = 1024;
constexpr uint32_t entries = 16;  // of 2 GiB each
constexpr std::chrono::milliseconds patience{5000};

// Hands the queue over to the next thread that has the mutex.
class Turn {
 public:
  Turn(std::mutex& m, std::unique_ptr<port::KeyQueue>& queue) noexcept : lock_(m), queue_(queue) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (queue_ != nullptr) queue_->release_owner();
  }

 private:
  std::lock_guard<std::mutex> lock_;
  std::unique_ptr<port::KeyQueue>& queue_;
};

}  // namespace

Domain::~Domain() {
  close();
}

Status Domain::open() {
  Result<std::unique_ptr<device::Device>> device = mlx5::borrow(pd_);
  if (!device) return device.error();
  device_ = *std::move(device);
  auto queue = port::KeyQueue::create(*device_, {.keys = keys,
                                                 .key = {.max_entries = entries},
                                                 .send_wqebbs = 512,
                                                 .access = mr::Access::all});
  if (!queue) return queue.error();
  queue_ = *std::move(queue);
  return open_engine();
}

Status Domain::open_engine() {
  const device::Caps& caps = device_->caps();
  const uint32_t rights =
      caps.umr_atomic ? mr::Access::all : mr::Access::all & ~mr::Access::remote_atomic;
  auto engine = relaxed::Relaxed::create(
      queue_->loom(), {.keys = keys, .registrar = &device_->registrar(), .rights = rights});
  if (!engine) return engine.error();
  engine_ = *std::move(engine);
  // Without it memory is pinned, arena by arena.
  if (caps.odp.implicit) (void)engine_->cover().add_implicit({});
  return Done{};
}

void Domain::close() noexcept {
  if (queue_ != nullptr) queue_->release_owner();
  for (auto& [mr, live] : live_)
    if (live->region) engine_->deregister(std::move(live->region));
  live_.clear();
  engine_.reset();
  queue_.reset();
  device_.reset();
  closed_ = true;
}

relaxed::Answer Domain::append(const relaxed::Relaxed::Request& r, relaxed::Region& region) {
  queue::WqeCursor c{queue_->sq()};
  const relaxed::Answer a = engine_->register_memory(c, r, region);
  engine_->commit(c);
  return a;
}

// All that was deregistered is invalidated, and its keys are back.
bool Domain::settle() {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  bool flushed = engine_->flush();
  while (!flushed && std::chrono::steady_clock::now() < deadline) {
    if (!queue_->wait(patience)) recover();
    flushed = engine_->flush();
  }
  for (int i = 0; i < 3; i++) engine_->turn();  // no other worker, no other queue
  return flushed;
}

void Domain::recover() {
  struct Sink {
    umr::Loom& loom;
    void completed(const queue::Completion& c) noexcept { (void)loom.completed(c); }
    void lost(uint64_t, bool) noexcept {}
  } sink{queue_->loom()};
  (void)queue_->recover(sink);
}

ibv_mr* Domain::register_memory(void* memory, std::size_t bytes, int access, bool& gone) {
  const Turn turn{mutex_, queue_};
  gone = closed_;
  if (gone) return nullptr;
  if (engine_ == nullptr) {
    if (Status s = open(); !s) {
      close();
      closed_ = false;
      (void)fail(s.error().code, s.error().what);
      return nullptr;
    }
  }
  constexpr uint32_t optional = IBV_ACCESS_OPTIONAL_RANGE;
  const relaxed::Relaxed::Request request{reinterpret_cast<uint64_t>(memory), bytes,
                                          static_cast<uint32_t>(access) & ~optional, 0};
  auto live = std::make_unique<Live>();
  relaxed::Answer answer = append(request, live->region);
  if (answer == relaxed::Answer::dry && settle()) answer = append(request, live->region);
  if (answer != relaxed::Answer::done) {
    const bool refused = answer == relaxed::Answer::not_covered;
    (void)fail_over(memory, refused ? engine_->refusal() : relaxed::errno_of(answer),
                    relaxed::text(answer));
    return nullptr;
  }
  if (!queue_->wait(patience) || !live->region.valid()) {
    recover();
    engine_->deregister(std::move(live->region));
    (void)fail(EIO, "the adapter refused the registration");
    return nullptr;
  }
  live->mr.context = pd_->context;
  live->mr.pd = pd_;
  live->mr.addr = memory;
  live->mr.length = bytes;
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

int Domain::flush(bool& closed) {
  const Turn turn{mutex_, queue_};
  closed_ = closed = closed_ || engine_ == nullptr;
  if (closed) return 0;
  if (!settle()) return fail(EIO, "the adapter does not invalidate the regions");
  if (live_.empty()) close();
  closed = closed_;
  return 0;
}

}  // namespace kilim::compat
