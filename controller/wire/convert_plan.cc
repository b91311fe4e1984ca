#include "controller/wire/convert_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/job_spec/job_spec.h"
#include "controller/core/schedule/placement_policy.h"
#include "controller/wire/convert.h"
#include "controller/wire/convert_checkpoint.h"

namespace paceline {
namespace {

LadderScope ScopeOf(v1::Scope scope) {
  switch (scope) {
    case v1::SCOPE_NODE:
      return LadderScope::kNode;
    case v1::SCOPE_RACK:
      return LadderScope::kRack;
    case v1::SCOPE_ALL:
      return LadderScope::kAll;
    default:
      return LadderScope::kSize;
  }
}

v1::Scope WireScope(LadderScope scope) {
  switch (scope) {
    case LadderScope::kNode:
      return v1::SCOPE_NODE;
    case LadderScope::kRack:
      return v1::SCOPE_RACK;
    case LadderScope::kAll:
      return v1::SCOPE_ALL;
    case LadderScope::kSize:
      break;
  }
  return v1::SCOPE_UNSPECIFIED;
}

// Core has the wire's values in another order.
SlipstreamMode ModeOf(v1::SlipstreamMode mode) {
  switch (mode) {
    case v1::SLIPSTREAM_DROP:
      return SlipstreamMode::kDrop;
    case v1::SLIPSTREAM_FREE:
      return SlipstreamMode::kFree;
    case v1::SLIPSTREAM_PAUSE:
      return SlipstreamMode::kPause;
    default:
      return SlipstreamMode::kSync;
  }
}

v1::SlipstreamMode WireMode(SlipstreamMode mode) {
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

// `otherwise` also replaces values that an older version left unset.
absl::Duration Timeout(double seconds, absl::Duration otherwise) {
  return std::isfinite(seconds) && seconds > 0 ? absl::Seconds(seconds) : otherwise;
}

PlacementPolicy PlacementOf(const v1::JobSpec& spec) {
  const v1::PlacementPolicy& placement = spec.placement();
  PlacementPolicy policy;
  policy.labels.insert(placement.labels().begin(), placement.labels().end());
  for (const std::string& node : placement.nodes()) policy.nodes.emplace_back(node);
  for (const std::string& node : placement.exclude_nodes()) policy.exclude_nodes.emplace_back(node);
  policy.tolerate.assign(placement.tolerate().begin(), placement.tolerate().end());
  policy.same = placement.same();
  policy.ranks_per_node = placement.ranks_per_node();
  if (placement.replica() == v1::REPLICA_PLACEMENT_REQUIRE) {
    policy.replica = ReplicaPlacement::kRequire;
  }
  if (!spec.command().empty()) policy.labels[kCommandsLabel] = kTakesCommands;
  if (spec.has_code()) policy.labels[kCodeLabel] = kTakesCode;
  if (spec.session()) policy.labels[kSessionsLabel] = kTakesSessions;
  return policy;
}

std::optional<CommandPolicy> CommandOf(const v1::JobSpec& spec) {
  if (spec.command().empty()) return std::nullopt;
  return CommandPolicy{spec.watch(), absl::Seconds(spec.stop_grace_s()), spec.code().sha256(),
                       spec.session()};
}

// A command need not say how many steps it makes.
int64_t StepsOf(const v1::JobSpec& spec) {
  if (!spec.command().empty() && spec.steps() == 0) return kUnknownSteps;
  return spec.steps();
}

// A number that makes no whole replicas has no meaning.
int ShardsOf(const v1::JobSpec& spec) {
  const int shards = std::max(1, spec.shards());
  return spec.ranks() % shards == 0 ? shards : 1;
}

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

JobStrategy FromProto(const v1::Strategy& strategy) {
  JobStrategy out;
  out.has_ladder = strategy.has_hsgd() || strategy.has_local_sgd();
  out.one_level = strategy.has_local_sgd();
  if (strategy.has_local_sgd()) {
    out.ladder = {{strategy.local_sgd().period(), LadderScope::kAll, 0}};
  } else {
    out.ladder = FromProto(strategy.hsgd().ladder());
  }
  out.warmup_steps = strategy.warmup_steps();
  out.gradient_group_size = strategy.gradient_group_size();
  if (strategy.has_slipstream()) out.slipstream = FromProto(strategy.slipstream());
  out.is_auto = strategy.has_auto_();
  return out;
}

SlipstreamChoice FromProto(const v1::Slipstream& slipstream) {
  const v1::SlipstreamWindow& window = slipstream.window();
  SlipstreamChoice choice;
  choice.mode = ModeOf(slipstream.mode());
  choice.window = {window.min_steps(), window.max_steps(), window.max_cap()};
  return choice;
}

v1::Slipstream ToProto(const SlipstreamChoice& choice) {
  v1::Slipstream out;
  out.set_mode(WireMode(choice.mode));
  out.mutable_window()->set_min_steps(choice.window.min_steps);
  out.mutable_window()->set_max_steps(choice.window.max_steps);
  out.mutable_window()->set_max_cap(choice.window.max_cap);
  return out;
}

StragglerMode FromProto(const v1::StragglerPolicy& policy) {
  switch (policy.mode()) {
    case v1::STRAGGLER_MODE_OFF:
      return StragglerMode::kOff;
    case v1::STRAGGLER_MODE_AUTO:
      return StragglerMode::kAuto;
    default:
      return StragglerMode::kAdvise;
  }
}

Ladder FromProto(const LadderMessages& ladder) {
  Ladder out;
  for (const v1::LadderLevel& level : ladder) {
    const LadderScope scope = ScopeOf(level.level());
    const bool has_size = scope == LadderScope::kSize;
    out.push_back({level.period(), scope, has_size ? std::max(1, level.size()) : 0});
  }
  return out;
}

LadderMessages ToProto(const Ladder& ladder) {
  LadderMessages out;
  for (const LadderLevel& level : ladder) {
    v1::LadderLevel& added = *out.Add();
    added.set_period(level.period);
    added.set_level(WireScope(level.scope));
    added.set_size(level.size);
    added.set_format(v1::WIRE_FORMAT_FP32);
  }
  return out;
}

std::string WithLadder(const std::string& strategy, const Ladder& ladder) {
  v1::Strategy out;
  out.ParseFromString(strategy);
  if (out.has_local_sgd()) {
    out.mutable_local_sgd()->set_period(ladder.empty() ? 1 : ladder.front().period);
  } else {
    *out.mutable_hsgd()->mutable_ladder() = ToProto(ladder);
  }
  return out.SerializeAsString();
}

std::string StrategyOf(const std::string& asked, const std::optional<SlipstreamChoice>& choice) {
  if (!choice.has_value()) return asked;
  v1::Strategy out;
  *out.mutable_slipstream() = ToProto(*choice);
  out.set_optimizer_state(v1::OPTIMIZER_STATE_LOCAL);
  return out.SerializeAsString();
}

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

JobRequest FromProto(const JobId& id, const v1::JobSpec& spec) {
  JobStrategy strategy = FromProto(spec.strategy());
  // The optimizer of a session is not known: be careful.
  strategy.is_adaptive = strategy.is_auto && (spec.session() || spec.optimizer().has_adamw());
  return {id,
          spec.name(),
          spec.ranks(),
          spec.device() == v1::CUDA ? Device::kCuda : Device::kCpu,
          spec.SerializeAsString(),
          StepsOf(spec),
          std::move(strategy),
          spec.strategy().SerializeAsString(),
          FromProto(spec.checkpoint()),
          spec.max_restarts(),
          spec.resume_from(),
          spec.queue().empty() ? "default" : spec.queue(),  // Empty in a version without queues.
          spec.priority(),
          PlacementOf(spec),
          spec.recovery().spares(),
          RecoveryOf(spec),
          TimeoutsOf(spec),
          FromProto(spec.stragglers()),
          CommandOf(spec),
          ShardsOf(spec)};
}

RecoveryPolicy RecoveryOf(const v1::JobSpec& spec) {
  const v1::Recovery& recovery = spec.recovery();
  RecoveryPolicy out;
  out.max_failures = recovery.max_failures();
  out.window = Timeout(recovery.window_s(), out.window);
  out.min_ranks = recovery.min_ranks();
  if (recovery.batch() == v1::KEEP_RANK_BATCH) out.rule = BatchRule::kKeepRank;
  out.batch = {std::max(1, spec.batch_per_rank()), std::max(1, spec.accumulation_steps())};
  out.least_samples = LeastSamples(spec.model());
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
  const JobStrategy strategy = FromProto(record.job().plan().strategy());
  job->plan.ladder = strategy.ladder;
  job->plan.slipstream = strategy.slipstream;
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
