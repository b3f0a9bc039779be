// SPDX-License-Identifier: BSD-3-Clause
// Adapter's lock held. Frames are untrusted.
#include "vhca/hca/rdma_flows.hh"

#include <cerrno>
#include <memory>
#include <utility>

#include "vhca/core/journal.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/transport/roce_port.hh"
#include "vhca/wire/decorator.hh"

namespace kilim::vhca::hca {

namespace {

constexpr const char* rule_drops = "a flow rule of RDMA drops it";

ethernet::RdmaRules::Packets one_of(std::span<const std::byte> frame) noexcept {
  return {frame, 1, frame.size()};
}

// What RDMA queues send by a port goes through its rules. The port's other frames go to the wire
// within by another way.
class RuledWire final : public wire::Decorator {
 public:
  RuledWire(std::unique_ptr<wire::Wire> inner, Hca& h, uint32_t port) noexcept
      : wire::Decorator(std::move(inner)), h_(h), port_(port) {}

  Sent send(std::span<const std::byte> frame) noexcept override {
    ethernet::SoftSteering& soft = *h_.eth.soft;
    if (!soft.rdma.any(ethernet::TableType::rdma_tx)) return wire::Decorator::send(frame);
    if (!soft.rdma.would_let_through(soft, ethernet::TableType::rdma_tx, one_of(frame))) {
      (void)soft.rdma.lets_through(soft, ethernet::TableType::rdma_tx, one_of(frame));
      h_.context.journal->frame_drop(port_, static_cast<uint32_t>(frame.size()), rule_drops);
      return Sent::taken;
    }
    // One that has to wait comes again, and is counted then.
    const Sent sent = wire::Decorator::send(frame);
    if (sent == Sent::taken)
      (void)soft.rdma.lets_through(soft, ethernet::TableType::rdma_tx, one_of(frame));
    return sent;
  }

 private:
  Hca& h_;
  uint32_t port_;
};

// From the first rule on, for good: all that names the wire names the one around it.
void rule_wires(Hca& h) {
  for (std::size_t i = 0; i < h.config.wires.size(); i++) {
    std::unique_ptr<wire::Wire>& own = h.config.wires[i];
    if (own == nullptr || own.get() != h.eth.ports[i].wire) continue;  // unplugged, or ruled
    wire::Wire* const within = own.get();
    own = std::make_unique<RuledWire>(std::move(own), h, static_cast<uint32_t>(i + 1));
    h.roce.wires[i] = own.get();
    if (h.roce.full == within) h.roce.full = own.get();
    for (transport::LastAck& farewell : h.roce.last_acks)
      if (farewell.wire == within) farewell.wire = own.get();
  }
}

}  // namespace

ethernet::SoftSteering& flow_tables(Hca& h) {
  if (!h.eth.soft) h.eth.soft = std::make_shared<ethernet::SoftSteering>(h.tirs, h.flow_counters);
  return *h.eth.soft;
}

Result<uint32_t> create_rdma_flow(Hca& h, ethernet::TableType type, std::optional<uint32_t> number,
                                  const FlowSpec& spec) {
  ethernet::SoftSteering& soft = flow_tables(h);
  ethernet::FlowTable* table = number ? soft.tables.at(*number) : nullptr;
  if (number && (table == nullptr || table->type != type))
    return Error{EINVAL, "no such flow table of that kind"};
  Result<uint32_t> rule = soft.rdma.add(type, table, spec);
  if (rule && type == ethernet::TableType::rdma_tx) rule_wires(h);
  return rule;
}

bool rdma_receives(Hca& h, uint32_t port, std::span<const std::byte> frame) noexcept {
  ethernet::SoftSteering& soft = *h.eth.soft;
  if (!soft.rdma.any(ethernet::TableType::rdma_rx) || !transport::roce_hears(h.roce, port, frame))
    return true;
  if (soft.rdma.lets_through(soft, ethernet::TableType::rdma_rx, one_of(frame))) return true;
  h.context.journal->frame_drop(port, static_cast<uint32_t>(frame.size()), rule_drops);
  return false;
}

}  // namespace kilim::vhca::hca
