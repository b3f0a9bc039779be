// SPDX-License-Identifier: BSD-3-Clause
#include "secrets.hh"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <utility>

#include <arpa/inet.h>

namespace kilim::exam {
namespace {

constexpr std::size_t mac_bytes = 6, guid_bytes = 8, gid_bytes = 16, ip_bytes = 4;
constexpr std::ptrdiff_t enough = 4;  // bytes that are not 0, so that a match is no chance

int nibble(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool separates(char c) {
  return c == ':' || c == '-' || c == ' ' || c == '.';
}

int nibble_of(const std::vector<uint8_t>& bytes, std::size_t i) {
  return i % 2 == 0 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15;
}

// Places of the digits of `bytes` in `text` from `at` on, with at most one separator between two;
// empty: they do not stand there.
std::vector<std::size_t> digits_at(std::string_view text, std::size_t at,
                                   const std::vector<uint8_t>& bytes) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < bytes.size() * 2; i++, at++) {
    if (i != 0 && at < text.size() && separates(text[at])) at++;
    if (at >= text.size() || nibble(text[at]) != nibble_of(bytes, i)) return {};
    places.push_back(at);
  }
  return places;
}

std::vector<uint8_t> replacement(std::size_t bytes, uint8_t number) {
  std::vector<uint8_t> v(bytes);
  if (bytes == gid_bytes) v[0] = 0xfe, v[1] = 0x80;
  if (bytes == mac_bytes) v[0] = 0x02;
  v.back() = number;
  return v;
}

// An interface's identifier of IPv6 from its MAC (RFC 4291, appendix A).
std::vector<uint8_t> eui64(const std::vector<uint8_t>& mac) {
  return {static_cast<uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
}

std::string address_text(int family, const std::vector<uint8_t>& bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(family, bytes.data(), text, sizeof text);
  return text;
}

void replace_all(std::string& text, const std::string& word, const std::string& instead) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + instead.size()))
    text.replace(at, word.size(), instead);
}

}  // namespace

void Secrets::add_bytes(std::vector<uint8_t> bytes, std::vector<uint8_t> instead) {
  if (std::ranges::count_if(bytes, [](uint8_t b) { return b != 0; }) < enough) return;
  for (const Known& k : known_)
    if (k.bytes == bytes) return;
  known_.push_back({std::move(bytes), std::move(instead)});
}

void Secrets::add_word(std::string word, std::string instead) {
  for (const Pair& w : words_)
    if (w.name == word) return;
  words_.push_back({std::move(word), std::move(instead)});
}

// A whole GID is replaced wherever it stands, if it has few bytes that are not 0 too: sixteen are
// no chance.
void Secrets::add_gid(const std::vector<uint8_t>& gid, uint8_t number) {
  add_word(address_text(AF_INET6, gid), printed("fe80::%x", number));
  known_.push_back({gid, replacement(gid_bytes, number)});
  const std::vector<uint8_t> half(gid.begin() + gid_bytes / 2, gid.end());
  const bool maps_ip = half[0] == 0 && half[1] == 0 && half[2] == 0xff && half[3] == 0xff;
  if (!maps_ip) return add_bytes(half, replacement(guid_bytes, number));
  const std::vector<uint8_t> ip(half.begin() + ip_bytes, half.end());
  add_word(address_text(AF_INET, ip), printed("192.0.2.%u", number));
  add_bytes({half.begin() + 2, half.end()}, {0xff, 0xff, 192, 0, 2, number});
}

void Secrets::add(const Secret& secret) {
  const std::vector<uint8_t>& b = secret.bytes;
  if (std::ranges::all_of(b, [](uint8_t byte) { return byte == 0; })) return;
  const auto number = static_cast<uint8_t>(++count_);
  if (secret.kind == "mac" && b.size() == mac_bytes) {
    add_bytes(b, replacement(mac_bytes, number));
    add_bytes(eui64(b), replacement(guid_bytes, number));
  } else if (secret.kind == "guid" && b.size() == guid_bytes) {
    add_bytes(b, replacement(guid_bytes, number));
  } else if (secret.kind == "gid" && b.size() == gid_bytes) {
    add_gid(b, number);
  } else if (secret.kind == "ip" && b.size() == ip_bytes) {
    add_word(address_text(AF_INET, b), printed("192.0.2.%u", number));
  } else if (secret.kind == "text") {
    add_word({b.begin(), b.end()}, printed("text-%u", number));
    add_bytes(b, std::vector<uint8_t>(b.size(), 'x'));
  }
}

std::string Secrets::without(std::string_view text) const {
  std::string s(text);
  for (const Pair& w : words_) replace_all(s, w.name, w.value);
  for (const Known& k : known_) {
    for (std::size_t at = 0; at < s.size(); at++) {
      const auto places = digits_at(s, at, k.bytes);
      for (std::size_t i = 0; i < places.size(); i++)
        s[places[i]] = "0123456789abcdef"[nibble_of(k.instead, i)];
      if (!places.empty()) at = places.back();
    }
  }
  return s;
}

}  // namespace kilim::exam
