// SPDX-License-Identifier: BSD-3-Clause
// Reads and checks the attributes of an ioctl. The errors are those of the kernel's ioctl core.
// Adapter's lock held; never allocates.
#include "vhca/uverbs/bundle.hh"

#include <cerrno>
#include <cstddef>

#include <rdma/ib_user_ioctl_cmds.h>

#include "vhca/core/refusal.hh"
#include "vhca/memory/dma.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr AttrRule driver_rules[] = {
    {UVERBS_ATTR_UHW_IN, AttrKind::in, false},
    {UVERBS_ATTR_UHW_OUT, AttrKind::out, false},
};

const AttrRule* rule_of(const Method& method, uint16_t id) {
  for (const AttrRule& r : method.rules) {
    if (r.id == id) return &r;
  }
  for (const AttrRule& r : driver_rules) {
    if (r.id == id) return &r;
  }
  return nullptr;
}

InBuffer in_buffer(uint64_t data, uint16_t bytes) {
  return bytes <= sizeof data ? InBuffer::embedded(data, bytes) : InBuffer{Va{data}, bytes};
}

// By Kind.
const char* name_of(const AttrRule& rule) {
  constexpr const char* names[] = {"the flow",          "the matcher",
                                   "the flow action",   "the counters",
                                   "the queue pair",    "the table of receive queues",
                                   "the receive queue", "the shared receive queue",
                                   "the memory window", "the memory region",
                                   "the device memory", "the address handle",
                                   "the DevX object",   "the completion queue",
                                   "the umem",          "the UAR",
                                   "the XRC domain",    "the protection domain"};
  static_assert(std::size(names) == static_cast<std::size_t>(Kind::pd) + 1);
  return rule.kind == AttrKind::any_object ? "the object"
                                           : names[static_cast<std::size_t>(rule.object)];
}

int check_object(const Context& context, const AttrRule& rule, const ib_uverbs_attr& attr) {
  if (attr.len != 0 || attr.data > UINT32_MAX) return refusal::attribute(attr.attr_id, attr.len);
  const Object* o = context.object(attr.data);
  if (o == nullptr) return refusal::absent(name_of(rule), attr.data, ENOENT);
  return rule.kind == AttrKind::any_object || o->kind == rule.object
             ? 0
             : refusal::absent(name_of(rule), attr.data);
}

}  // namespace

int Bundle::check(const Context& context, const AttrRule& rule, const ib_uverbs_attr& attr) const {
  const bool element = rule.kind == AttrKind::element;
  if ((element ? attr.attr_data.enum_data.reserved : attr.attr_data.reserved) != 0)
    return refusal::attribute(attr.attr_id, attr.len);
  switch (rule.kind) {
    case AttrKind::in_struct:
      if (attr.len > rule.max) {
        if (int err = in_buffer(attr.data, attr.len).zero_from(rule.max); err != 0) return err;
      }
      return attr.len < rule.min ? refusal::attribute(attr.attr_id, attr.len) : 0;
    case AttrKind::in:
    case AttrKind::element:
    case AttrKind::out:
      return attr.len < rule.min || attr.len > rule.max ? refusal::attribute(attr.attr_id, attr.len)
                                                        : 0;
    case AttrKind::any_object:
    case AttrKind::object:
      return check_object(context, rule, attr);
    case AttrKind::fresh:
      return attr.len != 0 ? refusal::attribute(attr.attr_id, attr.len) : 0;
    case AttrKind::fd:
      if (attr.len != 0) return refusal::attribute(attr.attr_id, attr.len);
      return attr.data_s64 < 0 || attr.data_s64 > INT32_MAX
                 ? refusal::descriptor("what is asked for", attr.data)
                 : 0;
  }
  return refusal::attribute(attr.attr_id, attr.len);
}

int Bundle::take(const Context& context, const Method& method, Va where) {
  ib_uverbs_attr attr;
  if (!memory::dma::copy_in(&attr, where, sizeof attr)) return refusal::fault(where.value());
  const AttrRule* rule = rule_of(method, attr.attr_id);
  if (rule == nullptr)
    return attr.flags & UVERBS_ATTR_F_MANDATORY
               ? refusal::attribute(attr.attr_id, attr.len, EPROTONOSUPPORT)
               : 0;
  if (has(attr.attr_id)) return refusal::attribute(attr.attr_id, attr.len);
  if (int err = check(context, *rule, attr); err != 0) return err;
  // Known attributes are fewer than max_attrs and come once each.
  entries_[used_++] = {attr.attr_id, attr.len, attr.flags, attr.attr_data.enum_data.elem_id,
                       attr.data,    where};
  return 0;
}

int Bundle::parse(const Context& context, const Method& method, Va attrs, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    Va where{attrs.value() + i * sizeof(ib_uverbs_attr)};
    if (int err = take(context, method, where); err != 0) return err;
  }
  for (const AttrRule& r : method.rules) {
    if (r.mandatory && !has(r.id)) return refusal::attribute(r.id, 0);
  }
  return 0;
}

const Bundle::Entry* Bundle::find(uint16_t id) const noexcept {
  for (std::size_t i = 0; i < used_; i++) {
    if (entries_[i].id == id) return &entries_[i];
  }
  return nullptr;
}

InBuffer Bundle::in(uint16_t id) const noexcept {
  const Entry* e = find(id);
  return e != nullptr ? in_buffer(e->data, e->bytes) : InBuffer{};
}

OutBuffer Bundle::out(uint16_t id) noexcept {
  const Entry* e = find(id);
  if (e == nullptr) return {};
  // Only checkers of memory read this flag; where it cannot be written, the value cannot either.
  (void)memory::dma::store<uint16_t>(Va{e->where.value() + offsetof(ib_uverbs_attr, flags)},
                                     static_cast<uint16_t>(e->flags | UVERBS_ATTR_F_VALID_OUTPUT));
  return {Va{e->data}, e->bytes};
}

uint64_t Bundle::value(uint16_t id) const noexcept {
  uint64_t v = 0;
  (void)in(id).read(&v, sizeof v, 0);  // at most 8 bytes lie in the attribute itself
  return v;
}

uint8_t Bundle::element(uint16_t id) const noexcept {
  const Entry* e = find(id);
  return e != nullptr ? e->element : uint8_t{0};
}

int64_t Bundle::fd(uint16_t id) const noexcept {
  const Entry* e = find(id);
  return e != nullptr ? static_cast<int64_t>(e->data) : -1;
}

int Bundle::give(uint16_t id, uint64_t handle) noexcept {
  const Entry* e = find(id);
  if (e == nullptr) return 0;
  Va at{e->where.value() + offsetof(ib_uverbs_attr, data)};
  return memory::dma::store<uint64_t>(at, handle) ? 0 : refusal::fault(at.value());
}

Request Bundle::driver_part() noexcept {
  return {{}, {}, in(UVERBS_ATTR_UHW_IN), out(UVERBS_ATTR_UHW_OUT)};
}

int destroy_by(Context& context, Bundle& bundle, uint16_t id) {
  auto handle = static_cast<uint32_t>(bundle.fd(id));
  return context.destroy(*context.object(handle));
}

}  // namespace kilim::vhca::uverbs
