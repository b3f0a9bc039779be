// SPDX-License-Identifier: BSD-3-Clause
// Makes and unmakes the adapter's tables. Numbers start where the seed says.
#include "vhca/hca/state.hh"

#include <utility>

#include "vhca/core/journal.hh"
#include "vhca/exec/opcodes.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca {

namespace {
constexpr uint32_t first_number(uint64_t seed, uint32_t lowest, unsigned shift) noexcept {
  return lowest + static_cast<uint32_t>(seed * 0x9e3779b97f4a7c15u >> shift & 0xffff);
}
}  // namespace

HcaState::HcaState(HcaConfig c)
    : Engine(first_number(c.seed, 0x40, 40), c.profile.max_qp),
      config(std::move(c)),
      addresses{config.mac, config.gid, config.profile.lid},
      paging(keys),
      keys(config.seed, config.profile.max_mr),
      pds(first_number(config.seed, 0x10, 16), config.profile.max_pd),
      cqs(first_number(config.seed, 0x400, 28), config.profile.max_cq),
      srqs(first_number(config.seed, 0x200, 20), config.profile.max_srq),
      xrcds(first_number(config.seed, 0x10, 36), config.profile.max_xrcd),
      dm(config.profile, config.seed) {
  if (config.journal == nullptr) {
    own_journal = std::make_unique<Journal>();
    config.journal = own_journal.get();
  }
  context.keys = &keys;
  context.srqs = &srqs;
  context.ready = &ready;
  context.profile = &config.profile;
  context.addresses = &addresses;
  context.journal = config.journal;
  context.translator = {&keys, config.profile.max_indirection, &paging};
  eth.context = &context;
  roce.context = &context;
  roce.ready = &ready;
  roce.qps = &qps;
  roce.engine = static_cast<Engine*>(this);
  roce.execute = execute_here;
  fatal_at = config.fatal_at;
  paging.use_journal(*config.journal);
  if (config.lint == LintMode::off) return;
  lint = std::make_unique<Lint>(
      config.lint, Lint::Around{config.name.c_str(), config.journal, &keys, &config.profile, &qps});
  context.observer = lint.get();
}

HcaState::~HcaState() = default;

}  // namespace kilim::vhca
