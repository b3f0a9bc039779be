// SPDX-License-Identifier: BSD-3-Clause
// Any text where a person or a script writes one: wire specs, profiles, names, addresses, the
// launcher's command line and environment; and capture files, which come from anywhere. The first
// byte says which.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <variant>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "fake_clock_fixture.hh"
#include "input_fixture.hh"
#include "vhca/core/profile.hh"
#include "vhca/entry/config.hh"
#include "vhca/options.hh"
#include "vhca/wire/make.hh"
#include "vhca/wire/wire.hh"

namespace kilim::fuzz {

using namespace vhca;

namespace {

// Where the launcher looks for its default wire's folder: none of this process's user.
const bool no_folder = ::setenv("XDG_RUNTIME_DIR", "/nonexistent", 1) == 0;

void drive(wire::Wire& wire) {
  std::vector<std::byte> frame(100, std::byte{0x5a});
  for (int i = 0; i < 64; i++) {
    wire.send(frame);
    wire.peek();
    wire.drop();
  }
  for (int i = 0; i < 4096 && !wire.ended() && !wire.peek().empty(); i++) wire.drop();
  (void)wire.counters();
}

// Of any kind it is checked; those that touch nothing of the machine are made.
void wire_spec(const std::string& spec) {
  std::string why;
  bool shaped = wire::check_wire_spec(spec, &why).ok();
  if (!shaped && why.empty()) std::abort();
  auto absolute = wire::absolute_wire_spec(spec, "/here");
  if (absolute.ok() != shaped) std::abort();
  if (shaped && *wire::absolute_wire_spec(*absolute, "/elsewhere") != *absolute) std::abort();
  bool harmless = spec.starts_with("cable:") && spec.find("tee:") == std::string::npos;
  if (!harmless) return;
  Result<std::unique_ptr<wire::Wire>> wire = wire::make_wire(spec, &why);
  if (wire && !shaped) std::abort();
  if (wire) drive(**wire);
}

void capture(const std::string& bytes) {
  int fd = ::memfd_create("capture", 0);
  if (::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) {
    Result<std::unique_ptr<wire::Wire>> wire =
        wire::make_wire("pcap:/proc/self/fd/" + std::to_string(fd));
    if (wire) drive(**wire);
  }
  ::close(fd);
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= text.size();) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

void command_line(const std::string& text) {
  std::vector<std::string> words = words_of(text);
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const auto parsed = app::parse(static_cast<int>(words.size()), argv.data());
  const auto* o = std::get_if<app::Options>(&parsed);
  if (o == nullptr) return;
  for (uint32_t k = 0; k < o->launch.devices; k++) (void)entry::mac_of(o->launch.device(k).attach);
}

void environment(const std::string& text) {
  constexpr const char* names[] = {"DEVICES", "FIRST", "NAME", "PROFILE", "WIRES", "MAC", "SEED"};
  std::vector<std::string> words = words_of(text);
  for (std::size_t i = 0; i < std::size(names) && i < words.size(); i++)
    ::setenv((std::string("KILIM_VHCA_") + names[i]).c_str(), words[i].c_str(), 1);
  entry::LaunchConfig config = entry::find_in_environment();
  for (uint32_t k = 0; k < std::min(config.devices, 4u); k++) {
    entry::DeviceConfig device = config.device(k);
    (void)guid_of(entry::mac_of(device.attach));
    (void)device.rdev();
  }
}

void words(const std::string& text) {
  (void)find_profile(text);
  (void)entry::name_is_valid(text);
  (void)entry::parse_mac(text);
}

constexpr void (*readers[])(const std::string&) = {wire_spec, capture, command_line, environment,
                                                   words};

Script of(uint8_t which, const std::string& text) {
  Script s;
  return s.put(which).text(text);
}

std::string one_packet() {
  std::string file(24 + 16 + 64, '\0');
  const unsigned char magic[] = {0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0};
  file.replace(0, sizeof(magic), reinterpret_cast<const char*>(magic), sizeof(magic));
  file[17] = file[20] = 1;
  file[24 + 8] = file[24 + 12] = 64;
  return file;
}

}  // namespace

std::vector<Seed> seeds() {
  return {{"a cable", of(0, "cable:x+fault:drop:0.1:dup:0.2:reorder:0.3:corrupt:0.4:seed:7")},
          {"a folder", of(0, "unix:/tmp/x+tee:/tmp/y.pcap")},
          {"shared memory", of(0, "shm:/tmp/x+fault:drop:0.1")},
          {"udp", of(0, "udp:127.0.0.1:5000:[::1]:6000")},
          {"two sockets", of(0, "dgram:/tmp/x/a:/tmp/x/b")},
          {"a capture", of(1, one_packet())},
          {"a command line", of(2,
                                "kilim-vhca\n--devices\n3\n--wire=cable:a\n--mac\n"
                                "02:4b:4c:00:00:01\n--seed=7\n--profile\nvf\n--\nls")},
          {"an environment", of(3, "2\n1\nvhca\ncx6dx\ncable:a,cable:b,\n02:4b:4c:00:00:ff\n9")},
          {"a profile", of(4, "strong-fence")},
          {"an address", of(4, "02:4b:4c:00:00:01")}};
}

void run_input(Input in) {
  reset_clock();
  uint8_t which = in.take<uint8_t>();
  readers[which % std::size(readers)](in.rest());
}

}  // namespace kilim::fuzz
