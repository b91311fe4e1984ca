#include "controller/metrics/straggler_metrics.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

using prometheus::Labels;

// States that are counted; kChecking only says that kOrdered is done.
constexpr DecisionState kOutcomes[] = {DecisionState::kAdvised,   DecisionState::kOrdered,
                                       DecisionState::kHelped,    DecisionState::kDidNotHelp,
                                       DecisionState::kUnchecked, DecisionState::kDone,
                                       DecisionState::kFailed,    DecisionState::kWithdrawn};

// Slowest first.
std::vector<ReportedVerdict> SuspectsOf(const ReportedVerdicts& reported) {
  std::vector<ReportedVerdict> suspects;
  for (const auto& [rank, slow] : reported.slow()) {
    if (rank >= 0) suspects.push_back(slow);
  }
  std::stable_sort(suspects.begin(), suspects.end(), [](const auto& a, const auto& b) {
    return a.verdict.slowdown > b.verdict.slowdown;
  });
  return suspects;
}

}  // namespace

StragglerMetrics::StragglerMetrics(MetricRegistry& registry)
    : verdicts_(registry.NewCounters("paceline_straggler_verdicts_total")),
      suspects_(registry.NewGauges("paceline_straggler_suspects")),
      slowdowns_(registry.NewGauges("paceline_straggler_slowdown_ratio")),
      remedies_(registry.NewCounters("paceline_remedies_total")),
      step_seconds_(registry.NewGauges("paceline_remedy_step_seconds")) {}

StragglerMetrics::Shown& StragglerMetrics::Get(const JobId& job) {
  const auto [found, added] = jobs_.try_emplace(job);
  Shown& shown = found->second;
  if (!added) return shown;
  const std::string& id = job.value();
  for (int k = 0; k < kVerdictKinds; ++k) {
    shown.verdicts[static_cast<size_t>(k)] =
        &verdicts_.Add({{"job_id", id}, {"verdict", LabelOf(static_cast<VerdictKind>(k))}});
  }
  shown.suspects = &suspects_.Add({{"job_id", id}});
  for (const DecisionState outcome : kOutcomes) {
    shown.outcomes[outcome] = &remedies_.Add({{"job_id", id}, {"outcome", LabelOf(outcome)}});
  }
  return shown;
}

void StragglerMetrics::Decided(const JobId& job, const RemedyDecision& decision) {
  Shown& shown = Get(job);
  const auto outcome = shown.outcomes.find(decision.state);
  if (outcome != shown.outcomes.end()) outcome->second->Increment();
  if (decision.measured_s <= 0) return;
  std::vector<prometheus::Gauge*>& gauges = shown.step_seconds[decision.kind];
  if (gauges.empty()) {
    for (const char* what : {"before", "predicted", "measured"}) {
      gauges.push_back(&step_seconds_.Add(
          {{"job_id", job.value()}, {"remedy", LabelOf(decision.kind)}, {"what", what}}));
    }
  }
  // Compares with what the same steps would have taken without it, if that is known.
  gauges[0]->Set(decision.without_s > 0 ? decision.without_s : decision.before.seconds);
  gauges[1]->Set(decision.predicted_s);
  gauges[2]->Set(decision.measured_s);
}

void StragglerMetrics::Show(const JobId& job, const JobStragglers* stragglers) {
  Shown& shown = Get(job);
  if (stragglers == nullptr) return;
  const ReportedVerdicts& reported = stragglers->reported();
  for (int k = 0; k < kVerdictKinds; ++k) {
    RaiseTo(*shown.verdicts[static_cast<size_t>(k)],
            static_cast<double>(reported.count(static_cast<VerdictKind>(k))));
  }
  ShowSlowdowns(job, reported, shown);
}

void StragglerMetrics::ShowSlowdowns(const JobId& job, const ReportedVerdicts& reported,
                                     Shown& shown) {
  std::vector<ReportedVerdict> suspects = SuspectsOf(reported);
  shown.suspects->Set(static_cast<double>(suspects.size()));
  if (suspects.size() > kSuspectsShown) suspects.resize(kSuspectsShown);
  std::map<Labels, double> slowdowns;
  for (const ReportedVerdict& suspect : suspects) {
    slowdowns[{{"job_id", job.value()},
               {"node", suspect.node.value()},
               {"rank", absl::StrCat(suspect.verdict.rank)},
               {"cause", LabelOf(suspect.verdict.cause)}}] = suspect.verdict.slowdown;
  }
  for (auto i = shown.slowdowns.begin(); i != shown.slowdowns.end();) {
    if (slowdowns.count(i->first) > 0) {
      ++i;
      continue;
    }
    slowdowns_.Remove(i->second);
    i = shown.slowdowns.erase(i);
  }
  for (const auto& [labels, slowdown] : slowdowns) {
    prometheus::Gauge*& gauge = shown.slowdowns[labels];
    if (gauge == nullptr) gauge = &slowdowns_.Add(labels);
    gauge->Set(slowdown);
  }
}

void StragglerMetrics::Remove(const JobId& job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  Shown& shown = found->second;
  for (prometheus::Counter* verdict : shown.verdicts) verdicts_.Remove(verdict);
  suspects_.Remove(shown.suspects);
  for (const auto& [outcome, counter] : shown.outcomes) remedies_.Remove(counter);
  for (const auto& [labels, gauge] : shown.slowdowns) slowdowns_.Remove(gauge);
  for (const auto& [kind, gauges] : shown.step_seconds) {
    for (prometheus::Gauge* gauge : gauges) step_seconds_.Remove(gauge);
  }
  jobs_.erase(found);
}

}  // namespace paceline
