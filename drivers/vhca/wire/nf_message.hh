// SPDX-License-Identifier: BSD-3-Clause
// Messages of nf_tables as they lie in a netlink batch: netlink(7), <linux/netfilter/nfnetlink.h>,
// <linux/netfilter/nf_tables.h>. Numbers are in network order there, lengths and types in the
// machine's. Values; nothing is sent here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "vhca/wire/frame_match.hh"

namespace kilim::vhca::wire {

class NfMessages {
 public:
  // Opens the batch.
  NfMessages();
  // A message of this type (NFT_MSG_*) for the family netdev; its attributes follow.
  void begin(uint16_t type, uint16_t flags);
  void end();

  void put(uint16_t type, const void* value, std::size_t bytes);
  void put_text(uint16_t type, std::string_view text);
  void put_number(uint16_t type, uint32_t value);
  void put_long(uint16_t type, uint64_t value);
  // Attributes inside another one; close() has what open() returned.
  std::size_t open(uint16_t type);
  void close(std::size_t at);

  // The expressions of a rule: each comparison of the match, then the verdict (NF_DROP, NF_ACCEPT).
  void put_expressions(const FrameMatch&, uint32_t verdict);

  // Closes the batch, which is ready to be sent.
  std::vector<std::byte>& finish();

 private:
  std::size_t open_expression(const char* name, std::size_t& data);
  void close_expression(std::size_t expression, std::size_t data);
  void put_load(const FrameMatch::Compare&);
  void put_mask(const FrameMatch::Compare&);
  void put_compare(const FrameMatch::Compare&);
  void put_verdict(uint32_t verdict);
  void append(const void* from, std::size_t bytes);
  void put_header(uint16_t type, uint16_t flags, uint8_t family, uint16_t resource);

  std::vector<std::byte> bytes_;
  std::size_t message_ = 0;  // where the last one begins
};

}  // namespace kilim::vhca::wire
