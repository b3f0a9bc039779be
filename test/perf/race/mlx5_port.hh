// SPDX-License-Identifier: BSD-3-Clause
// Mlx5Port: one receive and one send queue of DPDK's net_mlx5, as the driver itself makes them on a
// device, whose doorbells go to a word of ours from then on: nobody but Nic works for them. One
// thread; only open() allocates. The port is stopped in the end, for the next one.
#pragma once

#include <cstdint>
#include <string>

#include <rte_ethdev.h>
#include <rte_mempool.h>

#include "perf/race/mlx5_abi.hh"
#include "perf/race/nic.hh"

namespace kilim::race {

inline constexpr uint16_t ring = 1024;  // packets, of every queue in the race
inline constexpr uint32_t pool_mbufs = 4 * ring - 1;
inline constexpr uint32_t pool_cache = 256;

// Packet type, hash and checksum status on receive; on transmit these offloads, as far as there are
// any. Returns an empty string, or what failed.
std::string start_port(uint16_t port, rte_mempool* pool,
                       uint64_t tx_offloads = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE);

class Mlx5Port {
 public:
  Mlx5Port() = default;
  Mlx5Port(const Mlx5Port&) = delete;
  Mlx5Port& operator=(const Mlx5Port&) = delete;
  ~Mlx5Port();
  // The first port of that driver, which is stopped. Returns an empty string, or what failed; also
  // where the layouts of mlx5_abi.hh do not describe what the driver made.
  std::string open(uint64_t tx_offloads);
  [[nodiscard]] const Rings& rings() const noexcept { return rings_; }
  [[nodiscard]] uint16_t number() const noexcept { return number_; }
  [[nodiscard]] rte_mempool* pool() const noexcept { return pool_; }
  // Packets that the driver says it sent.
  [[nodiscard]] uint64_t sent() const noexcept { return tx_->packets; }
  // "Vector SSE, Empty + eMPW": the burst functions that the driver chose.
  [[nodiscard]] std::string bursts() const;

 private:
  std::string check_rx() const;
  std::string check_tx() const;
  void redirect() noexcept;

  uint16_t number_ = RTE_MAX_ETHPORTS;
  Mlx5RxQueue* rx_ = nullptr;
  Mlx5TxQueue* tx_ = nullptr;
  rte_mempool* pool_ = nullptr;  // lives as long as the process: the driver keeps its keys
  Rings rings_;
  be32 send_record_{0};
  alignas(64) uint64_t doorbell_ = 0;
};

}  // namespace kilim::race
