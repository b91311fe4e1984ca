// Controllers that stand by for one another, over a real etcd.
#include "controller/election/leadership.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/exit_codes.h"
#include "common/not_leader.h"
#include "controller/election/standby.h"
#include "controller/server.h"
#include "controller/testing/running_server.h"
#include "controller/wire/errors.h"
#include "proto/job.grpc.pb.h"
#include "tests/etcd/etcd_cluster.h"
#include "tests/integration/process.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

std::unique_ptr<v1::JobService::Stub> JobsAt(const std::string& address) {
  return v1::JobService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
}

grpc::Status Cancel(v1::JobService::Stub& jobs, const std::string& request_id) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
  v1::CancelJobRequest request;
  request.set_job("absent");
  request.set_request_id(request_id);
  v1::Job job;
  return jobs.Cancel(&context, request, &job);
}

// One controller as in the program: a standby, then a server.
class Controller {
 public:
  explicit Controller(const EtcdCluster& etcd) {
    Leadership::Options options;
    options.credentials = grpc::InsecureServerCredentials();
    options.etcd.endpoints = etcd.endpoints();
    options.lease = absl::Seconds(2);
    options.listen = "127.0.0.1:0";
    options.http = "127.0.0.1:0";
    options.state_dir = NewDirectory();
    options.deposed = [](const std::string& why) { ADD_FAILURE() << why; };
    state_dir_ = options.state_dir;
    leadership_ = std::make_unique<Leadership>(options);
    const ServerFailure failure = leadership_->Start();
    EXPECT_TRUE(failure.status.ok()) << failure.status;
    thread_ = std::thread([this] { Run(); });
  }
  // Ends as after SIGTERM.
  ~Controller() {
    {
      absl::MutexLock lock(&mutex_);
      ending_ = true;
      leadership_->Stop();
      if (server_ != nullptr) server_->Shutdown();
    }
    thread_.join();
  }

  const std::string& address() const { return leadership_->listen(); }
  std::string http() const { return "http://" + leadership_->http(); }

  void WaitUntilItLeads() {
    absl::MutexLock lock(&mutex_);
    const auto leads = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return server_ != nullptr; };
    ASSERT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&leads), absl::Seconds(30)));
  }

 private:
  void Run() {
    auto won = leadership_->Wait();
    if (!won.ok()) return;
    ServerOptions options;
    options.listen = leadership_->listen();
    options.http = leadership_->http();
    options.state_dir = state_dir_;
    options.plaintext = true;
    Server server(options);
    const ServerFailure failure = server.Start(*std::move(won));
    ASSERT_TRUE(failure.status.ok()) << failure.status;
    {
      absl::MutexLock lock(&mutex_);
      server_ = &server;
      if (ending_) server.Shutdown();
    }
    EXPECT_TRUE(server.Run().status.ok());
    absl::MutexLock lock(&mutex_);
    server_ = nullptr;
  }

  std::string state_dir_;
  std::unique_ptr<Leadership> leadership_;
  absl::Mutex mutex_;
  Server* server_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

