#include "worker/trainer/report/figures_to_proto.h"

namespace paceline {
namespace {

v1::MemoryFigures ToProto(const MemoryFigures& memory) {
  v1::MemoryFigures proto;
  proto.set_rss(memory.rss);
  proto.set_rss_peak(memory.rss_peak);
  proto.set_rss_slope(memory.rss_slope);
  if (!memory.device.has_value()) return proto;
  const DeviceMemory& device = *memory.device;
  proto.set_active(device.active);
  proto.set_active_peak(device.active_peak);
  proto.set_reserved(device.reserved);
  proto.set_reserved_peak(device.reserved_peak);
  proto.set_small_pool(device.small_pool);
  proto.set_large_pool(device.large_pool);
  proto.set_capacity(device.capacity);
  proto.set_alloc_retries(device.alloc_retries);
  proto.set_ooms(device.ooms);
  proto.set_small_pool_peak(device.small_pool_peak);
  proto.set_large_pool_peak(device.large_pool_peak);
  return proto;
}

v1::LevelFigures ToProto(const LevelFigures& level) {
  v1::LevelFigures proto;
  proto.set_group_size(level.group_size);
  proto.set_gradients(level.gradients);
  proto.set_count(level.count);
  proto.set_seconds(level.seconds);
  proto.set_bytes(level.bytes);
  return proto;
}

v1::ObjectFigures ToProto(const ObjectFigures& objects) {
  v1::ObjectFigures proto;
  proto.set_fetched_bytes(objects.fetched_bytes);
  proto.set_retries(objects.retries);
  proto.set_cached_reads(objects.cached_reads);
  proto.set_waited_reads(objects.waited_reads);
  proto.set_wait_s(objects.wait_s);
  return proto;
}

v1::SlipstreamMode ToProto(SlipstreamMode mode) {
  switch (mode) {
    case SlipstreamMode::kSync:
      return v1::SLIPSTREAM_SYNC;
    case SlipstreamMode::kDrop:
      return v1::SLIPSTREAM_DROP;
    case SlipstreamMode::kFree:
      return v1::SLIPSTREAM_FREE;
    case SlipstreamMode::kPause:
      return v1::SLIPSTREAM_PAUSE;
  }
  return v1::SLIPSTREAM_UNSPECIFIED;
}

v1::SlipstreamFigures ToProto(const SlipstreamFigures& figures) {
  v1::SlipstreamFigures proto;
  proto.set_mode(ToProto(figures.mode));
  proto.set_rounds(figures.rounds);
  proto.set_contributing_ranks(figures.contributing_ranks);
  proto.set_contributions(figures.contributions);
  proto.set_stale_rounds(figures.stale_rounds);
  proto.set_steps(figures.steps);
  proto.set_sent_updates(figures.sent_updates);
  proto.set_lost_updates(figures.lost_updates);
  proto.set_used_gradients(figures.used_gradients);
  proto.set_dropped_gradients(figures.dropped_gradients);
  proto.set_window_s(figures.window_s);
  proto.set_cap(figures.cap);
  proto.set_cap_wait_s(figures.cap_wait_s);
  proto.set_round_wait_s(figures.round_wait_s);
  proto.set_collective_s(figures.collective_s);
  proto.set_drift(figures.drift);
  proto.set_stretched_rounds(figures.stretched_rounds);
  proto.set_round_collective_s(figures.round_collective_s);
  proto.set_round_copies_s(figures.round_copies_s);
  return proto;
}

v1::FlopsSource ToProto(FlopsSource source) {
  switch (source) {
    case FlopsSource::kUnknown:
      return v1::FLOPS_SOURCE_UNSPECIFIED;
    case FlopsSource::kFormula:
      return v1::FLOPS_FORMULA;
    case FlopsSource::kCounted:
      return v1::FLOPS_COUNTED;
    case FlopsSource::kGiven:
      return v1::FLOPS_GIVEN;
  }
  return v1::FLOPS_SOURCE_UNSPECIFIED;
}

v1::SaveState ToProto(SaveState state) {
  switch (state) {
    case SaveState::kWriting:
      return v1::SAVE_WRITING;
    case SaveState::kDurable:
      return v1::SAVE_DURABLE;
    case SaveState::kCommitted:
      return v1::SAVE_COMMITTED;
    case SaveState::kFailed:
      return v1::SAVE_FAILED;
    case SaveState::kSkipped:
      return v1::SAVE_SKIPPED;
  }
  return v1::SAVE_STATE_UNSPECIFIED;
}

v1::SaveFailure ToProto(SaveFailure failure) {
  switch (failure) {
    case SaveFailure::kNone:
      return v1::SAVE_FAILURE_UNSPECIFIED;
    case SaveFailure::kNoSpace:
      return v1::SAVE_NO_SPACE;
    case SaveFailure::kNoPermission:
      return v1::SAVE_NO_PERMISSION;
    case SaveFailure::kIo:
      return v1::SAVE_IO;
    case SaveFailure::kNotAgreed:
      return v1::SAVE_NOT_AGREED;
    case SaveFailure::kInconsistent:
      return v1::SAVE_INCONSISTENT;
    case SaveFailure::kNan:
      return v1::SAVE_NAN;
  }
  return v1::SAVE_FAILURE_UNSPECIFIED;
}

}  // namespace

v1::EvaluationResult ToProto(const EvaluationResult& result) {
  v1::EvaluationResult proto;
  proto.set_step(result.step);
  if (result.accuracy.has_value()) proto.set_accuracy(*result.accuracy);
  proto.set_loss(result.loss);
  proto.set_samples(result.samples);
  return proto;
}

v1::PlanStatus ToProto(const PlanStatus& status) {
  v1::PlanStatus proto;
  proto.set_prepared_version(status.prepared_version);
  proto.set_active_version(status.active_version);
  proto.set_active_since_step(status.active_since_step);
  proto.set_error(status.error);
  proto.set_failed_version(status.failed_version);
  return proto;
}

v1::MembershipStatus ToProto(const MembershipStatus& status) {
  v1::MembershipStatus proto;
  proto.set_generation(status.generation);
  proto.set_waiting(status.waiting);
  proto.set_error(status.error);
  proto.set_step(status.step);
  proto.set_ready_generation(status.ready_generation);
  proto.set_left_generation(status.left_generation);
  proto.set_can_hand_over(true);
  proto.set_can_keep_copies(true);
  proto.set_can_average_first(true);
  const CopyReport& copies = status.copies;
  if (copies.generation == 0) return proto;
  proto.mutable_copies()->set_generation(copies.generation);
  proto.mutable_copies()->set_copied_step(copies.copied_step);
  proto.mutable_copies()->set_settled_step(copies.settled_step);
  proto.mutable_copies()->set_error(copies.error);
  proto.mutable_copies()->set_steps_lost(copies.steps_lost);
  proto.mutable_copies()->set_failed_step(copies.failed_step);
  return proto;
}

v1::ProfileResult ToProto(const ProfileResult& result) {
  v1::ProfileResult proto;
  proto.set_id(result.id);
  proto.set_trace(result.trace);
  proto.set_memory(result.memory);
  proto.set_first_step(result.first_step);
  proto.set_steps(result.steps);
  proto.set_trace_bytes(result.trace_bytes);
  proto.set_dump_s(result.dump_s);
  proto.set_error(result.error);
  return proto;
}

v1::RankFigures ToProto(const RankFigures& figures) {
  v1::RankFigures proto;
  proto.set_step(figures.step);
  proto.set_steps(figures.steps);
  proto.set_training_s(figures.training_s);
  proto.set_wall_s(figures.wall_s);
  proto.set_loss(figures.loss);
  proto.set_grad_norm(figures.grad_norm);
  proto.set_learning_rate(figures.learning_rate);
  proto.set_samples_per_s(figures.samples_per_s);
  proto.set_tokens_per_s(figures.tokens_per_s);
  if (figures.mfu.has_value()) proto.set_mfu(*figures.mfu);
  if (figures.mfu_wall.has_value()) proto.set_mfu_wall(*figures.mfu_wall);
  proto.set_data_wait_share(figures.data_wait_share);
  *proto.mutable_memory() = ToProto(figures.memory);
  for (const LevelFigures& level : figures.levels) *proto.add_levels() = ToProto(level);
  proto.set_drift(figures.drift);
  proto.set_skipped_steps(figures.skipped_steps);
  if (figures.slipstream.has_value()) *proto.mutable_slipstream() = ToProto(*figures.slipstream);
  for (const ReportedNumber& number : figures.reported) {
    v1::ReportedNumber& added = *proto.add_reported();
    added.set_name(number.name);
    added.set_value(number.value);
    added.set_step(number.step);
  }
  proto.set_flops_per_sample(figures.flops_per_sample);
  proto.set_flops_per_s(figures.flops_per_s);
  proto.set_flops_source(ToProto(figures.flops_source));
  proto.set_peak_flops(figures.peak_flops);
  if (figures.objects.has_value()) *proto.mutable_objects() = ToProto(*figures.objects);
  return proto;
}

v1::Artifact ToProto(const Artifact& artifact) {
  v1::Artifact proto;
  proto.set_name(artifact.name);
  proto.set_path(artifact.path);
  proto.set_directory(artifact.directory);
  proto.set_bytes(artifact.bytes);
  proto.set_sha256(artifact.sha256);
  proto.set_step(artifact.step);
  proto.set_time_us(artifact.time_us);
  proto.set_error(artifact.error);
  return proto;
}

v1::SaveStatus ToProto(const SaveStatus& status) {
  v1::SaveStatus proto;
  proto.set_step(status.step);
  proto.set_order(status.order);
  proto.set_state(ToProto(status.state));
  proto.set_bytes(status.bytes);
  proto.set_failure(ToProto(status.failure));
  proto.set_error(status.error);
  proto.set_generation(status.generation);
  return proto;
}

v1::CheckpointFigures ToProto(const CheckpointFigures& figures) {
  v1::CheckpointFigures proto;
  proto.set_saves(figures.saves);
  proto.set_bytes(figures.bytes);
  proto.set_skipped(figures.skipped);
  for (const auto& [failure, count] : figures.failures) {
    (*proto.mutable_failures())[ToProto(failure)] = count;
  }
  proto.set_staging_s(figures.staging_s);
  proto.set_blocked_s(figures.blocked_s);
  proto.set_write_s(figures.write_s);
  proto.set_commits(figures.commits);
  proto.set_committing_s(figures.committing_s);
  proto.set_last_blocked_s(figures.last_blocked_s);
  proto.set_restored_step(figures.restored_step);
  proto.set_restored_bytes(figures.restored_bytes);
  proto.set_restore_s(figures.restore_s);
  return proto;
}

}  // namespace paceline
