// Gives all ranks the same parameters at the start.
#ifndef WORKER_TRAINER_COMM_MAKE_EQUAL_H_
#define WORKER_TRAINER_COMM_MAKE_EQUAL_H_

#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

// Collective: checks that all ranks' parameters have the same shapes and copies the first rank's to
// all. Throws CollectiveError when the shapes differ.
void MakeEqual(Group& all, const std::vector<NamedTensor>& parameters);

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_MAKE_EQUAL_H_
