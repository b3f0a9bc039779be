// SPDX-License-Identifier: BSD-3-Clause
// Stands for the whole device where Kilim is built without it (Meson option `components`): every
// attach is refused with a sentence, so that the library and its programs need no second way. Only
// `vhca_lib` of such a build has it. Any thread.
#include <algorithm>
#include <cerrno>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "vhca/entry/attach.hh"
#include "vhca/entry/device_words.hh"
#include "vhca/entry/poll_hook.hh"

namespace kilim::vhca::entry {
namespace {

constexpr Error absent{
    EOPNOTSUPP,
    "this Kilim was built without the virtual HCA: name a card, or build it with component vhca "
    "(meson configure -Dcomponents=vhca,library,apps)"};

constexpr const char* range = "virtual devices only, without which this Kilim was built";

std::string refuse(DeviceSpec&, std::string_view) {
  return absent.what;
}
bool is_never_set(const DeviceSpec&) {
  return false;
}
constexpr DeviceWord refused(const char* name) {
  return {name, "VALUE", range, refuse, is_never_set, absent.what};
}
constexpr DeviceWord words[] = {refused("wire"), refused("progress"), refused("fault"),
                                refused("lint"), refused("order"),    refused("profile"),
                                refused("mac"),  refused("gid"),      refused("ip"),
                                refused("seed"), refused("journal"),  refused("explain")};

}  // namespace

// No object of the class is ever made: what follows is linked, and not called.
const std::string& Attached::name() const noexcept {
  return sysfs_root();
}
hca::Hca* Attached::hca() noexcept {
  return nullptr;
}
std::size_t Attached::poll(std::size_t) noexcept {
  return 0;
}
bool Attached::wait_for(AdapterWait&) noexcept {
  return true;
}
Status Attached::set_executing(bool) noexcept {
  return absent;
}
Status Attached::set_lint(const std::string&) {
  return absent;
}
Status Attached::set_mtu(uint32_t, uint32_t) noexcept {
  return absent;
}
void Attached::detach() noexcept {}

const std::string& sysfs_root() noexcept {
  static const std::string none;
  return none;
}

// No poll runs anything.
ibv_context* hook_polls(ibv_context* context) noexcept {
  return context;
}

std::span<const DeviceWord> device_words() noexcept {
  return words;
}

const DeviceWord* find_device_word(std::string_view name) noexcept {
  const auto* at =
      std::ranges::find(words, name, [](const DeviceWord& w) { return std::string_view(w.name); });
  return at == std::end(words) ? nullptr : at;
}

Attached* find_attached(const std::string&) noexcept {
  return nullptr;
}

Result<Attached*> attach(const DeviceSpec&) {
  return absent;
}

}  // namespace kilim::vhca::entry
