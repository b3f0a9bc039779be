// SPDX-License-Identifier: BSD-3-Clause
// Compiled twice, with asserts and without (meson.build).
#include "layout_model.hh"

#include "kilim/detail/base/owner.hh"
#include "kilim/detail/burst/recv.hh"
#include "kilim/detail/burst/rx.hh"
#include "kilim/detail/burst/tx.hh"
#include "kilim/detail/lookup/front.hh"
#include "kilim/detail/mkey/mkey_binder.hh"
#include "kilim/detail/mkey/mkey_cache.hh"
#include "kilim/detail/mkey/mkey_pool.hh"
#include "kilim/detail/pool/pool.hh"
#include "kilim/detail/port/mkey_queue.hh"
#include "kilim/detail/port/port.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/rq.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/queue/srq.hh"
#include "kilim/detail/queue/watch.hh"
#include "kilim/detail/queue/wqe_cursor.hh"
#include "kilim/detail/relaxed/relaxed.hh"
#include "kilim/detail/umr/list_memory.hh"

namespace kilim::test {
namespace layout_model_ut {
namespace {

template <typename T>
constexpr Layout layout_of(const char* type) {
  return {type, sizeof(T), alignof(T)};
}
constexpr Layout layouts[] = {
    layout_of<Owner>("Owner"),
    layout_of<queue::WatchSlot>("WatchSlot"),
    layout_of<queue::Sq>("Sq"),
    layout_of<queue::WqeCursor>("WqeCursor"),
    layout_of<queue::Rq>("Rq"),
    layout_of<queue::Srq>("Srq"),
    layout_of<queue::Cq>("Cq"),
    layout_of<lookup::Front>("Front"),
    layout_of<pool::BufferCache>("BufferCache"),
    layout_of<pool::Pool>("Pool"),
    layout_of<mkey::MkeyPool>("MkeyPool"),
    layout_of<mkey::MkeyCache>("MkeyCache"),
    layout_of<umr::ListMemory>("ListMemory"),
    layout_of<mkey::MkeyBinder>("MkeyBinder"),
    layout_of<burst::RxQueue>("RxQueue"),
    layout_of<burst::TxQueue>("TxQueue"),
    layout_of<burst::RecvQueue<queue::Rq>>("RecvQueue"),
    layout_of<port::Port>("Port"),
    layout_of<port::MkeyQueue>("MkeyQueue"),
};

}  // namespace
}  // namespace layout_model_ut

#ifdef NDEBUG
std::span<const Layout> layouts_without() {
  return layout_model_ut::layouts;
}
#else
std::span<const Layout> layouts_with_asserts() {
  return layout_model_ut::layouts;
}
#endif

}  // namespace kilim::test
