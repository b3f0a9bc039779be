// SPDX-License-Identifier: BSD-3-Clause
// A path as verbs name it (address handles, MODIFY_QP), checked and completed as ib_core does. RoCE
// needs a GRH, an existing source GID and the MAC of the next hop; InfiniBand a GID only with GRH.
// Adapter's lock held.
#pragma once

#include <rdma/ib_user_verbs.h>

#include "vhca/hca/hca.hh"
#include "vhca/hca/verb_refusals.hh"

namespace kilim::vhca::uverbs {

// Where it leaves from: 0; -EINVAL: no GRH, port or source GID; -ENODATA: an empty entry.
int check_source(hca::Hca& hca, const QpAttr::Path& path);
// The same, and where it leads: -EHOSTUNREACH: no MAC is known for the destination.
int resolve_path(hca::Hca& hca, QpAttr::Path& path);

// Which of a verb's reasons is told of each of these.
struct PathRefusals {
  hca::VerbRefusal not_global, no_source, no_route;
};
// Tells of it; returns `err`.
int refuse_path(hca::Hca& hca, int err, const QpAttr::Path& path, const PathRefusals& why);

QpAttr::Path path_of(const ib_uverbs_qp_dest& dest);
QpAttr::Path path_of(const ib_uverbs_ah_attr& attr);
ib_uverbs_qp_dest dest_of(const QpAttr::Path& path);

}  // namespace kilim::vhca::uverbs
