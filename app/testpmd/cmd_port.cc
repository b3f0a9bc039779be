// SPDX-License-Identifier: BSD-3-Clause
// Commands about ports: start, stop, queues, spreading, coming and going.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "commands.hh"
#include "kilim/port.hh"
#include "session.hh"
#include "spread.hh"

namespace kilim::testpmd {
namespace {

void start_ports(Session& s, const Line& line) {
  s.start_ports(s.ports_of(line.word(2)));
}
void stop_ports(Session& s, const Line& line) {
  s.stop_ports(s.ports_of(line.word(2)));
}
// Resets a port to what a new driver has: which frames come, and how they are spread, is as at
// first.
void reset_port(Session& s, uint32_t n) {
  const PortRef& p = s.port(n);
  if (p.native == nullptr) {
    if (const int e = rte_eth_dev_reset(p.ethdev); e != 0)
      std::fprintf(stderr, "Failed to reset port %u (diag=%d)\n", n, e);
    return;
  }
  (void)p.native->set_filter({});
  (void)p.native->set_mtu(0);
  const uint32_t queues = s.forwarder().sizes_of(n).rxq;
  if (queues > 1) (void)p.native->set_rss(spread_of(rss_asked(s.options()), {}, queues));
  s.memory(n).rss_hf.reset();
}

void reset(Session& s, const Line& line) {
  if (s.busy("port reset")) return;
  const auto list = s.ports_of(line.word(2));
  for (const uint32_t n : list) {
    if (!s.forwarder().started(n)) continue;
    std::fprintf(stderr, "Can not reset port(s), please stop port(s) first.\n");
    return;
  }
  std::printf("Resetting ports...\n");
  for (const uint32_t n : list) reset_port(s, n);
  std::printf("Done\n");
}

void detach_port(Session& s, uint32_t number) {
  const std::string name = name_of(s.port(number));
  if (s.forwarder().started(number)) {
    std::fprintf(stderr, "Port %u is not stopped: port stop %u\n", number, number);
    return;
  }
  if (s.change_ports([&name] { return rte_eal_hotplug_remove("vdev", name.c_str()); }))
    std::printf(
        "Port %u is closed\nPort %u (%s) is detached; further ports have lower numbers now\nDone\n",
        number, number, name.c_str());
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

void config_lro(Session& s, const Line& line) {
  if (!all_stopped(s)) return;
  const uint32_t n = line.number(4);
  if (n < 256 || n > 65280)
    std::fprintf(stderr, "max-lro-pkt-size is 256 to 65280\n");
  else
    s.options().max_lro = n;
}

// Under traffic too.
void config_mtu(Session& s, const Line& line) {
  const uint32_t n = line.number(4);
  for (const uint32_t number : s.ports_of(line.word(3))) {
    const PortRef& p = s.port(number);
    if (p.native != nullptr) {
      if (const Status done = p.native->set_mtu(n); !done)
        std::fprintf(stderr, "port %u MTU %u: %s\n", number, n, done.error().what);
    } else if (const int e = n <= UINT16_MAX
                                 ? rte_eth_dev_set_mtu(p.ethdev, static_cast<uint16_t>(n))
                                 : -EINVAL;
               e != 0) {
      std::fprintf(stderr, "port %u MTU %u: %s (diag=%d)\n", number, n, rte_strerror(-e), e);
    }
  }
}

void config_burst(Session& s, const Line& line) {
  const uint32_t n = line.number(4);
  if (n < 1 || n > max_burst)
    std::fprintf(stderr, "burst is 1 to %u\n", max_burst);
  else if (!s.busy("port config all burst"))
    s.options().burst = n;
}

void config_drop(Session& s, const Line& line) {
  if (!all_stopped(s) || line.on(4)) return;
  std::fprintf(stderr,
               "port config all drop-en off: a Kilim port has no other way; frames without a "
               "receive buffer are dropped and counted as RX-missed\n");
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

constexpr CommandRow port_rows[] = {
    {"port start <ports>", start_ports,
     "Queues are made and frames come; what was configured counts."},
    {"port stop <ports>", stop_ports, "Queues go; rules of flow create too."},
    {"port reset <ports>", reset, "Stopped ports are as at first."},
    {"port close <ports>", close, "A stopped port goes for good."},
    {"port attach <text>", attach, "A new port by its vdev's name and devargs."},
    {"port detach <port>", detach, "A stopped port goes; those behind it move up."},
    {"port config all rxq|txq|rxd|txd <n>", config_queues,
     "Queues a port, places of a queue; all ports stopped."},
    {"port config all max-pkt-len <n>", config_length,
     "Bytes of the longest packet; all ports stopped."},
    {"port config all max-lro-pkt-size <n>", config_lro,
     "Bytes of the longest packet of joined segments (--enable-lro); all ports stopped."},
    {"port config mtu <ports> <n>", config_mtu,
     "Longer frames are dropped and counted; 0: none for its length."},
    {"port config all burst <n>", config_burst, "Packets a burst."},
    {"port config all drop-en on|off", config_drop,
     "Frames without a receive buffer are dropped, which is so always."},
    {"port <port> rxq <n> start|stop", one_queue, "One receive queue, under traffic too."},
};

}  // namespace

const Section port_commands{"ports", "Configuring ports", port_rows};

}  // namespace kilim::testpmd
