#include "controller/commit_queue.h"

#include <utility>

namespace paceline {

CommitQueue::CommitQueue(EventLoop* loop, StateStore* store, Observer observer)
    : loop_(loop),
      store_(store),
      observer_(std::move(observer)),
      thread_([this] { CommitAll(); }) {}

CommitQueue::~CommitQueue() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void CommitQueue::Add(WriteBatch batch, Then then) {
  if (!failure_.ok() || (batch.empty() && in_line_ == 0)) return then(failure_);
  ++in_line_;
  absl::MutexLock lock(&mutex_);
  entries_.push_back({std::move(batch), std::move(then)});
}

void CommitQueue::CommitAll() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !entries_.empty();
  };
  while (true) {
    Entry entry;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (entries_.empty()) return;
      entry = std::move(entries_.front());
      entries_.pop_front();
    }
    const absl::Time start = EventLoop::Now();
    const absl::Status status = store_->Commit(entry.batch);
    loop_->Post([this, then = std::move(entry.then), status, took = EventLoop::Now() - start] {
      Finish(then, status, took);
    });
  }
}

void CommitQueue::Finish(const Then& then, const absl::Status& status, absl::Duration took) {
  --in_line_;
  if (failure_.ok() && !status.ok()) {
    failure_ = status;
    observer_.failed(status);
  }
  if (failure_.ok()) observer_.committed(took);
  then(failure_);
}

}  // namespace paceline
