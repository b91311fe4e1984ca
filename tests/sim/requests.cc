#include "tests/sim/requests.h"

#include <iterator>

#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/job/plan.h"
#include "controller/core/recovery/restart.h"
#include "controller/wire/convert_plan.h"
#include "tests/sim/observer.h"
#include "tests/sim/sim_controller.h"
#include "tests/sim/straggler_requests.h"

namespace paceline::sim {
namespace {

constexpr Micros kRetry = kSecond;

v1::JobSpec DrawSpec(Random& random, int number, const Settings& settings) {
  v1::JobSpec spec;
  spec.set_name(absl::StrCat("job", number));
  spec.set_ranks(static_cast<int>(random.Between(1, 4)));
  spec.set_steps(random.Between(5, 40) * settings.steps);
  spec.set_collective_timeout_s(static_cast<double>(random.Between(3, 15)));
  spec.set_max_restarts(static_cast<int>(random.Between(0, 6)));
  // With 12 samples per rank any number of ranks works here, with 1 only few: others then stand by.
  spec.set_batch_per_rank(spec.steps() / settings.steps % 2 == 0 ? 12 : 1);
  spec.set_accumulation_steps(1);
  spec.set_priority(static_cast<int>(random.Between(-1, 1)));
  spec.set_startup_timeout_s(60);
  spec.set_stall_warning_s(spec.collective_timeout_s() / 3);
  spec.set_hang_timeout_s(spec.collective_timeout_s() * 2 / 3);
  spec.set_give_up_s(static_cast<double>(random.Between(20, 60)) +
                     static_cast<double>(settings.lease) / kSecond);
  if (random.Chance(settings.recovers)) {
    v1::Recovery& recovery = *spec.mutable_recovery();
    recovery.set_max_failures(static_cast<int>(random.Between(1, 12)));
    recovery.set_window_s(3600);
    if (random.Chance(0.4)) recovery.set_spares(static_cast<int>(random.Between(1, 2)));
    recovery.set_min_ranks(static_cast<int>(random.Between(1, spec.ranks())));
    recovery.set_batch(random.Chance(0.5) ? v1::KEEP_GLOBAL_BATCH : v1::KEEP_RANK_BATCH);
  }
  if (random.Chance(0.3)) return spec;
  v1::CheckpointPolicy& checkpoint = *spec.mutable_checkpoint();
  checkpoint.set_directory("/ckpt");
  if (random.Chance(0.6)) checkpoint.set_every_steps(random.Between(2, 10));
  if (random.Chance(0.3)) checkpoint.set_every_s(static_cast<double>(random.Between(2, 10)));
  checkpoint.set_keep_latest(static_cast<int>(random.Between(0, 3)));
  if (random.Chance(0.2)) checkpoint.set_keep_every(random.Between(2, 10));
  if (random.Chance(0.7)) checkpoint.set_on_damage(v1::ON_DAMAGE_PREVIOUS);
  return spec;
}

// Makes the job one of so many ranks per replica, after all other draws about it.
void Shard(Random& random, int shards, v1::JobSpec& spec) {
  const int64_t replicas = random.Chance(0.1) ? 1 : random.Between(2, 3);
  spec.set_shards(shards);
  spec.set_ranks(static_cast<int>(replicas) * shards);
  if (spec.has_recovery()) {
    spec.mutable_recovery()->set_min_ranks(static_cast<int>(random.Between(1, replicas)) * shards);
  }
  if (random.Chance(0.3)) spec.mutable_placement()->set_replica(v1::REPLICA_PLACEMENT_REQUIRE);
  if (random.Chance(0.6)) return;
  spec.mutable_strategy()->mutable_local_sgd()->set_period(random.Between(1, 5));
}

// Makes the job one that can go on with few numbers of ranks only, after all other draws about it.
void FewNumbers(Random& random, v1::JobSpec& spec) {
  spec.set_ranks(static_cast<int>(random.Between(3, 4)));
  spec.set_batch_per_rank(1);
  v1::Recovery& recovery = *spec.mutable_recovery();
  recovery.set_max_failures(12);
  recovery.set_spares(0);
  recovery.set_min_ranks(static_cast<int>(random.Between(1, 2)));
  recovery.set_batch(v1::KEEP_GLOBAL_BATCH);
}

// Makes the job one that starts with fewer ranks and grows beyond what it wants, after all other
// draws about it.
void Stretch(Random& random, int shards, v1::JobSpec& spec) {
  if (spec.recovery().max_failures() == 0 || random.Chance(0.2)) return;
  const int64_t replicas = random.Between(1, 3);
  spec.set_ranks(static_cast<int>(replicas) * shards);
  v1::Recovery& recovery = *spec.mutable_recovery();
  recovery.set_min_ranks(static_cast<int>(random.Between(1, replicas)) * shards);
  recovery.set_max_ranks(static_cast<int>(replicas + random.Between(0, 4)) * shards);
}

// The ranks keep copies of their states, after all other draws about the job.
void KeepCopies(Random& random, v1::JobSpec& spec) {
  if (spec.recovery().max_failures() == 0 || random.Chance(0.4)) return;
  spec.mutable_recovery()->set_copy_every_steps(random.Between(1, 6));
}

}  // namespace

void Requests::Start() {
  for (int number = 1; number <= world_.settings.jobs; ++number) {
    world_.time.After(random_.Between(0, world_.settings.quiet / 2),
                      [this, number] { Submit(number); });
  }
  world_.time.After(random_.Exponential(world_.settings.between_requests),
                    [this] { AskForSomething(); });
}

void Requests::Submit(int number) {
  if (!world_.controller->is_up()) {
    return world_.time.After(kRetry, [this, number] { Submit(number); });
  }
  const JobId id(absl::StrCat("job-", number));
  if (world_.controller->cluster().jobs().count(id) > 0) return;
  const auto known = world_.jobs.find(id);
  Random random(static_cast<uint64_t>(number) + world_.settings.end);
  const bool watched = world_.settings.stragglers;
  v1::JobSpec spec = watched ? DrawWatchedSpec(random, number, world_.settings)
                             : DrawSpec(random, number, world_.settings);
  if (world_.settings.shards > 1) {
    Shard(random, world_.settings.shards, spec);
    KeepCopies(random, spec);
  }
  if (world_.settings.interrupted_losses > 0) FewNumbers(random, spec);
  if (world_.settings.elastic) Stretch(random, world_.settings.shards, spec);
  if (known == world_.jobs.end()) {
    JobFacts& facts = world_.jobs[id];
    facts.ranks = spec.ranks();
    facts.shards = world_.settings.shards;
    facts.mean_period = watched ? 0 : spec.strategy().local_sgd().period();
    facts.steps = spec.steps();
    facts.every_steps = spec.checkpoint().every_steps();
    facts.copy_every = spec.recovery().copy_every_steps();
    facts.directory = spec.checkpoint().directory();
    facts.step_time =
        (random_.Chance(0.75) ? random_.Between(50, 700) : random_.Between(700, 3000)) * kMilli;
    facts.collective_timeout = static_cast<Micros>(spec.collective_timeout_s()) * kSecond;
    facts.give_up = static_cast<Micros>(spec.give_up_s()) * kSecond;
    facts.recovers = spec.recovery().max_failures() > 0;
    if (watched) DrawSteps(random, facts);
  }
  JobRequest request = FromProto(id, spec);
  if (!world_.controller->cluster().CanEverFit(request).ok()) {
    if (world_.time.now() < world_.settings.quiet) {
      world_.time.After(kRetry, [this, number] { Submit(number); });
    }
    return;
  }
  const bool has_domains = request.placement.replica == ReplicaPlacement::kRequire;
  world_.trace.Add("submit ", id.value(), ": ranks ", spec.ranks(), " shards ",
                   world_.settings.shards, has_domains ? " in domains" : "", " period ",
                   spec.strategy().local_sgd().period(), " steps ", spec.steps(), " restarts ",
                   spec.max_restarts(), " every_steps ", spec.checkpoint().every_steps(),
                   " every_s ", spec.checkpoint().every_s(), " failures ",
                   spec.recovery().max_failures(), " spares ", spec.recovery().spares(), " copies ",
                   spec.recovery().copy_every_steps(), " min ", spec.recovery().min_ranks(),
                   " max ", spec.recovery().max_ranks(), " timeout ", spec.collective_timeout_s());
  world_.controller->Apply(JobSubmitted{std::move(request)},
                           [this, id] { world_.observer->OnSubmitted(id); });
  // Nobody has received an answer, so the request is repeated.
  if (world_.time.now() < world_.settings.quiet) {
    world_.time.After(5 * kSecond, [this, number] { Submit(number); });
  }
}

void Requests::AskForSomething() {
  if (world_.time.now() > world_.settings.quiet) return;
  world_.time.After(random_.Exponential(world_.settings.between_requests),
                    [this] { AskForSomething(); });
  SimController& controller = *world_.controller;
  if (!controller.is_up() || controller.cluster().jobs().empty()) return;
  const auto& jobs = controller.cluster().jobs();
  const Job& job =
      std::next(jobs.begin(), random_.Between(0, static_cast<int64_t>(jobs.size()) - 1))->second;
  const JobId id = job.request.id;
  switch (random_.Between(0, 9)) {
    case 0:
      return Cancel(job);
    case 1:
    case 2:
      if (RefuseSave(job).has_value()) return;
      return controller.Apply(SaveRequested{id, random_.Chance(0.5)});
    case 3:
    case 4:
    case 5:
      return Resume(job);
    case 6:
      return Remove(job);
    case 7:
      if (job.checkpoints.records.empty()) return;
      return controller.Apply(
          PinRequested{id, job.checkpoints.records.back().key, random_.Chance(0.5)});
    default:
      if (RefuseLadder(job).has_value()) return;
      return controller.Apply(PlanChanged{id, job.plan});
  }
}

void Requests::Cancel(const Job& job) {
  const JobId id = job.request.id;
  const bool save = random_.Chance(0.4) && !RefuseSave(job).has_value();
  world_.trace.Add("cancel ", id.value(), save ? " after a save" : "");
  const absl::Duration grace = absl::Milliseconds(random_.Between(0, 5000));
  world_.controller->Apply(CancelRequested{id, "cancelled by request", grace, save},
                           [this, id] { world_.observer->OnCancelled(id); });
}

void Requests::Resume(const Job& job) {
  std::string from;
  if (!job.checkpoints.records.empty() && random_.Chance(0.3)) {
    const Checkpoint& record = job.checkpoints.records.front();
    if (record.state == CheckpointState::kComplete) from = DirectoryOf(job, record);
  }
  if (RefuseResume(job, !from.empty()).has_value()) return;
  const JobId id = job.request.id;
  world_.trace.Add("resume ", id.value(), " ", from);
  world_.controller->Apply(ResumeRequested{job.request, from},
                           [this, id] { world_.observer->OnResumed(id); });
}

void Requests::Remove(const Job& job) {
  if (job.checkpoints.records.empty()) return;
  const Checkpoint& record = job.checkpoints.records.front();
  if (world_.controller->cluster().RefuseRemoval(job, record, false).has_value()) return;
  world_.trace.Add("remove checkpoint of ", job.request.id.value());
  world_.controller->Apply(RemovalRequested{job.request.id, record.key});
}

}  // namespace paceline::sim
