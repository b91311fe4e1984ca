// The meeting of the members of a generation with Slipstream: who has which state of the training,
// and who gets it (slipstream/meeting.h).
//
// What is missing goes from the most advanced member to the others one by one:
//
//   the canonical model; in modes of gradients the optimizer's state and step counts
//   to newcomers also: the optimizer's state in any mode, counters of the model, the state of the
//   random numbers, the position in the data
#ifndef WORKER_TRAINER_GENERATION_SLIPSTREAM_MEETING_H_
#define WORKER_TRAINER_GENERATION_SLIPSTREAM_MEETING_H_

#include "absl/status/statusor.h"
#include "worker/trainer/generation/meeting.h"
#include "worker/trainer/loop/training_state.h"
#include "worker/trainer/slipstream/slipstream.h"

namespace paceline {

// Collective. Afterwards `memory` and `state` are those of a member of this generation. True: the
// training begins; nothing was exchanged. Throws CollectiveError; both are fit for the next meeting
// then. InvalidArgument: the models of the ranks differ, or they begin at different steps.
absl::StatusOr<bool> MeetSlipstream(const Meeting& meeting, SlipstreamMemory& memory,
                                    TrainingState& state);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_SLIPSTREAM_MEETING_H_
