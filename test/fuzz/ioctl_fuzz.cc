// SPDX-License-Identifier: BSD-3-Clause
// Any requests to an open device: attribute bundles of each object and method, commands of the
// older interface by write(2) and by ioctl, mappings. An input is a list of steps.
#include <unistd.h>

#include "client_arena_fixture.hh"
#include "fake_clock_fixture.hh"
#include "input_fixture.hh"
#include "ioctl_fixture.hh"
#include "request_fixture.hh"
#include "vhca/tpt/page_events.hh"
#include "vhca/uverbs/bundle.hh"

namespace kilim::fuzz {

using kilim::test::Client;
using kilim::test::Ioctl;

namespace {

// The numbers that commands have, a part of them taken from the input as it is.
uint32_t command_number(uint8_t n) {
  return (n & 0x3fu) | ((n & 0x80) != 0 ? IB_USER_VERBS_CMD_FLAG_EXTENDED : 0) |
         ((n & 0x40) != 0 ? 0x40u : 0);
}

struct PageEvents final : vhca::tpt::WatchedRange {
  PageEvents() {
    vhca::tpt::page_events::add(*this);
    vhca::tpt::page_events::remove(*this);
  }
  void invalidated(const vhca::tpt::PageRange&) noexcept override {}
};

struct Opened {
  explicit Opened(bool with_context)
      : hca(kilim::test::make_hca()), file(std::make_unique<vhca::uverbs::DeviceFile>(*hca)) {
    if (with_context) kilim::test::get_context(*file);
  }
  void step(Input& in);
  void ioctl(Input& in);
  void attribute(Input& in, const vhca::uverbs::Method* m, Ioctl& io);
  void command(Input& in);
  void write(Input& in);

