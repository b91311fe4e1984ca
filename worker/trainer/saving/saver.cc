#include "worker/trainer/saving/saver.h"

#include <ATen/ops/full.h>
#include <torch/csrc/api/include/torch/version.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/boot_clock.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "common/version.h"
#include "worker/shim/allowed_roots.h"
#include "worker/trainer/checkpoint/file_error.h"
#include "worker/trainer/checkpoint/shard_writer.h"

namespace paceline {
namespace {

// How long rank 0 waits at the end for the last checkpoint to become complete.
constexpr absl::Duration kCommitPatience = absl::Minutes(5);

// Maximum number of saves for which rank 0 waits for the controller's word. If the controller is
// away for long, older ones stay incomplete.
constexpr size_t kDurableKept = 8;

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

ShardSaver::Options ShardOptions(const TrainerConfig& config) {
  return {config.checkpoint.write_limit, config.save_nan, config.checkpoint.roots};
}

}  // namespace

SaveFailure FailureOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return SaveFailure::kNoSpace;
    case absl::StatusCode::kPermissionDenied:
      return SaveFailure::kNoPermission;
    case absl::StatusCode::kDataLoss:
      return SaveFailure::kInconsistent;
    case absl::StatusCode::kFailedPrecondition:
      return SaveFailure::kNan;
    default:
      return SaveFailure::kIo;
  }
}

Saver::Saver(const Parts& parts, const CheckpointFigures& restored)
    : parts_(parts), figures_(restored), shards_(parts.platform, ShardOptions(parts.config)) {}

Saver::~Saver() { Leave(); }

void Saver::Enter(const Generation& generation, SaverMemory* memory) {
  generation_.emplace(generation);
  memory_ = memory;
  const Member& member = generation.config.member;
  {
    const absl::MutexLock lock(&mu_);
    member_ = member;
    parts_.control.SetCheckpointFigures(figures_);
  }
  shards_.SetPlace(member.rank, member.world_size);
  if (parts_.config.checkpoint.expected && !std::exchange(reserved_, true)) {
    shards_.Reserve(
        PartOfRank(generation.state(), member.rank, member.world_size, member.lanes()).bytes());
  }
  parts_.control.SetCheckpointListener(
      [this, done = memory->last_order](const CheckpointPlan& plan) { TakePlan(plan, done); });
}

// `done`: orders up to this number were carried out in earlier generations.
void Saver::TakePlan(const CheckpointPlan& plan, int64_t done) {
  bool trains = true;
  {
    const absl::MutexLock lock(&mu_);
    // First: a rank may only vote for an order whose plan it has taken.
    directories_ = plan.directories;
    if (plan.save.number > done) newest_order_ = std::max(newest_order_, plan.save.number);
    trains = !ending_ || directories_.count(plan.save.number) == 0;
  }
  if (plan.save.number > done && trains) generation_->on_order(plan.save);
  for (const CheckpointPlan::Commit& commit : plan.commits) Commit(commit);
}

void Saver::Leave() {
  if (!generation_.has_value()) return;
  parts_.control.SetCheckpointListener(nullptr);
  BeforeChange();
  generation_.reset();
  const absl::MutexLock lock(&mu_);
  durable_.clear();
  last_durable_ = 0;
  at_end_.reset();
  newest_order_ = answered_order_ = end_order_ = 0;
  ending_ = false;
}

SaveStatus Saver::NewStatus() {
  const absl::MutexLock lock(&mu_);
  SaveStatus save;
  save.generation = member_.generation;
  return save;
}

void Saver::GiveUp(int64_t order, const std::string& why) {
  SaveStatus save = NewStatus();
  save.order = order;
  {
    const absl::MutexLock lock(&mu_);
    answered_order_ = std::max(answered_order_, order);
  }
  Fail(save, SaveFailure::kNotAgreed, why);
}

