// SPDX-License-Identifier: BSD-3-Clause
// A client of EAL's telemetry socket of this process, as rte_telemetry.h and dpdk-telemetry.py
// describe it: SOCK_SEQPACKET, a greeting, then a command and its answer. One thread each.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>

#include <rte_eal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace kilim::test {

class TelemetryClient {
 public:
  TelemetryClient() : fd_(::socket(AF_UNIX, SOCK_SEQPACKET, 0)) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::snprintf(to.sun_path, sizeof to.sun_path, "%s/dpdk_telemetry.v2",
                  rte_eal_get_runtime_dir());
    there_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0 &&
             ::recv(fd_, room_, sizeof room_, 0) > 0;  // the greeting
  }
  TelemetryClient(const TelemetryClient&) = delete;
  TelemetryClient& operator=(const TelemetryClient&) = delete;
  ~TelemetryClient() { ::close(fd_); }

  // The answer's JSON; "no telemetry" without one.
  std::string ask(const std::string& what) {
    if (!there_ || ::send(fd_, what.data(), what.size(), 0) <= 0) return "no telemetry";
    const ssize_t n = ::recv(fd_, room_, sizeof room_, 0);
    return {room_, n > 0 ? static_cast<std::size_t>(n) : 0};
  }

 private:
  int fd_;
  bool there_ = false;
  char room_[1 << 16] = "";
};

inline std::string ask(const std::string& what) {
  return TelemetryClient().ask(what);
}

// The number behind `"name":` in an answer, the first one; -1: there is none.
inline long long number_of(const std::string& answer, const std::string& name) {
  const std::size_t at = answer.find('"' + name + "\":");
  long long n = -1;
  if (at != std::string::npos) std::sscanf(answer.c_str() + at + name.size() + 3, "%lld", &n);
  return n;
}

}  // namespace kilim::test
