#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/stragglers/history.h"
#include "bench/stragglers/trace.h"

namespace paceline::detect {
namespace {

using nlohmann::json;

const char* ClassOf(const Fault& fault) { return fault.lasting ? "persistent" : "transient"; }

json LabelOf(const Fault& fault, const std::vector<DetectorRank>& ranks, int of_stage) {
  json workers = json::array();
  std::set<int> nodes;
  for (const int rank : fault.ranks) {
    workers.push_back({{"dp", rank % of_stage}, {"stage", rank / of_stage}});
    nodes.insert(ranks[static_cast<size_t>(rank)].node);
  }
  return {{"class", ClassOf(fault)},
          {"scope", kScopeNames[static_cast<size_t>(fault.scope)]},
          {"shape", kShapeNames[static_cast<size_t>(fault.shape)]},
          {"cause", kFaultCauseNames[static_cast<size_t>(fault.cause)]},
          {"factor", fault.factor},
          {"begin", fault.begin},
          {"end", fault.end},
          {"nodes", nodes},
          {"workers", workers}};
}

// What the faults do to a rank's step.
struct Label {
  const char* of_class = "healthy";
  double factor = 1;
};

class Labels {
 public:
  explicit Labels(const History& history) : faults_(history.ranks().size()) {
    for (const Fault& fault : history.faults()) {
      for (const int rank : fault.ranks) faults_[static_cast<size_t>(rank)].push_back(&fault);
    }
  }

  Label Of(const StepSample& sample) const {
    Label label;
    for (const Fault* fault : faults_[static_cast<size_t>(sample.rank)]) {
      if (sample.step < fault->begin || sample.step >= fault->end) continue;
      if (label.factor == 1 || fault->lasting) label.of_class = ClassOf(*fault);
      label.factor *= fault->FactorAt(sample.step);
    }
    return label;
  }

 private:
  std::vector<std::vector<const Fault*>> faults_;  // By rank.
};

}  // namespace

std::string LabelsOf(const HistorySpec& spec, uint64_t seed) {
  const History history(spec, seed);
  json faults = json::array();
  for (const Fault& fault : history.faults()) {
    faults.push_back(LabelOf(fault, history.ranks(), spec.ranks / spec.stages));
  }
  return json{{"spec", SpecText(spec)}, {"seed", seed}, {"faults", faults}}.dump();
}

void WriteHistory(const HistorySpec& spec, uint64_t seed, std::ostream& csv) {
  History history(spec, seed);
  const Labels labels(history);
  const int of_stage = spec.ranks / spec.stages;
  csv << "step,dp,stage,fwd_s,bwd_s,wall_s,data_wait_s,workload,node,masked,generation,label,"
         "label_factor\n";
  std::vector<StepSample> arrivals;
  bool restarted = false;
  int generation = 0;
  for (bool more = true; more;) {
    more = history.Next(arrivals, restarted);
    if (restarted) ++generation;
    for (const StepSample& sample : arrivals) {
      const Label label = labels.Of(sample);
      csv << absl::StreamFormat("%d,%d,%d,%.6f,%.6f,%.6f,%.6f,%.6f,%d,%d,%d,%s,%g\n", sample.step,
                                sample.rank % of_stage, sample.rank / of_stage, sample.forward_s,
                                sample.backward_s, sample.wall_s, sample.data_wait_s,
                                sample.workload,
                                history.ranks()[static_cast<size_t>(sample.rank)].node,
                                sample.masked ? 1 : 0, generation, label.of_class, label.factor);
    }
  }
}

}  // namespace paceline::detect
