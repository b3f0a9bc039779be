// SPDX-License-Identifier: BSD-3-Clause
// Commands about flow rules of Kilim's ports, with testpmd's answers (app/test-pmd/config.c).
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <rte_flow.h>

#include "commands.hh"
#include "flow_words.hh"
#include "session.hh"

namespace kilim::testpmd {
namespace {

struct Kind {
  rte_flow_error_type type;
  const char* text;
};
Kind kind_of(flow::Field f) {
  using flow::Field;
  if (f == Field::none) return {RTE_FLOW_ERROR_TYPE_UNSPECIFIED, "cause unspecified"};
  if (f == Field::priority) return {RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY, "priority field"};
  if (f >= Field::queue && f <= Field::count)
    return {RTE_FLOW_ERROR_TYPE_ACTION_CONF, "action configuration"};
  return {RTE_FLOW_ERROR_TYPE_ITEM, "specific pattern item"};
}

void complain(Session& s, const flow::RuleError& e, int code) {
  const Kind k = kind_of(e.field);
  std::fflush(stdout);
  std::fprintf(stderr, "port_flow_complain(): Caught PMD error type %d (%s): %s%s%s: %s\n",
               static_cast<int>(k.type), k.text, flow::name_of(e.field),
               e.field == flow::Field::none ? "" : ": ",
               *e.what == 0 ? "(no stated reason)" : e.what, std::strerror(code));
  s.note_refusal(std::string(k.text) + ", " + flow::name_of(e.field) + ": " + e.what + " (" +
                 std::strerror(code) + ")");
}

// The rule of a line and the port that it is for; false: it was said what is wrong.
bool read_rule(Session& s, const Line& line, FlowWords& out, port::Port*& p) {
  const auto list = s.ports_of(line.word(2));
  p = list.empty() ? nullptr : s.native_of(list[0]);
  if (p == nullptr) return false;
  out = parse_flow(line.rest());
  if (!out.complete) {
    std::string why = out.why;
    if (why.empty()) why = "the rule is not all";
    for (std::size_t i = 0; out.why.empty() && i < out.next.size(); i++)
      why += (i == 0 ? "; known here: " : " ") + out.next[i];
    std::fprintf(stderr, "Bad arguments: %s\n", why.c_str());
    return false;
  }
  if (out.group != 0) {
    const flow::RuleError none{ENOTSUP, flow::Field::none, "there is one group, 0"};
    complain(s, none, ENOTSUP);
    return false;
  }
  if (!p->started()) std::fprintf(stderr, "port %s is not started\n", line.word(2).c_str());
  return p->started();
}

flow::RuleLimits limits_of(port::Port& p) {
  const uint32_t longest = p.device().caps().spread.longest_table;
  return {
      .queues = p.sizes().rxq,
      .longest_table = longest == 0 ? flow::longest_table : std::min(longest, flow::longest_table)};
}

void validate(Session& s, const Line& line) {
  FlowWords f;
  port::Port* p;
  if (!read_rule(s, line, f, p)) return;
  const flow::RuleError e = flow::check(f.rule, limits_of(*p));
  if (e.code != 0) return complain(s, e, e.code);
  std::printf("Flow rule validated\n");
}

void create(Session& s, const Line& line) {
  FlowWords f;
  port::Port* p;
  if (!read_rule(s, line, f, p)) return;
  flow::RuleError why;
  auto id = p->add_rule(f.rule, &why);
  if (!id) return complain(s, why, id.error().code);
  PortMemory& m = s.memory(line.number(2));
  const uint32_t number = m.flows.empty() ? 0 : m.flows.rbegin()->first + 1;
  m.flows.emplace(number, FlowEntry{f.rule, f.group, f.text, *id});
  std::printf("Flow rule #%u created\n", number);
}

// Forgets the rule; false: it was said that there is none.
bool drop_rule(Session& s, port::Port& p, uint32_t port, uint32_t number) {
  auto& flows = s.memory(port).flows;
  const auto at = flows.find(number);
  if (at == flows.end()) {
    std::fprintf(stderr, "Flow rule #%u not found\n", number);
    return false;
  }
  if (const Status done = p.remove_rule(at->second.id); !done)
    return complain(s, {done.error().code, flow::Field::none, done.error().what},
                    done.error().code),
           false;
  flows.erase(at);
  return true;
}

void destroy(Session& s, const Line& line) {
  const auto list = s.ports_of(line.word(2));
  port::Port* p = list.empty() ? nullptr : s.native_of(list[0]);
  if (p == nullptr) return;
  for (std::size_t i = 4; i < line.size(); i += 2) {
    uint32_t n = 0;
    if (line.word(i - 1) != "rule" || !read_number(line.word(i), n)) {
      std::fprintf(stderr, "Bad arguments: flow destroy PORT rule N [rule N]...\n");
      return;
    }
    if (drop_rule(s, *p, list[0], n)) std::printf("Flow rule #%u destroyed\n", n);
  }
}

void flush(Session& s, const Line& line) {
  const auto list = s.ports_of(line.word(2));
  port::Port* p = list.empty() ? nullptr : s.native_of(list[0]);
  if (p == nullptr) return;
  std::vector<uint32_t> all;
  for (const auto& [number, entry] : s.memory(list[0]).flows) all.push_back(number);
  for (const uint32_t number : all) (void)drop_rule(s, *p, list[0], number);
}

void list_rules(Session& s, const Line& line) {
  const auto list = s.ports_of(line.word(2));
  if (list.empty() || s.memory(list[0]).flows.empty()) return;
  std::vector<std::pair<uint32_t, const FlowEntry*>> rows;
  for (const auto& [number, entry] : s.memory(list[0]).flows) rows.emplace_back(number, &entry);
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second->rule.priority < b.second->rule.priority;
  });
  std::printf("ID\tGroup\tPrio\tAttr\tRule\n");
  for (const auto& [number, e] : rows)
    std::printf("%u\t%u\t%u\ti--\t%s\n", number, e->group, e->rule.priority, e->text.c_str());
}

