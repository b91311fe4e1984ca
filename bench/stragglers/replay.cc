#include "bench/stragglers/replay.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "bench/stragglers/warm_up.h"
#include "controller/core/stragglers/detector/detector.h"
#include "controller/core/stragglers/detector/median.h"

namespace paceline::detect {
namespace {

using nlohmann::json;

const char* Name(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kSuspect:
      return "SUSPECT";
    case VerdictKind::kTransient:
      return "TRANSIENT";
    case VerdictKind::kPersistent:
      return "PERSISTENT";
    case VerdictKind::kRecovered:
      return "RECOVERED";
    case VerdictKind::kNode:
      return "NODE";
    case VerdictKind::kGroup:
      return "GROUP";
  }
  return "";
}

const char* Name(StragglerCause cause) {
  switch (cause) {
    case StragglerCause::kCompute:
      return "compute";
    case StragglerCause::kData:
      return "data";
    case StragglerCause::kHostPause:
      return "host pause";
    case StragglerCause::kCommunication:
      return "communication";
    case StragglerCause::kImbalance:
      return "imbalance";
  }
  return "";
}

class Player {
 public:
  Player(const Trace& trace, std::optional<int> warm_up_steps)
      : trace_(trace), warm_up_steps_(warm_up_steps) {}

  std::vector<json> Play() {
    auto row = trace_.rows.begin();
    for (size_t g = 0; g < trace_.generations.size(); ++g) {
      Begin(g);
      std::vector<Verdict> verdicts;
      for (; row != trace_.rows.end() && row->generation == g; ++row) Add(*row, verdicts);
      detector_->Close(verdicts);
      for (const Verdict& verdict : verdicts) lines_.push_back(Line(verdict));
    }
    lines_.push_back({{"summary", Summary()}});
    return std::move(lines_);
  }

 private:
  void Begin(size_t generation) {
    generation_ = &trace_.generations[generation];
    if (detector_ == nullptr) {
      DetectorOptions options;
      options.warm_up_steps = 0;  // Steps are masked instead: each generation has a warm-up.
      detector_ = std::make_unique<StragglerDetector>(options, generation_->ranks);
    } else {
      detector_->Restart(generation_->ranks);
    }
    rows_before_ = detector_->counts().rows;
    warm_up_.push_back(warm_up_steps_.value_or(WarmUpSteps(trace_, generation)));
    steps_ = 0;
    rank_of_.clear();
    for (const int worker : generation_->workers) {
      rank_of_[worker] = static_cast<int>(rank_of_.size());
    }
  }

  void Add(const TraceRow& row, std::vector<Verdict>& verdicts) {
    if (steps_ > 0 && row.step == step_ && row.worker == worker_) {
      ++repeated_;
      return;
    }
    if (steps_ == 0 || row.step != step_) ++steps_, ++all_steps_;
    step_ = row.step;
    worker_ = row.worker;
    if (row.masked) ++masked_;
    StepSample sample = SampleOf(row, rank_of_.at(row.worker));
    sample.masked = row.masked || steps_ <= warm_up_.back();
    detector_->Add(sample, verdicts);
  }

  // The step's number in the file.
  json Step(int64_t step) const {
    if (trace_.steps.empty()) return step;
    const double name = trace_.steps[static_cast<size_t>(step)];
    constexpr double kMostWhole = 9e15;
    if (name == std::floor(name) && std::abs(name) < kMostWhole) return static_cast<int64_t>(name);
    return name;
  }

  json NodeName(int node) const {
    if (node < 0 || node >= static_cast<int>(trace_.nodes.size())) return nullptr;
    return trace_.nodes[static_cast<size_t>(node)];
  }

  const TraceWorker& Worker(size_t rank) const {
    return trace_.workers[static_cast<size_t>(generation_->workers[rank])];
  }

  // The rank of a verdict; for a node its only rank.
  std::optional<size_t> RankOf(const Verdict& verdict) const {
    if (verdict.rank >= 0) return static_cast<size_t>(verdict.rank);
    std::optional<size_t> only;
    for (size_t i = 0; i < generation_->ranks.size(); ++i) {
      if (verdict.node < 0 || generation_->ranks[i].node != verdict.node) continue;
      if (only.has_value()) return std::nullopt;
      only = i;
    }
    return only;
  }

  json Line(const Verdict& verdict) {
    ++verdicts_[Name(verdict.kind)];
    json line = {{"step", Step(verdict.step)},
                 {"dp", nullptr},
                 {"stage", nullptr},
                 {"node", NodeName(verdict.node)},
                 {"kind", Name(verdict.kind)},
                 {"slowdown", verdict.slowdown},
                 {"slowdown_low", verdict.slowdown_low},
                 {"slowdown_high", verdict.slowdown_high},
                 {"cause", Name(verdict.cause)},
                 {"since_step", Step(verdict.since_step)},
                 {"lost_share", verdict.lost_share},
                 {"episodes", verdict.episodes}};
    if (trace_.names_generations) line["generation"] = generation_->number;
    if (verdict.peer_group >= 0) {
      line["stage"] = trace_.stages[static_cast<size_t>(verdict.peer_group)];
    }
    if (const std::optional<size_t> rank = RankOf(verdict); rank.has_value()) {
      line["dp"] = Worker(*rank).dp;
      line["stage"] = Worker(*rank).stage;
    }
    return line;
  }

