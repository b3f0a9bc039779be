// SPDX-License-Identifier: BSD-3-Clause
// Forwarder: the objects of a run: arena and pools, ports with their queues, streams spread over
// workers. Made, started and stopped on the main lcore; the destructor releases everything.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "forward.hh"
#include "kilim/worker/worker.hh"
#include "options.hh"

namespace kilim::testpmd {

// A worker and the objects that belong to its lcore.
struct Lane {
  uint32_t lcore = 0;
  std::unique_ptr<pool::BufferCache> cache;
  std::unique_ptr<pool::BufferCache> headers;  // modes umr and split
  std::vector<std::unique_ptr<Stream>> streams;
  std::unique_ptr<worker::Worker> worker;
};

// A step of set-up that an error ended.
Exit failed(const std::string& about, const Error& e);

class Forwarder {
 public:
  // Checks `stop` between steps, so that a signal during set-up ends it.
  static std::variant<std::unique_ptr<Forwarder>, Exit> create(const Options& options,
                                                               const bool volatile& stop);
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;
  ~Forwarder();

  [[nodiscard]] std::span<port::Port* const> ports() const noexcept { return ports_; }
  [[nodiscard]] std::span<Lane> lanes() noexcept { return lanes_; }
  [[nodiscard]] const Engine& engine() const noexcept { return *engine_; }
  // Mode split: what the chooser decided for packets sent by a port.
  [[nodiscard]] const chooser::PacketPlan& plan(std::size_t port) const noexcept {
    return plans_[port];
  }
  [[nodiscard]] worker::Quiescence& quiescence() noexcept { return *quiescence_; }
  // Misuses of packet buffers that pools of this process have told of, with --pool-debug.
  [[nodiscard]] static uint64_t pool_faults() noexcept;
  // True: a single lcore forwards and controls.
  [[nodiscard]] bool alone() const noexcept { return alone_; }

  // Tells every stream to receive no more; packets under way are still sent.
  void drain() noexcept;
  [[nodiscard]] bool drained() const noexcept;
  // Ends the lanes' loops.
  void stop() noexcept;

 private:
  Forwarder() = default;
  using Step = std::optional<Exit> (Forwarder::*)();
  std::optional<Exit> find_ports();
  std::optional<Exit> choose_lcores();
  std::optional<Exit> make_memory();
  std::optional<Exit> make_plans();
  std::optional<Exit> make_lanes();
  std::optional<Exit> make_streams();
  std::optional<Exit> start_ports();
  std::optional<Exit> make_workers();
  void add_stream(uint32_t port, uint32_t queue);
  Status set_up(port::Port& port, const Stream& stream);
  [[nodiscard]] uint32_t stride() const noexcept;
  [[nodiscard]] uint32_t buffers_a_packet() const noexcept;
  [[nodiscard]] bool binds_keys(std::size_t port) const noexcept;
  Status configure(port::Port& port);
  [[nodiscard]] port::QueueSizes sizes_of(const port::Port& port) const noexcept;
  [[nodiscard]] uint32_t partner(uint32_t port) const noexcept;
  [[nodiscard]] uint32_t streams_a_port(uint32_t port) const noexcept;
  [[nodiscard]] uint32_t senders_to(const port::Port& port) const noexcept;
  [[nodiscard]] flow::Rss rss() const;

  Options options_;
  const Engine* engine_ = nullptr;
  std::vector<port::Port*> ports_;  // EAL's
  std::vector<uint32_t> lcores_;
  bool alone_ = false;
  uint32_t stream_count_ = 0;
  std::vector<chooser::PacketPlan> plans_;  // by port; mode split
  std::optional<pool::ArenaMemory> memory_;
  std::optional<pool::Pool> pool_;
  std::optional<pool::Pool> header_pool_;
  std::optional<worker::Quiescence> quiescence_;
  std::vector<Lane> lanes_;
};

}  // namespace kilim::testpmd
