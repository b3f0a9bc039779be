// SPDX-License-Identifier: BSD-3-Clause
// Reads options up to "--" or the first word that is none.

#include "options.hh"

#include <cerrno>
#include <charconv>
#include <cstdio>
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

#include "vhca/core/order.hh"
#include "vhca/core/profile.hh"
#include "vhca/lint/lint.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/own_files.hh"
#include "vhca/wire/unix.hh"

namespace kilim::app {
namespace {

constexpr uint32_t max_devices = 32;

constexpr const char* help_text =
    "usage: kilim-vhca [OPTION]... [--] COMMAND [ARGUMENT]...\n"
    "Runs COMMAND, its children included, on virtual ConnectX-6 Dx adapters beside real ones.\n"
    "Each process that opens a device has an adapter of its own.\n"
    "\n"
    "  --devices N      number of devices, 1 to 32 (1)\n"
    "  --name PREFIX    their names are PREFIX0, PREFIX1, ... (vhca)\n"
    "  --profile NAME   cx6dx, vf, strong-fence, no-fence, no-devx, real-time, ... (cx6dx)\n"
    "  --wire SPEC      where the next device's frames go; the first --wire is the first "
    "device's:\n"
    "                     pcap:IN[:OUT]      frames come from file IN, and go to file OUT\n"
    "                     af_packet:IFACE    a network interface of this machine\n"
    "                     cable:NAME         the other device of the process with this NAME\n"
    "                     unix:DIR           all processes of yours that name this folder; nobody\n"
    "                                        else may enter it\n"
    "                     tap:NAME           a TAP interface of this machine\n"
    "                     udp:HOST:PORT:HOST:PORT  from our address to a neighbour's\n"
    "                     dgram:OURS:THEIRS  two unix sockets, as a QEMU guest's network card\n"
    "                   then, each a part of SPEC: +tee:FILE and\n"
    "                   +fault:drop:0.01:dup:0.01:reorder:0.01:corrupt:0.01:seed:7\n"
    "                   without: unix:DIR with DIR 'kilim' under XDG_RUNTIME_DIR or, where that is "
    "not set,\n"
    "                     'kilim-UID' under /tmp: all processes of the user find each other\n"
    "  --mac ADDRESS    of the first device's port; the next ones' follow. Without: as the wire "
    "says\n"
    "  --gid ADDRESS    GID 1 of the first device, an IPv6 address; the next ones' follow. On a\n"
    "                   unix: wire others find it. Without: GID 0 alone, of the port's address\n"
    "  --seed N         numbers of keys and queues, and addresses, follow from it (0)\n"
    "  --fault fatal@N  an adapter dies with the N-th send request that it takes up\n"
    "  --journal FILE   append a line for each thing that an adapter does; JSON if FILE ends in "
    ".json\n"
    "  --lint MODE      off, warn (tell of send WQEs that are wrong or hazardous) or error (fail "
    "them too)\n"
    "                     (off)\n"
    "  --order ORDER    strict (send WQEs take effect as they are posted), weak or weak:SEED "
    "(late, "
    "as\n"
    "                     a card may, wherever no fence forbids it), late-umr, late-read or resend "
    "(strict)\n"
    "  --sysfs env      libibverbs is told by SYSFS_PATH where the devices are (default)\n"
    "  --sysfs mount    in a private mount namespace they are in /sys/class, for programs that "
    "look\n"
    "                   there themselves\n"
    "  -h, --help       this text; --version, as the first word: which Kilim this is\n"
    "\n"
    "COMMAND is a dynamically linked program of this architecture or a script of such a one.\n"
    "The exit status is COMMAND's; 2: refused before it started, 127: not found.\n";

bool refuse(const char* what, std::string_view value, const char* why) {
  std::fprintf(stderr, "kilim-vhca: %s '%.*s': %s\n", what, static_cast<int>(value.size()),
               value.data(), why);
  return false;
}

template <typename T>
bool parse_number(const char* option, std::string_view text, T low, T high, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error == std::errc() && end == text.data() + text.size() && out >= low && out <= high) {
    return true;
  }
  char why[80];
  std::snprintf(why, sizeof(why), "a number from %llu to %llu is needed",
                static_cast<unsigned long long>(low), static_cast<unsigned long long>(high));
  return refuse(option, text, why);
}

bool set_name(Options& o, std::string_view value) {
  o.launch.attach.name = value;
  // Room for the number.
  return (vhca::name_is_valid(value) && value.size() <= 28) ||
         refuse("--name", value, "1 to 28 letters, digits, '_', '-' or '.' are needed");
}

bool set_profile(Options& o, std::string_view value) {
  o.launch.attach.profile = value;
  const auto profile = vhca::find_profile(value);
  return profile.ok() || refuse("--profile", value, profile.error().what);
}

// A switch's folder that is there already is this user's alone: else whoever opens the device would
// be the first to hear of it.
bool check_folder(std::string_view wire) {
  const std::string folder = vhca::UnixWire::folder_of(wire);
  if (folder.empty()) return true;
  const Result<Fd> own = vhca::open_own_folder(folder);
  return own.ok() || own.error().code == ENOENT || refuse("--wire", wire, own.error().what);
}

// Children may be elsewhere when they open the device: paths are the launcher's, as for --journal.
bool set_wire(Options& o, std::string_view value) {
  std::string why;
  if (!vhca::check_wire_spec(value, &why)) {
    std::fprintf(stderr, "kilim-vhca: --%s\n", why.c_str());
    return false;
  }
  std::error_code none;
  auto spec = vhca::absolute_wire_spec(value, std::filesystem::current_path(none).string());
  if (!spec) return refuse("--wire", value, spec.error().what);
  o.launch.attach.wires.push_back(std::move(*spec));
  return check_folder(o.launch.attach.wires.back());
}

bool set_journal(Options& o, std::string_view value) {
  if (value.empty()) return refuse("--journal", value, "a file name is needed");
  std::error_code none;
  o.launch.attach.journal = std::filesystem::absolute(value, none).string();
  return true;
}

// fatal@N.
bool set_fault(Options& o, std::string_view value) {
  constexpr std::string_view fatal = "fatal@";
  if (!value.starts_with(fatal)) return refuse("--fault", value, "fatal@N is the one there is");
  return parse_number<uint64_t>("--fault fatal@", value.substr(fatal.size()), 1, UINT64_MAX,
                                o.launch.attach.fatal_at);
}

bool set_mac(Options& o, std::string_view value) {
  o.launch.attach.mac = value;
  return vhca::parse_mac(value).has_value() ||
         refuse("--mac", value, "an address of one station is needed, like 02:4b:4c:00:00:01");
}

bool set_gid(Options& o, std::string_view value) {
  o.launch.attach.gid = value;
  return vhca::parse_gid(value).has_value() ||
         refuse("--gid", value,
                "an IPv6 address of one station, not a link-local one, is needed, like fd00::1");
}

// A wire for each device that has none: a switch that the user's processes share.
bool set_default_wires(Options& o) {
  std::vector<std::string>& wires = o.launch.attach.wires;
  // Wires carry Ethernet frames.
  if (const auto profile = vhca::find_profile(o.launch.attach.profile);
      profile.ok() && profile->lid != 0)
    return wires.empty() ||
           refuse("--wire", wires[0], "an InfiniBand port has no Ethernet: it is loopback only");
  if (wires.size() == o.launch.devices) return true;
  const char* base = ::getenv("XDG_RUNTIME_DIR");
  const std::string folder = base != nullptr && *base == '/'
                                 ? std::string(base) + "/kilim"
                                 : "/tmp/kilim-" + std::to_string(::getuid());
  if (folder.find_first_of(",=+") != std::string::npos)
    return refuse("XDG_RUNTIME_DIR", folder, "a wire's folder has no ',', '=' or '+' in it");
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return refuse("--wire unix", folder, "the folder cannot be made; name a wire");
  wires.resize(o.launch.devices, "unix:" + folder);
  return check_folder(wires.back());
}

bool set_lint(Options& o, std::string_view value) {
  o.launch.attach.lint = value;
  const auto mode = vhca::find_lint_mode(value);
  return mode.ok() || refuse("--lint", value, mode.error().what);
}

bool set_order(Options& o, std::string_view value) {
  o.launch.attach.order = value;
  const auto order = vhca::find_order(value);
  return order.ok() || refuse("--order", value, order.error().what);
}

bool set_sysfs(Options& o, std::string_view value) {
  o.mount = value == "mount";
  return o.mount || value == "env" || refuse("--sysfs", value, "env or mount is needed");
}

struct Option {
  const char* name;
  bool (*set)(Options&, std::string_view);
};

constexpr Option table[] = {
    {"--devices",
     [](Options& o, std::string_view v) {
       return parse_number("--devices", v, 1u, max_devices, o.launch.devices);
     }},
    {"--name", set_name},
    {"--profile", set_profile},
    {"--wire", set_wire},
    {"--mac", set_mac},
    {"--gid", set_gid},
    {"--seed",
     [](Options& o, std::string_view v) {
       return parse_number<uint64_t>("--seed", v, 0, UINT64_MAX, o.launch.attach.seed);
     }},
    {"--fault", set_fault},
    {"--journal", set_journal},
    {"--lint", set_lint},
    {"--order", set_order},
    {"--sysfs", set_sysfs},
};

// "--name value" or "--name=value" at argv[i]; moves i to its last word.
bool parse_one(Options& o, int argc, char** argv, int& i) {
  const std::string_view word = argv[i];
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  for (const Option& option : table) {
    if (name != option.name) continue;
    if (equals != std::string_view::npos) return option.set(o, word.substr(equals + 1));
    if (++i == argc) return refuse("option", name, "it needs a value");
    return option.set(o, argv[i]);
  }
  return refuse("option", word, "there is none of this name; see --help");
}

}  // namespace

void print_help() {
  std::fputs(help_text, stdout);
}

std::optional<Options> parse(int argc, char** argv) {
  Options o;
  o.launch.attach.name = "vhca";
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; i++) {
    const std::string_view word = argv[i];
    if (word == "--") {
      i++;
      break;
    }
    if (word == "-h" || word == "--help") {
      o.help = true;
      return o;
    }
    if (!parse_one(o, argc, argv, i)) return std::nullopt;
  }
  if (o.launch.attach.wires.size() > o.launch.devices) {
    refuse("--wire", o.launch.attach.wires.back(), "there are more wires than devices");
    return std::nullopt;
  }
  if (i == argc) {
    std::fprintf(stderr, "kilim-vhca: a command is needed; see --help\n");
    return std::nullopt;
  }
  if (!set_default_wires(o)) return std::nullopt;
  o.command = argv + i;
  return o;
}

}  // namespace kilim::app
