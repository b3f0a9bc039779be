// SPDX-License-Identifier: BSD-3-Clause
// Part of cm_ut. What Linux answered to messages written by hand (kernel_answers.txt, recorded by
// usertools/oracle.sh --cm FILE), and what the agent answers to the same. Its observer does what
// test/oracle/cm_listener.cc does above the kernel, and what the kernel's rdma_cm does by itself:
// it puts off each request (cma.c, cma_ib_req_handler(), CMA_CM_MRA_SETTING).
#include <fstream>
#include <set>
#include <sstream>

#include "cm_cases.hh"

namespace kilim::vhca::test::kernel_answers_ut {
namespace {

using kilim::test::Case;

constexpr Gid asker = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x4b, 0x4c, 0xff, 0xfe, 0xee, 0xee, 0x01};
constexpr Gid asked = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x4b, 0x4c, 0xff, 0xfe, 0xee, 0xee, 0x02};
constexpr uint16_t open_port = 7471, rejecting_port = 7472, accepting_port = 7473;
constexpr uint32_t own_qpn = 0x222;

uint32_t word(std::span<const std::byte> m, std::size_t at) {
  be32 w;
  std::memcpy(&w, &m[at], sizeof(w));
  return w.host();
}

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  char two[3];
  for (const std::byte b : bytes) {
    std::snprintf(two, sizeof(two), "%02x", static_cast<unsigned>(b));
    out += two;
  }
  return out;
}

class Asked : public vhca::cm::Port, public vhca::cm::Observer {
 public:
  Asked() : agent_(config(), *this) {
    for (uint16_t port = open_port; port <= accepting_port; port++)
      must(agent_.listen(service_id_of(PortSpace::tcp, port), *this, port));
  }
  bool send(const Route& r, std::span<const std::byte> m) noexcept override {
    EQUAL(r.sgid, asked);
    EQUAL(r.dgid, asker);
    answers_.push_back(describe(m));
    const std::byte kind = m[17];
    if (kind == std::byte{0x11} || kind == std::byte{0x13}) id_ = word(m, 24);
    return true;
  }
  [[nodiscard]] bool owns(const Gid& gid) const noexcept override { return gid == asked; }
  Answer on_event(const Event& e) noexcept override {
    if (e.kind == EventKind::disconnect) must(agent_.answer_disconnect(e.id, {}, now_));
    if (e.kind != EventKind::request) return Answer::taken;
    must(agent_.answer_later(e.id, 24, now_));
    AcceptRequest accept = acceptance();
    accept.qpn = own_qpn;
    accept.private_data = std::as_bytes(std::span("welcome"));
    if (e.cookie == accepting_port) must(agent_.accept(e.id, accept, now_));
    if (e.cookie != rejecting_port) return Answer::taken;
    must(agent_.reject(e.id, Reason::consumer_defined, {}, std::as_bytes(std::span("no, thanks")),
                       now_));
    return Answer::taken;
  }
  // The answers of the second after it.
  std::vector<std::string> ask(Mad m, bool names_id, bool names_qpn) {
    const be32 id{id_}, qpn{own_qpn << 8};
    if (names_id) std::memcpy(&m[28], &id, sizeof(id));
    if (names_qpn) std::memcpy(&m[32], &qpn, 3);
    tids_.insert(message_of<MadHeader>(m).tid.host());
    answers_.clear();
    Route back;
    back.sgid = asked;
    back.dgid = asker;
    agent_.handle(back, m, now_);
    for (int i = 0; i < 100; i++) agent_.tick(now_ += second / 100);
    return answers_;
  }

