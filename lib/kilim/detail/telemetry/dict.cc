// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/telemetry/dict.hh"

#include <algorithm>

#include "kilim/detail/base/dpdk.hh"

namespace kilim::inline v1::telemetry {
namespace {

constexpr std::size_t longest_text = RTE_TEL_MAX_STRING_LEN - 1;

std::string printable(std::string_view text) {
  std::string s(text.substr(0, longest_text));
  std::replace_if(
      s.begin(), s.end(), [](char c) { return c < ' ' || c > '~' || c == '"' || c == '\\'; }, '?');
  return s;
}

}  // namespace

std::string key_of(std::string_view name) {
  std::string s(name.substr(0, 63));  // rte_tel_data keeps 64 bytes of a name
  std::replace_if(
      s.begin(), s.end(),
      [](char c) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        return !letter && (c < '0' || c > '9') && c != '_' && c != '/';
      },
      '_');
  return s;
}

Dict::Dict(rte_tel_data* data) noexcept : data_(data) {
  if (data_ != nullptr) (void)rte_tel_data_start_dict(data_);
}

void Dict::number(std::string_view name, uint64_t value) const {
  if (data_ != nullptr) (void)add_dict_number(data_, key_of(name).c_str(), value);
}

void Dict::text(std::string_view name, std::string_view value) const {
  if (data_ == nullptr) return;
  (void)rte_tel_data_add_dict_string(data_, key_of(name).c_str(), printable(value).c_str());
}

void Dict::maybe(std::string_view name, const std::optional<uint64_t>& value) const {
  if (value)
    number(name, *value);
  else
    text(name, "not reported");
}

void Dict::texts(std::string_view name, const std::vector<std::string>& values) const {
  rte_tel_data* list = data_ == nullptr ? nullptr : rte_tel_data_alloc();
  if (list == nullptr) return;
  (void)rte_tel_data_start_array(list, RTE_TEL_STRING_VAL);
  for (const std::string& v : values)
    (void)rte_tel_data_add_array_string(list, printable(v).c_str());
  if (rte_tel_data_add_dict_container(data_, key_of(name).c_str(), list, 0) != 0)
    rte_tel_data_free(list);
}

Dict Dict::child(std::string_view name) const {
  rte_tel_data* inner = data_ == nullptr ? nullptr : rte_tel_data_alloc();
  if (inner == nullptr) return Dict(nullptr);
  const Dict made(inner);
  if (rte_tel_data_add_dict_container(data_, key_of(name).c_str(), inner, 0) == 0) return made;
  rte_tel_data_free(inner);
  return Dict(nullptr);
}

}  // namespace kilim::inline v1::telemetry
