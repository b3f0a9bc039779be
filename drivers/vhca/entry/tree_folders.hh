// SPDX-License-Identifier: BSD-3-Clause
// The folders of sysfs trees (sysfs_tree.hh), this process's and those that others left behind.
// Each holds a file `lock`, locked by its maker, with the process that needs the folder in it. Any
// thread, but one sweep at a time in a process.
#pragma once

#include <string>

#include <sys/types.h>

namespace kilim::vhca::entry {

inline constexpr const char* tree_prefix = "kilim-vhca.";  // of a folder's name

// Where they lie: XDG_RUNTIME_DIR, or /tmp.
std::string base_folder();

// Makes a folder and those above it that are missing. False: errno says why not.
bool make_folders(const std::string& path);

// A file that holds `text`, with a newline at its end. False: errno says why not.
bool write_file(const std::string& path, std::string text);

// Removes a folder and all in it, on this file system; what cannot be removed stays.
void remove_all(const std::string& path) noexcept;

// Removes the folders of this user below `base` that nobody alive needs.
void sweep(const std::string& base);

// When a process began, in ticks since the machine did; 0: there is none of this number. Tells a
// process from a later one of its number.
unsigned long long start_of(pid_t pid);

}  // namespace kilim::vhca::entry
