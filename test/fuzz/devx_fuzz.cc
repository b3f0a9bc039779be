// SPDX-License-Identifier: BSD-3-Clause
// Any firmware commands of a DevX client, and any walk over the keys that they make. A word
// 0xfade00NN of a command stands for a protection domain (NN 0) or a key made before.
#include "client_arena_fixture.hh"
#include "fake_clock_fixture.hh"
#include "input_fixture.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/mkc.hh"
#include "kilim/prm/umr_seg.hh"
#include "request_fixture.hh"
#include "vhca/hca/commands.hh"
#include "vhca/tpt/transfer.hh"

namespace kilim::fuzz {

using kilim::test::Client;
using kilim::test::Ioctl;

namespace {

constexpr uint32_t token = 0xfade0000;
enum class Ask : uint8_t { other, create, destroy, direct, walk };
constexpr uint8_t asks = 5;

struct Firmware {
  Firmware() {
    client.alloc_pd(pd_handle, &pdn);
    std::byte* memory = reinterpret_cast<std::byte*>(arena_rings);
    ib_uverbs_reg_mr_resp mr{};
    client.reg_mr(pd_handle, memory, 8192, vhca::access::local_write, &mr);
    keys.push_back(mr.lkey);
  }
  void step(Input& in);
  void create(Input& in);
  void walk(Input& in);
  std::vector<std::byte> command(Input& in);

  Client client;
  uint32_t pd_handle = 0, pdn = 0;
  std::vector<uint32_t> keys;
  std::vector<uint32_t> handles;
};

std::vector<std::byte> Firmware::command(Input& in) {
  std::vector<std::byte> bytes = in.bytes(in.take<uint16_t>() % 2048);
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    be32 w;
    std::memcpy(&w, bytes.data() + at, sizeof(w));
    if ((w.host() & 0xffffff00u) != token) continue;
    uint32_t n = w.host() & 0xff;
    w = be32{n == 0 ? pdn : keys[(n - 1) % keys.size()]};
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
  if (io.run(*client.file) != 0 || out == nullptr) return;
  handles.push_back(static_cast<uint32_t>(io.attr(0).data));
  prm::CreateMkeyOut made;
  std::memcpy(&made, out, sizeof(made));
  const vhca::Mkey* m = client.hca->keys.at(made.mkey_index.host() & 0xffffff);
  if (m != nullptr) keys.push_back(m->key);
}

// What a work request would do with a key: read all that it shows.
void Firmware::walk(Input& in) {
  uint32_t key = keys[in.take<uint8_t>() % keys.size()];
  uint64_t at = in.take<uint64_t>();
  std::vector<std::byte> to(in.take<uint16_t>());
  vhca::Hca& h = *client.hca;
  vhca::Segment s{at, to.size(), key, false};
  vhca::SegmentList list{{&s, 1}, {Pdn{pdn}, 0x40, prm::mkey::local_read}};
  (void)gather_bytes(h.context.translator, list, to.data(), to.size());
}

void Firmware::step(Input& in) {
  switch (static_cast<Ask>(in.take<uint8_t>() % asks)) {
    case Ask::other: {
      std::vector<std::byte> cmd = command(in);
      uint16_t n = in.take<uint16_t>() % 8192;
      Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER)
          .raw(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, static_cast<uint16_t>(cmd.size()),
               reinterpret_cast<uintptr_t>(place(cmd)))
          .raw(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, n, reinterpret_cast<uintptr_t>(place(n)))
          .run(*client.file);
      return;
    }
    case Ask::create:
      return create(in);
    case Ask::destroy: {
      uint8_t n = in.take<uint8_t>();
      client.destroy(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
                     MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE,
                     handles.empty() ? n : handles[n % handles.size()]);
      return;
    }
    case Ask::direct: {
      std::vector<std::byte> cmd = command(in);
      std::vector<std::byte> out(in.take<uint16_t>() % 8192);
      vhca::command(*client.hca, cmd, out);
      return;
    }
    case Ask::walk:
      return walk(in);
  }
}

Script& command(Script& s, Ask ask, std::span<const std::byte> bytes) {
  s.put(static_cast<uint8_t>(ask), static_cast<uint16_t>(bytes.size()));
  return s.bytes(bytes);
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
  return {{"keys by command", keys_seed()}, {"queries", queries_seed()}};
}

void run_input(Input in) {
  reset_arena();
  reset_clock();
  Firmware f;
  for (int n = 0; n < 64 && !in.done(); n++) f.step(in);
}

}  // namespace kilim::fuzz
