// SPDX-License-Identifier: BSD-3-Clause
// Which memory is brought in when a page behind a key is missing: what mlx5_ib's fault handler
// comes to, which reads an indirect key's list entry by entry and knows less of lists than the
// adapter does. Linux drivers/infiniband/hw/mlx5/odp.c: pagefault_single_data_segment(). Adapter's
// lock held. Never allocates; lists are untrusted.
#pragma once

#include <array>
#include <cstdint>

#include "vhca/tpt/paging.hh"
#include "vhca/tpt/translate.hh"

namespace kilim::vhca::tpt {

struct Translator;

class FaultWalk {
 public:
  FaultWalk(const Translator&, bool write) noexcept;

  // Brings in what the handler finds behind a segment. Not ok: it gives up, and the request ends.
  Verdict serve(uint32_t key, uint64_t address, uint64_t bytes) noexcept;
  // Bytes of all segments so far, memory that it takes for pinned among them.
  [[nodiscard]] uint64_t mapped() const noexcept { return mapped_; }

 private:
  // Entries of one list that wait for their turn, the last one first.
  struct Frame {
    const Mkey* key;
    uint8_t level;  // keys above this one
    uint32_t first, at;
    uint64_t skip;  // bytes of the first entry in front of what is wanted
    uint64_t last;  // bytes wanted of the last entry
  };
  Verdict enter(uint32_t key, uint64_t address, uint64_t bytes, uint8_t level) noexcept;
  Verdict enter_list(const Mkey&, uint64_t address, uint64_t bytes, uint8_t level) noexcept;
  Verdict bring_in(const Mkey&, uint32_t key, uint64_t address, uint64_t bytes) noexcept;

  const KeyTable& keys_;
  Paging& paging_;
  const bool write_;
  const uint8_t limit_;
  uint8_t depth_ = 0;
  bool ended_ = false;
  uint32_t entries_ = 0;  // looked at
  uint64_t mapped_ = 0;
  std::array<Frame, walk_depth> frames_;
};

}  // namespace kilim::vhca::tpt
