// SPDX-License-Identifier: BSD-3-Clause
// A TCP program that knows nothing of RDMA, for LD_PRELOAD=librspreload.so: `echo PORT` sends back
// what one client sends, `echo PORT ADDRESS` sends a megabyte and compares. The server says who
// its client was. Its sockets are of the plain type: librspreload leaves SOCK_CLOEXEC to the
// kernel.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { bytes = 1 << 20, part = 5000 };
static unsigned char sent[bytes], back[bytes];

static int fail(const char* what) {
  perror(what);
  return 1;
}

// Sends all of them, or says -1.
static int send_all(int fd, const unsigned char* from, size_t n) {
  while (n != 0) {
    const ssize_t done = send(fd, from, n, 0);
    if (done <= 0) return -1;
    from += done;
    n -= (size_t)done;
  }
  return 0;
}

static int serve(const struct sockaddr_in* at) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (const struct sockaddr*)at, sizeof *at) != 0) return fail("bind");
  if (listen(listener, 1) != 0) return fail("listen");
  struct sockaddr_in from;
  socklen_t size = sizeof from;
  const int fd = accept(listener, (struct sockaddr*)&from, &size);
  if (fd < 0) return fail("accept");
  printf("client %s\n", inet_ntoa(from.sin_addr));
  unsigned char some[part];
  for (ssize_t n; (n = recv(fd, some, sizeof some, 0)) > 0;)
    if (send_all(fd, some, (size_t)n) != 0) return fail("send");
  close(fd);
  close(listener);
  return 0;
}

static int ask(const struct sockaddr_in* to) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, (const struct sockaddr*)to, sizeof *to) != 0) return fail("connect");
  for (size_t i = 0; i < bytes; i++) sent[i] = (unsigned char)(i * 2654435761u >> 13);
  for (size_t at = 0, got = 0; at < bytes; at += part) {
    const size_t n = bytes - at < part ? bytes - at : part;
    if (send_all(fd, sent + at, n) != 0) return fail("send");
    while (got < at + n) {
      const ssize_t now = recv(fd, back + got, bytes - got, 0);
      if (now <= 0) return fail("recv");
      got += (size_t)now;
    }
  }
  shutdown(fd, SHUT_RDWR);
  close(fd);
  if (memcmp(sent, back, bytes) != 0) return fail("what came back is another text");
  printf("all %d bytes came back\n", bytes);
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1]))};
  inet_pton(AF_INET, argc == 3 ? argv[2] : "127.0.0.1", &address.sin_addr);
  return argc == 3 ? ask(&address) : serve(&address);
}
