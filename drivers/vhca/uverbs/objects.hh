// SPDX-License-Identifier: BSD-3-Clause
// The objects that a client's handles name. Each knows which others it uses, as ib_core counts
// them: an object in use cannot be destroyed. Owner: the context; adapter's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <rdma/ib_user_ioctl_verbs.h>

#include "vhca/ethernet/icm.hh"
#include "vhca/ethernet/rewrite.hh"
#include "vhca/ethernet/table_type.hh"
#include "vhca/hca/device_memory.hh"
#include "vhca/hca/hca.hh"
#include "vhca/uverbs/pinned.hh"

namespace kilim::vhca::uverbs {

class EventFile;
struct Context;

// Numbered so that users come before what they use: Context::close() goes by it.
enum class Kind : uint8_t {
  flow,
  matcher,
  flow_action,
  counters,
  qp,
  rwq_table,
  wq,
  srq,
  mw,
  mr,
  dm,
  ah,
  devx_obj,
  cq,
  devx_umem,
  uar,
  xrcd,
  pd
};

// There are as many as a client likes, regions above all, so an object is small: only who uses
// several others has a list of them.
struct Object {
  explicit Object(Kind k) noexcept : kind(k) {}
  virtual ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  // Gives back what the adapter holds for it. 0, or a negative errno and the object stays.
  virtual int release(Context&) = 0;

  // The objects that this one uses, and says so once, when it is made; nulls are passed over.
  [[nodiscard]] std::span<Object*> uses() noexcept {
    return used_count_ > 1 ? std::span(many_, used_count_) : std::span(&one_, used_count_);
  }
  [[nodiscard]] std::size_t used() const noexcept { return used_count_; }
  void use(std::initializer_list<Object*> others);

 private:
  union {
    Object* one_ = nullptr;
    Object** many_;
  };
  uint8_t used_count_ = 0;

