// SPDX-License-Identifier: BSD-3-Clause
// Memory of DevX clients for rings and doorbell records (PRM "CREATE_UMEM"): commands name it by
// number and offset. A queue that lies in one holds it until it is destroyed. Owner: the adapter;
// its lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/result.hh"
#include "vhca/core/object_table.hh"
#include "vhca/core/spec.hh"

namespace kilim::vhca::hca {

struct Umem {
  Va start;
  uint64_t bytes = 0;
  bool writable = false;
  const EventSink* client = nullptr;  // nobody else can name it
  uint32_t users = 0;                 // queues
};

class UmemTable {
 public:
  // The kind of a user: the command that destroys it.
  using User = std::pair<uint16_t, uint32_t>;

  // Null: the table is full.
  Umem* create(uint32_t& number) { return umems_.create(number); }
  // -EBUSY: queues lie in it; -EINVAL: there is none.
  int destroy(uint32_t number);

  // Nothing: the client has no such umem, it ends before, or the adapter may not write there and
  // would. Only rings of completion queues are written. Work queues and all records are read: DPDK
  // registers those of receive queues so (22.11, drivers/common/mlx5/mlx5_common_devx.c,
  // mlx5_devx_wq_init()), UCX from 1.14 on the records of all queues
  // (src/uct/ib/mlx5/dv/ib_mlx5dv_md.c, uct_ib_mlx5_add_page()).
  struct Place {
    uint32_t umem = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    bool written = false;
  };
  [[nodiscard]] std::optional<Va> find(const EventSink* client, const Place& place) const noexcept;
  // Whether the client let the adapter write there; false too where there is none.
  [[nodiscard]] bool writable(uint32_t number) const noexcept;

  // The umems that a user holds, in the order in which it was said; empty: it holds none.
  [[nodiscard]] std::span<const uint32_t> held(User user) const noexcept;
  // How far behind the start of a umem an address lies; of one that is there.
  [[nodiscard]] uint64_t offset(uint32_t number, Va address) const noexcept {
    return address.value() - umems_.at(number)->start.value();
  }
  void hold(User user, std::span<const uint32_t> umems);
  // Who holds none may ask too.
  void let_go(User user);

 private:
  ObjectTable<Umem> umems_{1, 1u << 20};
  std::map<User, std::vector<uint32_t>> held_;
};

}  // namespace kilim::vhca::hca
