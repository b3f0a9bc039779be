// SPDX-License-Identifier: BSD-3-Clause
// Forwarder: the objects of a run: arena and pools, ports with their queues, streams spread over
// workers. Made, started and stopped on the main lcore; the destructor releases everything.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "forward.hh"
#include "kilim/worker.hh"
#include "options.hh"
#include "ports.hh"
#include "timed.hh"

namespace kilim::testpmd {

// A worker and the objects that belong to its lcore.
struct Lane {
  uint32_t lcore = 0;
  std::unique_ptr<pool::BufferCache> cache;
  std::unique_ptr<pool::BufferCache> headers;  // modes umr and split
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<TimedDevice>> devices;  // that are polled
  std::unique_ptr<Latency> latency;                   // with --latency
  std::unique_ptr<worker::Worker> worker;
};

// How buffers are cut with --strides: 256 bytes, 32 of them.
inline constexpr device::Strides packet_strides{.log_bytes = 8, .log_count = 5};

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

  [[nodiscard]] std::span<const PortRef> ports() const noexcept { return ports_; }
  // Numbers of those that forward (--portmask, --nb-ports).
  [[nodiscard]] std::span<const uint32_t> forwarding() const noexcept { return forwarding_; }
  [[nodiscard]] const Options& options() const noexcept { return options_; }
  [[nodiscard]] port::QueueSizes sizes_of(uint32_t port) const noexcept;
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

  // The pools of packets, and of headers if the mode has such.
  [[nodiscard]] std::vector<pool::Pool*> pools() noexcept;
  // True: what the port sends comes out at a port of this process, by a cable.
  [[nodiscard]] bool ends_here(uint32_t port) const;

  // Tells every stream to receive no more; packets under way are still sent.
  void drain() noexcept;
  [[nodiscard]] bool drained() const noexcept;
  // Ends the lanes' loops.
  void stop() noexcept;
  // Lanes may be started again after stop(). Each stream sends `tx_first` bursts of its own making
  // first.
  void rewind(uint32_t tx_first) noexcept;
  // Takes what can change between two runs without new queues: burst, peers, lengths, a mode of the
  // same kind. False: it needs a new forwarder.
  bool retune(const Options& options);

  // Counts of streams and lanes begin anew from here; safe while lanes run.
  void clear_counts() noexcept;

  // The bits of RTE_ETH_RSS_* that a Kilim port can do here; levels if its bursts may see into
  // tunnels.
  [[nodiscard]] uint64_t native_rss_of(uint32_t port) const noexcept;
  // What further starts of an ethdev ask for; ports are as they are.
  void note_spread(uint64_t rss_hf) noexcept { options_.rss_hf = rss_hf; }

  // While no lane runs. A stopped port has no queues; start_port() makes them as they were.
  std::optional<Exit> start_port(uint32_t port);
  void stop_port(uint32_t port) noexcept;
  [[nodiscard]] bool started(uint32_t port) const noexcept { return started_[port]; }

 private:
  Forwarder() = default;
  using Step = std::optional<Exit> (Forwarder::*)();
  std::optional<Exit> look_for_ports();
  std::optional<Exit> choose_ports();
  std::optional<Exit> choose_lcores();
  std::optional<Exit> make_memory();
  std::optional<Exit> make_plans();
  std::optional<Exit> make_lanes();
  std::optional<Exit> make_streams();
  std::optional<Exit> set_spreads();
  std::optional<Exit> start_ports();
  std::optional<Exit> make_workers();
  std::optional<Exit> make_pools(uint32_t need, uint32_t headers);
  std::optional<Exit> make_mbuf_pool(uint32_t need);
  void add_device(Lane& lane, const worker::Poller& device);
  void add_devices(Lane& lane);
  // The cable at whose end a port is; empty: it has another wire.
  [[nodiscard]] std::string_view cable_of(const port::Port& port) const;
  void add_stream(uint32_t made, uint32_t port, uint32_t queue);
  [[nodiscard]] Lane& lane_of(uint32_t stream) noexcept;
  void tune(Stream& stream);
  Status set_up(port::Port& port, const Stream& stream);
  std::optional<Exit> set_up_any(uint32_t port);
  [[nodiscard]] port::RxSetup rx_setup(pool::BufferCache* cache, uint32_t port) const noexcept;
  [[nodiscard]] uint32_t stride() const noexcept;
  [[nodiscard]] uint32_t buffers_a_packet() const noexcept;
  [[nodiscard]] bool binds_keys(std::size_t port) const noexcept;
  Status configure(uint32_t port);
  [[nodiscard]] bool has_ethdevs() const noexcept;
  [[nodiscard]] bool reads_rules() const noexcept;
  [[nodiscard]] bool divides_joined(std::size_t port) const noexcept;
  [[nodiscard]] bool side_records() const noexcept;
  [[nodiscard]] port::TxOffloads tx_words(std::size_t port) const noexcept;
  [[nodiscard]] uint32_t pieces_a_packet() const noexcept;
  [[nodiscard]] const pool::Arena& arena() const noexcept;
  [[nodiscard]] pool::Pool& pool() noexcept;
  [[nodiscard]] port::QueueSizes defaults_of(uint32_t port) const noexcept;
  [[nodiscard]] uint32_t partner(uint32_t port) const noexcept;
  [[nodiscard]] uint32_t streams_a_port(uint32_t port) const noexcept;
  [[nodiscard]] uint32_t senders_to(uint32_t port) const noexcept;

  Options options_;
  const Engine* engine_ = nullptr;
  std::vector<PortRef> ports_;
  std::vector<uint32_t> forwarding_;
  std::vector<bool> started_;  // by port
  std::vector<uint32_t> lcores_;
  bool alone_ = false;
  uint32_t stream_count_ = 0;
  std::atomic<int64_t> budget_{0};          // what --num-packets leaves
  std::vector<chooser::PacketPlan> plans_;  // by port; mode split
  struct FreeMempool {
    void operator()(rte_mempool* m) const noexcept;
  };
  // Buffers are mbufs if an ethdev takes part; else they lie in an arena of their own.
  std::unique_ptr<rte_mempool, FreeMempool> mempool_;
  std::optional<pool::MbufPool> mbufs_;
  std::optional<pool::ArenaMemory> memory_;
  std::optional<pool::Pool> pool_;
  std::optional<pool::Pool> header_pool_;
  std::optional<worker::Quiescence> quiescence_;
  std::vector<Lane> lanes_;
};

}  // namespace kilim::testpmd
