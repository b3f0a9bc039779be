// SPDX-License-Identifier: BSD-3-Clause
// The rows of kilim-vhca: options end at "--" or at the first word that is none.
#include "options.hh"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "vhca/core/profile.hh"
#include "vhca/entry/device_words.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/own_files.hh"
#include "vhca/wire/unix.hh"

namespace kilim::app {
namespace {

constexpr uint32_t max_devices = 32;

// Empty: the value is good.
std::string reason(bool good, const char* why) {
  return good ? "" : why;
}

// Room for the number.
constexpr std::size_t longest_prefix = 28;

std::string set_name(Options& o, const char* value) {
  o.launch.attach.name = value;
  return reason(vhca::entry::name_is_valid(value) && o.launch.attach.name.size() <= longest_prefix,
                "1 to 28 letters, digits, '_', '-' or '.' are needed");
}

// A word of the device's, checked by its own table.
template <std::size_t n>
struct Word {
  // NOLINTNEXTLINE(google-explicit-constructor): a template is named by a word as it stands
  consteval Word(const char (&word)[n]) { std::copy_n(word, n, text); }
  char text[n]{};
};
template <Word word>
std::string set_word(Options& o, const char* value) {
  return vhca::entry::find_device_word(word.text)->read(o.launch.attach, value);
}

// A switch's folder that is there already is this user's alone: else whoever opens the device would
// be the first to hear of it.
std::string why_no_folder(std::string_view wire) {
  const std::string folder = vhca::wire::UnixWire::folder_of(wire);
  if (folder.empty()) return "";
  const Result<Fd> own = vhca::wire::open_own_folder(folder);
  return reason(own.ok() || own.error().code == ENOENT, own.ok() ? "" : own.error().what);
}

// Children may be elsewhere when they open the device: paths are the launcher's, as for --journal.
std::string set_wire(Options& o, const char* value) {
  if (std::string why = set_word<"wire">(o, value); !why.empty()) return why;
  std::error_code none;
  auto spec = vhca::wire::absolute_wire_spec(value, std::filesystem::current_path(none).string());
  if (!spec) return spec.error().what;
  o.launch.attach.wires.back() = *std::move(spec);
  return why_no_folder(o.launch.attach.wires.back());
}

std::string set_journal(Options& o, const char* value) {
  std::error_code none;
  const std::string path = *value == '\0' ? "" : std::filesystem::absolute(value, none).string();
  return set_word<"journal">(o, path.c_str());
}

std::string set_devices(Options& o, const char* value) {
  uint64_t n = 1;
  const auto fault = cli::parse_number(value, {1, max_devices}, n);
  o.launch.devices = static_cast<uint32_t>(n);
  return reason(fault == cli::Fault::none, "a number from 1 to 32 is needed");
}

std::string set_sysfs(Options& o, const char* value) {
  o.mount = std::strcmp(value, "mount") == 0;
  return reason(o.mount || std::strcmp(value, "env") == 0, "env or mount is needed");
}

constexpr cli::Row<Options> rows[] = {
    {0, "devices", "N", set_devices, "number of devices, 1 to 32 (1)"},
    {0, "name", "PREFIX", set_name, "their names are PREFIX0, PREFIX1, ... (vhca)"},
    {0, "profile", "NAME", set_word<"profile">,
     "cx6dx, vf, strong-fence, no-fence, no-devx, real-time, ... (cx6dx)"},
    {0, "wire", "SPEC", set_wire,
     "where the next device's frames go; the first --wire is the first device's:\n"
     "  pcap:IN[:OUT]      frames come from file IN, and go to file OUT\n"
     "  af_packet:IFACE    a network interface of this machine\n"
     "  cable:NAME         the other device of the process with this NAME\n"
     "  unix:DIR           all processes of yours that name this folder;\n"
     "                     nobody else may enter it\n"
     "  shm:DIR            the same, through memory that each two of them share\n"
     "  tap:NAME           a TAP interface of this machine\n"
     "  udp:HOST:PORT:HOST:PORT  from our address to a neighbour's\n"
     "  dgram:OURS:THEIRS  two unix sockets, as a QEMU guest's network card\n"
     "then, each a part of SPEC: +ip:ADDRESS, +tee:FILE and\n"
     "+fault:drop:0.01:dup:0.01:reorder:0.01:corrupt:0.01:seed:7; with\n"
     "+exclusive behind af_packet: its kernel does not see what rules take\n"
     "without: unix:DIR with DIR 'kilim' under XDG_RUNTIME_DIR or, where\n"
     "that is not set, 'kilim-UID' under /tmp: all processes of the user\n"
     "find each other"},
    {0, "mac", "ADDRESS", set_word<"mac">,
     "of the first device's port; the next ones' follow. Without: as the\nwire says"},
    {0, "gid", "ADDRESS", set_word<"gid">,
     "GID 1 of the first device, an IPv6 address; the next ones' follow. On a\n"
     "unix: wire others find it. Without: GID 0 alone, of the port's address"},
    {0, "ip", "ADDRESS", set_word<"ip">,
     "of the first device's port, 10.0.0.1/24 or fd00::1/64; again for one\n"
     "more; the next ones' follow. Behind +ip: in a SPEC for one device alone"},
    {0, "seed", "N", set_word<"seed">,
     "numbers of keys and queues, and addresses, follow from it (0)"},
    {0, "fault", "FAULT", set_word<"fault">,
     "fatal@N: an adapter dies with the N-th send request that it takes up;\n"
     "wqe@N or wqe@N+M: the N-th one fails, and each M-th behind it; again\n"
     "for the other kind"},
    {0, "journal", "FILE", set_journal,
     "append a line for each thing that an adapter does; JSON if\nFILE ends in .json"},
    {0, "lint", "MODE", set_word<"lint">,
     "off, warn (tell of send WQEs that are wrong or hazardous) or error\n(fail them too) (off)"},
    {0, "explain", nullptr, &Options::explain,
     "say on stderr why a request failed and a verb was refused, each cause\n"
     "once a queue (default where stderr is a terminal)"},
    {0, "no-explain", nullptr, &Options::no_explain, "do not"},
    {0, "order", "ORDER", set_word<"order">,
     "strict (send WQEs take effect as they are posted), weak or weak:SEED\n"
     "(late, as a card may, wherever no fence forbids it), late-umr,\n"
     "late-read or resend (strict)"},
    {0, "sysfs", "HOW", set_sysfs,
     "env: libibverbs is told by SYSFS_PATH where the devices are (default);\n"
     "mount: in a private mount namespace they are in /sys/class, for\n"
     "programs that look there themselves"},
    {0, "pci", nullptr, &Options::pci,
     "for programs with drivers of their own, as DPDK's mlx5: the devices are\n"
     "PCI functions (SYSFS_PCI_DEVICES) whose ports have network interfaces"},
    {0, "netdev", nullptr, &Options::netdev,
     "each port has a network interface of the kernel's beside it, kilimN: it\n"
     "gets what no flow rule in front of it takes, and sends by the port's\n"
     "wire; one process at a time has a device then"},
    {0, "shared", nullptr, &Options::shared,
     "the processes of COMMAND share one adapter each, as a machine's do, with\n"
     "its addresses; they reach each other, and nobody else"},
    {'h', "help", nullptr, help_text,
     "this text; --version, as the first word: which Kilim this is"},
};

std::optional<cli::Exit> refuse(const std::string& what, const std::string& why) {
  return cli::Exit{exit_refused, what + ": " + why};
}

// A wire for each device that has none: a switch that the user's processes share.
std::optional<cli::Exit> set_default_wires(Options& o) {
  std::vector<std::string>& wires = o.launch.attach.wires;
  // Wires carry Ethernet frames.
  if (const auto profile = vhca::find_profile(o.launch.attach.profile);
      profile.ok() && profile->lid != 0) {
    if (o.shared) return refuse("--shared", "an InfiniBand port is loopback only");
    if (wires.empty()) return std::nullopt;
    return refuse("--wire=" + wires[0], "an InfiniBand port has no Ethernet: it is loopback only");
  }
  if (o.shared && !wires.empty())
    return refuse("--wire=" + wires[0], "a shared adapter has no wire but its own");
  o.launch.attach.shared = o.shared;
  if (o.shared || wires.size() == o.launch.devices) return std::nullopt;
  const char* base = ::getenv("XDG_RUNTIME_DIR");
  const std::string folder = base != nullptr && *base == '/'
                                 ? std::string(base) + "/kilim"
                                 : "/tmp/kilim-" + std::to_string(::getuid());
  if (folder.find_first_of(",=+") != std::string::npos)
    return refuse("XDG_RUNTIME_DIR=" + folder, "a wire's folder has no ',', '=' or '+' in it");
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return refuse("--wire=unix:" + folder, "the folder cannot be made; name a wire");
  wires.resize(o.launch.devices, "unix:" + folder);
  const std::string why = why_no_folder(wires.back());
  return why.empty() ? std::nullopt : refuse("--wire=" + wires.back(), why);
}

// The environment's word stands where the command line has none.
std::optional<cli::Exit> choose_explanations(Options& o) {
  if (o.explain && o.no_explain) return refuse("--explain", "--no-explain is given too; name one");
  const char* said = ::getenv("KILIM_VHCA_EXPLAIN");
  if (o.explain || o.no_explain)
    o.launch.attach.explain = o.explain ? "on" : "off";
  else if (said == nullptr || *said == '\0')
    o.launch.attach.explain = ::isatty(STDERR_FILENO) == 1 ? "on" : "off";
  return std::nullopt;
}

// What the options say together.
std::optional<cli::Exit> complete(Options& o) {
  const std::vector<std::string>& wires = o.launch.attach.wires;
  if (wires.size() > o.launch.devices)
    return refuse("--wire=" + wires.back(), "there are more wires than devices");
  if (o.netdev && o.shared)
    return refuse("--netdev", "the processes of a --shared adapter have no interface beside it");
  if (*o.command == nullptr) return refuse("a command is needed", "see --help");
  if (auto exit = choose_explanations(o)) return exit;
  return set_default_wires(o);
}

}  // namespace

std::string help_text() {
  return "usage: kilim-vhca [OPTION]... [--] COMMAND [ARGUMENT]...\n"
         "Runs COMMAND, its children included, on virtual ConnectX-6 Dx adapters beside real "
         "ones.\n"
         "Each process that opens a device has an adapter of its own, but for --shared.\n"
         "\n" +
         cli::help_of(rows) +
         "\n"
         "COMMAND is a dynamically linked program of this architecture or a script of such a one.\n"
         "The exit status is COMMAND's; 2: refused before it started, 127: not found.\n";
}

std::variant<Options, cli::Exit> parse(int argc, char** argv) {
  Options o;
  o.launch.attach.name = "vhca";
  const auto words = cli::parse(o, rows, {argc, argv, cli::Order::options_first});
  if (const auto* exit = std::get_if<cli::Exit>(&words))
    return cli::Exit{exit->code == 0 ? 0 : exit_refused, exit->message};
  o.command = argv + std::get<int>(words);
  if (auto exit = complete(o)) return *std::move(exit);
  return o;
}

}  // namespace kilim::app
