#include "controller/api/admission/worker_identity.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/version.h"
#include "controller/core/job/trainer_finder.h"
#include "controller/core/recovery/membership.h"
#include "controller/wire/convert.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

// Looks up the owners of the trainers that one message of the node names.
class Owners {
 public:
  Owners(const Cluster& cluster, const NodeName& node) : cluster_(cluster), node_(node) {}

  Owner Of(const TrainerId& trainer) {
    const Job* job = cluster_.FindJob(trainer.job);
    if (job == nullptr) return Owner::kNobody;
    if (const RankState* known = finder_.Find(*job, trainer); known != nullptr) {
      return known->slot.node == node_ ? Owner::kOwn : Owner::kAnother;
    }
    return UsesNode(*job, node_) ? Owner::kOwn : Owner::kNobody;
  }

 private:
  const Cluster& cluster_;
  const NodeName& node_;
  TrainerFinder finder_;
};

grpc::Status NotYourTrainer(const NodeName& node, const v1::TrainerId& id) {
  return MakeError(
      grpc::StatusCode::PERMISSION_DENIED, "NOT_YOUR_TRAINER",
      absl::StrCat("node ", node.value(), " tells of rank ", id.rank(), " of job ", id.job_id(),
                   ", generation ", id.generation(),
                   ", which runs on another node: stop its worker, and look whose state directory "
                   "it has"),
      {{"node", node.value()}, {"job", id.job_id()}});
}

grpc::Status CheckReport(const Cluster& cluster, const NodeName& node,
                         const v1::NodeReport& report) {
  Owners owners(cluster, node);
  for (const v1::TrainerReport& trainer : report.trainers()) {
    const Owner owner = owners.Of(FromProto(trainer.id()));
    if (owner == Owner::kAnother) return NotYourTrainer(node, trainer.id());
  }
  return grpc::Status::OK;
}

}  // namespace

Owner OwnerOf(const Cluster& cluster, const NodeName& node, const TrainerId& trainer) {
  return Owners(cluster, node).Of(trainer);
}

grpc::Status CheckHello(const Principal& caller, const v1::Hello& hello) {
  const bool is_own = caller.role == Role::kWorker && caller.name == hello.node();
  if (is_own || caller.role == Role::kAdmin) return grpc::Status::OK;
  return MakeError(grpc::StatusCode::PERMISSION_DENIED, "NOT_YOUR_NODE",
                   absl::StrCat(PrincipalText(caller), " may not speak for node \"", hello.node(),
                                "\": give the worker the certificate of its node, or the name in "
                                "its certificate (--name)"),
                   {{"node", hello.node()}});
}

grpc::Status CheckMessage(const Cluster& cluster, const NodeName& node,
                          const v1::WorkerMessage& message) {
  switch (message.kind_case()) {
    case v1::WorkerMessage::kHello:
      return CheckReport(cluster, node, message.hello().report());
    case v1::WorkerMessage::kReport:
      return CheckReport(cluster, node, message.report());
    case v1::WorkerMessage::kSteps: {
      std::vector<TrainerSteps> own;
      return CheckSteps(cluster, node, message.steps(), &own);
    }
    // Answers a request of this session, identified by the session's own numbers.
    case v1::WorkerMessage::kLog:
    // HeldCode decides what the node may get when it answers.
    case v1::WorkerMessage::kCodeRequest:
    case v1::WorkerMessage::KIND_NOT_SET:
      return grpc::Status::OK;
  }
  return grpc::Status::OK;
}

grpc::Status CheckSession(const Principal& caller, const Cluster& cluster,
                          const std::string& cluster_id, const v1::Hello& hello) {
  if (caller.role == Role::kNone) {
    return MakeError(grpc::StatusCode::UNAUTHENTICATED, "REVOKED",
                     absl::StrCat("what node \"", hello.node(),
                                  "\" has proved itself by holds no longer: it joins again by a "
                                  "new token of `paceline pki token`"));
  }
  grpc::Status foreign = CheckHello(caller, hello);
  if (foreign.ok()) foreign = CheckReport(cluster, NodeName(hello.node()), hello.report());
  if (!foreign.ok()) return foreign;
  if (IsLaterRelease(hello.version(), kVersion)) {
    return MakeError(
        grpc::StatusCode::FAILED_PRECONDITION, "WORKER_IS_NEWER",
        absl::StrCat("the worker of node \"", hello.node(), "\" has version ", hello.version(),
                     ", which is newer than this controller's ", kVersion,
                     ": upgrade the controller first; the worker then joins by itself"));
  }
  if (!hello.cluster_id().empty() && hello.cluster_id() != cluster_id) {
    return MakeError(
        grpc::StatusCode::FAILED_PRECONDITION, "WRONG_CLUSTER",
        absl::StrCat("the worker's state belongs to cluster ", hello.cluster_id(), ", this is ",
                     cluster_id, ": give the worker an empty state directory to move it here"),
        {{"cluster_id", cluster_id}});
  }
  return grpc::Status::OK;
}

grpc::Status CheckSteps(const Cluster& cluster, const NodeName& node, const v1::NodeSteps& steps,
                        std::vector<TrainerSteps>* own) {
  own->clear();
  own->reserve(static_cast<size_t>(steps.batches_size()));
  Owners owners(cluster, node);
  for (const v1::StepBatch& batch : steps.batches()) {
    TrainerId trainer = FromProto(batch.id());
    const Owner owner = owners.Of(trainer);
    if (owner == Owner::kAnother) return NotYourTrainer(node, batch.id());
    if (owner == Owner::kOwn) own->push_back({std::move(trainer), &batch});
  }
  return grpc::Status::OK;
}

void DropForeignResults(const Cluster& cluster, const NodeName& node,
                        std::vector<CheckpointTaskResult>* results) {
  if (results->empty()) return;
  const std::vector<CheckpointTask> asked = cluster.TasksFor(node);
  results->erase(std::remove_if(results->begin(), results->end(),
                                [&](const CheckpointTaskResult& result) {
                                  return std::count(asked.begin(), asked.end(), result.task) == 0;
                                }),
                 results->end());
}

}  // namespace paceline
