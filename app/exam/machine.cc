// SPDX-License-Identifier: BSD-3-Clause
// E24, E48, E50: what depends on the machine and its rights: encryption keys without a login, the
// interface's state, a process without rights.
#include <cstring>
#include <string>

#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kilim/prm/cmd.hh"
#include "kilim/prm/crypto_seg.hh"
#include "kilim/prm/hca_cap.hh"
#include "question.hh"
#include "raw_packets.hh"

namespace kilim::exam {
namespace {

// CREATE_GENERAL_OBJECT of a key for AES-XTS in plain text.
void ask_encryption_key(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  if (!d.devx) answer.not_run("the device was opened without firmware commands (DevX)");
  mlx5dv_pd pd{};
  mlx5dv_obj object{};
  object.pd = {d.pd, &pd};
  if (mlx5dv_init_obj(&object, MLX5DV_OBJ_PD) != 0)
    give_up(answer, "mlx5dv_init_obj() of a domain");
  std::array<uint8_t, 16 + sizeof(prm::DekObject)> in{};
  std::array<uint8_t, 16> out{};
  in[0] = prm::cmd::create_general_object >> 8;
  in[1] = prm::cmd::create_general_object & 0xff;
  in[7] = prm::cmd::object_dek;
  prm::DekObject key{};
  key.key_size = prm::dek::size_128;
  key.tag_purpose = prm::dek::aes_xts;
  key.pd = be32{pd.pdn};
  for (std::size_t i = 0; i < 32; i++) key.key[i] = static_cast<uint8_t>(i * 11 + 3);
  std::memcpy(in.data() + 16, &key, sizeof key);
  const auto claimed = d.capability(0, prm::hca_cap::crypto.bit, prm::hca_cap::crypto.width);
  answer.fact("capability", claimed ? printed("%u", *claimed) : "unknown");
  mlx5dv_devx_obj* made =
      mlx5dv_devx_obj_create(d.context, in.data(), in.size(), out.data(), out.size());
  const int refused = made == nullptr ? errno_now() : 0;
  answer.fact("the key",
              made != nullptr
                  ? "ok"
                  : errno_name(refused) + printed(", status 0x%02x, syndrome 0x%02x%02x%02x%02x",
                                                  out[0], out[4], out[5], out[6], out[7]));
  answer.verdict(made != nullptr ? "taken" : "refused");
}

constexpr Meaning encryption_key_means[] = {
    {"taken", "keys in plain text work without a login, as the library has them"},
    {"refused",
     "the sentence of refusal names the crypto login or the missing capability by its syndrome"},
};

// The interface beside the port, and its flags. Ends the child where there is none.
struct Interface {
  int socket_fd;
  ifreq request{};

  Interface(const Device& d, Answer& answer)
      : socket_fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(d.context, 1, 0, &entry, 0) != 0 ||
        ::if_indextoname(entry.ndev_ifindex, request.ifr_name) == nullptr)
      answer.not_run("the port has no network interface beside it");
  }
  // Up or down; 0, or the errno.
  int set(bool up) {
    if (::ioctl(socket_fd, SIOCGIFFLAGS, &request) != 0) return errno_now();
    const int flags = request.ifr_flags;
    request.ifr_flags = static_cast<short>(up ? flags | IFF_UP : flags & ~IFF_UP);
    return ::ioctl(socket_fd, SIOCSIFFLAGS, &request) == 0 ? 0 : errno_now();
  }
};

// Events of the device for `seconds`, in their order, each once.
std::string events_for(const Device& d, double seconds) {
  ::fcntl(d.context->async_fd, F_SETFL, O_NONBLOCK);
  std::string all;
  for (const double end = seconds_now() + seconds; seconds_now() < end;) {
    pollfd p{d.context->async_fd, POLLIN, 0};
    ::poll(&p, 1, 50);
    ibv_async_event event{};
    if (ibv_get_async_event(d.context, &event) != 0) continue;
    const std::string name = ibv_event_type_str(event.event_type);
    if (!all.ends_with(name)) all += (all.empty() ? "" : ", ") + name;
    ibv_ack_async_event(&event);
  }
  return all.empty() ? "none" : all;
}

std::string port_state(const Device& d) {
  ibv_port_attr port{};
  return ibv_query_port(d.context, 1, &port) == 0 ? ibv_port_state_str(port.state) : "unknown";
}

void ask_link(const Setting& setting, Answer& answer) {
  const Device d = open_device(setting, answer);
  Interface i(d, answer);
  if (const int rc = i.set(false); rc != 0)
    give_up(answer, "the interface cannot be taken down", rc);
  const std::string down = events_for(d, 1);
  answer.fact("port while the interface is down", port_state(d));
  if (const int rc = i.set(true); rc != 0) give_up(answer, "the interface cannot be taken up", rc);
  const std::string up = events_for(d, 2);
  answer.fact("port behind that", port_state(d));
  answer.fact("events of down", down);
  answer.fact("events of up", up);
  answer.verdict(down == "none" && up == "none" ? "silent" : "events");
}

constexpr Meaning link_means[] = {
    {"events", "the port learns of its link by events: lost() hands them on"},
    {"silent", "the port has to ask for its link"},
};

// The process is a child that asks nothing else: its rights do not come back.
bool drop_rights() {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  return ::syscall(SYS_capset, &head, none) == 0;
}

void ask_rights(const Setting& setting, Answer& answer) {
  if (!drop_rights()) answer.not_run("the child cannot give its rights up");
  const Device d = open_device(setting, answer);
  answer.fact("DevX", d.devx ? "yes" : "no");
  if (!d.ethernet) answer.not_run("the port is InfiniBand: it has no raw packets");
  ibv_cq* cq = ibv_create_cq(d.context, 16, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RAW_PACKET;
  init.send_cq = init.recv_cq = cq;
  init.cap = {16, 16, 1, 1, 0};
  ibv_qp* raw = ibv_create_qp(d.pd, &init);
  const int refused = raw == nullptr ? errno_now() : 0;
  answer.fact("raw packet queue", errno_name(refused));
  answer.fact("reliable queue", "ok");
  make_queue(d, {});
  answer.verdict(raw == nullptr ? "raw queues are refused" : "raw queues are made");
}

constexpr Meaning rights_mean[] = {
    {"raw queues are refused", "the sentence that names CAP_NET_RAW is right"},
    {"raw queues are made", "this kernel asks no right: the sentence of refusal is never needed"},
};

constexpr Question rows[] = {
    {"E24", "an encryption key in plain text, without a login", 0, Disturbs::nothing, 10,
     encryption_key_means, "the status and syndrome that a sentence of refusal is chosen by",
     "--profile no-crypto", ask_encryption_key},
    {"E48", "the interface is taken down and up: events of the port", 0, Disturbs::netdev, 20,
     link_means, "which events come, and what the port says meanwhile",
     "cannot fail here: the interface of --netdev is always told of", ask_link},
    {"E50", "what a process without rights may make", 0, Disturbs::nothing, 10, rights_mean,
     "the errno that a sentence of refusal is chosen by",
     "cannot fail here: a virtual card asks for no right", ask_rights},
};

}  // namespace

std::span<const Question> machine_questions() {
  return rows;
}

}  // namespace kilim::exam
