// SPDX-License-Identifier: BSD-3-Clause
// Any firmware commands of two DevX clients on one adapter: keys and walks over them; memory,
// queues in it and their doorbells; objects of the other client; memory that goes away under
// queues. A word of a command may stand for something made before (devx_fixture.hh).
#include "client_arena_fixture.hh"
#include "devx_fixture.hh"
#include "fake_clock_fixture.hh"
#include "input_fixture.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/doorbell.hh"
#include "kilim/prm/mkc.hh"
#include "kilim/prm/umr_seg.hh"
#include "request_fixture.hh"
#include "vhca/hca/commands.hh"
#include "vhca/tpt/transfer.hh"

namespace kilim::fuzz {

using kilim::test::Client;
using kilim::test::Ioctl;

namespace {

struct Firmware {
  Firmware() {
    client.hca->config.profile.log_max_tags = 7;  // it offers every command that there is
    client.alloc_pd(pd_handle, &pdn);
    std::byte* memory = reinterpret_cast<std::byte*>(arena_rings);
    ib_uverbs_reg_mr_resp mr{};
    client.reg_mr(pd_handle, memory, 8192, vhca::access::local_write, &mr);
    keys.push_back(mr.lkey);
    client.alloc_uar(page);
    uint32_t other_handle = 0;
    other.alloc_pd(other_handle, &other_pdn);
    other.alloc_uar(other_page);
  }
  void step(Input& in);
  void create(Input& in);
  void walk(Input& in);
  void enter(Input& in);
  void object_command(Input& in, uint16_t method, uint16_t handle_id);
  void ring(Input& in);
  int destroy(uint16_t object, uint16_t method, uint16_t attr, uint32_t of) {
    return Ioctl(object, method).handle(attr, of).run(file());
  }
  std::vector<std::byte> command(Input& in);
  uint32_t meant(uint32_t word) const;
  uint32_t handle(Input& in) const {
    const uint8_t n = in.take<uint8_t>();
    return handles.empty() ? n : handles[n % handles.size()];
  }
  vhca::uverbs::DeviceFile& file() { return of_other ? *other.file : *client.file; }

