// A backend whose collectives can be ended from outside.
//
// Gloo tells most of those who wait for a peer that the connection is gone, but not who has sent a
// part of a large message, or received one: that collective lasts until its timeout, although the
// connection was shut down long ago. Here who waits for it waits no longer; its thread does, and
// touches nothing but its own tensors meanwhile.
#ifndef WORKER_TRAINER_COMM_ABORTABLE_BACKEND_H_
#define WORKER_TRAINER_COMM_ABORTABLE_BACKEND_H_

#include <c10/util/intrusive_ptr.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace paceline {

// Passes everything on to `inner`, and has the same name. It knows those collectives that a Group
// and torch's Reducer use. abort() may be called by any thread, after the connections were shut
// down: kAbortGrace later whatever is still under way throws in those who wait for it, and what
// comes after throws at once. The destructor does not wait for what hangs.
c10::intrusive_ptr<c10d::Backend> MakeAbortable(const c10::intrusive_ptr<c10d::Backend>& inner);

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_ABORTABLE_BACKEND_H_
