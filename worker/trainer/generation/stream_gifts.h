// Lets a generation's members agree on the streamed average under way (core/stream_rendezvous.h).
#ifndef WORKER_TRAINER_GENERATION_STREAM_GIFTS_H_
#define WORKER_TRAINER_GENERATION_STREAM_GIFTS_H_

#include <vector>

#include "worker/trainer/generation/rendezvous.h"
#include "worker/trainer/generation/rendezvous_rows.h"
#include "worker/trainer/loop/training_state.h"

namespace paceline {

// Collective. Gives those ranks that lack it what the newest average has changed of point and
// momentum. `rows`: as changed by Foresee. Does nothing with another plan than a streamed one.
// Requires: the groups are those of before. Throws CollectiveError; `state` is then fit for the
// next rendezvous.
void AgreeOnStream(const Rendezvous& rendezvous, const std::vector<RendezvousRow>& rows,
                   TrainingState& state);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_STREAM_GIFTS_H_
