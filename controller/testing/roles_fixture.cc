#include "controller/testing/roles_fixture.h"

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/tls/key_and_request.h"

namespace paceline {

std::string TokenOf(const std::string& user) { return user + std::string(40, '-'); }

Call::Call(const std::string& user) {
  context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  if (!user.empty()) {
    context_.AddMetadata("authorization", absl::StrCat("Bearer ", TokenOf(user)));
  }
}

RolesTest::RolesTest() {
  auto worker = Join(Hello("w0", 4));
  alice_ = SubmitAs("alice", &*worker, 1);
  bob_ = SubmitAs("bob", &*worker, 2);
  worker.reset();
  server_.reset();
  WriteTokens({"viewer vic", "submitter alice", "submitter bob", "operator ops", "admin root"});
  ServerOptions options{"127.0.0.1:0", "127.0.0.1:0", directory_, directory_ + "/address", ""};
  options.credentials = grpc::experimental::LocalServerCredentials(LOCAL_TCP);
  options.user_tokens = directory_ + "/tokens";
  options.cluster.ended_jobs_kept = 2;
  server_ = std::make_unique<RunningServer>(options);
  EXPECT_TRUE(server_->failure().status.ok()) << server_->failure().status;
  channel_ = grpc::CreateChannel(server_->Address("grpc"),
                                 grpc::experimental::LocalCredentials(LOCAL_TCP));
  jobs_ = v1::JobService::NewStub(channel_);
}

void RolesTest::WriteTokens(const std::vector<std::string>& users) {
  const std::string path = directory_ + "/tokens";
  std::ofstream file(path);
  for (const std::string& user : users) {
    file << Sha256Hex(TokenOf(user.substr(user.find(' ') + 1))) << " " << user << "\n";
  }
  file.close();
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
}

std::string RolesTest::SubmitAs(const std::string& user, PlayedWorker* worker, int trainers) {
  grpc::ClientContext context;
  context.AddMetadata("paceline-user", user);
  v1::SubmitJobRequest request;
  *request.mutable_spec() = Spec();
  request.mutable_spec()->set_name(user + "s");
  request.mutable_spec()->mutable_checkpoint()->set_directory("/ckpt");
  request.set_request_id("submit " + user);
  v1::Job job;
  EXPECT_TRUE(jobs_->Submit(&context, request, &job).ok());
  EXPECT_EQ(job.submitter(), user);
  std::vector<v1::TrainerReport> reports;
  const v1::NodePlan reported = worker->ReadPlan(trainers);
  for (const v1::TrainerPlan& plan : reported.trainers()) {
    reports.push_back(Trainer(plan, v1::TRAINER_RUNNING));
  }
  worker->Report(reports);
  WaitFor(job.id(), v1::RUNNING);
  return job.id();
}

grpc::Status RolesTest::GetAs(const std::string& user, const std::string& reference) {
  Call call(user);
  v1::GetJobRequest request;
  request.set_job(reference);
  v1::Job job;
  return jobs_->Get(call, request, &job);
}

std::vector<std::string> RolesTest::ListAs(const std::string& user) {
  std::vector<std::string> ids;
  v1::ListJobsRequest request;
  request.set_page_size(1);
  do {
    Call call(user);
    v1::ListJobsResponse response;
    EXPECT_TRUE(jobs_->List(call, request, &response).ok());
    EXPECT_EQ(response.jobs_size(), 1) << "a page of a list that goes on is full";
    for (const auto& job : response.jobs()) ids.push_back(job.id());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return ids;
}

std::string RolesTest::NextId() { return absl::StrCat("request ", ++requests_); }

}  // namespace paceline