void Saver::Save(int64_t steps_done, int64_t order, bool must) {
  SaveStatus save = NewStatus();
  save.step = steps_done;
  save.order = order;
  if (must) shards_.WaitUntilFree();
  if (!shards_.IsFree()) {
    save.state = SaveState::kSkipped;
    save.error = "the saves before are still being written";
    PACELINE_LOG(WARNING) << "save skipped step=" << steps_done << ": " << save.error;
    const absl::MutexLock lock(&mu_);
    ++figures_.skipped;
    Tell(save);
    return;
  }
  memory_->last_saved = steps_done;
  memory_->last_order = std::max(memory_->last_order, order);
  {
    // Before the writer can report more about it.
    const absl::MutexLock lock(&mu_);
    figures_.last_blocked_s = 0;
    answered_order_ = std::max(answered_order_, order);
    Tell(save);
  }
  const int64_t bytes = BeginShard(save);
  PACELINE_LOG(INFO) << "save step=" << steps_done << " bytes=" << bytes;
}

int64_t Saver::BeginShard(const SaveStatus& save) {
  const Member& member = generation_->config.member;
  const StatePart part =
      PartOfRank(generation_->state(), member.rank, member.world_size, member.lanes());
  copying_ = true;
  // A person may name a new directory for this save; the job's own was created at the start.
  const bool is_own = JobDirectoryOf(save.order) == parts_.config.output_directory();
  return shards_.Begin(
      DirectoryOf(save), Describe(save.step), part.entries, part.at_once,
      [this, save](const ShardResult& result) { OnDurable(save, result); }, is_own ? 1 : 2);
}

bool Saver::IsAtEnd(const SaveStatus& save) const {
  return at_end_.has_value() && at_end_->reported.step == save.step &&
         at_end_->reported.generation == save.generation;
}

void Saver::Settle(const SaveStatus& save) {
  if (IsAtEnd(save)) at_end_->reported = save;
  Tell(save);
}

void Saver::BeforeChange() {
  if (!std::exchange(copying_, false)) return;
  const Clock::time_point start = Clock::now();
  shards_.BeforeChange();
  CountBlocked(SecondsSince(start));
}

void Saver::CountBlocked(double seconds) {
  if (seconds == 0) return;
  const absl::MutexLock lock(&mu_);
  figures_.blocked_s += seconds;
  figures_.last_blocked_s += seconds;
}

void Saver::OnDurable(const SaveStatus& begun, const ShardResult& result) {
  SaveStatus save = begun;
  save.bytes = result.bytes;
  if (!result.status.ok()) {
    if (MayPass(result.status)) {
      const absl::MutexLock lock(&mu_);
      if (IsAtEnd(save)) {
        at_end_->reported = save;
        at_end_->shard = result.status;
        return;
      }
    }
    return Fail(std::move(save), FailureOf(result.status), std::string(result.status.message()));
  }
  save.state = SaveState::kDurable;
  const absl::MutexLock lock(&mu_);
  ++figures_.saves;
  figures_.bytes += result.bytes;
  figures_.staging_s += result.staging_s;
  figures_.write_s += result.write_s;
  if (save.generation == member_.generation) last_durable_ = save.step;
  if (save.generation == member_.generation && member_.rank == 0) {
    durable_[save.step] = {save};
    // Saves that other ranks could not write are never committed.
    if (durable_.size() > kDurableKept) durable_.erase(durable_.begin());
  }
  Settle(save);
}

void Saver::Commit(const CheckpointPlan::Commit& commit) {
  SaveStatus save;
  {
    const absl::MutexLock lock(&mu_);
    const auto durable = durable_.find(commit.step);
    // The plan may still list shards that were written elsewhere before.
    if (durable == durable_.end() ||
        durable->second.save.order != commit.order.value_or(durable->second.save.order) ||
        std::exchange(durable->second.committing, true)) {
      return;
    }
    save = durable->second.save;
  }
  BeginCommit(save);
}

void Saver::BeginCommit(const SaveStatus& save) {
  shards_.Commit(DirectoryOf(save), [this, save](const absl::Status& status, double seconds) {
    OnCommitted(save, status, seconds);
  });
}

