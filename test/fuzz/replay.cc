// SPDX-License-Identifier: BSD-3-Clause
// A harness without libFuzzer: feeds it its seeds and what was found before, and inputs like them,
// or writes them out for the fuzzer to begin with. Each recorded input is a line of hex digits
// behind its name.
#include <cctype>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "input_fixture.hh"
#include "mutations_fixture.hh"

namespace {

using Bytes = std::vector<uint8_t>;

struct Named {
  std::string name;
  Bytes bytes;
};

bool parse_line(const std::string& line, Named& out) {
  std::size_t colon = line.find(':');
  if (line.empty() || line[0] == '#' || colon == std::string::npos) return false;
  out.name = line.substr(0, colon);
  std::string digits;
  for (char c : line.substr(colon + 1)) {
    if (std::isxdigit(static_cast<unsigned char>(c)) != 0) digits += c;
  }
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    out.bytes.push_back(static_cast<uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
  return true;
}

std::vector<Named> all_inputs(const char* recorded) {
  std::vector<Named> all;
  for (kilim::fuzz::Seed& s : kilim::fuzz::seeds()) all.push_back({s.name, s.script.out});
  std::ifstream file(recorded);
  for (std::string line; std::getline(file, line);) {
    Named n;
    if (parse_line(line, n)) all.push_back(std::move(n));
  }
  return all;
}

int run(const Named& n) {
  std::printf("%s\n", n.name.c_str());
  std::fflush(stdout);
  return LLVMFuzzerTestOneInput(n.bytes.data(), n.bytes.size());
}

// The number of the last one that was begun tells which one went wrong.
void run_changed(const std::vector<Named>& all, std::size_t count) {
  std::vector<Bytes> from;
  for (const Named& n : all) from.push_back(n.bytes);
  kilim::fuzz::Mutations mutations(from);
  for (std::size_t i = 0; i < count; i++) run({"changed " + std::to_string(i), mutations.next()});
}

int run_files(int count, char** paths) {
  for (int i = 0; i < count; i++) {
    std::ifstream file(paths[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s: cannot be read\n", paths[i]);
      return 1;
    }
    run({paths[i], Bytes(std::istreambuf_iterator<char>(file), {})});
  }
  return 0;
}

int write_all(const std::vector<Named>& all, const std::string& folder) {
  for (std::size_t i = 0; i < all.size(); i++) {
    std::ofstream file(folder + "/seed-" + std::to_string(i), std::ios::binary);
    file.write(reinterpret_cast<const char*>(all[i].bytes.data()),
               static_cast<std::streamsize>(all[i].bytes.size()));
    if (!file) return 1;
  }
  return 0;
}

}  // namespace

// replay RECORDED [--changed N] | replay RECORDED --write FOLDER | replay RECORDED --files FILE...
int main(int argc, char** argv) {
  if (argc < 2) return 2;
  std::string mode = argc > 2 ? argv[2] : "";
  if (mode == "--files") return run_files(argc - 3, argv + 3);
  std::vector<Named> all = all_inputs(argv[1]);
  if (mode == "--write" && argc == 4) return write_all(all, argv[3]);
  if (all.empty()) return 1;
  for (const Named& n : all) run(n);
  const std::size_t changed = mode == "--changed" && argc == 4 ? std::stoul(argv[3]) : 0;
  run_changed(all, changed);
  std::printf("%zu passed, 0 failed\n", all.size() + changed);
  return 0;
}
