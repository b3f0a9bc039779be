// SPDX-License-Identifier: BSD-3-Clause
// Counters of steering rules, as Linux drivers/infiniband/hw/mlx5/counters.c has them
// (mlx5_ib_flow_counters_set_data(), mlx5_ib_read_counters()). Adapter's lock held.
#include "vhca/uverbs/counters.hh"

#include <cerrno>
#include <memory>
#include <vector>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5-abi.h>

#include "vhca/core/refusal.hh"
#include "vhca/uverbs/bundle.hh"

namespace kilim::vhca::uverbs {

namespace {

constexpr uint32_t most_places = 100;       // MAX_COUNTERS_NUM
constexpr uint32_t packets = 0, bytes = 1;  // mlx5_ib_flow_counters_type
constexpr uint64_t prefers_cached = 1;      // IB_UVERBS_READ_COUNTERS_PREFER_CACHED

int create_counters(Context& context, Bundle& b) {
  auto made = std::make_unique<CountersObject>();
  CountersObject& counters = *made;
  context.add(std::move(made), {});
  return context.keep_unless(b.give(UVERBS_ATTR_CREATE_COUNTERS_HANDLE, counters.handle), counters);
}

int destroy_counters(Context& context, Bundle& b) {
  return destroy_by(context, b, UVERBS_ATTR_DESTROY_COUNTERS_HANDLE);
}

// Each place has the sum of what its descriptions name.
int read(Context& context, Bundle& b) {
  const auto* counters = b.object<CountersObject>(context, UVERBS_ATTR_READ_COUNTERS_HANDLE);
  if (const uint64_t flags = b.value(UVERBS_ATTR_READ_COUNTERS_FLAGS);
      (flags & ~prefers_cached) != 0)
    return refusal::bits("flags", flags, prefers_cached);
  const OutBuffer to = b.out(UVERBS_ATTR_READ_COUNTERS_BUFF);
  std::vector<uint64_t> values(to.bytes() / sizeof(uint64_t));
  if (counters->places.empty() || values.size() > most_places)
    return refusal::range("ncounters, of counters that a rule uses,",
                          counters->places.empty() ? 0 : values.size(), 1, most_places);
  for (const CountersObject::Place& place : counters->places) {
    if (place.index >= values.size())
      return refusal::least("ncounters", values.size(), place.index + 1);
    values[place.index] += place.what == packets ? counters->count.packets : counters->count.bytes;
  }
  return to.write(values.data(), values.size() * sizeof(uint64_t));
}

constexpr AttrRule counters_create_rules[] = {
    {UVERBS_ATTR_CREATE_COUNTERS_HANDLE, AttrKind::fresh, true}};
constexpr AttrRule counters_destroy_rules[] = {
    {UVERBS_ATTR_DESTROY_COUNTERS_HANDLE, AttrKind::object, true, 0, 0, Kind::counters}};
constexpr AttrRule read_rules[] = {
    {UVERBS_ATTR_READ_COUNTERS_HANDLE, AttrKind::object, true, 0, 0, Kind::counters},
    {UVERBS_ATTR_READ_COUNTERS_BUFF, AttrKind::out, true, 8},
    {UVERBS_ATTR_READ_COUNTERS_FLAGS, AttrKind::in, false, 4, 8},
};
constexpr Method counters_table[] = {
    {UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE, WhenDead::runs, create_counters,
     counters_create_rules},  // no command (counters.c)
    {UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY, WhenDead::runs, destroy_counters,
     counters_destroy_rules},
    {UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ, WhenDead::refused, read,
     read_rules},  // QUERY_FLOW_COUNTER
};

}  // namespace

std::span<const Method> counters_methods() {
  return counters_table;
}

int bind_counters(CountersObject& counters, const InBuffer& in) {
  // Of the list in the driver's part mlx5_ib takes one element.
  struct {
    uint32_t count, reserved;
    uint64_t list;
    uint32_t places, reserved2;
  } d{};
  static_assert(sizeof d == sizeof(mlx5_ib_create_flow) + sizeof(mlx5_ib_flow_counters_data));
  if (int err = in.read(&d, sizeof d, 0); err != 0) return err;
  if (d.count > 1 || d.reserved != 0) return refusal::most("ncounters_data", d.count, 1);
  // Told once, they are bound; other rules may use them as they are.
  if (d.count == 0)
    return counters.places.empty() ? refusal::least("counter descriptions", 0, 1) : 0;
  if (!counters.places.empty() || d.places == 0 || d.places > most_places)
    return refusal::range("counter descriptions, more than before,", d.places, 1,
                          counters.places.empty() ? most_places : 0);
  const InBuffer list(Va{d.list}, d.places * uint32_t{sizeof(mlx5_ib_flow_counters_desc)});
  std::vector<CountersObject::Place> places(d.places);
  static_assert(sizeof(CountersObject::Place) == sizeof(mlx5_ib_flow_counters_desc));
  if (int err = list.read(places.data(), list.bytes(), 0); err != 0) return err;
  for (const CountersObject::Place& place : places) {
    if (place.what > bytes) return refusal::most("counter_desc", place.what, bytes);
    if (place.index >= most_places)
      return refusal::most("the counter's index", place.index, most_places - 1);
  }
  counters.places = std::move(places);
  return 0;
}

}  // namespace kilim::vhca::uverbs
