#include "worker/daemon/testing/fake_controller.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/not_leader.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace paceline {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(30);

// Makes a lambda usable as a mutex condition.
template <typename Predicate>
absl::Condition When(Predicate& predicate) {
  return absl::Condition(&predicate);
}

}  // namespace

grpc::Status NotLeader(const std::string& leader) {
  google::rpc::ErrorInfo info;
  info.set_reason(kNotLeaderReason);
  if (!leader.empty()) (*info.mutable_metadata())[kLeaderMetadata] = leader;
  google::rpc::Status status;
  status.add_details()->PackFrom(info);
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "stands by", status.SerializeAsString());
}

FakeController::FakeController(const std::string& address, const std::string& cluster, int64_t term,
                               std::optional<grpc::Status> refusal)
    : cluster_(cluster), refusal_(std::move(refusal)), term_(term) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  EXPECT_NE(server_, nullptr) << "cannot listen on " << address;
  address_ = absl::StrCat("127.0.0.1:", port);
}

FakeController::~FakeController() { Stop(); }

void FakeController::Stop() {
  if (server_ == nullptr) return;
  server_->Shutdown(absl::ToChronoTime(absl::Now()));
  server_.reset();
}

void FakeController::SetPlan(const v1::NodePlan& plan) {
  absl::MutexLock lock(&mutex_);
  plan_ = plan;
  plan_->set_revision(++revision_);
  v1::ControllerMessage message;
  *message.mutable_plan() = *plan_;
  Send(message);
}

void FakeController::SetTerm(int64_t term) {
  absl::MutexLock lock(&mutex_);
  term_ = term;
}

void FakeController::SetReportInterval(absl::Duration interval) {
  absl::MutexLock lock(&mutex_);
  report_interval_ = interval;
}

void FakeController::SetLease(absl::Duration length) {
  absl::MutexLock lock(&mutex_);
  lease_ = length;
}

void FakeController::StopAnswers() {
  absl::MutexLock lock(&mutex_);
  answers_ = false;
}

void FakeController::Refuse(std::optional<grpc::Status> refusal) {
  absl::MutexLock lock(&mutex_);
  refusal_ = std::move(refusal);
}

v1::NodeReport FakeController::WaitForReport(
    const std::function<bool(const v1::NodeReport&)>& wanted) {
  absl::MutexLock lock(&mutex_);
  const auto satisfied = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return wanted(report_); };
  EXPECT_TRUE(mutex_.AwaitWithTimeout(When(satisfied), kDeadline)) << "last report:\n"
                                                                   << report_.DebugString();
  return report_;
}

v1::Hello FakeController::WaitForHello(int sessions) {
  absl::MutexLock lock(&mutex_);
  const auto begun = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return sessions_ >= sessions; };
  EXPECT_TRUE(mutex_.AwaitWithTimeout(When(begun), kDeadline)) << sessions_ << " sessions";
  return hello_;
}

v1::LogData FakeController::AskForLog(v1::LogRequest request) {
  absl::MutexLock lock(&mutex_);
  const int64_t id = ++revision_;
  request.set_id(id);
  v1::ControllerMessage message;
  *message.mutable_log_request() = std::move(request);
  Send(message);
  const auto answered = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return logs_.count(id) > 0; };
  EXPECT_TRUE(mutex_.AwaitWithTimeout(When(answered), kDeadline)) << "no answer about the log";
  return logs_[id];
}

std::vector<v1::StepRecord> FakeController::Steps() const {
  absl::MutexLock lock(&mutex_);
  return steps_;
}

int64_t FakeController::Dropped() const {
  absl::MutexLock lock(&mutex_);
  return dropped_;
}

int FakeController::Reports() const {
  absl::MutexLock lock(&mutex_);
  return reports_;
}

void FakeController::Send(const v1::ControllerMessage& message) {
  if (stream_ != nullptr) stream_->Write(message);
}

grpc::Status FakeController::Session(grpc::ServerContext* /*context*/, Stream* stream) {
  v1::WorkerMessage message;
  if (!stream->Read(&message)) return grpc::Status::CANCELLED;
  {
    absl::MutexLock lock(&mutex_);
    if (refusal_.has_value()) return *refusal_;
    hello_ = message.hello();
    report_ = hello_.report();
    ++sessions_;
    stream_ = stream;
    v1::ControllerMessage welcome;
    welcome.mutable_welcome()->set_cluster_id(cluster_);
    welcome.mutable_welcome()->set_report_interval_s(absl::ToDoubleSeconds(report_interval_));
    welcome.mutable_welcome()->set_lease_s(absl::ToDoubleSeconds(lease_));
    welcome.mutable_welcome()->set_term(term_);
    Send(welcome);
    v1::ControllerMessage plan;
    if (plan_.has_value()) *plan.mutable_plan() = *plan_;
    if (plan_.has_value()) Send(plan);
  }
  while (stream->Read(&message)) {
    absl::MutexLock lock(&mutex_);
    if (message.has_report()) {
      report_ = message.report();
      ++reports_;
      v1::ControllerMessage answer;
      answer.mutable_lease()->set_report_number(report_.number());
      if (answers_) Send(answer);
    }
    if (message.has_log()) logs_[message.log().id()] = message.log();
    if (message.has_steps()) dropped_ = message.steps().dropped();
    for (const v1::StepBatch& batch : message.steps().batches()) {
      steps_.insert(steps_.end(), batch.records().begin(), batch.records().end());
    }
  }
  absl::MutexLock lock(&mutex_);
  if (stream_ == stream) stream_ = nullptr;
  return grpc::Status::OK;
}

}  // namespace paceline
