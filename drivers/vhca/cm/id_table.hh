// SPDX-License-Identifier: BSD-3-Clause
// The ids of an agent: a fixed number of places, found by the local id, by what the peer calls them
// and by what has to happen next. All memory is taken when the table is made and touched when it is
// used first, so a flood of requests allocates nothing. Owner: the agent; adapter's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "vhca/cm/mad.hh"
#include "vhca/cm/values.hh"

namespace kilim::vhca::cm {

class Observer;

inline constexpr uint32_t nowhere = ~uint32_t{0};

// The ways to find an id by its peer (cm.c: remote_id_table, remote_qp_table, remote_sidr_table).
enum class By : uint8_t { remote_id, remote_qpn, sidr };
inline constexpr std::size_t ways = 3;

struct Connection {
  State state = State::idle;
  bool passive = false;
  Transport transport = Transport::rc;
  Observer* observer = nullptr;
  uint64_t cookie = 0;
  Route route;
  uint64_t service_id = 0, tid = 0, remote_guid = 0;
  uint32_t remote_id = 0;  // 0: not known yet
  uint32_t remote_qpn = 0, local_qpn = 0;
  uint32_t sq_psn = 0, rq_psn = 0;
  uint8_t path_mtu = 0, responder_resources = 0, initiator_depth = 0;
  uint8_t retry_count = 0, rnr_retry = 0;
  uint8_t ack_timeout = 0;  // of the queue pair, an IBTA time; of time wait too
  uint8_t retries = 0, retries_left = 0;
  bool asked_others = false;  // a request: of the processes that are one adapter another listens
  uint64_t timeout_ns = 0;    // between two sends
  uint64_t deadline_ns = 0;   // of the timer, if it runs
  uint64_t process = 0;       // the peer's, see Port::process_at(); 0: not known
  bool missed = false;        // the last look did not find it
  Mad mad{};                  // what is sent again, by the timer or for a copy of what it answers

  // The table's own.
  uint32_t generation = 1;
  bool used = false;
  bool found_by[ways] = {};
  uint32_t next[ways] = {};  // in its chain; next[0] of an unused place: the next unused one
  uint32_t timer = nowhere;  // place in the heap of timers
};

class IdTable {
 public:
  // At most 2^16 places.
  IdTable(uint32_t places, uint64_t seed);
  ~IdTable();
  IdTable(const IdTable&) = delete;
  IdTable& operator=(const IdTable&) = delete;

  // Null: all places are in use. Never allocates. A place that was freed is given again last.
  Connection* create() noexcept;
  // Out of all chains and the timers.
  void free(Connection&) noexcept;
  // Null: no such id, or it was freed. Any number may be asked for.
  [[nodiscard]] Connection* at(CommId) const noexcept;
  [[nodiscard]] CommId id_of(const Connection&) const noexcept;
  [[nodiscard]] uint32_t used() const noexcept { return used_; }
  // Places that were ever used, from 0 on; null: not in use now.
  [[nodiscard]] uint32_t places() const noexcept { return touched_; }
  [[nodiscard]] Connection* in_place(uint32_t place) const noexcept {
    return places_[place].used ? places_ + place : nullptr;
  }

  // By the key that `c` has: (remote_id or remote_qpn, remote_guid), or (remote_id, route.dgid).
  [[nodiscard]] Connection* find(By, const Connection& c) const noexcept;
  void insert(By, Connection&) noexcept;
  void erase(By, Connection&) noexcept;

  // The timer fires at c.deadline_ns.
  void start(Connection&) noexcept;
  void stop(Connection&) noexcept;
  // The one that is due first; null: none runs.
  [[nodiscard]] Connection* first_due() const noexcept;

 private:
  [[nodiscard]] uint32_t place_of(const Connection& c) const noexcept {
    return static_cast<uint32_t>(&c - places_);
  }
  [[nodiscard]] uint32_t& head(By, const Connection&) noexcept;
  void put(std::size_t at, uint32_t place) noexcept;
  void sift_up(std::size_t at) noexcept;
  void sift_down(std::size_t at) noexcept;
  [[nodiscard]] bool before(uint32_t a, uint32_t b) const noexcept {
    return places_[a].deadline_ns < places_[b].deadline_ns;
  }

  uint32_t count_;
  uint32_t operand_;      // of the numbers that peers see (cm.c: random_id_operand)
  uint32_t touched_ = 0;  // places that hold a Connection, used or not
  uint32_t used_ = 0;
  uint32_t first_free_ = nowhere, last_free_ = nowhere;
  std::unique_ptr<std::byte[]> memory_;
  Connection* places_;
  std::vector<uint32_t> heads_[ways];
  std::vector<uint32_t> heap_;  // of places, by deadline_ns
};

}  // namespace kilim::vhca::cm
