// SPDX-License-Identifier: BSD-3-Clause
// The commands /kilim/... as a client of EAL's telemetry socket sees them: devices that are open,
// pools, workers and mkeys that exist, and what is answered to a wrong word.
#include <cerrno>
#include <cstdlib>
#include <string>

#include "eal.hh"
#include "kilim/detail/device/devices.hh"
#include "kilim/detail/mkey/mkey_pool.hh"
#include "kilim/detail/pool/pool.hh"
#include "kilim/detail/telemetry/endpoints.hh"
#include "kilim/detail/worker/worker.hh"
#include "telemetry_client.hh"
#include "ut.hh"

namespace endpoints_ut {
namespace {

using namespace kilim;
using namespace kilim::device;
using test::ask;

// Has statistics and nothing else, and is open as long as it lives.
class Counted final : public Device {
 public:
  explicit Counted(const char* name) : name_(name) { enter(*this); }
  ~Counted() override { leave(*this); }
  [[nodiscard]] const char* name() const noexcept override { return name_; }
  [[nodiscard]] const Caps& caps() const noexcept override { return caps_; }
  [[nodiscard]] int numa_node() const noexcept override { return -1; }
  Result<PortInfo> port(uint8_t) override { return nothing; }
  mr::Registrar& registrar() noexcept override { return registrar_; }
  mr::MkeySource& keys() noexcept override { std::abort(); }
  mr::WindowSource& windows() noexcept override { std::abort(); }
  Result<CqInfo> create_cq(const CqRequest&) override { return nothing; }
  Status destroy_cq(CqHandle) override { return nothing; }
  Result<SrqInfo> create_srq(const SrqRequest&) override { return nothing; }
  Status destroy_srq(SrqHandle) override { return nothing; }
  Result<QpInfo> create_uc(const UcRequest&) override { return nothing; }
  Result<QpInfo> create_rc(const RcRequest&) override { return nothing; }
  Result<Endpoint> endpoint(QpHandle) override { return nothing; }
  Status connect(QpHandle, const Endpoint&) override { return nothing; }
  Result<QpInfo> create_raw_packet(const QpRequest&, uint8_t) override { return nothing; }
  Result<FlowHandle> add_flow(QpHandle, const FlowRule&) override { return nothing; }
  Status remove_flow(FlowHandle) override { return nothing; }
  Status reset(QpHandle) override { return nothing; }
  Status fail(QpHandle) override { return nothing; }
  Status destroy_qp(QpHandle) override { return nothing; }
  [[nodiscard]] OdpStatistics odp_statistics() const override { return statistics; }
  [[nodiscard]] bool lost() noexcept override { return false; }
  void progress() noexcept override {}
  OdpStatistics statistics;

 private:
  static constexpr Error nothing{EOPNOTSUPP, "statistics only"};
  class Totals final : public mr::Registrar {
   public:
    Result<mr::Region> register_memory(std::span<std::byte>, uint32_t, uint64_t) override {
      return nothing;
    }
    Result<mr::Region> register_memory_at(std::span<std::byte>, Iova, uint32_t, uint64_t) override {
      return nothing;
    }
    Status deregister(const mr::Region&) override { return nothing; }
    [[nodiscard]] std::array<mr::RegionTotal, mr::kinds> totals() const override {
      return {{{3, 4096}, {}, {1, 8192}, {1, 0}, {}, {}}};
    }
  };

