// SPDX-License-Identifier: BSD-3-Clause
#include "attach/resolve.hh"

#include <cerrno>

#include "mlx5/open.hh"
#include "vhca/entry/attach.hh"

namespace kilim::attach {
namespace {

constexpr std::string_view virtual_prefix = "vhca";

uint32_t run_adapter(void* context, uint32_t budget) noexcept {
  return static_cast<uint32_t>(static_cast<vhca::Attached*>(context)->poll(budget));
}

void progress_adapter(void* context) {
  static_cast<vhca::Attached*>(context)->poll();
}

Result<Attachment> resolve_virtual(const Spec& spec) {
  vhca::AttachConfig config;
  config.name = spec.name;
  if (!spec.wire.empty()) config.wires.push_back(spec.wire);
  config.lint = spec.lint;
  config.order = spec.order;
  config.fatal_at = spec.fatal_at;
  const bool threaded = spec.progress == Progress::thread;
  config.progress = threaded ? vhca::Progress::thread : vhca::Progress::poller;
  auto attached = vhca::attach(config);
  if (!attached) return attached.error();
  mlx5::Progress progress;
  if (!threaded) progress = {progress_adapter, *attached};
  auto device = mlx5::open(spec.name.c_str(), progress, vhca::sysfs_root());
  if (!device) {
    (*attached)->detach();
    return device.error();
  }
  Attachment a;
  a.device = *std::move(device);
  if (!threaded) a.poller = {run_adapter, *attached, "vhca"};
  return a;
}

}  // namespace

bool is_virtual_name(std::string_view name) noexcept {
  if (!name.starts_with(virtual_prefix) || name.size() == virtual_prefix.size()) return false;
  return name.substr(virtual_prefix.size()).find_first_not_of("0123456789") ==
         std::string_view::npos;
}

std::string refusal_of_wire(const std::string& spec) {
  return vhca::refusal_of_wire(spec);
}

Result<Attachment> resolve(const Spec& spec) {
  if (is_virtual_name(spec.name)) return resolve_virtual(spec);
  if (!spec.wire.empty())
    return Error{EINVAL, "wire= is for virtual devices (hca=vhcaN): a card has a wire of its own"};
  if (spec.fatal_at != 0)
    return Error{EINVAL, "fault= is for virtual devices (hca=vhcaN): a card dies as it likes"};
  if (!spec.lint.empty())
    return Error{EINVAL, "lint= is for virtual devices (hca=vhcaN): a card tells nobody"};
  if (!spec.order.empty())
    return Error{EINVAL, "order= is for virtual devices (hca=vhcaN): a card's is its own"};
  auto device = mlx5::open(spec.name.c_str());
  if (!device) return device.error();
  Attachment a;
  a.device = *std::move(device);
  return a;
}

}  // namespace kilim::attach
