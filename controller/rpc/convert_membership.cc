#include "controller/rpc/convert_membership.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "controller/rpc/convert.h"
#include "controller/rpc/convert_strategy.h"

namespace paceline {
namespace {

// Also of what a version without left unset.
absl::Duration Timeout(double seconds, absl::Duration otherwise) {
  return std::isfinite(seconds) && seconds > 0 ? absl::Seconds(seconds) : otherwise;
}

v1::TrainerRecord EncodeTrainer(const RankState& trainer) {
  v1::TrainerRecord record;
  record.set_store_address(trainer.report.store_address);
  record.set_rack(trainer.place.rack);
  record.set_seat(trainer.seat);
  if (trainer.stop.has_value()) {
    record.set_stop_grace_s(absl::ToDoubleSeconds(trainer.stop->grace));
  }
  record.set_hangs(trainer.hangs);
  record.set_lost(trainer.lost);
  record.set_counted(trainer.counted);
  return record;
}

RankState DecodeTrainer(const Job& job, const v1::Rank& shown) {
  RankState trainer;
  trainer.place = {NodeName(shown.node()), shown.place()};
  // Of a version without: that of its generation.
  trainer.report.id = shown.started_generation() > 0
                          ? TrainerId{job.request.id, Generation(shown.started_generation()),
                                      Rank(shown.started_rank())}
                          : TrainerId{job.request.id, job.generation, Rank(shown.rank())};
  trainer.seat = shown.rank();
  trainer.report.state = FromProto(shown.state());
  trainer.report.pid = shown.pid();
  trainer.report.progress = FromProto(shown.progress());
  trainer.report.plan = FromProto(shown.plan());
  if (shown.has_figures()) trainer.report.figures = FromProto(shown.figures());
  if (shown.has_profile()) trainer.report.profile = FromProto(shown.profile());
  if (shown.has_exit()) trainer.report.exit = FromProto(shown.exit());
  trainer.report.membership = FromProto(shown.membership());
  return trainer;
}

void Complete(const v1::TrainerRecord& record, RankState* trainer) {
  trainer->report.store_address = record.store_address();
  trainer->place.rack = record.rack();
  trainer->seat = record.seat();
  if (record.has_stop_grace_s()) {
    trainer->stop = StopOrder{absl::Seconds(record.stop_grace_s()), absl::InfiniteFuture()};
  }
  trainer->hangs = record.hangs();
  trainer->lost = record.lost();
  trainer->counted = record.counted();
}

std::vector<RankState> DecodeTrainers(
    const Job& job, const google::protobuf::RepeatedPtrField<v1::Rank>& shown,
    const google::protobuf::RepeatedPtrField<v1::TrainerRecord>& records) {
  std::vector<RankState> trainers;
  for (int i = 0; i < shown.size(); ++i) {
    trainers.push_back(DecodeTrainer(job, shown[i]));
    if (i < records.size()) Complete(records[i], &trainers.back());
  }
  return trainers;
}

MembershipChange DecodeChange(const v1::MembershipChange& shown) {
  MembershipChange change;
  change.generation = Generation(shown.generation());
  change.reason = shown.reason();
  change.begun = FromProto(shown.begin_time());
  if (shown.has_end_time()) change.ended = FromProto(shown.end_time());
  change.ranks_before = shown.ranks_before();
  change.ranks_after = shown.ranks_after();
  change.step = shown.step();
  change.planned = shown.planned();
  return change;
}

v1::RecoveryRecord Encode(const JobRecovery& recovery) {
  v1::RecoveryRecord record;
  record.set_started(recovery.started.value());
  record.set_next_spare(recovery.next_spare);
  record.set_batch_per_rank(recovery.batch.samples);
  record.set_accumulation_steps(recovery.batch.passes);
  for (const MemberFailure& failure : recovery.failures) {
    v1::RecoveryRecord::Failure& added = *record.add_failures();
    added.set_seat(failure.seat);
    added.set_step(failure.step);
    added.set_own_error(failure.own_error);
    *added.mutable_time() = ToProto(failure.wall);
  }
  for (const auto& [node, why] : recovery.vacate) (*record.mutable_vacate())[node.value()] = why;
  for (const auto& [node, why] : recovery.avoid) (*record.mutable_avoid())[node.value()] = why;
  record.set_changes(recovery.changes);
  record.set_hopeless(recovery.hopeless);
  return record;
}

void Decode(const v1::RecoveryRecord& record, JobRecovery* recovery) {
  recovery->started = Generation(record.started());
  recovery->next_spare = record.next_spare();
  recovery->batch = {record.batch_per_rank(), record.accumulation_steps()};
  for (const v1::RecoveryRecord::Failure& failure : record.failures()) {
    MemberFailure& added = recovery->failures.emplace_back();
    added.seat = failure.seat();
    added.step = failure.step();
    added.own_error = failure.own_error();
    added.wall = FromProto(failure.time());
  }
  for (const auto& [node, why] : record.vacate()) recovery->vacate[NodeName(node)] = why;
  for (const auto& [node, why] : record.avoid()) recovery->avoid[NodeName(node)] = why;
  recovery->changes = record.changes();
  recovery->hopeless = record.hopeless();
}

}  // namespace

v1::Membership ToProto(const Membership& membership) {
  v1::Membership out;
  out.set_generation(membership.generation.value());
  out.set_rank(membership.rank.value());
  out.set_world_size(membership.world_size);
  out.set_store_address(membership.store_address);
  out.set_planned(membership.planned);
  out.set_batch_per_rank(membership.batch.samples);
  out.set_accumulation_steps(membership.batch.passes);
  return out;
}

v1::MembershipChange ToProto(const MembershipChange& change) {
  v1::MembershipChange out;
  out.set_generation(change.generation.value());
  out.set_reason(change.reason);
  *out.mutable_begin_time() = ToProto(change.begun);
  if (change.ended != absl::InfinitePast()) *out.mutable_end_time() = ToProto(change.ended);
  out.set_ranks_before(change.ranks_before);
  out.set_ranks_after(change.ranks_after);
  out.set_step(change.step);
  out.set_planned(change.planned);
  return out;
}

MembershipStatus FromProto(const v1::MembershipStatus& status) {
  MembershipStatus out;
  out.generation = Generation(status.generation());
  out.waiting = status.waiting();
  out.error = status.error();
  out.step = status.step();
  out.ready = Generation(status.ready_generation());
  out.left = Generation(status.left_generation());
  return out;
}

RecoveryPolicy RecoveryOf(const v1::JobSpec& spec) {
  const v1::Recovery& recovery = spec.recovery();
  RecoveryPolicy out;
  out.max_failures = recovery.max_failures();
  out.window = Timeout(recovery.window_s(), out.window);
  out.min_ranks = recovery.min_ranks();
  if (recovery.batch() == v1::KEEP_RANK_BATCH) out.rule = BatchRule::kKeepRank;
  out.batch = {std::max(1, spec.batch_per_rank()), std::max(1, spec.accumulation_steps())};
  return out;
}

JobTimeouts TimeoutsOf(const v1::JobSpec& spec) {
  JobTimeouts out;
  out.stall_warning = Timeout(spec.stall_warning_s(), out.stall_warning);
  out.hang = Timeout(spec.hang_timeout_s(), out.hang);
  out.collective = Timeout(spec.collective_timeout_s(), out.collective);
  out.startup = Timeout(spec.startup_timeout_s(), out.startup);
  out.give_up = Timeout(spec.give_up_s(), out.give_up);
  return out;
}

void EncodeMembership(const Job& job, v1::JobRecord* record) {
  for (const RankState& member : job.ranks) *record->add_members() = EncodeTrainer(member);
  for (const RankState& spare : job.spares) *record->add_spares() = EncodeTrainer(spare);
  for (const RankState& trainer : job.leaving) {
    v1::TrainerRecord& added = *record->add_leaving();
    added = EncodeTrainer(trainer);
    *added.mutable_trainer() = ToProto(-1, trainer);
  }
  for (const Place& home : job.homes) {
    v1::HomeRecord& added = *record->add_homes();
    added.set_node(home.node.value());
    added.set_place(home.number);
    added.set_rack(home.rack);
  }
  *record->mutable_recovery() = Encode(job.recovery);
}

void DecodeMembership(const v1::JobRecord& record, Job* job) {
  job->ranks = DecodeTrainers(*job, record.job().ranks(), record.members());
  job->spares = DecodeTrainers(*job, record.job().spares(), record.spares());
  for (const v1::TrainerRecord& stored : record.leaving()) {
    job->leaving.push_back(DecodeTrainer(*job, stored.trainer()));
    Complete(stored, &job->leaving.back());
  }
  for (const v1::HomeRecord& home : record.homes()) {
    job->homes.push_back({NodeName(home.node()), home.place(), home.rack()});
  }
  for (const v1::MembershipChange& change : record.job().membership_changes()) {
    job->recovery.history.push_back(DecodeChange(change));
  }
  Decode(record.recovery(), &job->recovery);
  const JobStrategy strategy = FromProto(record.job().plan().strategy());
  job->plan.ladder = strategy.ladder;
  job->plan.slipstream = strategy.slipstream;
  if (record.has_recovery()) return;
  // Of a version without.
  job->recovery.started = job->generation;
  job->recovery.next_spare = job->request.ranks;
  for (size_t r = 0; r < job->ranks.size(); ++r) {
    const int i = static_cast<int>(r);
    if (i < record.store_addresses_size()) {
      job->ranks[r].report.store_address = record.store_addresses(i);
    }
    if (i < record.racks_size()) job->ranks[r].place.rack = record.racks(i);
    job->homes.push_back(job->ranks[r].place);
  }
}

}  // namespace paceline
