// Measures how well stragglers are found (docs/straggler-harness.md): plays a trace to the
// detector, writes labelled histories, or plays many of them to the detector and to other systems'
// rules.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/stragglers/evaluation.h"
#include "bench/stragglers/replay.h"
#include "bench/stragglers/report.h"
#include "bench/stragglers/trace.h"
#include "common/core/status_macros.h"

namespace paceline::detect {
namespace {

struct Options {
  std::string trace;
  std::string generate;
  std::string labels;
  bool evaluate = false;
  std::vector<std::string> spec;
  std::string seed = "1";
  std::string seeds = absl::StrCat(kReportingSeeds.first, "..", kReportingSeeds.last);
  std::optional<int> warm_up_steps;
  int peers_every = EvaluationOptions().peers_every;
  int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
};

absl::Status PlayTrace(const Options& options) {
  PACELINE_ASSIGN_OR_RETURN(const Trace trace, ReadTraceFile(options.trace));
  for (const nlohmann::json& line : Replay(trace, options.warm_up_steps)) {
    std::cout << line.dump() << '\n';
  }
  return absl::OkStatus();
}

absl::Status Generate(const Options& options) {
  PACELINE_ASSIGN_OR_RETURN(const HistorySpec spec, ParseSpec(options.generate));
  uint64_t seed = 0;
  if (!absl::SimpleAtoi(options.seed, &seed)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--seed ", options.seed, ": a whole number from 0 on"));
  }
  if (!options.labels.empty()) {
    std::ofstream file(options.labels);
    file << LabelsOf(spec, seed) << '\n';
    if (!file.flush()) {
      return absl::InvalidArgumentError(absl::StrCat(options.labels, ": cannot be written"));
    }
  }
  WriteHistory(spec, seed, std::cout);
  return absl::OkStatus();
}

absl::StatusOr<Seeds> ParseSeeds(const std::string& text) {
  const std::vector<std::string> ends = absl::StrSplit(text, absl::MaxSplits("..", 1));
  Seeds seeds;
  if (absl::SimpleAtoi(ends.front(), &seeds.first) && absl::SimpleAtoi(ends.back(), &seeds.last) &&
      seeds.first <= seeds.last) {
    return seeds;
  }
  return absl::InvalidArgumentError(absl::StrCat("--seeds ", text, ": FIRST..LAST, or one number"));
}

absl::Status RunSweep(const Options& options) {
  EvaluationOptions evaluation;
  PACELINE_ASSIGN_OR_RETURN(evaluation.seeds, ParseSeeds(options.seeds));
  evaluation.peers_every = options.peers_every;
  evaluation.threads = options.threads;
  std::vector<SweepRow> rows = Sweep();
  if (!options.spec.empty()) {
    const std::string spec = absl::StrJoin(options.spec, " ");
    PACELINE_RETURN_IF_ERROR(ParseSpec(spec).status());
    rows = {{spec, spec, Claim::kHarder}};
  }
  const std::vector<RowFigures> figures = Evaluate(rows, evaluation);
  std::cout << "Seeds " << evaluation.seeds.first << " to " << evaluation.seeds.last << ".\n"
            << EvaluationTable(figures)
            << nlohmann::json{{"evaluation", EvaluationJson(figures, evaluation.seeds)}}.dump()
            << '\n';
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("How well stragglers are found.");
  auto* trace = app.add_option("--trace", options.trace,
                               "Play this CSV file; print one JSON object per verdict, then a "
                               "summary");
  auto* generate = app.add_option("--generate", options.generate,
                                  "Write a labelled history as CSV, by this SPEC");
  auto* evaluate =
      app.add_flag("--evaluate", options.evaluate,
                   "Play the sweep, or histories of one SPEC, and print figures beside the peers'");
  trace->excludes(generate)->excludes(evaluate);
  generate->excludes(evaluate);
  app.add_option("spec", options.spec, "SPEC for --evaluate")->needs(evaluate);
  app.add_option("--labels", options.labels, "Of --generate: write its slowdowns to this file, too")
      ->needs(generate);
  app.add_option("--seed", options.seed, "Of --generate")->capture_default_str();
  app.add_option("--seeds", options.seeds, "Of --evaluate, FIRST..LAST, or one")
      ->capture_default_str();
  app.add_option("--warm-up", options.warm_up_steps,
                 "Steps that --trace leaves out after a start; else those of the first 20 that are "
                 "longer than usual")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--peers-every", options.peers_every,
                 "Peers' rules get each so manieth history; 0: none")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Of --evaluate")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.footer("SPEC is a text of KEY=VALUE pairs:\n" + SpecHelp());
  CLI11_PARSE(app, argc, argv);
  absl::Status status;
  if (trace->count() > 0) {
    status = PlayTrace(options);
  } else if (generate->count() > 0) {
    status = Generate(options);
  } else if (options.evaluate) {
    status = RunSweep(options);
  } else {
    status = absl::InvalidArgumentError("one of --trace, --generate, --evaluate; see --help");
  }
  if (status.ok()) return 0;
  std::cerr << "detect: " << status.message() << '\n';
  return 1;
}

}  // namespace
}  // namespace paceline::detect

int main(int argc, char** argv) { return paceline::detect::Main(argc, argv); }
