// SPDX-License-Identifier: BSD-3-Clause
// Connects a device's queue pairs by address, through librdmacm: Listener waits for requests,
// Connection is one connection. They exchange the peers' end points and take the caller's queue
// pair to RTS; they move no data. Nothing blocks: poll() goes on with what has happened, and runs a
// device that is polled. Owner: the caller; device and queue pair outlive them. One thread each;
// control path only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/device/device.hh"

struct rdma_cm_event;
struct rdma_cm_id;
struct rdma_event_channel;

namespace kilim::inline v1::connect {

struct DestroyCm {
  void operator()(rdma_cm_id* id) const noexcept;
  void operator()(rdma_event_channel* channel) const noexcept;
};
using CmId = std::unique_ptr<rdma_cm_id, DestroyCm>;
using CmChannel = std::unique_ptr<rdma_event_channel, DestroyCm>;

// An RDMA address of an adapter, by number or by name, and a port of librdmacm's space TCP.
struct CmAddress {
  std::string host;  // empty: every address, of a listener only
  uint16_t port = 0;
};

// Bytes of the caller's own that fit into a request and into its answer (rdma_connect(3),
// rdma_accept(3)).
inline constexpr std::size_t max_request_data = 56;
inline constexpr std::size_t max_answer_data = 196;

class Connection {
 public:
  enum class State : uint8_t { connecting, connected, disconnected };

  // Begins to connect a queue pair, as create_rc() made it. `data` goes with the request.
  // EINVAL: the host's name leads nowhere, or too much data; ENODEV: there is no rdma_cm.
  static Result<Connection> start(device::Device& device, const device::QpInfo& qp,
                                  const CmAddress& to, std::span<const std::byte> data = {});

  // Goes on; never blocks. ECONNREFUSED: nobody listens there, or the listener said no; ETIMEDOUT:
  // nobody answers; EHOSTUNREACH, ENETUNREACH: no device has a way to the address; ENODEV: another
  // device has it, or it was removed; or the errors of Device::connect_by(). After an error it is
  // of no use any more.
  Result<State> poll();
  // What came with the peer's request or answer, filled up with zeroes by some peers; while
  // connected.
  [[nodiscard]] std::span<const std::byte> data() const noexcept { return data_; }
  // Parts from the peer and takes the queue pair to the error state. The destructor parts too, and
  // leaves the queue pair as it is.
  Status disconnect();

 private:
  friend class Request;
  Connection(device::Device& device, const device::QpInfo& qp) noexcept
      : device_(&device), qp_(qp.handle), qpn_(qp.qpn) {}
  Status handle_event(const rdma_cm_event& event);
  Status ask_peer();
  Status finish(const rdma_cm_event& event);

  device::Device* device_;
  device::QpHandle qp_;
  Qpn qpn_;
  State state_ = State::connecting;
  std::vector<std::byte> data_;  // own until the peer's has come
  // The order matters: an id goes before its channel.
  CmChannel channel_;
  CmId id_;
};

// A peer's wish to connect. Destroyed without an answer it is rejected.
class Request {
 public:
  [[nodiscard]] std::span<const std::byte> data() const noexcept { return data_; }
  // Takes the queue pair to RTS and answers; the connection is there when its poll() says so.
  // Once.
  Result<Connection> accept(device::Device& device, const device::QpInfo& qp,
                            std::span<const std::byte> data = {});
  // Refuses, and says why in bytes of the caller's. Once.
  Status reject(std::span<const std::byte> data = {});

 private:
  friend class Listener;
  Request() = default;
  std::vector<std::byte> data_;
  uint8_t reads_in_ = 0, reads_out_ = 0;  // as the peer offers
  CmId id_;
};

class Listener {
 public:
  // EADDRINUSE: another listener has the port; EADDRNOTAVAIL: no device has the address; EINVAL,
  // ENODEV as Connection::start().
  static Result<Listener> create(device::Device& device, const CmAddress& at, int backlog = 64);
  // The next request for this device; never blocks. A request for another device is rejected.
  Result<std::optional<Request>> poll();
  // The port that was given, where it was asked for port 0.
  [[nodiscard]] uint16_t port() const noexcept;

 private:
  explicit Listener(device::Device& device) noexcept : device_(&device) {}
  device::Device* device_;
  CmChannel channel_;
  CmId id_;
};

}  // namespace kilim::inline v1::connect
