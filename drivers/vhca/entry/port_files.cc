// SPDX-License-Identifier: BSD-3-Clause
// Makes the texts, and beside them one file of the values that all processes add to.
#include "vhca/entry/port_files.hh"

#include <array>
#include <atomic>
#include <cerrno>

#include <sys/stat.h>
#include <unistd.h>

#include "vhca/core/lock.hh"
#include "vhca/core/port_counters.hh"
#include "vhca/core/transport_counts.hh"
#include "vhca/entry/mapped_file.hh"
#include "vhca/hca/hca.hh"
#include "vhca/hca/ports.hh"
#include "vhca/tpt/odp_stats.hh"

namespace kilim::vhca::entry::port_files {

namespace {

// The first is out_of_buffer, then come the causes of losses, then the counts of queues.
constexpr std::size_t first_transport = 1 + port_losses.size();
constexpr std::size_t counts = first_transport + transport_counts;
using Sums = std::array<std::atomic<uint64_t>, counts>;

const char* name_of(std::size_t count) noexcept {
  if (count == 0) return "out_of_buffer";
  return count < first_transport ? port_losses[count - 1].name
                                 : transport_count_names[count - first_transport];
}

void show(hca::Hca& hca, std::size_t count, std::atomic<uint64_t>& sum, char* text) noexcept {
  if (count == 0) return hca::show_out_of_buffer(hca, sum, text);
  if (count < first_transport) return hca::show_losses(hca, count - 1, sum, text);
  hca::show_transport(hca, count - first_transport, sum, text);
}

std::string counters_folder(const DeviceConfig& d) {
  return "class/infiniband/" + d.attach.name + "/ports/1/hw_counters";
}

std::string text_file(const DeviceConfig& d, std::size_t count) {
  return counters_folder(d) + "/" + name_of(count);
}

std::string sums_file(const DeviceConfig& d) {
  return "devices/" + d.attach.name + ".port_counters";
}

}  // namespace

bool write(MappedFiles& files, const std::string& tree, const DeviceConfig& d) {
  const std::string folder = tree + "/" + counters_folder(d);
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return false;
  const Sums zeroes{};
  char text[tpt::OdpStats::text_bytes];
  tpt::OdpStats::write_text(text, 0);
  for (std::size_t i = 0; i < counts; i++)
    if (!files.make(tree, text_file(d, i), text, sizeof(text))) return false;
  return files.make(tree, sums_file(d), &zeroes, sizeof(zeroes));
}

void remove(MappedFiles& files, const std::string& tree, const DeviceConfig& d) noexcept {
  files.remove(tree, sums_file(d));
  for (std::size_t i = 0; i < counts; i++) files.remove(tree, text_file(d, i));
}

void connect(hca::Hca& hca, const std::string& tree, const DeviceConfig& d) {
  auto* sums = static_cast<Sums*>(map_file(tree, sums_file(d), sizeof(Sums)));
  if (sums == nullptr) return;
  for (std::size_t i = 0; i < counts; i++) {
    void* text = map_file(tree, text_file(d, i), tpt::OdpStats::text_bytes);
    if (text == nullptr) continue;
    const LockGuard guard(hca.lock);
    show(hca, i, (*sums)[i], static_cast<char*>(text));
  }
}

}  // namespace kilim::vhca::entry::port_files
