// SPDX-License-Identifier: BSD-3-Clause
// An agent's port: its datagrams out and in, its GIDs. Adapter's lock held.
#include "vhca/hca/connections.hh"

#include <algorithm>
#include <array>
#include <cerrno>

#include <unistd.h>

#include "vhca/core/address.hh"
#include "vhca/hca/ports.hh"
#include "vhca/transport/gsi.hh"
#include "vhca/wire/residents.hh"

namespace kilim::vhca::hca {

namespace {

constexpr uint8_t ack_delay = 16;  // as ibv_query_device() says (uverbs/query_device.cc)

cm::Config config_of(const Hca& h, uint32_t port) {
  cm::Config c;
  c.ca_guid = guid_of(h.config.node == Mac{} ? h.config.mac : h.config.node);
  port_gid(h.addresses, 0, c.gid);
  c.shared = h.addresses.member.has_value();
  // Ids of processes that are one adapter differ, and of one that comes to another's place.
  c.seed = (h.config.seed + h.addresses.member.value_or(0)) * 64 + port;
  if (c.shared) c.seed += static_cast<uint64_t>(::getpid()) << 32;
  c.ack_delay = ack_delay;
  return c;
}

// The note of who listens for a service id, one of the processes that are one adapter.
constexpr uint64_t listener_note(uint64_t service) noexcept {
  return service ^ 0x6c697374656e6572;
}

// The header of all management datagrams (IBTA 13.4.2, "MAD Base Format").
namespace mad {
constexpr std::size_t base_version_at = 0, class_at = 1, method_at = 3, status_at = 4,
                      attribute_at = 16;
constexpr std::byte get{1}, set{2}, get_response{0x81};
constexpr std::byte subnet_management{1}, subnet_management_directed{0x81}, communication{7};
constexpr uint16_t class_port_info = 1;
constexpr std::byte unsupported{0x0c};  // the combination of method and attribute (13.4.7)
}  // namespace mad

// Who asks for what nobody here has is told so: drivers/infiniband/core/mad.c, validate_mad() and
// generate_unmatched_resp().
bool wants_answer(std::span<const std::byte> m) noexcept {
  const std::byte method = m[mad::method_at], of_class = m[mad::class_at];
  if (m[mad::base_version_at] != std::byte{1} || (method != mad::get && method != mad::set))
    return false;
  if (of_class == mad::subnet_management || of_class == mad::subnet_management_directed)
    return false;
  const auto attribute = static_cast<uint16_t>(static_cast<unsigned>(m[mad::attribute_at]) << 8 |
                                               static_cast<unsigned>(m[mad::attribute_at + 1]));
  return of_class != mad::communication || attribute == mad::class_port_info;
}

}  // namespace

wire::Wire* wire_of_members(Hca& h) noexcept {
  const bool shared = h.addresses.member.has_value() && !h.roce.wires.empty();
  return shared ? h.roce.wires.front() : nullptr;
}

class Connections::PortAgent : cm::Port, transport::GsiClient {
 public:
  PortAgent(Hca& h, uint32_t port) : hca_(h), port_(port), agent_(config_of(h, port), *this) {
    transport::set_gsi_client(hca_.roce, port_, this);
  }
  ~PortAgent() override { transport::set_gsi_client(hca_.roce, port_, nullptr); }
  PortAgent(const PortAgent&) = delete;
  PortAgent& operator=(const PortAgent&) = delete;

  cm::Agent& agent() noexcept { return agent_; }

