// A worker speaks for its own node and its own ranks only: what each of its messages is allowed to
// be about. Pure.
#ifndef CONTROLLER_API_ADMISSION_WORKER_IDENTITY_H_
#define CONTROLLER_API_ADMISSION_WORKER_IDENTITY_H_

#include <grpcpp/support/status.h>

#include <vector>

#include "common/core/ids.h"
#include "common/identity/principal.h"
#include "controller/core/cluster/cluster.h"
#include "proto/worker.pb.h"

namespace paceline {

// Whose a trainer is, seen from a node.
enum class Owner {
  kOwn,      // It is known on the node, or was there since its job's newest start.
  kAnother,  // It is known, and on another node.
  kNobody,   // It is not known: of a job that was deleted, or of an older start.
};
Owner OwnerOf(const Cluster& cluster, const NodeName& node, const TrainerId& trainer);

// The first message: PERMISSION_DENIED, reason NOT_YOUR_NODE, unless the caller is the worker of
// that node. Without TLS (CallerByWord) it may be any.
grpc::Status CheckHello(const Principal& caller, const v1::Hello& hello);

// A message of the node's session, the first one included: PERMISSION_DENIED, reason
// NOT_YOUR_TRAINER, if it tells of a trainer that is another node's. Of steps: CheckSteps.
grpc::Status CheckMessage(const Cluster& cluster, const NodeName& node,
                          const v1::WorkerMessage& message);

// Steps of a trainer, as they are in the message.
struct TrainerSteps {
  TrainerId trainer;
  const v1::StepBatch* batch;
};

// As CheckMessage, and which batches are of the node's own trainers: they become `own`, which is
// valid as long as `steps`, if there is no fault. Steps are most of what workers send, so each
// batch is looked at once.
grpc::Status CheckSteps(const Cluster& cluster, const NodeName& node, const v1::NodeSteps& steps,
                        std::vector<TrainerSteps>* own);

// Takes away what a node was not asked to do: results of tasks that another node has, or nobody.
// They may be late, so they are no fault.
void DropForeignResults(const Cluster& cluster, const NodeName& node,
                        std::vector<CheckpointTaskResult>* results);

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_WORKER_IDENTITY_H_
