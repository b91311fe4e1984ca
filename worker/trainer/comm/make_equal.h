// How ranks begin with the same parameters.
#ifndef WORKER_TRAINER_COMM_MAKE_EQUAL_H_
#define WORKER_TRAINER_COMM_MAKE_EQUAL_H_

#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/model/model.h"

namespace paceline {

// Collective: compares the parameters' shapes over the ranks and gives all of them those of the
// first. Throws CollectiveError when they differ.
void MakeEqual(Group& all, const std::vector<NamedTensor>& parameters);

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_MAKE_EQUAL_H_
