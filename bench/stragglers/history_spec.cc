#include "bench/stragglers/history_spec.h"

#include <cmath>
#include <functional>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace paceline::detect {
namespace {

struct Words {
  std::vector<std::string> words;  // By value of the enumeration, or "no", "yes".
  std::function<int(const HistorySpec&)> get;
  std::function<void(HistorySpec&, int)> set;
};

template <typename T>
Words Choice(T HistorySpec::*member, std::vector<std::string> words) {
  return {std::move(words), [=](const HistorySpec& spec) { return static_cast<int>(spec.*member); },
          [=](HistorySpec& spec, int value) { spec.*member = static_cast<T>(value); }};
}

Words YesOrNo(bool HistorySpec::*member) { return Choice(member, {"no", "yes"}); }

struct Key {
  std::string name;
  std::variant<int HistorySpec::*, double HistorySpec::*, Range HistorySpec::*, Words> value;
  double low;  // Least and greatest possible number.
  double high;
  std::string meaning;
};

const std::vector<Key>& Keys() {
  using S = HistorySpec;
  static const auto& keys = *new std::vector<Key>{
      {"ranks", &S::ranks, 1, 100000, "of the job; a multiple of stages"},
      {"ranks_per_node", &S::ranks_per_node, 1, 1024, "rank r is on node r / ranks_per_node"},
      {"stages", &S::stages, 1, 1024, "of the pipeline; each has ranks / stages ranks"},
      {"steps", &S::steps, 50, 1e7, "of the history"},
      {"step_s", &S::step_s, 1e-3, 1e4, "seconds that a step computes, drawn once"},
      {"last_stage", &S::last_stage, 0.1, 10, "time of the last stage / that of the others"},
      {"spread", &S::spread, 0, 0.1, "sd of lasting differences between ranks"},
      {"drift", &S::drift, 0, 0.5, "by which all ranks rise and fall together, slowly"},
      {"checkpoint_every", &S::checkpoint_every, 0, 1e7,
       "steps, each such one longer and marked as not typical; 0: none"},
      {"restarts", &S::restarts, 0, 20, "of the job, each at a random step"},
      {"noise",
       Choice(&S::noise, {"gaussian", "laplace", "lognormal", "student", "bursts", "quantised",
                          "real", "mixed"}),
       0, 0, "distribution by which a rank's steps differ; mixed: one of them per history"},
      {"sd", &S::sd, 0, 1, "standard deviation of the noise, relative"},
      {"rho", &S::rho, 0, 0.95, "correlation of the noise with that of the step before"},
      {"pauses", &S::pauses, 0, 1, "share of rank-steps whose forward pass has a host pause"},
      {"pause_s", &S::pause_s, 0, 1e4, "seconds of a host pause; twice as long at the end"},
      {"loader", &S::loader, 0, 1, "share of rank-steps that wait for data: Pareto, from 0.1 s"},
      {"loader_reported", YesOrNo(&S::loader_reported), 0, 0,
       "whether such a wait is reported as data_wait_s, or hidden in the forward pass"},
      {"imbalance", &S::imbalance, 0, 1, "sd of the work of a rank's step, relative"},
      {"workload", YesOrNo(&S::workload), 0, 0,
       "whether that work is reported; 5 % of a step do not follow it"},
      {"missing", &S::missing, 0, 0.5, "share of reports that are lost, half of them in a row"},
      {"late", &S::late, 0, 0.5, "share of reports that come 1 to 5 steps later"},
      {"repeated", &S::repeated, 0, 0.5, "share of reports that come again"},
      {"reordered", YesOrNo(&S::reordered), 0, 0, "whether reports come in any order"},
      {"garbage", &S::garbage, 0, 0.5, "share of reports with negative, NaN or huge durations"},
      {"faults", &S::faults, 0, 10000,
       "that last to the end of the history, in no more than a quarter of a stage's ranks"},
      {"factor", &S::factor, 0.5, 100, "by which their ranks are slower"},
      {"scope", Choice(&S::scope, {std::begin(kScopeNames), std::end(kScopeNames)}), 0, 0,
       "what is slow; group: a share of a stage's ranks; so is a node with more than a quarter"},
      {"fault_ranks", &S::fault_ranks, 1, 1024,
       "of one node and stage that a fault slows, for scope=rank"},
      {"shape", Choice(&S::shape, {std::begin(kShapeNames), std::end(kShapeNames)}), 0, 0,
       "at once, slowly, on and off, or for one step only"},
      {"cause", Choice(&S::cause, {std::begin(kFaultCauseNames), std::end(kFaultCauseNames)}), 0, 0,
       "what takes longer: both passes, waiting for data, or the forward pass alone"},
      {"onset", &S::onset, 0, 0.95, "of each fault, as a share of the history"},
      {"together", YesOrNo(&S::together), 0, 0, "whether all faults begin at once in one stage"},
      {"ramp", &S::ramp, 1, 1e6, "steps until a ramp has its factor"},
      {"on", &S::on, 1, 1e6, "steps that an intermittent fault is slow for"},
      {"off", &S::off, 1, 1e6, "steps that it is not"},
      {"share", &S::share, 0.26, 1, "of a stage's ranks, for scope=group"},
      {"transients", &S::transients, 0, 10000, "slowdowns of a rank that end, on average"},
      {"transient_nodes", YesOrNo(&S::transient_nodes), 0, 0,
       "whether they slow all ranks of a node"},
      {"transient_factor", &S::transient_factor, 1, 100, "of each"},
      {"transient_steps", &S::transient_steps, 1, 1e6, "that each lasts"},
  };
  return keys;
}

std::string ValueOf(const Key& key, const HistorySpec& spec) {
  if (const auto* words = std::get_if<Words>(&key.value)) {
    return words->words[static_cast<size_t>(words->get(spec))];
  }
  if (const auto* member = std::get_if<Range HistorySpec::*>(&key.value)) {
    return absl::StrCat((spec.**member).low, "..", (spec.**member).high);
  }
  if (const auto* member = std::get_if<int HistorySpec::*>(&key.value)) {
    return absl::StrCat(spec.**member);
  }
  return absl::StrCat(spec.*std::get<double HistorySpec::*>(key.value));
}

// Sets the key; returns what is wrong, or nothing.
std::string Set(const Key& key, absl::string_view text, HistorySpec& spec) {
  if (const auto* words = std::get_if<Words>(&key.value)) {
    for (size_t i = 0; i < words->words.size(); ++i) {
      if (words->words[i] == text) return words->set(spec, static_cast<int>(i)), "";
    }
    return absl::StrFormat("%s=%s: one of %s", key.name, text, absl::StrJoin(words->words, ", "));
  }
  const auto number = [&](absl::string_view part, double& value) {
    return absl::SimpleAtod(part, &value) && value >= key.low && value <= key.high;
  };
  const auto wrong = [&](absl::string_view kind) {
    return absl::StrFormat("%s=%s: %s from %g to %g", key.name, text, kind, key.low, key.high);
  };
  double value = 0;
  if (const auto* member = std::get_if<Range HistorySpec::*>(&key.value)) {
    const std::vector<absl::string_view> ends = absl::StrSplit(text, "..");
    Range range;
    if (ends.size() > 2 || !number(ends.front(), range.low) || !number(ends.back(), range.high) ||
        range.low > range.high) {
      return wrong("a number or LOW..HIGH");
    }
    spec.** member = range;
  } else if (const auto* member = std::get_if<int HistorySpec::*>(&key.value)) {
    if (!number(text, value) || value != std::floor(value)) return wrong("a whole number");
    spec.** member = static_cast<int>(value);
  } else {
    if (!number(text, value)) return wrong("a number");
    spec.*std::get<double HistorySpec::*>(key.value) = value;
  }
  return "";
}

}  // namespace

