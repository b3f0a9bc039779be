// SPDX-License-Identifier: BSD-3-Clause
// Verbs that are refused say why: each row of the table is provoked through unmodified libibverbs
// and libmlx5, and the sentence on standard error and the journal's line have the number and the
// limit.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include "explain_fixture.hh"
#include "kilim/prm/text.hh"
#include "ut.hh"
#include "vhca/core/journal.hh"
#include "vhca/entry/attach.hh"
#include "vhca/hca/hca.hh"
#include "vhca/hca/verb_refusals.hh"

namespace verb_refusals_ut {
namespace {

using namespace kilim::vhca;
using kilim::vhca::test::says;
using kilim::vhca::test::stderr_of;

int journal_file = -1;  // of the device, which has no name any more

entry::Attached& device() {
  static entry::Attached* attached = [] {
    char path[] = "/tmp/verb_refusals_ut.XXXXXX";
    journal_file = ::mkstemp(path);
    CU_ASSERT_FATAL(journal_file >= 0);
    kilim::DeviceSpec spec;
    spec.name = "vhcaexplain";
    spec.explain = "on";
    spec.journal = path;
    entry::Attached* made = *entry::attach(spec);
    ::unlink(path);
    return made;
  }();
  return *attached;
}

ibv_context* open_it() {
  device();
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ibv_context* context = nullptr;
  for (int i = 0; i < count; i++)
    if (std::strcmp(ibv_get_device_name(list[i]), "vhcaexplain") == 0)
      context = ibv_open_device(list[i]);
  ibv_free_device_list(list);
  return context;
}

// A domain, a completion queue, a queue of each kind, memory.
struct Bench {
  Bench() : context(open_it()) {
    CU_ASSERT_PTR_NOT_NULL_FATAL(context);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    rc = make(IBV_QPT_RC);
    raw = make(IBV_QPT_RAW_PACKET);
    memory = static_cast<uint8_t*>(
        ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~Bench() {
    ::munmap(memory, 8192);
    for (ibv_qp* qp : {rc, raw}) ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  ibv_srq* make_srq(uint32_t wr, uint32_t sge) {
    ibv_srq_init_attr a{};
    a.attr.max_wr = wr;
    a.attr.max_sge = sge;
    return ibv_create_srq(pd, &a);
  }
  ibv_ah_attr to_itself() const {
    ibv_ah_attr a{};
    a.is_global = 1;
    a.port_num = 1;
    ibv_query_gid(context, 1, 0, &a.grh.dgid);
    return a;
  }
  ibv_qp* make(ibv_qp_type type, uint32_t send_wr = 4, uint32_t recv_wr = 4,
               ibv_srq* srq = nullptr) {
    ibv_qp_init_attr a{};
    a.srq = srq;
    a.qp_type = type;
    a.send_cq = a.recv_cq = cq;
    a.cap = {send_wr, recv_wr, 1, 1, 0};
    return ibv_create_qp(pd, &a);
  }
  int to_init(int more = 0, const std::function<void(ibv_qp_attr&)>& spoil = {}) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    if (spoil) spoil(a);
    return ibv_modify_qp(
        rc, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS | more);
  }
  int to_rtr(int more = 0, const std::function<void(ibv_qp_attr&)>& spoil = {}) {
    EQUAL(to_init(), 0);
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = rc->qp_num;
    a.max_dest_rd_atomic = 1;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    ibv_query_gid(context, 1, 0, &a.ah_attr.grh.dgid);
    if (spoil) spoil(a);
    return ibv_modify_qp(rc, &a,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
                             more);
  }
  int to_rts(uint8_t rd_atomic) {
    EQUAL(to_rtr(), 0);
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTS;
    a.max_rd_atomic = rd_atomic;
    return ibv_modify_qp(rc, &a,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  int reg(void* start, std::size_t bytes, int rights) {
    errno = 0;
    ibv_mr* mr = ibv_reg_mr(pd, start, bytes, rights);
    CU_ASSERT_PTR_NULL(mr);
    return errno;
  }
  uint64_t at() const { return reinterpret_cast<uint64_t>(memory); }

  ibv_context* context;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp *rc = nullptr, *raw = nullptr;
  uint8_t* memory = nullptr;
  uint32_t ud = 0;  // number of a queue that is gone
};

// A rule of these specs; how it differs from a good one.
template <typename... Specs>
int make_rule(ibv_qp* qp, const std::function<void(ibv_flow_attr&)>& spoil, const Specs&... specs) {
  std::vector<uint8_t> all(sizeof(ibv_flow_attr));
  ibv_flow_attr head{};
  head.port = 1;
  const auto add = [&](const auto& spec) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&spec);
    all.insert(all.end(), bytes, bytes + sizeof spec);
    head.num_of_specs++;
  };
  (add(specs), ...);
  head.size = static_cast<uint16_t>(all.size());
  if (spoil) spoil(head);
  std::memcpy(all.data(), &head, sizeof head);
  errno = 0;
  ibv_flow* flow = ibv_create_flow(qp, reinterpret_cast<ibv_flow_attr*>(all.data()));
  CU_ASSERT_PTR_NULL(flow);
  return errno;
}

ibv_flow_spec_eth eth_spec(uint16_t type = 0) {
  ibv_flow_spec_eth s{};
  s.type = IBV_FLOW_SPEC_ETH;
  s.size = sizeof s;
  s.val.ether_type = __builtin_bswap16(type);
  s.mask.ether_type = type != 0 ? 0xffff : 0;
  return s;
}
ibv_flow_spec_ipv4_ext ipv4_spec(uint8_t ttl = 0) {
  ibv_flow_spec_ipv4_ext s{};
  s.type = IBV_FLOW_SPEC_IPV4_EXT;
  s.size = sizeof s;
  s.mask.ttl = ttl;
  return s;
}
ibv_flow_spec_ipv6 ipv6_spec(uint8_t hop_limit) {
  ibv_flow_spec_ipv6 s{};
  s.type = IBV_FLOW_SPEC_IPV6;
  s.size = sizeof s;
  s.mask.hop_limit = hop_limit;
  return s;
}
ibv_flow_spec_action_tag tag_spec(uint32_t tag) {
  return {IBV_FLOW_SPEC_ACTION_TAG, sizeof(ibv_flow_spec_action_tag), tag};
}

// A limit of the device's while f() runs.
template <auto limit, typename T>
int with_limit(T value, const std::function<int()>& f) {
  Profile& p = device().hca()->config.profile;
  const T was = p.*limit;
  p.*limit = value;
  const int error = f();
  p.*limit = was;
  return error;
}

int null_errno(const void* made) {
  CU_ASSERT_PTR_NULL(made);
  return errno;
}

struct Row {
  hca::VerbRefusal why;
  int error;
  std::function<int(Bench&)> provoke;
  std::function<std::array<uint64_t, 2>(Bench&)> numbers;
  const char* more = "";
};
using enum hca::VerbRefusal;
using Numbers = std::array<uint64_t, 2>;
constexpr int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr uint32_t known_rights = access::local_write | access::remote_write | access::remote_read |
                                  access::remote_atomic | access::mw_bind | access::zero_based |
                                  access::on_demand | access::huge_pages | access::optional_mask;

std::function<Numbers(Bench&)> numbers(uint64_t asked, uint64_t limit = 0) {
  return [=](Bench&) { return Numbers{asked, limit}; };
}

// clang-format off
const Row rows[] = {
    {modify_no_transition, EINVAL, [](Bench& b) { ibv_qp_attr a{}; a.qp_state = IBV_QPS_RTS; return ibv_modify_qp(b.rc, &a, IBV_QP_STATE); }, numbers(3), ": RESET to RTS; a queue goes RESET, INIT, RTR, RTS"},
    {modify_missing, EINVAL, [](Bench& b) { ibv_qp_attr a{}; a.qp_state = IBV_QPS_INIT; return ibv_modify_qp(b.rc, &a, init_mask & ~IBV_QP_PORT); }, numbers(init_mask & ~IBV_QP_PORT, IBV_QP_PORT), ": RESET to INIT needs IBV_QP_PORT"},
    {modify_excess, EINVAL, [](Bench& b) { return b.to_init(IBV_QP_TIMEOUT); }, numbers(init_mask | IBV_QP_TIMEOUT, IBV_QP_TIMEOUT), ": RESET to INIT does not take IBV_QP_TIMEOUT"},
    {modify_cur_state, EINVAL, [](Bench& b) { return b.to_init(IBV_QP_CUR_STATE, [](ibv_qp_attr& a) { a.cur_qp_state = IBV_QPS_RTS; }); }, numbers(3, 0)},
    {modify_port, EINVAL, [](Bench& b) { return b.to_init(0, [](ibv_qp_attr& a) { a.port_num = 9; }); }, numbers(9, 1)},
    {modify_pkey, EINVAL, [](Bench& b) { return b.to_init(0, [](ibv_qp_attr& a) { a.pkey_index = 3; }); }, numbers(3, 0)},
    {modify_mtu, EINVAL, [](Bench& b) { return b.to_rtr(0, [](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(6); }); }, numbers(6, 5)},
    {modify_rd_atomic, EINVAL, [](Bench& b) { return b.to_rts(17); }, numbers(17, 16)},
    {modify_dest_rd_atomic, EINVAL, [](Bench& b) { return b.to_rtr(0, [](ibv_qp_attr& a) { a.max_dest_rd_atomic = 20; }); }, numbers(20, 16)},
    {modify_alt_path, EINVAL, [](Bench& b) { return b.to_rtr(IBV_QP_ALT_PATH); }, numbers(0)},
    {modify_not_global, EINVAL, [](Bench& b) { return b.to_rtr(0, [](ibv_qp_attr& a) { a.ah_attr.is_global = 0; }); }, numbers(0)},
    {modify_sgid, ENODATA, [](Bench& b) { return b.to_rtr(0, [](ibv_qp_attr& a) { a.ah_attr.grh.sgid_index = 7; }); }, numbers(7, 1)},
    {modify_path_port, EINVAL, [](Bench& b) { return b.to_rtr(0, [](ibv_qp_attr& a) { a.ah_attr.port_num = 2; }); }, numbers(2, 1)},
    {modify_no_route, EHOSTUNREACH, [](Bench& b) { return b.to_rtr(0, [](ibv_qp_attr& a) { a.ah_attr.grh.dgid = {}; a.ah_attr.grh.dgid.raw[0] = 0x20; a.ah_attr.grh.dgid.raw[15] = 1; }); }, numbers(0, 1)},
    {modify_rate, EINVAL, [](Bench& b) { return b.to_rtr(0, [](ibv_qp_attr& a) { a.ah_attr.static_rate = 1; }); }, numbers(1, 22)},
    {cq_entries, EINVAL, [](Bench& b) { return with_limit<&Profile::max_cqe>(100u, [&] { return null_errno(ibv_create_cq(b.context, 200, nullptr, nullptr, 0)); }); }, numbers(255, 100)},
    {cq_vector, EINVAL, [](Bench& b) { return null_errno(ibv_create_cq(b.context, 16, nullptr, nullptr, 5)); }, numbers(5, 1)},
    {qp_send_wr, EINVAL, [](Bench& b) { return with_limit<&Profile::max_qp_wr>(16u, [&] { return null_errno(b.make(IBV_QPT_RC, 17)); }); }, numbers(17, 16)},
    {qp_recv_wr, EINVAL, [](Bench& b) { return with_limit<&Profile::max_qp_wr>(16u, [&] { return null_errno(b.make(IBV_QPT_RC, 4, 30)); }); }, numbers(30, 16)},
    {mr_remote_needs_local, EINVAL, [](Bench& b) { return b.reg(b.memory, 64, IBV_ACCESS_REMOTE_WRITE); }, numbers(IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_LOCAL_WRITE)},
    {mr_access, EINVAL, [](Bench& b) { return b.reg(b.memory, 64, 1 << 9); }, numbers(1 << 9, known_rights)},
    {mr_odp, EOPNOTSUPP, [](Bench& b) { return with_limit<&Profile::odp>(false, [&] { return b.reg(b.memory, 64, IBV_ACCESS_ON_DEMAND); }); }, numbers(IBV_ACCESS_ON_DEMAND, 0)},
    {mr_empty, EINVAL, [](Bench& b) { return b.reg(b.memory, 0, 0); }, numbers(0, 1)},
    {mr_wraps, EINVAL, [](Bench& b) { return b.reg(reinterpret_cast<void*>(~uint64_t{0} - 4095), 8192, 0); }, numbers(~uint64_t{0} - 4095, 8192)},
    {mr_iova, EINVAL, [](Bench& b) { errno = 0; return null_errno(ibv_reg_mr_iova(b.pd, b.memory, 64, b.at() + 1, 0)); }, [](Bench& b) { return Numbers{b.at() + 1, b.at()}; }},
    {mr_unmapped, EFAULT, [](Bench& b) { ::mprotect(b.memory, 8192, PROT_NONE); const int error = b.reg(b.memory, 4096, IBV_ACCESS_LOCAL_WRITE); ::mprotect(b.memory, 8192, PROT_READ | PROT_WRITE); return error; }, [](Bench& b) { return Numbers{b.at(), 4096}; }},
    {mr_locked, EPERM, [](Bench& b) { return kilim::vhca::test::without_locked_memory([&] { return b.reg(b.memory, 4096, 0); }); }, numbers(4096, 0)},
    {flow_flags, EOPNOTSUPP, [](Bench& b) { return make_rule(b.raw, [](ibv_flow_attr& a) { a.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP; }, eth_spec()); }, numbers(2, 0)},
    {flow_priority, ENOSPC, [](Bench& b) { return make_rule(b.raw, [](ibv_flow_attr& a) { a.priority = 16; }, eth_spec()); }, numbers(16, 15)},
    {flow_specs, EINVAL, [](Bench& b) { const auto t = tag_spec(1); return make_rule(b.raw, {}, t, t, t, t, t, t, t, t, t, t, t); }, numbers(11, 10)},
    {flow_not_raw, EINVAL, [](Bench& b) { return make_rule(b.rc, {}, eth_spec()); }, [](Bench& b) { return Numbers{b.rc->qp_num, 0}; }},
    {flow_port, EINVAL, [](Bench& b) { return make_rule(b.raw, [](ibv_flow_attr& a) { a.port = 7; }, eth_spec()); }, numbers(7, 1)},
    {flow_ttl, EOPNOTSUPP, [](Bench& b) { return make_rule(b.raw, {}, eth_spec(), ipv4_spec(255)); }, numbers(255, 0)},
    {flow_hop_limit, EOPNOTSUPP, [](Bench& b) { return make_rule(b.raw, {}, eth_spec(), ipv6_spec(64)); }, numbers(64, 0)},
    {flow_layer_twice, EOPNOTSUPP, [](Bench& b) { return make_rule(b.raw, {}, eth_spec(), eth_spec()); }, numbers(0x20)},
    {flow_ether_type, EINVAL, [](Bench& b) { return make_rule(b.raw, {}, eth_spec(0x86dd), ipv4_spec()); }, numbers(0x86dd, 0x0800)},
    {pd_busy, EBUSY, [](Bench& b) { return ibv_dealloc_pd(b.pd); }, numbers(2)},
    {cq_busy, EBUSY, [](Bench& b) { return ibv_destroy_cq(b.cq); }, numbers(4)},
    {srq_busy, EBUSY, [](Bench& b) { ibv_srq* srq = b.make_srq(4, 1); ibv_qp* qp = b.make(IBV_QPT_RC, 4, 0, srq); const int error = ibv_destroy_srq(srq); ibv_destroy_qp(qp); EQUAL(ibv_destroy_srq(srq), 0); return error; }, numbers(1)},
    {qp_in_group, EBUSY, [](Bench& b) { ibv_qp* ud = b.make(IBV_QPT_UD); b.ud = ud->qp_num; ibv_gid group{}; group.raw[0] = 0xff; group.raw[1] = 0x0e; EQUAL(ibv_attach_mcast(ud, &group, 0xc001), 0); const int error = ibv_destroy_qp(ud); EQUAL(ibv_detach_mcast(ud, &group, 0xc001), 0); EQUAL(ibv_destroy_qp(ud), 0); return error; }, [](Bench& b) { return Numbers{b.ud, 0}; }},
    {srq_wr, EINVAL, [](Bench& b) { return with_limit<&Profile::max_qp_wr>(16u, [&] { return null_errno(b.make_srq(16, 1)); }); }, numbers(63, 15)},
    {srq_sge, EINVAL, [](Bench& b) { return with_limit<&Profile::max_rq_desc_bytes>(64u, [&] { return null_errno(b.make_srq(4, 4)); }); }, numbers(7, 3)},
    {ah_sgid, ENODATA, [](Bench& b) { ibv_ah_attr a = b.to_itself(); a.grh.sgid_index = 7; return null_errno(ibv_create_ah(b.pd, &a)); }, numbers(7, 1)},
    {ah_no_route, EHOSTUNREACH, [](Bench& b) { ibv_ah_attr a = b.to_itself(); a.grh.dgid = {}; a.grh.dgid.raw[0] = 0x20; a.grh.dgid.raw[15] = 1; return null_errno(ibv_create_ah(b.pd, &a)); }, numbers(0, 1)},
    {flow_tag, EINVAL, [](Bench& b) { return make_rule(b.raw, {}, eth_spec(), tag_spec(1 << 24)); }, numbers(1 << 24, 1 << 24)},
};
// clang-format on

std::string sentence_of(hca::VerbRefusal why, const Numbers& n) {
  const auto table = hca::verb_refusal_rows();
  const auto row = std::find_if(table.begin(), table.end(),
                                [&](const hca::VerbRefusalRow& r) { return r.why == why; });
  CU_ASSERT_FATAL(row != table.end());
  std::array<char, 600> buffer;
  kilim::prm::Text t{buffer};
  t.fill(row->sentence, n);
  return std::string(t.view());
}

std::string journal_text() {
  std::string text(1 << 20, '\0');
  const ssize_t n = ::pread(journal_file, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

void each_row_is_said() {
  for (const Row& row : rows) {
    Bench b;
    const uint64_t before = device().hca()->config.journal->count(Journal::Kind::refused);
    int error = 0;
    const std::string text = stderr_of([&] { error = row.provoke(b); });
    const std::string sentence = sentence_of(row.why, row.numbers(b));
    EQUAL(error, row.error);
    says(text, "kilim-vhca: vhcaexplain: explain: " + sentence + row.more);
    EQUAL(device().hca()->config.journal->count(Journal::Kind::refused), before + 1);
    says(journal_text(), " refused errno=" + test::hex(static_cast<uint64_t>(row.error)));
    says(journal_text(), sentence);
  }
}

void the_table_has_no_row_that_is_not_provoked() {
  const auto table = hca::verb_refusal_rows();
  EQUAL(std::size(rows), table.size());
  for (const hca::VerbRefusalRow& wanted : table) {
    const bool found = std::any_of(std::begin(rows), std::end(rows),
                                   [&](const Row& r) { return r.why == wanted.why; });
    if (!found) std::printf("\n    nothing provokes: %s", wanted.sentence);
    CU_ASSERT(found);
  }
}

void a_second_time_it_is_only_counted() {
  Bench b;
  const auto again = [&] {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTS;
    EQUAL(ibv_modify_qp(b.rc, &a, IBV_QP_STATE), EINVAL);
  };
  (void)stderr_of(again);
  EQUAL(stderr_of(again), "");
}

using kilim::test::Case;
const Case cases[] = {
    {"each row is said", each_row_is_said},
    {"the table has no row that is not provoked", the_table_has_no_row_that_is_not_provoked},
    {"a second time it is only counted", a_second_time_it_is_only_counted},
};

}  // namespace
}  // namespace verb_refusals_ut

KILIM_TEST_SUITE(verb_refusals, verb_refusals_ut::cases)