  Client client;
  Client other{client.hca};
  bool of_other = false;  // whose step it is
  uint32_t pd_handle = 0, pdn = 0, page = 0, other_pdn = 0, other_page = 0;
  std::vector<uint32_t> keys;
  std::vector<uint32_t> handles;  // of both clients' objects and memory
  std::vector<uint32_t> umems, numbers;
};

// A word that stands for something, as a command has it.
uint32_t Firmware::meant(uint32_t word) const {
  const uint32_t n = word & 0xff;
  const auto one_of = [n](const std::vector<uint32_t>& all, uint32_t from) {
    return all.empty() ? n : all[(n - from) % all.size()];
  };
  switch (word & 0xffffff00u) {
    case token:
      return n != 0 ? one_of(keys, 1) : of_other ? other_pdn : pdn;
    case umem_token:
      return one_of(umems, 0);
    case number_token:
      return one_of(numbers, 0);
    case page_token:
      return of_other ? other_page : page;
    default:
      return word;
  }
}

std::vector<std::byte> Firmware::command(Input& in) {
  std::vector<std::byte> bytes = in.bytes(in.take<uint16_t>() % 2048);
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    be32 w;
    std::memcpy(&w, bytes.data() + at, sizeof(w));
    w = be32{meant(w.host())};
    std::memcpy(bytes.data() + at, &w, sizeof(w));
  }
  return bytes;
}

void Firmware::create(Input& in) {
  std::vector<std::byte> cmd = command(in);
  uint16_t out_bytes = in.take<uint8_t>();
  std::byte* out = place(out_bytes);
  Ioctl io(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE);
  io.handle(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE)
      .raw(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, static_cast<uint16_t>(cmd.size()),
           reinterpret_cast<uintptr_t>(place(cmd)))
      .raw(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, out_bytes, reinterpret_cast<uintptr_t>(out));
  if (io.run(file()) != 0 || out == nullptr) return;
  handles.push_back(static_cast<uint32_t>(io.attr(0).data));
  prm::CreateMkeyOut made;
  std::memcpy(&made, out, sizeof(made));
  numbers.push_back(made.mkey_index.host() & 0xffffff);
  const vhca::tpt::Mkey* m = client.hca->keys.at(made.mkey_index.host() & 0xffffff);
  if (m != nullptr) keys.push_back(m->key);
}

// What a work request would do with a key: read all that it shows.
void Firmware::walk(Input& in) {
  uint32_t key = keys[in.take<uint8_t>() % keys.size()];
  uint64_t at = in.take<uint64_t>();
  std::vector<std::byte> to(in.take<uint16_t>());
  vhca::hca::Hca& h = *client.hca;
  vhca::tpt::Segment s{at, to.size(), key, false};
  vhca::tpt::SegmentList list{{&s, 1}, {Pdn{pdn}, 0x40, prm::mkey::local_read}};
  (void)gather_bytes(h.context.translator, list, to.data(), to.size());
}

void Firmware::enter(Input& in) {
  const uint64_t at = arena_rings + in.take<uint16_t>();
  const uint64_t length = in.take<uint32_t>();
  const uint32_t access = in.take<uint8_t>();
  uint32_t number = 0;
  Ioctl io(MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG);
  const int err = io.handle(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE)
                      .in(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, at)
                      .in(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN, length)
                      .in(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, access)
                      .out(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, number)
                      .run(file());
  if (err != 0) return;
  handles.push_back(static_cast<uint32_t>(io.attr(0).data));
  umems.push_back(number);
}

// MODIFY or QUERY: any command for any handle, with an answer of any length.
void Firmware::object_command(Input& in, uint16_t method, uint16_t handle_id) {
  const uint32_t of = handle(in);
  std::vector<std::byte> cmd = command(in);
  const uint16_t n = in.take<uint16_t>() % 1024;
  Ioctl(MLX5_IB_OBJECT_DEVX_OBJ, method)
      .handle(handle_id, of)
      .raw(static_cast<uint16_t>(handle_id + 1), static_cast<uint16_t>(cmd.size()),
           reinterpret_cast<uintptr_t>(place(cmd)))
      .raw(static_cast<uint16_t>(handle_id + 2), n, reinterpret_cast<uintptr_t>(place(n)))
      .run(file());
}

// Bytes into the rings, then a doorbell of a queue, and the engine's turns.
void Firmware::ring(Input& in) {
  const uint16_t at = in.take<uint16_t>();
  std::vector<std::byte> bytes = in.bytes(in.take<uint8_t>());
  fence(bytes);
  write_rings(at, bytes);
  const uint32_t n = numbers.empty() ? 0 : numbers[in.take<uint8_t>() % numbers.size()];
  vhca::hca::Uar* uar = client.hca->uars.at(page);
  const be64 value{uint64_t{in.take<uint16_t>()} << 40 | uint64_t{n} << 8 | 4};
  if (uar != nullptr) std::memcpy(uar->page.data() + prm::uar::blueflame, &value, sizeof value);
  for (int i = 0; i < 20 && client.hca->run() != 0; i++) pass_time(1'000'000);
}

void Firmware::step(Input& in) {
  const uint8_t first = in.take<uint8_t>();
  of_other = (first & by_other) != 0;
  switch (static_cast<Ask>((first & ~by_other) % asks)) {
    case Ask::other: {
      std::vector<std::byte> cmd = command(in);
      uint16_t n = in.take<uint16_t>() % 8192;
      Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER)
          .raw(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, static_cast<uint16_t>(cmd.size()),
               reinterpret_cast<uintptr_t>(place(cmd)))
          .raw(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, n, reinterpret_cast<uintptr_t>(place(n)))
          .run(file());
      return;
    }
    case Ask::create:
      return create(in);
    case Ask::destroy:
      (void)destroy(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
                    MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, handle(in));
      return;
    case Ask::direct: {
      std::vector<std::byte> cmd = command(in);
      std::vector<std::byte> out(in.take<uint16_t>() % 8192);
      vhca::hca::command(*client.hca, cmd, out);
      return;
    }
    case Ask::walk:
      return walk(in);
    case Ask::enter:
      return enter(in);
    case Ask::leave:
      (void)destroy(MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG,
                    MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, handle(in));
      return;
    case Ask::change:
      return object_command(in, MLX5_IB_METHOD_DEVX_OBJ_MODIFY,
                            MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE);
    case Ask::query:
      return object_command(in, MLX5_IB_METHOD_DEVX_OBJ_QUERY, MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE);
    case Ask::ring:
      return ring(in);
    case Ask::unmap:
      return unmap_rings(in.take<uint8_t>());
  }
}

