#include "cli/top/top_fetch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace paceline {
namespace {

constexpr int kMostPerPage = 1000;
// Of jobs that have ended the newest are shown.
constexpr int kJobsWithEnded = 200;

grpc::Status FetchJobs(Client& client, const TopQuery& query, TopModel* model) {
  if (!query.job.empty()) {
    v1::GetJobRequest request;
    request.set_job(query.job);
    return client.GetJob(request, &model->jobs.emplace_back());
  }
  v1::ListJobsRequest request;
  request.set_page_size(query.ended ? kJobsWithEnded : kMostPerPage);
  if (!query.ended) {
    for (const v1::JobState state :
         {v1::QUEUED, v1::STARTING, v1::RUNNING, v1::RECOVERING, v1::STOPPING}) {
      request.add_states(state);
    }
  }
  v1::ListJobsResponse page;
  const grpc::Status status = client.ListJobs(request, &page);
  for (v1::Job& job : *page.mutable_jobs()) model->jobs.push_back(std::move(job));
  return status;
}

grpc::Status FetchNodes(Client& client, TopModel* model) {
  v1::ListNodesRequest request;
  request.set_page_size(kMostPerPage);
  do {
    v1::ListNodesResponse page;
    const grpc::Status status = client.ListNodes(request, &page);
    if (!status.ok()) return status;
    for (v1::Node& node : *page.mutable_nodes()) model->nodes.push_back(std::move(node));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return grpc::Status::OK;
}

// What is measured comes beside: without, the rest is shown.
bool IsMissing(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNIMPLEMENTED ||
         status.error_code() == grpc::StatusCode::NOT_FOUND;
}

grpc::Status FetchTelemetry(Client& client, TopModel* model) {
  v1::ListJobTelemetryResponse response;
  const grpc::Status status = client.ListTelemetry({}, &response);
  for (v1::JobTelemetry& job : *response.mutable_jobs()) {
    model->telemetry[job.job_id()] = std::move(job);
  }
  return IsMissing(status) ? grpc::Status::OK : status;
}

grpc::Status FetchRanks(Client& client, const TopQuery& query, TopModel* model) {
  v1::GetJobRanksRequest request;
  request.set_job(query.job);
  const grpc::Status status = client.GetJobRanks(request, &model->ranks);
  if (!IsMissing(status)) return status;
  model->ranks = RanksOf(model->jobs.front());
  return grpc::Status::OK;
}

std::string TroubleText(const grpc::Status& status, const std::string& server) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
      return absl::StrCat("the controller at ", server, " does not answer");
    default:
      return status.error_message();
  }
}

}  // namespace

grpc::Status FetchTop(Client& client, const TopQuery& query, TopModel* model) {
  *model = TopModel();
  model->server = client.server();
  grpc::Status status = FetchJobs(client, query, model);
  if (status.ok() && query.job.empty()) status = FetchNodes(client, model);
  if (status.ok()) status = FetchTelemetry(client, model);
  if (status.ok() && !query.job.empty()) status = FetchRanks(client, query, model);
  model->fetched = absl::Now();
  return status;
}

TopFetcher::TopFetcher(Client::Options options, absl::Duration interval, TopQuery query,
                       std::function<void()> on_news)
    : client_(std::move(options), stop_),
      interval_(interval),
      on_news_(std::move(on_news)),
      query_(std::move(query)),
      thread_([this] { Run(); }) {}

TopFetcher::~TopFetcher() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stop_.Raise();
  thread_.join();
}

void TopFetcher::Ask(TopQuery query) {
  const absl::MutexLock lock(&mutex_);
  query_ = std::move(query);
  news_.reset();
  ++asked_;
}

std::optional<TopModel> TopFetcher::Take() {
  const absl::MutexLock lock(&mutex_);
  return std::exchange(news_, std::nullopt);
}

void TopFetcher::Publish(const TopModel& model, int64_t asked) {
  {
    const absl::MutexLock lock(&mutex_);
    if (asked != asked_) return;  // Something else is wanted by now.
    news_ = model;
  }
  on_news_();
}

void TopFetcher::Run() {
  TopModel last;
  last.server = client_.server();
  while (true) {
    TopQuery query;
    int64_t asked = 0;
    {
      const absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      query = query_;
      asked = asked_;
    }
    TopModel next;
    const grpc::Status status = FetchTop(client_, query, &next);
    if (status.ok()) {
      last = std::move(next);
    } else {
      last.trouble = TroubleText(status, client_.server());
    }
    Publish(last, asked);
    const absl::MutexLock lock(&mutex_);
    const auto is_due = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || asked != asked_;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&is_due), interval_);
  }
}

}  // namespace paceline
