// paceline job samples: which samples of the training data entered which step of a job.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/text/sanitize.h"
#include "cli/text/table.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"
#include "worker/trainer/core/sample_use.h"
#include "worker/trainer/saving/sample_ledger.h"

namespace paceline {
namespace {

struct JobSamplesFlags {
  std::string job;
  int64_t step = -1;  // This and the next three: -1: not given.
  int64_t sample = -1;
  int64_t epoch = -1;
  int64_t source = -1;
};

// Of a job that trains on a mixture, the file of each source.
using Sources = std::vector<std::string>;

Sources SourcesOf(const v1::Data& data) {
  Sources sources;
  if (data.sources().empty() || data.sources(0).weight() == 0) return sources;
  for (const v1::DataSource& source : data.sources()) sources.push_back(source.path());
  return sources;
}

void NoteSources(Program& program, const Sources& sources) {
  for (size_t i = 0; i < sources.size(); ++i) {
    program.Note(absl::StrCat("source ", i, " is ", SanitizeLine(sources[i])));
  }
}

// What people do not see in a table: what is missing in it.
void NoteGaps(Program& program, const LedgerUse& use, int64_t damaged) {
  if (use.first_step > 0) {
    program.Note(absl::StrCat("steps below ", use.first_step,
                              " were made before there was this ledger, or by another job"));
  }
  if (use.missing > 0) {
    program.Note(absl::StrCat(use.missing,
                              " records of a rank's step are missing: the rank was lost with it, "
                              "or could not write it; its samples count as never used"));
  }
  if (use.unknown > 0) {
    program.Note(absl::StrCat("the samples of ", use.unknown,
                              " steps are not known: they did not come from run.loader"));
  }
  if (damaged > 0) {
    program.Note(absl::StrCat(damaged, " records of the ledger are damaged, and left out"));
  }
}

Table TableOfEpochs(bool mixed) {
  std::vector<Table::Column> columns = {{"EPOCH", true}, {"STEPS"},       {"SAMPLES", true},
                                        {"ONCE", true},  {"AGAIN", true}, {"NEVER", true}};
  if (mixed) columns.insert(columns.begin(), Table::Column{"SOURCE", true});
  return Table(std::move(columns));
}

void AddEpoch(const EpochUse& use, bool mixed, nlohmann::json* epochs, Table* table) {
  nlohmann::json json = {{"epoch", use.epoch},         {"first_step", use.first_step},
                         {"last_step", use.last_step}, {"samples", use.samples},
                         {"once", use.once},           {"again", use.again},
                         {"never", use.never}};
  std::vector<Table::Cell> cells = {
      absl::StrCat(use.epoch),   absl::StrCat(use.first_step, "-", use.last_step),
      absl::StrCat(use.samples), absl::StrCat(use.once),
      absl::StrCat(use.again),   absl::StrCat(use.never)};
  if (mixed) {
    json["source"] = use.source;
    cells.insert(cells.begin(), Table::Cell(absl::StrCat(use.source)));
  }
  epochs->push_back(json);
  table->Add(std::move(cells));
}

int ShowSummary(Program& program, const JobSamplesFlags& flags, const LedgerFiles& files,
                const Sources& sources) {
  const LedgerUse use = UseOf(CountedRuns(files.runs));
  nlohmann::json epochs = nlohmann::json::array();
  Table table = TableOfEpochs(!sources.empty());
  for (const EpochUse& one : use.epochs) {
    if (flags.epoch >= 0 && one.epoch != flags.epoch) continue;
    if (flags.source >= 0 && one.source != flags.source) continue;
    AddEpoch(one, !sources.empty(), &epochs, &table);
  }
  if (program.json()) {
    nlohmann::json json = {{"first_step", use.first_step},
                           {"last_step", use.last_step},
                           {"epochs", epochs},
                           {"missing_records", use.missing},
                           {"unknown_steps", use.unknown},
                           {"damaged_records", files.damaged}};
    if (!sources.empty()) json["sources"] = sources;
    program.PrintJsonText(json.dump(1));
    return kCliOk;
  }
  const PageStyle style = program.style();
  program.out() << table.Rendered(style.width, style.colours, style.headings) << std::flush;
  NoteSources(program, sources);
  NoteGaps(program, use, files.damaged);
  return kCliOk;
}

// Samples of a step, as they are shown: "17", and of a mixture "2:17", with the number of the
// source first. In JSON, a mixture's sources are a list beside the samples.
void AddRank(const StepUse& use, int rank, nlohmann::json* ranks, std::string* page) {
  std::vector<int64_t> samples = use.is_known() ? SamplesOf(use, rank) : std::vector<int64_t>();
  std::vector<std::string> texts;
  std::vector<int> sources;
  for (int64_t& sample : samples) {
    if (use.as.mixture == nullptr) {
      texts.push_back(absl::StrCat(sample));
      continue;
    }
    sources.push_back(use.as.mixture->SourceOf(sample));
    sample -= use.as.mixture->FirstOf(sources.back());
    texts.push_back(absl::StrCat(sources.back(), ":", sample));
  }
  nlohmann::json json = {{"rank", rank}, {"samples", samples}};
  if (use.as.mixture != nullptr) json["sources"] = sources;
  ranks->push_back(json);
  absl::StrAppend(page, "rank ", rank, ": ",
                  use.is_known() ? absl::StrJoin(texts, " ") : "not known", "\n");
}

int ShowStep(Program& program, int64_t step, const LedgerFiles& files, const Sources& sources) {
  nlohmann::json ranks = nlohmann::json::array();
  std::vector<int> missing;
  std::string page;
  bool known = true;
  ForEachStep(CountedRuns(files.runs), [&](const StepUse& use) {
    if (use.step != step) return;
    missing.insert(missing.end(), use.missing.begin(), use.missing.end());
    known = known && use.is_known();
    for (const int rank : use.ranks) AddRank(use, rank, &ranks, &page);
  });
  if (ranks.empty()) {
    return program.Fail(kCliNotFound,
                        absl::StrCat("there is no record of step ", step,
                                     "; `paceline job samples JOB` says which steps there are"));
  }
  if (program.json()) {
    const nlohmann::json json = {
        {"step", step}, {"known", known}, {"ranks", ranks}, {"missing_ranks", missing}};
    program.PrintJsonText(json.dump(1));
    return kCliOk;
  }
  program.out() << page << std::flush;
  NoteSources(program, sources);
  if (!missing.empty()) {
    program.Note(absl::StrCat("no record of rank ", absl::StrJoin(missing, ", ")));
  }
  return kCliOk;
}

int ShowSample(Program& program, const JobSamplesFlags& flags, const LedgerFiles& files) {
  nlohmann::json uses = nlohmann::json::array();
  Table table({{"STEP", true}, {"EPOCH", true}, {"RANK", true}});
  const int source = static_cast<int>(std::max<int64_t>(flags.source, 0));
  for (const SampleUse& use : UsesOf(CountedRuns(files.runs), flags.sample, source)) {
    if (flags.epoch >= 0 && use.epoch != flags.epoch) continue;
    uses.push_back({{"step", use.step}, {"epoch", use.epoch}, {"rank", use.rank}});
    table.Add({absl::StrCat(use.step), absl::StrCat(use.epoch), absl::StrCat(use.rank)});
  }
  if (program.json()) {
    const nlohmann::json json = {{"sample", flags.sample}, {"uses", uses}};
    program.PrintJsonText(json.dump(1));
    return kCliOk;
  }
  if (uses.empty()) {
    program.Note(absl::StrCat("sample ", flags.sample, " is in no step that has a record"));
    return kCliOk;
  }
  const PageStyle style = program.style();
  program.out() << table.Rendered(style.width, style.colours, style.headings) << std::flush;
  return kCliOk;
}

// What is wrong with --source; empty: nothing.
std::string SourceProblem(const JobSamplesFlags& flags, const Sources& sources) {
  if (sources.empty()) {
    return flags.source >= 0 ? "the job trains on no mixture; leave --source out" : "";
  }
  const size_t last = sources.size() - 1;
  if (flags.source > static_cast<int64_t>(last)) {
    return absl::StrCat("--source is ", flags.source, "; the job has the sources 0 to ", last);
  }
  if (flags.sample < 0 || flags.source >= 0) return "";
  return absl::StrCat("a sample is one of a source; give --source too, from 0 to ", last);
}

int ShowSamples(Program& program, const JobSamplesFlags& flags) {
  v1::Job job;
  const grpc::Status status = GetJob(program, flags.job, &job);
  if (!status.ok()) return program.Fail(status);
  const v1::CheckpointPolicy& checkpoint = job.spec().checkpoint();
  if (!checkpoint.sample_ledger()) {
    return program.Fail(kCliRefused,
                        absl::StrCat(SanitizeLine(job.id()),
                                     " keeps no ledger of its samples; a job does whose file says "
                                     "`checkpoint: {directory: ..., sample_ledger: true}`"));
  }
  const Sources sources = SourcesOf(job.spec().data());
  if (const std::string problem = SourceProblem(flags, sources); !problem.empty()) {
    return program.Fail(kCliUsage, problem);
  }
  const std::string directory = absl::StrCat(checkpoint.directory(), "/", job.id());
  const absl::StatusOr<LedgerFiles> files = ReadSampleLedger(directory);
  if (!files.ok()) {
    return program.Fail(absl::Status(
        files.status().code(),
        absl::StrCat(files.status().message(),
                     "; the job writes it with its first step: run this where that directory is "
                     "mounted, and as a user who may read it")));
  }
  if (flags.step >= 0) return ShowStep(program, flags.step, *files, sources);
  return flags.sample >= 0 ? ShowSample(program, flags, *files)
                           : ShowSummary(program, flags, *files, sources);
}

}  // namespace

void AddJobSamples(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<JobSamplesFlags>();
  CLI::App* verb = parent.add_subcommand(
      "samples", "Show which samples of the data entered which step, and what an epoch left out");
  AddJob(*verb, flags->job);
  CLI::Option* step =
      verb->add_option("--step", flags->step, "The samples of this step, counted from 0")
          ->check(WholeNumber(0, INT64_MAX));
  CLI::Option* sample =
      verb->add_option("--sample", flags->sample, "The steps that had this sample of the data")
          ->check(WholeNumber(0, INT64_MAX));
  CLI::Option* epoch = verb->add_option("--epoch", flags->epoch, "Only this epoch, from 0")
                           ->check(WholeNumber(0, INT64_MAX));
  CLI::Option* source =
      verb->add_option("--source", flags->source,
                       "Of a mixture: only this file of data.train, from 0; --sample counts in it")
          ->check(WholeNumber(0, INT32_MAX));
  step->excludes(sample)->excludes(epoch)->excludes(source);
  RunWith(*verb, program, flags, ShowSamples);
}

}  // namespace paceline
