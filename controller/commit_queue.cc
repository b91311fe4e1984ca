#include "controller/commit_queue.h"

#include <algorithm>
#include <string>
#include <utility>

namespace paceline {
namespace {

// `later` takes effect after `all`.
void Append(WriteBatch later, WriteBatch& all) {
  for (auto& [key, value] : later.puts) {
    all.deletes.erase(std::remove(all.deletes.begin(), all.deletes.end(), key), all.deletes.end());
    all.puts[key] = std::move(value);
  }
  for (std::string& key : later.deletes) {
    all.puts.erase(key);
    all.deletes.push_back(std::move(key));
  }
}

}  // namespace

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
  if (!failure_.ok() || (batch.empty() && line_.empty())) return then(failure_);
  if (!batch.empty()) {
    ++added_;
    absl::MutexLock lock(&mutex_);
    batches_.push_back(std::move(batch));
  }
  line_.push_back({added_, std::move(then)});
  most_in_line_ = std::max(most_in_line_, static_cast<int64_t>(line_.size()));
}

int64_t CommitQueue::TakeMostInLine() {
  return std::exchange(most_in_line_, static_cast<int64_t>(line_.size()));
}

std::vector<WriteBatch> CommitQueue::TakeBatches() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !batches_.empty();
  };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&ready));
  std::vector<WriteBatch> taken;
  while (!batches_.empty() && taken.size() < kMaxTogether) {
    taken.push_back(std::move(batches_.front()));
    batches_.pop_front();
  }
  return taken;
}

void CommitQueue::CommitAll() {
  absl::Status status;  // Of the first commit that failed.
  while (true) {
    std::vector<WriteBatch> batches = TakeBatches();
    if (batches.empty()) return;
    WriteBatch together;
    for (WriteBatch& batch : batches) Append(std::move(batch), together);
    const absl::Time start = EventLoop::Now();
    if (status.ok()) status = store_->Commit(together);
    loop_->Post([this, count = static_cast<int64_t>(batches.size()), status,
                 took = EventLoop::Now() - start] { Finish(count, status, took); });
  }
}

void CommitQueue::Finish(int64_t batches, const absl::Status& status, absl::Duration took) {
  if (failure_.ok() && !status.ok()) {
    failure_ = status;
    observer_.failed(status);
  }
  if (failure_.ok()) observer_.committed(took);
  finished_ += batches;
  while (!line_.empty() && line_.front().batches <= finished_) {
    const Then then = std::move(line_.front().then);
    line_.pop_front();
    then(failure_);
  }
}

}  // namespace paceline
