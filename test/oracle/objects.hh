// SPDX-License-Identifier: BSD-3-Clause
// What a peer program of the oracle has made, by the names that its driver gives. One thread. Never
// makes anything itself.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

namespace kilim::oracle {

struct Region {
  std::unique_ptr<uint8_t[]> room;
  ibv_mr* mr = nullptr;

  // Room for `bytes` from the begin of a page.
  static Region of(std::size_t bytes) {
    return {std::make_unique<uint8_t[]>(bytes + page), nullptr};
  }
  [[nodiscard]] uint8_t* start() const {
    auto at = reinterpret_cast<uintptr_t>(room.get());
    return room.get() + (page - at % page) % page;
  }
  static constexpr std::size_t page = 4096;
};

struct Queue {
  ibv_qp* qp = nullptr;
  ibv_ah* ah = nullptr;
  uint32_t peer = 0;
};

// Objects by the names that the lines give them; destroyed in the reverse order of dependence.
struct Objects {
  std::map<std::string, ibv_pd*> domains;
  std::map<std::string, Region> regions;
  std::map<std::string, ibv_mw*> windows;
  std::map<std::string, Queue> queues;
  ibv_cq* sent = nullptr;
  ibv_cq* received = nullptr;
  std::vector<std::string> completions;  // in order; "s..." of sends, "r..." of receives

  // Windows first: rdma_rxe keeps a queue for most of a minute while a window is bound there.
  void clear() {
    for (auto& [name, w] : windows) ibv_dealloc_mw(w);
    for (auto& [name, q] : queues) {
      if (q.ah != nullptr) ibv_destroy_ah(q.ah);
      ibv_destroy_qp(q.qp);
    }
    for (auto& [name, r] : regions) {
      if (r.mr != nullptr) ibv_dereg_mr(r.mr);
    }
    if (sent != nullptr) ibv_destroy_cq(sent);
    if (received != nullptr) ibv_destroy_cq(received);
    for (auto& [name, pd] : domains) ibv_dealloc_pd(pd);
    *this = Objects();
  }
};

}  // namespace kilim::oracle
