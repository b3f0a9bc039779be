// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_GENERAL_OBJECT", "QUERY_GENERAL_OBJECT", "DESTROY_GENERAL_OBJECT". Objects whose
// type stands in the command: one row each. Adapter's lock held. What a client sends is untrusted.
#include <algorithm>
#include <cstring>
#include <span>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/crypto_seg.hh"
#include "kilim/prm/flow_table.hh"
#include "vhca/hca/commands.hh"

namespace kilim::vhca::hca::commands {

namespace {

// Of each general command.
constexpr std::size_t object_header = 16;

uint32_t number_of(In in) {
  return read<be32>(in, 8).host();
}

void answer_number(Out out, uint32_t number) {
  const be32 id{number};
  std::memcpy(out.data() + 8, &id, sizeof id);
}

// The object that says: what goes to this address goes where that queue's peer is. Nothing here
// follows from it; a card shares the congestion state. The queue pair may be another open's
// (rdma-core v44, tests/test_mlx5_dc.py, test_dc_ah_to_qp_mapping()).
Answer create_mapping(Hca& s, const Client&, In in, Out out) {
  const uint32_t qpn = read<be32>(in, prm::cmd::av_qp_mapping_qpn).host();
  if (s.qps.at(qpn & 0xffffff) == nullptr)
    return no_such(Refusal::no_such_qp, "qpn", qpn & 0xffffff);
  uint32_t number = 0;
  AvMapping* made = s.mappings.create(number);
  if (made == nullptr)
    return refused(Status::no_resources, Refusal::no_more_objects, refusal::full("obj_id"));
  std::memcpy(made->object.data(), in.data() + object_header, made->object.size());
  answer_number(out, number);
  return {};
}

Answer query_mapping(Hca& s, uint32_t number, Out out) {
  const AvMapping* mapping = s.mappings.at(number);
  if (mapping == nullptr) return no_such(Refusal::no_such_object, "obj_id", number);
  put(out, object_header, mapping->object);
  return {};
}

Answer destroy_mapping(Hca& s, uint32_t number) {
  if (s.mappings.at(number) == nullptr) return no_such(Refusal::no_such_object, "obj_id", number);
  s.mappings.destroy(number);
  return {};
}

bool reserves(const prm::DekObject& o) {
  const auto set = [](uint8_t b) { return b != 0; };
  return o.rsvd0 != 0 || std::any_of(std::begin(o.rsvd1), std::end(o.rsvd1), set) ||
         std::any_of(std::begin(o.rsvd2), std::end(o.rsvd2), set) ||
         std::any_of(std::begin(o.rsvd3), std::end(o.rsvd3), set);
}

// mlx5dv_dek_create(3), "DEK key Field Construction": both keys, then the tag.
Answer create_dek(Hca& s, const Client& client, In in, Out out) {
  namespace dek = prm::dek;
  const auto o = read<prm::DekObject>(in, object_header);
  const uint8_t purpose = o.tag_purpose & 0xf, size = o.key_size & 0xf;
  if (reserves(o) || (o.tag_purpose & ~(dek::has_tag | 0xf)) != 0 || (o.key_size & 0xf0) != 0)
    return refused(Status::bad_param, Refusal::reserved,
                   refusal::bits("encryption_key_obj.key_purpose and key_size",
                                 o.tag_purpose << 8 | o.key_size, (dek::has_tag | 0xf) << 8 | 0xf));
  if (purpose != dek::aes_xts || size > dek::size_256)
    return refused(Status::bad_param, Refusal::dek_parameter,
                   purpose != dek::aes_xts
                       ? refusal::equal("encryption_key_obj.key_purpose", purpose, dek::aes_xts)
                       : refusal::most("encryption_key_obj.key_size", size, dek::size_256));
  const Pdn pd{o.pd.host() & 0xffffff};
  if (!owns_pd(s, client, pd)) return no_such(Refusal::no_such_pd, "pd", pd.value());
  uint32_t number = 0;
  tpt::Dek* made = s.keys.deks().create(number);
  if (made == nullptr)
    return refused(Status::no_resources, Refusal::no_more_objects, refusal::full("obj_id"));
  made->pd = pd;
  made->has_tag = (o.tag_purpose & dek::has_tag) != 0;
  made->long_keys = size == dek::size_256;
  const std::size_t bytes = made->long_keys ? 64 : 32;
  made->keys = tpt::XtsKey::of(std::as_bytes(std::span(o.key, bytes)));
  std::memcpy(made->tag.data(), o.key + bytes, made->tag.size());
  std::memcpy(made->opaque.data(), o.opaque, made->opaque.size());
  answer_number(out, number);
  return {};
}

// The keys themselves never come back.
Answer query_dek(Hca& s, uint32_t number, Out out) {
  const tpt::Dek* dek = s.keys.deks().at(number);
  if (dek == nullptr) return no_such(Refusal::no_such_object, "obj_id", number);
  prm::DekObject o{};
  o.key_size = dek->long_keys ? prm::dek::size_256 : prm::dek::size_128;
  o.tag_purpose = static_cast<uint8_t>(prm::dek::aes_xts | (dek->has_tag ? prm::dek::has_tag : 0));
  o.pd = be32{dek->pd.value()};
  std::memcpy(o.opaque, dek->opaque.data(), sizeof o.opaque);
  std::memcpy(out.data() + object_header, &o, sizeof o);
  return {};
}

Answer destroy_dek(Hca& s, uint32_t number) {
  if (s.keys.deks().at(number) == nullptr)
    return no_such(Refusal::no_such_object, "obj_id", number);
  s.keys.deks().destroy(number);
  return {};
}

// Rows of another size than the capability says are none that a card gives.
Answer create_reserved(Hca& s, const Client&, In in, Out out) {
  const auto log = static_cast<uint32_t>(in[prm::cmd::log_obj_range] & std::byte{0x1f});
  if (log != ReservedQpns::log_count)
    return refused(Status::bad_param, Refusal::object_range,
                   refusal::equal("log_obj_range", log, ReservedQpns::log_count));
  uint32_t qpn = 0;
  if (!s.reserved_qpns.create(qpn))
    return refused(Status::no_resources, Refusal::no_more_objects, refusal::full("obj_id"));
  answer_number(out, qpn);
  return {};
}

// Nothing is told of a row but that it is there: its object has no field (rdma-core v44,
// providers/mlx5/mlx5_ifc.h, mlx5_ifc_reserved_qpn_bits).
Answer query_reserved(Hca& s, uint32_t qpn, Out) {
  if (!s.reserved_qpns.has(qpn)) return no_such(Refusal::no_such_object, "obj_id", qpn);
  return {};
}

Answer destroy_reserved(Hca& s, uint32_t qpn) {
  if (!s.reserved_qpns.destroy(qpn)) return no_such(Refusal::no_such_object, "obj_id", qpn);
  return {};
}

struct ObjectType {
  uint16_t type;
  std::size_t bytes;  // of the object
  bool (*has)(const Profile&);
  Answer (*create)(Hca&, const Client&, In, Out);
  Answer (*query)(Hca&, uint32_t number, Out);
  Answer (*destroy)(Hca&, uint32_t number);
};

// A login (object_crypto_login) needs a credential in the adapter's memory, of which this one has
// none: its crypto capabilities say so, and the type is not in general_obj_types.
constexpr ObjectType types[] = {
    {prm::cmd::object_reserved_qpn, prm::cmd::reserved_qpn_bytes - object_header,
     [](const Profile&) { return true; }, create_reserved, query_reserved, destroy_reserved},
    {prm::cmd::object_av_qp_mapping, prm::cmd::av_qp_mapping_bytes - object_header,
     [](const Profile& p) { return p.dynamic; }, create_mapping, query_mapping, destroy_mapping},
    {prm::cmd::object_dek, sizeof(prm::DekObject),
     [](const Profile& p) { return p.crypto_tweak != CryptoTweak::none; }, create_dek, query_dek,
     destroy_dek},
    {prm::cmd::object_flow_sampler, prm::flow_sampler::bytes,
     [](const Profile& p) { return p.software_steering; }, make_sampler, query_sampler,
     end_sampler},
};

// Null: the adapter has no such objects.
const ObjectType* type_of(const Hca& s, In in) {
  const uint16_t type = read<prm::CmdInHdr>(in).op_mod.host();
  const auto* t = std::find_if(std::begin(types), std::end(types),
                               [=](const ObjectType& row) { return row.type == type; });
  return t != std::end(types) && t->has(s.config.profile) ? t : nullptr;
}

Answer no_type(In in) {
  return refused(Status::bad_param, Refusal::object_type,
                 refusal::absent("obj_type", read<prm::CmdInHdr>(in).op_mod.host()));
}

}  // namespace

Answer create_object(Hca& s, const Client& client, In in, Out out) {
  const ObjectType* t = type_of(s, in);
  if (t == nullptr) return no_type(in);
  if (in.size() < object_header + t->bytes)
    return refused(Status::bad_input_len, Refusal::input_length,
                   refusal::bytes("the input", in.size(), object_header + t->bytes));
  return t->create(s, client, in, out);
}

Answer query_object(Hca& s, In in, Out out) {
  const ObjectType* t = type_of(s, in);
  if (t == nullptr) return no_type(in);
  if (out.size() < object_header + t->bytes)
    return refused(Status::bad_output_len, Refusal::output_length,
                   refusal::bytes("the output", out.size(), object_header + t->bytes));
  return t->query(s, number_of(in), out);
}

Answer destroy_object(Hca& s, In in, Out) {
  const ObjectType* t = type_of(s, in);
  if (t == nullptr) return no_type(in);
  return t->destroy(s, number_of(in));
}

}  // namespace kilim::vhca::hca::commands
