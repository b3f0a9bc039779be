// SPDX-License-Identifier: BSD-3-Clause
// Which attributes each expression has: Linux net/netfilter/nft_payload.c, nft_meta.c,
// nft_exthdr.c, nft_bitwise.c, nft_cmp.c, nft_immediate.c.
#include "vhca/wire/nf_message.hh"

#include <algorithm>
#include <cstring>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include "kilim/detail/base/be.hh"

namespace kilim::vhca::wire {

namespace {

constexpr uint32_t value_register = NFT_REG_1;  // of 16 bytes
constexpr std::size_t unit = 4;                 // attributes and messages begin at multiples of it

}  // namespace

NfMessages::NfMessages() {
  put_header(NFNL_MSG_BATCH_BEGIN, 0, NFPROTO_UNSPEC, NFNL_SUBSYS_NFTABLES);
  end();
}

void NfMessages::append(const void* from, std::size_t bytes) {
  const std::size_t at = bytes_.size();
  bytes_.resize((at + bytes + unit - 1) / unit * unit);
  std::memcpy(bytes_.data() + at, from, bytes);
}

// The sequence number tells what an answer is about; nothing asks.
void NfMessages::put_header(uint16_t type, uint16_t flags, uint8_t family, uint16_t resource) {
  message_ = bytes_.size();
  nlmsghdr head{};
  head.nlmsg_type = type;
  head.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  append(&head, sizeof(head));
  nfgenmsg general{};
  general.nfgen_family = family;
  general.version = NFNETLINK_V0;
  general.res_id = be16{resource}.raw();
  append(&general, sizeof(general));
}

void NfMessages::begin(uint16_t type, uint16_t flags) {
  put_header(static_cast<uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | type), flags, NFPROTO_NETDEV, 0);
}

void NfMessages::end() {
  const auto length = static_cast<uint32_t>(bytes_.size() - message_);
  std::memcpy(bytes_.data() + message_, &length, sizeof(length));
}

void NfMessages::put(uint16_t type, const void* value, std::size_t bytes) {
  const nlattr head{static_cast<uint16_t>(sizeof(nlattr) + bytes), type};
  append(&head, sizeof(head));
  append(value, bytes);
}

// With its zero byte.
void NfMessages::put_text(uint16_t type, std::string_view text) {
  std::vector<char> zero_ended(text.begin(), text.end());
  zero_ended.push_back('\0');
  put(type, zero_ended.data(), zero_ended.size());
}

void NfMessages::put_number(uint16_t type, uint32_t value) {
  const be32 number{value};
  put(type, &number, sizeof(number));
}

void NfMessages::put_long(uint16_t type, uint64_t value) {
  const be64 number{value};
  put(type, &number, sizeof(number));
}

std::size_t NfMessages::open(uint16_t type) {
  const std::size_t at = bytes_.size();
  const nlattr head{0, static_cast<uint16_t>(type | NLA_F_NESTED)};
  append(&head, sizeof(head));
  return at;
}

void NfMessages::close(std::size_t at) {
  const auto length = static_cast<uint16_t>(bytes_.size() - at);
  std::memcpy(bytes_.data() + at, &length, sizeof(length));
}

std::size_t NfMessages::open_expression(const char* name, std::size_t& data) {
  const std::size_t expression = open(NFTA_LIST_ELEM);
  put_text(NFTA_EXPR_NAME, name);
  data = open(NFTA_EXPR_DATA);
  return expression;
}

void NfMessages::close_expression(std::size_t expression, std::size_t data) {
  close(data);
  close(expression);
}

