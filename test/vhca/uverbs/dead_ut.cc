// SPDX-License-Identifier: BSD-3-Clause
// What the kernel's ABI answers when the adapter is dead, method by method: as mlx5_ib does when
// mlx5_core is in its internal error state (Linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c,
// mlx5_internal_err_ret_value()).
#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include <unistd.h>

#include "kilim/prm/cmd.hh"
#include "make_key_fixture.hh"
#include "request_fixture.hh"
#include "ut.hh"
#include "vhca/core/lock.hh"
#include "vhca/hca/fatal.hh"

namespace dead_ut {
namespace {

using namespace kilim;
using namespace kilim::test;
using vhca::uverbs::DeviceFile;

void kill_adapter(Client& c) {
  const vhca::LockGuard guard(c.hca->lock);
  die(*c.hca);
}

// A write command whose every byte is 1s: it names nothing that is there.
int ask(DeviceFile& file, uint32_t command) {
  std::array<std::byte, 256> in{};
  std::array<std::byte, 512> out{};
  in.fill(std::byte{0xff});
  return write_command(command)
      .raw(UVERBS_ATTR_CORE_IN, in.size(), reinterpret_cast<uintptr_t>(in.data()))
      .raw(UVERBS_ATTR_CORE_OUT, out.size(), reinterpret_cast<uintptr_t>(out.data()))
      .run(file);
}

constexpr uint32_t ex = IB_USER_VERBS_CMD_FLAG_EXTENDED;

constexpr uint32_t refused[] = {
    IB_USER_VERBS_CMD_QUERY_PORT,
    IB_USER_VERBS_CMD_ALLOC_PD,
    IB_USER_VERBS_CMD_REG_MR,
    IB_USER_VERBS_CMD_REREG_MR,
    IB_USER_VERBS_CMD_ALLOC_MW,
    IB_USER_VERBS_CMD_RESIZE_CQ,
    IB_USER_VERBS_CMD_CREATE_CQ,
    IB_USER_VERBS_CMD_CREATE_QP,
    IB_USER_VERBS_CMD_QUERY_QP,
    IB_USER_VERBS_CMD_ATTACH_MCAST,
    IB_USER_VERBS_CMD_CREATE_SRQ,
    IB_USER_VERBS_CMD_CREATE_XSRQ,
    IB_USER_VERBS_CMD_MODIFY_SRQ,
    IB_USER_VERBS_CMD_QUERY_SRQ,
    IB_USER_VERBS_CMD_OPEN_XRCD,
    ex | IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
    ex | IB_USER_VERBS_EX_CMD_CREATE_CQ,
    ex | IB_USER_VERBS_EX_CMD_MODIFY_CQ,
    ex | IB_USER_VERBS_EX_CMD_CREATE_QP,
    ex | IB_USER_VERBS_EX_CMD_CREATE_WQ,
    ex | IB_USER_VERBS_EX_CMD_MODIFY_WQ,
    ex | IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL,
    ex | IB_USER_VERBS_EX_CMD_CREATE_FLOW,
};

constexpr uint32_t answered[] = {
    IB_USER_VERBS_CMD_QUERY_DEVICE,
    IB_USER_VERBS_CMD_DEALLOC_PD,
    IB_USER_VERBS_CMD_CREATE_AH,
    IB_USER_VERBS_CMD_DESTROY_AH,
    IB_USER_VERBS_CMD_DEREG_MR,
    IB_USER_VERBS_CMD_DEALLOC_MW,
    IB_USER_VERBS_CMD_DESTROY_CQ,
    IB_USER_VERBS_CMD_OPEN_QP,
    IB_USER_VERBS_CMD_DESTROY_QP,
    IB_USER_VERBS_CMD_DETACH_MCAST,
    IB_USER_VERBS_CMD_DESTROY_SRQ,
    IB_USER_VERBS_CMD_CLOSE_XRCD,
    ex | IB_USER_VERBS_EX_CMD_DESTROY_WQ,
    ex | IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL,
    ex | IB_USER_VERBS_EX_CMD_DESTROY_FLOW,
};

void commands_that_need_the_card_are_refused() {
  Client c;
  for (uint32_t command : refused) CU_ASSERT(ask(*c.file, command) != -EIO);
  kill_adapter(c);
  for (uint32_t command : refused) EQUAL(ask(*c.file, command), -EIO);
}

void commands_that_the_kernel_does_alone_are_answered() {
  Client c, alive;
  kill_adapter(c);
  for (uint32_t command : answered) EQUAL(ask(*c.file, command), ask(*alive.file, command));
  int channel = -1;
  EQUAL(c.comp_channel(channel), 0);
  close(channel);
  EQUAL(c.async_fd(channel), 0);
  close(channel);
}

void it_is_not_opened_again() {
  Client c;
  DeviceFile second(*c.hca);
  kill_adapter(c);
  EQUAL(get_context(second), -EAGAIN);
  EQUAL(ask(second, IB_USER_VERBS_CMD_GET_CONTEXT), -EAGAIN);
}

int query_gid(DeviceFile& file, uint32_t index) {
  ib_uverbs_gid_entry entry{};
  return Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY)
      .in(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, uint32_t{1})
      .in(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, index)
      .in(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, uint32_t{0})
      .out(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, entry)
      .run(file);
}

int query_port(DeviceFile& file) {
  ib_uverbs_query_port_resp_ex resp{};
  return Ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT)
      .in(UVERBS_ATTR_QUERY_PORT_PORT_NUM, uint64_t{1})
      .out(UVERBS_ATTR_QUERY_PORT_RESP, resp)
      .run(file);
}

