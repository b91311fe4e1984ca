// Sends tensors from one rank to another over a new generation's group.
//
// Large contiguous tensors are sent as they are; small ones are packed into one message. After the
// last message, both sides compare checksums of each message (XXH3, as in checkpoints).
//
// Thread-compatible. A failed transfer is a CollectiveError.
#ifndef WORKER_TRAINER_GENERATION_STATE_TRANSFER_H_
#define WORKER_TRAINER_GENERATION_STATE_TRANSFER_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/loop/attachments.h"
#include "worker/trainer/loop/optimizer.h"

namespace paceline {

// `to`, `from`: members of the group. Both sides pass tensors of equal number, shapes and types;
// those on a device other than `device` are copied through it.
void SendTensors(Group& group, const std::vector<at::Tensor>& tensors, at::Device device, int to);

// Replaces the tensors. If the transfer fails, none has changed, unless `in_place`: then no extra
// copy of all is made, but some may be overwritten.
void ReceiveTensors(Group& group, const std::vector<at::Tensor>& tensors, at::Device device,
                    int from, bool in_place);

// Sends the present state of this scope, or receives another rank's, which the caller puts in the
// place of its own.
void SendAttachment(Group& group, const Attachments& attachments, Attachments::Scope scope,
                    at::Device device, int to);
Attachment ReceiveAttachment(Group& group, const Attachments& attachments, Attachments::Scope scope,
                             at::Device device, int from);

// All members take the first one's state of the optimizer, with all else that is attached as shared
// if something is. Collective; `rank`: this member's number.
void CopyOptimizerFromFirst(Group& group, const Optimizer& optimizer, Attachments* attachments,
                            at::Device device, int rank);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_STATE_TRANSFER_H_
