// SPDX-License-Identifier: BSD-3-Clause
// kilim-testpmd's words without a device: commands and flow rules of any text, completion, option
// values, the screen's size, the latency classes.
#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "equal.hh"
#include "testpmd/commands.hh"
#include "testpmd/flow_words.hh"
#include "testpmd/latency.hh"
#include "testpmd/options.hh"
#include "testpmd/screen.hh"
#include "testpmd/spread.hh"
#include "testpmd/words.hh"
#include "ut.hh"

namespace kilim::testpmd {
namespace prompt_ut {
namespace {

Match match(const char* text) {
  return match_line(command_table(), split_words(text));
}

void commands_match() {
  for (const char* good :
       {"show port info all", "show port stats 0", "start", "start tx_first", "start tx_first 0x10",
        "set fwd 5tswap", "stop", "flow create 0 whatever"})
    CU_ASSERT_PTR_NOT_NULL(match(good).row);
  const struct {
    const char* line;
    const char* part;
  } bad[] = {{"shw", "is 'show' meant?"},        {"show port stat 0", "is 'stats' meant?"},
             {"start tx_first many", "'many'"},  {"stop now", "is too much"},
             {"show port", "'port' is not all"}, {"set burst 99999999999", "<n>"}};
  for (const auto& b : bad) {
    const Match m = match(b.line);
    CU_ASSERT_PTR_NULL(m.row);
    CU_ASSERT(m.why.find(b.part) != std::string::npos);
  }
  const Match lacking = match("set vxlan ip-version ipv4");
  CU_ASSERT_PTR_NOT_NULL_FATAL(lacking.row);
  CU_ASSERT_PTR_NULL(lacking.row->help);
  EQUAL(lacking.rest, 2u);
}

bool has(const std::vector<std::string>& all, const char* word) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

void words_are_completed() {
  auto next = [](const char* text) { return next_words(command_table(), split_words(text)); };
  CU_ASSERT(has(next(""), "show"));
  CU_ASSERT(has(next(""), "flow"));
  CU_ASSERT(!has(next(""), "stats"));
  CU_ASSERT(has(next("show port"), "stats"));
  CU_ASSERT(!has(next("show port"), "<port>"));
  CU_ASSERT(has(next("show port stats"), "all"));
  CU_ASSERT(has(next("set fwd"), "icmpecho"));
  CU_ASSERT(has(next("flow create 0"), "pattern"));
  CU_ASSERT(has(next("flow create 0 pattern"), "ipv4"));
  CU_ASSERT(has(next("flow create 0 pattern ipv4 src"), "prefix"));
  CU_ASSERT(has(next("flow create 0 pattern end actions queue"), "index"));
  CU_ASSERT(next("stop").empty());
}

// No two rows take the same line, or one of them could never run.
void rows_are_apart() {
  for (const Section& section : command_table())
    for (const CommandRow& row : section.rows) {
      std::string line = row.pattern;
      for (const auto& [from, to] : {std::pair("<ports>", "0"),
                                     {"<port>", "0"},
                                     {"<n>", "1"},
                                     {"<text>", "x"},
                                     {"<rest>", ""}})
        for (std::size_t at; (at = line.find(from)) != std::string::npos;)
          line.replace(at, std::string(from).size(), to);
      Words words = split_words(line);
      for (std::string& w : words) w = w.substr(0, w.find('|'));
      const Match m = match_line(command_table(), words);
      if (m.row != &row)
        std::printf("%s is hidden by %s\n", row.pattern,
                    m.row == nullptr ? "nothing" : m.row->pattern);
      CU_ASSERT_PTR_EQUAL(m.row, &row);
    }
}

void rules_are_read() {
  const FlowWords f =
      parse_flow(split_words("group 0 priority 2 ingress pattern eth dst is 02:00:00:00:00:01 / "
                             "vlan vid is 7 / ipv4 src spec "
                             "10.0.0.0 src prefix 8 proto is 17 / udp dst is 53 / end actions mark "
                             "id 5 / count / queue index 3 / end"));
  CU_ASSERT_FATAL(f.complete);
  EQUAL(f.rule.priority, 2);
  EQUAL(f.text, "ETH VLAN IPV4 UDP => MARK COUNT QUEUE");
  CU_ASSERT(f.rule.match.eth->dst == flow::exactly(flow::MacAddress{2, 0, 0, 0, 0, 1}));
  EQUAL(f.rule.match.vlan->tci.value, 7);
  EQUAL(f.rule.match.vlan->tci.mask, 0xfff);
  CU_ASSERT(f.rule.match.ipv4->src.mask == (flow::Ipv4Address{255, 0, 0, 0}));
  CU_ASSERT(f.rule.match.ipv4->protocol == flow::exactly(uint8_t{17}));
  CU_ASSERT(f.rule.match.udp->dst == flow::exactly(uint16_t{53}));
  EQUAL(*f.rule.action.mark, 6u);  // one more: 0 is none
  EQUAL(f.rule.action.queue, 3);
  CU_ASSERT(f.rule.action.count);
  const FlowWords spread = parse_flow(
      split_words("pattern ipv6 / end actions rss types ipv6 ipv6-udp end queues 0 2 1 end / end"));
  CU_ASSERT_FATAL(spread.complete);
  EQUAL(spread.rule.action.rss.table.size(), flow::default_table);
  EQUAL(spread.rule.action.rss.table[4], 2);
  EQUAL(spread.rule.action.rss.types, flow::HashTypes::ipv6 | flow::HashTypes::udp6);
  CU_ASSERT(!spread.rule.action.rss.inner);
}

void icmp_is_a_protocol() {
  const auto rule = [](const char* pattern) {
    return parse_flow(split_words(std::string("pattern ") + pattern + " / end actions drop / end"));
  };
  EQUAL(rule("eth / ipv4 / icmp").rule.match.ipv4->protocol.value, 1);
  EQUAL(rule("ipv6 / icmp6").rule.match.ipv6->protocol.value, 58);
  EQUAL(rule("ipv6 / icmp6").rule.match.ipv6->protocol.mask, 0xff);
  CU_ASSERT(rule("ipv4 proto is 1 / icmp").complete);
  for (const char* bad : {"eth / icmp", "ipv4 / icmp6", "ipv6 / icmp", "ipv4 proto is 17 / icmp",
                          "ipv4 / udp / icmp", "ipv4 / icmp cksum is 8"}) {
    CU_ASSERT(!rule(bad).complete);
    CU_ASSERT(!rule(bad).why.empty());
  }
  CU_ASSERT(!rule("ipv4 / icmp").rule.match.icmp);
  const FlowWords echo = rule("ipv4 ttl is 3 / icmp type is 8 code spec 4 code mask 6 ident is 5");
  CU_ASSERT_FATAL(echo.complete);
  CU_ASSERT_FATAL(echo.rule.match.icmp.has_value());
  CU_ASSERT(echo.rule.match.ipv4->ttl == flow::exactly(uint8_t{3}));
  CU_ASSERT(*echo.rule.match.icmp == (flow::Icmp{.type = flow::exactly(uint8_t{8}),
                                                 .code = {4, 6},
                                                 .ident = flow::exactly(uint16_t{5})}));
  const FlowWords syn = rule("ipv6 hop is 64 / tcp flags spec 2 flags mask 18");
  CU_ASSERT_FATAL(syn.complete);
  CU_ASSERT(syn.rule.match.ipv6->hop_limit == flow::exactly(uint8_t{64}));
  CU_ASSERT(syn.rule.match.tcp->flags == (flow::Masked<uint16_t>{2, 18}));
}

void a_rules_spread_has_level_and_key() {
  const std::string front = "pattern eth / ipv4 / udp / vxlan / end actions rss ";
  const std::string key = std::string(78, '0') + "a7";
  const FlowWords f = parse_flow(split_words(front + "func toeplitz level 2 key " + key +
                                             " key_len 40 types udp end queues 0 1 end / end"));
  CU_ASSERT_FATAL(f.complete);
  CU_ASSERT(f.rule.action.rss.inner);
  EQUAL(f.rule.action.rss.key[39], 0xa7);
  EQUAL(f.rule.action.rss.table.size(), 2u);
  for (const char* outer : {"level 0 / end", "level 1 / end", "/ end"}) {
    const FlowWords o = parse_flow(split_words(front + outer));
    CU_ASSERT(o.complete);
    CU_ASSERT(!o.rule.action.rss.inner);
    EQUAL(o.rule.action.rss.key, flow::default_key);
  }
  for (const auto& [bad, part] : {std::pair("level 3 / end", "a level '3' is not 0 to 2"),
                                  {"key 6d5a / end", "80 hexa-decimal"},
                                  {"key_len 39 / end", "a key has 40 bytes"}}) {
    const FlowWords b = parse_flow(split_words(front + bad));
    CU_ASSERT(!b.complete);
    CU_ASSERT(b.why.find(part) != std::string::npos);
  }
}

void bad_rules_are_named() {
  const struct {
    const char* rule;
    const char* part;
  } bad[] = {
      {"pattern eth / eth / end actions drop / end", "item eth has no place here"},
      {"pattern ipv4 src is 1.2.3 / end actions drop / end", "'1.2.3' is no value of ipv4 src"},
      {"pattern ipv4 proto is 256 / end actions drop / end", "'256'"},
      {"pattern ipv4 src prefix 33 / end actions drop / end", "0 to 32"},
      {"pattern end actions count / end", "one action of queue, rss and drop"},
      {"pattern end actions drop / queue index 0 / end", "one action of"},
      {"pattern end actions drop / end more", "behind the last end"},
      {"egress pattern end actions drop / end", "'egress'"},
      {"priority 256 pattern end actions drop / end", "0 to 255"}};
  for (const auto& b : bad) {
    const FlowWords f = parse_flow(split_words(b.rule));
    CU_ASSERT(!f.complete);
    CU_ASSERT(f.why.find(b.part) != std::string::npos);
    if (f.why.find(b.part) == std::string::npos) std::printf("%s: %s\n", b.rule, f.why.c_str());
  }
}

// Words of the grammar in any order, and other bytes: each line is a rule, or is answered.
void any_words_are_answered() {
  std::mt19937 rng(16);
  const Words grammar = split_words(
      "group priority ingress pattern eth vlan ipv4 ipv6 tcp udp icmp icmp6 vxlan gre gre_key void "
      "/ end actions queue index rss level key key_len types queues drop mark id count src dst "
      "type "
      "vid is spec mask prefix 0 1 5 0xffff 99999999999 "
      "1.2.3.4 ::1 02:00:00:00:00:01 ip udp show port set fwd flow create start tx_first all on "
      "off");
  for (int i = 0; i < 20000; i++) {
    Words words;
    for (auto n = rng() % 24; n > 0; n--) {
      if (rng() % 16 != 0) {
        words.push_back(grammar[rng() % grammar.size()]);
        continue;
      }
      std::string w(1 + rng() % 200, 'x');
      for (char& c : w) c = static_cast<char>(rng());
      words.push_back(w);
    }
    const FlowWords f = parse_flow(words);
    CU_ASSERT_FATAL(!f.complete || f.why.empty());
    CU_ASSERT_FATAL(f.why.size() < 600);
    CU_ASSERT_FATAL(f.next.size() < 40);
    const Match m = match_line(command_table(), words);
    CU_ASSERT_FATAL((m.row == nullptr) != m.why.empty());
    CU_ASSERT_FATAL(m.why.size() < 2000);
    (void)next_words(command_table(), words);
  }
}

void option_values() {
  Options o;
  EQUAL(parse_segments(o, "64"), "");
  EQUAL(o.tx_length, 64u);
  EQUAL(o.tx_segments.size(), 0u);
  EQUAL(parse_segments(o, "64,128,32"), "");
  EQUAL(o.tx_length, 224u);
  EQUAL(o.tx_segments.size(), 3u);
  for (const char* bad : {"", "59", "41,100", "64,", ",64", "64,x", "9217", "60,1,1,1,1,1,1,1,1"})
    CU_ASSERT(!parse_segments(o, bad).empty());
  EQUAL(o.tx_length, 224u);
  CU_ASSERT(lacking_option("--hairpinq=2").find("--hairpinq of dpdk-testpmd") != std::string::npos);
  EQUAL(lacking_option("--rxq=2"), "");
  Mac mac;
  CU_ASSERT(parse_mac("02:00:00:00:00:Ff", mac));
  for (const char* bad : {"02:00:00:00:00:0g", ""}) CU_ASSERT(!parse_mac(bad, mac));
}

void lists_of_ports() {
  Options o;
  EQUAL(parse_portlist(o, "2,0,4-6"), "");
  CU_ASSERT(o.portlist == (std::vector<uint32_t>{2, 0, 4, 5, 6}));
  for (const char* bad : {"", "1,", ",1", "1,1", "0-3,2", "3-2", "x", "1-", "-1", "0-99999"})
    CU_ASSERT(!parse_portlist(o, bad).empty());
  EQUAL(o.portlist.size(), 5u);
}

// Port 1 of three goes, and one comes as the last; of a mask and of a list.
void ports_get_other_numbers() {
  const uint32_t before[] = {0, 2, new_port};
  Options o;
  o.modes.mss[1] = 100, o.modes.mss[2] = 200;
  o.modes.strip[1] = 1, o.modes.tag[2] = 1u << 16 | 7;
  o.modes.csum_by_device[2] = 3;
  o.peers[1] = {2, 0, 0, 0, 0, 1}, o.peers[2] = {2, 0, 0, 0, 0, 2};
  o.stopped = {false, true, false};
  o.portmask = 0b011, o.nb_ports = 1;
  Options list = o;
  list.portlist = {2, 1, 0};
  renumber(o, before);
  for (uint32_t i = 0; i < 3; i++) EQUAL(o.modes.mss[i], i == 1 ? 200 : 0);
  EQUAL(o.modes.strip[1], 0);
  EQUAL(o.modes.tag[1], 1u << 16 | 7);
  EQUAL(o.modes.tag[2], 0);
  EQUAL(o.modes.csum_by_device[1], 3);
  CU_ASSERT(o.peers == (std::map<uint32_t, Mac>{{1, {2, 0, 0, 0, 0, 2}}}));
  CU_ASSERT(o.stopped == (std::vector<bool>{false, false, true}));
  EQUAL(o.portmask, 0b101u);
  EQUAL(o.nb_ports, 1u);
  renumber(list, before);
  CU_ASSERT(list.portlist == (std::vector<uint32_t>{1, 0, 2}));
  // The only one of the mask goes: all forward, and as many as there are.
  Options last;
  last.portmask = 2;
  last.nb_ports = 2;
  const uint32_t one[] = {0};
  renumber(last, one);
  EQUAL(last.portmask, ~uint64_t{0});
  EQUAL(last.nb_ports, 0u);
}

void frames_are_spread_by_words() {
  Options o;
  using flow::HashTypes;
  EQUAL(spread_of(rss_asked(o), {}, 4).types, HashTypes::ip);
  EQUAL(spread_of(*rss_of("all"), {}, 4).types, HashTypes::all);
  EQUAL(spread_of(*rss_of("ipv6-udp"), {}, 4).types, HashTypes::udp6);
  CU_ASSERT(!rss_of("ethernet").has_value() && *rss_of("none") == 0);
  EQUAL(native_rss(*rss_of("sctp")), 0u);
  o.disable_rss = true;
  CU_ASSERT(spread_of(rss_asked(o), {}, 4).table == std::vector<uint16_t>{0});
  // A key stays; a table stays where its queues are there.
  flow::Rss before{.key = flow::symmetric_key, .table = {0, 3, 0, 3}};
  CU_ASSERT(spread_of(4, before, 4).key == flow::symmetric_key);
  EQUAL(spread_of(4, before, 4).table.size(), 4u);
  CU_ASSERT(spread_of(4, before, 3).table.empty());
  before.table = {0};
  CU_ASSERT(spread_of(4, before, 4).table.empty());
  EQUAL(rss_text(native_rss(*rss_of("udp"))), "  udp  ipv4-udp  ipv6-udp  ipv6-udp-ex\n");
  EQUAL(rss_text(*rss_of("ipv4-udp")), "  ipv4-udp\n");
  EQUAL(rss_offer_text(*rss_of("ipv4") | *rss_of("l4-dst-only") | uint64_t{3} << 50),
        "  ipv4  user-defined-50  user-defined-51  l4-dst-only\n");
  flow::HashKey key{};
  const std::string digits(78, '0');
  EQUAL(parse_rss_key(digits + "aF", key), "");
  EQUAL(key[39], 0xaf);
  CU_ASSERT(parse_rss_key("", key).find("80 hexa-decimal") != std::string::npos);
  CU_ASSERT(parse_rss_key(digits + "0g", key).find("character g at position 79") !=
            std::string::npos);
}

// Kinds and levels are apart; `port config all rss ip` takes the level back, as testpmd's.
void levels_choose_the_headers() {
  const auto asked = [](std::vector<const char*> words) {
    words.insert(words.begin(), "kilim-testpmd");
    auto parsed = parse_options(static_cast<int>(words.size()), const_cast<char**>(words.data()));
    CU_ASSERT_FATAL(std::holds_alternative<Options>(parsed));
    return rss_asked(std::get<Options>(parsed));
  };
  const uint64_t inner = *rss_level_of("level-inner", 0), outer = *rss_level_of("level-outer", 0);
  EQUAL(asked({"--rss-level-inner"}), *rss_of("ip") | inner);
  EQUAL(asked({"--rss-level-inner", "--rss-udp"}), *rss_of("udp") | inner);
  EQUAL(asked({"--rss-udp", "--rss-level-outer"}), *rss_of("udp") | outer);
  EQUAL(asked({"--rss-level-inner", "--disable-rss"}), 0u);
  EQUAL(*rss_level_of("level-outer", *rss_of("tcp") | inner), *rss_of("tcp") | outer);
  EQUAL(*rss_level_of("level-default", *rss_of("tcp") | inner), *rss_of("tcp"));
  CU_ASSERT(!rss_level_of("level", 0).has_value());
  CU_ASSERT(spread_of(*rss_of("udp") | inner, {}, 4).inner);
  CU_ASSERT(!spread_of(*rss_of("udp") | outer, {.inner = true}, 4).inner);
  CU_ASSERT(!spread_of(*rss_of("udp") | outer | inner, {}, 4).inner);
  CU_ASSERT(!spread_of(inner, {}, 4).inner);  // nothing is spread
}

// Whatever the numbers, a terminal of 80x24 shows them.
void screen_fits() {
  std::mt19937_64 rng(80);
  for (const std::size_t ports : {1u, 4u, 40u}) {
    Report r;
    r.mode = "5tswap";
    r.seconds = 1e6;
    r.forwarded = rng();
    r.uses_keys = true;
    for (std::size_t i = 0; i < ports; i++) {
      PortReport& p = r.ports.emplace_back();
      p.name = std::string(200, 'n');
      p.counts.rx_missed = rng();
      p.counts.keys_bound = rng();
      p.tx_dropped = rng();
    }
    const Rates none;
    const auto lines = screen_of(r, none, {});
    CU_ASSERT(lines.size() <= screen_lines && !lines.empty());
    for (const std::string& l : lines) CU_ASSERT(l.size() <= screen_columns);
  }
  for (const double n : {0.0, 1.0, 999.0, 999.6, 12345.0, 5e6, 9.996e8, 1e12, 1e19, 1e300})
    CU_ASSERT(short_number(n).size() <= 7);
  EQUAL(short_number(12345678), "12.3M");
  EQUAL(short_number(999.6), "1.00k");
}

void latency_classes() {
  Latency l;
  for (const uint64_t ns : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, ~uint64_t{0}}) l.add(ns);
  for (int i = 0; i < 96; i++) l.add(500);
  Latency::Counts sum{};
  l.add_to(sum);
  EQUAL(latency_at(sum, 0.5), 512u);
  EQUAL(latency_at(sum, 1), uint64_t{1} << 39);
  EQUAL(latency_at(Latency::Counts{}, 0.5), 0u);
  CU_ASSERT(latency_text(sum).find("half below 512 ns, 99% below 1024 ns") != std::string::npos);
}

const test::Case cases[] = {
    {"commands match, and what does not is named", commands_match},
    {"words are completed", words_are_completed},
    {"no command hides another", rows_are_apart},
    {"flow rules are read", rules_are_read},
    {"ICMP is a protocol's number", icmp_is_a_protocol},
    {"a rule's spread has a level and a key", a_rules_spread_has_level_and_key},
    {"wrong flow rules are named", bad_rules_are_named},
    {"any words are answered", any_words_are_answered},
    {"values of options", option_values},
    {"lists of ports are read", lists_of_ports},
    {"ports get other numbers", ports_get_other_numbers},
    {"frames are spread by words", frames_are_spread_by_words},
    {"levels choose the headers inside tunnels or outside", levels_choose_the_headers},
    {"the screen fits", screen_fits},
    {"classes of latency", latency_classes},
};

}  // namespace
}  // namespace prompt_ut
}  // namespace kilim::testpmd

KILIM_TEST_SUITE(prompt, kilim::testpmd::prompt_ut::cases)
