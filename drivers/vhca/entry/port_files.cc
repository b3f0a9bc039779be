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

std::string counters_folder(const DeviceConfig& d) {
  return "class/infiniband/" + d.attach.name + "/ports/1/hw_counters";
}

std::string text_file(const DeviceConfig& d) {
  return counters_folder(d) + "/out_of_buffer";
}

std::string sum_file(const DeviceConfig& d) {
  return "devices/" + d.attach.name + ".out_of_buffer";
}

}  // namespace

bool write(MappedFiles& files, const std::string& tree, const DeviceConfig& d) {
  const std::string folder = tree + "/" + counters_folder(d);
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return false;
  const uint64_t zero = 0;
  char text[OdpStats::text_bytes];
  OdpStats::write_text(text, zero);
  return files.make(tree, sum_file(d), &zero, sizeof(zero)) &&
         files.make(tree, text_file(d), text, sizeof(text));
}

void remove(MappedFiles& files, const std::string& tree, const DeviceConfig& d) noexcept {
  files.remove(tree, sum_file(d));
  files.remove(tree, text_file(d));
}

void connect(Hca& hca, const std::string& tree, const DeviceConfig& d) {
  void* sum = map_file(tree, sum_file(d), sizeof(uint64_t));
  void* text = map_file(tree, text_file(d), OdpStats::text_bytes);
  if (sum == nullptr || text == nullptr) return;
  const LockGuard guard(hca.lock);
  show_out_of_buffer(hca, *static_cast<std::atomic<uint64_t>*>(sum), static_cast<char*>(text));
}

}  // namespace kilim::vhca::port_files
