// SPDX-License-Identifier: BSD-3-Clause
// A line of words, the first few by place and the rest as `key=value`: what the oracle's driver
// tells a peer program. One thread. Never judges what a key means.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace kilim::oracle {

class Words {
 public:
  explicit Words(const std::string& line) {
    std::istringstream in(line);
    for (std::string word; in >> word;) words_.push_back(word);
  }

  // By place; empty where the line is shorter.
  [[nodiscard]] std::string at(std::size_t place) const {
    return place < words_.size() ? words_[place] : "";
  }
  [[nodiscard]] std::string text(const std::string& key, const std::string& other = "") const {
    for (const std::string& word : words_) {
      if (word.size() > key.size() && word[key.size()] == '=' && word.starts_with(key))
        return word.substr(key.size() + 1);
    }
    return other;
  }
  [[nodiscard]] bool has(const std::string& key) const { return !text(key).empty(); }
  [[nodiscard]] uint64_t number(const std::string& key, uint64_t other = 0) const {
    std::string value = text(key);
    return value.empty() ? other : std::strtoull(value.c_str(), nullptr, 0);
  }
  template <typename T>
  [[nodiscard]] T as(const std::string& key, uint64_t other = 0) const {
    return static_cast<T>(number(key, other));
  }

 private:
  std::vector<std::string> words_;
};

// The numbers between separators.
inline std::vector<uint64_t> numbers(const std::string& text, char between) {
  std::vector<uint64_t> out;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, between);)
    out.push_back(std::strtoull(word.c_str(), nullptr, 0));
  return out;
}

}  // namespace kilim::oracle
