// SPDX-License-Identifier: BSD-3-Clause
// `+tee:FILE`: what passes on the wire inside, both ways, is written to a capture file as well.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "kilim/detail/base/result.hh"
#include "vhca/wire/decorator.hh"
#include "vhca/wire/pcap.hh"

namespace kilim::vhca::wire {

class Tee final : public Decorator, private FrameCapture {
 public:
  // Fails as a pcap wire does whose OUT is `file`.
  static Result<std::unique_ptr<Wire>> create(std::unique_ptr<Wire> inner, std::string_view file) {
    Result<std::unique_ptr<Wire>> out = PcapWire::create({}, file);
    if (!out) return out.error();
    return std::unique_ptr<Wire>(new Tee(std::move(inner), std::move(*out)));
  }

  Sent send(std::span<const std::byte> frame) noexcept override {
    Sent sent = inner().send(frame);
    if (sent == Sent::taken) file_->send(frame);
    return sent;
  }
  // A frame is written when it is consumed: peek() may show it many times.
  void drop() noexcept override {
    if (std::span<const std::byte> frame = inner().peek(); !frame.empty()) file_->send(frame);
    inner().drop();
  }
  RingEnd out_ring() noexcept override { return captured(inner().out_ring()); }
  RingEnd in_ring() noexcept override { return captured(inner().in_ring()); }

 private:
  Tee(std::unique_ptr<Wire> inner, std::unique_ptr<Wire> file)
      : Decorator(std::move(inner)), file_(std::move(file)) {}
  // What goes by the ring is written too, and by a tee inside of this one before.
  RingEnd captured(const RingEnd& end) noexcept {
    if (end.ring == nullptr) return {};
    next_ = end.account->capture;
    account_ = {end.account->counters, this};
    return {end.ring, &account_};
  }
  void add(std::span<const std::byte> frame) noexcept override {
    if (next_ != nullptr) next_->add(frame);
    file_->send(frame);
  }

  std::unique_ptr<Wire> file_;
  FrameCapture* next_ = nullptr;
  RingAccount account_;
};

}  // namespace kilim::vhca::wire
