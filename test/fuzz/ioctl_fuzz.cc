// SPDX-License-Identifier: BSD-3-Clause
// Any requests to an open device: attribute bundles of each object and method, commands of the
// older interface by write(2) and by ioctl, mappings. An input is a list of steps.
#include <unistd.h>

#include "client_arena_fixture.hh"
#include "fake_clock_fixture.hh"
#include "input_fixture.hh"
#include "request_fixture.hh"
#include "vhca/tpt/page_events.hh"
#include "vhca/uverbs/bundle.hh"

namespace kilim::fuzz {

using kilim::test::Client;
using kilim::test::Ioctl;

namespace {

enum class Ask : uint8_t { ioctl, command, write, map, run, close_fd, memory };
constexpr uint8_t asks = 7;

// The numbers that commands have, a part of them taken from the input as it is.
uint32_t command_number(uint8_t n) {
  return (n & 0x3fu) | ((n & 0x80) != 0 ? IB_USER_VERBS_CMD_FLAG_EXTENDED : 0) |
         ((n & 0x40) != 0 ? 0x40u : 0);
}

std::vector<const vhca::Method*> all_methods() {
  std::vector<const vhca::Method*> all;
  // New ones at the end: inputs that are kept name methods by their place.
  for (auto room :
       {vhca::device_methods, vhca::port_methods, vhca::pd_methods, vhca::mr_methods,
        vhca::cq_methods, vhca::qp_methods, vhca::ah_methods, vhca::flow_methods, vhca::uar_methods,
        vhca::devx_methods, vhca::write_methods, vhca::dm_methods, vhca::advise_methods}) {
    for (const vhca::Method& m : room()) all.push_back(&m);
  }
  return all;
}

struct PageEvents final : vhca::WatchedRange {
  PageEvents() {
    vhca::page_events::add(*this);
    vhca::page_events::remove(*this);
  }
  void invalidated(const vhca::PageRange&) noexcept override {}
};

struct Opened {
  explicit Opened(bool with_context)
      : hca(kilim::test::make_hca()), file(std::make_unique<vhca::DeviceFile>(*hca)) {
    if (with_context) kilim::test::get_context(*file);
  }
  void step(Input& in);
  void ioctl(Input& in);
  void attribute(Input& in, const vhca::Method* m, Ioctl& io);
  void command(Input& in);
  void write(Input& in);

