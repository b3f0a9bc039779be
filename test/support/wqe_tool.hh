// SPDX-License-Identifier: BSD-3-Clause
// For tests of recordings: a file that goes again, and what usertools/kilim-wqe.py says of it. The
// build names the script in KILIM_WQE_TOOL. One thread.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include <unistd.h>

#include "ut.hh"

namespace kilim::test {

struct ScratchFile {
  ScratchFile() {
    const int fd = ::mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0);
    ::close(fd);
  }
  ~ScratchFile() { ::unlink(path); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  char path[32] = "/tmp/wqe_tool.XXXXXX";
};

// The script's output, both streams; `status` as wait() has it.
inline std::string wqe_tool(const char* word, const char* files, int& status) {
  const std::string command =
      "/usr/bin/python3 " KILIM_WQE_TOOL " " + std::string(word) + " " + files + " 2>&1";
  std::string text;
  FILE* pipe = ::popen(command.c_str(), "r");
  CU_ASSERT_FATAL(pipe != nullptr);
  char part[4096];
  for (std::size_t n; (n = std::fread(part, 1, sizeof(part), pipe)) > 0;) text.append(part, n);
  status = ::pclose(pipe);
  return text;
}

}  // namespace kilim::test
