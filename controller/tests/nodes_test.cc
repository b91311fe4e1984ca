// Operations on nodes over real sockets: holds, leases, checks, the automation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "controller/testing/server_fixture.h"
#include "proto/admin.grpc.pb.h"
#include "proto/node.grpc.pb.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

class NodesTest : public ServerTest {
 protected:
  std::unique_ptr<v1::NodeService::Stub> Nodes() { return v1::NodeService::NewStub(channel_); }
  grpc::Status Cordon(const std::string& node, const std::string& id, v1::Node* reply,
                      const std::string& reason = "its fan is loud") {
    v1::CordonNodeRequest request;
    request.set_name(node);
    request.set_request_id(id);
    request.set_owner("ann");
    request.set_reason(reason);
    grpc::ClientContext context;
    return Nodes()->Cordon(&context, request, reply);
  }
  v1::DrainNodeRequest DrainOf(const std::string& node, const std::string& id,
                               const std::string& owner = "ann") {
    v1::DrainNodeRequest request;
    request.set_name(node);
    request.set_request_id(id);
    request.set_owner(owner);
    request.set_reason("its fan is loud");
    return request;
  }
  grpc::Status Drain(const v1::DrainNodeRequest& request, v1::DrainNodeResponse* reply) {
    grpc::ClientContext context;
    reply->Clear();
    return Nodes()->Drain(&context, request, reply);
  }
  v1::Node Node(const std::string& name) {
    v1::GetNodeRequest request;
    request.set_name(name);
    grpc::ClientContext context;
    v1::Node node;
    EXPECT_TRUE(Nodes()->Get(&context, request, &node).ok());
    return node;
  }
  v1::AutomationStatus Automation() {
    grpc::ClientContext context;
    v1::AutomationStatus status;
    EXPECT_TRUE(v1::AutomationService::NewStub(channel_)
                    ->GetStatus(&context, v1::GetAutomationStatusRequest(), &status)
                    .ok());
    return status;
  }
};

TEST_F(NodesTest, CordonIsStoredAndARepeatGetsItsAnswer) {
  auto worker = Join(Hello("w0"));
  v1::Node node;
  ASSERT_TRUE(Cordon("w0", "r1", &node).ok());
  EXPECT_EQ(node.state(), v1::NODE_CORDONED);
  EXPECT_EQ(node.reason(), "cordoned by ann: its fan is loud");
  worker.reset();
  Restart();
  ASSERT_TRUE(Cordon("w0", "r1", &node).ok());
  EXPECT_EQ(node.holds_size(), 1);
  EXPECT_EQ(Reason(Cordon("w0", "r1", &node, "another")), "REQUEST_ID_REUSED");
  worker = Join(Hello("w0"));
  EXPECT_EQ(Node("w0").state(), v1::NODE_CORDONED);
  v1::UncordonNodeRequest request;
  request.set_name("w0");
  request.set_request_id("r2");
  request.set_owner("ann");
  grpc::ClientContext context;
  ASSERT_TRUE(Nodes()->Uncordon(&context, request, &node).ok());
  EXPECT_EQ(node.state(), v1::NODE_READY);
}

TEST_F(NodesTest, WorkerSaysWhatItsTrainersKnow) {
  v1::Hello hello = Hello("w0");
  auto worker = Join(hello);
  v1::JobSpec spec = Spec(2);
  spec.mutable_data()->set_drop_last(false);
  v1::Job job;
  const grpc::Status early = Submit(spec, "r1", &job);
  EXPECT_EQ(Reason(early), "JOB_CANNOT_FIT");
  EXPECT_THAT(early.error_message(), HasSubstr("for ends of epochs, and w0 has an earlier one"));
  worker.reset();
  hello.set_spec_version(1);
  worker = Join(hello);
  ASSERT_TRUE(Submit(spec, "r2", &job).ok());
  worker.reset();
  Restart();
  EXPECT_EQ(Node("w0").spec_version(), 1);
}

TEST_F(NodesTest, EveryProblemOfARequestIsNamed) {
  auto worker = Join(Hello("w0"));
  v1::DrainNodeRequest request = DrainOf("w0", "r1", "brake");
  request.set_reason(" ");
  request.set_mode(v1::DRAIN_NOW);
  request.set_replace(true);
  v1::DrainNodeResponse reply;
  const grpc::Status status = Drain(request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Reason(status), "REQUEST_INVALID");
  for (const char* field : {"owner", "reason", "replace"}) {
    EXPECT_THAT(status.error_message(), HasSubstr(field));
  }
  v1::Node node;
  EXPECT_EQ(Reason(Cordon("w9", "r2", &node)), "NODE_NOT_FOUND");
}

