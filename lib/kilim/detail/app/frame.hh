// SPDX-License-Identifier: BSD-3-Clause
// Frame: the objects of a running program: arena, pool, lanes, started ports. Control lcore; EAL is
// up. The destructor stops the ports and gives everything back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kilim/detail/app/lane.hh"
#include "kilim/detail/app/program.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/worker/quiescence.hh"

namespace kilim::inline v1::app {

class Frame {
 public:
  // Starts the ports, which outlive the frame, for lanes on these lcores. `program` outlives it
  // too. EINVAL: no port or lcore, a burst out of range, more lcores than a port has transmit
  // queues; or an error of the pool, the port, the worker.
  static Result<std::unique_ptr<Frame>> create(std::span<port::Port* const> ports,
                                               std::span<const uint32_t> lcores,
                                               const Program& program);
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame();

  [[nodiscard]] std::span<port::Port* const> ports() const noexcept { return ports_; }
  [[nodiscard]] std::span<const std::unique_ptr<Lane>> lanes() const noexcept { return lanes_; }
  [[nodiscard]] worker::Quiescence& quiescence() noexcept { return *quiescence_; }
  [[nodiscard]] pool::Pool& pool() noexcept { return *pool_; }

  // Control lcore, while the workers run or not: another lane serves a port's receive queue. The
  // lane that had it has left it when the other takes it, and frames go on coming: none is lost,
  // and a flow's keep their order on the way in. What the first lane sent and the second sends
  // leaves by two transmit queues. EINVAL: no such port, queue or lane.
  Status move(uint32_t port, uint32_t queue, uint32_t lane);

  // Any thread while the workers run. Tells every lane to receive no more; whether all that was
  // sent has left; ends the workers' loops.
  void drain() noexcept;
  [[nodiscard]] bool drained() const noexcept;
  void stop() noexcept;

 private:
  explicit Frame(const Program& program) noexcept : program_(program) {}
  Status make(std::span<const uint32_t> lcores);
  Status make_buffers(std::size_t lanes);
  void make_lanes(std::span<const uint32_t> lcores);
  Status start(port::Port& port, uint32_t number);
  Status make_worker(Lane& lane);
  Status move(Lane& from, Lane& to, std::ptrdiff_t at);
  void warn_of_far_lanes() const;
  [[nodiscard]] port::QueueSizes sizes_of(const port::Port& port, std::size_t lanes) const noexcept;

  const Program& program_;
  std::vector<port::Port*> ports_;
  std::optional<pool::ArenaMemory> memory_;
  std::optional<pool::Pool> pool_;
  std::optional<worker::Quiescence> quiescence_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace kilim::inline v1::app
