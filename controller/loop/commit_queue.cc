#include "controller/loop/commit_queue.h"

#include <algorithm>
#include <string>
#include <utility>

namespace paceline {

CommitQueue::CommitQueue(EventLoop* loop, StateStore* store, Callbacks callbacks)
    : loop_(loop),
      store_(store),
      callbacks_(std::move(callbacks)),
      thread_([this] { CommitAll(); }) {}

CommitQueue::~CommitQueue() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
  // The loop has stopped, so it would not hear of a failure. After a failed commit nothing more may
  // be written.
  if (failure_.ok() && last_.ok() && HasWaiting()) {
    store_->Commit(TakeWaiting()).IgnoreError();
  }
}

void CommitQueue::Add(Change change, Then then) {
  if (!failure_.ok() || (change.empty() && line_.empty())) return then(failure_);
  const bool changes = !change.empty();
  for (auto& [key, value] : change.batch.puts) writes_[key] = std::move(value);
  for (const std::string& key : change.batch.deletes) writes_[key] = std::nullopt;
  jobs_.merge(change.jobs);
  line_.push_back({HasWaiting() ? begun_ + 1 : begun_, std::move(then)});
  most_in_line_ = std::max(most_in_line_, static_cast<int64_t>(line_.size()));
  if (changes && begun_ == finished_) Begin();
}

int64_t CommitQueue::TakeMostInLine() {
  return std::exchange(most_in_line_, static_cast<int64_t>(line_.size()));
}

WriteBatch CommitQueue::TakeWaiting() {
  WriteBatch taken;
  for (auto& [key, value] : std::exchange(writes_, {})) {
    if (value.has_value()) {
      taken.puts.emplace(key, *std::move(value));
    } else {
      taken.deletes.push_back(key);
    }
  }
  for (const JobId& job : std::exchange(jobs_, {})) callbacks_.encode(job, taken);
  return taken;
}

void CommitQueue::Begin() {
  ++begun_;
  WriteBatch transaction = TakeWaiting();
  absl::MutexLock lock(&mutex_);
  next_ = std::move(transaction);
}

std::optional<WriteBatch> CommitQueue::TakeTransaction() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || next_.has_value();
  };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&ready));
  return std::exchange(next_, std::nullopt);
}

void CommitQueue::CommitAll() {
  while (const std::optional<WriteBatch> transaction = TakeTransaction()) {
    const absl::Time start = EventLoop::Now();
    last_ = store_->Commit(*transaction);
    loop_->Post([this, status = last_, took = EventLoop::Now() - start] { Finish(status, took); });
  }
}

void CommitQueue::Finish(const absl::Status& status, absl::Duration took) {
  ++finished_;
  failure_ = status;
  if (failure_.ok()) {
    callbacks_.committed(took);
    // Lets the disk work while the work that depends on this commit is done.
    if (HasWaiting()) Begin();
  } else {
    callbacks_.failed(failure_);
  }
  while (!line_.empty() && (!failure_.ok() || line_.front().transaction <= finished_)) {
    const Then then = std::move(line_.front().then);
    line_.pop_front();
    then(failure_);
  }
}

}  // namespace paceline
