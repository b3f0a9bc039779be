// SPDX-License-Identifier: BSD-3-Clause
// The endpoint /kilim/odp as a client of EAL's telemetry socket sees it.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include <rte_eal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "kilim/telemetry/odp.hh"
#include "ut.hh"

namespace {

using namespace kilim;
using namespace kilim::device;

// Has statistics and nothing else.
class Counted final : public Device {
 public:
  explicit Counted(const char* name) : name_(name) {}
  [[nodiscard]] const char* name() const noexcept override { return name_; }
  [[nodiscard]] const Caps& caps() const noexcept override { return caps_; }
  [[nodiscard]] int numa_node() const noexcept override { return -1; }
  Result<PortInfo> port(uint8_t) override { return nothing; }
  mr::Registrar& registrar() noexcept override { std::abort(); }
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
  const char* name_;
  Caps caps_;
};

std::string ask(const char* what) {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::snprintf(to.sun_path, sizeof to.sun_path, "%s/dpdk_telemetry.v2", rte_eal_get_runtime_dir());
  char room[16384] = "";
  std::string answer = "no telemetry";
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0 &&
      ::recv(fd, room, sizeof room, 0) > 0 &&  // the greeting
      ::send(fd, what, std::strlen(what), 0) > 0) {
    const ssize_t n = ::recv(fd, room, sizeof room, 0);
    answer.assign(room, n > 0 ? static_cast<std::size_t>(n) : 0);
  }
  ::close(fd);
  return answer;
}

void eleven_names() {
  Counted a("vhca0"), b("mlx5.1");
  for (std::size_t i = 0; i < odp_counters; i++) a.statistics.values[i] = 100 + i;
  b.statistics.values[4] = 7;
  const telemetry::ShownDevice show_a(a);
  const std::string whole_a =
      R"({"invalidations_faults_contentions":100,"num_invalidation_pages":101,)"
      R"("num_invalidations":102,"num_page_fault_pages":103,"num_page_faults":104,)"
      R"("num_prefetches_handled":105,"num_prefetch_pages":106,"num_failed_resolutions":107,)"
      R"("num_mrs_not_found":108,"num_odp_mr_pages":109,"num_odp_mrs":110})";
  {
    const telemetry::ShownDevice show_b(b);
    const std::string all = ask("/kilim/odp");
    EQUAL(all.find(R"({"/kilim/odp":{"vhca0":)" + whole_a), 0);
    CU_ASSERT(all.find(R"("mlx5_1":{"invalidations_faults_contentions":"not reported",)") !=
              std::string::npos);
    CU_ASSERT(all.find(R"("num_page_faults":7,"num_prefetches_handled":"not reported")") !=
              std::string::npos);
    CU_ASSERT(ask("/kilim/odp,mlx5.1").find(R"("num_page_faults":7,)") != std::string::npos);
  }
  EQUAL(ask("/kilim/odp,vhca0"), R"({"/kilim/odp":)" + whole_a + "}");
  EQUAL(ask("/kilim/odp,mlx5_1"), R"({"/kilim/odp":null})");
  EQUAL(ask("/kilim/odp"), R"({"/kilim/odp":{"vhca0":)" + whole_a + "}}");
}

const kilim::test::Case cases[] = {
    {"/kilim/odp shows all eleven names, a number or not reported", eleven_names},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string prefix = "--file-prefix=kilim_ut_" + std::to_string(::getpid());
  const char* eal[] = {"odp_ut",   "-l0",  "--no-huge",         "--no-shconf",
                       "--no-pci", "-m16", "--log-level=error", prefix.c_str()};
  if (rte_eal_init(8, const_cast<char**>(eal)) < 0) return 2;
  const int rc = kilim::test::run_cases("telemetry/odp", cases, argc, argv);
  rte_eal_cleanup();
  return rc;
}
