// SPDX-License-Identifier: BSD-3-Clause
// A client of the adapter for tests of the engine: rings in ordinary memory, WQEs put together by
// hand, completions read as the driver reads them. Owner: one test case.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kilim/prm/cqe.hh"
#include "kilim/prm/ctrl_seg.hh"
#include "kilim/prm/opcode.hh"
#include "kilim/prm/syndrome.hh"
#include "kilim/prm/umr_seg.hh"
#include "vhca/core/journal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/lint/lint.hh"

namespace kilim::vhca::wire {
class Wire;
}  // namespace kilim::vhca::wire

namespace kilim::vhca {}

namespace kilim::vhca::test {

// What every test of the engine names.
using prm::Opcode;
using prm::Syndrome;

// Page-aligned memory of its own, so that it can be unmapped under the adapter.
class Pages {
 public:
  explicit Pages(std::size_t bytes);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] Va va() const noexcept { return Va{address_}; }
  [[nodiscard]] uint64_t at(std::size_t offset) const noexcept { return va().value() + offset; }
  void unmap();  // at() and va() stay what they were

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  uint64_t address_ = 0;
};

// Returns when the adapters know of all memory that was unmapped or replaced until now: their
// reader holds the page lock from the event on.
void heard_of_memory();

class Events : public EventSink {
 public:
  void completion(void*) noexcept override { completions++; }
  void async(uint32_t type, void* owner) noexcept override {
    if (count < log.size()) log[count++] = {type, owner};
  }
  [[nodiscard]] unsigned of(uint32_t type) const noexcept;
  unsigned completions = 0;
  std::size_t count = 0;
  std::array<std::pair<uint32_t, void*>, 256> log{};
};

// A send WQE in the making.
class Wqe {
 public:
  explicit Wqe(prm::Opcode op, uint32_t imm = 0);
  Wqe& raddr(uint64_t addr, uint32_t rkey);
  Wqe& atomic(uint64_t swap_add, uint64_t compare);
  Wqe& data(uint64_t addr, uint32_t bytes, uint32_t lkey);
  Wqe& inlined(std::span<const std::byte> bytes);
  Wqe& raw(const void* bytes, std::size_t n);
  Wqe& quiet() {
    flags = 0;
    return *this;
  }
  Wqe& solicited() {
    flags |= prm::ctrl::solicited;
    return *this;
  }
  std::vector<std::byte> bytes;
  uint8_t flags = prm::ctrl::cq_update;
};

struct UmrShape {
  uint8_t flags = prm::umr::inline_list;
  uint64_t mask =
      prm::umr::mask_len | prm::umr::mask_mkey | prm::umr::mask_access | prm::umr::mask_free;
  uint8_t access = prm::mkey::local_write | prm::mkey::remote_read | prm::mkey::remote_write;
  uint8_t free = 0;
  uint64_t start = 0;
  uint64_t len = 0;
  uint16_t offset = 0;         // octowords
  std::optional<uint8_t> tag;  // another one than the key has
};
// The UMR WQE over entries that are padded to whole granules here.
Wqe umr_wqe(uint32_t key, const UmrShape&, std::span<const prm::Klm> entries);
prm::Klm klm(uint64_t addr, uint32_t bytes, uint32_t key);
prm::Klm repeat_head(uint32_t bytes, uint32_t count, uint16_t entries);
prm::Klm repeat_entry(uint16_t stride, uint16_t bytes, uint32_t key, uint64_t addr);

struct Completion {
  prm::CqeOpcode op;
  prm::Syndrome syndrome;
  uint8_t wqe_opcode;
  uint32_t qpn, uidx, bytes, imm, rqpn;
  uint16_t index;
  bool solicited;
};

class TestCq {
 public:
  TestCq(uint32_t entries, uint32_t entry_bytes);
  // The next completion; nothing: the queue is empty.
  std::optional<Completion> poll();
  void arm(std::byte* uar, bool solicited_only);
  Pages memory;
  Pages record;
  uint32_t entries, entry_bytes;
  uint32_t ci = 0;
  uint32_t sn = 0;
  Cqn cqn;
};

struct QueueShape {
  uint32_t sq_wqebbs = 64, rq_wqes = 16, rq_wqe_shift = 6;
  bool rq_signature = false;
  QpType type = QpType::rc;
  uint32_t tags = 0;  // its receive ring is that of a shared queue which matches so many
};

