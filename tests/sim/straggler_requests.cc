#include "tests/sim/straggler_requests.h"

#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_controller.h"

namespace paceline::sim {

v1::JobSpec DrawWatchedSpec(Random& random, int number, const Settings& settings) {
  v1::JobSpec spec;
  spec.set_name(absl::StrCat("job", number));
  spec.set_ranks(static_cast<int>(random.Between(4, 8)));
  spec.set_steps(random.Between(800, 2400));
  spec.set_collective_timeout_s(static_cast<double>(random.Between(3, 8)));
  spec.set_max_restarts(static_cast<int>(random.Between(2, 8)));
  spec.set_batch_per_rank(random.Chance(0.8) ? 840 : 1);  // Any number of ranks can share 840.
  spec.set_accumulation_steps(1);
  spec.set_startup_timeout_s(60);
  spec.set_stall_warning_s(spec.collective_timeout_s() / 3);
  spec.set_hang_timeout_s(spec.collective_timeout_s() * 2 / 3);
  spec.set_give_up_s(40 + static_cast<double>(settings.lease) / kSecond);
  const double mode = random.Unit();
  spec.mutable_stragglers()->set_mode(mode < 0.1   ? v1::STRAGGLER_MODE_OFF
                                      : mode < 0.3 ? v1::STRAGGLER_MODE_ADVISE
                                                   : v1::STRAGGLER_MODE_AUTO);
  const double strategy = random.Unit();
  if (strategy < 0.6) {
    spec.mutable_strategy()->mutable_hsgd();
    spec.mutable_strategy()->set_gradient_group_size(1);
  }
  if (random.Chance(settings.recovers)) {
    v1::Recovery& recovery = *spec.mutable_recovery();
    recovery.set_max_failures(12);
    recovery.set_window_s(3600);
    recovery.set_spares(static_cast<int>(random.Between(0, 2)));
    recovery.set_min_ranks(static_cast<int>(random.Between(2, spec.ranks())));
    recovery.set_batch(random.Chance(0.5) ? v1::KEEP_GLOBAL_BATCH : v1::KEEP_RANK_BATCH);
    if (strategy > 0.75) {
      spec.mutable_strategy()->mutable_auto_();
      spec.mutable_strategy()->set_warmup_steps(50);
    }
  }
  if (random.Chance(0.5)) return spec;
  v1::CheckpointPolicy& checkpoint = *spec.mutable_checkpoint();
  checkpoint.set_directory("/ckpt");
  checkpoint.set_every_steps(random.Between(40, 200));
  checkpoint.set_keep_latest(2);
  checkpoint.set_on_damage(v1::ON_DAMAGE_PREVIOUS);
  return spec;
}

void DrawSteps(Random& random, JobFacts& facts) {
  facts.step_time = random.Between(15, 50) * kMilli;
  facts.jitter = 0.005 + 0.04 * random.Unit();
  if (random.Chance(0.6)) return;
  facts.stalls = 0.01 + 0.05 * random.Unit();
  facts.stall = 1 + 5 * random.Unit();
}

void StragglerRequests::Start() {
  Repeat(world_.settings.between_advices, &StragglerRequests::ApplyAdvice);
  Repeat(world_.settings.between_pauses, &StragglerRequests::PauseOrResume);
}

void StragglerRequests::Repeat(Micros mean, void (StragglerRequests::*ask)()) {
  if (mean == kNever) return;
  const Micros at = world_.time.now() + random_.Exponential(mean);
  if (at >= world_.settings.quiet) return;
  world_.time.At(at, [this, mean, ask] {
    if (world_.controller->is_up()) (this->*ask)();
    Repeat(mean, ask);
  });
}

void StragglerRequests::ApplyAdvice() {
  SimController& controller = *world_.controller;
  std::vector<StragglerActions::Key> open;
  for (const auto& [id, job] : controller.cluster().jobs()) {
    const JobStragglers* const known = controller.stragglers().Find(id);
    if (known == nullptr) continue;
    for (const RemedyDecision& decision : known->policy().decisions()) {
      if (IsOpenAdvice(decision)) open.emplace_back(id, decision.id);
    }
  }
  if (open.empty()) return;
  const auto& [job, advice] =
      open[static_cast<size_t>(random_.Between(0, static_cast<int64_t>(open.size()) - 1))];
  const auto refusal = controller.RefuseAdvice(job, advice);
  if (refusal.has_value()) {
    return world_.coverage.Count(absl::StrCat("advice refused: ", refusal->reason));
  }
  world_.trace.Add("ann: apply advice ", advice, " of ", job.value());
  controller.ApplyAdvice(job, advice, "ann");
}

void StragglerRequests::PauseOrResume() {
  SimController& controller = *world_.controller;
  if (controller.cluster().automation().paused) {
    world_.trace.Add("ann: resume the automation");
    return controller.Apply(AutomationResumeRequested{"ann"});
  }
  world_.trace.Add("ann: pause the automation");
  controller.Apply(AutomationPauseRequested{"ann", "hands off"});
}

}  // namespace paceline::sim
