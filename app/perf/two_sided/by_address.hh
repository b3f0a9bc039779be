// SPDX-License-Identifier: BSD-3-Clause
// Links: the connections of a side's queues by librdmacm (-R). A request says in its data which
// queue it is for; what arrives is untrusted. Owner: a run of a test; destroyed before the side.
// One thread; control path only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kilim/connection.hh"
#include "kilim/result.hh"
#include "perf/two_sided/side.hh"

namespace kilim::perf {

class Links {
 public:
  // Connects every queue of the client's side, one after the other, within ten seconds each.
  Status connect(Side& side, const std::string& host, uint16_t port);
  // Begins to listen, on every address of the server's device.
  Status listen(Side& side, uint16_t port);
  // Takes a request for every queue, within ten seconds; others are rejected.
  Status accept(Side& side);

 private:
  std::optional<connect::Listener> listener_;
  std::vector<connect::Connection> links_;
};

}  // namespace kilim::perf