  const char* name_;
  Caps caps_;
  Totals registrar_;
};

void eleven_names() {
  Counted a("vhca0");
  for (std::size_t i = 0; i < odp_counters; i++) a.statistics.values[i] = 100 + i;
  const std::string whole_a =
      R"({"invalidations_faults_contentions":100,"num_invalidation_pages":101,)"
      R"("num_invalidations":102,"num_page_fault_pages":103,"num_page_faults":104,)"
      R"("num_prefetches_handled":105,"num_prefetch_pages":106,"num_failed_resolutions":107,)"
      R"("num_mrs_not_found":108,"num_odp_mr_pages":109,"num_odp_mrs":110})";
  {
    Counted b("mlx5.1");
    b.statistics.values[4] = 7;
    const std::string all = ask("/kilim/odp");
    EQUAL(all.find(R"({"/kilim/odp":{"vhca0":)" + whole_a), 0);
    CU_ASSERT(all.find(R"("mlx5_1":{"invalidations_faults_contentions":"not reported",)") !=
              std::string::npos);
    CU_ASSERT(all.find(R"("num_page_faults":7,"num_prefetches_handled":"not reported")") !=
              std::string::npos);
    CU_ASSERT(ask("/kilim/odp,mlx5.1").find(R"("num_page_faults":7,)") != std::string::npos);
    CU_ASSERT(ask("/kilim/odp,mlx5_1").find(R"("num_page_faults":7,)") != std::string::npos);
  }
  EQUAL(ask("/kilim/odp,vhca0"), R"({"/kilim/odp":)" + whole_a + "}");
  EQUAL(ask("/kilim/odp,mlx5_1"),
        R"({"/kilim/odp":{"error":"there is no open device mlx5_1; devices: vhca0"}})");
  EQUAL(ask("/kilim/odp"), R"({"/kilim/odp":{"vhca0":)" + whole_a + "}}");
}

void devices_tell() {
  const Counted a("vhca0");
  const std::string regions = ask("/kilim/mr,vhca0");
  EQUAL(test::number_of(regions, "pinned_regions"), 3);
  EQUAL(test::number_of(regions, "pinned_bytes"), 4096);
  EQUAL(test::number_of(regions, "on_demand_bytes"), 8192);
  EQUAL(test::number_of(regions, "implicit_regions"), 1);
  EQUAL(test::number_of(regions, "device_regions"), 0);
  const std::string caps = ask("/kilim/device,vhca0");
  EQUAL(test::number_of(caps, "umr"), 0);
  CU_ASSERT(caps.find(R"("umr_fence":"strong")") != std::string::npos);
  CU_ASSERT(caps.find(R"("numa_node":"not reported")") != std::string::npos);
  const std::string in = ask("/kilim/inline,vhca0");
  EQUAL(test::number_of(in, "rc_received_bytes"), 32);
  EQUAL(test::number_of(in, "raw_packet_received_bytes"), 0);
  CU_ASSERT(in.find(R"("rc_why":"on: the default")") != std::string::npos);
  CU_ASSERT(ask("/kilim/list").find(R"("devices":["vhca0"])") != std::string::npos);
}

// As long as they live, and no longer; a moved pool is one pool.
void objects_come_and_go() {
  EQUAL(ask("/kilim/pools"), R"({"/kilim/pools":{}})");
  EQUAL(ask("/kilim/workers"), R"({"/kilim/workers":{}})");
  {
    auto memory = *std::move(pool::ArenaMemory::create({.buffers = 1024}));
    auto made =
        *std::move(pool::Pool::create(memory.arena(), {.name = "some.pool", .count = 1000}));
    pool::Pool pool = std::move(made);
    uint32_t taken[10];
    EQUAL(pool.pop(taken), 10u);
    EQUAL(ask("/kilim/pools"), R"({"/kilim/pools":{"some_pool":{"size":1000,"available":990}}})");
    EQUAL(ask("/kilim/pools,some.pool"), R"({"/kilim/pools":{"size":1000,"available":990}})");
    EQUAL(ask("/kilim/pools,x"),
          R"({"/kilim/pools":{"error":"there is no pool x; pools: some.pool"}})");
    auto worker = *std::move(worker::Worker::create({.lcore = 3, .idle = worker::Idle::pause}));
    for (int i = 0; i < 5; i++) worker->round();
    const std::string one = ask("/kilim/workers,3");
    EQUAL(test::number_of(one, "rounds"), 5);
    CU_ASSERT(one.find(R"("idle":"pause")") != std::string::npos);
    CU_ASSERT(ask("/kilim/workers").find(R"("lcore_3":{"idle":"pause","rounds":5,)") !=
              std::string::npos);
    CU_ASSERT(ask("/kilim/list").find(R"("pools":["some.pool"],"workers":["3"])") !=
              std::string::npos);
    pool.push(taken);
  }
  EQUAL(ask("/kilim/pools"), R"({"/kilim/pools":{}})");
  EQUAL(ask("/kilim/workers,3"),
        R"({"/kilim/workers":{"error":"no worker runs on lcore 3; lcores: none"}})");
}

// Makes keys that nobody uses.
class Keys final : public mr::MkeySource {
 public:
  Status create_mkeys(const mr::MkeyRequest& r, std::span<mr::IndirectMkey> out) override {
    for (mr::IndirectMkey& k : out) k = {Lkey{next_++ << 8}, r.max_entries};
    return Done{};
  }
  void destroy_mkeys(std::span<const mr::IndirectMkey>) noexcept override {}

