// SPDX-License-Identifier: BSD-3-Clause
// Handles, use counts and events of one open of the device. Adapter's lock held.
#include "vhca/uverbs/context.hh"

#include <algorithm>
#include <cerrno>

#include <rdma/ib_user_verbs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "vhca/core/refusal.hh"
#include "vhca/hca/objects.hh"
#include "vhca/hca/ports.hh"
#include "vhca/uverbs/devx_events.hh"

namespace kilim::vhca::uverbs {

Context::~Context() {
  if (!disowned) close();
  for (auto& o : objects_) {  // what a child has made
    if (o) destroy(*o);
  }
}

void Context::completion(void* cq_owner) noexcept {
  auto* owner = static_cast<Object*>(cq_owner);
  if (owner->kind == Kind::devx_obj)
    return post_devx_event(*static_cast<DevxObject*>(owner), devx_event::completion);
  auto* cq = static_cast<CqObject*>(owner);
  if (cq->channel == nullptr) return;
  ib_uverbs_comp_event_desc event{cq->user_handle};
  if (cq->channel->post(&event, sizeof event)) cq->completions_posted++;
}

void Context::async(uint32_t type, void* owner) noexcept {
  ib_uverbs_async_event_desc event{};
  event.event_type = type;
  if (owner == nullptr) {
    event.element = 1;  // the port
    for (const auto& file : event_files_) {
      if (file->kind() == EventFile::Kind::async) file->post(&event, sizeof event);
    }
    return;
  }
  auto* object = static_cast<Object*>(owner);
  if (object->kind == Kind::devx_obj) {
    const uint8_t number = devx_event::of(type);
    if (number != 0) post_devx_event(*static_cast<DevxObject*>(object), number);
    return;
  }
  auto* source = static_cast<EventSource*>(object);
  if (source->async == nullptr) return;
  event.element = source->user_handle;
  if (source->async->post(&event, sizeof event)) source->async_posted++;
}

Object* Context::object(uint64_t handle) const noexcept {
  return handle < objects_.size() ? objects_[handle].get() : nullptr;
}

UarObject* Context::find_uar(uint32_t page) const noexcept {
  for (const auto& o : objects_) {
    if (o == nullptr || o->kind != Kind::uar) continue;
    auto* uar = static_cast<UarObject*>(o.get());
    if (uar->uar->index == page) return uar;
  }
  return nullptr;
}

DmObject* Context::find_dm(uint16_t page) const noexcept {
  for (const auto& o : objects_) {
    if (o == nullptr || o->kind != Kind::dm) continue;
    auto* dm = static_cast<DmObject*>(o.get());
    if (dm->icm.address == 0 && dm->block.page_index() == page) return dm;
  }
  return nullptr;
}

Object::~Object() {
  if (used_count_ > 1) delete[] many_;
}

void Object::use(std::initializer_list<Object*> others) {
  const auto is_one = [](const Object* o) { return o != nullptr; };
  used_count_ = static_cast<uint8_t>(std::count_if(others.begin(), others.end(), is_one));
  if (used_count_ > 1) many_ = new Object*[used_count_];
  std::copy_if(others.begin(), others.end(), uses().begin(), is_one);
  for (Object* u : uses()) u->users++;
}

void Context::add(std::unique_ptr<Object> object, std::initializer_list<Object*> used) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<uint32_t>(objects_.size()));
    objects_.emplace_back();
  }
  object->handle = unused_.back();
  unused_.pop_back();
  object->use(used);
  objects_[object->handle] = std::move(object);
}

void Context::use_instead(Object& object, Object& before, Object& now) noexcept {
  for (Object*& u : object.uses()) {
    if (u != &before) continue;
    u = &now;
    before.users--;
    now.users++;
    return;
  }
}

int Context::destroy(Object& object) {
  if (object.users != 0) return refusal::busy("the object", object.users);
  if (int err = object.release(*this); err != 0) return err;
  forget_subscriptions(object);
  for (Object* u : object.uses()) u->users--;
  uint32_t handle = object.handle;
  objects_[handle].reset();
  unused_.push_back(handle);
  return 0;
}

int Context::keep_unless(int err, Object& object) {
  if (err != 0) destroy(object);
  return err;
}

int Context::refusal(WhenDead when_dead) const noexcept {
  const bool makes = when_dead == WhenDead::refused || when_dead == WhenDead::closed;
  if (makes && !memory_reserve::fill()) return refusal::full("this process's memory");
  constexpr const char* gone = "the device is dead (a fatal event, or it was unplugged)";
  if (!hca.context.dead) return 0;
  if (when_dead == WhenDead::closed) return refusal::text(EAGAIN, gone);
  return when_dead == WhenDead::refused ? refusal::text(EIO, gone) : 0;
}

EventFile* Context::event_file(EventFile::Kind kind, int64_t fd) const noexcept {
  struct stat st {};
  if (fd < 0 || fd > INT32_MAX || syscall(SYS_fstat, static_cast<int>(fd), &st) != 0)
    return nullptr;
  for (const auto& file : event_files_) {
    if (file->kind() == kind && file->is(st.st_dev, st.st_ino)) return file.get();
  }
  return nullptr;
}

int Context::make_event_file(EventFile::Kind kind) {
  std::erase_if(event_files_, [this](const std::unique_ptr<EventFile>& f) {
    return f.get() != default_async && f->abandoned();
  });
  Fd client_fd;
  Result<std::unique_ptr<EventFile>> file = EventFile::create(kind, client_fd);
  if (!file) return refusal::of(file.error());
  if (kind == EventFile::Kind::async && default_async == nullptr) default_async = file->get();
  event_files_.push_back(std::move(*file));
  return client_fd.release();
}

void Context::open(bool with_devx) {
  opened = true;
  devx = with_devx;
  dm_open = hca.dm.enter();
  hca.add_sink(this);
}

void Context::destroy_all(int kind) {
  for (auto& o : objects_) {
    if (!o || static_cast<int>(o->kind) != kind) continue;
    if (o->kind == Kind::qp && !static_cast<QpObject&>(*o).hashes)
      hca::leave_groups(hca, static_cast<QpObject&>(*o).qpn);
    destroy(*o);
  }
}

void Context::close() {
  if (opened) hca.remove_sink(this);
  // Users before what they use: the kinds are numbered in that order. What firmware commands made
  // is one kind, whose objects use one another: five deep from a rule's TIR to a domain.
  constexpr int rounds = 6;
  for (int round = 0; round < rounds; round++) {
    for (auto k = static_cast<int>(Kind::flow); k <= static_cast<int>(Kind::pd); k++)
      destroy_all(k);
  }
  if (domain != 0) (void)hca::dealloc_domain(hca, domain);
  domain = 0;
  if (opened) hca.dm.leave(dm_open);
  objects_.clear();
  forget_files();
  opened = false;
}

void Context::disown() {
  for (auto& o : objects_) {
    if (o && o->kind == Kind::dm) {
      static_cast<DmObject&>(*o).inherited = true;
    } else {
      o.reset();
    }
  }
  forget_files();
  disowned = true;
}

void Context::forget_files() {
  subscriptions_.clear();
  unused_.clear();
  event_files_.clear();
  default_async = nullptr;
}

}  // namespace kilim::vhca::uverbs
