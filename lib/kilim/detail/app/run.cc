// SPDX-License-Identifier: BSD-3-Clause
// The main lcore's part of a program: EAL, signals, the control turn every millisecond, the end.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <signal.h>
#include <time.h>

#include "kilim/detail/app/frame.hh"
#include "kilim/detail/base/last_words.hh"
#include "kilim/detail/capture/capture.hh"
#include "kilim/detail/port/registry.hh"

namespace kilim::inline v1::app {

namespace {

constexpr uint64_t millisecond = 1'000'000;
constexpr uint64_t drain_at_most = 1000 * millisecond;
constexpr uint64_t asleep_look = 10 * millisecond;

volatile sig_atomic_t stop_asked = 0;

void on_signal(int) {
  stop_asked = 1;
}

uint64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000 * millisecond + static_cast<uint64_t>(t.tv_nsec);
}

int say(const Program& program, const std::string& sentence) {
  std::fprintf(stderr, "%s: %s\n", program.name, sentence.c_str());
  return 1;
}

// Watches a running frame from the main lcore: brings failed queues back, ends the run.
class Control {
 public:
  Control(Frame& frame, const Program& program, bool alone) noexcept
      : frame_(frame), program_(program), alone_(alone) {}

  // One turn; between two there is a millisecond.
  void turn() noexcept {
    const uint64_t now = now_ns();
    if (now < next_) return;
    next_ = now + millisecond;
    if (deadline_ == 0)
      watch(now);
    else if (frame_.drained() || now >= deadline_)
      over_ = true;
    if (over_) frame_.stop();
  }
  [[nodiscard]] bool over() const noexcept { return over_; }
  // The control lcore looks less often while lanes sleep, so that an idle program costs nothing.
  [[nodiscard]] uint64_t pause_ns() const noexcept {
    return program_.idle == worker::Idle::sleep ? asleep_look : millisecond;
  }
  [[nodiscard]] bool lost() const noexcept { return lost_; }

  // worker::Poller::Fn, for a program of one lcore.
  static uint32_t poll(void* self, uint32_t) noexcept {
    static_cast<Control*>(self)->turn();
    return 0;
  }
  // A lane that sleeps looks less often: a signal ends its sleep, and so does what failed queues
  // and lost devices still bring.
  static bool watch(void*, worker::WaitSet& set) noexcept {
    set.until(now_ns() + asleep_look);
    return true;
  }
  static constexpr worker::Waiting waiting{nullptr, watch, nullptr};

 private:
  void watch(uint64_t now) noexcept {
    uint64_t overruns = 0;
    for (port::Port* p : frame_.ports()) {
      if (p->device().lost()) {
        lost_ = true;
        std::fprintf(stderr, "%s: %s has lost its device %s (IBV_EVENT_DEVICE_FATAL)\n",
                     program_.name, p->name().c_str(), p->device().name());
      } else {
        p->revive(alone_ ? nullptr : &frame_.quiescence());
        overruns += p->stats().cq_overruns;
      }
    }
    if (overruns > overruns_) {
      overruns_ = overruns;
      std::fprintf(stderr,
                   "%s: %llu completion queue(s) ran over so far (IBV_EVENT_CQ_ERR); their queues "
                   "stay down until the program starts anew\n",
                   program_.name, static_cast<unsigned long long>(overruns));
    }
    if (stop_asked == 0 && !lost_) return;
    deadline_ = now + drain_at_most;
    frame_.drain();
  }

