#include "controller/page/page.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "controller/page/page_curves.h"
#include "controller/page/page_job.h"
#include "controller/page/page_state.h"
#include "controller/page/page_text.h"

namespace paceline {
namespace {

constexpr absl::Duration kPeriod = absl::Seconds(1);
// A new reader need not wait long, and many new readers cost no more than one.
constexpr absl::Duration kSoonest = absl::Milliseconds(100);
// How long a request for curves waits for the loop.
constexpr absl::Duration kLoopPatience = absl::Seconds(2);
// Ids of jobs are shorter.
constexpr size_t kLongestJob = 64;

constexpr char kText[] = "text/plain; charset=utf-8";

std::string OnOneLine(const nlohmann::json& state) {
  return state.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

HttpResponse Page::Html() {
  return {200,
          "text/html; charset=utf-8",
          kPageHtml,
          {{"Cache-Control", "no-store"},
           {"Content-Security-Policy", kPagePolicy},
           {"Referrer-Policy", "no-referrer"},
           {"X-Content-Type-Options", "nosniff"}}};
}

HttpResponse Page::Curves(const HttpServer::Query& query) {
  const auto job = query.find("job");
  if (job == query.end() || job->second.empty() || job->second.size() > kLongestJob) {
    return {400, kText, "name a job by its id: /curves?job=job-0123456789ab\n"};
  }
  // Shared, because the loop may come to it when nobody waits any more.
  struct Copy {
    absl::Notification made;
    JobRun run;
  };
  const auto copy = std::make_shared<Copy>();
  loop_->Post([copy, id = JobId(job->second), control = control_] {
    copy->run = CopyRun(id, control->cluster(), control->steps().curves(), control->histories());
    copy->made.Notify();
  });
  if (!copy->made.WaitForNotificationWithTimeout(kLoopPatience)) {
    return {503, kText, "the controller is busy; ask again\n"};
  }
  return {200,
          "application/json",
          OnOneLine(DescribeRunForPage(copy->run)),
          {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}}};
}

std::unique_ptr<HttpStream> Page::Listen(const HttpServer::Query& query) {
  const auto job = query.find("job");
  const bool has_job = job != query.end() && job->second.size() <= kLongestJob;
  std::unique_ptr<HttpStream> stream = feed_.Listen(has_job ? job->second : "");
  if (!waking_.exchange(true)) loop_->Post([this] { Wake(); });
  return stream;
}

void Page::Wake() {
  waking_ = false;
  if (armed_ && EventLoop::Now() - published_ < kSoonest) return;
  Publish();
}

void Page::Publish() {
  if (!feed_.HasReaders()) return feed_.Clear();
  const PageSources sources{control_->cluster(), control_->stragglers(), control_->steps(),
                            control_->histories()};
  const absl::Time now = absl::Now();
  PageFeed::State state;
  state.cluster = OnOneLine(DescribeForPage(sources, now));
  for (const std::string& job : feed_.Jobs()) {
    state.jobs[job] = OnOneLine(DescribeJobForPage(sources, JobId(job), now));
  }
  feed_.Publish(std::move(state));
  published_ = EventLoop::Now();
  if (std::exchange(armed_, true)) return;
  loop_->After(kPeriod, [this] {
    armed_ = false;
    Publish();
  });
}

}  // namespace paceline
