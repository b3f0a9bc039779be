// SPDX-License-Identifier: BSD-3-Clause
// Writes messages, field by field as cm.c's cm_format_*() do.
#include "vhca/cm/messages.hh"

#include <algorithm>

namespace kilim::vhca::cm {

namespace {

constexpr uint32_t most_24 = 0xffffff;
constexpr uint32_t most_20 = 0xfffff;
constexpr uint16_t default_pkey = 0xffff;
constexpr uint16_t permissive_lid = 0xffff;  // IB_LID_PERMISSIVE: no LID leads there
// IB_RATE_PORT_CURRENT: a peer's card limits the connection to any other (iboe_get_rate() says so
// of a port whose speed nobody knows).
constexpr uint8_t port_rate = 0;

bool fits(const Route& r) noexcept {
  return r.flow_label <= most_20 && r.service_level < 16;
}

MadHeader header_of(Attribute attribute, uint64_t tid) noexcept {
  MadHeader h{};
  h.base_version = mad::base_version;
  h.mgmt_class = mad::class_cm;
  h.class_version = mad::class_version;
  h.method = mad::method_send;
  h.tid = be64{tid};
  h.attribute = be16{static_cast<uint16_t>(attribute)};
  return h;
}

template <std::size_t N>
void put_data(uint8_t (&to)[N], std::span<const std::byte> from) noexcept {
  if (!from.empty()) std::memcpy(to, from.data(), std::min(from.size(), N));
}

template <std::size_t N>
void put_data(uint8_t (&to)[N], const std::optional<IpHeader>& ip,
              std::span<const std::byte> from) noexcept {
  if (!ip) return put_data(to, from);
  IpHeaderFields f{};
  f.ip_version = static_cast<uint8_t>(ip->version << 4);
  f.source_port = be16{ip->source_port};
  std::copy(ip->source.begin(), ip->source.end(), f.source);
  std::copy(ip->destination.begin(), ip->destination.end(), f.destination);
  std::memcpy(to, &f, sizeof(f));
  if (!from.empty()) std::memcpy(to + sizeof(f), from.data(), from.size());
}

bool fits(const std::optional<IpHeader>& ip, std::size_t data, std::size_t room) noexcept {
  if (!ip) return data <= room;
  return (ip->version == 4 || ip->version == 6) && data <= room - most::ip_header;
}

template <typename Message>
void put(Mad& out, const Message& m) noexcept {
  static_assert(sizeof(Message) == mad_bytes);
  std::memcpy(out.data(), &m, sizeof(m));
}

template <typename Message>
Message begin(Attribute attribute, const Names& n) noexcept {
  Message m{};
  m.header = header_of(attribute, n.tid);
  m.local_comm_id = be32{n.local};
  m.remote_comm_id = be32{n.remote};
  return m;
}

// Over RoCE no LID leads anywhere: permissive where the path is routed (cm_format_req()).
PathFields path_of(const ConnectRequest& r, uint8_t ack_timeout) noexcept {
  using namespace path_field;
  PathFields f{};
  const bool local = r.route.hop_limit <= 1;
  const uint16_t lid = local ? 0 : permissive_lid;
  f.lids = be32{local_lid::at(lid) | remote_lid::at(lid)};
  std::copy(r.route.sgid.begin(), r.route.sgid.end(), f.local_gid);
  std::copy(r.route.dgid.begin(), r.route.dgid.end(), f.remote_gid);
  f.flow_rate = be32{flow_label::at(r.route.flow_label) | rate::at(port_rate)};
  f.class_hops_sl_timeout = be32{traffic_class::at(r.route.traffic_class) |
                                 hop_limit::at(r.route.hop_limit) | sl::at(r.route.service_level) |
                                 subnet_local::at(local) | local_ack_timeout::at(ack_timeout)};
  return f;
}

}  // namespace

bool fits(const ConnectRequest& r) noexcept {
  return fits(r.route) && r.qpn <= most_24 && r.starting_psn <= most_24 && r.retry_count < 8 &&
         r.rnr_retry_count < 8 && r.path_mtu >= 1 && r.path_mtu <= 5 && r.remote_cm_timeout < 32 &&
         r.local_cm_timeout < 32 && r.max_cm_retries < 16 && r.packet_life_time < 32 &&
         fits(r.ip, r.private_data.size(), most::req);
}

bool fits(const AcceptRequest& r) noexcept {
  return r.qpn <= most_24 && r.starting_psn <= most_24 && r.rnr_retry_count < 8 &&
         r.private_data.size() <= most::rep;
}

bool fits(const ResolveRequest& r) noexcept {
  return fits(r.route) && r.max_cm_retries < 16 &&
         fits(r.ip, r.private_data.size(), most::sidr_req);
}

bool fits(const ResolveAnswer& r) noexcept {
  return r.qpn <= most_24 && r.info.size() <= most::ari && r.private_data.size() <= most::sidr_rep;
}

uint8_t ack_timeout_of(uint8_t ack_delay, uint8_t packet_life_time) noexcept {
  int timeout = packet_life_time + 1;
  if (timeout >= ack_delay)
    timeout += ack_delay >= timeout - 1 ? 1 : 0;
  else
    timeout = ack_delay + (timeout >= ack_delay - 1 ? 1 : 0);
  return static_cast<uint8_t>(std::min(31, timeout));
}

void write_req(Mad& out, const Names& n, const Sender& from, const ConnectRequest& r) noexcept {
  const bool xrc = r.transport == Transport::xrc;
  const uint8_t service = xrc                            ? req::service_extended
                          : r.transport == Transport::uc ? req::service_uc
                                                         : req::service_rc;
  ReqMad m{};
  m.header = header_of(Attribute::req, n.tid);
  m.local_comm_id = be32{n.local};
  m.service_id = be64{r.service_id};
  m.ca_guid = be64{from.ca_guid};
  m.qkey = be32{r.qkey};
  // An XRC initiator has no responder's side, and its target no retries (cm_format_req()).
  m.qpn_resources =
      be32{req::qpn::at(r.qpn) | req::responder_resources::at(xrc ? 0 : r.responder_resources)};
  m.eecn_depth = be32{req::initiator_depth::at(r.initiator_depth)};
  m.eecn_timeout_service = be32{req::remote_timeout::at(r.remote_cm_timeout) |
                                req::service::at(service) | req::flow_control::at(r.flow_control)};
  m.psn_timeout_retry =
      be32{req::psn::at(r.starting_psn) | req::local_timeout::at(r.local_cm_timeout) |
           req::retry_count::at(xrc ? 0 : r.retry_count)};
  m.pkey_mtu_retries =
      be32{req::pkey::at(default_pkey) | req::path_mtu::at(r.path_mtu) |
           req::rnr_retry_count::at(xrc ? 0 : r.rnr_retry_count) |
           req::max_cm_retries::at(r.max_cm_retries) | req::srq::at(!xrc && r.srq) |
           req::extended::at(xrc ? req::extended_xrc : 0)};
  m.primary = path_of(r, ack_timeout_of(from.ack_delay, r.packet_life_time));
  put_data(m.private_data, r.ip, r.private_data);
  put(out, m);
}

void write_rep(Mad& out, const Names& n, const Sender& from, const AcceptRequest& r) noexcept {
  auto m = begin<RepMad>(Attribute::rep, n);
  m.qkey = be32{r.qkey};
  // A target stands in the place of an EE context, and takes from a shared queue (cm_format_rep()).
  m.qpn_word = be32{rep::qpn::at(from.xrc ? 0 : r.qpn)};
  m.eecn_word = be32{rep::eecn::at(from.xrc ? r.qpn : 0)};
  m.psn_word = be32{rep::psn::at(r.starting_psn)};
  m.resources_delay_retries =
      be32{rep::responder_resources::at(r.responder_resources) |
           rep::initiator_depth::at(from.xrc ? 0 : r.initiator_depth) |
           rep::target_ack_delay::at(from.ack_delay) | rep::failover::at(0) |
           rep::flow_control::at(!from.xrc && r.flow_control) |
           rep::rnr_retry_count::at(r.rnr_retry_count) | rep::srq::at(from.xrc || r.srq)};
  m.guid_high = be32{static_cast<uint32_t>(from.ca_guid >> 32)};
  m.guid_low = be32{static_cast<uint32_t>(from.ca_guid)};
  put_data(m.private_data, r.private_data);
  put(out, m);
}

void write_rtu(Mad& out, const Names& n, std::span<const std::byte> private_data) noexcept {
  auto m = begin<RtuMad>(Attribute::rtu, n);
  put_data(m.private_data, private_data);
  put(out, m);
}

void write_drep(Mad& out, const Names& n, std::span<const std::byte> private_data) noexcept {
  auto m = begin<RtuMad>(Attribute::drep, n);
  put_data(m.private_data, private_data);
  put(out, m);
}

void write_mra(Mad& out, const Names& n, About about, uint8_t service_timeout) noexcept {
  auto m = begin<MraMad>(Attribute::mra, n);
  m.about_timeout = be16{static_cast<uint16_t>(mra::about::at(static_cast<uint8_t>(about)) |
                                               mra::service_timeout::at(service_timeout))};
  put(out, m);
}

void write_rej(Mad& out, const Names& n, const Refusal& r) noexcept {
  auto m = begin<RejMad>(Attribute::rej, n);
  m.about_length_reason =
      be32{rej::about::at(static_cast<uint8_t>(r.about)) | rej::info_length::at(r.info.size()) |
           rej::reason::at(static_cast<uint16_t>(r.reason))};
  put_data(m.info, r.info);
  put_data(m.private_data, r.private_data);
  put(out, m);
}

void write_dreq(Mad& out, const Names& n, uint32_t remote_qpn,
                std::span<const std::byte> private_data) noexcept {
  auto m = begin<DreqMad>(Attribute::dreq, n);
  m.qpn_word = be32{dreq::remote_qpn::at(remote_qpn)};
  put_data(m.private_data, private_data);
  put(out, m);
}

void write_sidr_req(Mad& out, const Names& n, const ResolveRequest& r) noexcept {
  SidrReqMad m{};
  m.header = header_of(Attribute::sidr_req, n.tid);
  m.request_id = be32{n.local};
  m.pkey_word = be32{sidr_req::pkey::at(default_pkey)};
  m.service_id = be64{r.service_id};
  put_data(m.private_data, r.ip, r.private_data);
  put(out, m);
}

void write_sidr_rep(Mad& out, const Names& n, uint64_t service_id,
                    const ResolveAnswer& r) noexcept {
  SidrRepMad m{};
  m.header = header_of(Attribute::sidr_rep, n.tid);
  m.request_id = be32{n.remote};
  m.status_length = be32{sidr_rep::status::at(static_cast<uint8_t>(r.status)) |
                         sidr_rep::info_length::at(r.info.size())};
  m.qpn_word = be32{sidr_rep::qpn::at(r.qpn)};
  m.service_high = be32{static_cast<uint32_t>(service_id >> 32)};
  m.service_low = be32{static_cast<uint32_t>(service_id)};
  m.qkey = be32{r.qkey};
  put_data(m.info, r.info);
  put_data(m.private_data, r.private_data);
  put(out, m);
}

}  // namespace kilim::vhca::cm
