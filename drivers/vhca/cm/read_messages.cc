// SPDX-License-Identifier: BSD-3-Clause
// Reads messages, as cm.c's cm_format_*_event() do. What they say is anybody's word: lengths are
// cut to what there is.
#include <algorithm>

#include "vhca/cm/messages.hh"

namespace kilim::vhca::cm {

namespace {

template <std::size_t N>
std::span<const std::byte> data_of(const uint8_t (&from)[N]) noexcept {
  return std::as_bytes(std::span(from));
}

// Whether the service id is one of a port space (cma.c, rdma_ps_from_service_id()).
bool in_port_space(uint64_t service_id) noexcept {
  if (service_id >> 32 != 0) return false;
  const auto space = static_cast<PortSpace>(service_id >> 16);
  return space == PortSpace::tcp || space == PortSpace::udp || space == PortSpace::ib ||
         space == PortSpace::ipoib;
}

// cma.c, cma_save_ip_info(): of another version it is no header.
std::optional<IpHeader> ip_header_of(uint64_t service_id,
                                     std::span<const std::byte> data) noexcept {
  if (!in_port_space(service_id)) return std::nullopt;
  IpHeaderFields f;
  std::memcpy(&f, data.data(), sizeof(f));
  const auto version = static_cast<uint8_t>(f.ip_version >> 4);
  if (f.cma_version != 0 || (version != 4 && version != 6)) return std::nullopt;
  IpHeader ip;
  ip.version = version;
  ip.source_port = f.source_port.host();
  std::copy(std::begin(f.source), std::end(f.source), ip.source.begin());
  std::copy(std::begin(f.destination), std::end(f.destination), ip.destination.begin());
  return ip;
}

void take_private_data(std::span<const std::byte> data, Event& e) noexcept {
  e.ip = ip_header_of(e.service_id, data);
  (void)e.private_data.assign(e.ip ? data.subspan(most::ip_header) : data);
}

}  // namespace

bool is_cm_mad(std::span<const std::byte> mad) noexcept {
  if (mad.size() != mad_bytes) return false;
  const auto h = message_of<MadHeader>(mad);
  return h.base_version == mad::base_version && h.mgmt_class == mad::class_cm &&
         h.class_version == mad::class_version && h.method == mad::method_send;
}

bool transport_of(const ReqMad& m, Transport& out) noexcept {
  const uint32_t service = req::service::get(m), extended = req::extended::get(m);
  if (service == req::service_rc)
    out = Transport::rc;
  else if (service == req::service_uc)
    out = Transport::uc;
  else if (service == req::service_extended && extended == req::extended_xrc)
    out = Transport::xrc;
  else
    return false;
  return true;
}

bool has_alternate(const ReqMad& m) noexcept {
  const auto set = [](uint8_t b) { return b != 0; };
  return path_field::local_lid::get(m.alternate) != 0 ||
         std::any_of(std::begin(m.alternate.local_gid), std::end(m.alternate.local_gid), set);
}

Route route_of(const ReqMad& m, const Route& packet) noexcept {
  Route r = packet;
  std::copy(std::begin(m.primary.local_gid), std::end(m.primary.local_gid), r.dgid.begin());
  r.traffic_class = static_cast<uint8_t>(path_field::traffic_class::get(m.primary));
  r.flow_label = path_field::flow_label::get(m.primary);
  r.service_level = static_cast<uint8_t>(path_field::sl::get(m.primary));
  return r;
}

void read_req(const ReqMad& m, Event& e) noexcept {
  e.service_id = m.service_id.host();
  (void)transport_of(m, e.transport);
  e.remote_qpn = req::qpn::get(m);
  e.remote_qkey = m.qkey.host();
  e.remote_ca_guid = m.ca_guid.host();
  e.starting_psn = req::psn::get(m);
  e.responder_resources = static_cast<uint8_t>(req::initiator_depth::get(m));
  e.initiator_depth = static_cast<uint8_t>(req::responder_resources::get(m));
  e.retry_count = static_cast<uint8_t>(req::retry_count::get(m));
  e.rnr_retry_count = static_cast<uint8_t>(req::rnr_retry_count::get(m));
  e.path_mtu = static_cast<uint8_t>(req::path_mtu::get(m));
  e.local_ack_timeout = static_cast<uint8_t>(path_field::local_ack_timeout::get(m.primary));
  e.local_cm_timeout = static_cast<uint8_t>(req::remote_timeout::get(m));
  e.remote_cm_timeout = static_cast<uint8_t>(req::local_timeout::get(m));
  e.srq = req::srq::get(m) != 0;
  e.flow_control = req::flow_control::get(m) != 0;
  take_private_data(data_of(m.private_data), e);
}

void read_rep(const RepMad& m, bool xrc, Event& e) noexcept {
  e.remote_qpn = xrc ? rep::eecn::get(m) : rep::qpn::get(m);
  e.remote_qkey = m.qkey.host();
  e.remote_ca_guid = uint64_t{m.guid_high.host()} << 32 | m.guid_low.host();
  e.starting_psn = rep::psn::get(m);
  e.responder_resources = static_cast<uint8_t>(rep::initiator_depth::get(m));
  e.initiator_depth = static_cast<uint8_t>(rep::responder_resources::get(m));
  e.rnr_retry_count = static_cast<uint8_t>(rep::rnr_retry_count::get(m));
  e.target_ack_delay = static_cast<uint8_t>(rep::target_ack_delay::get(m));
  e.srq = rep::srq::get(m) != 0;
  e.flow_control = rep::flow_control::get(m) != 0;
  (void)e.private_data.assign(data_of(m.private_data));
}

void read_rej(const RejMad& m, Event& e) noexcept {
  e.reason = static_cast<Reason>(rej::reason::get(m));
  const std::size_t length = std::min<std::size_t>(rej::info_length::get(m), most::ari);
  (void)e.info.assign(data_of(m.info).first(length));
  (void)e.private_data.assign(data_of(m.private_data));
}

void read_sidr_req(const SidrReqMad& m, Event& e) noexcept {
  e.service_id = m.service_id.host();
  take_private_data(data_of(m.private_data), e);
}

void read_sidr_rep(const SidrRepMad& m, Event& e) noexcept {
  e.service_id = uint64_t{m.service_high.host()} << 32 | m.service_low.host();
  e.sidr_status = static_cast<SidrStatus>(sidr_rep::status::get(m));
  e.remote_qpn = sidr_rep::qpn::get(m);
  e.remote_qkey = m.qkey.host();
  const std::size_t length = std::min<std::size_t>(sidr_rep::info_length::get(m), most::ari);
  (void)e.info.assign(data_of(m.info).first(length));
  (void)e.private_data.assign(data_of(m.private_data));
}

}  // namespace kilim::vhca::cm