  // By stage: the median of compute in seconds; null: not known.
  std::vector<json> TypicalTimes() const {
    std::vector<std::vector<float>> compute(trace_.stages.size());
    for (const TraceRow& row : trace_.rows) {
      const double seconds = ComputeOf(row, trace_);
      if (!(seconds > 0)) continue;
      const int stage = trace_.workers[static_cast<size_t>(row.worker)].stage;
      const auto at = std::lower_bound(trace_.stages.begin(), trace_.stages.end(), stage);
      compute[static_cast<size_t>(at - trace_.stages.begin())].push_back(
          static_cast<float>(seconds));
    }
    std::vector<json> typical;
    for (auto& values : compute) {
      typical.push_back(values.empty() ? json() : json(MedianOf(absl::MakeSpan(values))));
    }
    return typical;
  }

  // Time of a stage divided by the median of the other stages' times; null: not known.
  static json Imbalance(const std::vector<json>& typical, size_t stage) {
    std::vector<double> others;
    for (size_t i = 0; i < typical.size(); ++i) {
      if (i != stage && !typical[i].is_null()) others.push_back(typical[i].get<double>());
    }
    if (others.empty() || typical[stage].is_null()) return nullptr;
    return typical[stage].get<double>() / MedianOf(absl::MakeSpan(others));
  }

  // For each stage: workers, state, and its typical time beside that of the others.
  json Groups() const {
    const std::vector<json> typical = TypicalTimes();
    json groups = json::array();
    for (size_t g = 0; g < trace_.stages.size(); ++g) {
      std::map<RankStatus, json> workers;
      int count = 0;
      for (size_t i = 0; i < generation_->ranks.size(); ++i) {
        if (generation_->ranks[i].peer_group != static_cast<int>(g)) continue;
        ++count;
        workers[detector_->status(static_cast<int>(i))].push_back(Worker(i).dp);
      }
      std::string status = "watched";
      if (detector_->counts().rows == rows_before_) status = "no steps";
      if (workers.count(RankStatus::kTooFewPeers) > 0) status = "too few peers";
      if (count == 0) status = "gone";
      groups.push_back({{"stage", trace_.stages[g]},
                        {"workers", count},
                        {"status", status},
                        {"compute_s", typical[g]},
                        {"imbalance", Imbalance(typical, g)},
                        {"suspect", std::move(workers[RankStatus::kSuspect])},
                        {"persistent", std::move(workers[RankStatus::kPersistent])}});
      for (const char* key : {"suspect", "persistent"}) {
        if (groups.back()[key].is_null()) groups.back()[key] = json::array();
      }
    }
    return groups;
  }

  json Notes(const json& groups) const {
    const DetectorCounts& counts = detector_->counts();
    json notes = json::array();
    const auto note = [&](bool holds, const std::string& text) {
      if (holds) notes.push_back(text);
    };
    note(trace_.cut_off, "the last line is no whole row, and left out");
    note(counts.invalid > 0,
         absl::StrCat("rows that are not taken: ", counts.invalid,
                      "; a time is negative, not known or longer than an hour (are they "
                      "seconds?), or both passes took no time"));
    note(repeated_ > 0,
         absl::StrCat("rows of a worker and step that were there before: ", repeated_,
                      "; the first ones count; after a restart another number in a column "
                      "generation tells them apart"));
    note(counts.rows == 0, "no step could be evaluated");
    std::vector<int> lonely;
    for (const json& group : groups) {
      if (group["status"] == "too few peers") lonely.push_back(group["stage"].get<int>());
    }
    note(!lonely.empty(), absl::StrCat("stage ", absl::StrJoin(lonely, ", "),
                                       ": nobody can say who is slow; a worker needs three others "
                                       "of its stage on other nodes"));
    return notes;
  }

  json Summary() const {
    const DetectorCounts& counts = detector_->counts();
    json groups = Groups();
    json notes = Notes(groups);
    json verdicts = {{"SUSPECT", 0},   {"TRANSIENT", 0}, {"PERSISTENT", 0},
                     {"RECOVERED", 0}, {"NODE", 0},      {"GROUP", 0}};
    for (const auto& [kind, count] : verdicts_) verdicts[kind] = count;
    return {{"rows", trace_.rows.size()},
            {"steps", all_steps_},
            {"workers", trace_.workers.size()},
            {"generations", trace_.generations.size()},
            {"groups", std::move(groups)},
            {"verdicts", verdicts},
            {"reports",
             {{"taken", counts.taken},
              {"masked", masked_},
              {"invalid", counts.invalid},
              {"late", counts.late},
              {"repeated", repeated_},
              {"missing", counts.missing}}},
            {"cells_not_known", trace_.unknown},
            {"columns_passed_over", trace_.passed_over},
            {"warm_up_steps", warm_up_},
            {"steps_evaluated", counts.rows},
            {"steps_left_out", counts.left_out},
            {"notes", std::move(notes)}};
  }

  const Trace& trace_;
  const std::optional<int> warm_up_steps_;
  std::vector<json> lines_;
  std::map<std::string, int64_t> verdicts_;  // By kind.
  std::unique_ptr<StragglerDetector> detector_;
  const TraceGeneration* generation_ = nullptr;
  absl::flat_hash_map<int, int> rank_of_;  // By worker.
  std::vector<int> warm_up_;               // Steps, by generation.
  int64_t rows_before_ = 0;                // The detector's, at the begin of the generation.
  int64_t step_ = 0;                       // Of the previous row.
  int worker_ = 0;
  int64_t steps_ = 0;  // Of the generation; of all.
  int64_t all_steps_ = 0;
  int64_t masked_ = 0;  // Rows.
  int64_t repeated_ = 0;
};

}  // namespace

std::vector<json> Replay(const Trace& trace, std::optional<int> warm_up_steps) {
  return Player(trace, warm_up_steps).Play();
}

}  // namespace paceline::detect
