#include "cli/top/top_fetch.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"
#include "proto/telemetry.pb.h"

namespace paceline {
namespace {

constexpr int kMostPerPage = 1000;
// For jobs that train. More pages would take longer than people wait for an update.
constexpr int kMostPages = 10;
// Number of the newest ended jobs that are shown.
constexpr int kEndedJobs = 200;

// Asks for the newest jobs in one of the states: at most so many pages of so many jobs.
struct JobPages {
  std::vector<v1::JobState> states;
  int pages = 1;
  int per_page = kMostPerPage;
};

// `kind`: name of these jobs, used if there are more of them.
grpc::Status FetchPages(Client& client, const JobPages& wanted, const char* kind, TopModel* model,
                        std::vector<v1::Job>* jobs) {
  v1::ListJobsRequest request;
  request.set_page_size(wanted.per_page);
  for (const v1::JobState state : wanted.states) request.add_states(state);
  for (int page = 0; page < wanted.pages; ++page) {
    v1::ListJobsResponse response;
    const grpc::Status status = client.Call(methods::kJobList, request, &response);
    if (!status.ok()) return status;
    for (v1::Job& job : *response.mutable_jobs()) jobs->push_back(std::move(job));
    request.set_page_token(response.next_page_token());
    if (request.page_token().empty()) return grpc::Status::OK;
  }
  model->cut.emplace_back(kind);
  return grpc::Status::OK;
}

grpc::Status FetchJobs(Client& client, const TopQuery& query, TopModel* model) {
  if (!query.job.empty()) {
    v1::GetJobRequest request;
    request.set_job(query.job);
    return client.Call(methods::kJobGet, request, &model->jobs.emplace_back());
  }
  // Asked in the order of a job's life: a job that advances meanwhile is listed twice, not missed.
  std::vector<v1::Job> waiting;
  std::vector<v1::Job> training;
  std::vector<v1::Job> ended;
  grpc::Status status = FetchPages(client, {{v1::QUEUED}}, "queued", model, &waiting);
  if (status.ok()) {
    status =
        FetchPages(client, {{v1::STARTING, v1::RUNNING, v1::RECOVERING, v1::STOPPING}, kMostPages},
                   "running", model, &training);
  }
  if (status.ok() && query.ended) {
    status = FetchPages(client, {{v1::SUCCEEDED, v1::FAILED, v1::CANCELLED}, 1, kEndedJobs},
                        "ended", model, &ended);
  }
  std::set<std::string> known;
  for (std::vector<v1::Job>* part : {&training, &waiting, &ended}) {
    for (v1::Job& job : *part) {
      if (known.insert(job.id()).second) model->jobs.push_back(std::move(job));
    }
  }
  return status;
}

grpc::Status FetchNodes(Client& client, TopModel* model) {
  v1::ListNodesRequest request;
  request.set_page_size(kMostPerPage);
  do {
    v1::ListNodesResponse page;
    const grpc::Status status = client.Call(methods::kNodeList, request, &page);
    if (!status.ok()) return status;
    for (v1::Node& node : *page.mutable_nodes()) model->nodes.push_back(std::move(node));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return grpc::Status::OK;
}

// Whether the telemetry is missing; the rest is then shown without it.
bool IsMissing(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNIMPLEMENTED ||
         status.error_code() == grpc::StatusCode::NOT_FOUND;
}

grpc::Status FetchTelemetry(Client& client, TopModel* model) {
  v1::ListJobTelemetryResponse response;
  const grpc::Status status = client.Call(methods::kTelemetryListJobs, {}, &response);
  for (v1::JobTelemetry& job : *response.mutable_jobs()) {
    model->telemetry[job.job_id()] = std::move(job);
  }
  return IsMissing(status) ? grpc::Status::OK : status;
}

grpc::Status FetchRanks(Client& client, const TopQuery& query, TopModel* model) {
  v1::GetJobRanksRequest request;
  request.set_job(query.job);
  const grpc::Status status = client.Call(methods::kTelemetryGetRanks, request, &model->ranks);
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
