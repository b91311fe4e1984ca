#include "controller/page/page_feed.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline {

class PageFeed::Reader : public HttpStream {
 public:
  Reader(PageFeed* feed, std::string job) : feed_(feed), job_(std::move(job)) {
    absl::MutexLock lock(&feed_->mutex_);
    place_ = feed_->readers_.insert(job_);
  }
  ~Reader() override {
    absl::MutexLock lock(&feed_->mutex_);
    feed_->readers_.erase(place_);
  }

  std::string Next() override {
    std::shared_ptr<const State> state;
    {
      absl::MutexLock lock(&feed_->mutex_);
      const auto has_news = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(feed_->mutex_) {
        return cancelled_ || (feed_->state_ != nullptr && feed_->version_ != seen_);
      };
      const bool news = feed_->mutex_.AwaitWithTimeout(absl::Condition(&has_news), feed_->alive_);
      if (cancelled_) return "";
      if (!news) return ":\n\n";
      seen_ = feed_->version_;
      state = feed_->state_;
    }
    std::string events = absl::StrCat("event: cluster\ndata: ", state->cluster, "\n\n");
    const auto job = state->jobs.find(job_);
    if (job != state->jobs.end()) {
      absl::StrAppend(&events, "event: job\ndata: ", job->second, "\n\n");
    }
    return events;
  }

  void Cancel() override {
    absl::MutexLock lock(&feed_->mutex_);
    cancelled_ = true;
  }

 private:
  PageFeed* const feed_;
  const std::string job_;
  std::multiset<std::string>::iterator place_;
  bool cancelled_ ABSL_GUARDED_BY(feed_->mutex_) = false;
  int64_t seen_ ABSL_GUARDED_BY(feed_->mutex_) = 0;
};

std::unique_ptr<HttpStream> PageFeed::Listen(std::string job) {
  return std::make_unique<Reader>(this, std::move(job));
}

bool PageFeed::HasReaders() const {
  absl::MutexLock lock(&mutex_);
  return !readers_.empty();
}

std::set<std::string> PageFeed::Jobs() const {
  absl::MutexLock lock(&mutex_);
  std::set<std::string> jobs(readers_.begin(), readers_.end());
  jobs.erase("");
  return jobs;
}

void PageFeed::Publish(State state) {
  auto shared = std::make_shared<const State>(std::move(state));
  absl::MutexLock lock(&mutex_);
  state_ = std::move(shared);
  ++version_;
}

void PageFeed::Clear() {
  absl::MutexLock lock(&mutex_);
  state_ = nullptr;
}

}  // namespace paceline
