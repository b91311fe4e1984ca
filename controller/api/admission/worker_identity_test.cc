#include "controller/api/admission/worker_identity.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/testing/played_job.h"
#include "controller/wire/convert.h"
#include "google/protobuf/descriptor.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace paceline {
namespace {

std::string Reason(const grpc::Status& status) {
  google::rpc::Status details;
  details.ParseFromString(status.error_details());
  google::rpc::ErrorInfo info;
  if (details.details_size() == 0 || !details.details(0).UnpackTo(&info)) return "";
  return info.reason();
}

// A cluster with job-1, whose rank 0 is on node a and rank 1 on node b.
class WorkerIdentityTest : public ::testing::Test {
 protected:
  WorkerIdentityTest() { cluster_.Restore({RunningJob()}, {}, At(5)); }

  static TrainerId Id(int rank, int64_t generation = 1, const std::string& job = "job-1") {
    return {JobId(job), Generation(generation), Rank(rank)};
  }

  // One message of each kind, about the trainer.
  static std::map<std::string, v1::WorkerMessage> MessagesOf(const TrainerId& trainer) {
    std::map<std::string, v1::WorkerMessage> messages;
    *messages["hello"].mutable_hello()->mutable_report()->add_trainers()->mutable_id() =
        ToProto(trainer);
    *messages["report"].mutable_report()->add_trainers()->mutable_id() = ToProto(trainer);
    *messages["steps"].mutable_steps()->add_batches()->mutable_id() = ToProto(trainer);
    messages["log"].mutable_log()->set_id(1);
    messages["code_request"].mutable_code_request()->set_job(trainer.job.value());
    return messages;
  }
  std::string Check(const std::string& node, const v1::WorkerMessage& message) {
    return Reason(CheckMessage(cluster_, NodeName(node), message));
  }

