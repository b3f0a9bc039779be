// SPDX-License-Identifier: BSD-3-Clause
// Steering rules that no client library would send: specs that lie about their sizes, layers that
// contradict each other. Each gets the kernel's errno, and no rule is left.
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "case_tables.hh"
#include "receive_request_cases.hh"
#include "request_fixture.hh"
#include "ut.hh"

namespace flow_ut {
namespace {

using namespace kilim::test;

// enum ib_flow_spec_type of the kernel.
constexpr uint32_t eth = 0x20, ipv4 = 0x30, tcp = 0x40, udp = 0x41, vxlan = 0x50, gre = 0x51,
                   inner = 0x100, unknown = 0x70;

// A client with a raw packet queue, whose rules are tried.
struct Bench {
  Bench() {
    EQUAL_FATAL(c.opened, 0);
    uint32_t pd = 0, uar = 0, cq = 0;
    EQUAL_FATAL(r.begin(c, pd, uar, cq), 0);
    mlx5_ib_create_qp cmd = r.driver_part(uar);
    cmd.flags = MLX5_QP_FLAG_UAR_PAGE_INDEX;
    cmd.sq_buf_addr = cmd.buf_addr + 4096;
    EQUAL_FATAL(r.create_qp(c, cmd, IB_UVERBS_QPT_RAW_PACKET, pd, cq, qp), 0);
    EQUAL_FATAL(r.create_qp(c, r.driver_part(uar), IB_UVERBS_QPT_RC, pd, cq, rc), 0);
  }
  Client c;
  Rings r;
  uint32_t qp = 0, rc = 0;
};

// ib_uverbs_create_flow without the array at its end, which a class cannot have.
struct Command {
  uint32_t comp_mask, qp_handle;
  struct {
    uint32_t type;
    uint16_t size, priority;
    uint8_t num_of_specs, reserved[2], port;
    uint32_t flags;
  } flow_attr;
};
static_assert(sizeof(Command) == sizeof(ib_uverbs_create_flow));

// The command and the specs behind it.
class Rule {
 public:
  explicit Rule(uint32_t qp) {
    cmd.qp_handle = qp;
    cmd.flow_attr.port = 1;
  }
  template <typename T>
  Rule& add(uint32_t type, T spec = {}) {
    spec.type = type;
    spec.size = sizeof spec;
    for (const std::byte b : std::as_bytes(std::span(&spec, 1))) specs.push_back(b);
    cmd.flow_attr.num_of_specs++;
    cmd.flow_attr.size = static_cast<uint16_t>(specs.size());
    return *this;
  }
  ib_uverbs_flow_spec_hdr& spec(std::size_t at = 0) {
    return *reinterpret_cast<ib_uverbs_flow_spec_hdr*>(specs.data() + at);
  }
  int run(Client& c) {
    std::vector<std::byte> bytes(sizeof cmd);
    std::memcpy(bytes.data(), &cmd, sizeof cmd);
    bytes.insert(bytes.end(), specs.begin(), specs.end());
    ib_uverbs_create_flow_resp resp{};
    constexpr uint32_t number = IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_FLOW;
    int err = write_command(number)
                  .raw(UVERBS_ATTR_CORE_IN, static_cast<uint16_t>(bytes.size()),
                       reinterpret_cast<uintptr_t>(bytes.data()))
                  .out(UVERBS_ATTR_CORE_OUT, resp)
                  .run(*c.file);
    if (err != 0) return err;
    return c.destroy(UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY,
                     UVERBS_ATTR_DESTROY_FLOW_HANDLE, resp.flow_handle);
  }

