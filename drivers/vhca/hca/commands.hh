// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Command Interface". Firmware commands of DevX clients, and what the functions behind them
// share. Bytes are the client's; what is wrong becomes a status and a syndrome, never an error of
// ours. Adapter's lock held.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/hca_cap.hh"
#include "vhca/core/refusal.hh"
#include "vhca/hca/hca.hh"

namespace kilim::vhca::hca {

// Who asks: events of what is made go to `sink`, with `owner`; memory is looked for among its own.
struct Client {
  EventSink* sink = nullptr;
  void* owner = nullptr;
};

// The one completion vector's event queue.
inline constexpr uint32_t completion_event_queue = 1;

// Status and syndrome are in `out`. Returns 0, or a negative errno where mlx5_ib itself refuses.
int command(Hca&, std::span<const std::byte> in, std::span<std::byte> out, const Client& = {});

namespace commands {

using prm::cmd::Status;

// The syndrome of an answer: one number for each place where a command is refused. The manual
// leaves syndromes to the firmware; these are ours, so that a journal's line leads to its place.
enum class Refusal : uint32_t {
  none = 0,
  unknown_opcode = 0x56a001,
  input_length = 0x56a002,
  output_length = 0x56a003,
  cap_group = 0x56a004,
  umem_key = 0x56a005,
  list_length = 0x56a006,
  no_such_pd = 0x56a007,
  key_context = 0x56a008,
  no_more_keys = 0x56a009,
  no_such_key = 0x56a00a,
  no_such_qp = 0x56a00b,
  qp_state = 0x56a00c,
  no_more_pds = 0x56a00d,
  pd_in_use = 0x56a00e,
  qp_parameter = 0x56a00f,
  qp_service = 0x56a010,
  stream_not_failed = 0x56a011,
  object_type = 0x56a012,
  no_more_objects = 0x56a013,
  no_such_object = 0x56a014,
  no_signatures = 0x56a015,
  psv_count = 0x56a016,
  no_more_psvs = 0x56a017,
  no_such_psv = 0x56a018,
  reserved = 0x56a019,
  no_such_umem = 0x56a01a,
  no_such_cq = 0x56a01b,
  cq_context = 0x56a01c,
  no_such_tis = 0x56a01d,
  sq_context = 0x56a01e,
  rq_context = 0x56a01f,
  rqt_context = 0x56a020,
  tir_context = 0x56a021,
  no_such_queue = 0x56a022,
  queue_state = 0x56a023,
  object_in_use = 0x56a024,
  no_such_domain = 0x56a025,
  no_such_counter = 0x56a026,
  no_such_uar = 0x56a027,
  dek_parameter = 0x56a040,
  rmp_context = 0x56a041,
  object_range = 0x56a042,
  no_tag_matching = 0x56a043,
  xrq_context = 0x56a044,
  no_such_table = 0x56a060,
  table_context = 0x56a061,
  table_entry = 0x56a062,
  reformat = 0x56a063,
};

struct Answer {
  Status status = Status::ok;
  Refusal why = Refusal::none;
};

// A refusal whose reason the third argument has noted (core/refusal.hh), or what was called before.
inline Answer refused(Status status, Refusal why, int /*noted*/) noexcept {
  return {status, why};
}
inline Answer noted(Status status, Refusal why) noexcept {
  return {status, why};
}
// The field of the command, and the number in it that names no object of the client's.
inline Answer no_such(Refusal why, const char* field, uint32_t number) noexcept {
  return refused(Status::bad_resource, why, refusal::absent(field, number));
}

// The command and its answer, as long as the client made them; the answer is zero on entry.
using In = std::span<const std::byte>;
using Out = std::span<std::byte>;

// A field at byte `at`. Callers have seen that `in` is long enough.
template <typename T>
T read(In in, std::size_t at = 0) {
  T v;
  std::memcpy(&v, in.data() + at, sizeof v);
  return v;
}

// A value at byte `at` of an answer that is long enough.
template <typename T>
void put(Out out, std::size_t at, const T& value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}

// The number of the object that a command names.
inline uint32_t number_in(In in) {
  return read<be32>(in, 8).host() & 0xffffff;
}
// The number of the object that was made.
inline Answer made(Out out, uint32_t number) {
  const be32 told{number};
  std::memcpy(out.data() + 8, &told, sizeof told);
  return {};
}

// A queue pair is asked to go where its state does not let it.
inline Answer wrong_state(const wq::Qp& qp, QpState to) noexcept {
  return refused(
      Status::bad_res_state, Refusal::qp_state,
      refusal::state("qpc.state", static_cast<uint64_t>(to), static_cast<uint64_t>(qp.state)));
}

// Between what numbers a field of a context must lie.
struct FieldRange {
  const char* name;  // as the PRM names it, behind its context
  prm::CapField field;
  uint32_t least, most;
};
// Whether all do; notes the first that does not.
inline bool lie_within(In context, std::span<const FieldRange> ranges) noexcept {
  for (const FieldRange& r : ranges) {
    const uint32_t is = prm::cap_get(context, r.field);
    if (is >= r.least && is <= r.most) continue;
    r.least == r.most ? refusal::equal(r.name, is, r.least)
                      : refusal::range(r.name, is, r.least, r.most);
    return false;
  }
  return true;
}
// The largest logarithm of what may be this many.
inline uint32_t log_of(uint64_t most) noexcept {
  return static_cast<uint32_t>(std::bit_width(most)) - 1;
}

// Whose an object is. Firmware knows the objects of a client by its uid, and refuses those of
// others (Linux drivers/infiniband/hw/mlx5/cmd.c and qp.c set it in commands of verbs too).
inline const EventSink* open_of(const wq::Cq& cq) noexcept {
  return cq.sink;
}
inline const EventSink* open_of(const wq::Srq& srq) noexcept {
  return srq.sink;
}
inline const EventSink* open_of(const wq::Qp& qp) noexcept {
  return qp.sink;
}
inline const EventSink* open_of(const ethernet::Tir& tir) noexcept {
  return tir.end.sink;
}
template <typename T>
const EventSink* open_of(const T& object) noexcept {
  return object.open;
}

// What a command names by number: an object that this client made, by verbs or by a command. Null:
// there is none, or it is another's.
template <typename Table>
auto* find_own(const Table& objects, const Client& client, uint32_t number) noexcept {
  auto* object = objects.at(number);
  return object != nullptr && open_of(*object) == client.sink ? object : decltype(object){};
}
inline bool owns_pd(const Hca& h, const Client& client, Pdn pd) noexcept {
  return find_own(h.pds, client, pd.value()) != nullptr;
}
inline bool owns_cq(const Hca& h, const Client& client, Cqn cqn) noexcept {
  return find_own(h.cqs, client, cqn.value()) != nullptr;
}
// The page of a queue's doorbells.
inline bool owns_uar(const Hca& h, const Client& client, uint32_t page) noexcept {
  const Uar* uar = h.uars.at(page);
  return uar != nullptr && uar->open == client.sink;
}

// devx_cq.cc, devx_sq.cc, devx_rq.cc, devx_rqt.cc, devx_tir.cc, devx_tis.cc, devx_counter.cc.
Answer make_cq(Hca&, const Client&, In, Out);
Answer end_cq(Hca&, In, Out);
Answer change_cq(Hca&, In, Out);
Answer query_cq(Hca&, In, Out);
Answer make_sq(Hca&, const Client&, In, Out);
Answer change_sq(Hca&, In, Out);
Answer end_sq(Hca&, In, Out);
Answer query_sq(Hca&, In, Out);
Answer make_rq(Hca&, const Client&, In, Out);
Answer change_rq(Hca&, const Client&, In, Out);
Answer end_rq(Hca&, In, Out);
Answer query_rq(Hca&, In, Out);
Answer make_rqt(Hca&, const Client&, In, Out);
Answer change_rqt(Hca&, const Client&, In, Out);
Answer end_rqt(Hca&, In, Out);
Answer query_rqt(Hca&, In, Out);
Answer make_tir(Hca&, const Client&, In, Out);
Answer change_tir(Hca&, const Client&, In, Out);
Answer end_tir(Hca&, In, Out);
Answer query_tir(Hca&, In, Out);
Answer make_tis(Hca&, const Client&, In, Out);
Answer end_tis(Hca&, In, Out);
Answer query_tis(Hca&, In, Out);
Answer make_domain(Hca&, const Client&, In, Out);
Answer end_domain(Hca&, In, Out);
Answer make_counter(Hca&, const Client&, In, Out);
Answer end_counter(Hca&, In, Out);
Answer query_counter(Hca&, In, Out);
// devx_flow_counter.cc.
Answer make_flow_counter(Hca&, const Client&, In, Out);
Answer end_flow_counter(Hca&, In, Out);
Answer query_flow_counter(Hca&, const Client&, In, Out);

// devx_flow_table.cc.
Answer make_flow_table(Hca&, const Client&, In, Out);
Answer query_flow_table(Hca&, const Client&, In, Out);
Answer end_flow_table(Hca&, const Client&, In, Out);
Answer make_flow_group(Hca&, const Client&, In, Out);
Answer end_flow_group(Hca&, const Client&, In, Out);
Answer query_flow_group(Hca&, const Client&, In, Out);
Answer set_flow_entry(Hca&, const Client&, In, Out);
Answer delete_flow_entry(Hca&, const Client&, In, Out);
Answer query_flow_entry(Hca&, const Client&, In, Out);
Answer sync_steering(Hca&, In, Out);
// devx_reformat.cc.
Answer make_reformat(Hca&, In, Out);
Answer end_reformat(Hca&, In, Out);
Answer query_reformat(Hca&, In, Out);
// devx_flow_table.cc.
Answer make_sampler(Hca&, const Client&, In, Out);
Answer query_sampler(Hca&, uint32_t number, Out);
Answer end_sampler(Hca&, uint32_t number);

// devx_qp.cc.
Answer make_qp(Hca&, const Client&, In, Out);
Answer destroy_made_qp(Hca&, In, Out);
Answer step_qp(Hca&, In, Out);
// devx_rmp.cc, devx_dct.cc.
Answer make_rmp(Hca&, const Client&, In, Out);
Answer end_rmp(Hca&, In, Out);
Answer query_rmp(Hca&, In, Out);
// devx_xrq.cc.
Answer make_xrq(Hca&, const Client&, In, Out);
Answer end_xrq(Hca&, In, Out);
Answer query_xrq(Hca&, In, Out);
Answer arm_xrq(Hca&, In, Out);
Answer make_dct(Hca&, const Client&, In, Out);
Answer end_dct(Hca&, In, Out);
Answer query_dct(Hca&, In, Out);

// qp_commands.cc.
Answer end_qp(Hca&, In, Out);
Answer prepare_qp(Hca&, In, Out);
Answer change_qp(Hca&, In, Out);
// devx_qp_query.cc.
Answer query_qp(Hca&, In, Out);

// general_objects.cc.
Answer create_object(Hca&, const Client&, In, Out);
Answer query_object(Hca&, In, Out);
Answer destroy_object(Hca&, In, Out);

}  // namespace commands

}  // namespace kilim::vhca::hca
