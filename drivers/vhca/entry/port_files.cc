// SPDX-License-Identifier: BSD-3-Clause
// Makes the text, and beside it the value that all processes add to.
#include "vhca/entry/port_files.hh"

#include <atomic>
#include <cerrno>

#include <sys/stat.h>
#include <unistd.h>

#include "vhca/core/lock.hh"
#include "vhca/entry/mapped_file.hh"
#include "vhca/hca/hca.hh"
#include "vhca/hca/ports.hh"
#include "vhca/tpt/odp_stats.hh"

namespace kilim::vhca::port_files {

namespace {

std::string counters_folder(const std::string& tree, const DeviceConfig& d) {
  return tree + "/class/infiniband/" + d.attach.name + "/ports/1/hw_counters";
}

std::string sum_file(const std::string& tree, const DeviceConfig& d) {
  return tree + "/devices/" + d.attach.name + ".out_of_buffer";
}

}  // namespace

bool write(const std::string& tree, const DeviceConfig& d) {
  const std::string folder = counters_folder(tree, d);
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return false;
  const uint64_t zero = 0;
  char text[OdpStats::text_bytes];
  OdpStats::write_text(text, zero);
  return make_file(sum_file(tree, d), &zero, sizeof(zero)) &&
         make_file(folder + "/out_of_buffer", text, sizeof(text));
}

void remove(const std::string& tree, const DeviceConfig& d) noexcept {
  ::unlink(sum_file(tree, d).c_str());
}

void connect(Hca& hca, const std::string& tree, const DeviceConfig& d) {
  void* sum = map_file(sum_file(tree, d), sizeof(uint64_t));
  void* text = map_file(counters_folder(tree, d) + "/out_of_buffer", OdpStats::text_bytes);
  if (sum == nullptr || text == nullptr) return;
  const LockGuard guard(hca.lock);
  show_out_of_buffer(hca, *static_cast<std::atomic<uint64_t>*>(sum), static_cast<char*>(text));
}

}  // namespace kilim::vhca::port_files
