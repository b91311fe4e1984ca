// Tensors on their way from one rank to another, over the group of a new generation.
//
// Large contiguous tensors travel as they are, the small ones packed into one message. Both sides
// compare a checksum of each message (XXH3, as in checkpoints) after the last one.
//
// Thread-compatible. A failed transfer is a CollectiveError.
#ifndef WORKER_TRAINER_GENERATION_STATE_TRANSFER_H_
#define WORKER_TRAINER_GENERATION_STATE_TRANSFER_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "worker/trainer/comm/group.h"

namespace paceline {

// `to`, `from`: members of the group. The tensors are equal in number, shape and type on both
// sides; those on another device than `device` are copied by way of it.
void SendTensors(Group& group, const std::vector<at::Tensor>& tensors, at::Device device, int to);

// Replaces the tensors; all of them or, if the transfer fails, none, unless `in_place`: then some
// may be overwritten, and no copy of all is made.
void ReceiveTensors(Group& group, const std::vector<at::Tensor>& tensors, at::Device device,
                    int from, bool in_place);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_STATE_TRANSFER_H_
