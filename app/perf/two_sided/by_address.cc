// SPDX-License-Identifier: BSD-3-Clause
#include "perf/two_sided/by_address.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "perf/two_sided/packing.hh"

namespace kilim::perf {
namespace {

using Clock = std::chrono::steady_clock;
using State = connect::Connection::State;

constexpr std::chrono::seconds limit{10};
constexpr std::chrono::microseconds nap{50};

// A request's data: whose it is, and which queue it is for.
std::vector<uint8_t> encode_queue(uint32_t queue) {
  Packer p;
  p.put(exchange_magic);
  p.put(queue);
  return p.bytes();
}

std::optional<uint32_t> decode_queue(std::span<const std::byte> data) {
  std::array<uint8_t, 8> bytes{};  // peers fill up with zeroes
  if (data.size() < bytes.size()) return std::nullopt;
  std::transform(data.begin(), data.begin() + bytes.size(), bytes.begin(),
                 [](std::byte b) { return std::to_integer<uint8_t>(b); });
  Unpacker u{bytes};
  if (u.get<uint32_t>() != exchange_magic) return std::nullopt;
  return u.get<uint32_t>();
}

// Polls until the connection stands.
Status wait_for(Side& side, connect::Connection& link) {
  const Clock::time_point end = Clock::now() + limit;
  while (Clock::now() < end) {
    const Result<State> state = link.poll();
    if (!state) return state.error();
    if (*state == State::connected) return Done{};
    side.serve();
    std::this_thread::sleep_for(nap);
  }
  return Error{ETIMEDOUT, "the other side does not answer by rdma_cm in time (has it -R?)"};
}

}  // namespace

Status Links::connect(Side& side, const std::string& host, uint16_t port) {
  for (uint32_t i = 0; i < side.agreement().queues; i++) {
    const std::vector<uint8_t> data = encode_queue(i);
    auto link = connect::Connection::start(side.device(), side.lanes()[i]->qp_info(), {host, port},
                                           std::as_bytes(std::span{data}));
    if (!link) return link.error();
    if (Status s = wait_for(side, *link); !s) return s;
    links_.push_back(*std::move(link));
  }
  side.post_first();
  return Done{};
}

Status Links::listen(Side& side, uint16_t port) {
  auto listener = connect::Listener::create(side.device(), {"", port});
  if (!listener) return listener.error();
  listener_.emplace(*std::move(listener));
  return Done{};
}

Status Links::accept(Side& side) {
  std::vector<bool> taken(side.agreement().queues);
  const Clock::time_point end = Clock::now() + limit;
  while (links_.size() < taken.size()) {
    if (Clock::now() >= end)
      return Error{ETIMEDOUT, "the client does not connect by rdma_cm in time (has it -R?)"};
    Result<std::optional<connect::Request>> request = listener_->poll();
    if (!request) return request.error();
    if (!request->has_value()) {
      side.serve();
      std::this_thread::sleep_for(nap);
      continue;
    }
    const std::optional<uint32_t> queue = decode_queue((*request)->data());
    if (!queue || *queue >= taken.size() || taken[*queue]) continue;  // rejected with its end
    auto link = (*request)->accept(side.device(), side.lanes()[*queue]->qp_info());
    if (!link) return link.error();
    if (Status s = wait_for(side, *link); !s) return s;
    taken[*queue] = true;
    links_.push_back(*std::move(link));
  }
  side.post_first();
  return Done{};
}

}  // namespace kilim::perf