void query(Session& s, const Line& line) {
  const auto list = s.ports_of(line.word(2));
  port::Port* p = list.empty() ? nullptr : s.native_of(list[0]);
  if (p == nullptr) return;
  const auto& flows = s.memory(list[0]).flows;
  const auto at = flows.find(line.number(3));
  if (at == flows.end()) {
    std::fprintf(stderr, "Flow rule #%u not found\n", line.number(3));
    return;
  }
  const auto count = p->query_rule(at->second.id);
  if (!count)
    return complain(s, {count.error().code, flow::Field::count, count.error().what},
                    count.error().code);
  std::printf("COUNT:\n hits_set: 1\n bytes_set: 1\n hits: %" PRIu64 "\n bytes: %" PRIu64 "\n",
              count->packets, count->bytes);
}

// A driver of an ethdev may ask that the port be stopped.
void isolate(Session& s, const Line& line) {
  const bool on = line.word(3) == "1" || line.word(3) == "on";
  for (const uint32_t n : s.ports_of(line.word(2))) {
    const PortRef& p = s.port(n);
    rte_flow_error e{};
    if (p.native != nullptr) {
      if (const Status done = p.native->set_isolated(on); !done) {
        complain(s, {done.error().code, flow::Field::none, done.error().what}, done.error().code);
        continue;
      }
    } else if (const int refused = rte_flow_isolate(p.ethdev, on ? 1 : 0, &e); refused != 0) {
      complain(s, {-refused, flow::Field::none, e.message == nullptr ? "" : e.message}, -refused);
      continue;
    }
    std::printf("Ingress traffic on port %u is %s to the defined flow rules\n", n,
                on ? "now restricted" : "not restricted anymore");
  }
}

std::vector<std::string> next_of_rule(std::span<const std::string> words) {
  return parse_flow(words).next;
}

std::vector<std::string> next_of_destroy(std::span<const std::string> words) {
  if (words.size() % 2 == 0) return {"rule"};
  return {};
}

constexpr CommandRow flow_rows[] = {
    {"flow validate <port> <rest>", validate,
     "Is the rule one? [group 0] [priority N] [ingress] pattern ITEM / ... / end actions ACTION / "
     "... / end",
     next_of_rule},
    {"flow create <port> <rest>", create, "The same, and makes it.", next_of_rule},
    {"flow destroy <port> <rest>", destroy, "rule N [rule N]...: these go.", next_of_destroy},
    {"flow flush <port>", flush, "All of a port go."},
    {"flow query <port> <n> count", query, "Packets and bytes of a rule that counts."},
    {"flow isolate <port> 0|1|off|on", isolate,
     "1: the port receives what flow rules lead to it, and nothing else."},
    {"flow list <port>", list_rules, "The rules of a port."},
};

}  // namespace

const Section flow_commands{"flows", "Flow rules", flow_rows};

}  // namespace kilim::testpmd
