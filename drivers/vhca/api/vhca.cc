// SPDX-License-Identifier: BSD-3-Clause
// The C functions over attach() and what it gives. A device is an Attached under another name.
#include "vhca/api/vhca.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string>
#include <string_view>

#include "kilim/detail/base/device_spec.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/version.h"
#include "vhca/core/order.hh"
#include "vhca/core/profile_names.hh"
#include "vhca/core/request_faults.hh"
#include "vhca/entry/attach.hh"
#include "vhca/entry/device_words.hh"

namespace {

using kilim::DeviceSpec;
using kilim::Status;
using kilim::vhca::entry::Attached;

// The sentence of this thread's last call, cut off where it is longer.
thread_local std::array<char, 1024> last{};

int fail(int code, std::string_view sentence) noexcept {
  const std::size_t n = std::min(sentence.size(), last.size() - 1);
  std::memcpy(last.data(), sentence.data(), n);
  last[n] = '\0';
  return -code;
}

int answer(const Status& status) noexcept {
  last[0] = '\0';
  return status.ok() ? 0 : fail(status.error().code, status.error().what);
}

Attached& of(kilim_vhca* device) noexcept {
  return *reinterpret_cast<Attached*>(device);
}

// Why this call is none; 0: it may go on.
int refuse_null(const void* one, const void* other) noexcept {
  last[0] = '\0';
  return one != nullptr && other != nullptr ? 0 : fail(EINVAL, "a pointer is NULL");
}

std::string text_of_words() {
  std::string text;
  for (const kilim::vhca::entry::DeviceWord& w : kilim::vhca::entry::device_words())
    text += std::string(w.name) + "=" + w.value + "  " + w.range + "\n";
  return "name=NAME  1 to 32 letters, digits, '_', '-' or '.'; default vhca0\n" + text;
}

}  // namespace

const char* kilim_vhca_version(void) {
  return kilim_version();
}

const char* kilim_vhca_error(void) {
  return last.data();
}

int kilim_vhca_attach(const char* words, kilim_vhca** device) {
  if (const int refused = refuse_null(device, device); refused != 0) return refused;
  *device = nullptr;
  DeviceSpec spec;
  const std::string why = kilim::vhca::entry::read_device_text(words == nullptr ? "" : words, spec);
  if (!why.empty()) return fail(EINVAL, why);
  const auto attached = kilim::vhca::entry::attach(spec);
  if (!attached.ok()) return fail(attached.error().code, attached.error().what);
  *device = reinterpret_cast<kilim_vhca*>(*attached);
  return 0;
}

const char* kilim_vhca_words(void) {
  static const std::string* const text = new std::string(text_of_words());
  return text->c_str();
}

int kilim_vhca_detach(kilim_vhca* device) {
  if (const int refused = refuse_null(device, device); refused != 0) return refused;
  of(device).detach();
  return 0;
}

const char* kilim_vhca_name(const kilim_vhca* device) {
  return reinterpret_cast<const Attached*>(device)->name().c_str();
}

const char* kilim_vhca_profile(kilim_vhca* device) {
  const char* name = of(device).profile_name();
  last[0] = '\0';
  if (name == nullptr) (void)fail(EOPNOTSUPP, "the device is the launcher's");
  return name;
}

const char* kilim_vhca_profile_name(unsigned n) {
  return kilim::vhca::profile_name(n);
}

int kilim_vhca_poll(kilim_vhca* device, unsigned budget) {
  if (const int refused = refuse_null(device, device); refused != 0) return refused;
  return static_cast<int>(std::min<std::size_t>(of(device).poll(budget), INT_MAX));
}

int kilim_vhca_lint(kilim_vhca* device, const char* mode) {
  if (const int refused = refuse_null(device, mode); refused != 0) return refused;
  return answer(of(device).set_lint(mode));
}

int kilim_vhca_lint_report(kilim_vhca* device, char* text, size_t bytes) {
  if (const int refused = refuse_null(device, device); refused != 0) return refused;
  const auto report = of(device).lint_report();
  if (!report.ok()) return fail(report.error().code, report.error().what);
  if (text != nullptr && bytes > 0) {
    const std::size_t n = std::min(report->size(), bytes - 1);
    std::memcpy(text, report->data(), n);
    text[n] = '\0';
  }
  return static_cast<int>(report->size());
}

int kilim_vhca_fault(kilim_vhca* device, const char* fault) {
  if (const int refused = refuse_null(device, fault); refused != 0) return refused;
  DeviceSpec spec;
  if (std::string_view(fault) != "off") {
    const std::string why = kilim::vhca::entry::find_device_word("fault")->read(spec, fault);
    if (!why.empty()) return fail(EINVAL, why);
  }
  const auto failing = kilim::vhca::find_request_faults(spec.failing);
  return answer(
      of(device).set_faults(spec.fatal_at, failing.ok() ? *failing : kilim::vhca::RequestFaults{}));
}

int kilim_vhca_order(kilim_vhca* device, const char* order) {
  if (const int refused = refuse_null(device, order); refused != 0) return refused;
  const auto found = kilim::vhca::find_order(order);
  if (!found.ok()) return fail(found.error().code, found.error().what);
  return answer(of(device).set_order(*found));
}
