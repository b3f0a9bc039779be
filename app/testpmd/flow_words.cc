// SPDX-License-Identifier: BSD-3-Clause
#include "flow_words.hh"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string_view>

#include "flow_fields.hh"
#include "spread.hh"
#include "words.hh"

namespace kilim::testpmd {
namespace {

using Choices = std::vector<std::string>;

// One after another; GCC 12 warns of long rows of + on strings without cause.
std::string joined(std::initializer_list<std::string_view> parts) {
  std::string s;
  for (const std::string_view p : parts) s.append(p);
  return s;
}

std::string upper(const std::string& word) {
  std::string s = word;
  for (char& c : s) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return s;
}

// Reads words from the front. Once something is wrong, or words are at their end, nothing more is
// read: failed() is true then.
class Reader {
 public:
  Reader(std::span<const std::string> words, FlowWords& out) : words_(words), out_(out) {}

  bool failed() const { return !out_.why.empty() || ended_; }
  // The next word, one of `choices`, or of anything where there are none.
  std::string word(const Choices& choices) {
    if (failed()) return {};
    if (words_.empty()) return end(choices);
    std::string w = words_.front();
    if (!choices.empty() && std::find(choices.begin(), choices.end(), w) == choices.end())
      return wrong(w, choices);
    words_ = words_.subspan(1);
    return w;
  }
  // A number up to `most`.
  uint32_t number(const char* what, uint32_t most) {
    const std::string w = word({});
    uint32_t n = 0;
    if (!failed() && (!read_number(w, n) || n > most))
      fail(joined(
          {what, " '", std::string_view(w).substr(0, 32), "' is not 0 to ", std::to_string(most)}));
    return n;
  }
  void fail(std::string why) {
    if (!failed()) out_.why = std::move(why);
  }
  bool empty() const { return words_.empty(); }

 private:
  std::string end(const Choices& choices) {
    ended_ = true;
    out_.next = choices;
    return {};
  }
  std::string wrong(const std::string& w, const Choices& choices) {
    out_.why = joined({"'", std::string_view(w).substr(0, 32), "' is none of"});
    for (const std::string& c : choices) out_.why.append(" ").append(c);
    return {};
  }

