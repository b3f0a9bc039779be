// SPDX-License-Identifier: BSD-3-Clause
// DevX: capabilities by profile, keys by command, commands refused with status and syndrome.
#include <tuple>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/hca_cap.hh"
#include "kilim/prm/mkc.hh"
#include "make_key_fixture.hh"
#include "request_fixture.hh"
#include "ut.hh"
#include "vhca/hca/objects.hh"

namespace devx_ut {
namespace {

using namespace kilim::test;
namespace prm = kilim::prm;

int devx(Client& c, const std::vector<uint8_t>& in, std::vector<uint8_t>& out) {
  return Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER)
      .raw(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, static_cast<uint16_t>(in.size()),
           reinterpret_cast<uintptr_t>(in.data()))
      .raw(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, static_cast<uint16_t>(out.size()),
           reinterpret_cast<uintptr_t>(out.data()))
      .run(*c.file);
}

uint32_t cap_of(const char* profile, prm::CapField field, unsigned group) {
  Client c(profile);
  std::vector<uint8_t> in(16), out(16 + 4096);
  in[0] = 1;  // QUERY_HCA_CAP, current
  in[7] = static_cast<uint8_t>(group << 1 | 1);
  EQUAL(devx(c, in, out), 0);
  EQUAL(out[0], 0);
  return prm::cap_get(std::as_bytes(std::span(out)).subspan(16), field);
}

uint32_t general_cap(const char* profile, prm::CapField field) {
  return cap_of(profile, field, 0);
}

// The numbers are those of Linux mlx5_ifc.h: bit offset, width.
void ethernet_capabilities_follow_the_profile() {
  struct Row {
    prm::CapField field;
    uint32_t here, without;
  };
  for (const Row& row : {Row{{0, 1}, 1, 1}, Row{{1, 1}, 1, 1}, Row{{7, 1}, 1, 0},
                         Row{{11, 5}, 18, 0}, Row{{18, 2}, 2, 2}, Row{{25, 1}, 1, 1}}) {
    EQUAL(cap_of("cx6dx", row.field, 1), row.here);
    EQUAL(cap_of("no-tx-offloads", row.field, 1), row.without);
    EQUAL(cap_of("infiniband", row.field, 1), 0);
  }
  EQUAL(cap_of("cx6dx", {26, 1}, 1), 1);
  EQUAL(cap_of("no-mpw", {26, 1}, 1), 0);
}

// Linux vport.c, mlx5_query_min_inline(): 0 Ethernet, 1 as the context says, 2 nothing.
void inlined_headers_are_told_by_the_group_and_the_ports_context() {
  for (auto [profile, group, context] : {std::tuple{"cx6dx", 2u, 0}, std::tuple{"inline-l2", 0u, 1},
                                         std::tuple{"inline-ip", 1u, 2}}) {
    EQUAL(cap_of(profile, {18, 2}, 1), group);
    Client c(profile);
    std::vector<uint8_t> in{0x07, 0x54}, out(16 + 256);
    in.resize(16);
    EQUAL(devx(c, in, out), 0);
    EQUAL(out[16] & 7, context);
  }
}

void capabilities_follow_the_profile() {
  for (auto [profile, fence] : {std::pair{"cx6dx", 1u}, {"strong-fence", 0u}, {"no-fence", 2u}})
    EQUAL(general_cap(profile, prm::hca_cap::umr_fence), fence);
  EQUAL(general_cap("cx6dx", prm::hca_cap::max_indirection), 4);
  EQUAL(general_cap("cx6dx", prm::hca_cap::fixed_buffer_size), 1);
  EQUAL(general_cap("cx6dx", prm::hca_cap::log_max_klm_list_size), 16);
  EQUAL(general_cap("cx6dx", prm::hca_cap::max_wqe_sz_sq), 1024);
  EQUAL(general_cap("cx6dx", prm::hca_cap::port_type), 1);
}

// Room for more than this firmware knows stays zero.
void a_longer_answer_is_taken() {
  Client c;
  for (const std::size_t more : {1, 4096, 60000}) {
    std::vector<uint8_t> in(16), out(16 + 4096 + more, 0xff);
    in[0] = in[7] = 1;
    EQUAL(devx(c, in, out), 0);
    EQUAL(
        prm::cap_get(std::as_bytes(std::span(out)).subspan(16, 4096), prm::hca_cap::max_wqe_sz_sq),
        1024);
    for (std::size_t i = 16 + 4096; i < out.size(); i++) EQUAL_FATAL(out[i], 0);
  }
}

void commands_are_refused_with_status_and_syndrome() {
  Client c;
  std::vector<uint8_t> in(16), out(16 + 4096), small(16);
  in[0] = in[7] = 1;
  EQUAL(devx(c, in, small), 0);  // who asks for nothing of a group gets nothing
  EQUAL(devx(c, {7, 0x54, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, small), -EREMOTEIO);
  EQUAL(small[0], 0x51);  // output too short
  in[6] = 0xff;
  EQUAL(devx(c, in, out), -EREMOTEIO);
  EQUAL(out[0], 0x03);
  CU_ASSERT(out[4] != 0 || out[5] != 0 || out[6] != 0 || out[7] != 0);
  in = std::vector<uint8_t>(16);
  in[0] = 0x07;  // QUERY_ADAPTER 0x101 is let pass, an unknown one is not
  EQUAL(devx(c, in, out), -EINVAL);
  in[0] = in[1] = 1;
  EQUAL(devx(c, in, out), -EREMOTEIO);
  EQUAL(out[0], 0x02);  // known to mlx5_ib, not to this firmware
  std::vector<uint8_t> tiny(8);
  EQUAL(devx(c, tiny, out), -EINVAL);
}

void keys_are_made_and_destroyed_by_command() {
  Client c;
  uint32_t pd, pdn, handle;
  EQUAL_FATAL(c.alloc_pd(pd, &pdn), 0);
  prm::CreateMkeyIn in{};
  in.opcode = kilim::be16{prm::cmd::create_mkey};
  in.mkc.flags = kilim::be32{prm::mkc::free::at(1u) | prm::mkc::umr_en::at(1u) |
                             prm::mkc::local_read::at(1u) | prm::mkc::access_mode_1_0::at(2u)};
  in.mkc.qpn_mkey = kilim::be32{0xffffff00};
  in.mkc.flags_pd = kilim::be32{pdn};
  in.mkc.translations_octword_size = kilim::be32{4};
  uint8_t out[16]{};
  EQUAL(create_mkey(c, in, out, handle), 0);
  CU_ASSERT((out[9] | out[10] | out[11]) != 0);
  EQUAL(c.destroy(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
                  MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, handle),
        0);
  // A list that is said to be longer than the command, a key of no PD, and one of pages.
  prm::CreateMkeyIn bad = in;
  bad.translations_octword_actual_size = kilim::be32{0xffffffff};
  EQUAL(create_mkey(c, bad, out, handle), -EREMOTEIO);
  EQUAL(out[0], 0x50);
  bad = in;
  bad.mkc.flags_pd = kilim::be32{pdn + 5};
  EQUAL(create_mkey(c, bad, out, handle), -EREMOTEIO);
  EQUAL(out[0], 0x05);
  bad = in;
  prm::mkc::access_mode_1_0::set(bad.mkc, 1u);
  EQUAL(create_mkey(c, bad, out, handle), -EREMOTEIO);
  EQUAL(out[0], 0x03);
  EQUAL(c.destroy_pd(pd), 0);
}

int on_object(Client& c, bool query, uint32_t handle, uint16_t opcode, uint32_t number,
              std::vector<uint8_t>& out) {
  std::vector<uint8_t> in(16);
  in[0] = static_cast<uint8_t>(opcode >> 8);
  in[1] = static_cast<uint8_t>(opcode);
  for (int i = 0; i < 3; i++) in[9 + i] = static_cast<uint8_t>(number >> (16 - 8 * i));
  uint16_t first = query ? uint16_t{MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE}
                         : uint16_t{MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE};
  return Ioctl(MLX5_IB_OBJECT_DEVX_OBJ,
               static_cast<uint16_t>(query ? MLX5_IB_METHOD_DEVX_OBJ_QUERY
                                           : MLX5_IB_METHOD_DEVX_OBJ_MODIFY))
      .handle(first, handle)
      .raw(static_cast<uint16_t>(first + 1), 16, reinterpret_cast<uintptr_t>(in.data()))
      .raw(static_cast<uint16_t>(first + 2), static_cast<uint16_t>(out.size()),
           reinterpret_cast<uintptr_t>(out.data()))
      .run(*c.file);
}

void general_commands_are_those_of_the_kernel_s_list() {
  Client c;
  std::vector<uint8_t> out(16);
  auto asked = [&](int opcode) {
    std::vector<uint8_t> in(16);
    in[0] = static_cast<uint8_t>(opcode >> 8);
    in[1] = static_cast<uint8_t>(opcode);
    return devx(c, in, out);
  };
  EQUAL(asked(0x80d) | asked(0x842), 0);  // NOP, QUERY_LAG
  for (int opcode : {0x752, 0x76f, 0x770, 0x822, 0xb00, 0xcff})
    EQUAL(asked(opcode), -EREMOTEIO);  // let pass, and not known here
  // Others' objects, port modules, ends of the range: refused before the firmware sees them.
  for (int opcode : {0x718, 0x740, 0x773, 0x803, 0xaff, 0xd00}) EQUAL(asked(opcode), -EINVAL);
}

void a_key_is_asked_by_its_handle() {
  Client c;
  uint32_t pd, pdn, handle;
  EQUAL_FATAL(c.alloc_pd(pd, &pdn), 0);
  prm::CreateMkeyIn in{};
  in.opcode = kilim::be16{prm::cmd::create_mkey};
  in.mkc.flags =
      kilim::be32{prm::mkc::free::at(1u) | prm::mkc::umr_en::at(1u) | prm::mkc::local_read::at(1u) |
                  prm::mkc::remote_write::at(1u) | prm::mkc::access_mode_1_0::at(2u)};
  in.mkc.qpn_mkey = kilim::be32{0xffffff42};
  in.mkc.flags_pd = kilim::be32{pdn};
  in.mkc.start_addr = kilim::be64{0x123456789000};
  in.mkc.len = kilim::be64{0x8000};
  in.mkc.translations_octword_size = kilim::be32{4};
  uint8_t made[16]{};
  EQUAL_FATAL(create_mkey(c, in, made, handle), 0);
  uint32_t index = uint32_t{made[9]} << 16 | uint32_t{made[10]} << 8 | made[11];
  std::vector<uint8_t> out(16 + sizeof(prm::Mkc)), small(16);
  EQUAL(on_object(c, true, handle, prm::cmd::query_mkey, index, out), 0);
  EQUAL(std::memcmp(out.data() + 16, &in.mkc, sizeof in.mkc), 0);
  EQUAL(on_object(c, true, handle, prm::cmd::query_mkey, index, small), -EREMOTEIO);
  EQUAL(small[0], 0x51);
  // Another key than the handle's, another kind of object, an opcode that changes, no object.
  EQUAL(on_object(c, true, handle, prm::cmd::query_mkey, index + 1, out), -EINVAL);
  EQUAL(on_object(c, true, pd, prm::cmd::query_mkey, index, out), -EINVAL);
  EQUAL(on_object(c, true, handle, prm::cmd::destroy_mkey, index, out), -EINVAL);
  EQUAL(on_object(c, true, 0xfffff, prm::cmd::query_mkey, index, out), -ENOENT);
  EQUAL(c.destroy(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
                  MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, handle),
        0);
  EQUAL(c.destroy_pd(pd), 0);
}

void a_queue_pair_is_ended_by_command() {
  Client c;
  auto rings = std::make_unique<Rings>();
  uint32_t pd, uar, cq, qp;
  EQUAL_FATAL(c.alloc_pd(pd), 0);
  EQUAL_FATAL(c.alloc_uar(uar), 0);
  EQUAL_FATAL(rings->create_cq(c, uar, -1, 1, cq), 0);
  EQUAL_FATAL(rings->create_qp(c, rings->driver_part(uar), 2, pd, cq, qp), 0);
  uint32_t qpn = 0;
  for (uint32_t n = 1; n < 1u << 24 && qpn == 0; n++) {
    if (c.hca->qps.at(n) != nullptr) qpn = n;
  }
  const kilim::vhca::wq::Qp* q = c.hca->qps.at(qpn);
  CU_ASSERT_FATAL(q != nullptr);
  std::vector<uint8_t> out(16);
  // From reset there is no way into error.
  EQUAL(on_object(c, false, qp, prm::cmd::qp_2err, qpn, out), -EREMOTEIO);
  EQUAL(out[0], 0x09);
  kilim::vhca::QpAttr init;
  init.state = kilim::vhca::QpState::init;
  init.port = 1;
  namespace mask = kilim::vhca::qp_mask;
  EQUAL(modify_qp(*c.hca, kilim::Qpn{qpn}, init,
                  mask::state | mask::port | mask::pkey_index | mask::access),
        0);
  EQUAL(on_object(c, false, qp, prm::cmd::qp_2err, qpn, out), 0);
  EQUAL(q->state, kilim::vhca::QpState::err);
  EQUAL(on_object(c, false, qp, prm::cmd::qp_2rst, qpn, out), 0);
  EQUAL(q->state, kilim::vhca::QpState::reset);
  // Known to the kernel, not done here; not a change; another queue.
  EQUAL(on_object(c, false, qp, 0x506, qpn, out), -EREMOTEIO);
  EQUAL(out[0], 0x02);
  EQUAL(on_object(c, false, qp, prm::cmd::query_qp, qpn, out), -EINVAL);
  EQUAL(on_object(c, false, qp, prm::cmd::qp_2rst, qpn + 1, out), -EINVAL);
}

uint32_t word(const std::vector<uint8_t>& v, std::size_t at) {
  kilim::be32 w{};
  std::memcpy(&w, v.data() + at, sizeof w);
  return w.host();
}

// A protection domain by command, with a key in it.
void a_domain_is_made_by_command() {
  Client c;
  std::vector<uint8_t> in(16), out(16);
  in[0] = 8;  // ALLOC_PD
  Ioctl io(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE);
  io.handle(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE)
      .raw(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, 16, reinterpret_cast<uintptr_t>(in.data()))
      .raw(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, 16, reinterpret_cast<uintptr_t>(out.data()));
  EQUAL_FATAL(io.run(*c.file), 0);
  const auto pd = static_cast<uint32_t>(io.attr(0).data);
  prm::CreateMkeyIn key{};
  key.opcode = kilim::be16{prm::cmd::create_mkey};
  key.mkc.flags = kilim::be32{prm::mkc::local_read::at(1u) | prm::mkc::access_mode_1_0::at(2u)};
  key.mkc.qpn_mkey = kilim::be32{0xffffff00};
  key.mkc.flags_pd = kilim::be32{word(out, 8)};
  key.mkc.translations_octword_size = kilim::be32{4};
  uint8_t made[16]{};
  uint32_t handle = 0;
  EQUAL_FATAL(create_mkey(c, key, made, handle), 0);
  auto end = [&](uint32_t what) {
    return c.destroy(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
                     MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, what);
  };
  EQUAL(end(pd), -EREMOTEIO);
  // The domain's handle is no key's, though the number may be.
  std::vector<uint8_t> asked(16 + sizeof(prm::Mkc));
  EQUAL(on_object(c, true, pd, prm::cmd::query_mkey, word(out, 8), asked), -EINVAL);
  EQUAL(end(handle), 0);
  EQUAL(end(pd), 0);
  // What is left goes with the client, keys before their domains.
  EQUAL_FATAL(io.run(*c.file), 0);
  key.mkc.flags_pd = kilim::be32{word(out, 8)};
  EQUAL_FATAL(create_mkey(c, key, made, handle), 0);
  EQUAL(c.hca->pds.count(), 1);
  c.file.reset();
  EQUAL(c.hca->pds.count(), 0);
}

// RTS2RTS_QP with a new UDP source port, as libmlx5 asks for it; QUERY_QP tells.
void a_running_queue_pair_is_changed_and_asked() {
  Client c;
  auto rings = std::make_unique<Rings>();
  uint32_t pd, uar, cq, handle;
  EQUAL_FATAL(c.alloc_pd(pd), 0);
  EQUAL_FATAL(c.alloc_uar(uar), 0);
  EQUAL_FATAL(rings->create_cq(c, uar, -1, 1, cq), 0);
  EQUAL_FATAL(rings->create_qp(c, rings->driver_part(uar), 2, pd, cq, handle), 0);
  kilim::vhca::wq::Qp* qp = nullptr;
  c.hca->qps.for_each([&](kilim::vhca::wq::Qp& q) { qp = &q; });
  CU_ASSERT_FATAL(qp != nullptr);
  std::vector<uint8_t> in(prm::qp_cmd::in_bytes), out(16), context(24 + 232);
  in[0] = 5;  // RTS2RTS_QP
  in[1] = 5;
  const kilim::be32 number{qp->qpn.value()};
  std::memcpy(in.data() + 8, &number, 4);
  auto change = [&] {
    return Ioctl(MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY)
        .handle(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, handle)
        .raw(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, static_cast<uint16_t>(in.size()),
             reinterpret_cast<uintptr_t>(in.data()))
        .raw(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, 16, reinterpret_cast<uintptr_t>(out.data()))
        .run(*c.file);
  };
  in[prm::qp_cmd::in_mask_95_32 + 7] = 4;
  in[24 + 58] = 0xd9;
  in[24 + 59] = 0x03;  // 55555
  EQUAL(change(), -EREMOTEIO);
  EQUAL(out[0], 0x09);  // it does not run
  qp->state = kilim::vhca::QpState::rts;
  EQUAL(change(), 0);
  EQUAL(qp->attr.path.udp_sport, 55555);
  EQUAL(on_object(c, true, handle, prm::cmd::query_qp, number.host(), context), 0);
  EQUAL(context[24] >> 4, 3);  // RTS
  EQUAL(context[25], 0);       // RC
  EQUAL(word(context, 24 + 4) & 0xffffff, qp->spec.pd.value());
  EQUAL(word(context, 24 + 124) & 0xffffff, qp->send_cq->cqn.value());
  EQUAL(context[24 + 58] << 8 | context[24 + 59], 55555);
  in[prm::qp_cmd::in_mask_95_32 + 7] = 8;  // what is not done here
  EQUAL(change(), -EREMOTEIO);
  EQUAL(out[0], 0x03);
  in.resize(200);
  EQUAL(change(), -EREMOTEIO);
  EQUAL(out[0], 0x50);
  qp->state = kilim::vhca::QpState::reset;
}

void the_completion_vector_has_an_event_queue() {
  Client c;
  auto eqn = [&](uint32_t vector, uint32_t& number) {
    return Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_EQN)
        .in(MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC, vector)
        .out(MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, number)
        .run(*c.file);
  };
  uint32_t number = 0;
  EQUAL(eqn(0, number), 0);
  CU_ASSERT(number != 0);
  EQUAL(eqn(1, number), -ENOENT);
}

void an_adapter_without_devx_has_no_devx_objects() {
  auto hca = make_hca("no-devx");
  kilim::vhca::uverbs::DeviceFile file(*hca);
  EQUAL(get_context(file), -EINVAL);
  EQUAL(get_context(file, 0), 0);
  EQUAL(Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER).run(file), -EPROTONOSUPPORT);
  // With DevX, but not asked for: there, and refused.
  Client with;
  kilim::vhca::uverbs::DeviceFile plain(*with.hca);
  EQUAL(get_context(plain, 0), 0);
  with.file.reset();
  uint8_t in[16]{1, 0, 0, 0, 0, 0, 0, 1}, out[16]{};
  EQUAL(Ioctl(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER)
            .out(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, in)
            .out(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, out)
            .run(plain),
        -EINVAL);
}

constexpr Case cases[] = {
    {"capabilities follow the profile", capabilities_follow_the_profile},
    {"Ethernet capabilities follow the profile", ethernet_capabilities_follow_the_profile},
    {"inlined headers are told by the group and the port's context",
     inlined_headers_are_told_by_the_group_and_the_ports_context},
    {"a longer answer is taken", a_longer_answer_is_taken},
    {"commands are refused with status and syndrome",
     commands_are_refused_with_status_and_syndrome},
    {"keys are made and destroyed by command", keys_are_made_and_destroyed_by_command},
    {"general commands are those of the kernel's list",
     general_commands_are_those_of_the_kernel_s_list},
    {"a key is asked by its handle", a_key_is_asked_by_its_handle},
    {"a queue pair is ended by command", a_queue_pair_is_ended_by_command},
    {"a domain is made by command", a_domain_is_made_by_command},
    {"a running queue pair is changed and asked", a_running_queue_pair_is_changed_and_asked},
    {"the completion vector has an event queue", the_completion_vector_has_an_event_queue},
    {"an adapter without DevX has no DevX objects", an_adapter_without_devx_has_no_devx_objects},
};

}  // namespace
}  // namespace devx_ut

KILIM_TEST_SUITE(devx, devx_ut::cases)