 private:
  bool send(const cm::Route& r, std::span<const std::byte> mad) noexcept override {
    transport::RocePath path;
    path.src = hca_.roce.mac;
    path.dst = r.dmac;
    path.sgid = r.sgid;
    path.dgid = r.dgid;
    path.traffic_class = r.traffic_class;
    path.hop_limit = std::max<uint8_t>(r.hop_limit, 1);
    path.flow_label = r.flow_label;
    path.src_port = transport::source_port(transport::gsi_qpn, transport::gsi_qpn);
    return transport::send_gsi(hca_.roce, port_, path, mad);
  }
  [[nodiscard]] bool owns(const Gid& gid) const noexcept override {
    return is_own_gid(hca_.addresses, gid);
  }
  void serve(uint64_t service, bool on) noexcept override {
    wire::Wire* wire = own_wire();
    if (wire == nullptr) return;
    wire->serve(service, on);
    const std::array<uint8_t, 1> who = {hca_.addresses.member.value_or(0)};
    const auto note = std::as_bytes(std::span(who));
    wire->leave_note(listener_note(service), on ? note : note.first(0));
  }
  [[nodiscard]] bool is_served(uint64_t service) noexcept override {
    wire::Wire* wire = own_wire();
    return wire != nullptr && wire->is_served(service);
  }
  // Of a process of this adapter the number says whose it is, of another adapter the address.
  [[nodiscard]] uint64_t process_at(const cm::Route& r, uint32_t qpn) override {
    wire::Wire* wire = own_wire();
    const auto member = hca_.addresses.member;
    const bool own = owns(r.dgid);
    if (wire == nullptr || (own && !member) || (member && qpn >> member_shift == *member)) return 0;
    bool whole = false;
    for (const wire::Resident& one : wire::residents_of(*wire, whole)) {
      if (member ? qpn != 0 && one.slot == qpn >> member_shift : one.mac == r.dmac) return one.life;
    }
    return 0;
  }
  // A number of another adapter's process would lead nowhere: services are served within one.
  [[nodiscard]] uint64_t process_serving(uint64_t service) override {
    wire::Wire* wire = own_wire();
    if (wire == nullptr || !hca_.addresses.member) return 0;
    const std::vector<std::byte> who = wire->notes_of_others(listener_note(service));
    if (who.size() != 1) return 0;
    bool whole = false;
    for (const wire::Resident& one : wire::residents_of(*wire, whole))
      if (one.slot == std::to_integer<uint16_t>(who[0])) return one.life;
    return 0;
  }
  void look_for_processes() override {
    lives_.clear();
    wire::Wire* wire = own_wire();
    looked_ = false;
    if (wire == nullptr) return;
    for (const wire::Resident& one : wire::residents_of(*wire, looked_)) lives_.push_back(one.life);
  }
  [[nodiscard]] bool has_gone(uint64_t life) noexcept override {
    return looked_ && std::find(lives_.begin(), lives_.end(), life) == lives_.end();
  }
  [[nodiscard]] wire::Wire* own_wire() const noexcept {
    return port_ <= hca_.roce.wires.size() ? hca_.roce.wires[port_ - 1] : nullptr;
  }
  void receive(const transport::RocePacket& p) noexcept override {
    cm::Route back;
    back.sgid = p.dgid;
    back.dgid = p.sgid;
    back.dmac = p.smac;
    if (!wants_answer(p.payload)) return agent_.handle(back, p.payload, hca_.context.now_ns);
    std::array<std::byte, transport::gsi_bytes> answer;
    std::copy(p.payload.begin(), p.payload.end(), answer.begin());
    answer[mad::method_at] = mad::get_response;
    answer[mad::status_at] = std::byte{0};
    answer[mad::status_at + 1] = mad::unsupported;
    (void)send(back, answer);
  }

  Hca& hca_;
  uint32_t port_;
  std::vector<uint64_t> lives_;  // of the processes that the last look found
  bool looked_ = false;          // it found all that there are
  cm::Agent agent_;
};

Connections::Connections(Hca& h) : hca_(h), ports_(port_count(h)) {}
Connections::~Connections() = default;

cm::Agent& Connections::agent(uint32_t port) {
  std::unique_ptr<PortAgent>& p = ports_[port - 1];
  if (!p) p = std::make_unique<PortAgent>(hca_, port);
  return p->agent();
}

std::size_t Connections::tick() noexcept {
  if (hca_.context.dead) return 0;
  std::size_t done = 0;
  for (const std::unique_ptr<PortAgent>& p : ports_) {
    if (p) done += p->agent().tick(hca_.context.now_ns);
  }
  return done;
}

uint64_t Connections::deadline() const noexcept {
  uint64_t deadline = ~uint64_t{0};
  if (hca_.context.dead) return deadline;
  for (const std::unique_ptr<PortAgent>& p : ports_) {
    if (p) deadline = std::min(deadline, p->agent().deadline());
  }
  return deadline;
}

Result<cm::Agent*> connection_agent(Hca& h, uint32_t port) {
  if (!has_port(h, port)) return Error{ENODEV, "no such port"};
  if (h.addresses.lid != 0) return Error{EOPNOTSUPP, "the port is an InfiniBand one"};
  if (!h.connections) {
    h.connections = std::make_unique<Connections>(h);
    h.managed = true;
    h.lock.rest(false);
  }
  return &h.connections->agent(port);
}

}  // namespace kilim::vhca::hca