int alloc_dm(DeviceFile& file) {
  uint64_t offset = 0;
  uint16_t page = 0;
  return Ioctl(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC)
      .handle(UVERBS_ATTR_ALLOC_DM_HANDLE)
      .in(UVERBS_ATTR_ALLOC_DM_LENGTH, uint64_t{64})
      .in(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, uint32_t{0})
      .out(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, offset)
      .out(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, page)
      .run(file);
}

void methods_that_need_the_card_are_refused() {
  Client c;
  static Rings rings, more;
  uint32_t pd = 0, uar = 0, cq = 0, handle = 0;
  EQUAL_FATAL(rings.begin(c, pd, uar, cq), 0);
  kill_adapter(c);
  EQUAL(c.alloc_uar(handle), -EIO);
  EQUAL(more.create_cq(c, uar, -1, 2, handle), -EIO);
  EQUAL(rings.create_qp(c, rings.driver_part(uar), IB_UVERBS_QPT_RC, pd, cq, handle), -EIO);
  EQUAL(alloc_dm(*c.file), -EIO);
  EQUAL(query_port(*c.file), -EIO);
  EQUAL(query_gid(*c.file, 0), 0);  // ib_core's own table
}

// What changes a queue pair, as MODIFY_QP and as its extended form.
int modify(Client& c, uint32_t qp, uint32_t mask, vhca::QpState to) {
  ib_uverbs_ex_modify_qp cmd{};
  cmd.base.qp_handle = qp;
  cmd.base.attr_mask = mask;
  cmd.base.qp_state = static_cast<uint8_t>(to);
  cmd.base.port_num = 1;
  ib_uverbs_ex_modify_qp_resp resp{};
  const int plain = run_command(c, IB_USER_VERBS_CMD_MODIFY_QP, cmd.base);
  const int extended = write_command(ex | IB_USER_VERBS_EX_CMD_MODIFY_QP)
                           .in(UVERBS_ATTR_CORE_IN, cmd.base)
                           .out(UVERBS_ATTR_CORE_OUT, resp)
                           .run(*c.file);
  return plain == extended ? plain : 1;
}

int devx_modify(Client& c, uint32_t qp, uint16_t opcode, uint32_t qpn) {
  std::array<std::byte, 512> in{};
  std::array<std::byte, 512> out{};
  const be16 code{opcode};
  const be32 number{qpn};
  std::memcpy(in.data(), &code, sizeof(code));
  std::memcpy(in.data() + 8, &number, sizeof(number));
  return Ioctl(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY)
      .handle(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, qp)
      .out(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, in)
      .out(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, out)
      .run(*c.file);
}

