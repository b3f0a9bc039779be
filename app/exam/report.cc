// SPDX-License-Identifier: BSD-3-Clause
// JSON both ways, by libjansson.
#include "report.hh"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kilim::exam {
namespace {

constexpr std::size_t most_bytes = std::size_t{16} << 20;
// More than any report has; comparing is quadratic.
constexpr std::size_t most_questions = 1000, most_facts = 2000;
constexpr const char* kind = "kilim-exam";

struct Release {
  void operator()(json_t* j) const { json_decref(j); }
};
using Json = std::unique_ptr<json_t, Release>;

// JSON takes UTF-8 alone: of a value that is none the report says how long it is.
json_t* string_of(const std::string& s) {
  json_t* j = json_stringn(s.data(), s.size());
  return j != nullptr ? j : json_string(printed("(%zu bytes that are no text)", s.size()).c_str());
}

json_t* object_of(const std::vector<Pair>& pairs) {
  json_t* o = json_object();
  for (const Pair& p : pairs) json_object_set_new(o, p.name.c_str(), string_of(p.value));
  return o;
}

json_t* entry_object(const Entry& e) {
  json_t* o = json_object();
  json_object_set_new(o, "id", string_of(e.id));
  json_object_set_new(o, "title", string_of(e.title));
  json_object_set_new(o, "verdict", string_of(e.verdict));
  if (!e.why.empty()) json_object_set_new(o, "why", string_of(e.why));
  json_object_set_new(o, "facts", object_of(e.facts));
  json_object_set_new(o, "measured", object_of(e.measured));
  return o;
}

// A member that is a string, else nothing.
std::optional<std::string> text_in(const json_t* object, const char* name) {
  const json_t* j = json_object_get(object, name);
  if (!json_is_string(j)) return std::nullopt;
  return std::string(json_string_value(j), json_string_length(j));
}

// False: it is no object of strings, or has too many. A member that is not there is empty.
bool read_pairs(json_t* object, const char* name, std::vector<Pair>& into) {
  json_t* pairs = json_object_get(object, name);
  if (pairs == nullptr) return true;
  if (!json_is_object(pairs) || json_object_size(pairs) > most_facts) return false;
  const char* key = nullptr;
  json_t* value = nullptr;
  json_object_foreach(pairs, key, value) {
    if (!json_is_string(value)) return false;
    into.push_back({key, {json_string_value(value), json_string_length(value)}});
  }
  return true;
}

std::string read_entry(json_t* j, std::size_t number, Entry& e) {
  const auto id = text_in(j, "id"), verdict = text_in(j, "verdict");
  if (!id || !verdict)
    return printed("question %zu has no \"id\" or no \"verdict\" that is a text", number);
  e.id = *id;
  e.verdict = *verdict;
  e.title = text_in(j, "title").value_or("");
  e.why = text_in(j, "why").value_or("");
  if (!read_pairs(j, "facts", e.facts) || !read_pairs(j, "measured", e.measured))
    return printed("the facts of question %zu are no object of at most %zu texts", number,
                   most_facts);
  return "";
}

std::string read_all(json_t* root, Report& r) {
  if (text_in(root, "report") != kind) return "it is JSON, but no report of kilim-exam";
  const json_t* schema = json_object_get(root, "schema");
  if (!json_is_integer(schema)) return "it has no number \"schema\"";
  if (json_integer_value(schema) != schema_version)
    return printed(
        "its schema is %lld, this program reads %d: compare with the kilim-exam that "
        "wrote it",
        static_cast<long long>(json_integer_value(schema)), schema_version);
  r.program = text_in(root, "program").value_or("");
  r.anonymised = json_is_true(json_object_get(root, "anonymised"));
  if (!read_pairs(root, "device", r.device) || !read_pairs(root, "host", r.host))
    return printed("its \"device\" or \"host\" is no object of at most %zu texts", most_facts);
  json_t* questions = json_object_get(root, "questions");
  if (!json_is_array(questions)) return "it has no list \"questions\"";
  if (json_array_size(questions) > most_questions)
    return printed("it has more than %zu questions, which no report has", most_questions);
  for (std::size_t i = 0; i < json_array_size(questions); i++) {
    Entry e;
    std::string why = read_entry(json_array_get(questions, i), i + 1, e);
    if (!why.empty()) return why;
    r.entries.push_back(std::move(e));
  }
  return "";
}

}  // namespace

Entry entry_of(std::string_view id, std::string_view title, const Found& found) {
  Entry e{std::string(id), std::string(title), found.verdict,
          found.why,       found.facts,        found.measured};
  if (found.ending == Ending::not_run) e.verdict = "not run";
  if (found.ending == Ending::hung) e.verdict = "hung";
  if (found.ending == Ending::died) e.verdict = "died";
  e.measured.push_back({"seconds", printed("%.3f", found.seconds)});
  return e;
}

void anonymise(Report& report, const Secrets& secrets) {
  const auto clean = [&](std::vector<Pair>& pairs) {
    for (Pair& p : pairs) p.value = secrets.without(p.value);
  };
  clean(report.device);
  clean(report.host);
  for (Entry& e : report.entries) {
    e.why = secrets.without(e.why);
    clean(e.facts);
    clean(e.measured);
  }
}

std::string json_of(const Report& report) {
  const Json root(json_object());
  json_object_set_new(root.get(), "report", json_string(kind));
  json_object_set_new(root.get(), "schema", json_integer(schema_version));
  json_t* measured = json_array();
  for (const char* name : {"host", "questions[].measured"})
    json_array_append_new(measured, json_string(name));
  json_object_set_new(root.get(), "measured", measured);
  json_object_set_new(root.get(), "program", string_of(report.program));
  json_object_set_new(root.get(), "anonymised", json_boolean(report.anonymised));
  json_object_set_new(root.get(), "device", object_of(report.device));
  json_object_set_new(root.get(), "host", object_of(report.host));
  json_t* questions = json_array();
  for (const Entry& e : report.entries) json_array_append_new(questions, entry_object(e));
  json_object_set_new(root.get(), "questions", questions);
  char* text = json_dumps(root.get(), JSON_ENSURE_ASCII | JSON_PRESERVE_ORDER | JSON_INDENT(1));
  std::string s = text == nullptr ? "" : text;
  std::free(text);
  return s + "\n";
}

std::variant<Report, std::string> parse_report(std::string_view json) {
  json_error_t error;
  const Json root(json_loadb(json.data(), json.size(), JSON_REJECT_DUPLICATES, &error));
  if (root == nullptr)
    return printed("line %d, column %d is no JSON: %.100s", error.line, error.column, error.text);
  Report r;
  std::string why = read_all(root.get(), r);
  if (!why.empty()) return why;
  return r;
}

std::variant<Report, std::string> read_report(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return printed("it cannot be opened: %s", std::strerror(errno));
  struct stat st {};
  std::string text, why;
  if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    why = "it is no regular file, as a report is";
  } else if (static_cast<uint64_t>(st.st_size) > most_bytes) {
    why = printed("it has more than %zu MiB, which no report has", most_bytes >> 20);
  } else {
    text.resize(static_cast<std::size_t>(st.st_size));
    const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
    text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  }
  ::close(fd);
  if (!why.empty()) return why;
  return parse_report(text);
}

}  // namespace kilim::exam