 public:
  Kind kind;
  uint32_t handle = 0;  // the client's name for it: its place in the context's table
  uint32_t users = 0;   // objects that use this one
};

struct PdObject final : Object {
  static constexpr Kind kind_of = Kind::pd;
  PdObject() noexcept : Object(kind_of) {}
  int release(Context&) override;
  Pdn pdn;
};

struct MrObject final : Object {
  static constexpr Kind kind_of = Kind::mr;
  MrObject() noexcept : Object(kind_of) {}
  int release(Context&) override;
  // Its memory is the adapter's, which it uses besides its protection domain.
  [[nodiscard]] bool of_device() const noexcept { return used() > 1; }
  uint32_t access = 0;  // IB_UVERBS_ACCESS_*
  MrKeys keys;
  uint64_t start = 0;   // in the client's memory; 0 of device memory
  uint64_t length = 0;  // in bytes
  uint64_t iova = 0;    // the address by which requests name the first byte
  Pin pin;              // none of memory on demand
};
static_assert(sizeof(MrObject) <= 72, "a heap's block of 80 bytes");

struct DmObject final : Object {
  static constexpr Kind kind_of = Kind::dm;
  DmObject() noexcept : Object(kind_of) {}
  int release(Context&) override;
  hca::DmBlock block;
  ethernet::IcmBlock icm;  // in the place of a block: memory of steering by software
  bool rewrites = false;   // of header actions, not of entries
  uint64_t length = 0;     // in bytes, as asked for
  bool inherited = false;  // its owner is the process that forked this one
};

struct MwObject final : Object {
  static constexpr Kind kind_of = Kind::mw;
  MwObject() noexcept : Object(kind_of) {}
  int release(Context&) override;
  Rkey rkey;
};

// What queues have in common: where their asynchronous events go.
struct EventSource : Object {
  using Object::Object;
  uint64_t user_handle = 0;    // what its events carry
  EventFile* async = nullptr;  // null: they go nowhere
  // Events that the client was given: destroying waits until it has acknowledged so many
  // (libibverbs, ibv_destroy_cq(3)).
  uint32_t async_posted = 0;
};

struct CqObject final : EventSource {
  static constexpr Kind kind_of = Kind::cq;
  CqObject() noexcept : EventSource(kind_of) {}
  int release(Context&) override;
  Cqn cqn;
  uint32_t cqe_count = 0;        // entries of its ring, a power of two
  uint32_t cqe_bytes = 0;        // of an entry, 64 or 128
  EventFile* channel = nullptr;  // of its completion events; null: none
  QueuePins pins;
  uint32_t completions_posted = 0;  // as async_posted
};

struct QpObject final : EventSource {
  static constexpr Kind kind_of = Kind::qp;
  QpObject() noexcept : EventSource(kind_of) {}
  int release(Context&) override;
  Qpn qpn;
  QpType type = QpType::rc;
  ib_uverbs_qp_cap cap{};  // as granted
  bool sq_sig_all = false;
  bool hashes = false;  // it has no queue, but the TIR below
  uint32_t tirn = 0;
  uint32_t tisn = 0;  // of its send queue, where firmware commands may ask for it; 0: none
  QueuePins pins;
};

struct WqObject final : EventSource {
  static constexpr Kind kind_of = Kind::wq;
  WqObject() noexcept : EventSource(kind_of) {}
  int release(Context&) override;
  uint32_t rqn = 0;
  RqState state = RqState::reset;  // as mlx5_ib takes it to be
  QueuePins pins;
};

struct RwqTableObject final : Object {
  static constexpr Kind kind_of = Kind::rwq_table;
  RwqTableObject() noexcept : Object(kind_of) {}
  int release(Context&) override;
  uint32_t rqtn = 0;
  std::vector<WqObject*> queues;  // by place; each place is a use
};

struct SrqObject final : EventSource {
  static constexpr Kind kind_of = Kind::srq;
  SrqObject() noexcept : EventSource(kind_of) {}
  int release(Context&) override;
  uint32_t srqn = 0;
  bool matches_tags = false;
  uint32_t max_wr = 0;   // as granted, for QUERY_SRQ
  uint32_t max_sge = 0;  // as granted
  QueuePins pins;
};

struct XrcdObject final : Object {
  static constexpr Kind kind_of = Kind::xrcd;
  XrcdObject() noexcept : Object(kind_of) {}
  int release(Context&) override;
  uint32_t xrcd = 0;  // the adapter's number of the domain
};

struct AhObject final : Object {
  static constexpr Kind kind_of = Kind::ah;
  AhObject() noexcept : Object(kind_of) {}
  int release(Context&) override { return 0; }  // the adapter knows nothing of it
};

struct FlowObject final : Object {
  static constexpr Kind kind_of = Kind::flow;
  FlowObject() noexcept : Object(kind_of) {}
  int release(Context&) override;
  uint32_t rule = 0;  // the adapter's number of the rule
};

// What flows of mlx5's own kind have in common.
struct MatcherObject final : Object {
  static constexpr Kind kind_of = Kind::matcher;
  MatcherObject() noexcept : Object(kind_of) {}
  int release(Context&) override { return 0; }  // the adapter knows nothing of it
  MatchParam mask{};
  DeepMatch deeper{};
  bool beyond = false;    // its mask names what is not matched
  bool unlooked = false;  // or what `criteria` does not
  uint8_t criteria = 0;
  ethernet::TableType table = ethernet::TableType::nic_rx;
  uint16_t priority = 0;
  FlowSpec::Type type = FlowSpec::Type::normal;
};

// mlx5's packet reformat: the headers that a rule puts in front of a frame; or its modify header.
struct FlowActionObject final : Object {
  static constexpr Kind kind_of = Kind::flow_action;
  FlowActionObject() noexcept : Object(kind_of) {}
  int release(Context&) override { return 0; }  // as above
  Prepend prepend;
  ethernet::RewriteList rewrite;  // where there is one, `prepend` is empty
  bool egress = true;             // of what leaves; else of what is received
};

// ibv_counters: what they tell of the rules that use them, by place.
struct CountersObject final : Object {
  static constexpr Kind kind_of = Kind::counters;
  CountersObject() noexcept : Object(kind_of) {}
  int release(Context&) override { return 0; }  // as above
  FlowCount count;
  struct Place {
    uint32_t what, index;  // mlx5_ib_flow_counters_desc
  };
  std::vector<Place> places;  // empty until a rule uses it
};

struct UarObject final : Object {
  static constexpr Kind kind_of = Kind::uar;
  UarObject() noexcept : Object(kind_of) {}
  int release(Context&) override;
  hca::Uar* uar = nullptr;  // the adapter's
};

struct DevxObject final : Object {
  static constexpr Kind kind_of = Kind::devx_obj;
  DevxObject() noexcept : Object(kind_of) {}
  int release(Context&) override;
  uint16_t created_by = 0;  // the command
  uint32_t number = 0;      // the firmware's
  uint32_t count = 1;       // of flow counters: numbers from that one on
  // The firmware command that undoes it, as mlx5_ib keeps it (devx.c,
  // devx_obj_build_destroy_cmd()).
  using DestroyCommand = std::array<std::byte, 64>;
  DestroyCommand destroy_command{};
  std::size_t destroy_bytes = 0;
};

// Memory that commands name by number.
struct DevxUmemObject final : Object {
  static constexpr Kind kind_of = Kind::devx_umem;
  DevxUmemObject() noexcept : Object(kind_of) {}
  int release(Context&) override;
  uint32_t number = 0;
  Pin pin;
};

}  // namespace kilim::vhca::uverbs
