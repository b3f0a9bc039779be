// SPDX-License-Identifier: BSD-3-Clause
// kilim-vhca: makes the device list, starts the command with libkilim-vhca.so loaded into it,
// waits, forwards signals, removes the list. One thread.

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/options.hh"
#include "command_check.hh"
#include "kilim/detail/base/last_words.hh"
#include "netdev.hh"
#include "options.hh"
#include "sysfs_mount.hh"
#include "vhca/core/profile.hh"
#include "vhca/entry/sysfs_tree.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/unix.hh"

namespace kilim::app {
namespace {

constexpr int exit_not_found = 127;

int complain(const char* about, const char* why, int status) {
  std::fprintf(stderr, "kilim-vhca: %s: %s\n", about, why);
  return status;
}

// Beside the executable, or where the installation puts it.
std::string find_library() {
  char self[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (n <= 0) return {};
  const std::string path(self, static_cast<std::size_t>(n));
  const std::string folder = path.substr(0, path.rfind('/'));
  for (const std::string& candidate :
       {folder + "/libkilim-vhca.so", folder + "/../" KILIM_PRELOAD_DIR "/libkilim-vhca.so"}) {
    if (::access(candidate.c_str(), R_OK) == 0) return candidate;
  }
  return {};
}

// AddressSanitizer's library first where either needs it, then what was asked for before, then
// ours: others see the calls on a device too, and all that we pass on is libc's.
void set_preload(const Command& command, const std::string& library) {
  const std::string asan = command.asan.empty() ? find_asan(library.c_str()) : command.asan;
  std::string list = asan.empty() ? asan : asan + ":";
  const char* before = ::getenv("LD_PRELOAD");
  if (before != nullptr && *before != '\0') list += std::string(before) + ":";
  ::setenv("LD_PRELOAD", (list + library).c_str(), 1);
}

// A wire to the machine's network would be in another namespace than that.
bool wires_need_network(const vhca::entry::LaunchConfig& launch) {
  for (const std::string& wire : launch.attach.wires) {
    if (!vhca::wire::interface_of_wire(wire).empty() || wire.starts_with("udp:")) return true;
  }
  return false;
}

// One for each port whose wire is none: of the kernel where it lets us, else answered by our
// library in the command's process. Whether they are in a namespace of our own.
bool add_netdevs(vhca::entry::LaunchConfig& launch, std::vector<Netdev>& made) {
  bool entered = false;
  for (uint32_t k = 0; k < launch.devices; k++) {
    const vhca::entry::DeviceConfig device = launch.device(k);
    const bool has_one = !device.attach.wires.empty() &&
                         !vhca::wire::interface_of_wire(device.attach.wires.front()).empty();
    if (has_one) {
      launch.netdevs.emplace_back();
      continue;
    }
    Result<Netdev> netdev =
        launch.netdevs_answered
            ? Error{EPERM, ""}
            : make_netdev(vhca::entry::mac_of(device.attach), device.attach.ips);
    const bool forbidden = !netdev.ok() && made.empty() && !launch.netdevs_answered;
    if (forbidden && !wires_need_network(launch) && enter_network_namespace()) {
      entered = true;
      launch.netdevs_hidden = true;
      netdev = make_netdev(vhca::entry::mac_of(device.attach), device.attach.ips);
    }
    launch.netdevs_answered = !netdev.ok();
    launch.netdevs.push_back(netdev.ok() ? netdev->name : "kilim" + std::to_string(k));
    if (netdev.ok()) made.push_back(*std::move(netdev));
  }
  return entered;
}

// Keeps the interfaces for the program that opens the devices, so that its frames pass them. The
// answer is empty, or says why that cannot be.
std::string let_frames_pass(vhca::entry::LaunchConfig& launch, std::vector<Netdev>& made) {
  if (launch.netdevs_answered)
    return "no network interface can be made here: it takes /dev/net/tun and CAP_NET_ADMIN, or a "
           "network namespace of one's own, and no wire that needs the machine's network";
  if (made.size() != launch.devices)
    return "a device whose wire is af_packet: or tap: has that interface already; name another "
           "--wire";
  for (Netdev& netdev : made)
    if (Status kept = keep_netdev(netdev); !kept) return kept.error().what;
  launch.netdevs_carry = true;
  return "";
}

Result<vhca::entry::SysfsTree> make_tree(vhca::entry::LaunchConfig& launch) {
  auto profile = vhca::find_profile(launch.attach.profile);
  if (!profile.ok()) return profile.error();
  auto tree = vhca::entry::SysfsTree::make();
  if (!tree.ok()) return tree;
  launch.tree = tree->path();
  launch.first_number = tree->first_free_number();
  for (uint32_t k = 0; k < launch.devices; k++) {
    if (Status added = tree->add(launch.device(k), *profile); !added.ok()) {
      tree->erase();
      return added.error();
    }
  }
  return tree;
}

[[noreturn]] void run_command(const Options& options, const Command& command,
                              const std::string& library, const sigset_t& signals) {
  if (options.mount) {
    if (Status mounted = mount_over_sysfs(options.launch.tree, options.pci); !mounted.ok()) {
      ::_exit(complain("--sysfs mount", mounted.error().what, exit_refused));
    }
  } else {
    ::setenv("SYSFS_PATH", options.launch.tree.c_str(), 1);
  }
  if (options.pci) {
    ::setenv("SYSFS_PCI_DEVICES", (options.launch.tree + "/bus/pci/devices").c_str(), 1);
  }
  vhca::entry::put_in_environment(options.launch);
  set_preload(command, library);
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  ::execv(command.path.c_str(), options.command);
  ::_exit(complain(options.command[0], std::strerror(errno), exit_refused));
}

// A process for the command, which begins when the launcher has given up its rights in a namespace
// of its own: the write end of the pipe is closed then. Negative: there is none.
template <typename F>
pid_t start(bool gives_up_rights, F run) {
  int gate[2] = {-1, -1};
  if (gives_up_rights && ::pipe2(gate, O_CLOEXEC) != 0) return -1;
  const pid_t child = ::fork();
  Fd begins(gate[0]), waits(gate[1]);
  if (child == 0) {
    waits.reset();
    char none = 0;
    if (begins) (void)!::read(begins.get(), &none, 1);
    run();
  }
  if (child > 0 && gives_up_rights) drop_rights();
  return child;
}

// Stops as the command did, for a shell's job control, and the command goes on as we do. A SIGCONT
// that came before would be discarded by the stop (POSIX, "Signal Generation and Delivery").
void stop_like(pid_t child) {
  sigset_t pending;
  sigemptyset(&pending);
  ::sigpending(&pending);
  if (sigismember(&pending, SIGCONT) != 1) ::kill(::getpid(), SIGSTOP);
  ::kill(child, SIGCONT);
}

// Until the command has ended. Signals that a terminal sends have reached the command already;
// those sent to us alone have not.
int wait_for(pid_t child, const sigset_t& all) {
  for (;;) {
    siginfo_t info;
    const int signal = ::sigwaitinfo(&all, &info);
    if (signal < 0) continue;
    if (signal != SIGCHLD) {
      if (info.si_code <= 0) ::kill(child, signal);
      continue;
    }
    int status = 0;
    if (::waitpid(child, &status, WNOHANG | WUNTRACED) != child) continue;
    if (WIFEXITED(status) || WIFSIGNALED(status)) return status;
    if (WIFSTOPPED(status)) stop_like(child);
  }
}

// Ends as the command did.
int end_like(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int signal = WTERMSIG(status);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(signal);
  return 128 + signal;
}

// Programs leave their wires' sockets behind, killed ones always.
void clean_wires(const vhca::entry::LaunchConfig& launch) {
  for (const std::string& spec : launch.attach.wires) {
    const std::string folder = vhca::wire::UnixWire::folder_of(spec);
    if (!folder.empty()) vhca::wire::UnixWire::remove_leftovers(folder);
  }
}

int launch(Options& options) {
  const char* name = options.command[0];
  auto command = find_command(name);
  if (!command.ok()) {
    const Error error = command.error();
    return complain(name, error.what, error.code == ENOENT ? exit_not_found : exit_refused);
  }
  const std::string library = find_library();
  if (library.empty()) {
    return complain("libkilim-vhca.so", "it is not beside this program, nor installed",
                    exit_refused);
  }
  if (library.find_first_of(" :") != std::string::npos) {
    return complain(library.c_str(), "the loader takes no library with ' ' or ':' in its path",
                    exit_refused);
  }
  sigset_t all, before;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &before);
  std::vector<Netdev> netdevs;
  bool entered = (options.pci || options.netdev) && add_netdevs(options.launch, netdevs);
  if (options.netdev)
    if (const std::string why = let_frames_pass(options.launch, netdevs); !why.empty())
      return complain("--netdev", why.c_str(), exit_refused);
  if (options.mount && enter_user_namespace()) entered = true;
  auto tree = make_tree(options.launch);
  if (!tree.ok()) return complain("device list", tree.error().what, exit_refused);
  std::fflush(nullptr);
  const pid_t child = start(entered, [&] { run_command(options, *command, library, before); });
  if (child > 0) tree->used_by(child);
  const int status = child < 0 ? -1 : wait_for(child, all);
  tree->erase();
  clean_wires(options.launch);
  if (options.netdev)
    for (const Netdev& netdev : netdevs) remove_netdev(netdev.name);
  return child < 0 ? complain(name, "no process could be made", exit_refused) : end_like(status);
}

}  // namespace
}  // namespace kilim::app

int main(int argc, char** argv) {
  using namespace kilim;
  say_when_memory_is_used_up("kilim-vhca");
  if (cli::asks_version(argc, argv)) return cli::say_version("kilim-vhca");
  auto parsed = app::parse(argc, argv);
  if (const auto* exit = std::get_if<cli::Exit>(&parsed)) return cli::say("kilim-vhca", *exit);
  return app::launch(std::get<app::Options>(parsed));
}
