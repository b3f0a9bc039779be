// SPDX-License-Identifier: BSD-3-Clause
// Commands about ports: start, stop, queues, spreading, coming and going.
#include <cstdio>
#include <cstring>
#include <string>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "commands.hh"
#include "kilim/port/port.hh"
#include "session.hh"

namespace kilim::testpmd {
namespace {

void start(Session& s, const Line& line) {
  s.start_ports(s.ports_of(line.word(2)));
}
void stop(Session& s, const Line& line) {
  s.stop_ports(s.ports_of(line.word(2)));
}
void reset(Session& s, const Line& line) {
  if (s.busy("port reset")) return;
  const auto list = s.ports_of(line.word(2));
  std::printf("Resetting ports...\n");
  s.stop_ports(list);
  s.start_ports(list);
}

void detach_port(Session& s, uint32_t number) {
  const std::string name = name_of(s.port(number));
  if (s.forwarder().started(number)) {
    std::fprintf(stderr, "Port %u is not stopped: port stop %u\n", number, number);
    return;
  }
  if (s.change_ports([&name] { return rte_eal_hotplug_remove("vdev", name.c_str()); }))
    std::printf("Port %u (%s) is detached; further ports have lower numbers now\nDone\n", number,
                name.c_str());
}

// The last one first, so that numbers stay good meanwhile.
void close(Session& s, const Line& line) {
  if (s.busy("port close")) return;
  auto list = s.ports_of(line.word(2));
  if (list.size() > 1 || s.ports() == 1) {
    std::printf(
        "Ports are closed when the program ends; one may go by port close N, the last "
        "stays\n");
    return;
  }
  std::printf("Closing ports...\n");
  for (const uint32_t p : list) detach_port(s, p);
}

void attach(Session& s, const Line& line) {
  if (s.busy("port attach")) return;
  const std::string& id = line.word(2);
  const std::size_t comma = std::min(id.find(','), id.size());
  const std::string name = id.substr(0, comma),
                    args = comma < id.size() ? id.substr(comma + 1) : "";
  std::printf("Attaching a new port...\n");
  const std::size_t before = s.ports();
  if (!s.change_ports([&] { return rte_eal_hotplug_add("vdev", name.c_str(), args.c_str()); }))
    return;
  if (s.ports() == before)
    std::fprintf(stderr, "%s: EAL has a device now that is no port\n", name.c_str());
  else
    std::printf("Port %zu is attached. Now total ports is %zu\nDone\n", s.ports() - 1, s.ports());
}

void detach(Session& s, const Line& line) {
  if (s.busy("port detach")) return;
  if (s.ports() == 1) {
    std::fprintf(stderr, "the last port stays\n");
    return;
  }
  std::printf("Detaching a port...\n");
  for (const uint32_t p : s.ports_of(line.word(2))) detach_port(s, p);
}

bool all_stopped(Session& s) {
  if (s.all_stopped()) return true;
  std::fprintf(stderr, "Please stop all ports first\n");
  return false;
}

void config_queues(Session& s, const Line& line) {
  if (!all_stopped(s)) return;
  const std::string& what = line.word(3);
  const uint32_t n = line.number(4);
  Options o = s.options();
  (what == "rxq" ? o.rxq : what == "txq" ? o.txq : what == "rxd" ? o.rxd : o.txd) = n;
  const port::QueueSizes probe{.rxq = o.rxq != 0 ? o.rxq : 1,
                               .txq = o.txq != 0 ? o.txq : 1,
                               .rxd = o.rxd != 0 ? o.rxd : 1024,
                               .txd = o.txd != 0 ? o.txd : 1024};
  const Status fits = n == 0 ? Status(Error{EINVAL, "0 is no number of queues or descriptors"})
                             : port::check_sizes(probe);
  if (!fits) {
    std::fprintf(stderr, "port config all %s %u: %s\n", what.c_str(), n, fits.error().what);
    return;
  }
  s.options() = o;
}

void config_length(Session& s, const Line& line) {
  if (!all_stopped(s)) return;
  const uint32_t n = line.number(4);
  if (n < 64 || n > 9216)
    std::fprintf(stderr, "max-pkt-len is 64 to 9216\n");
  else
    s.options().max_packet = n;
}

void config_burst(Session& s, const Line& line) {
  const uint32_t n = line.number(4);
  if (n < 1 || n > max_burst)
    std::fprintf(stderr, "burst is 1 to %u\n", max_burst);
  else if (!s.busy("port config all burst"))
    s.options().burst = n;
}

void config_rss(Session& s, const Line& line) {
  constexpr struct {
    const char* name;
    uint32_t types;
  } kinds[] = {{"all", flow::HashTypes::all},
               {"default", flow::HashTypes::ip},
               {"ip", flow::HashTypes::ip},
               {"udp", flow::HashTypes::udp},
               {"tcp", flow::HashTypes::tcp}};
  flow::Rss rss;
  for (const auto& k : kinds)
    if (line.word(4) == k.name) rss.types = k.types;
  if (line.word(4) == "none") rss.table = {0};
  for (uint32_t n = 0; n < s.ports(); n++) {
    port::Port* p = s.port(n).native;
    if (p == nullptr) continue;
    flow::RuleError why;
    rss.key = p->rss().key;
    if (!p->set_rss(rss, &why))
      std::fprintf(stderr, "port %u: %s: %s\n", n, flow::name_of(why.field), why.what);
  }
}

// "(0,1),(5,2)". False: it is none, or a place is beyond the table.
bool read_reta(const std::string& text, std::vector<uint16_t>& table) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = text.find('(', at), comma = text.find(',', open),
                      end = text.find(')', comma);
    uint32_t hash = 0, queue = 0;
    if (open != at || end == std::string::npos ||
        !read_number(text.substr(open + 1, comma - open - 1), hash) ||
        !read_number(text.substr(comma + 1, end - comma - 1), queue) || hash >= table.size() ||
        queue > UINT16_MAX)
      return false;
    table[hash] = static_cast<uint16_t>(queue);
    at = end + 1;
    if (at < text.size() && text[at] == ',') at++;
  }
  return !text.empty();
}