  Frame& frame_;
  const Program& program_;
  bool alone_;
  bool over_ = false;
  bool lost_ = false;
  uint64_t next_ = 0;
  uint64_t deadline_ = 0;  // of draining; 0: running
  uint64_t overruns_ = 0;  // said
};

int run_lane(void* worker) {
  static_cast<worker::Worker*>(worker)->run();
  return 0;
}

void run_workers(Frame& frame, Control& control, bool alone) {
  if (alone) {
    worker::Worker& only = *frame.lanes()[0]->worker;
    (void)only.add({Control::poll, &control, "control", &Control::waiting});
    only.run();
    return;
  }
  for (const auto& lane : frame.lanes())
    rte_eal_remote_launch(run_lane, lane->worker.get(), lane->lcore);
  while (!control.over()) {
    control.turn();
    const timespec pause{0, static_cast<long>(control.pause_ns())};
    nanosleep(&pause, nullptr);
  }
  rte_eal_mp_wait_lcore();
}

void report(const Frame& frame, const Program& program) {
  uint64_t received = 0, sent = 0, no_room = 0, dropped = 0, missed = 0, no_buffer = 0, errors = 0;
  for (const auto& lane : frame.lanes()) {
    received += lane->received.read();
    sent += lane->sent.read();
    no_room += lane->no_room.read();
    dropped += lane->dropped.read();
  }
  for (port::Port* p : frame.ports()) {
    const port::PortStats s = p->all_stats();
    missed += s.rx_missed;
    no_buffer += s.rx_no_buffer;
    errors += s.all_rx_errors() + s.all_tx_errors();
  }
  std::printf("%s: received %" PRIu64 ", sent %" PRIu64 ", dropped %" PRIu64
              ", transmit full %" PRIu64 ", missed %" PRIu64 ", refills without buffer %" PRIu64
              ", errors %" PRIu64 "\n",
              program.name, received, sent, dropped, no_room, missed, no_buffer, errors);
}

// Worker lcores; without any the main one.
std::vector<uint32_t> lcores_of_eal() {
  std::vector<uint32_t> found;
  unsigned lcore;
  RTE_LCORE_FOREACH_WORKER(lcore) found.push_back(lcore);
  if (found.empty()) found.push_back(rte_get_main_lcore());
  return found;
}

// --idle=HOW in front of a program's own words: how its lanes idle. False: HOW is none.
bool take_idle(Program& program, std::span<char* const>& words) {
  constexpr std::string_view option = "--idle=";
  if (words.empty() || !std::string_view(words[0]).starts_with(option)) return true;
  const std::string_view how = std::string_view(words[0]).substr(option.size());
  constexpr std::pair<std::string_view, worker::Idle> all[] = {{"spin", worker::Idle::spin},
                                                               {"pause", worker::Idle::pause},
                                                               {"yield", worker::Idle::yield},
                                                               {"sleep", worker::Idle::sleep}};
  words = words.subspan(1);
  for (const auto& [name, idle] : all) {
    if (name != how) continue;
    program.idle = idle;
    return true;
  }
  return false;
}

// Every --pcap=PORT:FILE in front of a program's own words.
std::vector<std::string> take_captures(std::span<char* const>& words) {
  constexpr std::string_view option = "--pcap=";
  std::vector<std::string> found;
  for (; !words.empty() && std::string_view(words[0]).starts_with(option); words = words.subspan(1))
    found.emplace_back(words[0] + option.size());
  return found;
}

using Captures = std::vector<std::unique_ptr<capture::Capture>>;

// A sentence, or empty.
std::string start_captures(std::span<const std::string> specs, worker::Quiescence* workers,
                           Captures& out) {
  for (const std::string& spec : specs) {
    const auto said = [&spec](const Error& e) {
      return "--pcap=" + spec + ": " + e.what + " (" + std::strerror(e.code) + ")";
    };
    auto parsed = capture::parse_port_file(spec);
    if (!parsed) return said(parsed.error());
    auto made = capture::Capture::start(*parsed->port, {.file = parsed->file, .workers = workers});
    if (!made) return said(made.error());
    out.push_back(*std::move(made));
  }
  return "";
}

// False: packets are missing in a file.
bool end_captures(const Program& program, Captures& captures) {
  bool whole = true;
  for (const auto& c : captures) {
    const Status s = c->stop();
    const capture::CaptureStats n = c->stats();
    std::printf("%s: %s: %" PRIu64 " packets, %" PRIu64 " left out%s%s\n", program.name,
                c->file().c_str(), n.written, n.dropped, s ? "" : ": ", s ? "" : s.error().what);
    whole = whole && c->stats().whole();
  }
  return whole;
}

int run_on_eal(Program program, std::span<char* const> words) {
  const std::vector<std::string> specs = take_captures(words);
  if (!take_idle(program, words)) return say(program, "--idle= is spin, pause, yield or sleep");
  std::vector<port::Port*> ports;
  for (std::size_t i = 0; i < port::port_count(); i++) ports.push_back(port::port_at(i));
  if (program.prepare == nullptr && !words.empty())
    return say(program, std::string("unknown word behind --: ") + words[0]);
  if (program.prepare != nullptr) {
    const std::string why =
        program.prepare(program.context, words, static_cast<uint32_t>(ports.size()));
    if (!why.empty()) return say(program, why);
  }
  const std::vector<uint32_t> lcores = lcores_of_eal();
  auto frame = Frame::create(ports, lcores, program);
  if (!frame)
    return say(program,
               std::string(frame.error().what) + " (" + std::strerror(frame.error().code) + ")");
  std::string why;
  if (program.started != nullptr) why = program.started(program.context, (*frame)->ports());
  if (!why.empty()) return say(program, why);
  const bool alone = rte_lcore_count() == 1;
  Captures captures;
  why = start_captures(specs, alone ? nullptr : &(*frame)->quiescence(), captures);
  if (!why.empty()) return say(program, why);
  std::printf("%s: %zu port(s), %zu lcore(s); SIGINT stops\n", program.name, ports.size(),
              lcores.size());
  std::fflush(stdout);
  Control control(**frame, program, alone);
  run_workers(**frame, control, alone);
  const bool whole = end_captures(program, captures);
  report(**frame, program);
  return control.lost() || !whole ? 1 : 0;
}

void catch_signals() noexcept {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

int run(int argc, char** argv, const Program& program) {
  say_when_memory_is_used_up(program.name);
  int own = 1;
  while (own < argc && std::strcmp(argv[own], "--") != 0) own++;
  std::vector<char*> eal(argv, argv + own);
  eal.push_back(nullptr);
  const auto behind = static_cast<std::size_t>(own < argc ? own + 1 : argc);
  const std::span<char* const> words(argv + behind, static_cast<std::size_t>(argc) - behind);
  stop_asked = 0;
  catch_signals();
  if (rte_eal_init(own, eal.data()) < 0)
    return say(program, std::string("EAL did not start (") + rte_strerror(rte_errno) +
                            "; the lines above say why). Without hugepages or root: --no-huge "
                            "--no-shconf");
  const int code = run_on_eal(program, words);
  if (program.finish != nullptr) program.finish(program.context);
  rte_eal_cleanup();
  return code;
}

}  // namespace kilim::inline v1::app