  std::unique_ptr<vhca::hca::Hca> hca;
  std::unique_ptr<vhca::uverbs::DeviceFile> file;
  std::vector<int> fds;
};

// The bytes of an attribute: in itself where they fit, else in the arena.
void data_attribute(Ioctl& io, uint16_t id, std::vector<std::byte> bytes) {
  fence(bytes);
  uint64_t data = 0;
  if (bytes.size() <= sizeof data) {
    if (!bytes.empty()) std::memcpy(&data, bytes.data(), bytes.size());
    data = fenced(data);
  } else {
    data = reinterpret_cast<uintptr_t>(place(bytes));
  }
  io.raw(id, static_cast<uint16_t>(bytes.size()), data);
}

void Opened::attribute(Input& in, const vhca::uverbs::Method* m, Ioctl& io) {
  uint8_t which = in.take<uint8_t>(), how = in.take<uint8_t>();
  uint16_t id = 0;
  if (m != nullptr && which < m->rules.size()) {
    id = m->rules[which].id;
  } else {
    constexpr uint16_t driver[] = {UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT};
    id = which >= 0xf0 ? driver[which & 1] : in.take<uint16_t>();
  }
  switch (how % 5) {
    case 0:
      return data_attribute(io, id, in.bytes(in.take<uint16_t>() % 4096));
    case 1: {
      uint16_t n = in.take<uint16_t>();
      io.raw(id, n, reinterpret_cast<uintptr_t>(place(n)));
      return;
    }
    case 2:
      io.handle(id, in.take<uint8_t>());
      return;
    case 3: {
      uint8_t n = in.take<uint8_t>();
      io.handle(id, fds.empty() ? n : static_cast<uint64_t>(fds[n % fds.size()]));
      return;
    }
    default: {
      uint16_t n = in.take<uint16_t>();
      io.raw(id, n, fenced(in.take<uint64_t>()));
    }
  }
}

void Opened::ioctl(Input& in) {
  static const std::vector<const vhca::uverbs::Method*> methods = all_methods();
  uint8_t n = in.take<uint8_t>();
  const vhca::uverbs::Method* m = n < methods.size() ? methods[n] : nullptr;
  Ioctl io(m != nullptr ? m->object : in.take<uint16_t>(),
           m != nullptr ? m->method : in.take<uint16_t>());
  for (unsigned count = in.take<uint8_t>() % 24; count > 0; count--) attribute(in, m, io);
  if (io.run(*file) != 0 || m == nullptr) return;
  for (std::size_t i = 0; i < io.header().num_attrs; i++) {
    if (m->object == UVERBS_OBJECT_ASYNC_EVENT) fds.push_back(static_cast<int>(io.attr(i).data));
  }
}

// The core's part and the driver's, both ways.
void Opened::command(Input& in) {
  uint32_t number = command_number(in.take<uint8_t>());
  Ioctl io = kilim::test::write_command(number);
  data_attribute(io, UVERBS_ATTR_CORE_IN, in.bytes(in.take<uint8_t>()));
  uint8_t answer = in.take<uint8_t>();
  std::byte* out = place(answer);
  io.raw(UVERBS_ATTR_CORE_OUT, answer, reinterpret_cast<uintptr_t>(out));
  if (uint8_t n = in.take<uint8_t>(); n != 0) {
    data_attribute(io, UVERBS_ATTR_UHW_IN, in.bytes(n));
    io.raw(UVERBS_ATTR_UHW_OUT, 64, reinterpret_cast<uintptr_t>(place(64)));
  }
  if (io.run(*file) == 0 && number == IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL && out != nullptr) {
    int fd = 0;
    std::memcpy(&fd, out, sizeof(fd));
    fds.push_back(fd);
  }
}

void Opened::write(Input& in) {
  struct Headers {
    ib_uverbs_cmd_hdr plain;
    ib_uverbs_ex_cmd_hdr extended;
  } h{};
  h.plain.command = command_number(in.take<uint8_t>());
  h.plain.out_words = in.take<uint8_t>();
  bool right_length = (in.take<uint8_t>() & 1) != 0;
  std::vector<std::byte> body = in.bytes(in.take<uint16_t>() % 512 / 8 * 8);
  fence(body);
  bool ex = (h.plain.command & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0;
  std::size_t head = ex ? sizeof(h) : sizeof(h.plain);
  h.plain.in_words = static_cast<uint16_t>(ex ? body.size() / 8 : (head + body.size()) / 4);
  h.extended.provider_in_words = ex ? in.take<uint8_t>() : 0;
  if (right_length)
    h.plain.in_words = static_cast<uint16_t>(h.plain.in_words - h.extended.provider_in_words);
  h.extended.response = reinterpret_cast<uintptr_t>(place(512));
  std::vector<std::byte> all(head + body.size());
  std::memcpy(all.data(), &h, head);
  if (!body.empty()) std::memcpy(all.data() + head, body.data(), body.size());
  const std::byte* at = place(all);
  if (at != nullptr) file->write(at, all.size());
}

void Opened::step(Input& in) {
  switch (static_cast<Ask>(in.take<uint8_t>() % asks)) {
    case Ask::ioctl:
      return ioctl(in);
    case Ask::command:
      return command(in);
    case Ask::write:
      return write(in);
    case Ask::map: {
      vhca::uverbs::DeviceFile::Mapping mapping;
      uint64_t offset = in.take<uint64_t>();
      uint8_t flags = in.take<uint8_t>();
      file->mmap({offset, std::size_t{in.take<uint8_t>()} * 2048, flags & 7, flags >> 3}, mapping);
      return;
    }
    case Ask::run:
      for (int i = 0; i < 100 && hca->run() != 0; i++) pass_time(1'000'000);
      return;
    case Ask::close_fd: {
      uint8_t n = in.take<uint8_t>();
      if (fds.empty()) return;
      ::close(fds[n % fds.size()]);
      fds.erase(fds.begin() + n % static_cast<int>(fds.size()));
      return;
    }
    case Ask::memory: {
      uint64_t at = arena_rings + in.take<uint16_t>();
      std::vector<std::byte> bytes = in.bytes(in.take<uint8_t>());
      if (!bytes.empty()) std::memcpy(reinterpret_cast<void*>(at), bytes.data(), bytes.size());
    }
  }
}

}  // namespace

void run_input(Input in) {
  reset_arena();
  reset_clock();
  // The descriptor of page events stays for all inputs: those that an input leaves are closed.
  static PageEvents listened;
  int first = ::dup(2);
  ::close(first);
  {
    const uint8_t how = in.take<uint8_t>();
    Opened o((how & 1) != 0);
    for (int n = 0; n < 128 && !in.done(); n++) {
      if ((how & 2) != 0 && n == 8) o.file->disown_after_fork();
      o.step(in);
    }
  }
  ::close_range(static_cast<unsigned>(first), ~0u, 0);
}

}  // namespace kilim::fuzz
