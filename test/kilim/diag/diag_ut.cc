// SPDX-License-Identifier: BSD-3-Clause
// The linter on the library's own WQEs and on seeded mistakes, at the doorbell and from a
// recording; among the mistakes those that were found in other drivers. Nothing here needs a device
// but replay.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "../queue/ring_fixture.hh"
#include "kilim/detail/diag/doorbell_lint.hh"
#include "kilim/detail/diag/recorder.hh"
#include "kilim/detail/diag/recording.hh"
#include "kilim/detail/queue/rc_wqe.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/umr/umr_wqe.hh"
#include "ut.hh"
#include "wqe_tool.hh"

namespace diag_ut {
namespace {

using namespace kilim;
using prm::lint::Rule;
using Scratch = test::ScratchFile;

constexpr uint32_t blocks = 64;
const Lkey memory_key{0x1100}, bound{0x2200}, other{0x3300};
constexpr std::size_t umr_at = 16, mkey_at = 64, list_at = 128;

// A queue in ordinary memory, and mistakes made in it between writing and the doorbell.
struct Bench {
  test::SqRing<blocks> ring;
  std::array<uint64_t, blocks> ids{};
  queue::Sq sq{ring.geometry(), ids};
  queue::WqeCursor c{sq};

  void umr(Lkey key = bound, uint8_t flags = 0) {
    const umr::Piece pieces[] = {{0x10000, 100, memory_key}, {0x20000, 50, memory_key}};
    const umr::ListRequest r{
        .key = key, .max_entries = 4, .access = umr::mkey_access(mr::Access::local_write)};
    CU_ASSERT_TRUE(umr::umr_list(c, r, umr::View::of(pieces), {.flags = flags}).ok());
  }
  void write(Lkey key, uint8_t flags = 0) {
    CU_ASSERT_TRUE(
        queue::rdma_write(c, {0x9000, Rkey{0x4400}}, queue::Sge{0, 64, key}, {.flags = flags}));
  }
  void read(Lkey key) {
    CU_ASSERT_TRUE(queue::rdma_read(c, {0x9000, Rkey{0x4400}}, queue::Sge{0, 64, key}, {}));
  }
  void nop() {
    c.control(prm::Opcode::nop, Octowords{1}, 0, 0);
    c.advance(1, 0);
  }
  void psv() {
    std::memset(c.line(), 0, 64);
    c.control(prm::Opcode::set_psv, Octowords{2}, 0, 0);
    c.advance(1, 0);
  }
  template <typename T>
  void spoil(std::size_t at, T value) {
    std::memcpy(ring.memory.data() + at, &value, sizeof(value));
  }
};

struct Seed {
  Rule rule;
  std::function<void(Bench&)> make;
};

// A UMR by pointer, 9 octowords, as a driver of another project writes it.
void by_pointer(Bench& b, uint64_t at, uint32_t bytes) {
  b.umr();
  b.spoil(umr_at, uint8_t{0});
  b.spoil(6, be16{static_cast<uint16_t>(0xef09)});
  const prm::DataSeg p{be32{bytes}, be32{memory_key.value()}, be64{at}};
  b.spoil(list_at, p);
}

// clang-format off
const Seed seeds[] = {
    // DPDK's regex driver: a flag of the control segment in the mask; entries counted instead of bytes.
    {Rule::mkey_mask,         [](Bench& b) { b.umr(); b.spoil(umr_at + 8, be64{prm::umr::mask_len | prm::umr::has_translation_offset}); }},
    {Rule::pointer_bytes,     [](Bench& b) { by_pointer(b, 2048, 4); }},
    // libmlx5: a stride of 70,000 bytes loses its upper bits.
    {Rule::stride_sum,        [](Bench& b) { b.umr(); b.spoil(list_at, prm::RepeatBlockSeg{be32{70000}, be32{prm::repeat_block_op}, be32{2}, be16{0}, be16{1}}); b.spoil(list_at + 16, prm::RepeatEntSeg{be16{4464}, be16{4464}, be32{0x1100}, be64{0}}); }},
    // libmlx5: a queue that is too short for 64 entries writes ds 72 into six bits.
    {Rule::reserved_bits,     [](Bench& b) { b.umr(); b.spoil(7, uint8_t{72}); }},
    {Rule::pointer_alignment, [](Bench& b) { by_pointer(b, 2048 + 64, 64); }},
    {Rule::octowords,         [](Bench& b) { b.umr(); b.spoil(umr_at + 4, be16{8}); }},
    {Rule::klm_padding,       [](Bench& b) { b.umr(); b.spoil(umr_at + 4, be16{3}); }},
    {Rule::umr_flags,         [](Bench& b) { b.umr(); b.spoil(umr_at, uint8_t{0x84}); }},
    {Rule::reserved_bits,     [](Bench& b) { b.umr(); b.spoil(umr_at + 1, uint8_t{1}); }},
    {Rule::reserved_bits,     [](Bench& b) { b.write(memory_key); b.spoil(11, uint8_t{0x19}); }},
    {Rule::offset_granule,    [](Bench& b) { b.umr(); b.spoil(umr_at, uint8_t{0x90}); b.spoil(umr_at + 6, be16{3}); }},
    {Rule::klm_too_long,      [](Bench& b) { b.umr(); b.spoil(list_at, be32{0x80000001}); }},
    {Rule::key_too_long,      [](Bench& b) { b.umr(); b.spoil(mkey_at + 24, be64{151}); }},
    {Rule::self_reference,    [](Bench& b) { b.umr(); b.spoil(list_at + 4, be32{bound.value()}); }},
    {Rule::zero_length,       [](Bench& b) { b.write(memory_key); b.spoil(32, be32{0}); }},
    {Rule::inline_answer,     [](Bench& b) { b.read(memory_key); b.spoil(32, be32{0x80000004}); }},
    {Rule::undefined_opcode,  [](Bench& b) { b.write(memory_key); b.spoil(3, uint8_t{0x66}); }},
    {Rule::ds_mismatch,       [](Bench& b) { b.write(memory_key); b.spoil(7, uint8_t{2}); b.spoil(3, uint8_t{0x11}); }},
    {Rule::unfenced_key,      [](Bench& b) { b.umr(); b.c.fence_next(0); b.write(bound); }},
    {Rule::unfenced_key,      [](Bench& b) { b.umr(); b.c.fence_next(0); b.umr(); }},
    // A mode that waits for answers alone is no fence behind a UMR.
    {Rule::unfenced_key,      [](Bench& b) { b.umr(); b.c.fence_next(0); b.write(bound, prm::ctrl::answer_fence); }},
    {Rule::unfenced_key,      [](Bench& b) { b.umr(bound, prm::ctrl::strong_fence); b.c.fence_next(0); b.write(bound); }},
    {Rule::unfenced_umr,      [](Bench& b) { b.umr(); b.c.fence_next(0); b.write(memory_key); }},
    {Rule::unfenced_umr,      [](Bench& b) { b.umr(); b.c.fence_next(0); b.nop(); b.umr(other); b.c.fence_next(0); b.read(memory_key); }},
    {Rule::unfenced_umr,      [](Bench& b) { b.umr(); b.psv(); b.c.fence_next(0); b.write(memory_key); }},
    {Rule::key_in_flight,     [](Bench& b) { b.umr(); b.write(bound); b.umr(); }},
    // What has been sent may have to go out again: nothing less than a strong fence waits for it.
    {Rule::key_in_flight,     [](Bench& b) { b.umr(); b.write(bound); b.umr(bound, prm::ctrl::small_fence); }},
    {Rule::key_in_flight,     [](Bench& b) { b.umr(); b.write(bound); b.umr(bound, prm::ctrl::fence); }},
    {Rule::key_in_flight,     [](Bench& b) { b.umr(); b.write(bound); b.read(bound); b.umr(bound, prm::ctrl::fence); }},
    {Rule::key_in_flight,     [](Bench& b) { b.umr(); b.read(bound); b.umr(bound, prm::ctrl::small_fence); }},
};
// clang-format on

void sound_wqes_pass(Bench& b) {
  b.umr(bound);
  b.umr(other);
  b.write(bound);
  b.write(memory_key, prm::ctrl::cq_update);
  b.umr(bound, prm::ctrl::strong_fence);
  b.read(bound);
  b.umr(bound, prm::ctrl::fence);  // a READ has ended with its answer
  b.write(bound);
  CU_ASSERT_TRUE(umr::local_invalidate(b.c, bound, {.flags = prm::ctrl::strong_fence}).ok());
  b.c.fence_next(0);  // nobody behind it names the key
  b.write(memory_key);
}

void the_doorbell_names_each_mistake() {
  CU_ASSERT_TRUE(std::size(seeds) >= 20);
  for (const Seed& seed : seeds) {
    Bench b;
    diag::DoorbellLint lint{false};
    CU_ASSERT_TRUE_FATAL(b.sq.watch(&lint));
    seed.make(b);
    b.c.commit();
    CU_ASSERT_TRUE(lint.findings() >= 1);
  }
  Bench sound;
  diag::DoorbellLint lint{true};
  CU_ASSERT_TRUE_FATAL(sound.sq.watch(&lint));
  sound_wqes_pass(sound);
  sound.c.commit();
  EQUAL(lint.findings(), 0);
}

void a_recording_is_linted_offline() {
  for (const Seed& seed : seeds) {
    Scratch file;
    {
      Bench b;
      auto recorder = diag::Recorder::open(file.path, 1 << 16, 2);
      CU_ASSERT_TRUE_FATAL(recorder.ok());
      CU_ASSERT_TRUE_FATAL(b.sq.watch(recorder->get()));
      seed.make(b);
      b.c.commit();
      EQUAL((*recorder)->lost(), 0);
    }
    int status = 0;
    const std::string text = test::wqe_tool("lint", file.path, status);
    const std::string name = std::string(prm::lint::row_of(seed.rule).name) + ": ";
    const bool named = text.find(name) != std::string::npos;
    if (!named) std::printf("no %s in: %s\n", name.c_str(), text.c_str());
    CU_ASSERT_TRUE(named);
    EQUAL(status, 1 << 8);
  }
}

void a_sound_recording_is_printed_compared_and_replayed() {
  Scratch one, two;
  for (const Scratch* file : {&one, &two}) {
    Bench b;
    auto recorder = diag::Recorder::open(file->path, 1 << 16, 2);
    CU_ASSERT_TRUE_FATAL(recorder.ok());
    CU_ASSERT_TRUE_FATAL(b.sq.watch(recorder->get()));
    sound_wqes_pass(b);
    if (file == &two) b.write(other);
    b.c.commit();
  }
  int status = 0;
  CU_ASSERT_TRUE(test::wqe_tool("lint", one.path, status).find("0 findings") != std::string::npos);
  EQUAL(status, 0);
  const std::string printed = test::wqe_tool("print", one.path, status);
  CU_ASSERT_TRUE(printed.find("lcore 2: UMR index 0 ") != std::string::npos);
  CU_ASSERT_TRUE(printed.find("    [1] 0x32 bytes key 0x1100 at 0x20000") != std::string::npos);
  const std::string both = std::string(one.path) + " " + two.path;
  const std::string differs = test::wqe_tool("diff", both.c_str(), status);
  CU_ASSERT_TRUE(differs.find("+    0x40 bytes key 0x3300 at 0x0") != std::string::npos);
  EQUAL(status, 1 << 8);
  const std::string replayed = test::wqe_tool("replay", two.path, status);
  const bool all = replayed.find("1 doorbells replayed, 0 WQEs failed") != std::string::npos;
  if (!all) std::printf("%s\n", replayed.c_str());
  CU_ASSERT_TRUE(all);
  EQUAL(status, 0);
}

void other_files_are_refused() {
  Scratch file;
  int status = 0;
  CU_ASSERT_TRUE(test::wqe_tool("print", file.path, status).find("shorter than") !=
                 std::string::npos);
  CU_ASSERT_TRUE(test::wqe_tool("lint", file.path, status).find("shorter than") !=
                 std::string::npos);
  EQUAL(status, 2 << 8);
  EQUAL(diag::Recorder::open("/", 1 << 16).ok(), false);
  EQUAL(diag::Recorder::open(file.path, 64).error().code, EINVAL);
}

// What has no end is not read, and a file that only claims to be long is not taken into memory.
void what_is_no_regular_file_is_refused() {
  int status = 0;
  const char* why = "no regular file";
  for (const char* path : {"/", "/dev/zero", "/dev/null"}) {
    const std::string said = test::wqe_tool("print", path, status);
    CU_ASSERT_TRUE(said.find(why) != std::string::npos);
    EQUAL(status, 2 << 8);
  }
  Scratch sparse;
  CU_ASSERT_TRUE(diag::Recorder::open(sparse.path, 1 << 16).ok());
  const uint64_t claimed = uint64_t{1} << 40;
  std::FILE* file = std::fopen(sparse.path, "r+b");
  CU_ASSERT_FATAL(file != nullptr);
  std::fseek(file, offsetof(diag::RecordingHead, used), SEEK_SET);
  EQUAL(std::fwrite(&claimed, sizeof(claimed), 1, file), 1);
  std::fclose(file);
  CU_ASSERT_TRUE(test::wqe_tool("print", sparse.path, status).find("cut off") != std::string::npos);
  EQUAL(::truncate(sparse.path, static_cast<off_t>(claimed)), 0);
  CU_ASSERT_TRUE(test::wqe_tool("print", sparse.path, status).find("1 GiB") != std::string::npos);
}

void a_full_recording_counts_what_it_lost() {
  Scratch file;
  Bench b;
  auto recorder = diag::Recorder::open(file.path, 32 + 2 * 128, 2);
  CU_ASSERT_TRUE_FATAL(recorder.ok());
  CU_ASSERT_TRUE_FATAL(b.sq.watch(recorder->get()));
  for (int i = 0; i < 3; i++) {
    b.write(memory_key);
    b.c.commit();
  }
  EQUAL((*recorder)->lost(), 1);
}

// A disk that is full later would end the process by SIGBUS, in the doorbell that meets it.
void a_recording_is_all_there_before_the_first_doorbell() {
  constexpr std::size_t bytes = 1 << 20;
  Scratch file;
  auto recorder = diag::Recorder::open(file.path, bytes, 2);
  CU_ASSERT_TRUE_FATAL(recorder.ok());
  struct stat st;
  EQUAL_FATAL(::stat(file.path, &st), 0);
  EQUAL(st.st_size, static_cast<off_t>(bytes));
  CU_ASSERT_TRUE(st.st_blocks * 512 >= static_cast<off_t>(bytes));
}

// More than any disk has: an errno, and the file has given back what it had got.
void a_recording_that_does_not_fit_is_an_error() {
  Scratch file;
  const auto recorder = diag::Recorder::open(file.path, std::size_t{1} << 55, 2);
  CU_ASSERT_TRUE(!recorder.ok() && recorder.error().code != 0);
  struct stat st;
  EQUAL_FATAL(::stat(file.path, &st), 0);
  EQUAL(st.st_size, 0);
}

// A template is judged when it is compiled.
constexpr bool template_is_sound(uint8_t flags) {
  std::array<std::byte, 64> w{};
  w[3] = std::byte{0x08};
  w[7] = std::byte{3};
  w[11] = std::byte{flags};
  w[35] = std::byte{64};
  return prm::lint::check_wqe(w).empty();
}
static_assert(template_is_sound(prm::ctrl::cq_update) && !template_is_sound(1));

const test::Case cases[] = {
    {"the doorbell names each of more than 20 mistakes", the_doorbell_names_each_mistake},
    {"a recording is linted offline", a_recording_is_linted_offline},
    {"a sound recording is printed, compared and replayed",
     a_sound_recording_is_printed_compared_and_replayed},
    {"other files are refused with a sentence", other_files_are_refused},
    {"what is no regular file is refused", what_is_no_regular_file_is_refused},
    {"a full recording counts what it lost", a_full_recording_counts_what_it_lost},
    {"a recording is all there before the first doorbell",
     a_recording_is_all_there_before_the_first_doorbell},
    {"a recording that does not fit is an error", a_recording_that_does_not_fit_is_an_error},
};

}  // namespace
}  // namespace diag_ut

KILIM_TEST_SUITE(diag, diag_ut::cases)