absl::StatusOr<HistorySpec> ParseSpec(absl::string_view text) {
  HistorySpec spec;
  std::vector<std::string> problems;
  for (const absl::string_view pair :
       absl::StrSplit(text, absl::ByAnyChar(" ,\t\n"), absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(pair, absl::MaxSplits('=', 1));
    const Key* found = nullptr;
    for (const Key& key : Keys()) {
      if (key.name == parts.first) found = &key;
    }
    std::string problem = found == nullptr ? absl::StrCat(pair, ": no such key; --help lists them")
                                           : Set(*found, parts.second, spec);
    if (!problem.empty()) problems.push_back(std::move(problem));
  }
  if (problems.empty() && spec.ranks % spec.stages != 0) {
    problems.push_back(
        absl::StrFormat("ranks=%d: a multiple of stages=%d", spec.ranks, spec.stages));
  }
  if (!problems.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("spec: ", absl::StrJoin(problems, "; ")));
  }
  return spec;
}

std::string SpecText(const HistorySpec& spec) {
  std::vector<std::string> pairs;
  for (const Key& key : Keys()) {
    const std::string value = ValueOf(key, spec);
    if (value != ValueOf(key, HistorySpec())) pairs.push_back(absl::StrCat(key.name, "=", value));
  }
  return absl::StrJoin(pairs, " ");
}

std::string SpecHelp() {
  std::string help;
  for (const Key& key : Keys()) {
    absl::StrAppendFormat(&help, "  %-17s %-9s %s", key.name, ValueOf(key, HistorySpec()),
                          key.meaning);
    if (const auto* words = std::get_if<Words>(&key.value)) {
      absl::StrAppendFormat(&help, " (%s)", absl::StrJoin(words->words, ", "));
    }
    help += '\n';
  }
  return help;
}

}  // namespace paceline::detect
