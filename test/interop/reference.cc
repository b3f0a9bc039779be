// SPDX-License-Identifier: BSD-3-Clause
// What the machine does without an adapter, to be put beside one. One thread, or one a process.
// Usage: reference pingpong BYTES ROUNDS   two processes over a unix socket: microseconds a round
//        reference memcpy BYTES ROUNDS     one process, one core: 2^20 bytes a second
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool pass(int fd, std::vector<std::byte>& data, bool send_first) {
  auto whole = static_cast<ssize_t>(data.size());
  if (send_first && write(fd, data.data(), data.size()) != whole) return false;
  if (read(fd, data.data(), data.size()) != whole) return false;
  return send_first || write(fd, data.data(), data.size()) == whole;
}

// Messages stay whole: SOCK_SEQPACKET.
int pingpong(std::size_t bytes, unsigned rounds) {
  int ends[2];
  std::vector<std::byte> data(bytes);
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return 1;
  pid_t peer = fork();
  if (peer < 0) return 1;
  bool good = true;
  Clock::time_point start = Clock::now();
  close(ends[peer == 0 ? 0 : 1]);
  for (unsigned i = 0; i < rounds && good; i++) good = pass(ends[peer == 0], data, peer != 0);
  if (peer == 0) _exit(good ? 0 : 1);
  double took = seconds_since(start);
  int status = 1;
  waitpid(peer, &status, 0);
  if (!good || status != 0) return 1;
  std::printf("%.2f usec/iter\n", took * 1e6 / rounds);
  return 0;
}

int copy(std::size_t bytes, unsigned rounds) {
  std::vector<std::byte> from(bytes, std::byte{1}), to(bytes);
  Clock::time_point start = Clock::now();
  for (unsigned i = 0; i < rounds; i++) {
    std::memcpy(to.data(), from.data(), bytes);
    asm volatile("" ::"r"(to.data()) : "memory");  // it has been read
  }
  double took = seconds_since(start);
  std::printf("%.2f MB/sec\n", static_cast<double>(bytes) * rounds / took / (1 << 20));
  return 0;
}

template <typename T>
bool number(std::string_view text, T& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out > 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t bytes = 0;
  unsigned rounds = 0;
  if (argc == 4 && number(argv[2], bytes) && number(argv[3], rounds) && bytes <= 1u << 20) {
    if (std::string_view(argv[1]) == "pingpong") return pingpong(bytes, rounds);
    if (std::string_view(argv[1]) == "memcpy") return copy(bytes, rounds);
  }
  std::fprintf(stderr, "usage: reference pingpong|memcpy BYTES ROUNDS\n");
  return 2;
}