  Cluster cluster_{Cluster::Options()};
};

// A new kind of message needs a case in MessagesOf and in CheckMessage (for steps: CheckSteps).
TEST_F(WorkerIdentityTest, EachKindOfMessageIsTriedWithAnothersTrainer) {
  auto foreign = MessagesOf(Id(1));
  auto own = MessagesOf(Id(0));
  const auto* kinds = v1::WorkerMessage::descriptor()->FindOneofByName("kind");
  ASSERT_NE(kinds, nullptr);
  for (int k = 0; k < kinds->field_count(); ++k) {
    const std::string kind = kinds->field(k)->name();
    ASSERT_EQ(foreign.count(kind), 1) << "no case for " << kind;
    ASSERT_EQ(foreign[kind].kind_case(), kinds->field(k)->number()) << kind;
    // A part of a log names no trainer; its number must be that of a request in the same session. A
    // request for code is answered with an error (controller/tests/code_test.cc).
    const bool is_let_in = kind == "log" || kind == "code_request";
    EXPECT_EQ(Check("a", foreign[kind]), is_let_in ? "" : "NOT_YOUR_TRAINER") << kind;
    EXPECT_EQ(Check("a", own[kind]), "") << kind;
  }
  EXPECT_EQ(Check("a", {}), "");
}

TEST_F(WorkerIdentityTest, OneForeignTrainerAmongOwnOnesIsFound) {
  v1::WorkerMessage message = MessagesOf(Id(0)).at("report");
  *message.mutable_report()->add_trainers()->mutable_id() = ToProto(Id(1));
  EXPECT_EQ(Check("a", message), "NOT_YOUR_TRAINER");
  const grpc::Status status = CheckMessage(cluster_, NodeName("a"), message);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_NE(status.error_message().find("rank 1 of job job-1"), std::string::npos);
}

TEST_F(WorkerIdentityTest, OnlyStepsOfOwnTrainersAreTaken) {
  v1::NodeSteps steps;
  for (const TrainerId& id : {Id(0), Id(0, 1, "job-gone"), Id(0, 7), Id(0)}) {
    *steps.add_batches()->mutable_id() = ToProto(id);
  }
  std::vector<TrainerSteps> own;
  ASSERT_TRUE(CheckSteps(cluster_, NodeName("a"), steps, &own).ok());
  ASSERT_EQ(own.size(), 3);
  EXPECT_EQ(own[0].trainer, Id(0));
  EXPECT_EQ(own[0].batch, &steps.batches(0));
  EXPECT_EQ(own[1].trainer, Id(0, 7)) << "of a generation that is over";
  EXPECT_EQ(own[1].batch, &steps.batches(2));
  EXPECT_EQ(own[2].batch, &steps.batches(3));
  // No batch of an earlier message remains.
  ASSERT_TRUE(CheckSteps(cluster_, NodeName("a"), {}, &own).ok());
  EXPECT_TRUE(own.empty());
  *steps.add_batches()->mutable_id() = ToProto(Id(1));
  const grpc::Status status = CheckSteps(cluster_, NodeName("a"), steps, &own);
  EXPECT_EQ(Reason(status), "NOT_YOUR_TRAINER");
  EXPECT_NE(status.error_message().find("rank 1 of job job-1"), std::string::npos);
}

TEST_F(WorkerIdentityTest, TrainersThatNobodyKnowsAreNoFault) {
  for (const TrainerId& id : {Id(0, 7), Id(5), Id(-1), Id(0, 1, "job-gone")}) {
    for (const auto& [kind, message] : MessagesOf(id)) {
      EXPECT_EQ(Check("a", message), "") << kind;
      EXPECT_EQ(Check("z", message), "") << kind;
    }
  }
}

TEST_F(WorkerIdentityTest, WhoseATrainerIs) {
  const auto owner = [&](const char* node, const TrainerId& id) {
    return OwnerOf(cluster_, NodeName(node), id);
  };
  EXPECT_EQ(owner("a", Id(0)), Owner::kOwn);
  EXPECT_EQ(owner("b", Id(0)), Owner::kAnother);
  EXPECT_EQ(owner("z", Id(0)), Owner::kAnother);
  EXPECT_EQ(owner("a", Id(0, 7)), Owner::kOwn) << "of a generation that is over";
  EXPECT_EQ(owner("z", Id(0, 7)), Owner::kNobody) << "the job never used that node";
  EXPECT_EQ(owner("a", Id(0, 1, "job-gone")), Owner::kNobody);
}

TEST_F(WorkerIdentityTest, SparesAndThoseThatLeaveHaveANodeToo) {
  Job job = RunningJob();
  RankState spare = job.ranks[1];
  spare.report.id = Id(2);
  spare.slot.node = NodeName("c");
  RankState leaves = spare;
  leaves.report.id = Id(3);
  leaves.slot.node = NodeName("d");
  job.spares.push_back(spare);
  job.leaving.push_back(leaves);
  Cluster cluster{Cluster::Options()};
  cluster.Restore({std::move(job)}, {}, At(5));
  EXPECT_EQ(OwnerOf(cluster, NodeName("c"), Id(2)), Owner::kOwn);
  EXPECT_EQ(OwnerOf(cluster, NodeName("d"), Id(2)), Owner::kAnother);
  EXPECT_EQ(OwnerOf(cluster, NodeName("d"), Id(3)), Owner::kOwn);
  EXPECT_EQ(OwnerOf(cluster, NodeName("c"), Id(3)), Owner::kAnother);
}

TEST_F(WorkerIdentityTest, AForeignTrainerIsFoundBehindThousandsThatNobodyKnows) {
  Job job = RunningJob();
  RankState spare = job.ranks[1];
  spare.report.id = Id(9000);
  spare.slot.node = NodeName("c");
  job.spares.push_back(spare);
  Cluster cluster{Cluster::Options()};
  cluster.Restore({std::move(job)}, {}, At(5));
  v1::WorkerMessage message;
  for (int rank = 2; rank < 5000; ++rank) {
    *message.mutable_report()->add_trainers()->mutable_id() = ToProto(Id(rank));
  }
  EXPECT_TRUE(CheckMessage(cluster, NodeName("a"), message).ok());
  *message.mutable_report()->add_trainers()->mutable_id() = ToProto(Id(9000));
  EXPECT_EQ(Reason(CheckMessage(cluster, NodeName("a"), message)), "NOT_YOUR_TRAINER");
  EXPECT_TRUE(CheckMessage(cluster, NodeName("c"), message).ok());
}

TEST(CheckHelloTest, AWorkerSpeaksForItsOwnNode) {
  v1::Hello hello;
  hello.set_node("w0");
  EXPECT_TRUE(CheckHello({Role::kWorker, "w0"}, hello).ok());
  EXPECT_TRUE(CheckHello({Role::kAdmin, ""}, hello).ok()) << "without TLS";
  for (const Principal& other :
       {Principal{Role::kWorker, "w1"}, Principal{Role::kWorker, "W0"},
        Principal{Role::kWorker, ""}, Principal{}, Principal{Role::kOperator, "w0"},
        Principal{Role::kController, "w0"}}) {
    const grpc::Status status = CheckHello(other, hello);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << PrincipalText(other);
    EXPECT_EQ(Reason(status), "NOT_YOUR_NODE");
  }
}

TEST_F(WorkerIdentityTest, ResultsOfTasksThatTheNodeDoesNotHaveAreDropped) {
  // After a start the job's directory is scanned by the first node that answers.
  Job job = RunningJob();
  job.checkpoints.settlement = Settlement();
  Cluster cluster{Cluster::Options()};
  cluster.Restore({std::move(job)}, {}, At(5));
  for (const char* name : {"a", "b"}) {
    NodeFacts facts;
    facts.name = NodeName(name);
    facts.uid = name;
    facts.slots = 1;
    cluster.Step(NodeConnected{facts, {}}, At(6));
  }
  cluster.Step(TimePassed{}, At(7));
  const std::string asked = cluster.TasksFor(NodeName("a")).empty() ? "b" : "a";
  const std::string other = asked == "a" ? "b" : "a";
  const std::vector<CheckpointTask> tasks = cluster.TasksFor(NodeName(asked));
  ASSERT_EQ(tasks.size(), 1);
  ASSERT_TRUE(cluster.TasksFor(NodeName(other)).empty());
  CheckpointTaskResult result;
  result.task = tasks[0];
  std::vector<CheckpointTaskResult> results = {result};
  DropForeignResults(cluster, NodeName(asked), &results);
  EXPECT_EQ(results.size(), 1);
  DropForeignResults(cluster, NodeName(other), &results);
  EXPECT_TRUE(results.empty());
}

}  // namespace
}  // namespace paceline
