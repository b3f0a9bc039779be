// SPDX-License-Identifier: BSD-3-Clause
// Opens the device of the devarg hca=: one of the machine's RDMA devices, or a virtual one, which
// is attached to this process first. Set-up only, control lcore. Logs its errors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kilim/detail/base/device_spec.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/device/device.hh"
#include "kilim/detail/worker/poller.hh"

namespace kilim::inline v1::attach {

// True: the name is vhca and a number.
bool is_virtual_name(std::string_view name) noexcept;

// A word of virtual devices, as devargs say it: lint=warn.
struct Word {
  const char* name;
  const char* range;  // for people, on a line
  bool repeats;       // it may be said several times
};
// Every word, in the order of help texts.
std::vector<Word> device_words();
// Puts the value of a word into the spec: why it is refused, in words that go on behind it; empty:
// it is there. The word is one of device_words().
std::string read_word(DeviceSpec& spec, std::string_view word, const std::string& value);

// An open device, and who runs it.
struct Attachment {
  std::unique_ptr<device::Device> device;
  // Runs a virtual device without a thread; every worker that uses the device adds it. Empty for
  // other devices.
  worker::Poller poller;
};

// The linter of a virtual device at work, by its name: off, warn or error from now on. Control
// lcore. ENODEV: this process has attached no device of the name; or the errors of
// vhca::Attached::set_lint().
Status set_lint(const std::string& name, const std::string& mode);

// The MTU of a virtual device's port: longer frames are dropped and counted by it from now on, as
// by the port of a card whose interface has that MTU. 0: none, as at first. Control lcore. ENODEV:
// a card, whose interface the machine's administrator sets; or the errors of
// vhca::Attached::set_mtu().
Status set_mtu(const std::string& name, uint32_t port, uint32_t mtu);

// Opens the device. EINVAL: an argument of virtual devices for another device, or a malformed one;
// ENODEV: there is no such device; or the errors of mlx5::open() and vhca::attach().
Result<Attachment> resolve(const DeviceSpec& spec);

// Nobody uses the device of this name any more, and what resolve() returned is gone. A virtual one
// gives back its wire and its name. With a thread of its own it stays in the process with its wire,
// as a card in its slot: resolve() opens it again by the same spec; by another one it is EEXIST.
// Control lcore.
void give_back(const std::string& name) noexcept;

}  // namespace kilim::inline v1::attach
