// SPDX-License-Identifier: BSD-3-Clause
// Makes the files, and maps them. The values themselves lie beside them, in one file that all
// processes add to.
#include "vhca/entry/odp_files.hh"

#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>

#include <sys/stat.h>
#include <unistd.h>

#include "vhca/core/lock.hh"
#include "vhca/entry/mapped_file.hh"
#include "vhca/hca/hca.hh"
#include "vhca/tpt/odp_stats.hh"

namespace kilim::vhca::entry::odp_files {

namespace {

std::string standard_folder(const DeviceConfig& d) {
  return "class/infiniband_verbs/uverbs" + std::to_string(d.number);
}

// The documents' <pci-dev-id>: the last part of where the device's link leads.
std::string pci_dev_id(const std::string& tree, const std::string& name) {
  char to[PATH_MAX];
  const ssize_t n =
      ::readlink((tree + "/class/infiniband/" + name + "/device").c_str(), to, sizeof to);
  if (n <= 0) return name;
  const std::string path(to, static_cast<std::size_t>(n));
  return path.substr(path.find_last_of('/') + 1);
}

std::string debug_folder(const std::string& tree, const DeviceConfig& d) {
  return "kernel/debug/mlx5/" + pci_dev_id(tree, d.attach.name);
}

std::string values_file(const DeviceConfig& d) {
  return "devices/" + d.attach.name + ".odp";
}

// The documents spell one name in two ways; the path has this one.
std::string file_name(tpt::OdpCounter c) {
  return c == tpt::OdpCounter::num_prefetches_handled ? "num_prefetchs_handled"
                                                      : tpt::odp_counter_name(c);
}

std::string path_of(const std::string& tree, const DeviceConfig& d, std::size_t i) {
  const bool debug = i >= tpt::odp_standard_counters;
  return (debug ? debug_folder(tree, d) + "/odp_stats" : standard_folder(d)) + "/" +
         file_name(static_cast<tpt::OdpCounter>(i));
}

bool make_folder(const std::string& path) {
  return ::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST;
}

}  // namespace

bool write(MappedFiles& files, const std::string& tree, const DeviceConfig& d) {
  const std::string debug = tree + "/" + debug_folder(tree, d);
  for (const std::string& folder : {tree + "/kernel", tree + "/kernel/debug",
                                    tree + "/kernel/debug/mlx5", debug, debug + "/odp_stats"}) {
    if (!make_folder(folder)) return false;
  }
  const tpt::OdpValues zeroes{};
  if (!files.make(tree, values_file(d), &zeroes, sizeof(zeroes))) return false;
  char text[tpt::OdpStats::text_bytes];
  tpt::OdpStats::write_text(text, 0);
  for (std::size_t i = 0; i < tpt::odp_counters; i++) {
    if (!files.make(tree, path_of(tree, d, i), text, sizeof(text))) return false;
  }
  const std::string also = tree + "/" + standard_folder(d) + "/" +
                           tpt::odp_counter_name(tpt::OdpCounter::num_prefetches_handled);
  return ::symlink(file_name(tpt::OdpCounter::num_prefetches_handled).c_str(), also.c_str()) == 0;
}

void remove(MappedFiles& files, const std::string& tree, const DeviceConfig& d) noexcept {
  files.remove(tree, values_file(d));
  for (std::size_t i = 0; i < tpt::odp_counters; i++) files.remove(tree, path_of(tree, d, i));
  const std::string debug = tree + "/" + debug_folder(tree, d);
  ::rmdir((debug + "/odp_stats").c_str());
  ::rmdir(debug.c_str());
}

void connect(hca::Hca& hca, const std::string& tree, const DeviceConfig& d) {
  void* values = map_file(tree, values_file(d), sizeof(tpt::OdpValues));
  if (values == nullptr) return;
  std::array<char*, tpt::odp_counters> texts{};
  for (std::size_t i = 0; i < tpt::odp_counters; i++)
    texts[i] = static_cast<char*>(map_file(tree, path_of(tree, d, i), tpt::OdpStats::text_bytes));
  const LockGuard guard(hca.lock);
  hca.paging.stats().use(*static_cast<tpt::OdpValues*>(values), texts);
}

}  // namespace kilim::vhca::entry::odp_files
