// SPDX-License-Identifier: BSD-3-Clause
// The provider has few different poll functions: each one met gets a wrapper of its own, so that a
// queue's original is known without a table of queues.

#include "vhca/entry/poll_hook.hh"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "vhca/entry/instance.hh"
#include "vhca/entry/open_files.hh"

namespace kilim::vhca::entry {
namespace {

constexpr std::size_t max_contexts = 256;
constexpr std::size_t max_functions = 64;

// Contexts on virtual devices. An entry stays when its context is closed, until the address comes
// back or the room is needed: its instance lives as long as the process.
struct ContextEntry {
  std::atomic<const ibv_context*> context{nullptr};
  std::atomic<Instance*> instance{nullptr};
};
ContextEntry contexts[max_contexts];
std::atomic<std::size_t> next_context{0};

Instance* instance_of(const ibv_context* context) noexcept {
  for (const ContextEntry& entry : contexts) {
    const ibv_context* known = entry.context.load(std::memory_order_acquire);
    if (known == context) return entry.instance.load(std::memory_order_relaxed);
    if (known == nullptr) break;
  }
  return nullptr;
}

void remember(const ibv_context* context, Instance* instance) noexcept {
  for (ContextEntry& entry : contexts) {
    const ibv_context* known = entry.context.load(std::memory_order_relaxed);
    if (known != context && known != nullptr) continue;
    entry.instance.store(instance, std::memory_order_relaxed);
    entry.context.store(context, std::memory_order_release);
    return;
  }
  ContextEntry& entry = contexts[next_context.fetch_add(1) % max_contexts];
  entry.context.store(context, std::memory_order_relaxed);
  entry.instance.store(instance, std::memory_order_release);
}

// Null: the adapter had nothing to do.
Instance* run_for(const ibv_context* context) noexcept {
  Instance* instance = instance_of(context);
  return instance == nullptr || instance->poll_for_client() == 0 ? nullptr : instance;
}

// One wrapper for each original function; `Call` knows what "empty" is.
template <typename Call>
class Wrappers {
 public:
  using Function = typename Call::Function;

  // The wrapper of `original`; itself where it is one, or where there is no room.
  static Function wrap(Function original) noexcept {
    for (std::size_t i = 0; i < max_functions; i++) {
      if (original == table[i]) return original;
    }
    for (std::size_t i = 0; i < max_functions; i++) {
      Function known = nullptr;
      if (originals[i].compare_exchange_strong(known, original) || known == original) {
        return table[i];
      }
    }
    return original;
  }

 private:
  template <std::size_t I, typename... A>
  static int call(A... a) {
    const Function original = originals[I].load(std::memory_order_relaxed);
    const int result = original(a...);
    if (!Call::empty(result)) return result;
    Instance* instance = run_for(Call::context(a...));
    if (instance == nullptr) return result;
    const int found = original(a...);
    if (!Call::empty(found)) instance->client_found();
    return found;
  }
  template <std::size_t... I>
  static constexpr std::array<Function, max_functions> make_table(std::index_sequence<I...>) {
    return {Call::template pick<Wrappers, I>()...};
  }

  friend Call;
  static inline std::atomic<Function> originals[max_functions];
  static const std::array<Function, max_functions> table;
};

template <typename Call>
const std::array<typename Call::Function, max_functions> Wrappers<Call>::table =
    make_table(std::make_index_sequence<max_functions>());

struct PollCq {
  using Function = int (*)(ibv_cq*, int, ibv_wc*);
  static bool empty(int result) noexcept { return result == 0; }
  static const ibv_context* context(ibv_cq* cq, int, ibv_wc*) noexcept { return cq->context; }
  template <typename W, std::size_t I>
  static constexpr Function pick() {
    return &W::template call<I, ibv_cq*, int, ibv_wc*>;
  }
};

struct StartPoll {
  using Function = int (*)(ibv_cq_ex*, ibv_poll_cq_attr*);
  static bool empty(int result) noexcept { return result == ENOENT; }
  static const ibv_context* context(ibv_cq_ex* cq, ibv_poll_cq_attr*) noexcept {
    return cq->context;
  }
  template <typename W, std::size_t I>
  static constexpr Function pick() {
    return &W::template call<I, ibv_cq_ex*, ibv_poll_cq_attr*>;
  }
};

using CreateCqEx = ibv_cq_ex* (*)(ibv_context*, ibv_cq_init_attr_ex*);
std::atomic<CreateCqEx> create_cq_ex{nullptr};  // the library's, the same for every context

ibv_cq_ex* create_hooked_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  return hook_polls(create_cq_ex.load(std::memory_order_relaxed)(context, attr));
}

using QueryRtValues = int (*)(ibv_context*, ibv_values_ex*);
std::atomic<QueryRtValues> query_rt_values{nullptr};  // the provider's, the same for every context

// The provider reads a page of the adapter: the present time is written there first.
int query_hooked_rt_values(ibv_context* context, ibv_values_ex* values) {
  if (Instance* instance = instance_of(context)) instance->hca().tick_core_clock();
  return query_rt_values.load(std::memory_order_relaxed)(context, values);
}

// Puts `ours` in the place of a function of the context, and keeps the one that was there.
template <typename Function>
void put_before(Function& place, std::atomic<Function>& kept, Function ours) noexcept {
  if (place == nullptr || place == ours) return;
  kept.store(place, std::memory_order_relaxed);
  place = ours;
}

}  // namespace

ibv_context* hook_polls(ibv_context* context) noexcept {
  if (context == nullptr) return nullptr;
  const OpenFileRef open(context->cmd_fd);
  if (!open) return context;
  remember(context, open->instance);
  context->ops.poll_cq = Wrappers<PollCq>::wrap(context->ops.poll_cq);
  verbs_context* extended = verbs_get_ctx(context);
  if (extended == nullptr) return context;
  put_before(extended->create_cq_ex, create_cq_ex, &create_hooked_cq_ex);
  put_before(extended->query_rt_values, query_rt_values, &query_hooked_rt_values);
  return context;
}

ibv_cq_ex* hook_polls(ibv_cq_ex* cq) noexcept {
  if (cq == nullptr || instance_of(cq->context) == nullptr) return cq;
  cq->start_poll = Wrappers<StartPoll>::wrap(cq->start_poll);
  return cq;
}

}  // namespace kilim::vhca::entry