class TestQp {
 public:
  TestQp(const QueueShape&);
  // Writes the WQE; ring() announces all written ones.
  void put(const Wqe&);
  void publish();  // the doorbell record alone
  void ring(std::byte* uar);
  void recv(std::span<const std::array<uint64_t, 3>> segments);  // {addr, bytes, lkey}
  void recv(uint64_t addr, uint32_t bytes, uint32_t lkey);
  QueueShape shape;
  Pages rings;
  Pages record;
  Pages sq;  // apart from the receive ring, so that either can be unmapped
  uint16_t pi = 0;
  uint16_t head = 0;
  uint64_t first = 0;  // the first eight bytes of the last WQE
  unsigned blueflame = 0;
  Qpn qpn;
};

// The queue's receive ring becomes that of a shared queue which matches tags.
inline void share_receives(hca::Hca& hca, const TestQp& qp, QpSpec& spec) {
  SrqSpec srq;
  srq.pd = spec.pd;
  srq.buf = spec.buf;
  srq.record = spec.record;
  srq.wqes = spec.rq_wqes;
  srq.wqe_shift = spec.rq_wqe_shift;
  srq.uidx = spec.uidx;
  srq.tags = qp.shape.tags;
  srq.cq = spec.recv_cq;
  Result<uint32_t> srqn = hca::create_srq(hca, srq, nullptr);
  if (!srqn) std::abort();
  spec.srqn = *srqn;
  spec.rq_wqes = 0;
}

inline constexpr Mac test_mac = {0x02, 0x4b, 0x69, 0x6c, 0x69, 0x6d};

// What KILIM_VHCA_LINT says, so that a suite can be run under the linter.
lint::LintMode lint_of_environment();
// An order by name.
inline Order order_of(const char* word) {
  const Result<Order> order = find_order(word);
  if (!order) std::abort();
  return *order;
}
// What KILIM_VHCA_ORDER says: strict where it says nothing.
inline Order order_of_environment() {
  const char* word = std::getenv("KILIM_VHCA_ORDER");
  return order_of(word == nullptr || *word == '\0' ? "strict" : word);
}

struct RigShape {
  uint32_t cq_entries = 256, cqe_bytes = 64;
  QueueShape a, b;
  uint64_t seed = 1;
  uint64_t fatal_at = 0;
  Profile profile{};
  bool connect = true;
  Mac mac = test_mac;
  std::string wire;                // a spec; empty: none
  wire::Wire* own_wire = nullptr;  // instead of a spec; the rig's from then on
  lint::LintMode lint = lint_of_environment();
  bool explain = false;
  Journal* journal = nullptr;  // instead of the rig's own
  Order order = order_of_environment();
};

// Two connected RC queues of one adapter with a CQ each, one protection domain.
class Rig {
 public:
  explicit Rig(const RigShape& shape = {});
  ~Rig();
  MrKeys reg(const Pages&, uint32_t access);
  MrKeys reg(Va, uint64_t bytes, uint32_t access);
  uint32_t make_key(uint32_t entries, bool umr = true, bool rinval = false);  // indirect, free
  void to_rts(TestQp&, Qpn peer, uint32_t access = all_access);
  int to_init(TestQp&, uint32_t access = all_access);
  int to_rtr(TestQp&, Qpn peer);
  int to_rts_only(TestQp&);
  int to_state(TestQp&, QpState);
  [[nodiscard]] QpState state(const TestQp&);
  static constexpr uint64_t dc_key = 0x1122334455667788;  // of a target
  // Rings, runs, and takes one completion of A's send side (or of `cq`).
  Completion run_one(TestQp&, const Wqe&);
  void run();
  // Runs until the CQ has a completion or two seconds are over.
  std::optional<Completion> wait(TestCq&);

  static constexpr uint32_t all_access =
      access::remote_write | access::remote_read | access::remote_atomic;
  Events events;
  Journal journal;
  std::unique_ptr<hca::Hca> hca;
  Pdn pd;
  std::byte* uar = nullptr;
  uint32_t uar_page = 0;
  TestCq cq_a, cq_b;
  TestQp a, b;

 private:
  hca::HcaConfig config_of(const RigShape&);
  void make_cq(TestCq&);
  void make_qp(TestQp&, Cqn, uint32_t uidx);
  void make_dynamic(QpSpec&);
};

inline constexpr uint32_t rw_access =
    access::local_write | access::remote_write | access::remote_read | access::remote_atomic;

}  // namespace kilim::vhca::test
