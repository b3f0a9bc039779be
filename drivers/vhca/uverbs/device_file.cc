// SPDX-License-Identifier: BSD-3-Clause
// One open of the device: takes the adapter's lock and hands over to dispatch, write commands and
// mappings.
#include "vhca/uverbs/device_file.hh"

#include <cerrno>

#include <rdma/rdma_user_ioctl_cmds.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "vhca/uverbs/context.hh"
#include "vhca/uverbs/dispatch.hh"
#include "vhca/uverbs/uar.hh"
#include "vhca/uverbs/write_command.hh"

namespace kilim::vhca::uverbs {

DeviceFile::DeviceFile(hca::Hca& hca) : context_(std::make_unique<Context>(hca)) {}

DeviceFile::~DeviceFile() {
  const memory_reserve::Scope scope;
  LockGuard guard(context_->hca.lock);
  context_.reset();
}

int DeviceFile::ioctl(unsigned long request, void* argument) {
  if (request != RDMA_VERBS_IOCTL) return -ENOTTY;
  const memory_reserve::Scope scope;
  LockGuard guard(context_->hca.lock);
  return run_ioctl(*context_, Va{reinterpret_cast<uintptr_t>(argument)});
}

ssize_t DeviceFile::write(const void* buffer, std::size_t count) {
  const memory_reserve::Scope scope;
  LockGuard guard(context_->hca.lock);
  return run_write(*context_, Va{reinterpret_cast<uintptr_t>(buffer)}, count);
}

int DeviceFile::mmap(const MapRequest& request, Mapping& mapping) {
  const memory_reserve::Scope scope;
  LockGuard guard(context_->hca.lock);
  return find_mapping(*context_, request, mapping);
}

hca::Hca& DeviceFile::hca() noexcept {
  return context_->hca;
}

void DeviceFile::disown_after_fork() noexcept {
  context_->disown();
}

}  // namespace kilim::vhca::uverbs
