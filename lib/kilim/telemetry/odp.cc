// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/telemetry/odp.hh"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <mutex>
#include <string>
#include <vector>

#include <rte_telemetry.h>

#include "kilim/device/odp_statistics.hh"

namespace kilim::telemetry {
namespace {

// The devices that the endpoint shows. Global, because EAL's callback gets no argument of the
// caller's.
struct Shown {
  std::mutex mutex;
  std::vector<device::Device*> devices;
};
Shown& shown() {
  static auto* all = new Shown;  // EAL's thread may ask until the end
  return *all;
}

void add(rte_tel_data* dict, const device::OdpStatistics& s) {
  for (std::size_t i = 0; i < device::odp_counters; i++) {
    const char* name = device::odp_counter_names[i];
    if (s.values[i]) {
      (void)rte_tel_data_add_dict_u64(dict, name, *s.values[i]);
    } else {
      (void)rte_tel_data_add_dict_string(dict, name, "not reported");
    }
  }
}

// The device's name as a key of a telemetry dictionary: rte_telemetry.h allows letters, digits, '_'
// and '/' only.
std::string name_of(const device::Device& device) {
  std::string name = device.name();
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

int answer(const char*, const char* wanted, rte_tel_data* out) {
  Shown& all = shown();
  const std::lock_guard lock{all.mutex};
  (void)rte_tel_data_start_dict(out);
  for (const device::Device* d : all.devices) {
    if (wanted != nullptr && *wanted != '\0') {
      if (name_of(*d) != wanted && std::string(wanted) != d->name()) continue;
      add(out, d->odp_statistics());
      return 0;
    }
    rte_tel_data* one = rte_tel_data_alloc();
    if (one == nullptr) return -ENOMEM;
    (void)rte_tel_data_start_dict(one);
    add(one, d->odp_statistics());
    (void)rte_tel_data_add_dict_container(out, name_of(*d).c_str(), one, 0);
  }
  return wanted != nullptr && *wanted != '\0' ? -ENODEV : 0;
}

[[gnu::constructor]] void register_endpoint() {
  (void)rte_telemetry_register_cmd(
      "/kilim/odp", answer,
      "Statistics of on-demand paging, of all devices or of one. Parameters: device name");
}

}  // namespace

ShownDevice::ShownDevice(device::Device& device) : device_(device) {
  const std::lock_guard lock{shown().mutex};
  shown().devices.push_back(&device_);
}

ShownDevice::~ShownDevice() {
  const std::lock_guard lock{shown().mutex};
  std::erase(shown().devices, &device_);
}

}  // namespace kilim::telemetry
