// A backend whose collectives can be ended from outside.
//
// When a connection is gone, Gloo wakes most of those who wait for the peer, but not one that has
// sent or received part of a large message: that collective lasts until its timeout. With this
// backend the caller stops waiting; Gloo's thread still waits, but only touches its own tensors.
#ifndef WORKER_TRAINER_COMM_ABORTABLE_BACKEND_H_
#define WORKER_TRAINER_COMM_ABORTABLE_BACKEND_H_

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace paceline {

// Forwards all collectives to `inner` and has the same name; what `inner` lacks throws as there.
// Any thread may call abort() after the connections were shut down: kAbortGrace later, whatever is
// still under way throws in those who wait for it, and later collectives throw at once. The
// destructor does not wait for hanging threads.
//
// getError tells, on any thread, whether a collective has failed or was aborted. It does so before
// anybody who waits gets the error.
c10::intrusive_ptr<c10d::Backend> MakeAbortable(const c10::intrusive_ptr<c10d::Backend>& inner);

// Calls `listener` on each thread that waits for a collective of this group: with true when it
// begins to, with false when it goes on. Call it before the group's first collective. Does nothing
// where the group's backend is another one.
void ListenToWaits(const c10d::ProcessGroup& group, std::function<void(bool waits)> listener);

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_ABORTABLE_BACKEND_H_