void Saver::OnCommitted(const SaveStatus& begun, const absl::Status& status, double seconds) {
  SaveStatus save = begun;
  if (status.ok()) {
    PACELINE_LOG(INFO) << "checkpoint complete step=" << save.step << " " << DirectoryOf(save);
    save.state = SaveState::kCommitted;
    const absl::MutexLock lock(&mu_);
    ++figures_.commits;
    figures_.committing_s += seconds;
    Settle(save);
  } else {
    if (MayPass(status)) {
      const absl::MutexLock lock(&mu_);
      if (IsAtEnd(save)) {
        at_end_->commit = status;
        return;
      }
    }
    Fail(save, FailureOf(status), std::string(status.message()));
  }
  const absl::MutexLock lock(&mu_);
  if (save.generation == member_.generation) durable_.erase(save.step);
}

void Saver::Tell(const SaveStatus& save) {
  parts_.control.SetSave(save);
  parts_.control.SetCheckpointFigures(figures_);
}

void Saver::Fail(SaveStatus save, SaveFailure failure, std::string why) {
  PACELINE_LOG(ERROR) << "save failed step=" << save.step << " order=" << save.order << ": " << why;
  save.state = SaveState::kFailed;
  save.failure = failure;
  save.error = std::move(why);
  const absl::MutexLock lock(&mu_);
  ++figures_.failures[failure];
  Tell(save);
}

void Saver::SaveAtEnd(int64_t steps_done, int64_t order, bool due) {
  {
    const absl::MutexLock lock(&mu_);
    ending_ = true;
  }
  if ((!due && !parts_.config.checkpoint.at_end) || memory_->last_saved == steps_done) return;
  BeginAtEnd(steps_done, order);
}

void Saver::BeginAtEnd(int64_t steps_done, int64_t order) {
  SaveStatus save = NewStatus();
  save.step = steps_done;
  save.order = order;
  {
    const absl::MutexLock lock(&mu_);
    at_end_ = AtEnd{save, absl::OkStatus(), absl::OkStatus()};
    end_order_ = order;
    // From the previous try, which was made elsewhere.
    durable_.erase(steps_done);
    if (last_durable_ == steps_done) last_durable_ = 0;
  }
  Save(steps_done, order, /*must=*/true);
}

int64_t Saver::OrderElsewhere() {
  const absl::MutexLock lock(&mu_);
  const bool is_new = ending_ && newest_order_ > answered_order_;
  return is_new && directories_.count(newest_order_) > 0 ? newest_order_ : 0;
}

bool Saver::SaveElsewhere(int64_t steps_done, int64_t order, bool saved) {
  {
    const absl::MutexLock lock(&mu_);
    end_order_ = order;
  }
  if (saved && memory_->last_saved == steps_done) {
    GiveUp(order, absl::StrCat("step ", steps_done, " is saved already; what else is written at ",
                               "the end goes to ", JobDirectoryOf(order)));
    return false;
  }
  SaveStatus save = NewStatus();
  save.step = steps_done;
  save.order = order;
  const Member& member = generation_->config.member;
  // From an earlier order for the same directory; no such try is still running.
  std::error_code ignored;
  std::filesystem::remove(
      absl::StrCat(DirectoryOf(save), "/", ShardName(member.rank, member.world_size)), ignored);
  BeginAtEnd(steps_done, order);
  return true;
}

absl::StatusOr<std::string> Saver::DirectoryAtEnd() {
  int64_t order = 0;
  {
    const absl::MutexLock lock(&mu_);
    order = end_order_;
  }
  std::string directory = JobDirectoryOf(order);
  if (directory == parts_.config.output_directory()) return directory;
  const std::vector<std::string>& roots = parts_.config.checkpoint.roots;
  if (!roots.empty()) {
    PACELINE_RETURN_IF_ERROR(CheckRoots(roots, {{"the directory of the save", directory}}));
  }
  PACELINE_RETURN_IF_ERROR(MakeDirectory(directory, /*above=*/1));
  return directory;
}

