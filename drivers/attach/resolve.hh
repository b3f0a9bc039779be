// SPDX-License-Identifier: BSD-3-Clause
// From the devarg hca= to an open device: one of the machine's RDMA devices, or a virtual one that
// is attached to this process on the way and then opened like any other. Set-up only, control
// lcore. Logs what it refuses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kilim/base/result.hh"
#include "kilim/device/device.hh"
#include "kilim/worker/poller.hh"

namespace kilim::attach {

// Who runs a virtual device: the workers that use it, or a thread of its own.
enum class Progress : uint8_t { poll, thread };

struct Spec {
  std::string name;  // vhca and a number: virtual
  std::string wire;  // of a virtual device; empty: nothing leaves it but loopback
  Progress progress = Progress::poll;
  uint64_t fatal_at = 0;  // a virtual device dies with this send request; 0: never
  std::string lint;       // of a virtual device: off, warn or error; empty: off
  std::string order;      // of a virtual device: strict, weak[:SEED], ...; empty: strict
};

// Names of virtual devices are vhca and a number.
bool is_virtual_name(std::string_view name) noexcept;

// Why a virtual device cannot have this wire, as a sentence; empty: its spec is well formed.
std::string refusal_of_wire(const std::string& spec);

struct Attachment {
  std::unique_ptr<device::Device> device;
  // Runs a virtual device that has no thread of its own: every worker that uses the device adds it.
  // Without a function for others.
  worker::Poller poller;
};

Result<Attachment> resolve(const Spec& spec);

}  // namespace kilim::attach
