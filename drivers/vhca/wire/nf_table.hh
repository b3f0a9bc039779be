// SPDX-License-Identifier: BSD-3-Clause
// A table of the kernel's packet filter (nf_tables, family netdev) with one chain at an interface's
// ingress, by netlink messages. The kernel hands frames to packet sockets before it asks the chain
// (Linux net/core/dev.c, __netif_receive_skb_core()), so those see what the chain drops. The table
// has the socket for its owner (NFT_TABLE_F_OWNER): nobody else changes it, and it is gone when the
// last process that has the socket is. Control path, one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/result.hh"
#include "vhca/wire/frame_match.hh"

namespace kilim::vhca::wire {

class NfTable {
 public:
  // EPERM: without CAP_NET_ADMIN in this network namespace. EOPNOTSUPP, ENOENT and others: the
  // kernel has no such table or hook.
  static Result<NfTable> create(const char* interface);

  enum class Then : uint8_t { drop, accept };
  // A rule behind the one with the handle `behind`, at the beginning where that is 0; its handle.
  Result<uint64_t> add(const FrameMatch&, Then, uint64_t behind);
  // A negative errno.
  int remove(uint64_t handle);

 private:
  NfTable(Fd socket, std::string name) : socket_(std::move(socket)), name_(std::move(name)) {}
  // Sends a batch; what the kernel echoes of a rule is its handle.
  int exchange(const std::vector<std::byte>& batch, uint64_t* handle);
  int read_answers(uint64_t* handle);

  Fd socket_;
  std::string name_;
};

}  // namespace kilim::vhca::wire