struct Queue {
  explicit Queue(Client& c) {
    uint32_t uar = 0, cq = 0;
    EQUAL_FATAL(rings.begin(c, pd, uar, cq), 0);
    EQUAL_FATAL(rings.create_qp(c, rings.driver_part(uar), IB_UVERBS_QPT_RC, pd, cq, qp), 0);
  }
  Rings rings;
  uint32_t pd = 0, qp = 0;
};

void queues_can_be_ended_and_nothing_else() {
  namespace mask = vhca::qp_mask;
  Client c;
  const auto q = std::make_unique<Queue>(c);
  const uint32_t first = mask::state | mask::pkey_index | mask::port | mask::access;
  EQUAL_FATAL(modify(c, q->qp, first, vhca::QpState::init), 0);
  kill_adapter(c);
  EQUAL(modify(c, q->qp, first, vhca::QpState::init), -EIO);
  EQUAL(modify(c, q->qp, mask::access, vhca::QpState::err), -EIO);
  EQUAL(modify(c, q->qp, mask::state, vhca::QpState::err), 0);
  EQUAL(devx_modify(c, q->qp, prm::cmd::qp_init2init, q->rings.qpn), -EIO);
  EQUAL(devx_modify(c, q->qp, prm::cmd::qp_2err, q->rings.qpn), 0);
  EQUAL(modify(c, q->qp, mask::state, vhca::QpState::reset), 0);
  EQUAL(devx_modify(c, q->qp, prm::cmd::qp_2rst, q->rings.qpn), 0);
  ib_uverbs_destroy_qp_resp resp{};
  EQUAL(q->rings.destroy_qp(c, q->qp, resp), 0);
}

prm::CreateMkeyIn key_in(uint32_t pdn) {
  prm::CreateMkeyIn in{};
  in.opcode = be16{prm::cmd::create_mkey};
  in.mkc.flags = be32{prm::mkc::free::at(1u) | prm::mkc::umr_en::at(1u) |
                      prm::mkc::access_mode_1_0::at(prm::mkc::access_mode_klm)};
  in.mkc.qpn_mkey = be32{0xffffff00u};
  in.mkc.flags_pd = be32{pdn};
  in.mkc.translations_octword_size = be32{4};
  return in;
}

// Commands of the firmware come to nothing, but what was made by them goes.
void devx_makes_and_asks_nothing() {
  Client c;
  uint32_t pd = 0, pdn = 0, key = 0, another = 0;
  EQUAL_FATAL(c.alloc_pd(pd, &pdn), 0);
  const prm::CreateMkeyIn in = key_in(pdn);
  std::array<uint8_t, 16> out{};
  EQUAL_FATAL(create_mkey(c, in, out.data(), key), 0);
  kill_adapter(c);
  EQUAL(create_mkey(c, in, out.data(), another), -EIO);
  std::array<uint8_t, 16> caps{0x01, 0x00};
  EQUAL(Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER)
            .out(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, caps)
            .out(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, out)
            .run(*c.file),
        -EIO);
  EQUAL(c.destroy(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
                  MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, key),
        0);
  EQUAL(c.destroy_pd(pd), 0);
}

const kilim::test::Case cases[] = {
    {"commands that need the card are refused", commands_that_need_the_card_are_refused},
    {"commands that the kernel does alone are answered",
     commands_that_the_kernel_does_alone_are_answered},
    {"it is not opened again", it_is_not_opened_again},
    {"methods that need the card are refused", methods_that_need_the_card_are_refused},
    {"queues can be ended and nothing else", queues_can_be_ended_and_nothing_else},
    {"DevX makes and asks nothing", devx_makes_and_asks_nothing},
};

}  // namespace
}  // namespace dead_ut

KILIM_TEST_SUITE(dead, dead_ut::cases)