TEST(StandbyTest, AnswersEveryCallWithTheLeader) {
  const auto standby =
      Standby::Start("127.0.0.1:0", "127.0.0.1:0", grpc::InsecureServerCredentials(), std::nullopt)
          .value();
  const auto jobs = JobsAt(standby->grpc_address());
  const grpc::Status nobody = Cancel(*jobs, "r1");
  EXPECT_EQ(nobody.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(LeaderNamedIn(nobody), Optional(std::string()));
  standby->SetLeader("head:7450");
  const grpc::Status refused = Cancel(*jobs, "r1");
  EXPECT_THAT(LeaderNamedIn(refused), Optional(std::string("head:7450")));
  EXPECT_THAT(refused.error_message(), HasSubstr("the leader is head:7450"));
  grpc::ClientContext context;
  const auto watch = jobs->Watch(&context, v1::WatchJobsRequest());
  v1::JobEvent event;
  EXPECT_FALSE(watch->Read(&event));
  EXPECT_THAT(LeaderNamedIn(watch->Finish()), Optional(std::string("head:7450")));
  EXPECT_EQ(LeaderNamedIn(grpc::Status(grpc::StatusCode::UNAVAILABLE, "")), std::nullopt);
  const grpc::Status other = MakeError(grpc::StatusCode::UNAVAILABLE, "DRAINING", "it goes away",
                                       {{kLeaderMetadata, "head:7450"}});
  EXPECT_EQ(LeaderNamedIn(other), std::nullopt) << "a leader has said it, for another reason";
}

TEST(StandbyTest, IsHealthyAndNotReady) {
  const auto standby =
      Standby::Start("127.0.0.1:0", "127.0.0.1:0", grpc::InsecureServerCredentials(), std::nullopt)
          .value();
  standby->SetLeader("head:7450");
  httplib::Client http("http://" + standby->http_address());
  EXPECT_EQ(http.Get("/healthz")->status, 200);
  EXPECT_EQ(http.Get("/readyz")->status, 503);
  EXPECT_THAT(http.Get("/readyz")->body, HasSubstr("the leader is head:7450"));
  EXPECT_THAT(http.Get("/metrics")->body, HasSubstr("process_cpu_seconds_total"));
  EXPECT_THAT(http.Get("/metrics")->body, HasSubstr("\npaceline_controller_leader 0\n"));
}

TEST(LeadershipTest, AStandbyTakesOverWithAllThatWasAnswered) {
  const EtcdCluster etcd;
  auto first = std::make_unique<Controller>(etcd);
  first->WaitUntilItLeads();
  Controller second(etcd);
  const auto at_second = JobsAt(second.address());
  ASSERT_TRUE(
      Eventually([&] { return LeaderNamedIn(Cancel(*at_second, "r1")) == first->address(); }));
  // The leader serves where it stood by.
  const auto at_first = JobsAt(first->address());
  EXPECT_EQ(Cancel(*at_first, "r1").error_code(), grpc::StatusCode::NOT_FOUND);
  httplib::Client http(first->http());
  EXPECT_EQ(http.Get("/readyz")->status, 200);
  EXPECT_THAT(http.Get("/metrics")->body, HasSubstr("\npaceline_controller_leader 1\n"));
  grpc::ClientContext context;
  v1::ListJobsResponse before;
  ASSERT_TRUE(at_first->List(&context, v1::ListJobsRequest(), &before).ok());
  first.reset();
  second.WaitUntilItLeads();
  // Its channel may still be backing off after the earlier refusals.
  v1::ListJobsResponse after;
  ASSERT_TRUE(Eventually([&] {
    grpc::ClientContext again;
    return at_second->List(&again, v1::ListJobsRequest(), &after).ok();
  }));
  EXPECT_GT(after.revision(), before.revision()) << "revisions are never used twice";
}

TEST(LeadershipTest, WhoIsElectedDoesNotSayThatNobodyLeads) {
  const EtcdCluster etcd;
  Leadership::Options options;
  options.credentials = grpc::InsecureServerCredentials();
  options.etcd.endpoints = etcd.endpoints();
  options.listen = "127.0.0.1:0";
  options.http = "127.0.0.1:0";
  options.state_dir = NewDirectory();
  options.deposed = [](const std::string& why) { ADD_FAILURE() << why; };
  Leadership leadership(options);
  ASSERT_TRUE(leadership.Start().status.ok());
  const auto won = leadership.Wait();
  ASSERT_TRUE(won.ok()) << won.status();
  // The server has not started: the standby still answers.
  EXPECT_THAT(LeaderNamedIn(Cancel(*JobsAt(leadership.listen()), "r1")),
              Optional(leadership.listen()));
}

TEST(LeadershipTest, TwoControllersDoNotShareAStateDirectory) {
  Leadership::Options options;
  options.credentials = grpc::InsecureServerCredentials();
  options.etcd.endpoints = {"127.0.0.1:1"};
  options.listen = "127.0.0.1:0";
  options.http = "127.0.0.1:0";
  options.state_dir = NewDirectory();
  Leadership first(options);
  ASSERT_TRUE(first.Start().status.ok());
  const ServerFailure second = Leadership(options).Start();
  EXPECT_EQ(second.exit_code, kExitStateInUse);
  EXPECT_THAT(std::string(second.status.message()), HasSubstr(options.state_dir));
}

TEST(LeadershipTest, WrongFlagsAreToldAtTheStart) {
  Leadership::Options options;
  options.listen = "0.0.0.0:0";
  options.http = "127.0.0.1:0";
  options.state_dir = NewDirectory();
  EXPECT_EQ(Leadership(options).Start().exit_code, kExitUsage) << "no endpoints";
  options.etcd.endpoints = {"127.0.0.1:1", "e2.example.org:2379"};
  const ServerFailure plain = Leadership(options).Start();
  EXPECT_EQ(plain.exit_code, kExitUsage);
  EXPECT_THAT(std::string(plain.status.message()), HasSubstr("--etcd-tls-dir"));
  options.etcd.endpoints = {"127.0.0.1:1"};
  const ServerFailure everywhere = Leadership(options).Start();
  EXPECT_EQ(everywhere.exit_code, kExitUsage);
  EXPECT_THAT(std::string(everywhere.status.message()), HasSubstr("--advertise"));
}

}  // namespace
}  // namespace paceline