TEST_F(NodesTest, DrainTellsItsEffectsAndEndsWhenTheNodeIsEmpty) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  const v1::NodePlan plan = worker->ReadPlan(1);
  worker->Report({Trainer(plan.trainers(0), v1::TRAINER_READY)});
  worker->Report({Trainer(plan.trainers(0), v1::TRAINER_RUNNING)});
  WaitFor(job.id(), v1::RUNNING);

  v1::DrainNodeRequest request = DrainOf("w0", "r2");
  request.set_mode(v1::DRAIN_FINISH);
  request.set_dry_run(true);
  v1::DrainNodeResponse reply;
  ASSERT_TRUE(Drain(request, &reply).ok());
  EXPECT_EQ(reply.node().state(), v1::NODE_READY);
  ASSERT_EQ(reply.effects_size(), 1);
  EXPECT_EQ(reply.effects(0).job(), job.id());
  EXPECT_EQ(reply.effects(0).ranks(0), 0);
  EXPECT_EQ(reply.effects(0).mode(), v1::DRAIN_FINISH);
  request.set_dry_run(false);
  ASSERT_TRUE(Drain(request, &reply).ok());
  EXPECT_EQ(reply.node().state(), v1::NODE_DRAINING);
  EXPECT_TRUE(reply.node().holds(0).has_until());

  worker->Report({Trainer(plan.trainers(0), v1::TRAINER_EXITED)});
  WaitFor(job.id(), v1::SUCCEEDED);
  worker->ReadPlan(0);
  worker->Report({});
  ReadMetrics("paceline_node_state{node=\"w0\",state=\"drained\"} 1");
  EXPECT_EQ(Node("w0").state(), v1::NODE_DRAINED);
}

TEST_F(NodesTest, EffectsOfADrainAreThoseBeforeIt) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  v1::JobSpec spec = Spec();
  spec.mutable_recovery()->set_max_failures(5);
  ASSERT_TRUE(Submit(spec, "r1", &job).ok());
  const v1::NodePlan plan = worker->ReadPlan(1);
  worker->Report({Trainer(plan.trainers(0), v1::TRAINER_READY)});
  worker->Report({Trainer(plan.trainers(0), v1::TRAINER_RUNNING)});
  WaitFor(job.id(), v1::RUNNING);
  v1::DrainNodeRequest request = DrainOf("w0", "r2");
  request.set_mode(v1::DRAIN_NOW);
  v1::DrainNodeResponse reply;
  ASSERT_TRUE(Drain(request, &reply).ok());
  ASSERT_EQ(reply.effects_size(), 1);
  EXPECT_THAT(reply.effects(0).effect(), HasSubstr("rank 0 ends at once"));
}

TEST_F(NodesTest, ReplacementNeedsAJobThatCanMoveItsRanks) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  v1::DrainNodeRequest request = DrainOf("w0", "r2");
  request.set_replace(true);
  v1::DrainNodeResponse reply;
  const grpc::Status status = Drain(request, &reply);
  EXPECT_EQ(Reason(status), "NO_SUBSTITUTE");
  EXPECT_THAT(status.error_message(), HasSubstr(job.id()));
  EXPECT_EQ(Node("w0").state(), v1::NODE_READY);
}

TEST_F(NodesTest, OnlyANodeThatDoesNotAnswerCanBeDeclaredLost) {
  auto worker = Join(Hello("w0"));
  v1::DeclareNodeLostRequest request;
  request.set_name("w0");
  request.set_request_id("r1");
  request.set_owner("ann");
  request.set_reason("burnt");
  v1::Node node;
  {
    grpc::ClientContext context;
    EXPECT_EQ(Reason(Nodes()->DeclareLost(&context, request, &node)), "NODE_CONNECTED");
  }
  worker.reset();
  ReadMetrics("paceline_node_state{node=\"w0\",state=\"unreachable\"} 1");
  grpc::ClientContext context;
  ASSERT_TRUE(Nodes()->DeclareLost(&context, request, &node).ok());
  EXPECT_EQ(node.state(), v1::NODE_LOST);
  v1::NodeHistoryRequest history_request;
  history_request.set_name("w0");
  v1::NodeHistory history;
  grpc::ClientContext history_context;
  ASSERT_TRUE(Nodes()->History(&history_context, history_request, &history).ok());
  EXPECT_EQ(history.events().rbegin()->who(), "ann");
  EXPECT_EQ(history.events().rbegin()->what(), "declared lost: burnt");
}

TEST_F(NodesTest, CheckTravelsInThePlanAndItsResultInAReport) {
  auto worker = Join(Hello("w0"));
  v1::CheckNodeRequest request;
  request.set_name("w0");
  request.set_request_id("r1");
  v1::Node node;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(Nodes()->Check(&context, request, &node).ok());
  }
  EXPECT_FALSE(node.has_check());
  EXPECT_EQ(worker->ReadUntil([](const v1::NodePlan& p) { return p.has_check(); }).check().id(), 1);
  request.set_request_id("r2");
  {
    grpc::ClientContext context;
    EXPECT_EQ(Reason(Nodes()->Check(&context, request, &node)), "CHECK_RUNNING");
  }
  v1::WorkerMessage message;
  v1::NodeCheckResult& result = *message.mutable_report()->mutable_check();
  result.set_id(1);
  result.add_measurements()->set_name("gpu0_ecc_errors");
  result.mutable_measurements(0)->set_value(3);
  worker->Write(message);
  worker->ReadUntil([](const v1::NodePlan& p) { return !p.has_check(); });
  EXPECT_TRUE(Node("w0").check().measurements(0).bad());
}