absl::Status Saver::FinishShard() {
  std::optional<SaveStatus> again;
  {
    const absl::MutexLock lock(&mu_);
    if (at_end_.has_value() && !at_end_->shard.ok()) {
      again = at_end_->reported;
      at_end_->shard = absl::OkStatus();
    }
  }
  if (again.has_value()) {
    shards_.WaitUntilFree();
    BeginShard(*again);
  }
  shards_.Drain();
  const absl::MutexLock lock(&mu_);
  return at_end_.has_value() ? at_end_->shard : absl::OkStatus();
}

bool Saver::IsDurableOnAll() {
  double last = 0;
  {
    const absl::MutexLock lock(&mu_);
    last = static_cast<double>(last_durable_);
  }
  at::Tensor sum =
      at::full({1}, last, at::TensorOptions().dtype(at::kDouble).device(parts_.model.device()));
  generation_->groups.all().Sum(sum);
  return sum.item<double>() == last * generation_->config.member.world_size;
}

absl::Status Saver::FinishCommit() {
  std::optional<SaveStatus> again;
  {
    const absl::MutexLock lock(&mu_);
    if (at_end_.has_value() && !at_end_->commit.ok()) {
      again = at_end_->reported;
      at_end_->commit = absl::OkStatus();
    }
  }
  if (again.has_value()) BeginCommit(*again);
  const auto settled = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return durable_.count(last_durable_) == 0 || parts_.control.stop_requested() ||
           (at_end_.has_value() && !at_end_->commit.ok());
  };
  // The other ranks wait in a collective.
  const absl::Duration patience = std::min(kCommitPatience, parts_.config.startup_timeout / 2);
  const absl::Time deadline = BootNow() + patience;
  const absl::MutexLock lock(&mu_);
  while (!settled()) {
    // A stop request does not wake this mutex, so poll for it.
    mu_.AwaitWithTimeout(absl::Condition(&settled), absl::Milliseconds(100));
    if (BootNow() > deadline) {
      PACELINE_LOG(ERROR) << "the last checkpoint stays incomplete: the controller has not "
                             "answered for "
                          << absl::FormatDuration(patience);
      break;
    }
  }
  return at_end_.has_value() ? at_end_->commit : absl::OkStatus();
}

void Saver::TellHold(int64_t steps_done, const absl::Status& cause, const std::string& what) {
  PACELINE_LOG(WARNING) << "held step=" << steps_done << ": " << what;
  SaveStatus save = NewStatus();
  save.step = steps_done;
  const absl::MutexLock lock(&mu_);
  if (IsAtEnd(save)) save = at_end_->reported;
  save.state = SaveState::kWriting;
  save.failure = FailureOf(cause);
  save.error = what;
  Tell(save);
}

void Saver::TellHoldOver() {
  const absl::MutexLock lock(&mu_);
  if (at_end_.has_value()) Tell(at_end_->reported);
}

Manifest Saver::Describe(int64_t steps_done) const {
  Manifest manifest;
  manifest.paceline_version = kVersion;
  manifest.torch_version = TORCH_VERSION;
  manifest.job_id = parts_.config.id.job.value();
  manifest.generation = generation_->config.member.generation;
  manifest.step = steps_done;
  manifest.ranks = generation_->config.member.world_size;
  manifest.shards = generation_->config.member.shards;
  generation_->describe(&manifest);
  manifest.job_spec = parts_.config.spec_json;
  return manifest;
}

std::string Saver::JobDirectoryOf(int64_t order) const {
  const absl::MutexLock lock(&mu_);
  const auto named = directories_.find(order);
  return named == directories_.end() ? parts_.config.output_directory()
                                     : parts_.config.JobDirectoryIn(named->second);
}

std::string Saver::DirectoryOf(const SaveStatus& save) const {
  return absl::StrCat(JobDirectoryOf(save.order), "/",
                      CheckpointName({save.step, save.generation}));
}

}  // namespace paceline