void config_reta(Session& s, const Line& line) {
  port::Port* p = s.ports_of(line.word(2)).empty() ? nullptr : s.native_of(line.number(2));
  if (p == nullptr) return;
  flow::Rss rss = p->rss();
  rss.table = flow::table_of(rss, s.forwarder().sizes_of(line.number(2)).rxq);
  const bool fine = read_reta(line.word(5), rss.table);
  flow::RuleError why;
  if (!fine)
    std::fprintf(stderr, "reta is (HASH,QUEUE)[,(HASH,QUEUE)...] with HASH below %zu\n",
                 rss.table.size());
  else if (!p->set_rss(rss, &why))
    std::fprintf(stderr, "port %u: %s: %s\n", line.number(2), flow::name_of(why.field), why.what);
}

void one_queue(Session& s, const Line& line) {
  if (s.ports_of(line.word(1)).empty()) return;
  port::Port* p = s.native_of(line.number(1));
  if (p == nullptr) return;
  const uint32_t q = line.number(3);
  if (!p->started() || q >= p->sizes().rxq) {
    std::fprintf(stderr, "port %u has no started receive queue %u\n", line.number(1), q);
    return;
  }
  const Status done = line.word(4) == "start"
                          ? p->start_rx(q)
                          : p->stop_rx(q, s.running() ? &s.forwarder().quiescence() : nullptr);
  if (!done) std::fprintf(stderr, "port %u queue %u: %s\n", line.number(1), q, done.error().what);
}

constexpr CommandRow rows[] = {
    {"port start <ports>", start, "Queues are made and frames come; what was configured counts."},
    {"port stop <ports>", stop, "Queues go; rules of flow create too."},
    {"port reset <ports>", reset, "Stop and start."},
    {"port close <ports>", close, "A stopped port goes for good."},
    {"port attach <text>", attach, "A new port by its vdev's name and devargs."},
    {"port detach <port>", detach, "A stopped port goes; those behind it move up."},
    {"port config all rxq|txq|rxd|txd <n>", config_queues,
     "Queues a port, places of a queue; all ports stopped."},
    {"port config all max-pkt-len <n>", config_length,
     "Bytes of the longest packet; all ports stopped."},
    {"port config all burst <n>", config_burst, "Packets a burst."},
    {"port config all rss all|default|ip|tcp|udp|none", config_rss, "By what frames are spread."},
    {"port config <port> rss reta <text>", config_reta, "Entries of the table, (HASH,QUEUE),..."},
    {"port <port> rxq <n> start|stop", one_queue, "One receive queue, under traffic too."},
};

}  // namespace

const Section port_commands{"ports", "Configuring ports", rows};

}  // namespace kilim::testpmd