// The bytes that are compared, into the register.
void NfMessages::put_load(const FrameMatch::Compare& c) {
  using From = FrameMatch::From;
  std::size_t data = 0, expression = 0;
  if (c.from == From::type || c.from == From::protocol) {
    expression = open_expression("meta", data);
    put_number(NFTA_META_KEY, c.from == From::type ? NFT_META_PROTOCOL : NFT_META_L4PROTO);
    put_number(NFTA_META_DREG, value_register);
  } else if (c.from == From::fragment) {
    constexpr uint8_t fragment_header = 44;  // RFC 8200
    expression = open_expression("exthdr", data);
    put_number(NFTA_EXTHDR_DREG, value_register);
    put(NFTA_EXTHDR_TYPE, &fragment_header, sizeof(fragment_header));
    put_number(NFTA_EXTHDR_OFFSET, 0);
    put_number(NFTA_EXTHDR_LEN, 1);
    put_number(NFTA_EXTHDR_FLAGS, NFT_EXTHDR_F_PRESENT);
  } else {
    const uint32_t base = c.from == From::link      ? NFT_PAYLOAD_LL_HEADER
                          : c.from == From::network ? NFT_PAYLOAD_NETWORK_HEADER
                                                    : NFT_PAYLOAD_TRANSPORT_HEADER;
    expression = open_expression("payload", data);
    put_number(NFTA_PAYLOAD_DREG, value_register);
    put_number(NFTA_PAYLOAD_BASE, base);
    put_number(NFTA_PAYLOAD_OFFSET, c.at);
    put_number(NFTA_PAYLOAD_LEN, c.bytes);
  }
  close_expression(expression, data);
}

// The register's bytes under the mask.
void NfMessages::put_mask(const FrameMatch::Compare& c) {
  constexpr std::array<uint8_t, FrameMatch::most> zeros{};
  std::size_t data = 0;
  const std::size_t expression = open_expression("bitwise", data);
  put_number(NFTA_BITWISE_SREG, value_register);
  put_number(NFTA_BITWISE_DREG, value_register);
  put_number(NFTA_BITWISE_LEN, c.bytes);
  const std::size_t mask = open(NFTA_BITWISE_MASK);
  put(NFTA_DATA_VALUE, c.mask.data(), c.bytes);
  close(mask);
  const std::size_t turned = open(NFTA_BITWISE_XOR);
  put(NFTA_DATA_VALUE, zeros.data(), c.bytes);
  close(turned);
  close_expression(expression, data);
}

void NfMessages::put_compare(const FrameMatch::Compare& c) {
  std::size_t data = 0;
  const std::size_t expression = open_expression("cmp", data);
  put_number(NFTA_CMP_SREG, value_register);
  put_number(NFTA_CMP_OP, c.differs ? NFT_CMP_NEQ : NFT_CMP_EQ);
  const std::size_t value = open(NFTA_CMP_DATA);
  put(NFTA_DATA_VALUE, c.value.data(), c.bytes);
  close(value);
  close_expression(expression, data);
}

void NfMessages::put_verdict(uint32_t verdict) {
  std::size_t data = 0;
  const std::size_t expression = open_expression("immediate", data);
  put_number(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
  const std::size_t value = open(NFTA_IMMEDIATE_DATA);
  const std::size_t inner = open(NFTA_DATA_VERDICT);
  put_number(NFTA_VERDICT_CODE, verdict);
  close(inner);
  close(value);
  close_expression(expression, data);
}

void NfMessages::put_expressions(const FrameMatch& match, uint32_t verdict) {
  const std::size_t list = open(NFTA_RULE_EXPRESSIONS);
  for (const FrameMatch::Compare& c : match.compares) {
    const auto end = c.mask.begin() + c.bytes;
    put_load(c);
    if (std::any_of(c.mask.begin(), end, [](uint8_t b) { return b != 0xff; })) put_mask(c);
    put_compare(c);
  }
  put_verdict(verdict);
  close(list);
}

std::vector<std::byte>& NfMessages::finish() {
  put_header(NFNL_MSG_BATCH_END, 0, NFPROTO_UNSPEC, NFNL_SUBSYS_NFTABLES);
  end();
  return bytes_;
}

}  // namespace kilim::vhca::wire