 private:
  uint32_t next_ = 1;
};

void key_pools_grow() {
  Keys source;
  auto pool = *std::move(mkey::MkeyPool::create(source, 8, mr::MkeyRequest{.max_entries = 4}, 16));
  EQUAL(
      ask("/kilim/mkeys"),
      R"({"/kilim/mkeys":{"pool_0":{"size":8,"limit":16,"available":8},"pools":1,"size":8,"available":8}})");
  CU_ASSERT_TRUE(pool->grow(4).ok());
  EQUAL(test::number_of(ask("/kilim/mkeys"), "size"), 12);
  pool.reset();
  EQUAL(ask("/kilim/mkeys"), R"({"/kilim/mkeys":{"pools":0,"size":0,"available":0}})");
  EQUAL(test::number_of(ask("/kilim/umr"), "binders"), 0);
}

void each_has_help() {
  EQUAL(telemetry::endpoints().size(), 14u);
  for (const telemetry::Endpoint& e : telemetry::endpoints()) {
    const std::string path = e.path;
    CU_ASSERT(ask("/help," + path).find(e.help) != std::string::npos);
    CU_ASSERT(ask("/").find('"' + path + '"') != std::string::npos);
    CU_ASSERT(ask(path).find("{\"" + path + "\":{") == 0);
  }
}

// Whatever a stranger writes behind a comma.
void wrong_words() {
  const char* no_ports[] = {"", ",", ",7", ",net_kilim0", ",,,,", ",99999999999999999999", ",-1"};
  for (const std::string word : no_ports)
    for (const std::string path : {"/kilim/xstats", "/kilim/queues", "/kilim/flows"})
      CU_ASSERT(ask(path + word).find("; ports: none\"}}") != std::string::npos);
  EQUAL(ask("/kilim/info,net_kilim0"),
        R"({"/kilim/info":{"error":"there is no port net_kilim0; ports: none"}})");
  EQUAL(ask("/kilim/stats,\"\\\x01"),
        R"({"/kilim/stats":{"error":"there is no port ???; ports: none"}})");
  const std::string longest = ask("/kilim/device," + std::string(900, 'x'));
  EQUAL(longest.find(R"({"/kilim/device":{"error":"there is no open device xxx)"), 0);
  EQUAL(longest.back(), '}');
}

void switched_off() {
  telemetry::set_enabled(false);
  for (const telemetry::Endpoint& e : telemetry::endpoints())
    CU_ASSERT(ask(e.path).find(R"({"error":"this program has switched Kilim's telemetry off"})") !=
              std::string::npos);
  telemetry::set_enabled(true);
  CU_ASSERT(ask("/kilim/info").find(R"("version":)") != std::string::npos);
}

const kilim::test::Case cases[] = {
    {"/kilim/odp shows all eleven names, a number or not reported", eleven_names},
    {"devices tell their regions, capabilities and inline receive", devices_tell},
    {"pools and workers are listed while they live", objects_come_and_go},
    {"pools of mkeys are counted and grow", key_pools_grow},
    {"each command is listed, has help and answers", each_has_help},
    {"a wrong word is answered with what there is", wrong_words},
    {"a program can switch them off", switched_off},
};

}  // namespace
}  // namespace endpoints_ut

KILIM_TEST_MAIN(endpoints) {
  if (!kilim::test::start_eal("0", kilim::test::Telemetry::socket)) return 2;
  kilim::telemetry::offer();
  const int rc = kilim::test::run_cases("telemetry/endpoints", endpoints_ut::cases, argc, argv);
  rte_eal_cleanup();
  return rc;
}