  std::vector<std::byte> specs;
  Command cmd{};
};

using Eth = ib_uverbs_flow_spec_eth;
using Ipv4 = ib_uverbs_flow_spec_ipv4;
using Ports = ib_uverbs_flow_spec_tcp_udp;

Ipv4 carrying(uint8_t protocol, uint8_t mask) {
  Ipv4 s{};
  s.val.proto = protocol;
  s.mask.proto = mask;
  return s;
}

void rules_of_all_layers_are_taken() {
  Bench b;
  EQUAL(Rule(b.qp).run(b.c), 0);
  EQUAL(Rule(b.qp).add<Eth>(eth).run(b.c), 0);
  EQUAL(Rule(b.qp).add<Eth>(eth).add<Ipv4>(ipv4).add<Ports>(udp).run(b.c), 0);
  // Layers that say the same of a protocol in any order, and a value without a mask.
  EQUAL(Rule(b.qp).add(ipv4, carrying(6, 0xff)).add<Ports>(tcp).run(b.c), 0);
  EQUAL(Rule(b.qp).add<Ports>(tcp).add(ipv4, carrying(6, 0xff)).run(b.c), 0);
  EQUAL(Rule(b.qp).add(ipv4, carrying(17, 0)).add<Ports>(tcp).run(b.c), 0);
  // IP behind labels.
  Eth mpls{};
  mpls.val.ether_type = 0x4788;
  mpls.mask.ether_type = 0xffff;
  EQUAL(Rule(b.qp).add(eth, mpls).add<Ipv4>(ipv4).run(b.c), 0);
  Rule longer = Rule(b.qp).add<Eth>(eth);
  longer.specs.resize(longer.specs.size() + 300);
  EQUAL(longer.run(b.c), 0);  // nothing but zeros behind the specs
}

struct Wrong {
  const char* what;
  int error;
  void (*spoil)(Rule&);
};
constexpr Wrong commands[] = {
    {"compatibility mask", -EINVAL, [](Rule& r) { r.cmd.comp_mask = 1; }},
    {"queue of nobody", -EINVAL, [](Rule& r) { r.cmd.qp_handle += 100; }},
    {"port", -EINVAL, [](Rule& r) { r.cmd.flow_attr.port = 2; }},
    {"unknown flag", -EINVAL, [](Rule& r) { r.cmd.flow_attr.flags = 8; }},
    {"rule that does not trap", -EOPNOTSUPP, [](Rule& r) { r.cmd.flow_attr.flags = 2; }},
    {"type", -EINVAL, [](Rule& r) { r.cmd.flow_attr.type = 4; }},
    {"priority", -ENOSPC, [](Rule& r) { r.cmd.flow_attr.priority = 16; }},
    {"reserved", -EINVAL, [](Rule& r) { r.cmd.flow_attr.reserved[1] = 1; }},
    {"too many", -EINVAL, [](Rule& r) { r.cmd.flow_attr.num_of_specs = 11; }},
    {"too long", -EINVAL, [](Rule& r) { r.cmd.flow_attr.size = 2000; }},
    {"longer than what came", -ENOSPC, [](Rule& r) { r.cmd.flow_attr.size += 8; }},
    {"something behind the specs", -EOPNOTSUPP, [](Rule& r) { r.specs.push_back(std::byte{1}); }},
};
constexpr Wrong lies[] = {
    {"no size", -EINVAL, [](Rule& r) { r.spec().size = 0; }},
    {"size of another spec", -EINVAL, [](Rule& r) { r.spec().size -= 8; }},
    {"size beyond all specs", -EINVAL, [](Rule& r) { r.spec().size = 0xffff; }},
    {"reserved of a spec", -EINVAL, [](Rule& r) { r.spec().reserved = 1; }},
    {"unknown spec", -EINVAL, [](Rule& r) { r.spec().type = unknown; }},
    {"MPLS", -EOPNOTSUPP, [](Rule& r) { r.spec().type = 0x60; }},
    {"a spec more than there are", -EINVAL, [](Rule& r) { r.cmd.flow_attr.num_of_specs = 2; }},
    {"a spec less than there are", -EINVAL, [](Rule& r) { r.cmd.flow_attr.num_of_specs = 0; }},
    {"specs that end before their size", -EINVAL,
     [](Rule& r) {
       r.specs.resize(r.specs.size() + 8);
       r.cmd.flow_attr.size = static_cast<uint16_t>(r.specs.size());
     }},
};
constexpr Wrong layers[] = {
    {"two of one layer", -EOPNOTSUPP, [](Rule& r) { r.add<Eth>(eth); }},
    {"two protocols", -EOPNOTSUPP, [](Rule& r) { r.add<Ports>(tcp).add<Ports>(udp); }},
    {"time to live", -EOPNOTSUPP,
     [](Rule& r) {
       Ipv4 s{};
       s.mask.ttl = 1;
       r.add(ipv4, s);
     }},
    {"another type than the layer's", -EINVAL,
     [](Rule& r) {
       Eth s{};
       s.val.ether_type = 0xdd86;  // IPv6, in network order
       s.mask.ether_type = 0xffff;
       r.specs.clear();
       r.cmd.flow_attr.num_of_specs = 0;
       r.add(eth, s).add<Ipv4>(ipv4);
     }},
    {"a part of a type beside a layer of IP", -EINVAL,
     [](Rule& r) {
       Eth s{};
       s.val.ether_type = 0x0008;
       s.mask.ether_type = 0x00ff;
       r.specs.clear();
       r.cmd.flow_attr.num_of_specs = 0;
       r.add(eth, s).add<Ipv4>(ipv4);
     }},
    {"IP that carries another protocol than the ports'", -EINVAL,
     [](Rule& r) { r.add(ipv4, carrying(17, 0xff)).add<Ports>(tcp); }},
    {"a part of the protocol beside ports", -EINVAL,
     [](Rule& r) { r.add(ipv4, carrying(6, 0x0f)).add<Ports>(tcp); }},
    {"IP that carries another protocol than GRE", -EINVAL,
     [](Rule& r) { r.add(ipv4, carrying(17, 0xff)).add<ib_uverbs_flow_spec_gre>(gre); }},
};

void are_refused(std::span<const Wrong> rows) {
  Bench b;
  for (const Wrong& w : rows) {
    Rule r = Rule(b.qp).add<Eth>(eth);
    w.spoil(r);
    EQUAL(r.run(b.c), w.error);
  }
  // None of them is left: the queue can go.
  ib_uverbs_destroy_qp_resp resp{};
  EQUAL(b.r.destroy_qp(b.c, b.qp, resp), 0);
}
void wrong_commands_are_refused() {
  are_refused(commands);
}
void specs_that_lie_are_refused() {
  are_refused(lies);
}
void contradicting_layers_are_refused() {
  are_refused(layers);
}

// VXLAN's and GRE's headers, and what lies in them.
void tunnels_are_specs() {
  Bench b;
  const auto rule = [&b](auto change) {
    ib_uverbs_flow_spec_tunnel v{};
    ib_uverbs_flow_spec_gre g{};
    change(v, g);
    const Rule outer = Rule(b.qp).add<Eth>(eth).add<Ipv4>(ipv4);
    const int one = Rule(outer).add<Ports>(udp).add(vxlan, v).add<Eth>(eth | inner).run(b.c);
    const int other =
        Rule(outer).add(gre, g).add<Ipv4>(ipv4 | inner).add<Ports>(tcp | inner).run(b.c);
    return std::pair{one, other};
  };
  CU_ASSERT((rule([](auto&, auto&) {}) == std::pair{0, 0}));
  CU_ASSERT((rule([](auto& v, auto& g) {
               v.val.tunnel_id = v.mask.tunnel_id = 0xffffff00;  // 24 bits, in network order
               g.mask.key = 0xffffffff;
             }) == std::pair{0, 0}));
  CU_ASSERT((rule([](auto& v, auto& g) {
               v.mask.tunnel_id = 0xff;
               g.mask.c_ks_res0_ver = 1;
             }) == std::pair{-EINVAL, -EOPNOTSUPP}));
  EQUAL(Rule(b.qp).add<Ports>(tcp | inner).add<Ports>(udp | inner).run(b.c), -EOPNOTSUPP);
  b.c.hca->config.profile.tunnels = false;
  CU_ASSERT((rule([](auto&, auto&) {}) == std::pair{-EOPNOTSUPP, -EOPNOTSUPP}));
}

// A spec whose value and mask have `half` bytes each.
struct Filter {
  uint32_t type;
  std::size_t half;
  std::vector<std::byte> bytes = std::vector<std::byte>(8 + 2 * half);
  Rule on(uint32_t qp) {
    ib_uverbs_flow_spec_hdr head{};
    head.type = type;
    head.size = static_cast<uint16_t>(bytes.size());
    std::memcpy(bytes.data(), &head, sizeof head);
    Rule r(qp);
    r.specs = bytes;
    r.cmd.flow_attr.num_of_specs = 1;
    r.cmd.flow_attr.size = head.size;
    return r;
  }
  std::byte& val(std::size_t at) { return bytes[8 + at]; }
  std::byte& mask(std::size_t at) { return bytes[8 + half + at]; }
};

// libibverbs sends two addresses for IBV_FLOW_SPEC_IPV4: 24 bytes.
void filters_have_any_length() {
  Bench b;
  for (const std::size_t half : {4, 8, 12, 16, 300})
    EQUAL((Filter{ipv4, half}.on(b.qp).run(b.c)), 0);
  for (const uint32_t type : {eth, 0x31u, tcp, udp}) EQUAL((Filter{type, 4}.on(b.qp).run(b.c)), 0);
  EQUAL((Filter{ipv4, 0}.on(b.qp).run(b.c)), -EINVAL);
  EQUAL((Filter{ipv4, 6}.on(b.qp).run(b.c)), -EINVAL);
  constexpr std::size_t ttl = 10;
  Filter long_one{ipv4, 200};
  long_one.val(ttl) = long_one.val(199) = std::byte{1};  // a value without a mask says nothing
  EQUAL(long_one.on(b.qp).run(b.c), 0);
  long_one.mask(199) = std::byte{1};
  EQUAL(long_one.on(b.qp).run(b.c), -EINVAL);
  Filter masked{ipv4, 16};
  masked.mask(ttl) = std::byte{1};
  EQUAL(masked.on(b.qp).run(b.c), -EOPNOTSUPP);
  Filter reserved{0x31, 40};
  reserved.mask(39) = std::byte{1};
  EQUAL(reserved.on(b.qp).run(b.c), -EINVAL);
}

void other_queues_take_no_rules() {
  Bench b;
  EQUAL(Rule(b.rc).add<Eth>(eth).run(b.c), -EINVAL);
}

constexpr Case cases[] = {
    {"rules of all layers are taken", rules_of_all_layers_are_taken},
    {"wrong commands are refused", wrong_commands_are_refused},
    {"specs that lie are refused", specs_that_lie_are_refused},
    {"contradicting layers are refused", contradicting_layers_are_refused},
    {"tunnels are specs", tunnels_are_specs},
    {"filters have any length", filters_have_any_length},
    {"other queues take no rules", other_queues_take_no_rules},
};

}  // namespace
}  // namespace flow_ut

KILIM_TEST_MAIN(flow) {
  return kilim::test::run_tables(
      "uverbs: steering rules",
      {flow_ut::cases, kilim::test::receive_request_cases(), kilim::test::flow_table_cases()}, argc,
      argv);
}
