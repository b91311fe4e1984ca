#include "bench/load/api_calls.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/event_loop.h"

namespace paceline {
namespace {

constexpr int64_t kForever = 1'000'000'000;  // Steps.
constexpr int kShortJobs = 10;               // One in this many is short.
constexpr absl::Duration kLookAgain = absl::Seconds(1);
constexpr int kMaxMessageBytes = 64 << 20;
constexpr const char* kKinds[] = {"get job",  "list jobs",  "describe job", "why",
                                  "get node", "list nodes", "telemetry",    "ranks of a job"};
constexpr int kKindCount = 8;

std::shared_ptr<grpc::Channel> MakeChannel(const ApiOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  return grpc::CreateCustomChannel(options.controller, options.credentials, arguments);
}

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  context.set_wait_for_ready(true);
}

v1::JobSpec SpecOf(size_t number, int ranks, int64_t steps) {
  v1::JobSpec spec;
  spec.set_name(absl::StrCat("load-", number));
  spec.set_ranks(ranks);
  spec.mutable_model()->mutable_mlp()->add_hidden(8);
  spec.mutable_data()->set_train("/data/train.shard");
  spec.set_steps(steps);
  spec.mutable_optimizer()->mutable_sgd();
  spec.mutable_optimizer()->set_learning_rate(0.1);
  return spec;
}

}  // namespace

ApiCalls::ApiCalls(ApiOptions options)
    : options_(std::move(options)),
      jobs_(v1::JobService::NewStub(MakeChannel(options_))),
      nodes_(v1::NodeService::NewStub(MakeChannel(options_))),
      telemetry_(v1::TelemetryService::NewStub(MakeChannel(options_))) {
  for (const char* kind : kKinds) latencies_[kind];
}

bool ApiCalls::Submit(size_t number, int64_t short_steps) {
  const bool is_short = short_steps > 0 && number % kShortJobs == kShortJobs - 1;
  v1::SubmitJobRequest request;
  *request.mutable_spec() = SpecOf(number, options_.ranks, is_short ? short_steps : kForever);
  request.set_request_id(
      absl::StrCat("load-", number, "-", submitted_.load(), "-", absl::ToUnixNanos(absl::Now())));
  grpc::ClientContext context;
  SetDeadline(context);
  v1::Job job;
  const grpc::Status status = jobs_->Submit(&context, request, &job);
  if (!status.ok()) {
    std::cerr << "cannot submit: " << status.error_message() << std::endl;
    ++errors_;
    return false;
  }
  ++submitted_;
  ids_[number] = job.id();
  return true;
}

std::vector<std::string> ApiCalls::SubmitAll() {
  ids_.resize(static_cast<size_t>(options_.jobs) + static_cast<size_t>(options_.waiting));
  for (size_t number = 0; number < ids_.size(); ++number) {
    // They start together but must not always end together.
    const auto part = static_cast<int64_t>(number + 1);
    const auto all = static_cast<int64_t>(ids_.size());
    if (!Submit(number, (options_.short_steps * part + all - 1) / all)) std::exit(1);
  }
  return ids_;
}

void ApiCalls::Start() {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ListNodesRequest request;
  request.set_page_size(1);
  v1::ListNodesResponse response;
  const grpc::Status status = nodes_->List(&context, request, &response);
  if (status.ok() && response.nodes_size() > 0) a_node_ = response.nodes(0).name();
  thread_ = std::thread([this] { Run(); });
}

void ApiCalls::Stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void ApiCalls::Run() {
  const absl::Duration pause = absl::Seconds(1 / options_.calls_per_second);
  absl::Time next = absl::Now();
  absl::Time look = next + kLookAgain;
  for (int64_t number = 0; !stopping_; ++number) {
    Call(number);
    if (absl::Now() >= look) {
      SubmitAgain();
      look = absl::Now() + kLookAgain;
    }
    // Late calls are not made up for, so the rate stays steady even after an outage.
    next = std::max(next + pause, absl::Now() - pause);
    absl::SleepFor(next - absl::Now());
  }
}

void ApiCalls::SubmitAgain() {
  if (options_.short_steps == 0) return;
  for (size_t number = kShortJobs - 1; number < ids_.size() && !stopping_; number += kShortJobs) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::GetJobRequest request;
    request.set_job(ids_[number]);
    v1::Job job;
    if (!jobs_->Get(&context, request, &job).ok()) continue;
    if (job.state() == v1::SUCCEEDED) Submit(number, options_.short_steps);
  }
}

void ApiCalls::Call(int64_t number) {
  const int kind = static_cast<int>(number % kKindCount);
  const std::string& job = ids_[static_cast<size_t>(number * 7919) % ids_.size()];
  grpc::ClientContext context;
  SetDeadline(context);
  const absl::Time begun = EventLoop::Now();
  grpc::Status status;
  if (kind == 0) {
    v1::GetJobRequest request;
    request.set_job(job);
    v1::Job reply;
    status = jobs_->Get(&context, request, &reply);
  } else if (kind == 1) {
    v1::ListJobsResponse reply;
    status = jobs_->List(&context, v1::ListJobsRequest(), &reply);
  } else if (kind == 2) {
    v1::AdviseRequest request;
    request.set_job(job);
    v1::JobAdvice reply;
    status = jobs_->Advise(&context, request, &reply);
  } else if (kind == 3) {
    v1::WhyRequest request;
    request.set_job(job);
    v1::WhyResponse reply;
    status = jobs_->Why(&context, request, &reply);
  } else if (kind == 4) {
    v1::GetNodeRequest request;
    request.set_name(a_node_);
    v1::Node reply;
    status = nodes_->Get(&context, request, &reply);
  } else if (kind == 5) {
    v1::ListNodesResponse reply;
    status = nodes_->List(&context, v1::ListNodesRequest(), &reply);
  } else if (kind == 6) {
    v1::ListJobTelemetryResponse reply;
    status = telemetry_->ListJobs(&context, v1::ListJobTelemetryRequest(), &reply);
  } else {
    v1::GetJobRanksRequest request;
    request.set_job(job);
    request.set_slowest(8);
    v1::JobRanks reply;
    status = telemetry_->GetRanks(&context, request, &reply);
  }
  if (!status.ok()) {
    ++errors_;
    return;
  }
  const absl::Duration took = EventLoop::Now() - begun;
  all_.Add(took);
  latencies_.at(kKinds[kind]).Add(took);
}

void ApiCalls::ClearFigures() {
  all_.Clear();
  for (auto& [kind, latencies] : latencies_) latencies.Clear();
  errors_ = 0;
}

nlohmann::json ApiCalls::Summary() const {
  nlohmann::json summary = {{"all", all_.Summary()}, {"errors", errors_.load()}};
  for (const auto& [kind, latencies] : latencies_) summary["kinds"][kind] = latencies.Summary();
  return summary;
}

}  // namespace paceline
