// SPDX-License-Identifier: BSD-3-Clause
// Makes and unmakes the adapter's tables. Numbers start where the seed says.
#include "vhca/hca/state.hh"

#include <utility>

#include "vhca/hca/journal.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca {

namespace {
constexpr uint32_t first_number(uint64_t seed, uint32_t lowest, unsigned shift) noexcept {
  return lowest + static_cast<uint32_t>(seed * 0x9e3779b97f4a7c15u >> shift & 0xffff);
}
}  // namespace

HcaState::HcaState(HcaConfig c)
    : config(std::move(c)),
      paging(keys),
      keys(config.seed, config.profile.max_mr),
      pds(first_number(config.seed, 0x10, 16), config.profile.max_pd),
      cqs(first_number(config.seed, 0x400, 28), config.profile.max_cq),
      qps(first_number(config.seed, 0x40, 40), config.profile.max_qp),
      srqs(first_number(config.seed, 0x200, 20), config.profile.max_srq),
      xrcds(first_number(config.seed, 0x10, 36), config.profile.max_xrcd),
      dm(config.profile, config.seed) {
  if (config.journal == nullptr) {
    own_journal = std::make_unique<Journal>();
    config.journal = own_journal.get();
  }
  keys.set_defect(config.defect_klm_address);
  works.keys = &keys;
  works.srqs = &srqs;
  works.ready = &ready;
  works.profile = &config.profile;
  works.config = &config;
  works.journal = config.journal;
  works.translator = {&keys, config.profile.max_indirection, &paging};
  paging.use_journal(*config.journal);
  if (config.lint == LintMode::off) return;
  lint = std::make_unique<Lint>(
      config.lint, Lint::Around{config.name.c_str(), config.journal, &keys, &config.profile, &qps});
  works.lint = lint.get();
}

HcaState::~HcaState() = default;

}  // namespace kilim::vhca
