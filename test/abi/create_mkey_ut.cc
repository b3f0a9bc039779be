// SPDX-License-Identifier: BSD-3-Clause
// No installed header describes CREATE_MKEY: prm/mkc.hh is compared with the bytes that libmlx5
// sends, as the device's journal shows them, with a different value in every field that a caller of
// mlx5dv_create_mkey can choose.

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/mkc.hh"
#include "ut.hh"
#include "vhca/entry/attach.hh"

namespace prm = kilim::prm;

namespace create_mkey_ut {
namespace {

constexpr std::size_t shown = offsetof(prm::CreateMkeyIn, translations_octword_actual_size) + 4;

std::string journal_path() {
  return "/tmp/create_mkey_ut." + std::to_string(::getpid()) + ".json";
}

ibv_context* open_device() {
  static kilim::vhca::entry::Attached* attached = [] {
    kilim::DeviceSpec config;
    config.name = "mkeys0";
    config.journal = journal_path();
    std::atexit([] { ::unlink(journal_path().c_str()); });
    auto made = kilim::vhca::entry::attach(config);
    return made.ok() ? *made : nullptr;
  }();
  if (attached == nullptr) return nullptr;
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_context* context = nullptr;
  for (ibv_device** d = list; d != nullptr && *d != nullptr; d++)
    if (attached->name() == ibv_get_device_name(*d)) context = ibv_open_device(*d);
  ibv_free_device_list(list);
  return context;
}

// The input of the last CREATE_MKEY in the journal.
bool last_create_mkey(prm::CreateMkeyIn& cmd) {
  std::ifstream journal(journal_path());
  std::string line, last;
  const std::string opcode = "\"opcode\":" + std::to_string(prm::cmd::create_mkey) + ",";
  while (std::getline(journal, line))
    if (line.find("\"event\":\"command\"") != std::string::npos &&
        line.find(opcode) != std::string::npos)
      last = line;
  const std::size_t at = last.find("\"in\":\"");
  if (at == std::string::npos || last.size() < at + 6 + 2 * shown) return false;
  std::array<unsigned char, sizeof cmd> bytes{};
  for (std::size_t i = 0; i < shown; i++) {
    unsigned byte = 0;
    if (std::sscanf(last.c_str() + at + 6 + 2 * i, "%2x", &byte) != 1) return false;
    bytes[i] = static_cast<unsigned char>(byte);
  }
  std::memcpy(&cmd, bytes.data(), sizeof cmd);
  return true;
}

struct Request {
  uint16_t entries;
  uint64_t flags;
};

// What libmlx5 sent for this request, and the PD's number as the driver knows it.
bool sent(const Request& request, prm::CreateMkeyIn& cmd, uint32_t& pdn) {
  ibv_context* context = open_device();
  if (context == nullptr) return false;
  ibv_pd* skipped = ibv_alloc_pd(context);  // so that the number is not the first one
  ibv_pd* pd = ibv_alloc_pd(context);
  mlx5dv_pd numbers{};
  mlx5dv_obj obj{};
  obj.pd = {pd, &numbers};
  mlx5dv_mkey_init_attr attr{};
  attr.pd = pd;
  attr.create_flags = static_cast<uint32_t>(request.flags);
  attr.max_entries = request.entries;
  mlx5dv_mkey* key = nullptr;
  bool ok = pd != nullptr && mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD) == 0 &&
            (key = mlx5dv_create_mkey(&attr)) != nullptr;
  pdn = numbers.pdn;
  ok = ok && last_create_mkey(cmd);
  if (key != nullptr) mlx5dv_destroy_mkey(key);
  if (pd != nullptr) ibv_dealloc_pd(pd);
  if (skipped != nullptr) ibv_dealloc_pd(skipped);
  ibv_close_device(context);
  return ok;
}

void plain_key() {
  prm::CreateMkeyIn cmd;
  uint32_t pdn = 0;
  CU_ASSERT_FATAL(sent({0x123 * 4, MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT}, cmd, pdn));
  EQUAL(cmd.opcode.host(), prm::cmd::create_mkey);
  EQUAL(prm::mkc::free::get(cmd.mkc), 1);
  EQUAL(prm::mkc::umr_en::get(cmd.mkc), 1);
  EQUAL(prm::mkc::local_read::get(cmd.mkc), 1);
  EQUAL(prm::mkc::access_mode_1_0::get(cmd.mkc), prm::mkc::access_mode_klm);
  EQUAL(prm::mkc::access_mode_4_2::get(cmd.mkc), 0);
  CU_ASSERT(pdn != 0);
  EQUAL(prm::mkc::pd::get(cmd.mkc), pdn);
  EQUAL(cmd.mkc.translations_octword_size.host(), 0x123 * 4);
  EQUAL(prm::mkc::en_rinval::get(cmd.mkc), 0);
  EQUAL(prm::mkc::bsf_en::get(cmd.mkc), 0);
}

void remotely_invalidated_key() {
  prm::CreateMkeyIn cmd;
  uint32_t pdn = 0;
  CU_ASSERT_FATAL(sent(
      {16, MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE},
      cmd, pdn));
  EQUAL(prm::mkc::en_rinval::get(cmd.mkc), 1);
  EQUAL(prm::mkc::pd::get(cmd.mkc), pdn);
  EQUAL(cmd.mkc.translations_octword_size.host(), 16);
}

const kilim::test::Case cases[] = {
    {"an indirect key's fields lie where libmlx5 writes them", plain_key},
    {"remote invalidation is the bit that libmlx5 sets", remotely_invalidated_key},
};

}  // namespace
}  // namespace create_mkey_ut

KILIM_TEST_SUITE(create_mkey, create_mkey_ut::cases)
