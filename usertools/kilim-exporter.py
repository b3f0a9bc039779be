#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a running Kilim program counts, in Prometheus' text format, from EAL's
telemetry socket.

Usage: kilim-exporter.py [--file-prefix NAME] [--socket PATH] [--listen
         [ADDRESS:]PORT | --once]

  --file-prefix NAME   the program's EAL option of that name, rte unless said;
                       may be given several times
  --socket PATH        the telemetry socket itself; likewise
  --listen WHERE       serve http://WHERE/metrics; 127.0.0.1:9464 unless said
  --once               print the metrics once and end

Needs python3-prometheus-client. The program may come and go: kilim_up says
whether it answers."""

import argparse
import concurrent.futures
import sys
import threading

if {"-h", "--help"} & set(sys.argv[1:]):
    print(__doc__)
    sys.exit(0)

try:
    from prometheus_client import CollectorRegistry, generate_latest, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
except ImportError:
    sys.exit("kilim-exporter.py: it needs prometheus_client: install python3-prometheus-client")

sys.dont_write_bytecode = True
from kilim_telemetry import Client, TelemetryError, path_of, understood

# Name, help and where it is found, of the values that are counts: /kilim/stats names them so.
PORT_COUNTS = {
    "rx_packets": "Packets received",
    "rx_bytes": "Bytes received",
    "tx_packets": "Packets sent",
    "tx_bytes": "Bytes sent",
    "tx_completed": "Packets whose completion was seen",
    "rx_missed": "Frames that were dropped for lack of a receive, or of room in front of the device",
    "rx_discards": "Frames that were lost in front of the device, part of rx_missed",
    "rx_damaged": "Frames that were not whole",
    "rx_undersize": "Frames shorter than an Ethernet header",
    "rx_oversize": "Frames longer than the MTU of the port",
    "rx_no_rule": "Frames that no flow rule took",
    "rx_cut": "Frames of which a capture holds the beginning",
    "rx_no_buffer": "Refills that found the pool empty",
    "rx_errors": "Receive completions with an error",
    "rx_too_long": "Frames longer than a packet buffer",
    "rx_discarded": "Frames that lay in a queue that was stopped or recovered",
    "rx_joined": "TCP segments that became part of the packet before them (LRO)",
    "tx_errors": "Send completions with an error",
    "tx_lost": "Packets that the device took and the wire did not carry",
    "keys_bound": "Mkeys bound for packets",
    "keys_ended": "Mkeys that no packet needs any more",
    "bind_errors": "Work requests for mkeys that failed",
    "recoveries": "Queues brought back after an error",
}
QUEUE_COUNTS = {
    "packets": "Packets of a queue",
    "bytes": "Bytes of a queue",
    "errors": "Completions with an error of a queue",
    "no_buffer": "Refills of a queue that found the pool empty",
    "joined": "TCP segments of a queue that became part of the packet before them (LRO)",
}
WORKER_COUNTS = {
    "rounds": "Rounds of a poll loop",
    "busy_rounds": "Rounds in which a poller had work",
    "busy_cycles": "TSC cycles of those rounds",
    "sleeps": "Sleeps of a worker",
}
UMR_COUNTS = {
    "bound": "Mkeys bound by a work request",
    "invalidated": "Mkeys invalidated",
    "poisoned": "Mkeys whose work request failed or was flushed",
    "swaps": "Swaps of several mkeys",
    "parked": "Mkeys replaced because all their tags may be in use",
}


class Families:
    """Metrics by name, each with its labels; a value is added where the program told one."""

    def __init__(self):
        self.all = {}

    def add(self, kind, name, text, labels, value):
        if not isinstance(value, int):
            return   # not reported
        family = self.all.get(name)
        if family is None:
            family = self.all[name] = kind("kilim_" + name, text, labels=list(labels))
        family.add_metric([str(v) for v in labels.values()], value)

    def counts(self, table, prefix, labels, values):
        for name, text in table.items():
            self.add(CounterMetricFamily, prefix + name, text, labels, values.get(name))

    def gauge(self, name, text, labels, value):
        self.add(GaugeMetricFamily, name, text, labels, value)

    def take(self, others):
        for name, family in others.all.items():
            if name in self.all:
                self.all[name].samples.extend(family.samples)
            else:
                self.all[name] = family


class Collector:
    """Asks each program anew at every scrape, all at the same time: one that is stopped costs its own time."""

    def __init__(self, paths):
        self.paths = paths
        self.lock = threading.Lock()

    def collect(self):
        families = Families()
        with self.lock, concurrent.futures.ThreadPoolExecutor(len(self.paths)) as pool:
            for path, values in zip(self.paths, pool.map(values_of, self.paths)):
                if values is not None:
                    families.take(values)
                families.gauge("up", "Whether the program answers", {"socket": path}, int(values is not None))
        return families.all.values()


def values_of(path):
    """None: it does not answer, as stderr says."""
    families = Families()
    try:
        client = Client(path=path)
        try:
            with understood(path):
                ask_one(client, families, path)
        finally:
            client.close()
    except TelemetryError as error:
        sys.stderr.write(f"kilim-exporter: {error}\n")   # in one piece: others write too
        return None
    return families


def ask_one(client, families, path):
    info = client.ask("/kilim/info")
    if info is None:
        raise TelemetryError(f"the program at {path} is none of Kilim's: it has no /kilim/info")
    of = {"program": info["program"], "pid": info["pid"]}
    families.gauge("info", "The program and its version", of | {"version": info["version"]}, 1)
    families.gauge("tsc_hertz", "Cycles a second of the counter that busy_cycles are of", of, info["tsc_hz"])
    for port, values in client.ask("/kilim/stats").items():
        ask_port(client, families, of | {"port": port}, port, values)
    for lcore, values in client.ask("/kilim/workers").items():
        families.counts(WORKER_COUNTS, "worker_", of | {"lcore": lcore.removeprefix("lcore_")}, values)
    for pool, values in client.ask("/kilim/pools").items():
        families.gauge("pool_buffers", "Packet buffers of a pool", of | {"pool": pool}, values["size"])
        families.gauge("pool_available", "Free buffers in the ring of a pool", of | {"pool": pool},
                       values["available"])
    families.counts(UMR_COUNTS, "umr_", of, client.ask("/kilim/umr"))
    mkeys = client.ask("/kilim/mkeys")
    families.gauge("mkeys", "Indirect mkeys made", of, mkeys["size"])
    families.gauge("mkeys_available", "Free mkeys in the rings of their pools", of, mkeys["available"])
    ask_devices(client, families, of)


def ask_port(client, families, labels, port, values):
    families.counts(PORT_COUNTS, "port_", labels, values)
    families.gauge("port_queues_down", "Queues out of work because of an error", labels, values["queues_down"])
    try:
        info, queues = client.ask(f"/kilim/info,{port}"), client.queues(port)
    except TelemetryError:   # it has just gone, or has a name that answers cannot have
        return
    families.gauge("port_started", "Whether the port is started", labels, info["started"])
    families.gauge("port_speed_mbps", "Speed of the port as it was found", labels, info["speed_mbps"])
    for name, counts in queues.items():
        direction, queue = name.split("_q")
        families.counts(QUEUE_COUNTS, f"queue_{direction}_", labels | {"queue": queue}, counts)


def ask_devices(client, families, of):
    for device, values in client.ask("/kilim/mr").items():
        for name, value in values.items():
            kind, _, what = name.rpartition("_")
            text = "Registered regions" if what == "regions" else "Bytes of registered regions"
            families.gauge(f"mr_{what}", text, of | {"device": device, "kind": kind}, value)
    for device, values in client.ask("/kilim/odp").items():
        for name, value in values.items():
            families.add(CounterMetricFamily, "odp_events", "Events of on-demand paging, by the documents' names",
                         of | {"device": device, "event": name}, value)


def parse_listen(text):
    address, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError("it is not [ADDRESS:]PORT")
    return address or "127.0.0.1", int(port)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file-prefix", action="append", default=[], metavar="NAME")
    parser.add_argument("--socket", action="append", default=[], metavar="PATH")
    parser.add_argument("--listen", type=parse_listen, default=("127.0.0.1", 9464), metavar="[ADDRESS:]PORT")
    parser.add_argument("--once", action="store_true")
    args = parser.parse_args()
    paths = args.socket + [path_of(prefix) for prefix in args.file_prefix] or [path_of("rte")]
    registry = CollectorRegistry()
    collector = Collector(paths)
    registry.register(collector)
    if args.once:
        text = generate_latest(registry).decode()
        sys.stdout.write(text)
        return 0 if all(f'kilim_up{{socket="{path}"}} 1.0' in text for path in paths) else 1
    try:
        start_http_server(args.listen[1], addr=args.listen[0], registry=registry)
    except OSError as error:
        sys.exit(f"kilim-exporter: {args.listen[0]}:{args.listen[1]}: {error}")
    print(f"kilim-exporter: http://{args.listen[0]}:{args.listen[1]}/metrics", flush=True)
    threading.Event().wait()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
