// SPDX-License-Identifier: BSD-3-Clause
// For tests of a registrar whose calls fail: an adapter, a protection domain, a registrar by verbs
// alone.
#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include <infiniband/verbs.h>

#include "mlx5/caps.hh"
#include "mlx5/open.hh"
#include "mlx5/registrar.hh"
#include "region_fixture.hh"
#include "ut.hh"

namespace kilim::test {

using mr::Region;

// An adapter, a protection domain and a registrar over it, by verbs alone.
struct FaultsBench {
  mlx5::Context context;
  mr::OdpCaps odp;
  ibv_pd* pd = nullptr;
  std::optional<mlx5::VerbsRegistrar> registrar;
  std::vector<Region> live;
  std::optional<mr::Domain> domain;

  FaultsBench() {
    DeviceSpec c;
    c.name = "faults0";
    (void)vhca::entry::attach(c);
    ibv_device** list = ibv_get_device_list(nullptr);
    for (int i = 0; list != nullptr && list[i] != nullptr; i++)
      if (std::strcmp(ibv_get_device_name(list[i]), "faults0") == 0)
        context.reset(ibv_open_device(list[i]));
    if (list != nullptr) ibv_free_device_list(list);
    Result<device::Caps> caps = mlx5::read_caps(context.get());
    if (caps) odp = caps->odp;
  }
  bool begin() {
    pd = ibv_alloc_pd(context.get());
    if (pd != nullptr) registrar.emplace(pd, odp);
    live.reserve(16);  // not the library's
    return pd != nullptr;
  }
  // Everything that was told to be there goes; then nothing may be left.
  bool end() {
    bool good = true;
    for (const Region& r : live) good = registrar->deregister(r).ok() && good;
    live.clear();
    if (domain) good = registrar->destroy_domain(*domain).ok() && good;
    domain.reset();
    registrar.reset();
    return ibv_dealloc_pd(pd) == 0 && good;
  }
};

}  // namespace kilim::test
