// SPDX-License-Identifier: BSD-3-Clause
// Does to frames what a bad cable does.
#include "vhca/wire/fault.hh"

#include <algorithm>
#include <cerrno>
#include <charconv>

namespace kilim::vhca::wire {

namespace {

constexpr unsigned longest_wait = 64;  // looks for frames until a held one goes anyhow

struct Rate {
  std::string_view name;
  double FaultRates::*field;
};
constexpr Rate rates[] = {
    {"drop", &FaultRates::drop},
    {"dup", &FaultRates::dup},
    {"reorder", &FaultRates::reorder},
    {"corrupt", &FaultRates::corrupt},
};

// Cuts the next word, and the colon behind it, off `rest`.
std::string_view exchange_word(std::string_view& rest) {
  std::size_t colon = rest.find(':');
  std::string_view word = rest.substr(0, colon);
  rest.remove_prefix(colon == std::string_view::npos ? rest.size() : colon + 1);
  return word;
}

template <typename T>
bool number(std::string_view text, T& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<FaultRates> parse_faults(std::string_view text) {
  FaultRates r;
  if (text.empty()) return Error{EINVAL, "fault: nothing is to happen"};
  while (!text.empty()) {
    std::string_view name = exchange_word(text), value = exchange_word(text);
    if (name == "seed") {
      if (!number(value, r.seed)) return Error{EINVAL, "fault: a seed is a whole number"};
      continue;
    }
    const Rate* rate = std::find_if(std::begin(rates), std::end(rates),
                                    [&](const Rate& x) { return x.name == name; });
    if (rate == std::end(rates)) {
      return Error{EINVAL, "fault: the words are drop, dup, reorder, corrupt and seed"};
    }
    double& field = r.*(rate->field);
    if (!number(value, field) || !(field >= 0 && field <= 1)) {
      return Error{EINVAL, "fault: a rate is a number from 0 to 1"};
    }
  }
  return r;
}

Result<std::unique_ptr<Wire>> Fault::create(std::unique_ptr<Wire> inner, std::string_view text) {
  Result<FaultRates> r = parse_faults(text);
  if (!r) return r.error();
  return std::unique_ptr<Wire>(new Fault(std::move(inner), *r));
}

Fault::Fault(std::unique_ptr<Wire> in, const FaultRates& r)
    : Decorator(std::move(in)), rates_(r), state_(r.seed) {
  changed_.resize(max_frame(mtu()));
  held_.resize(max_frame(mtu()));
}

uint64_t Fault::next_random() noexcept {
  // splitmix64: each seed, 0 too, gives a good sequence.
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

bool Fault::happens(double rate) noexcept {
  if (rate <= 0) return false;
  // A double has 53 bits: an even number from 0 to below 1.
  return static_cast<double>(next_random() >> 11) * 0x1p-53 < rate;
}

void Fault::release() noexcept {
  if (held_bytes_ == 0) return;
  if (inner().send({held_.data(), held_bytes_}) != Sent::busy) held_bytes_ = 0;
}

Wire::Sent Fault::send(std::span<const std::byte> frame) noexcept {
  if (frame.size() < ether_header_bytes || frame.size() > held_.size()) return inner().send(frame);
  if (happens(rates_.drop)) return Sent::taken;
  if (happens(rates_.corrupt)) {
    std::copy(frame.begin(), frame.end(), changed_.begin());
    uint64_t bit = next_random() % (frame.size() * 8);
    changed_[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    frame = {changed_.data(), frame.size()};
  }
  if (held_bytes_ == 0 && happens(rates_.reorder)) {
    std::copy(frame.begin(), frame.end(), held_.begin());
    held_bytes_ = frame.size();
    looks_ = 0;
    return Sent::taken;
  }
  Sent sent = inner().send(frame);
  if (sent != Sent::taken) return sent;
  // A copy that finds the wire full is lost: the frame itself has gone.
  if (happens(rates_.dup)) inner().send(frame);
  release();
  return sent;
}

std::span<const std::byte> Fault::peek() noexcept {
  if (held_bytes_ != 0 && ++looks_ > longest_wait) release();
  return inner().peek();
}

}  // namespace kilim::vhca::wire