TEST_F(NodesTest, AutomationBrakesAndAPersonReleasesIt) {
  auto worker = Join(Hello("w0"));
  EXPECT_FALSE(Automation().paused());
  EXPECT_EQ(Automation().max_share(), 0.25);
  v1::DrainNodeResponse reply;
  EXPECT_EQ(Reason(Drain(DrainOf("w0", "r1", "automation"), &reply)), "BRAKE");
  EXPECT_EQ(Automation().owner(), "brake");
  v1::PauseAutomationRequest pause;
  pause.set_request_id("r2");
  pause.set_owner("ann");
  pause.set_reason("racks move");
  const auto automation = v1::AutomationService::NewStub(channel_);
  v1::AutomationStatus status;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(automation->Pause(&context, pause, &status).ok());
  }
  EXPECT_EQ(status.owner(), "ann");
  worker.reset();
  Restart();
  EXPECT_TRUE(Automation().paused());
  v1::ResumeAutomationRequest resume;
  resume.set_request_id("r3");
  resume.set_owner("automation");
  grpc::ClientContext context;
  EXPECT_EQ(Reason(v1::AutomationService::NewStub(channel_)->Resume(&context, resume, &status)),
            "REQUEST_INVALID");
  resume.set_owner("ann");
  grpc::ClientContext again;
  ASSERT_TRUE(v1::AutomationService::NewStub(channel_)->Resume(&again, resume, &status).ok());
  EXPECT_FALSE(status.paused());
}

TEST_F(NodesTest, LogLevelOfANodeGoesToItsDaemon) {
  PlayedWorker worker(channel_, Hello("w0"));
  EXPECT_EQ(worker.ReadPlan(0).log_level(), v1::LOG_LEVEL_UNSPECIFIED);
  const auto admin = v1::AdminService::NewStub(channel_);
  v1::SetLogLevelRequest request;
  request.set_node("w0");
  request.set_request_id("r1");
  request.set_owner("ann");
  request.set_level(v1::LOG_LEVEL_DEBUG);
  v1::LogLevelReply reply;
  grpc::ClientContext set;
  ASSERT_TRUE(admin->SetLogLevel(&set, request, &reply).ok());
  EXPECT_EQ(reply.level(), v1::LOG_LEVEL_DEBUG);
  worker.ReadUntil(
      [](const v1::NodePlan& plan) { return plan.log_level() == v1::LOG_LEVEL_DEBUG; });
  v1::GetLogLevelRequest get;
  get.set_node("w0");
  grpc::ClientContext again;
  ASSERT_TRUE(admin->GetLogLevel(&again, get, &reply).ok());
  EXPECT_EQ(reply.level(), v1::LOG_LEVEL_DEBUG);
}

TEST_F(NodesTest, APlanIsToldAgainOnlyWhenItHasChanged) {
  PlayedWorker worker(channel_, Hello("w0"));
  const int64_t reported = worker.ReadPlan(0).revision();
  const auto admin = v1::AdminService::NewStub(channel_);
  const auto set = [&](v1::LogLevel level) {
    grpc::ClientContext context;
    v1::SetLogLevelRequest request;
    request.set_node("w0");
    request.set_request_id("r1");
    request.set_owner("ann");
    request.set_level(level);
    v1::LogLevelReply reply;
    EXPECT_TRUE(admin->SetLogLevel(&context, request, &reply).ok());
  };
  set(v1::LOG_LEVEL_DEBUG);
  set(v1::LOG_LEVEL_DEBUG);
  set(v1::LOG_LEVEL_ERROR);
  const v1::NodePlan changed = worker.ReadUntil(
      [](const v1::NodePlan& plan) { return plan.log_level() == v1::LOG_LEVEL_ERROR; });
  EXPECT_EQ(changed.revision(), reported + 2);
}

TEST(LeaseTest, EachReportIsAnsweredWithALease) {
  Cluster::Options cluster;
  cluster.node_lease = absl::Seconds(30);
  RunningServer server(NewDirectory(), "127.0.0.1:0", cluster);
  PlayedWorker worker(server.Channel(), Hello("w0"));
  EXPECT_EQ(worker.Read()->welcome().lease_s(), 30);
  v1::WorkerMessage message;
  message.mutable_report()->set_number(7);
  worker.Write(message);
  EXPECT_TRUE(worker.ReadAnswer(7));
}

TEST(LeaseTest, ReportsAreAnsweredWithoutLeasesToo) {
  RunningServer server(NewDirectory());
  v1::Hello hello = Hello("w0");
  hello.mutable_report()->set_number(1);
  PlayedWorker worker(server.Channel(), hello);
  EXPECT_EQ(worker.Read()->welcome().lease_s(), 0);
  EXPECT_TRUE(worker.ReadAnswer(1));
  v1::WorkerMessage message;
  message.mutable_report()->set_number(2);
  worker.Write(message);
  EXPECT_TRUE(worker.ReadAnswer(2));
}

}  // namespace
}  // namespace paceline
