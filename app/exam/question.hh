// SPDX-License-Identifier: BSD-3-Clause
// Question: a row of the examination. Chapters are tables of them, all_questions() is their list.
// Pure data but for `ask`, which runs in a child process of its own and may end it at any point.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "answer.hh"

namespace kilim::exam {

// A child is told this; the strings outlive it.
struct Setting {
  std::string device;  // empty: the first one that is an mlx5 device
  std::string peer;    // empty: none
  uint32_t effort = 1;
};

namespace needs {
inline constexpr uint8_t raw = 1;    // CAP_NET_RAW: a raw packet queue, flow rules
inline constexpr uint8_t peer = 2;   // a second device (--peer)
inline constexpr uint8_t cable = 4;  // both ports on one cable (--cable)
}  // namespace needs

// Questions that disturb others of the machine are asked only with the option that allows it.
enum class Disturbs : uint8_t { nothing, netdev, device };

struct Meaning {
  const char* verdict;
  const char* for_kilim;
};

struct Question {
  const char* id;
  const char* title;
  uint8_t needs;
  Disturbs disturbs;
  uint32_t seconds;  // until it counts as hung, with --effort 1
  std::span<const Meaning> verdicts;
  const char* facts_mean;  // what a fact that differs is for Kilim
  // A profile, fault or order of the virtual card that turns the verdict over, which a test does;
  // or "cannot fail here: why".
  const char* turned_by;
  void (*ask)(const Setting& setting, Answer& answer);
};

// Chapters, in the order of the report.
std::span<const Question> fact_questions();
std::span<const Question> error_questions();
std::span<const Question> packet_questions();
std::span<const Question> burst_questions();
std::span<const Question> offload_questions();
std::span<const Question> hash_questions();
std::span<const Question> order_questions();
std::span<const Question> umr_questions();
std::span<const Question> list_questions();
std::span<const Question> key_questions();
std::span<const Question> queue_questions();
std::span<const Question> machine_questions();

std::vector<const Question*> all_questions();
const Question* find_question(std::string_view id);
// The sentence of a verdict; null where the question's table has it not.
const char* meaning_of(const Question& q, std::string_view verdict);

}  // namespace kilim::exam
