// The meeting of the members of a generation whose job changes between ddp and Slipstream.
//
// The state of the training is of the kind by which the members of the newest generation have
// trained; the generation that begins may be of the other one. Members meet as those do whose
// state it is, and then all make of it what they need:
//
//                        state: ddp                     state: Slipstream
//   plan: ddp            Meet                           MeetSlipstream, x = z, Meet
//   plan: Slipstream     Meet, then Slipstream begins   MeetSlipstream
//
// From Slipstream: what ranks have not sent yet is lost, which is nothing after a planned leave;
// the optimizer's state becomes the mean over all ranks if each had its own; all go on in the data
// from where ranks are that had kept together, and with whole steps. To Slipstream: nothing, since
// that begins with any model.
//
// Who has a state of another kind than the newest generation's is one without: it was left behind.
// Or a meeting like this one broke off, where some had got through and others had not. Then both
// kinds are of the same generation or of two that follow one another, and of the same moment, in
// which all were equal: Slipstream's is taken if it is in the newest generation at all.
#ifndef WORKER_TRAINER_GENERATION_AUTO_MEETING_H_
#define WORKER_TRAINER_GENERATION_AUTO_MEETING_H_

#include "absl/status/statusor.h"
#include "worker/trainer/generation/meeting.h"
#include "worker/trainer/loop/training_state.h"

namespace paceline {

// Collective; as Meet. `meeting.config` is of the kind of the plan. Afterwards `state.slipstream`
// has a rank if, and only if, the plan is one of Slipstream that goes on.
absl::StatusOr<bool> MeetAuto(const Meeting& meeting, TrainingState& state);

// The rank has no state of Slipstream: what it trains is in the model and the optimizer.
void EndSlipstream(SlipstreamMemory& memory);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_AUTO_MEETING_H_
