// SPDX-License-Identifier: BSD-3-Clause
// The device list in files: what libibverbs reads is there, and nothing is left behind.

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <fcntl.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ut.hh"
#include "vhca/entry/interface_files.hh"
#include "vhca/entry/mapped_file.hh"
#include "vhca/entry/netdev.hh"
#include "vhca/entry/sysfs_tree.hh"
#include "vhca/ethernet/port_losses.hh"

using namespace kilim;
using namespace kilim::vhca;

namespace sysfs_tree_ut {
namespace {

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

entry::DeviceConfig device_named(const char* name, uint32_t number) {
  entry::DeviceConfig config;
  config.attach.name = name;
  config.number = number;
  return config;
}

void lists_a_device() {
  auto tree = entry::SysfsTree::make();
  CU_ASSERT_FATAL(tree.ok());
  const entry::DeviceConfig config = device_named("some0", 7);
  CU_ASSERT_FATAL(tree->add(config, Profile{}).ok());
  const std::string verbs = tree->path() + "/class/infiniband_verbs";
  const std::string device = tree->path() + "/class/infiniband/some0";
  EQUAL(line_of(verbs + "/abi_version"), "6");
  EQUAL(line_of(verbs + "/uverbs7/ibdev"), "some0");
  EQUAL(line_of(verbs + "/uverbs7/abi_version"), "1");
  EQUAL(line_of(verbs + "/uverbs7/dev"), "231:199");
  CU_ASSERT(line_of(verbs + "/uverbs7/device/modalias").starts_with("pci:v000015B3d0000101Dsv"));
  EQUAL(line_of(device + "/node_type"), "1: CA");
  EQUAL(line_of(device + "/device/vendor"), "0x15b3");
  EQUAL(line_of(device + "/ports/1/state"), "4: ACTIVE");
  EQUAL(line_of(device + "/node_guid").size(), 19);
  tree->remove(config);
  CU_ASSERT(!exists(verbs + "/uverbs7"));
  CU_ASSERT(!exists(device));
  tree->erase();
  CU_ASSERT(!exists(tree->path()));
}

// As /sys has it: programs resolve the class's link and look two folders up (UCX,
// uct_ib_device_get_sysfs_path), or follow "device" (libibverbs, DPDK).
void is_a_function_of_the_bus() {
  namespace fs = std::filesystem;
  auto tree = entry::SysfsTree::make();
  CU_ASSERT_FATAL(tree.ok());
  const entry::DeviceConfig one = device_named("one0", 7), two = device_named("two0", 8);
  CU_ASSERT_FATAL(tree->add(one, Profile{}).ok());
  CU_ASSERT_FATAL(tree->add(two, Profile{}).ok());
  const fs::path classes = tree->path() + "/class";
  const fs::path device = fs::canonical(classes / "infiniband/one0");
  const fs::path function = device.parent_path().parent_path();
  EQUAL(device, function / "infiniband/one0");
  EQUAL(function.parent_path(), fs::canonical(tree->path()) / "devices/pci0000:00");
  const std::string address = function.filename();
  CU_ASSERT(address.size() == 12 && address.starts_with("0000:") && address.ends_with(":00.0"));
  EQUAL(fs::canonical(classes / "infiniband_verbs/uverbs7"), function / "infiniband_verbs/uverbs7");
  EQUAL(fs::canonical(classes / "infiniband/one0/device"), function);
  EQUAL(fs::canonical(classes / "infiniband_verbs/uverbs7/device"), function);
  CU_ASSERT(fs::canonical(classes / "infiniband/two0/device") != function);
  EQUAL(line_of(function / "vendor"), "0x15b3");
  EQUAL(line_of(function / "device"), "0x101d");
  EQUAL(line_of(function / "numa_node"), "-1");
  std::ifstream uevent(function / "uevent");
  const std::string text(std::istreambuf_iterator<char>(uevent), {});
  CU_ASSERT(text.find("\nPCI_SLOT_NAME=" + address + "\n") != std::string::npos);
  CU_ASSERT(!exists(function / "net"));
  CU_ASSERT(!exists(device / "ports/1/gid_attrs/ndevs"));
  tree->remove(one);
  CU_ASSERT(!exists(function));
  CU_ASSERT(exists(classes / "infiniband/two0/device/vendor"));
  tree->erase();
}

void shows_the_interface_of_its_wire() {
  auto tree = entry::SysfsTree::make();
  CU_ASSERT_FATAL(tree.ok());
  entry::DeviceConfig wired = device_named("wired0", 0), second = device_named("wired1", 1);
  wired.attach.wires = {"af_packet:lo+fault:drop:0"};
  second.attach.wires = {"tap:../../../../evil"};
  second.attach.gid = wired.attach.gid = "fd00::1";
  CU_ASSERT_FATAL(tree->add(wired, Profile{}).ok());
  CU_ASSERT_FATAL(tree->add(second, Profile{}).ok());
  const std::string device = tree->path() + "/class/infiniband/wired";
  EQUAL(line_of(device + "0/device/net/lo/address"), "00:00:00:00:00:00");
  EQUAL(line_of(device + "0/ports/1/gid_attrs/ndevs/0"), "lo");
  EQUAL(line_of(device + "0/ports/1/gid_attrs/ndevs/1"), "lo");
  CU_ASSERT(!exists(device + "1/device/net"));
  CU_ASSERT(!exists(device + "1/ports/1/gid_attrs/ndevs"));
  tree->erase();
}

// A launcher may be in another network namespace than the one that /sys shows, and a kernel may
// have no interface at all: then files say what the interface is.
void shows_the_interface_that_was_made_for_it() {
  namespace fs = std::filesystem;
  auto tree = entry::SysfsTree::make();
  CU_ASSERT_FATAL(tree.ok());
  entry::DeviceConfig shown = device_named("net0", 0), hidden = device_named("net1", 1),
                      answered = device_named("net2", 2);
  shown.netdev = hidden.netdev = "lo";
  hidden.netdev_hidden = answered.netdev_answered = true;
  answered.netdev = "kilim77";
  hidden.tree = tree->path();
  hidden.attach.mac = answered.attach.mac = "02:4b:4c:00:00:09";
  CU_ASSERT_FATAL(tree->add(shown, Profile{}).ok());
  CU_ASSERT_FATAL(tree->add(hidden, Profile{}).ok());
  CU_ASSERT_FATAL(tree->add(answered, Profile{}).ok());
  const std::string device = tree->path() + "/class/infiniband/net";
  const std::string real = std::to_string(::if_nametoindex("lo"));
  CU_ASSERT(fs::is_symlink(device + "0/device/net/lo"));
  EQUAL(line_of(device + "0/device/net/lo/ifindex"), real);
  EQUAL(line_of(device + "0/device/net/lo/mtu"), line_of("/sys/class/net/lo/mtu"));
  CU_ASSERT(!fs::is_symlink(device + "1/device/net/lo"));
  EQUAL(line_of(device + "1/device/net/lo/ifindex"), real);
  EQUAL(line_of(device + "1/device/net/lo/address"), "02:4b:4c:00:00:09");
  entry::interface_files::set_address(hidden, {2, 0, 0, 0, 0, 1});
  entry::interface_files::set_address(shown, {2, 0, 0, 0, 0, 1});
  EQUAL(line_of(device + "1/device/net/lo/address"), "02:00:00:00:00:01");
  EQUAL(line_of(device + "0/device/net/lo/address"), "00:00:00:00:00:00");
  EQUAL(line_of(device + "2/device/net/kilim77/ifindex"),
        std::to_string(entry::netdev::answered_index(answered)));
  for (const char* file : {"address", "dev_id", "dev_port", "flags", "mtu", "operstate", "type"})
    CU_ASSERT(!line_of(device + "2/device/net/kilim77/" + file).empty());
  tree->erase();
  EQUAL(line_of("/sys/class/net/lo/address"), "00:00:00:00:00:00");
}

void refuses_a_name_twice() {
  auto tree = entry::SysfsTree::make();
  CU_ASSERT_FATAL(tree.ok());
  CU_ASSERT(tree->add(device_named("same", 1), Profile{}).ok());
  Status again = tree->add(device_named("same", 2), Profile{});
  CU_ASSERT(!again.ok() && again.error().code == EEXIST);
  CU_ASSERT(!exists(tree->path() + "/class/infiniband_verbs/uverbs2"));
  tree->erase();
}

void guid_and_address_follow_from_the_seed() {
  DeviceSpec one, two;
  two.seed = 1;
  EQUAL(entry::mac_of(one), entry::mac_of(one));
  CU_ASSERT(entry::mac_of(one) != entry::mac_of(two));
  EQUAL(entry::mac_of(one)[0] & 3, 2);
}

// A process that dies leaves its folder; the next one removes it, but not that of a living one.
void leftovers_of_the_dead_go() {
  auto living = entry::SysfsTree::make();
  CU_ASSERT_FATAL(living.ok());
  int pipe_fds[2];
  EQUAL_FATAL(::pipe(pipe_fds), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto tree = entry::SysfsTree::make();
    char path[256] = {};
    if (tree.ok()) tree->path().copy(path, sizeof(path) - 1);
    const ssize_t n = ::write(pipe_fds[1], path, sizeof(path));
    ::_exit(n == sizeof(path) ? 0 : 1);
  }
  char path[256] = {};
  EQUAL(::read(pipe_fds[0], path, sizeof(path)), sizeof(path));
  ::waitpid(child, nullptr, 0);
  EQUAL(path[0], '/');
  CU_ASSERT(exists(path));
  auto next = entry::SysfsTree::make();
  CU_ASSERT_FATAL(next.ok());
  CU_ASSERT(!exists(path));
  CU_ASSERT(exists(living->path() + "/class"));
  next->erase();
  living->erase();
  ::close(pipe_fds[0]);
  ::close(pipe_fds[1]);
}

// "> num_page_faults" is what somebody types who wants to count from nothing: the file stays as it
// is, and who counts in it goes on (a map behind a file's end is a SIGBUS).
void nobody_cuts_a_statistic_off() {
  auto tree = entry::SysfsTree::make();
  CU_ASSERT_FATAL(tree.ok());
  const entry::DeviceConfig config = device_named("some0", 7);
  CU_ASSERT_FATAL(tree->add(config, Profile{}).ok());
  const std::string faults = "class/infiniband_verbs/uverbs7/num_page_faults";
  const std::string files[] = {faults, "devices/some0.odp", "devices/some0.port_counters",
                               "class/infiniband/some0/ports/1/hw_counters/out_of_buffer"};
  for (const std::string& name : files) {
    const std::string path = tree->path() + "/" + name;
    CU_ASSERT_TRUE(::truncate(path.c_str(), 0) == -1 && errno == EPERM);
    CU_ASSERT_TRUE(::open(path.c_str(), O_WRONLY | O_TRUNC) == -1 && errno == EPERM);
  }
  auto* text = static_cast<char*>(entry::map_file(tree->path(), faults, 21));
  CU_ASSERT_FATAL(text != nullptr);
  text[19] = '7';
  EQUAL(line_of(tree->path() + "/" + faults), "                   7");
  tree->remove(config);
  text[19] = '8';  // who has it mapped goes on
  CU_ASSERT(!exists(tree->path() + "/" + faults));
  ::munmap(text, 21);
  tree->erase();
}

// Each under the name that mlx5_ib gives it, and 0 at first.
void each_count_of_queues_has_a_file() {
  auto tree = entry::SysfsTree::make();
  CU_ASSERT_FATAL(tree.ok());
  CU_ASSERT_FATAL(tree->add(device_named("some0", 7), Profile{}).ok());
  const std::string folder = tree->path() + "/class/infiniband/some0/ports/1/hw_counters/";
  for (const char* name : transport_count_names)
    EQUAL(line_of(folder + name), "                   0");
  tree->erase();
}

// A number of a process or a descriptor that has become another's, or a file put there by hand.
void another_file_in_a_statistics_place_is_not_mapped() {
  auto tree = entry::SysfsTree::make(), other = entry::SysfsTree::make();
  CU_ASSERT_FATAL(tree.ok());
  CU_ASSERT_FATAL(other.ok());
  const entry::DeviceConfig config = device_named("some0", 7);
  CU_ASSERT_FATAL(tree->add(config, Profile{}).ok());
  CU_ASSERT_FATAL(other->add(config, Profile{}).ok());
  const std::string name = "devices/some0.port_counters", path = tree->path() + "/" + name;
  constexpr std::size_t bytes = sizeof(uint64_t) * (1 + port_losses.size() + transport_counts);
  const auto maps = [&] { return entry::map_file(tree->path(), name, bytes) != nullptr; };
  CU_ASSERT_TRUE(maps());
  CU_ASSERT_TRUE(entry::map_file(tree->path(), name, 4096) == nullptr);
  std::filesystem::remove(path);
  std::filesystem::copy_symlink(other->path() + "/" + name, path);
  CU_ASSERT_FALSE(maps());
  std::filesystem::remove(path);
  std::ofstream(path) << "12345678";
  CU_ASSERT_FALSE(maps());
  tree->erase();
  other->erase();
}

std::size_t descriptors() {
  std::size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    n += entry.is_symlink() ? 1 : 0;
  return n;
}

void a_removed_device_gives_its_descriptors_back() {
  auto tree = entry::SysfsTree::make();
  CU_ASSERT_FATAL(tree.ok());
  const entry::DeviceConfig config = device_named("some0", 7);
  const std::size_t before = descriptors();
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_TRUE(tree->add(config, Profile{}).ok());
    CU_ASSERT_TRUE(descriptors() > before);
    tree->remove(config);
    EQUAL(descriptors(), before);
  }
  tree->erase();
}

const test::Case cases[] = {
    {"each count of queues has a file", each_count_of_queues_has_a_file},
    {"nobody cuts a statistic off", nobody_cuts_a_statistic_off},
    {"another file in a statistic's place is not mapped",
     another_file_in_a_statistics_place_is_not_mapped},
    {"a removed device gives its descriptors back", a_removed_device_gives_its_descriptors_back},
    {"a device is listed in the files that libibverbs reads", lists_a_device},
    {"a device is a function of the PCI bus, and the classes have links to it",
     is_a_function_of_the_bus},
    {"a device whose wire is an interface shows it", shows_the_interface_of_its_wire},
    {"a device for whose port an interface was made shows it, number and all",
     shows_the_interface_that_was_made_for_it},
    {"a second device of the same name is refused and leaves nothing", refuses_a_name_twice},
    {"GUID and address follow from name and seed", guid_and_address_follow_from_the_seed},
    {"folders of dead processes are removed, of living ones not", leftovers_of_the_dead_go},
};

}  // namespace
}  // namespace sysfs_tree_ut

KILIM_TEST_SUITE(sysfs_tree, sysfs_tree_ut::cases)
