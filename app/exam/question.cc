// SPDX-License-Identifier: BSD-3-Clause
#include "question.hh"

#include <string_view>

namespace kilim::exam {

std::vector<const Question*> all_questions() {
  std::vector<const Question*> all;
  for (const auto chapter : {fact_questions, error_questions, packet_questions, burst_questions,
                             offload_questions, hash_questions, order_questions, umr_questions,
                             list_questions, key_questions, queue_questions, machine_questions})
    for (const Question& q : chapter()) all.push_back(&q);
  return all;
}

const Question* find_question(std::string_view id) {
  for (const Question* q : all_questions())
    if (id == q->id) return q;
  return nullptr;
}

const char* meaning_of(const Question& q, std::string_view verdict) {
  for (const Meaning& m : q.verdicts)
    if (verdict == m.verdict) return m.for_kilim;
  return nullptr;
}

}  // namespace kilim::exam
