#include "worker/daemon/core/lease.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

constexpr int kStalledSteps = 3;

struct Job {
  Generation generation;  // The newest on this node.
  int world_size = 0;
  int members = 0;  // On this node.
};

std::map<JobId, Job> JobsOf(const std::vector<HeldTrainer>& trainers) {
  std::map<JobId, Job> jobs;
  for (const HeldTrainer& trainer : trainers) {
    if (trainer.rank < 0) continue;
    Job& job = jobs[trainer.id.job];
    if (job.generation < trainer.generation) job = {trainer.generation, trainer.world_size, 0};
    if (job.generation == trainer.generation) ++job.members;
  }
  return jobs;
}

// Returns why the trainer must be killed; empty when it may live on.
std::string WhyFenced(const HeldTrainer& trainer, const std::map<JobId, Job>& jobs,
                      absl::Duration length, absl::Time now) {
  const auto job = jobs.find(trainer.id.job);
  if (job != jobs.end() && job->second.members >= job->second.world_size) {
    return "all ranks of its job are on this node";
  }
  if (trainer.rank < 0) return "";
  if (trainer.waiting) return "it waits for its job's next generation";
  const absl::Duration still = now - trainer.last_step;
  if (still < std::max(length, kStalledSteps * trainer.step_length)) return "";
  return absl::StrCat("it has made no step for ",
                      absl::FormatDuration(absl::Trunc(still, absl::Milliseconds(100))));
}

}  // namespace

void Lease::SetLength(absl::Duration length) {
  length_ = length;
  if (length_ > absl::ZeroDuration()) return;
  end_ = absl::InfiniteFuture();
  sent_.clear();
}

void Lease::Sent(int64_t number, absl::Time now) {
  sent_.emplace_back(number, now);
  if (sent_.size() > kMaxUnanswered) sent_.pop_front();
}

bool Lease::Grant(int64_t number) {
  if (length_ <= absl::ZeroDuration()) return false;
  // The answer to a report also answers the reports before it.
  while (!sent_.empty() && sent_.front().first < number) sent_.pop_front();
  if (sent_.empty() || sent_.front().first != number) return false;
  const absl::Time end = sent_.front().second + length_;
  sent_.pop_front();
  if (end_ != absl::InfiniteFuture() && end <= end_) return false;
  end_ = end;
  return true;
}

bool Lease::HoldOn(absl::Time since, absl::Time now) {
  if (length_ <= absl::ZeroDuration() || end_ == absl::InfiniteFuture() || HasRunOut(now)) {
    return false;
  }
  const absl::Time end = since + length_;
  if (end <= end_) return false;
  end_ = end;
  return true;
}

std::vector<FencedTrainer> ToFence(const std::vector<HeldTrainer>& trainers, const Lease& lease,
                                   absl::Time now) {
  std::vector<FencedTrainer> fenced;
  if (!lease.HasRunOut(now)) return fenced;
  const std::map<JobId, Job> jobs = JobsOf(trainers);
  for (const HeldTrainer& trainer : trainers) {
    if (!trainer.leased || !trainer.running) continue;
    const std::string why = WhyFenced(trainer, jobs, lease.length(), now);
    if (why.empty()) continue;
    fenced.push_back(
        {trainer.id,
         absl::StrCat("ended by its node: the lease of ", absl::FormatDuration(lease.length()),
                      " ran out ",
                      absl::FormatDuration(absl::Trunc(now - lease.end(), absl::Milliseconds(1))),
                      " ago without a word from the controller, and ", why)});
  }
  return fenced;
}

}  // namespace paceline
