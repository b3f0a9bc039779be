// SPDX-License-Identifier: BSD-3-Clause
// What one open of the device holds: objects by handle, event files, the clock page. Takes the
// adapter's events and writes them to the client's files. Adapter's lock held for every call.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "kilim/detail/base/fd.hh"
#include "vhca/core/own_fd.hh"
#include "vhca/core/spec.hh"
#include "vhca/hca/hca.hh"
#include "vhca/uverbs/event_file.hh"
#include "vhca/uverbs/objects.hh"

namespace kilim::vhca::uverbs {

// What a method or a write command does when the adapter is dead, asked once, before it runs: a
// column of the tables. The adapter is then as a card in mlx5_core's internal error state: firmware
// commands that make, change or ask are refused with EIO, those that undo something are taken for
// done (Linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c, mlx5_internal_err_ret_value()).
enum class WhenDead : uint8_t {
  refused,  // -EIO: mlx5_ib needs a firmware command that makes, changes or asks
  runs,     // it needs none, or one that undoes something
  judges,   // what is asked for decides: the method says refused or runs to refusal() itself
  closed,   // -EAGAIN: mlx5_ib's ib_active (main.c, mlx5_ib_alloc_ucontext())
};

struct Context final : EventSink {
  explicit Context(hca::Hca& h) noexcept : hca(h) {}
  ~Context() override;

  void completion(void* cq_owner) noexcept override;
  void async(uint32_t type, void* owner) noexcept override;

  // The object of this handle, if it is of this kind; null otherwise.
  template <typename T>
  [[nodiscard]] T* find(uint64_t handle) const noexcept {
    Object* o = object(handle);
    return o != nullptr && o->kind == T::kind_of ? static_cast<T*>(o) : nullptr;
  }
  [[nodiscard]] Object* object(uint64_t handle) const noexcept;

  // The UAR object of this page number of the adapter, if it is one of ours.
  [[nodiscard]] UarObject* find_uar(uint32_t page) const noexcept;

  // The block of device memory at this page of the adapter's window, if it is one of ours.
  [[nodiscard]] DmObject* find_dm(uint16_t page) const noexcept;

  // Takes an object in; it uses `used` (nulls are passed over) until it is destroyed.
  void add(std::unique_ptr<Object> object, std::initializer_list<Object*> used);
  // The object uses `now` instead of `before` from here on.
  static void use_instead(Object& object, Object& before, Object& now) noexcept;
  // -EBUSY: others use it. Otherwise what release() says.
  int destroy(Object& object);
  // Takes the object out again where `err` says that the client could not be told of it.
  int keep_unless(int err, Object& object);

  // 0: go on; otherwise the negative errno of a method that does this when the adapter is dead.
  [[nodiscard]] int refusal(WhenDead when_dead) const noexcept;

  // The event file that the client's descriptor names; null: it names none of this kind.
  [[nodiscard]] EventFile* event_file(EventFile::Kind kind, int64_t fd) const noexcept;
  // Makes one; the client's descriptor, or a negative errno.
  int make_event_file(EventFile::Kind kind);

  // Events of mlx5's numbering (PRM "Event Queue Entry", type) of one object, or of the adapter
  // (null), go to this file, with the cookie; to an eventfd(2) instead where there is one.
  struct Subscription {
    EventFile* file = nullptr;
    const Object* object = nullptr;
    uint16_t type = 0;
    uint64_t cookie = 0;
    Fd eventfd;
  };
  int subscribe(Subscription);
  void post_devx_event(const DevxObject& object, uint8_t type) noexcept;

  // GET_CONTEXT has been answered: events of the adapter come here. `with_devx`: the client asked
  // for firmware commands (MLX5_IB_ALLOC_UCTX_DEVX).
  void open(bool with_devx);
  // Everything goes.
  void close();
  // In a child after fork: the adapter is not ours. Everything goes, without a word to it; device
  // memory stays, to be mapped.
  void disown();

  hca::Hca& hca;          // outlives every open of it
  bool opened = false;    // GET_CONTEXT has been answered
  bool devx = false;      // and it asked for DevX
  bool disowned = false;  // a child after fork
  uint32_t domain = 0;    // its transport domain, where it has firmware commands; 0: none yet
  uint32_t dm_open = 0;   // to whom device memory is counted: DeviceMemory::enter()
  RecordPages record_pages;

 private:
  void destroy_all(int kind);
  void forget_files();
  void forget_subscriptions(const Object& object) noexcept;

  std::vector<Subscription> subscriptions_;
  std::vector<std::unique_ptr<Object>> objects_;  // by handle
  std::vector<uint32_t> unused_;                  // handles to be given again
  std::vector<std::unique_ptr<EventFile>> event_files_;

 public:
  EventFile* default_async = nullptr;  // the first one, where queues name no other
};

}  // namespace kilim::vhca::uverbs
