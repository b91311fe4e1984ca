#include "controller/page/page.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/time/clock.h"
#include "controller/page/page_job.h"
#include "controller/page/page_state.h"
#include "controller/page/page_text.h"

namespace paceline {
namespace {

constexpr absl::Duration kPeriod = absl::Seconds(1);
// A new reader need not wait long, and many new readers cost no more than one.
constexpr absl::Duration kSoonest = absl::Milliseconds(100);
// Ids of jobs are shorter.
constexpr size_t kLongestJob = 64;

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
