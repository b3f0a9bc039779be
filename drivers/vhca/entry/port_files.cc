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
#include "vhca/entry/mapped_file.hh"
#include "vhca/hca/hca.hh"
#include "vhca/hca/ports.hh"
#include "vhca/tpt/odp_stats.hh"

namespace kilim::vhca::entry::port_files {

namespace {

// The first is out_of_buffer, the others are the causes of losses.
constexpr std::size_t counts = 1 + port_losses.size();
using Sums = std::array<std::atomic<uint64_t>, counts>;

const char* name_of(std::size_t count) noexcept {
  return count == 0 ? "out_of_buffer" : port_losses[count - 1].name;
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
    if (i == 0)
      hca::show_out_of_buffer(hca, (*sums)[i], static_cast<char*>(text));
    else
      hca::show_losses(hca, i - 1, (*sums)[i], static_cast<char*>(text));
  }
}

}  // namespace kilim::vhca::entry::port_files