  std::span<const std::string> words_;
  FlowWords& out_;
  bool ended_ = false;
};

Choices item_words() {
  Choices c{"end", "void", "icmp", "icmp6", "gre"};
  for (const FlowField& f : flow_fields())
    if (std::find(c.begin(), c.end(), f.item) == c.end()) c.emplace_back(f.item);
  return c;
}

Choices field_words(const std::string& item) {
  Choices c{"/"};
  for (const FlowField& f : flow_fields())
    if (item == f.item) c.emplace_back(f.name);
  return c;
}

const FlowField* find_field(const std::string& item, const std::string& name) {
  for (const FlowField& f : flow_fields())
    if (item == f.item && name == f.name) return &f;
  return nullptr;
}

void read_field(Reader& r, const FlowField& field, FlowWords& out) {
  const std::string how = r.word({"is", "spec", "mask", "prefix"});
  if (how == "prefix") {
    const uint32_t n = r.number("a prefix", field.bits);
    if (!r.failed()) field.set(out.rule.match, prefix_mask(field, n), true);
    return;
  }
  const std::string text = r.word({});
  FieldValue v;
  if (r.failed()) return;
  if (!read_value(text, field, v))
    return r.fail(joined({"'", std::string_view(text).substr(0, 64), "' is no value of ",
                          field.item, " ", field.name}));
  field.set(out.rule.match, v, how == "mask");
  if (how == "is") field.set(out.rule.match, prefix_mask(field, field.bits), true);
}

// From behind `pattern` to behind its `end`.
void read_pattern(Reader& r, FlowWords& out) {
  while (!r.failed()) {
    const std::string item = r.word(item_words());
    if (item == "end" || r.failed()) return;
    if (item != "void") {
      if (!add_item(out.rule.match, item))
        return r.fail(joined({"item ", item, " has no place here"}));
      out.text += joined({out.text.empty() ? "" : " ", upper(item)});
    }
    for (std::string w; !r.failed() && (w = r.word(field_words(item))) != "/";)
      if (const FlowField* f = find_field(item, w); f != nullptr) read_field(r, *f, out);
  }
}

struct TypeWord {
  const char* name;
  uint32_t types;
};
constexpr TypeWord type_words[] = {
    {"ip", flow::HashTypes::ip},         {"udp", flow::HashTypes::udp},
    {"tcp", flow::HashTypes::tcp},       {"ipv4", flow::HashTypes::ipv4},
    {"ipv4-udp", flow::HashTypes::udp4}, {"ipv4-tcp", flow::HashTypes::tcp4},
    {"ipv6", flow::HashTypes::ipv6},     {"ipv6-udp", flow::HashTypes::udp6},
    {"ipv6-tcp", flow::HashTypes::tcp6}};

void read_types(Reader& r, flow::Rss& rss) {
  Choices names{"end"};
  for (const TypeWord& t : type_words) names.emplace_back(t.name);
  rss.types = 0;
  while (!r.failed()) {
    const std::string w = r.word(names);
    if (w == "end") return;
    for (const TypeWord& t : type_words)
      if (w == t.name) rss.types |= t.types;
  }
}

void read_queues(Reader& r, flow::Rss& rss) {
  rss.table.clear();
  while (!r.failed()) {
    const std::string w = r.word({});
    uint32_t n = 0;
    if (r.failed() || w == "end") return;
    if (!read_number(w, n) || n > UINT16_MAX || rss.table.size() == flow::longest_table)
      return r.fail(joined({"'", std::string_view(w).substr(0, 32), "' is no queue"}));
    rss.table.push_back(static_cast<uint16_t>(n));
  }
}

// Queues in turn, as many as a table of a power of two takes.
void fill_table(flow::Rss& rss) {
  const std::vector<uint16_t> queues = rss.table;
  std::size_t size = 1;
  while (size < queues.size()) size *= 2;
  if (size != queues.size()) size = std::max<std::size_t>(size, flow::default_table);
  rss.table.resize(size);
  for (std::size_t i = 0; i < size && !queues.empty(); i++)
    rss.table[i] = queues[i % queues.size()];
}

// rte_flow_action_rss::level: 0 is the device's own, the outermost here as in DPDK's mlx5 driver.
void read_level(Reader& r, flow::Rss& rss) {
  constexpr uint32_t innermost = 2;
  rss.inner = r.number("a level", innermost) == innermost;
}

void read_key(Reader& r, flow::Rss& rss) {
  const std::string text = r.word({});
  if (r.failed()) return;
  if (std::string why = parse_rss_key(text, rss.key); !why.empty()) r.fail(std::move(why));
}

void read_key_length(Reader& r) {
  const uint32_t n = r.number("a key's length", UINT16_MAX);
  if (!r.failed() && n != flow::hash_key_bytes) r.fail("a key has 40 bytes");
}

void read_rss(Reader& r, flow::Action& action) {
  action.fate = flow::Action::Fate::rss;
  while (!r.failed()) {
    const std::string w = r.word({"/", "func", "level", "types", "key", "key_len", "queues"});
    if (w == "/") break;
    if (w == "level") read_level(r, action.rss);
    if (w == "types") read_types(r, action.rss);
    if (w == "key") read_key(r, action.rss);
    if (w == "key_len") read_key_length(r);
    if (w == "queues") read_queues(r, action.rss);
    if (w == "func") r.word({"default", "toeplitz"});
  }
  if (!action.rss.table.empty()) fill_table(action.rss);
}

// Number of fates that were named: one has to be.
int read_action(Reader& r, const std::string& name, flow::Action& action) {
  if (name == "rss") return read_rss(r, action), 1;
  if (name == "queue") {
    r.word({"index"});
    action.queue = static_cast<uint16_t>(r.number("a queue", UINT16_MAX));
  }
  if (name == "mark") {
    r.word({"id"});
    action.mark = r.number("a mark", 0xfffffe) + 1;  // 0 is what packets without a mark have
  }
  if (name == "drop") action.fate = flow::Action::Fate::drop;
  if (name == "count") action.count = true;
  r.word({"/"});
  return name == "queue" || name == "drop" ? 1 : 0;
}

void read_actions(Reader& r, FlowWords& out) {
  int fates = 0;
  out.text += " =>";
  while (!r.failed()) {
    const std::string name = r.word({"queue", "rss", "drop", "mark", "count", "void", "end"});
    if (r.failed()) return;
    if (name == "end") break;
    if (name != "void") out.text.append(" ").append(upper(name));
    fates += read_action(r, name, out.rule.action);
  }
  if (fates != 1) r.fail("one action of queue, rss and drop says where packets go");
}

}  // namespace

FlowWords parse_flow(std::span<const std::string> words) {
  FlowWords out;
  Reader r(words, out);
  for (bool pattern = false; !pattern && !r.failed();) {
    const std::string w = r.word({"group", "priority", "ingress", "pattern"});
    if (w == "group") out.group = r.number("a group", UINT32_MAX - 1);
    if (w == "priority") out.rule.priority = static_cast<uint8_t>(r.number("a priority", 255));
    pattern = w == "pattern";
  }
  read_pattern(r, out);
  r.word({"actions"});
  if (!r.failed()) read_actions(r, out);
  if (!r.failed() && !r.empty()) r.fail("something stands behind the last end");
  out.complete = !r.failed();
  return out;
}

}  // namespace kilim::testpmd
