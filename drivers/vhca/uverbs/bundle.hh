// SPDX-License-Identifier: BSD-3-Clause
// The attributes of one ioctl, copied from the client once and checked against the method's table
// as the kernel's ioctl core checks them. Adapter's lock held; lives for one call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <rdma/rdma_user_ioctl_cmds.h>

#include "vhca/uverbs/client_buffer.hh"
#include "vhca/uverbs/context.hh"

namespace kilim::vhca::uverbs {

enum class AttrKind : uint8_t {
  in,          // bytes, of a length between min and max
  in_struct,   // at least min; what exceeds max must be zero
  out,         // room for at least min bytes
  object,      // a handle of kind `object`
  any_object,  // a handle
  element,     // one of a list, by number, and what belongs to it
  fresh,       // the handle of what is made
  fd,          // a descriptor, checked by the method
};

// A row of a method's table: what one attribute may be.
struct AttrRule {
  uint16_t id;  // UVERBS_ATTR_* or MLX5_IB_ATTR_*
  AttrKind kind;
  bool mandatory;          // EINVAL where it is absent
  uint16_t min = 0;        // bytes, of in, in_struct and out
  uint16_t max = 0xffff;   // bytes, of in and in_struct
  Kind object = Kind::pd;  // of AttrKind::object
};

class Bundle;

// A row of the dispatch table.
struct Method {
  uint16_t object;  // UVERBS_OBJECT_* or MLX5_IB_OBJECT_*
  uint16_t method;  // UVERBS_METHOD_* or MLX5_IB_METHOD_*
  WhenDead when_dead;
  int (*run)(Context&, Bundle&);  // 0 or a negative errno
  std::span<const AttrRule> rules;
};

class Bundle {
 public:
  static constexpr std::size_t max_attrs = 32;  // more than any method has

  // Reads `count` attributes at `attrs`. 0 or a negative errno.
  int parse(const Context& context, const Method& method, Va attrs, uint32_t count);

  [[nodiscard]] bool has(uint16_t id) const noexcept { return find(id) != nullptr; }
  // An empty buffer where the attribute is absent.
  [[nodiscard]] InBuffer in(uint16_t id) const noexcept;
  [[nodiscard]] OutBuffer out(uint16_t id) noexcept;
  // A value of at most 8 bytes; 0 where absent.
  [[nodiscard]] uint64_t value(uint16_t id) const noexcept;
  // Which one, of AttrKind::element; 0 where absent.
  [[nodiscard]] uint8_t element(uint16_t id) const noexcept;
  [[nodiscard]] int64_t fd(uint16_t id) const noexcept;
  // The object of a mandatory handle; null where an optional one is absent.
  template <typename T>
  [[nodiscard]] T* object(const Context& context, uint16_t id) const noexcept {
    const Entry* e = find(id);
    return e != nullptr ? context.find<T>(e->data) : nullptr;
  }
  // The object of a mandatory handle of any kind.
  [[nodiscard]] const Object* any_object(const Context& context, uint16_t id) const noexcept {
    const Entry* e = find(id);
    return e != nullptr ? context.object(e->data) : nullptr;
  }
  // Tells the client a handle or a descriptor. 0 or -EFAULT.
  int give(uint16_t id, uint64_t handle) noexcept;
  // Writes a value, if the client asked for it. 0 or -EFAULT.
  template <typename T>
  int put(uint16_t id, const T& value) noexcept {
    return out(id).write(value);
  }
  [[nodiscard]] Request driver_part() noexcept;

 private:
  struct Entry {
    uint16_t id;
    uint16_t bytes;
    uint16_t flags;
    uint8_t element;
    uint64_t data;
    Va where;  // of the client's ib_uverbs_attr
  };
  [[nodiscard]] const Entry* find(uint16_t id) const noexcept;
  int check(const Context& context, const AttrRule& rule, const ib_uverbs_attr& attr) const;
  int take(const Context& context, const Method& method, Va where);

  std::array<Entry, max_attrs> entries_;
  std::size_t used_ = 0;
};

// The methods of each object; dispatch.cc searches them.
std::span<const Method> device_methods();
std::span<const Method> port_methods();
std::span<const Method> pd_methods();
std::span<const Method> mr_methods();
std::span<const Method> advise_methods();
std::span<const Method> dm_methods();
std::span<const Method> cq_methods();
std::span<const Method> qp_methods();
std::span<const Method> ah_methods();
std::span<const Method> flow_methods();
std::span<const Method> flow_action_methods();
std::span<const Method> matcher_methods();
std::span<const Method> counters_methods();
std::span<const Method> uar_methods();
std::span<const Method> devx_methods();
std::span<const Method> devx_umem_methods();
std::span<const Method> devx_event_methods();
std::span<const Method> write_methods();

// An ioctl's destroy method of one mandatory handle (attribute `id`).
int destroy_by(Context& context, Bundle& bundle, uint16_t id);

}  // namespace kilim::vhca::uverbs
