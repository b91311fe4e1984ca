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
  if (!failure_.ok() || (batch.empty() && in_line_ == 0)) return then(failure_);
  ++in_line_;
  most_in_line_ = std::max(most_in_line_, in_line_);
  absl::MutexLock lock(&mutex_);
  entries_.push_back({std::move(batch), std::move(then)});
}

int64_t CommitQueue::TakeMostInLine() { return std::exchange(most_in_line_, in_line_); }

std::vector<CommitQueue::Entry> CommitQueue::TakeEntries() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !entries_.empty();
  };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&ready));
  std::vector<Entry> taken;
  while (!entries_.empty() && taken.size() < kMaxTogether) {
    taken.push_back(std::move(entries_.front()));
    entries_.pop_front();
  }
  return taken;
}

void CommitQueue::CommitAll() {
  absl::Status status;  // Of the first commit that failed.
  while (true) {
    std::vector<Entry> entries = TakeEntries();
    if (entries.empty()) return;
    WriteBatch together;
    for (Entry& entry : entries) Append(std::move(entry.batch), together);
    const absl::Time start = EventLoop::Now();
    if (status.ok() && !together.empty()) status = store_->Commit(together);
    loop_->Post([this, entries = std::move(entries), status, took = EventLoop::Now() - start] {
      Finish(entries, status, took);
    });
  }
}

void CommitQueue::Finish(const std::vector<Entry>& entries, const absl::Status& status,
                         absl::Duration took) {
  if (failure_.ok() && !status.ok()) {
    failure_ = status;
    observer_.failed(status);
  }
  if (failure_.ok()) observer_.committed(took);
  for (const Entry& entry : entries) {
    --in_line_;
    entry.then(failure_);
  }
}

}  // namespace paceline
