// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/mr/runs.hh"

#include "kilim/mem/range.hh"

namespace kilim::mr {

Result<std::vector<Mr>> register_runs(Registrar& registrar, std::span<std::byte> memory,
                                      uint32_t access) {
  Result<std::vector<mem::Range>> runs = mem::runs_of(memory);
  if (!runs) return runs.error();
  std::vector<Mr> regions;
  for (const mem::Range& run : *runs) {
    Result<Mr> region = Mr::create(registrar, run.span(), access, run.page_bytes);
    if (!region) return region.error();
    regions.push_back(*std::move(region));
  }
  return regions;
}

}  // namespace kilim::mr
