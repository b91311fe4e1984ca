// Which workers may begin a session, and what their messages may be about: their own node and
// their own ranks only. Pure.
#ifndef CONTROLLER_API_ADMISSION_WORKER_IDENTITY_H_
#define CONTROLLER_API_ADMISSION_WORKER_IDENTITY_H_

#include <grpcpp/support/status.h>

#include <string>
#include <vector>

#include "common/core/ids.h"
#include "common/identity/principal.h"
#include "controller/core/cluster/cluster.h"
#include "proto/worker.pb.h"

namespace paceline {

// Owner of a trainer, from a node's point of view.
enum class Owner {
  kOwn,      // Known on the node, or was there since its job's newest start.
  kAnother,  // Known on another node.
  kNobody,   // Not known: its job was deleted, or it belongs to an older start.
};
Owner OwnerOf(const Cluster& cluster, const NodeName& node, const TrainerId& trainer);

// Checks a session's first message: PERMISSION_DENIED, reason NOT_YOUR_NODE, unless the caller is
// that node's worker. Without TLS (CallerByWord) any caller may be.
grpc::Status CheckHello(const Principal& caller, const v1::Hello& hello);

// Checks a message of the node's session, including the first: PERMISSION_DENIED, reason
// NOT_YOUR_TRAINER, if it reports on another node's trainer. For steps use CheckSteps.
grpc::Status CheckMessage(const Cluster& cluster, const NodeName& node,
                          const v1::WorkerMessage& message);

// Checks whether a hello may begin a session. UNAUTHENTICATED, reason REVOKED, if the caller is
// nobody; as CheckHello and CheckMessage; FAILED_PRECONDITION, reason WORKER_IS_NEWER, if the
// worker is of a later release, or WRONG_CLUSTER, if its state belongs to another cluster.
grpc::Status CheckSession(const Principal& caller, const Cluster& cluster,
                          const std::string& cluster_id, const v1::Hello& hello);

// Steps of one trainer, as in the message.
struct TrainerSteps {
  TrainerId trainer;
  const v1::StepBatch* batch;
};

// As CheckMessage, for steps. Fills `own` with the batches of the node's own trainers, valid as
// long as `steps`, if there is no error. Steps are most of what workers send, so each batch is
// looked up only once.
grpc::Status CheckSteps(const Cluster& cluster, const NodeName& node, const v1::NodeSteps& steps,
                        std::vector<TrainerSteps>* own);

// Removes results of tasks that this node was not asked to do. They may just be late, so they are
// no error.
void DropForeignResults(const Cluster& cluster, const NodeName& node,
                        std::vector<CheckpointTaskResult>* results);

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_WORKER_IDENTITY_H_
