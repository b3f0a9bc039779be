// SPDX-License-Identifier: BSD-3-Clause
// Dict: a dictionary of an answer on EAL's telemetry socket, over rte_tel_data. EAL owns its memory
// and takes 256 entries; what is beyond is left out, so that the caller pages. Names become what
// rte_telemetry.h allows: letters, digits, '_' and '/'. A value of the thread that answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct rte_tel_data;

namespace kilim::inline v1::telemetry {

class Dict {
 public:
  // Makes `data` a dictionary. Null: everything is dropped.
  explicit Dict(rte_tel_data* data) noexcept;

  void number(std::string_view name, uint64_t value) const;
  void flag(std::string_view name, bool value) const { number(name, value ? 1 : 0); }
  // At most 127 bytes; others than printable ASCII become '?'.
  void text(std::string_view name, std::string_view value) const;
  // Without a value: "not reported".
  void maybe(std::string_view name, const std::optional<uint64_t>& value) const;
  void texts(std::string_view name, const std::vector<std::string>& values) const;
  // A dictionary within.
  [[nodiscard]] Dict child(std::string_view name) const;
  // The whole answer to a command that cannot be carried out.
  void refuse(std::string_view why) const { text("error", why); }

 private:
  rte_tel_data* data_;
};

// A name as answers have it: vhca.0 is vhca_0.
std::string key_of(std::string_view name);

}  // namespace kilim::inline v1::telemetry
