// SPDX-License-Identifier: BSD-3-Clause
// DevX: capabilities by profile, keys by command, commands refused with status and syndrome.
#include <cerrno>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/hca_cap.hh"
#include "kilim/prm/mkc.hh"
#include "request.hh"
#include "ut.hh"

namespace {

using namespace kilim::test;
using kilim::vhca::DeviceFile;
namespace prm = kilim::prm;

int devx(Client& c, const std::vector<uint8_t>& in, std::vector<uint8_t>& out) {
  return Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER)
      .raw(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, static_cast<uint16_t>(in.size()),
           reinterpret_cast<uintptr_t>(in.data()))
      .raw(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, static_cast<uint16_t>(out.size()),
           reinterpret_cast<uintptr_t>(out.data()))
      .run(*c.file);
}

uint32_t general_cap(const char* profile, prm::CapField field) {
  Client c(profile);
  std::vector<uint8_t> in(16), out(16 + 4096);
  in[0] = 1;  // QUERY_HCA_CAP, general, current
  in[7] = 1;
  CU_ASSERT_EQUAL(devx(c, in, out), 0);
  CU_ASSERT_EQUAL(out[0], 0);
  return prm::cap_get(std::as_bytes(std::span(out)).subspan(16), field);
}

void capabilities_follow_the_profile() {
  CU_ASSERT_EQUAL(general_cap("cx6dx", prm::hca_cap::umr_fence), 1);
  CU_ASSERT_EQUAL(general_cap("strong-fence", prm::hca_cap::umr_fence), 0);
  CU_ASSERT_EQUAL(general_cap("no-fence", prm::hca_cap::umr_fence), 2);
  CU_ASSERT_EQUAL(general_cap("cx6dx", prm::hca_cap::max_indirection), 4);
  CU_ASSERT_EQUAL(general_cap("cx6dx", prm::hca_cap::log_max_klm_list_size), 16);
  CU_ASSERT_EQUAL(general_cap("cx6dx", prm::hca_cap::max_wqe_sz_sq), 1024);
  CU_ASSERT_EQUAL(general_cap("cx6dx", prm::hca_cap::port_type), 1);
}

void commands_are_refused_with_status_and_syndrome() {
  Client c;
  std::vector<uint8_t> in(16), out(16 + 4096), small(16);
  in[0] = 1;
  in[7] = 1;
  CU_ASSERT_EQUAL(devx(c, in, small), -EREMOTEIO);
  CU_ASSERT_EQUAL(small[0], 0x51);  // output too short
  in[6] = 0xff;                     // no such group
  CU_ASSERT_EQUAL(devx(c, in, out), -EREMOTEIO);
  CU_ASSERT_EQUAL(out[0], 0x03);
  CU_ASSERT(out[4] != 0 || out[5] != 0 || out[6] != 0 || out[7] != 0);
  in = std::vector<uint8_t>(16);
  in[0] = 0x07;  // QUERY_ADAPTER 0x101 is let pass, an unknown one is not
  CU_ASSERT_EQUAL(devx(c, in, out), -EINVAL);
  in[0] = in[1] = 1;
  CU_ASSERT_EQUAL(devx(c, in, out), -EREMOTEIO);
  CU_ASSERT_EQUAL(out[0], 0x02);  // known to mlx5_ib, not to this firmware
  std::vector<uint8_t> tiny(8);
  CU_ASSERT_EQUAL(devx(c, tiny, out), -EINVAL);
}

int create_mkey(Client& c, const prm::CreateMkeyIn& in, uint8_t* out, uint32_t& handle) {
  Ioctl io(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE);
  io.handle(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE)
      .raw(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, sizeof in, reinterpret_cast<uintptr_t>(&in))
      .raw(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, 16, reinterpret_cast<uintptr_t>(out));
  int err = io.run(*c.file);
  handle = static_cast<uint32_t>(io.attr(0).data);
  return err;
}

void keys_are_made_and_destroyed_by_command() {
  Client c;
  uint32_t pd, pdn, handle;
  CU_ASSERT_EQUAL_FATAL(c.alloc_pd(pd, &pdn), 0);
  prm::CreateMkeyIn in{};
  in.opcode = kilim::be16{prm::cmd::create_mkey};
  in.mkc.flags = kilim::be32{prm::mkc::free::at(1u) | prm::mkc::umr_en::at(1u) |
                             prm::mkc::local_read::at(1u) | prm::mkc::access_mode_1_0::at(2u)};
  in.mkc.qpn_mkey = kilim::be32{0xffffff00};
  in.mkc.flags_pd = kilim::be32{pdn};
  in.mkc.translations_octword_size = kilim::be32{4};
  uint8_t out[16]{};
  CU_ASSERT_EQUAL(create_mkey(c, in, out, handle), 0);
  CU_ASSERT((out[9] | out[10] | out[11]) != 0);
  CU_ASSERT_EQUAL(c.destroy(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
                            MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, handle),
                  0);
  // A list that is said to be longer than the command, a key of no PD, and one of pages.
  prm::CreateMkeyIn bad = in;
  bad.translations_octword_actual_size = kilim::be32{0xffffffff};
  CU_ASSERT_EQUAL(create_mkey(c, bad, out, handle), -EREMOTEIO);
  CU_ASSERT_EQUAL(out[0], 0x50);
  bad = in;
  bad.mkc.flags_pd = kilim::be32{pdn + 5};
  CU_ASSERT_EQUAL(create_mkey(c, bad, out, handle), -EREMOTEIO);
  CU_ASSERT_EQUAL(out[0], 0x05);
  bad = in;
  prm::mkc::access_mode_1_0::set(bad.mkc, 1u);
  CU_ASSERT_EQUAL(create_mkey(c, bad, out, handle), -EREMOTEIO);
  CU_ASSERT_EQUAL(out[0], 0x03);
  CU_ASSERT_EQUAL(c.destroy_pd(pd), 0);
}

void an_adapter_without_devx_has_no_devx_objects() {
  auto hca = make_hca("no-devx");
  DeviceFile file(*hca);
  CU_ASSERT_EQUAL(get_context(file), -EINVAL);
  CU_ASSERT_EQUAL(get_context(file, 0), 0);
  CU_ASSERT_EQUAL(Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER).run(file),
                  -EPROTONOSUPPORT);
  // With DevX, but not asked for: there, and refused.
  Client with;
  DeviceFile plain(*with.hca);
  CU_ASSERT_EQUAL(get_context(plain, 0), 0);
  with.file.reset();
  uint8_t in[16]{1, 0, 0, 0, 0, 0, 0, 1}, out[16]{};
  CU_ASSERT_EQUAL(Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER)
                      .out(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, in)
                      .out(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, out)
                      .run(plain),
                  -EINVAL);
}

constexpr Case cases[] = {
    {"capabilities follow the profile", capabilities_follow_the_profile},
    {"commands are refused with status and syndrome",
     commands_are_refused_with_status_and_syndrome},
    {"keys are made and destroyed by command", keys_are_made_and_destroyed_by_command},
    {"an adapter without DevX has no DevX objects", an_adapter_without_devx_has_no_devx_objects},
};

}  // namespace

KILIM_UT_MAIN("uverbs: DevX", cases)
