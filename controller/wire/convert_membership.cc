#include "controller/wire/convert_membership.h"

#include <utility>
#include <vector>

#include "controller/core/job/plan.h"
#include "controller/core/recovery/copies.h"
#include "controller/core/recovery/copy_trouble.h"
#include "controller/wire/convert.h"
#include "controller/wire/convert_plan.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace paceline {
namespace {

v1::TrainerRecord EncodeTrainer(const RankState& trainer) {
  v1::TrainerRecord record;
  record.set_store_address(trainer.report.store_address);
  record.set_rack(trainer.slot.rack);
  record.set_island(trainer.slot.island);
  record.set_seat(trainer.seat);
  for (const auto& [generation, seat] : trainer.seats) {
    v1::TrainerRecord::Seat& added = *record.add_seats();
    added.set_generation(generation.value());
    added.set_seat(seat);
  }
  if (trainer.stop.has_value()) {
    record.set_stop_grace_s(absl::ToDoubleSeconds(trainer.stop->grace));
  }
  record.set_hangs(trainer.hangs);
  record.set_lost(trainer.lost);
  record.set_counted(trainer.counted);
  record.set_hands_over(trainer.hands_over);
  record.set_own_copy(trainer.own_copy + 1);
  record.set_ward_copy(trainer.ward_copy + 1);
  return record;
}

RankState DecodeTrainer(const Job& job, const v1::Rank& shown) {
  RankState trainer;
  trainer.slot = {NodeName(shown.node()), shown.slot()};
  // An older version stored no id: use that of the generation.
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
  trainer->slot.rack = record.rack();
  trainer->slot.island = record.island();
  trainer->seat = record.seat();
  for (const v1::TrainerRecord::Seat& seat : record.seats()) {
    trainer->seats[Generation(seat.generation())] = seat.seat();
  }
  if (record.has_stop_grace_s()) {
    trainer->stop = StopOrder{absl::Seconds(record.stop_grace_s()), absl::InfiniteFuture()};
  }
  trainer->hangs = record.hangs();
  trainer->lost = record.lost();
  trainer->counted = record.counted();
  trainer->hands_over = record.hands_over();
  trainer->own_copy = record.own_copy() - 1;
  trainer->ward_copy = record.ward_copy() - 1;
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
  change.averages_first = shown.averages_first();
  change.restored_step = shown.restored_step();
  change.steps_lost = shown.steps_lost();
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
  record.set_troubled(recovery.troubled.value());
  for (const int replica : recovery.mending) record.add_mending(replica);
  const JobCopies& copies = recovery.copies;
  if (copies.step > 0 || copies.settled_step > 0 || copies.trouble != CopyTrouble::kNone) {
    v1::RecoveryRecord::Copies& stored = *record.mutable_copies();
    stored.set_step(copies.step);
    stored.set_generation(copies.generation.value());
    if (copies.step > 0) *stored.mutable_time() = ToProto(copies.time);
    stored.set_settled_step(copies.settled_step);
    stored.set_restoring(copies.restoring);
    stored.set_trouble(static_cast<int32_t>(copies.trouble));
  }
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
  recovery->troubled = Generation(record.troubled());
  recovery->mending.insert(record.mending().begin(), record.mending().end());
  if (!record.has_copies()) return;
  JobCopies& copies = recovery->copies;
  copies.step = record.copies().step();
  copies.generation = Generation(record.copies().generation());
  if (copies.step > 0) copies.time = FromProto(record.copies().time());
  copies.settled_step = record.copies().settled_step();
  copies.restoring = record.copies().restoring();
  copies.trouble = static_cast<CopyTrouble>(record.copies().trouble());
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
  if (membership.shards > 1) out.set_shards(membership.shards);
  if (membership.hand_over != Rank(-1)) out.set_hand_over_rank(membership.hand_over.value());
  out.set_averages_first(membership.averages_first);
  if (membership.copies.has_value()) {
    const MemberCopies& copies = *membership.copies;
    out.mutable_copies()->set_seat(copies.seat);
    out.mutable_copies()->set_buddy_rank(copies.buddy);
    out.mutable_copies()->set_ward_rank(copies.ward);
    out.mutable_copies()->set_complete_step(copies.complete_step);
    out.mutable_copies()->set_complete_generation(copies.complete_generation.value());
    out.mutable_copies()->set_settled_step(copies.settled_step);
    out.mutable_copies()->set_restore(copies.restore);
  }
  if (membership.saved_step.has_value()) out.set_saved_step(*membership.saved_step);
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
  out.set_averages_first(change.averages_first);
  out.set_restored_step(change.restored_step);
  out.set_steps_lost(change.steps_lost);
  return out;
}

v1::JobCopies CopiesToProto(const Job& job) {
  const JobCopies& copies = job.recovery.copies;
  v1::JobCopies out;
  if (IsProtected(job)) {
    out.set_step(copies.step);
    *out.mutable_time() = ToProto(copies.time);
  }
  out.set_protection(DescribeProtection(job));
  out.set_trouble(DescribeCopyTrouble(job));
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
  out.can_hand_over = status.can_hand_over();
  out.can_keep_copies = status.can_keep_copies();
  out.can_average_first = status.can_average_first();
  const v1::CopyStatus& copies = status.copies();
  out.copies = {Generation(copies.generation()),
                copies.copied_step(),
                copies.settled_step(),
                copies.error(),
                copies.steps_lost(),
                copies.failed_step()};
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
  for (const Slot& home : job.homes) {
    v1::HomeRecord& added = *record->add_homes();
    added.set_node(home.node.value());
    added.set_slot(home.number);
    added.set_rack(home.rack);
    added.set_island(home.island);
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
    job->homes.push_back({NodeName(home.node()), home.slot(), home.rack(), home.island()});
  }
  for (const v1::MembershipChange& change : record.job().membership_changes()) {
    job->recovery.history.push_back(DecodeChange(change));
  }
  Decode(record.recovery(), &job->recovery);
  RestoreBuddies(*job);
  const JobStrategy strategy = FromProto(record.job().plan().strategy());
  job->plan.ladder = strategy.ladder;
  job->plan.slipstream = strategy.slipstream;
  job->plan.needs = NeedsOf(record.job().plan().strategy());
  PlaceByPlan(*job);
  if (record.has_recovery()) return;
  // Not stored by an older version.
  job->recovery.started = job->generation;
  job->recovery.next_spare = job->request.ranks;
  for (size_t r = 0; r < job->ranks.size(); ++r) {
    const int i = static_cast<int>(r);
    if (i < record.store_addresses_size()) {
      job->ranks[r].report.store_address = record.store_addresses(i);
    }
    if (i < record.racks_size()) job->ranks[r].slot.rack = record.racks(i);
    job->homes.push_back(job->ranks[r].slot);
  }
}

}  // namespace paceline
