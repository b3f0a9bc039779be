// SPDX-License-Identifier: BSD-3-Clause
// The two ethdevs of the race, with rings that a Nic serves: net_kilim's queues on an emulated
// NIC's, as net/kilim/ethdev_rxq.cc and ethdev_txq.cc make them, and net_mlx5's as that driver made
// them. One thread; only open() allocates.
#pragma once

#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kilim/region.hh"
#include "net/kilim/mbuf_rx.hh"
#include "net/kilim/mbuf_tx.hh"
#include "perf/packet/emulated_nic.hh"
#include "perf/race/mbuf_work.hh"
#include "perf/race/mlx5_port.hh"
#include "perf/race/racers.hh"

namespace kilim::race {

struct OnNic {
  MbufBursts bursts{};
  std::unique_ptr<Nic> nic;
};

// Every region has the one key.
class OneKey final : public mr::Registrar {
 public:
  Result<mr::Region> register_memory(std::span<std::byte> memory, uint32_t access,
                                     uint64_t page_bytes) override {
    mr::Region r{};
    r.address = reinterpret_cast<uint64_t>(memory.data());
    r.length = memory.size();
    r.lkey = perf::packet_key;
    r.access = access;
    r.page_bytes = page_bytes;
    return r;
  }
  Result<mr::Region> register_memory_at(std::span<std::byte>, Iova, uint32_t, uint64_t) override {
    return Error{EOPNOTSUPP, "one key for all"};
  }
  Status deregister(const mr::Region&) override { return Done{}; }
};

// Nothing fails here that a port would have to mend, so that none stands behind the queues.
struct KilimMbufs : OnNic {
  KilimMbufs() = default;
  KilimMbufs(const KilimMbufs&) = delete;
  KilimMbufs& operator=(const KilimMbufs&) = delete;
  ~KilimMbufs() { rte_mempool_free(pool); }
  rte_mempool* pool = nullptr;
  perf::EmulatedNic rings;
  OneKey registrar;
  net::MbufMemory memory{registrar};
  net::RxCounts rx_counts{};
  net::TxCounts tx_counts{};
  rte_mbuf* received[ring]{};
  rte_mbuf* sent[ring]{};
  uint32_t ends[ring]{};
  uint64_t wr_ids[ring]{};
  net::MbufRx rx{};
  net::MbufTx tx{};

  // `tx_offloads`: RTE_ETH_TX_OFFLOAD_*.
  std::string open(uint64_t tx_offloads, Reception reception = Reception::single);

 private:
  void make_rx(Reception reception);
  void make_tx(uint64_t tx_offloads);
};

struct Mlx5Mbufs : OnNic {
  Mlx5Port port;
  std::string open(uint64_t tx_offloads);
};

}  // namespace kilim::race