  std::unique_ptr<vhca::Hca> hca;
  std::unique_ptr<vhca::DeviceFile> file;
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

void Opened::attribute(Input& in, const vhca::Method* m, Ioctl& io) {
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
  static const std::vector<const vhca::Method*> methods = all_methods();
  uint8_t n = in.take<uint8_t>();
  const vhca::Method* m = n < methods.size() ? methods[n] : nullptr;
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
      vhca::DeviceFile::Mapping mapping;
      uint64_t offset = in.take<uint64_t>();
      uint8_t flags = in.take<uint8_t>();
      file->mmap(offset, std::size_t{in.take<uint8_t>()} * 2048, flags & 7, flags >> 3, mapping);
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

template <typename T>
Script& attr(Script& s, uint16_t, const T& v) {
  s.put(uint8_t{0}, static_cast<uint16_t>(sizeof(v)));
  return s.value(v);
}

template <typename Core, typename Driver>
Script& command(Script& s, uint8_t number, const Core& core, uint8_t out, const Driver& driver) {
  s.put(static_cast<uint8_t>(Ask::command), number, static_cast<uint8_t>(sizeof(core)));
  s.value(core).put(out, static_cast<uint8_t>(sizeof(driver)));
  return s.value(driver);
}
template <typename Core>
Script& command(Script& s, uint8_t number, const Core& core, uint8_t out) {
  s.put(static_cast<uint8_t>(Ask::command), number, static_cast<uint8_t>(sizeof(core)));
  return s.value(core).put(out, uint8_t{0});
}

uint8_t method_number(uint16_t object, uint16_t method) {
  std::vector<const vhca::Method*> all = all_methods();
  for (std::size_t i = 0; i < all.size(); i++) {
    if (all[i]->object == object && all[i]->method == method) return static_cast<uint8_t>(i);
  }
  return 0xff;
}

// A domain (handle 0), a doorbell page (1), a region (2), a completion queue (3), a channel.
Script objects() {
  Script s;
  s.put(uint8_t{1});
  command(s, IB_USER_VERBS_CMD_ALLOC_PD, uint64_t{0}, 4, uint64_t{0});
  s.put(static_cast<uint8_t>(Ask::ioctl),
        method_number(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC), uint8_t{5});
  s.put(uint8_t{0}, uint8_t{2}, uint8_t{0});
  s.put(uint8_t{1}, uint8_t{0}, uint16_t{8}, uint64_t{1});
  for (uint8_t i = 2; i < 5; i++) s.put(i, uint8_t{1}, i == 2 ? uint16_t{8} : uint16_t{4});
  struct {
    uint64_t response = 0, start = arena_rings, length = 8192, hca_va = arena_rings;
    uint32_t pd = 0, access = 0xf;
  } mr;
  command(s, IB_USER_VERBS_CMD_REG_MR, mr, 12);
  command(s, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, uint64_t{0}, 4);
  struct {
    uint64_t response = 0, user_handle = 5;
    uint32_t cqe = 15, vector = 0;
    int32_t channel = -1;
    uint32_t reserved = 0;
  } cq;
  mlx5_ib_create_cq d{};
  d.buf_addr = arena_rings;
  d.db_addr = arena_rings + 8000;
  d.cqe_size = 64;
  d.flags = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX;
  d.uar_page_index = 1;
  return command(s, IB_USER_VERBS_CMD_CREATE_CQ, cq, 8, d);
}

struct CreateQp {
  uint64_t response = 0, user_handle = 7;
  uint32_t pd = 0, send_cq = 3, recv_cq = 3, srq = 0;
  uint32_t send_wr = 16, recv_wr = 16, send_sge = 1, recv_sge = 1, inlined = 0;
  uint8_t sig_all = 0, type = 2, is_srq = 0, reserved = 0;
};

mlx5_ib_create_qp qp_driver() {
  mlx5_ib_create_qp d{};
  d.buf_addr = arena_rings + 0x2000;
  d.db_addr = arena_rings + 8064;
  d.sq_wqe_count = 64;
  d.rq_wqe_count = 16;
  d.rq_wqe_shift = 6;
  d.flags = MLX5_QP_FLAG_UAR_PAGE_INDEX;
  d.bfreg_index = 1;
  return d;
}

Script queues_seed() {
  Script s = objects();
  command(s, IB_USER_VERBS_CMD_CREATE_QP, CreateQp{}, 32, qp_driver());
  ib_uverbs_modify_qp m{};
  m.qp_handle = 4;
  m.attr_mask = 1 | 8 | 16 | 32;
  m.qp_state = 1;
  m.port_num = 1;
  command(s, IB_USER_VERBS_CMD_MODIFY_QP, m, 0);
  m.attr_mask = 1;
  m.qp_state = 6;
  command(s, IB_USER_VERBS_CMD_MODIFY_QP, m, 0);
  s.put(static_cast<uint8_t>(Ask::run));
  command(s, IB_USER_VERBS_CMD_QUERY_QP, std::array<uint32_t, 6>{0, 0, 4, 0x1fffff, 0, 0}, 160);
  command(s, IB_USER_VERBS_CMD_DESTROY_QP, std::array<uint32_t, 4>{0, 0, 4, 0}, 4);
  command(s, IB_USER_VERBS_CMD_DESTROY_CQ, std::array<uint32_t, 4>{0, 0, 3, 0}, 8);
  return command(s, IB_USER_VERBS_CMD_DEREG_MR, uint32_t{2}, 0);
}

Script srq_seed() {
  Script s = objects();
  struct {
    uint64_t response = 0, user_handle = 9;
    uint32_t pd = 0, max_wr = 15, max_sge = 1, limit = 0;
  } srq;
  mlx5_ib_create_srq d{};
  d.buf_addr = arena_rings + 0x4000;
  d.db_addr = arena_rings + 8128;
  command(s, IB_USER_VERBS_CMD_CREATE_SRQ, srq, 16, d);
  command(s, IB_USER_VERBS_CMD_MODIFY_SRQ, std::array<uint32_t, 4>{4, 2, 0, 3}, 0);
  command(s, IB_USER_VERBS_CMD_QUERY_SRQ, std::array<uint32_t, 4>{0, 0, 4, 0}, 16);
  command(s, IB_USER_VERBS_CMD_OPEN_XRCD, std::array<uint32_t, 4>{0, 0, ~0u, 0}, 4);
  command(s, IB_USER_VERBS_CMD_ALLOC_MW, std::array<uint32_t, 4>{0, 0, 0, 2}, 8);
  command(s, IB_USER_VERBS_CMD_REREG_MR,
          std::array<uint64_t, 6>{0, uint64_t{4} << 32 | 2, 0, 0, 0, uint64_t{1} << 32}, 8);
  return command(s, IB_USER_VERBS_CMD_DESTROY_SRQ, std::array<uint32_t, 4>{0, 0, 4, 0}, 4);
}

// A block (handle 4), its page mapped, a region on it (5), which go again.
Script device_memory_seed() {
  Script s = objects();
  auto ask = [&s](uint16_t object, uint16_t method, uint8_t attributes) -> Script& {
    return s.put(static_cast<uint8_t>(Ask::ioctl), method_number(object, method), attributes);
  };
  auto handle = [&s](uint8_t rule, uint8_t h) { s.put(rule, uint8_t{2}, h); };
  auto value = [&s](uint8_t rule, uint16_t bytes, uint64_t v) {
    s.put(rule, uint8_t{4}, bytes, v);
  };
  auto out = [&s](uint8_t rule, uint16_t bytes) { s.put(rule, uint8_t{1}, bytes); };
  ask(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, 5);
  handle(0, 0), value(1, 8, 4000), value(2, 4, 7), out(3, 8), out(4, 2);
  ask(UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_QUERY, 4);
  handle(0, 4), out(1, 8), out(2, 2), out(3, 8);
  s.put(static_cast<uint8_t>(Ask::map), uint64_t{MLX5_IB_MMAP_DEVICE_MEM} << 20, uint8_t{3 | 8},
        uint8_t{2});
  ask(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, 8);
  handle(0, 0), value(1, 8, 100), value(2, 8, 3900), handle(3, 0), value(4, 4, 0x2f), handle(5, 4);
  out(6, 4), out(7, 4);
  ask(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, 1), handle(0, 5);
  ask(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, 1), handle(0, 4);
  return s;
}

Script queries_seed() {
  Script s = objects();
  command(s, IB_USER_VERBS_CMD_QUERY_DEVICE, uint64_t{0}, 200);
  command(s, 0x80 | IB_USER_VERBS_EX_CMD_QUERY_DEVICE, uint64_t{0}, 255);
  command(s, IB_USER_VERBS_CMD_QUERY_PORT, std::array<uint64_t, 2>{0, 1}, 48);
  std::vector<const vhca::Method*> all = all_methods();
  for (std::size_t m = 0; m < all.size(); m++) {
    auto rules = static_cast<uint8_t>(all[m]->rules.size());
    s.put(static_cast<uint8_t>(Ask::ioctl), static_cast<uint8_t>(m), rules);
    for (uint8_t i = 0; i < rules; i++) {
      bool value = all[m]->rules[i].kind == vhca::AttrKind::in;
      bool out = all[m]->rules[i].kind == vhca::AttrKind::out;
      uint16_t bytes = all[m]->rules[i].min;
      s.put(i, out ? uint8_t{1} : value ? uint8_t{4} : uint8_t{2});
      if (value) s.put(bytes, uint64_t{1});
      if (out) s.put(bytes);
      if (!value && !out) s.put(uint8_t{0});
    }
  }
  s.put(static_cast<uint8_t>(Ask::write), uint8_t{IB_USER_VERBS_CMD_ALLOC_PD}, uint8_t{2},
        uint8_t{1}, uint16_t{16}, uint64_t{arena_rings}, uint64_t{0});
  return s.put(static_cast<uint8_t>(Ask::map), uint64_t{0x700000}, uint8_t{1 | 8}, uint8_t{2});
}

}  // namespace

std::vector<Seed> seeds() {
  return {{"objects", objects()},
          {"queues", queues_seed()},
          {"shared queues", srq_seed()},
          {"device memory", device_memory_seed()},
          {"queries", queries_seed()}};
}

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