 private:
  static Config config() {
    Config c;
    c.ca_guid = 2;
    c.gid = asked;
    c.most_ids = 64;
    return c;
  }
  // As test/oracle/cm_messages.py does.
  [[nodiscard]] std::string describe(std::span<const std::byte> m) const {
    static constexpr const char* names[] = {"REQ",  "MRA",      "REJ",      "REP", "RTU", "DREQ",
                                            "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};
    const auto h = message_of<MadHeader>(m);
    const uint32_t kind = h.attribute.host() - 0x10u;
    const auto byte = [&](std::size_t at) { return static_cast<unsigned>(m[at]); };
    std::ostringstream out;
    out << names[kind] << " tid=";
    if (tids_.count(h.tid.host()) != 0)
      out << h.tid.host();
    else
      out << "own";
    if (kind == 8) {
      out << " request=" << word(m, 24) << " status=" << byte(28);
      return out.str();
    }
    out << " local=" << (word(m, 24) == 0 ? "0" : "own") << " remote=" << word(m, 28);
    if (kind == 2)
      out << " about=" << (byte(32) >> 6) << " reason=" << (byte(34) << 8 | byte(35))
          << " info=" << (byte(33) >> 1) << " data=" << hex(m.subspan(108, 11));
    if (kind == 1) out << " about=" << (byte(32) >> 6) << " time=" << (byte(33) >> 3);
    if (kind == 3)
      out << " resources=" << byte(48) << " depth=" << byte(49)
          << " failover=" << (byte(50) >> 1 & 3) << " rnr=" << (byte(51) >> 5)
          << " srq=" << (byte(51) >> 4 & 1) << " data=" << hex(m.subspan(60, 8));
    if (kind == 5) out << " qpn=0x" << std::hex << (word(m, 32) >> 8);
    return out.str();
  }

  uint64_t now_ = 1000 * second;
  std::set<uint64_t> tids_;
  std::vector<std::string> answers_;
  uint32_t id_ = 0;  // of the last answer that said it
  Agent agent_;
};

Mad mad_of(const std::string& digits) {
  Mad m{};
  for (std::size_t i = 0; i + 1 < digits.size() && i / 2 < m.size(); i += 2)
    m[i / 2] = static_cast<std::byte>(std::stoul(digits.substr(i, 2), nullptr, 16));
  return m;
}

// One message and what the kernel answered.
struct Exchange {
  std::string scenario, mark;
  Mad mad;
  std::vector<std::string> answers;
};

std::vector<Exchange> read_exchanges() {
  std::ifstream file(KILIM_KERNEL_ANSWERS);
  std::vector<Exchange> all;
  std::string scenario;
  for (std::string line; std::getline(file, line);) {
    const std::string rest = line.substr(std::min(line.size(), line.find(' ') + 1));
    if (line[0] == '#') scenario = rest;
    if (line[0] == '>') all.push_back({scenario, line.substr(0, line.find(' ')), mad_of(rest), {}});
    if (line[0] == '<') all.back().answers.push_back(rest);
  }
  return all;
}

void the_agent_answers_as_the_kernel() {
  const std::vector<Exchange> all = read_exchanges();
  CU_ASSERT_FATAL(all.size() > 30);
  Asked kernel;
  for (const Exchange& x : all) {
    const bool names_id = x.mark.find('i') != std::string::npos;
    const std::vector<std::string> found =
        kernel.ask(x.mad, names_id, x.mark.find('q') != std::string::npos);
    CU_ASSERT(found == x.answers);
    if (found == x.answers) continue;
    std::printf("  %s:\n", x.scenario.c_str());
    for (const std::string& a : x.answers) std::printf("    Linux   %s\n", a.c_str());
    for (const std::string& a : found) std::printf("    adapter %s\n", a.c_str());
  }
}

constexpr Case all_cases[] = {{"the agent answers as the kernel", the_agent_answers_as_the_kernel}};

}  // namespace
}  // namespace kilim::vhca::test::kernel_answers_ut

namespace kilim::vhca::test {
std::span<const kilim::test::Case> kernel_cases() {
  return kernel_answers_ut::all_cases;
}
}  // namespace kilim::vhca::test
