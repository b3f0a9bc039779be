// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Flow Table Context", "Flow Context", "Flow Sampler". Flow tables beyond the ports' own:
// those whose entries software writes into the adapter's memory, where the profile has that, and
// those of the firmware's that have one entry for all frames. Where a chain of entries leads is an
// address, too: of a table, a TIR, or an end. Owner: the adapter; its lock held. Walking never
// allocates; entries are untrusted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vhca/core/object_table.hh"
#include "vhca/core/spec.hh"
#include "vhca/ethernet/flow_counters.hh"
#include "vhca/ethernet/icm.hh"
#include "vhca/ethernet/rdma_rules.hh"
#include "vhca/ethernet/steering.hh"
#include "vhca/ethernet/table_type.hh"
#include "vhca/wq/qp.hh"

namespace kilim::vhca::ethernet {

struct Tir;

// What an address is that lies in no area of memory.
enum class IcmEnd : uint8_t { none, drop, allow, tir, table, sampler };
namespace icm_end {
inline constexpr uint64_t start = uint64_t{3} << 36;
inline constexpr unsigned kind_shift = 30, number_shift = 6;
constexpr uint64_t address_of(IcmEnd kind, uint32_t number = 0) noexcept {
  return start | uint64_t{static_cast<uint8_t>(kind)} << kind_shift |
         uint64_t{number & 0xffffff} << number_shift;
}
constexpr IcmEnd kind_of(uint64_t address) noexcept {
  const uint64_t kind = (address ^ start) >> kind_shift;
  return kind <= static_cast<uint8_t>(IcmEnd::sampler) ? static_cast<IcmEnd>(kind) : IcmEnd::none;
}
constexpr uint32_t number_of(uint64_t address) noexcept {
  return static_cast<uint32_t>(address >> number_shift & 0xffffff);
}
}  // namespace icm_end

// "Flow Context" of the one entry that a table of the firmware's has here: it matches all frames.
struct FlowEntry {
  static constexpr std::size_t most = 32;  // of each list
  uint32_t index = 0, tag = 0;
  uint32_t action = 0, group = 0;  // as the command said them
  bool drops = false;
  struct To {
    bool table;  // else a TIR
    uint32_t number;
  };
  std::vector<To> to;
  std::vector<uint32_t> counters;
};

// "CREATE_FLOW_GROUP": entries of the firmware's table from `first` to `last`. One is like the
// other: what entries match is nothing.
struct FlowGroup {
  uint32_t number = 0, first = 0, last = 0;
};

struct FlowTable {
  FlowTable() noexcept { end.type = end.spec.type = QpType::raw_packet; }
  uint32_t number = 0;
  const EventSink* open = nullptr;  // whose it is
  TableType type = TableType::nic_rx;
  bool software = false;  // its entries lie in memory, from `root` on
  uint64_t root = 0;
  uint32_t properties = 0;  // the first word of its context, as it was created
  std::vector<FlowGroup> groups;
  uint32_t next_group = 1;
  uint32_t users = 0;  // samplers, and entries of other tables
  bool has_entry = false;
  FlowEntry entry;
  wq::Qp end;  // what rules of a port name; it has no rings
};

// Every `ratio`-th frame goes to `sample` as well.
struct FlowSampler {
  uint32_t ratio = 1, sample = 0, otherwise = 0;  // tables
  uint32_t table_type = 0;                        // as its creator said it
  FlowCount seen;
};

// Where a frame has come to, and as what.
struct Arrival {
  FlowTarget to;  // no queue: it leaves for the wire
  std::span<const std::byte> frame;
};

class SoftSteering {
 public:
  SoftSteering(const ObjectTable<Tir>& all_tirs, const FlowCounters& all_counters) noexcept
      : tirs(&all_tirs), counters(&all_counters) {}

  // The control path: makes room for frames of that length.
  void use(std::size_t longest_frame);

  // A frame begins, to leave or to come in: nothing is counted of the one before.
  void begin(bool egress) noexcept {
    scratch_[egress].hits = 0;
    lost_ = nullptr;
  }
  // Where the frame goes by that table, tag and all, of a sender's queue where it leaves. Valid
  // until the next call for the same direction. What it counts is kept until count().
  std::span<const Arrival> walk(const FlowTable&, FlowTarget by, uint32_t source_queue,
                                std::span<const std::byte> frame) noexcept;
  // Of the last walk that led nowhere; static.
  [[nodiscard]] const char* why() const noexcept { return why_; }
  // Why a way of the last frame that began has ended elsewhere than its entries say, as behind a
  // tunnel that is not there; static. Null: none has.
  [[nodiscard]] const char* lost() const noexcept { return lost_; }
  // The frame is gone.
  void count(bool egress) noexcept;

  static constexpr std::size_t most_steps = 1024;  // entries that one frame may meet

  ObjectTable<FlowTable> tables{1, 1u << 16};
  ObjectTable<FlowSampler> samplers{1, 1u << 12};
  ObjectTable<Prepend> reformats{1, 1u << 12};
  Icm icm;
  RdmaRules rdma;
  const ObjectTable<Tir>* tirs;
  const FlowCounters* counters;

 private:
  friend class SteActions;
  friend class SteWalk;
  static constexpr std::size_t most_copies = 8, most_arrivals = 64, most_hits = 64;
  struct Hit {
    FlowCount* count;
    uint64_t bytes;
  };
  // Of one direction: a frame that leaves may come in again while it does.
  struct Scratch {
    std::vector<std::byte> copies;  // of frames that entries change
    std::array<Arrival, most_arrivals> arrivals{};
    std::array<Hit, most_hits> hit{};
    std::size_t hits = 0;
  };

  std::array<Scratch, 2> scratch_;
  std::size_t copy_bytes_ = 0;
  const char* why_ = "";
  const char* lost_ = nullptr;
};

}  // namespace kilim::vhca::ethernet