std::vector<std::byte> key_command(uint32_t mode, uint32_t capacity,
                                   std::span<const prm::Klm> list) {
  prm::CreateMkeyIn in{};
  in.opcode = be16{prm::cmd::create_mkey};
  in.mkc.flags = be32{prm::mkc::umr_en::at(1u) | prm::mkc::local_read::at(1u) |
                      prm::mkc::local_write::at(1u) | prm::mkc::access_mode_1_0::at(mode)};
  in.mkc.qpn_mkey = be32{0xffffff00u};
  in.mkc.flags_pd = be32{token};
  in.mkc.len = be64{4096};
  in.mkc.translations_octword_size = be32{capacity};
  in.translations_octword_actual_size = be32{static_cast<uint32_t>(list.size())};
  prm::mkc::log_entity_size::set(in.mkc, 12);
  std::vector<std::byte> bytes(sizeof(in) + list.size_bytes());
  std::memcpy(bytes.data(), &in, sizeof(in));
  if (!list.empty()) std::memcpy(bytes.data() + sizeof(in), list.data(), list.size_bytes());
  return bytes;
}

Script keys_seed() {
  Script s;
  const prm::Klm pieces[] = {{be32{512}, be32{token | 1}, be64{arena_rings}},
                             {be32{100}, be32{token | 1}, be64{arena_rings + 4096}},
                             {be32{512}, be32{token | 2}, be64{0}},
                             {be32{0}, be32{0}, be64{0}}};
  command(s, Ask::create, key_command(prm::mkc::access_mode_klm, 4, pieces)).put(uint8_t{16});
  command(s, Ask::create, key_command(prm::mkc::access_mode_ksm, 16, pieces)).put(uint8_t{16});
  for (uint8_t key = 0; key < 3; key++)
    s.put(static_cast<uint8_t>(Ask::walk), key, uint64_t{0}, uint16_t{600});
  return s.put(static_cast<uint8_t>(Ask::destroy), uint8_t{0});
}

Script queries_seed() {
  Script s;
  std::array<std::byte, 16> query{};
  query[0] = std::byte{0x01};
  for (uint8_t group = 0; group < 40; group += 2) {
    query[7] = std::byte{group};
    command(s, Ask::other, query).put(uint16_t{4112});
  }
  for (unsigned opcode : {0x200u, 0x202u, 0x718u, 0x904u, 0xa00u}) {
    query[0] = static_cast<std::byte>(opcode >> 8);
    query[1] = static_cast<std::byte>(opcode & 0xff);
    command(s, Ask::direct, query).put(uint16_t{64});
  }
  return s;
}

}  // namespace

std::vector<Seed> seeds() {
  return {{"keys by command", keys_seed()},
          {"queries", queries_seed()},
          {"queues in memory", queues_seed(false)},
          {"memory goes away under queues", queues_seed(true)},
          {"objects of another", others_seed()},
          {"questions about queues", questions_seed()}};
}

void run_input(Input in) {
  reset_arena();
  reset_clock();
  Firmware f;
  for (int n = 0; n < 64 && !in.done(); n++) f.step(in);
}

}  // namespace kilim::fuzz
