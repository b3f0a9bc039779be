# SPDX-License-Identifier: BSD-3-Clause
"""The launcher's library beside other libraries that take calls of libc. Usage: preload_test.py
KILIM_VHCA
"""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LAUNCHER = os.path.abspath(sys.argv[1])

COUNTED = ("open", "openat", "stat", "fstat", "access", "close", "mmap", "munmap", "madvise",
           "mremap", "socket", "ioctl")
# Counts the calls of these names that a thread makes between marks, and passes them on.
COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int counting;
#define PASS(name)                                                                       \
  static int count_##name;                                                               \
  long name(long a, long b, long c, long d, long e, long f) {                            \
    static long (*next)(long, long, long, long, long, long);                             \
    if (!next) *(void**)&next = dlsym(RTLD_NEXT, #name);                                 \
    count_##name += counting;                                                            \
    return next(a, b, c, d, e, f);                                                       \
  }
#define ALL(X) X(open) X(openat) X(stat) X(fstat) X(access) X(close) X(mmap) X(munmap)    \
  X(madvise) X(mremap) X(socket) X(ioctl)
ALL(PASS)
void count_calls(int on) { counting = on; }
#define SAY(name) fprintf(stderr, "counted %s %d\n", #name, count_##name);
__attribute__((destructor)) static void say(void) { ALL(SAY) }
"""
# Two calls of each name on things of others, then some on a device.
CALLER = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
static int device(void) {
  struct stat st;
  int fd = open("/dev/infiniband/uverbs0", O_RDWR), wrong = fd < 0;
  wrong |= access("/dev/infiniband/uverbs0", R_OK) != 0;
  wrong |= fstat(fd, &st) != 0 || !S_ISCHR(st.st_mode);
  wrong |= ioctl(fd, 0, 0) != -1;
  return close(fd) != 0 || wrong;
}
int main(void) {
  void (*count)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "count_calls");
  struct stat st;
  int left, wrong = device();
  count(1);
  for (int i = 0; i < 2; i++) {
    int fd = open("/dev/null", O_RDWR), other = openat(AT_FDCWD, "/", O_RDONLY);
    wrong |= fd < 0 || other < 0 || stat("/", &st) || fstat(fd, &st) || access("/", F_OK);
    ioctl(fd, FIONREAD, &left);
    char* at = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    wrong |= at == MAP_FAILED || madvise(at, 4096, MADV_DONTNEED);
    at = mremap(at, 8192, 4096, 0);
    wrong |= at == MAP_FAILED || munmap(at, 4096) || close(fd);
    if (socket(AF_UNIX, SOCK_STREAM, 0) < 0) wrong = 1;
  }
  wrong |= open("/nowhere/at/all", O_RDONLY) != -1;
  wrong |= device();
  count(0);
  return wrong;
}
"""


class Preload(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        os.environ["XDG_RUNTIME_DIR"] = self.folder

    def tearDown(self):
        shutil.rmtree(self.folder)

    def compiled(self, source, name, *flags):
        """The path of what the C compiler makes of it."""
        path = os.path.join(self.folder, name)
        subprocess.run(["cc", "-x", "c", "-", "-x", "none", "-o", path, *flags], input=source,
                       text=True, check=True)
        return path

    def counted(self, program, **environment):
        """Runs it on a device: how often each name that COUNTER counts was called."""
        env = {**os.environ, **environment,
               "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}
        done = subprocess.run([LAUNCHER, "--", program], capture_output=True, text=True,
                              timeout=60, env=env, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        counts = collections.Counter()    # the launcher's, which counts nothing, among them
        for name, count in re.findall(r"counted (\w+) (\d+)", done.stderr):
            counts[name] += int(count)
        return counts

    def test_calls_pass_others(self):
        """a library in front of ours, and one behind it, sees the calls that libc would get"""
        counter = self.compiled(COUNTER, "libcounter.so", "-shared", "-fPIC", "-O1")
        caller = self.compiled(CALLER, "caller", "-D_GNU_SOURCE")
        linked = self.compiled(CALLER, "linked", "-D_GNU_SOURCE", "-Wl,--no-as-needed", counter,
                               "-Wl,-rpath," + self.folder)
        behind = self.counted(linked)
        in_front = self.counted(caller, LD_PRELOAD=counter)
        # The device's own calls are passed on by those in front and end with us.
        for name in COUNTED:
            foreign = behind[name]
            self.assertEqual(foreign, 3 if name == "open" else 2, (name, behind))
            device = 1 if name in ("open", "close", "ioctl", "fstat", "access") else 0
            self.assertEqual(in_front[name], foreign + device, (name, in_front))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
