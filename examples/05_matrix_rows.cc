// SPDX-License-Identifier: BSD-3-Clause
// A tile and a column of a matrix are each sent as one message: a strided mkey has one entry
// {address, bytes, stride}, whatever the number of rows. Read 03_umr_gather.cc first.
// Runs without hardware: build/examples/05_matrix_rows [DEVICE]
#include <cstdio>
#include <string_view>
#include <vector>

#include "kilim/device.hh"
#include "kilim/mkey.hh"
#include "kilim/queue.hh"
#include "kilim/region.hh"
#include "kilim/umr.hh"

namespace {

using namespace kilim;

constexpr uint32_t rows = 64;
constexpr uint32_t columns = 48;

int refused(const char* what, const char* why) {
  std::fprintf(stderr, "05_matrix_rows: %s: %s\n", what, why);
  return 1;
}

struct Tile {
  uint32_t row, column, height, width;
};

struct Bench {
  device::Device& device;
  port::MkeyQueue& queue;
  mr::Region matrix;  // rows x columns doubles
  mr::Region out;     // where a tile arrives, row after row
  umr::UmrContext context;
};

// The tile as a strided entry: `width` numbers, repeated with the stride of a row.
umr::StridedEntry entry_of(const mr::Region& matrix, const Tile& t) {
  return {.address = matrix.iova + (uint64_t{t.row} * columns + t.column) * sizeof(double),
          .bytes = t.width * uint32_t{sizeof(double)},
          .stride = columns * uint32_t{sizeof(double)},
          .key = matrix.lkey};
}

bool send(Bench& b, mkey::Binding& key, const Tile& t) {
  const umr::StridedEntry entry = entry_of(b.matrix, t);
  const umr::StridedView view{&entry, 1, t.height};
  const mkey::Bind how{.access = umr::mkey_access(mr::Access::remote_read)};
  queue::WqeCursor c{b.queue.sq()};
  // If the device has no strided lists, or a number exceeds its 16-bit field, umr_strided_view()
  // makes an ordinary list of blocks.
  const auto build = [&](queue::WqeCursor& at, const mkey::Mkey& k, uint8_t tag,
                         const umr::UmrWr& wr) {
    return umr::umr_strided_view(at, b.context, b.queue.binder().request(k, tag, how), view, wr);
  };
  if (const Outcome o = b.queue.binder().bind_with(c, key, how, build); !o.ok()) {
    refused("UMR", text(o.why));
    return false;
  }
  const queue::Sge from{0, static_cast<uint32_t>(view.length()), key.lkey_behind(c)};
  if (!queue::rdma_write(c, {b.out.iova, b.out.rkey}, from, {})) return false;
  b.queue.binder().commit(c);
  return b.queue.wait();
}

bool same(const std::vector<double>& matrix, const std::vector<double>& out, const Tile& t) {
  for (uint32_t r = 0; r < t.height; r++)
    for (uint32_t k = 0; k < t.width; k++)
      if (out[std::size_t{r} * t.width + k] !=
          matrix[std::size_t{t.row + r} * columns + t.column + k])
        return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--help")
    return std::puts("usage: 05_matrix_rows [DEVICE]    a card's name or vhcaN; default vhca0") < 0;
  auto attached = attach::resolve({.name = argc > 1 ? argv[1] : "vhca0"});
  if (!attached) return refused("device", attached.error().what);
  device::Device& device = *attached->device;

  std::vector<double> matrix(std::size_t{rows} * columns);
  std::vector<double> out(matrix.size());
  for (std::size_t i = 0; i < matrix.size(); i++) matrix[i] = static_cast<double>(i) / 3;
  mr::Registrar& registrar = device.registrar();
  auto from =
      mr::Mr::create(registrar, std::as_writable_bytes(std::span{matrix}), mr::Access::all, 4096);
  auto to =
      mr::Mr::create(registrar, std::as_writable_bytes(std::span{out}), mr::Access::all, 4096);
  if (!from || !to) return refused("memory", "the device registers none");
  auto queue = port::MkeyQueue::create(
      device, {.keys = 8, .key = {.max_entries = 64}, .access = mr::Access::all});
  if (!queue) return refused("queue", queue.error().what);

  Bench b{device, **queue, from->region(), to->region(), {.limits = device.caps().umr_limits()}};
  mkey::Binding key = b.queue.binder().claim();
  constexpr Tile tiles[] = {{8, 16, 32, 12},      // a tile
                            {0, 7, rows, 1},      // a column
                            {5, 0, 1, columns}};  // a row, for completeness
  for (const Tile& t : tiles) {
    const bool good = send(b, key, t) && same(matrix, out, t);
    std::printf("%u x %u at (%u, %u): %s\n", t.height, t.width, t.row, t.column,
                good ? "arrived as one row" : "WRONG");
    if (!good) return 1;
  }
  return 0;
}
