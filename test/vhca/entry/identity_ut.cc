// SPDX-License-Identifier: BSD-3-Clause
// Node GUID and GIDs: what files say and what ioctls answer is one, on a wire that gives addresses
// out too, and every process has its own.
#include <cstdlib>
#include <fstream>
#include <string>

#include <unistd.h>

#include "ut.hh"
#include "vhca/entry/device_list.hh"
#include "vhca/entry/identity.hh"
#include "vhca/entry/instance.hh"
#include "vhca/entry/sysfs_tree.hh"
#include "vhca/hca/ports.hh"

using namespace kilim;
using namespace kilim::vhca;

namespace identity_ut {
namespace {

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// A folder that is this test's alone.
class Folder {
 public:
  Folder() { CU_ASSERT_FATAL(::mkdtemp(path_.data()) != nullptr); }
  ~Folder() { (void)!std::system(("rm -r " + path_).c_str()); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string wire() const { return "unix:" + path_ + "/wire"; }

 private:
  std::string path_ = "/tmp/kilim-identity.XXXXXX";
};

DeviceSpec configured(const Folder& folder) {
  DeviceSpec config;
  config.name = "who0";
  config.wires = {folder.wire()};
  config.gid = "fd00::17";
  config.progress = Progress::poller;
  return config;
}

std::string hex(const uint8_t* bytes, std::size_t n) {
  std::string text;
  char digits[3];
  for (std::size_t i = 0; i < n; i++) {
    std::snprintf(digits, sizeof(digits), "%02x", unsigned{bytes[i]});
    text += digits;
    if (i % 2 == 1 && i + 1 < n) text += ':';
  }
  return text;
}

void files_say_what_ioctls_answer() {
  const Folder folder;
  auto tree = entry::SysfsTree::make();
  CU_ASSERT_FATAL(tree.ok());
  entry::DeviceConfig config;
  config.attach = configured(folder);
  config.number = tree->first_free_number();
  config.tree = tree->path();
  CU_ASSERT_FATAL(tree->add(config, Profile{}).ok());
  const std::string shown = tree->path() + "/class/infiniband/who0";
  const std::string before = line_of(shown + "/ports/1/gids/0");
  EQUAL(before.size(), 39);
  CU_ASSERT(line_of(shown + "/ports/1/gids/1").ends_with(":0017"));
  auto device = entry::device_list::add(config);
  CU_ASSERT_FATAL(device.ok());
  auto instance = (*device)->instance();
  CU_ASSERT_FATAL(instance.ok());
  hca::Hca& hca = (*instance)->hca();
  for (uint32_t i = 0; i < 2; i++) {
    const Result<Gid> gid = hca::query_gid(hca, 1, i);
    CU_ASSERT_FATAL(gid.ok());
    EQUAL(line_of(shown + "/ports/1/gids/" + std::to_string(i)), hex(gid->data(), gid->size()));
  }
  // The wire gave it an address.
  CU_ASSERT(line_of(shown + "/ports/1/gids/0") != before);
  const Result<PortAttr> port = hca::query_port(hca, 1);
  CU_ASSERT_FATAL(port.ok());
  EQUAL(port->node, port->mac);
  const Mac& m = port->node;
  const uint8_t guid[8] = {m[0], m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
  EQUAL(line_of(shown + "/node_guid"), hex(guid, sizeof(guid)));
  EQUAL(line_of(shown + "/sys_image_guid"), hex(guid, sizeof(guid)));
  (*device)->hide();
  tree->erase();
}

void two_processes_are_two() {
  const Folder folder;
  const DeviceSpec config = configured(folder);
  auto a = entry::Instance::make(config, Profile{});
  auto b = entry::Instance::make(config, Profile{});
  CU_ASSERT_FATAL(a.ok());
  CU_ASSERT_FATAL(b.ok());
  const entry::Identity one = entry::identity_of((*a)->hca()),
                        other = entry::identity_of((*b)->hca());
  CU_ASSERT(one.guid != 0);
  CU_ASSERT(one.guid != other.guid);
  CU_ASSERT(one.gids.size() == 2 && one.gids[0] != other.gids[0]);
}

void an_address_that_is_named_stays() {
  const Folder folder;
  DeviceSpec config = configured(folder);
  config.mac = "02:4b:4c:00:00:01";
  auto instance = entry::Instance::make(config, Profile{});
  CU_ASSERT_FATAL(instance.ok());
  EQUAL(entry::identity_of((*instance)->hca()), entry::identity_of(config));
  EQUAL(entry::identity_of(config).guid, 0x024b'4cff'fe00'0001);
}

constexpr test::Case cases[] = {
    {"files say what ioctls answer", files_say_what_ioctls_answer},
    {"two processes are two", two_processes_are_two},
    {"an address that is named stays", an_address_that_is_named_stays},
};

}  // namespace
}  // namespace identity_ut

KILIM_TEST_SUITE(identity, identity_ut::cases)
