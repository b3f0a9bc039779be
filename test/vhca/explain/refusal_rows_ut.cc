// SPDX-License-Identifier: BSD-3-Clause
// Each row of core/refusal.hh is provoked through unmodified libibverbs and libmlx5, and told with
// the verb, the field, the number and the limit; every verb and command has a name to be told by.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/mman.h>
#include <unistd.h>

#include "explain_fixture.hh"
#include "kilim/prm/cmd.hh"
#include "kilim/prm/queue_cmd.hh"
#include "ut.hh"
#include "vhca/core/journal.hh"
#include "vhca/core/refusal.hh"
#include "vhca/entry/attach.hh"
#include "vhca/hca/command_names.hh"
#include "vhca/uverbs/bundle.hh"
#include "vhca/uverbs/device_file.hh"
#include "vhca/uverbs/verb_names.hh"

namespace refusal_rows_ut {
namespace {

using namespace kilim::vhca;
using kilim::vhca::test::says;
using kilim::vhca::test::stderr_of;
using refusal::Why;

entry::Attached& device() {
  static entry::Attached* attached = [] {
    kilim::DeviceSpec spec;
    spec.name = "vhcarefusals";
    spec.explain = "on";
    return *entry::attach(spec);
  }();
  return *attached;
}

ibv_context* open_it() {
  device();
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ibv_context* context = nullptr;
  for (int i = 0; i < count; i++)
    if (std::strcmp(ibv_get_device_name(list[i]), "vhcarefusals") == 0)
      context = ibv_open_device(list[i]);
  ibv_free_device_list(list);
  return context;
}

struct Bench {
  Bench() : context(open_it()) {
    CU_ASSERT_PTR_NOT_NULL_FATAL(context);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    ibv_srq_init_attr a{};
    a.attr.max_wr = 3;
    a.attr.max_sge = 1;
    srq = ibv_create_srq(pd, &a);
    CU_ASSERT_PTR_NOT_NULL_FATAL(srq);
  }
  ~Bench() {
    ibv_destroy_srq(srq);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  ibv_context* context;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
};

// A firmware command of so many bytes.
struct Command {
  Command(uint16_t opcode, std::size_t bytes) : in(bytes) {
    in[0] = static_cast<uint8_t>(opcode >> 8);
    in[1] = static_cast<uint8_t>(opcode);
  }
  mlx5dv_devx_obj* create(ibv_context* c) {
    return mlx5dv_devx_obj_create(c, in.data(), in.size(), out.data(), out.size());
  }
  int refused(Bench& b) {
    errno = 0;
    CU_ASSERT_PTR_NULL(create(b.context));
    return errno;
  }
  std::vector<uint8_t> in;
  std::array<uint8_t, 512> out{};
};

int set_limit(Bench& b, int mask, uint32_t limit) {
  ibv_srq_attr a{};
  a.srq_limit = limit;
  return ibv_modify_srq(b.srq, &a, mask);
}

int register_memory(Bench& b, void* at, std::size_t bytes) {
  errno = 0;
  CU_ASSERT_PTR_NULL(mlx5dv_devx_umem_reg(b.context, at, bytes, IBV_ACCESS_LOCAL_WRITE));
  return errno;
}

int two_signatures(Bench& b) {
  Command c(kilim::prm::cmd::create_psv, 16);
  c.in[8] = 0x20;
  return c.refused(b);
}

int wrong_capabilities(Bench& b) {
  Command c(kilim::prm::cmd::query_hca_cap, 16);
  c.in[6] = 0x7f;
  return mlx5dv_devx_general_cmd(b.context, c.in.data(), c.in.size(), c.out.data(), c.out.size());
}

int ready_after_an_error(Bench& b) {
  ibv_wq_init_attr a{};
  a.wq_type = IBV_WQT_RQ;
  a.max_wr = 4;
  a.max_sge = 1;
  a.pd = b.pd;
  a.cq = b.cq;
  ibv_wq* wq = ibv_create_wq(b.context, &a);
  CU_ASSERT_PTR_NOT_NULL_FATAL(wq);
  ibv_wq_attr to{};
  to.attr_mask = IBV_WQ_ATTR_STATE;
  to.wq_state = IBV_WQS_ERR;
  EQUAL(ibv_modify_wq(wq, &to), 0);
  to.wq_state = IBV_WQS_RDY;
  const int error = ibv_modify_wq(wq, &to);
  EQUAL(ibv_destroy_wq(wq), 0);
  return error;
}

int strange_channel(Bench& b) {
  ibv_comp_channel* channel = ibv_create_comp_channel(b.context);
  ibv_comp_channel strange = *channel;
  strange.fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  errno = 0;
  CU_ASSERT_PTR_NULL(ibv_create_cq(b.context, 4, nullptr, &strange, 0));
  const int error = errno;
  ::close(strange.fd);
  EQUAL(ibv_destroy_comp_channel(channel), 0);
  return error;
}

int remote_without_local(Bench& b) {
  uint8_t word[8];
  ibv_mr* mr = ibv_reg_mr(b.pd, word, sizeof word, IBV_ACCESS_LOCAL_WRITE);
  errno = 0;
  CU_ASSERT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_REMOTE_WRITE) != 0);
  const int error = errno;
  EQUAL(ibv_dereg_mr(mr), 0);
  return error;
}

int prefetch_without_paging(Bench& b) {
  Profile& p = device().hca()->config.profile;
  p.odp = false;
  ibv_sge sge{};
  const int error = ibv_advise_mr(b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1);
  p.odp = true;
  return error;
}

int used_device_memory(Bench& b) {
  ibv_alloc_dm_attr a{};
  a.length = 64;
  ibv_dm* dm = ibv_alloc_dm(b.context, &a);
  CU_ASSERT_PTR_NOT_NULL_FATAL(dm);
  ibv_mr* mr = ibv_reg_dm_mr(b.pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
  CU_ASSERT_PTR_NOT_NULL_FATAL(mr);
  const int error = ibv_free_dm(dm);
  EQUAL(ibv_dereg_mr(mr), 0);
  EQUAL(ibv_free_dm(dm), 0);
  return error;
}

// There are 255 sets of counters.
int one_counter_more(Bench& b) {
  std::vector<mlx5dv_devx_obj*> all;
  int error = 0;
  for (int i = 0; i < 300 && error == 0; i++) {
    Command c(kilim::prm::cmd::alloc_q_counter, 16);
    errno = 0;
    mlx5dv_devx_obj* made = c.create(b.context);
    if (made != nullptr)
      all.push_back(made);
    else
      error = errno;
  }
  for (mlx5dv_devx_obj* o : all) EQUAL(mlx5dv_devx_obj_destroy(o), 0);
  return error;
}

// DESTROY of a protection domain without its attribute.
int ioctl_without_attributes(Bench&) {
  uverbs::DeviceFile file(*device().hca());
  ib_uverbs_ioctl_hdr h{};
  h.length = sizeof h;
  h.object_id = UVERBS_OBJECT_PD;
  h.method_id = UVERBS_METHOD_PD_DESTROY;
  h.driver_id = RDMA_DRIVER_MLX5;
  return -file.ioctl(RDMA_VERBS_IOCTL, &h);
}

struct Row {
  Why why;
  int error;
  const char* verb;
  const char* field;
  std::array<uint64_t, 2> numbers;
  int (*provoke)(Bench&);
};

// clang-format off
const Row rows[] = {
    {Why::most, EINVAL, "ibv_modify_srq", "srq_limit", {100, 7}, [](Bench& b) { return set_limit(b, IBV_SRQ_LIMIT, 100); }},
    {Why::least, EINVAL, "mlx5dv_devx_umem_reg", "size", {0, 1}, [](Bench& b) { return register_memory(b, &b, 0); }},
    {Why::equal, EINVAL, "mlx5dv_devx_obj_create", "num_psv", {2, 1}, two_signatures},
    {Why::bits, EINVAL, "ibv_modify_srq", "srq_attr_mask (a queue keeps its size)", {1, 2}, [](Bench& b) { return set_limit(b, IBV_SRQ_MAX_WR, 0); }},
    {Why::state, EINVAL, "ibv_modify_wq", "wq_state", {1, 2}, ready_after_an_error},
    {Why::absent, EREMOTEIO, "QUERY_HCA_CAP", "op_mod", {0x3f80, 0}, wrong_capabilities},
    {Why::descriptor, EBADF, "ibv_create_cq", "the completion channel", {0, 0}, strange_channel},
    {Why::clash, EINVAL, "ibv_rereg_mr", "access with remote and without local write", {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_LOCAL_WRITE}, remote_without_local},
    {Why::lacks, EOPNOTSUPP, "ibv_advise_mr", "IBV_ACCESS_ON_DEMAND (on-demand paging)", {0, 0}, prefetch_without_paging},
    {Why::busy, EBUSY, "ibv_free_dm", "the object", {1, 0}, used_device_memory},
    {Why::full, EREMOTEIO, "ALLOC_Q_COUNTER", "counter_set_id", {0, 0}, one_counter_more},
    {Why::bytes, EREMOTEIO, "CREATE_CQ", "the input", {16, kilim::prm::cq_cmd::bytes}, [](Bench& b) { return Command(kilim::prm::cmd::create_cq, 16).refused(b); }},
    {Why::attribute, EINVAL, "ibv_dealloc_pd", "attribute", {0, 0}, ioctl_without_attributes},
    {Why::fault, EFAULT, "mlx5dv_devx_umem_reg", "address", {0x10000, 0}, [](Bench& b) { return register_memory(b, reinterpret_cast<void*>(0x10000), 4096); }},
    {Why::text, EINVAL, "ibv_query_port", "no such port", {0, 0}, [](Bench& b) { ibv_port_attr a; return ibv_query_port(b.context, 9, &a); }},
};
// clang-format on

// With '#' for what differs from run to run.
std::string sentence(const Row& row) {
  std::array<char, 600> buffer;
  kilim::prm::Text t{buffer};
  t.put(row.verb).put(": ").put(row.field).fill(refusal::sentence_of(row.why), row.numbers);
  return std::string(t.view());
}

void each_row_is_said() {
  for (const Row& row : rows) {
    Bench b;
    const Journal& journal = *device().hca()->config.journal;
    const uint64_t before = journal.count(Journal::Kind::refused);
    int error = 0;
    const std::string text = stderr_of([&] { error = row.provoke(b); });
    EQUAL(error, row.error);
    const bool any_number = row.why == Why::descriptor;  // of a descriptor
    says(text, any_number ? "ibv_create_cq: the completion channel is descriptor " : sentence(row));
    EQUAL(journal.count(Journal::Kind::refused), before + 1);
  }
}

void the_table_has_no_row_that_is_not_provoked() {
  EQUAL(std::size(rows), refusal::rows().size());
  for (const refusal::Row& wanted : refusal::rows()) {
    const bool found = std::any_of(std::begin(rows), std::end(rows),
                                   [&](const Row& r) { return r.why == wanted.why; });
    if (!found) std::printf("\n    nothing provokes: %s", wanted.sentence);
    CU_ASSERT(found);
  }
}

void each_method_has_a_name() {
  constexpr std::span<const uverbs::Method> (*rooms[])() = {
      uverbs::device_methods,    uverbs::port_methods,        uverbs::pd_methods,
      uverbs::mr_methods,        uverbs::advise_methods,      uverbs::dm_methods,
      uverbs::cq_methods,        uverbs::qp_methods,          uverbs::ah_methods,
      uverbs::flow_methods,      uverbs::flow_action_methods, uverbs::matcher_methods,
      uverbs::counters_methods,  uverbs::uar_methods,         uverbs::devx_methods,
      uverbs::devx_umem_methods, uverbs::devx_event_methods};
  for (const auto room : rooms) {
    for (const uverbs::Method& m : room()) {
      const std::string name = uverbs::verb_name(m.object, m.method);
      CU_ASSERT(name.find("not known") == std::string::npos);
    }
  }
  says(uverbs::verb_name(0xffff, 1), "not known");
  EQUAL(std::string(uverbs::verb_name(IB_USER_VERBS_CMD_REG_MR)), "ibv_reg_mr");
  EQUAL(std::string(hca::command_name(kilim::prm::cmd::create_mkey)), "CREATE_MKEY");
}

void a_second_time_only_that_field_of_that_verb_is_counted() {
  Bench b;
  const auto with = [&](int mask, uint32_t limit) {
    return stderr_of([&] { EQUAL(set_limit(b, mask, limit), EINVAL); });
  };
  (void)with(IBV_SRQ_LIMIT, 77);
  EQUAL(with(IBV_SRQ_LIMIT, 78), "");
  // Another verb's field is told, though the row is the same.
  const std::string other = stderr_of([&] {
    Command short_one(kilim::prm::cmd::create_rq, 16);
    EQUAL(short_one.refused(b), EREMOTEIO);
  });
  says(other, "CREATE_RQ: the input has 16 bytes");
}

using kilim::test::Case;
const Case cases[] = {
    {"each row is said", each_row_is_said},
    {"the table has no row that is not provoked", the_table_has_no_row_that_is_not_provoked},
    {"each method has a name", each_method_has_a_name},
    {"a second time only that field of that verb is counted",
     a_second_time_only_that_field_of_that_verb_is_counted},
};

}  // namespace
}  // namespace refusal_rows_ut

KILIM_TEST_SUITE(refusal_rows, refusal_rows_ut::cases)
