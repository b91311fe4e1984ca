#include "controller/wire/convert_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/checkpoint/saving.h"
#include "controller/core/recovery/membership.h"
#include "controller/wire/convert.h"

namespace paceline {
namespace {

// Core's states have the wire's numbers without UNSPECIFIED.
v1::SaveState ToProto(SaveState state) {
  return static_cast<v1::SaveState>(static_cast<int>(state) + 1);
}

SaveState FromProto(v1::SaveState state) {
  if (state <= v1::SAVE_STATE_UNSPECIFIED || state > v1::SAVE_SKIPPED) return SaveState::kWriting;
  return static_cast<SaveState>(state - 1);
}

CheckpointState FromProto(v1::CheckpointState state) {
  if (state <= v1::CHECKPOINT_STATE_UNSPECIFIED || state > v1::CHECKPOINT_DELETING) {
    return CheckpointState::kComplete;
  }
  return static_cast<CheckpointState>(state - 1);
}

SaveOrder::State FromProto(v1::SaveOrderStatus::State state) {
  if (state <= v1::SaveOrderStatus::STATE_UNSPECIFIED || state > v1::SaveOrderStatus::FAILED) {
    return SaveOrder::State::kFailed;
  }
  return static_cast<SaveOrder::State>(state - 1);
}

v1::SaveOrderStatus ToProto(const SaveOrder& order, const std::string& directory) {
  v1::SaveOrderStatus out;
  out.set_number(order.number);
  out.set_state(static_cast<v1::SaveOrderStatus::State>(static_cast<int>(order.state) + 1));
  out.set_step(order.step);
  out.set_error(order.error);
  out.set_reason(order.reason);
  out.set_directory(directory);
  return out;
}

void AddDirectories(const JobCheckpoints& checkpoints,
                    google::protobuf::RepeatedPtrField<v1::SaveDirectory>* out) {
  for (const auto& [order, directory] : checkpoints.directories) {
    v1::SaveDirectory& added = *out->Add();
    added.set_order(order);
    added.set_directory(directory);
  }
}

// Also handles values from a broken sender.
absl::Duration Seconds(double seconds) {
  return std::isfinite(seconds) && seconds > 0 ? absl::Seconds(seconds) : absl::ZeroDuration();
}

absl::Time Time(bool has, const google::protobuf::Timestamp& time) {
  return has ? paceline::FromProto(time) : absl::InfiniteFuture();
}

CheckpointTask FromProto(const v1::CheckpointTask& task) {
  CheckpointTask out;
  if (task.kind() == v1::CheckpointTask::REMOVE) out.kind = CheckpointTask::Kind::kRemove;
  out.directory = task.directory();
  out.generation = Generation(task.generation());
  out.incomplete_only = task.incomplete_only();
  out.must_exist = task.must_exist();
  return out;
}

FoundCheckpoint FromProto(const v1::FoundCheckpoint& found) {
  FoundCheckpoint out;
  out.key = {found.step(), found.generation()};
  out.bytes = found.bytes();
  out.ranks = found.ranks();
  out.created = paceline::FromProto(found.create_time());
  return out;
}

v1::SaveRecord EncodeSave(const Save& save) {
  v1::SaveRecord out;
  out.set_step(save.step);
  out.set_order(save.order);
  out.mutable_earlier_orders()->Assign(save.earlier.begin(), save.earlier.end());
  for (const auto& part : save.parts) {
    v1::SaveRecord::Part& added = *out.add_parts();
    if (!part.has_value()) continue;
    added.set_state(ToProto(part->state));
    added.set_bytes(part->bytes);
  }
  out.set_complete(save.outcome == Save::Outcome::kComplete);
  out.set_failed(save.outcome == Save::Outcome::kFailed);
  out.set_unknown(save.outcome == Save::Outcome::kUnknown);
  return out;
}

Save DecodeSave(const v1::SaveRecord& record) {
  Save save;
  save.step = record.step();
  save.order = record.order();
  save.earlier.assign(record.earlier_orders().begin(), record.earlier_orders().end());
  for (const v1::SaveRecord::Part& part : record.parts()) {
    save.parts.emplace_back();
    if (part.state() == v1::SAVE_STATE_UNSPECIFIED) continue;
    save.parts.back() = Save::Part{FromProto(part.state()), part.bytes()};
  }
  if (record.complete()) save.outcome = Save::Outcome::kComplete;
  if (record.failed()) save.outcome = Save::Outcome::kFailed;
  if (record.unknown()) save.outcome = Save::Outcome::kUnknown;
  return save;
}

Checkpoint FromProto(const v1::Checkpoint& stored) {
  Checkpoint out;
  out.key = {stored.step(), stored.generation()};
  out.state = FromProto(stored.state());
  out.reason = stored.reason();
  out.bytes = stored.bytes();
  out.ranks = stored.ranks();
  out.created = paceline::FromProto(stored.create_time());
  out.pinned = stored.pinned();
  out.base = stored.saved_to();
  return out;
}

static_assert(static_cast<int>(SaveState::kSkipped) + 1 == v1::SAVE_SKIPPED);
static_assert(static_cast<int>(SaveFailure::kNan) == v1::SAVE_NAN);
static_assert(static_cast<int>(CheckpointState::kDeleting) + 1 == v1::CHECKPOINT_DELETING);
static_assert(static_cast<int>(SaveOrder::State::kFailed) + 1 == v1::SaveOrderStatus::FAILED);

}  // namespace

v1::Checkpoint ToProto(const Job& job, const Checkpoint& checkpoint) {
  v1::Checkpoint out;
  out.set_job_id(job.request.id.value());
  out.set_job_name(job.request.name);
  out.set_step(checkpoint.key.step);
  out.set_generation(checkpoint.key.generation);
  out.set_state(static_cast<v1::CheckpointState>(static_cast<int>(checkpoint.state) + 1));
  out.set_reason(checkpoint.reason);
  out.set_directory(DirectoryOf(job, checkpoint));
  out.set_bytes(checkpoint.bytes);
  out.set_ranks(checkpoint.ranks);
  *out.mutable_create_time() = ToProto(checkpoint.created);
  out.set_pinned(checkpoint.pinned);
  out.set_saved_to(checkpoint.base);
  return out;
}

v1::JobCheckpoints SummarizeCheckpoints(const Job& job) {
  const JobCheckpoints& checkpoints = job.checkpoints;
  v1::JobCheckpoints out;
  for (const Checkpoint& checkpoint : checkpoints.records) {
    if (checkpoint.state != CheckpointState::kComplete) continue;
    out.set_complete(out.complete() + 1);
    out.set_bytes(out.bytes() + checkpoint.bytes);
  }
  if (const Checkpoint* newest = NewestComplete(job); newest != nullptr) {
    out.set_newest_step(newest->key.step);
    *out.mutable_newest_time() = ToProto(newest->created);
  }
  for (const int64_t step : StepsUnderWay(job)) out.add_in_progress(step);
  out.set_committed(checkpoints.committed);
  for (const auto& [cause, count] : checkpoints.failed) out.set_failed(out.failed() + count);
  out.set_skipped(checkpoints.skipped);
  out.set_last_error(checkpoints.last_error);
  if (const auto& order = checkpoints.order; order.has_value()) {
    *out.mutable_order() = ToProto(*order, BaseOf(job, order->number));
  }
  if (NextSaveDeadline(job) != absl::InfiniteFuture()) {
    *out.mutable_next_time() = ToProto(checkpoints.next_save_wall);
  }
  out.set_interval_s(absl::ToDoubleSeconds(checkpoints.interval == absl::ZeroDuration()
                                               ? job.request.checkpoints.every
                                               : checkpoints.interval));
  out.set_blocked_s(absl::ToDoubleSeconds(checkpoints.blocked));
  out.set_durable_s(absl::ToDoubleSeconds(checkpoints.durable));
  return out;
}

v1::CheckpointPlan CheckpointPlanFor(const Job& job, Rank rank) {
  v1::CheckpointPlan out;
  const auto& order = job.checkpoints.order;
  // While the membership changes, the ranks might answer for either generation.
  if (order.has_value() && order->generation == job.generation && rank != Rank(-1) &&
      ChangeUnderWay(job) == nullptr) {
    out.mutable_save()->set_number(order->number);
    out.mutable_save()->set_now(order->now);
  }
  AddDirectories(job.checkpoints, out.mutable_directories());
  if (rank == Rank(0)) {
    for (const int64_t step : CommitSteps(job)) {
      out.add_commit_steps(step);
      out.add_commit_orders(OrderOfSave(job, step));
    }
  }
  return out;
}

v1::CheckpointTask ToProto(const CheckpointTask& task) {
  v1::CheckpointTask out;
  out.set_kind(task.kind == CheckpointTask::Kind::kRemove ? v1::CheckpointTask::REMOVE
                                                          : v1::CheckpointTask::SETTLE);
  out.set_directory(task.directory);
  out.set_generation(task.generation.value());
  out.set_incomplete_only(task.incomplete_only);
  out.set_must_exist(task.must_exist);
  return out;
}

CheckpointPolicy FromProto(const v1::CheckpointPolicy& policy) {
  CheckpointPolicy out;
  out.directory = policy.directory();
  out.every = Seconds(policy.every_s());
  out.auto_interval = policy.auto_interval();
  if (policy.has_keep_latest()) out.keep_latest = policy.keep_latest();
  out.keep_every = policy.keep_every();
  out.previous_on_damage = policy.on_damage() == v1::ON_DAMAGE_PREVIOUS;
  return out;
}

std::vector<SaveStatus> FromProto(const google::protobuf::RepeatedPtrField<v1::SaveStatus>& saves) {
  std::vector<SaveStatus> out;
  const int first = std::max(0, saves.size() - static_cast<int>(kMaxSavesReported));
  for (int i = first; i < saves.size(); ++i) {
    const v1::SaveStatus& save = saves[i];
    SaveStatus& added = out.emplace_back();
    added.step = save.step();
    added.order = save.order();
    added.state = FromProto(save.state());
    added.bytes = save.bytes();
    added.failure = v1::SaveFailure_IsValid(save.failure())
                        ? static_cast<SaveFailure>(save.failure())
                        : SaveFailure::kIo;
    added.error = save.error();
    added.generation = Generation(save.generation());
  }
  return out;
}

absl::Duration BlockedTime(const v1::CheckpointFigures& figures) {
  return Seconds(figures.last_blocked_s());
}

std::vector<CheckpointTaskResult> TaskResults(const v1::NodeReport& report) {
  std::vector<CheckpointTaskResult> out;
  for (const v1::CheckpointTaskResult& result : report.task_results()) {
    CheckpointTaskResult& added = out.emplace_back();
    added.task = FromProto(result.task());
    added.error = result.error();
    for (const v1::FoundCheckpoint& found : result.found()) {
      if (found.step() > 0 && found.generation() > 0) added.found.push_back(FromProto(found));
    }
  }
  return out;
}

v1::SavingRecord EncodeSaving(const JobCheckpoints& checkpoints) {
  v1::SavingRecord out;
  for (const Save& save : checkpoints.saves) *out.add_saves() = EncodeSave(save);
  out.set_forgotten_step(checkpoints.forgotten_step);
  for (const Remnant& remnant : checkpoints.remnants) {
    v1::CheckpointKeyRecord& added = *out.add_remnants();
    added.set_step(remnant.key.step);
    added.set_generation(remnant.key.generation);
    added.set_saved_to(remnant.base);
  }
  AddDirectories(checkpoints, out.mutable_directories());
  if (checkpoints.settlement.has_value()) {
    out.set_settle_up_to(checkpoints.settlement->up_to.value());
  }
  if (checkpoints.order.has_value()) {
    out.set_order_generation(checkpoints.order->generation.value());
    out.set_order_now(checkpoints.order->now);
  }
  if (checkpoints.stop_after.has_value()) {
    out.set_stop_reason(checkpoints.stop_after->reason);
    out.set_stop_grace_s(absl::ToDoubleSeconds(checkpoints.stop_after->grace));
    out.set_stop_requeue(checkpoints.stop_after->requeue);
    out.set_stop_leaves(checkpoints.stop_after->leaves.value());
  }
  for (const auto& [cause, count] : checkpoints.failed) {
    (*out.mutable_failed())[static_cast<int>(cause)] = count;
  }
  out.set_failures(checkpoints.failures);
  out.set_node_s(absl::ToDoubleSeconds(checkpoints.node_time));
  if (checkpoints.next_save_wall != absl::InfiniteFuture()) {
    *out.mutable_next_time() = ToProto(checkpoints.next_save_wall);
  }
  return out;
}

JobCheckpoints DecodeCheckpoints(const v1::JobRecord& record) {
  const v1::JobCheckpoints& shown = record.job().checkpoints();
  const v1::SavingRecord& saving = record.saving();
  JobCheckpoints out;
  for (const v1::Checkpoint& checkpoint : record.checkpoints()) {
    out.records.push_back(FromProto(checkpoint));
  }
  for (const v1::SaveRecord& save : saving.saves()) out.saves.push_back(DecodeSave(save));
  out.forgotten_step = saving.forgotten_step();
  for (const v1::CheckpointKeyRecord& key : saving.remnants()) {
    out.remnants.push_back({{key.step(), key.generation()}, key.saved_to()});
  }
  for (const v1::SaveDirectory& named : saving.directories()) {
    out.directories[named.order()] = named.directory();
  }
  if (saving.has_settle_up_to()) out.settlement = Settlement{Generation(saving.settle_up_to()), ""};
  if (shown.has_order()) {
    const v1::SaveOrderStatus& order = shown.order();
    out.order = SaveOrder{order.number(),
                          Generation(saving.order_generation()),
                          saving.order_now(),
                          order.reason(),
                          FromProto(order.state()),
                          order.step(),
                          order.error()};
  }
  if (saving.has_stop_reason()) {
    out.stop_after =
        StopAfterSave{saving.stop_reason(), Seconds(saving.stop_grace_s()), absl::InfiniteFuture(),
                      saving.stop_requeue(), NodeName(saving.stop_leaves())};
  }
  out.committed = shown.committed();
  for (const auto& [cause, count] : saving.failed()) {
    if (v1::SaveFailure_IsValid(cause)) out.failed[static_cast<SaveFailure>(cause)] = count;
  }
  out.skipped = shown.skipped();
  out.last_error = shown.last_error();
  out.blocked = Seconds(shown.blocked_s());
  out.durable = Seconds(shown.durable_s());
  out.interval = Seconds(shown.interval_s());
  out.failures = saving.failures();
  out.node_time = Seconds(saving.node_s());
  out.next_save_wall = Time(saving.has_next_time(), saving.next_time());
  return out;
}

}  // namespace paceline
