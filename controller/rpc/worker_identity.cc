#include "controller/rpc/worker_identity.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/rpc/convert.h"
#include "controller/rpc/errors.h"

namespace paceline {
namespace {

// Null: the job has no such trainer. Most have the rank that they were started for.
const RankState* FindKnown(const Job& job, const TrainerId& id) {
  const int rank = id.rank.value();
  if (rank >= 0 && static_cast<size_t>(rank) < job.ranks.size() &&
      job.ranks[static_cast<size_t>(rank)].report.id == id) {
    return &job.ranks[static_cast<size_t>(rank)];
  }
  for (const auto* part : {&job.ranks, &job.spares, &job.leaving}) {
    for (const RankState& trainer : *part) {
      if (trainer.report.id == id) return &trainer;
    }
  }
  return nullptr;
}

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
  for (const v1::TrainerReport& trainer : report.trainers()) {
    const Owner owner = OwnerOf(cluster, node, FromProto(trainer.id()));
    if (owner == Owner::kAnother) return NotYourTrainer(node, trainer.id());
  }
  return grpc::Status::OK;
}

}  // namespace

Owner OwnerOf(const Cluster& cluster, const NodeName& node, const TrainerId& trainer) {
  const Job* job = cluster.FindJob(trainer.job);
  if (job == nullptr) return Owner::kNobody;
  if (const RankState* known = FindKnown(*job, trainer); known != nullptr) {
    return known->place.node == node ? Owner::kOwn : Owner::kAnother;
  }
  return std::count(job->nodes.begin(), job->nodes.end(), node) > 0 ? Owner::kOwn : Owner::kNobody;
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
    // Answers a request of this very session, which has a number of its own.
    case v1::WorkerMessage::kLog:
    case v1::WorkerMessage::KIND_NOT_SET:
      return grpc::Status::OK;
  }
  return grpc::Status::OK;
}

grpc::Status CheckSteps(const Cluster& cluster, const NodeName& node, const v1::NodeSteps& steps,
                        std::vector<TrainerSteps>* own) {
  own->clear();
  own->reserve(static_cast<size_t>(steps.batches_size()));
  for (const v1::StepBatch& batch : steps.batches()) {
    TrainerId trainer = FromProto(batch.id());
    const Owner owner = OwnerOf(cluster, node, trainer);
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
