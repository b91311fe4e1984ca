// paceline job samples: which samples of the training data entered which step of a job.
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
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
  int64_t step = -1;  // This and the next two: -1: not given.
  int64_t sample = -1;
  int64_t epoch = -1;
};

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

int ShowSummary(Program& program, const JobSamplesFlags& flags, const LedgerFiles& files) {
  const LedgerUse use = UseOf(CountedRuns(files.runs));
  nlohmann::json epochs = nlohmann::json::array();
  Table table({{"EPOCH", true},
               {"STEPS"},
               {"SAMPLES", true},
               {"ONCE", true},
               {"AGAIN", true},
               {"NEVER", true}});
  for (const EpochUse& one : use.epochs) {
    if (flags.epoch >= 0 && one.epoch != flags.epoch) continue;
    epochs.push_back({{"epoch", one.epoch},
                      {"first_step", one.first_step},
                      {"last_step", one.last_step},
                      {"samples", one.samples},
                      {"once", one.once},
                      {"again", one.again},
                      {"never", one.never}});
    table.Add({absl::StrCat(one.epoch), absl::StrCat(one.first_step, "-", one.last_step),
               absl::StrCat(one.samples), absl::StrCat(one.once), absl::StrCat(one.again),
               absl::StrCat(one.never)});
  }
  if (program.json()) {
    const nlohmann::json json = {{"first_step", use.first_step},
                                 {"last_step", use.last_step},
                                 {"epochs", epochs},
                                 {"missing_records", use.missing},
                                 {"unknown_steps", use.unknown},
                                 {"damaged_records", files.damaged}};
    program.PrintJsonText(json.dump(1));
    return kCliOk;
  }
  const PageStyle style = program.style();
  program.out() << table.Rendered(style.width, style.colours, style.headings) << std::flush;
  NoteGaps(program, use, files.damaged);
  return kCliOk;
}

int ShowStep(Program& program, int64_t step, const LedgerFiles& files) {
  nlohmann::json ranks = nlohmann::json::array();
  std::vector<int> missing;
  std::string page;
  bool known = true;
  ForEachStep(CountedRuns(files.runs), [&](const StepUse& use) {
    if (use.step != step) return;
    missing.insert(missing.end(), use.missing.begin(), use.missing.end());
    known = known && use.is_known();
    for (const int rank : use.ranks) {
      const std::vector<int64_t> samples =
          use.is_known() ? SamplesOf(use, rank) : std::vector<int64_t>();
      ranks.push_back({{"rank", rank}, {"samples", samples}});
      absl::StrAppend(&page, "rank ", rank, ": ",
                      use.is_known() ? absl::StrJoin(samples, " ") : "not known", "\n");
    }
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
  if (!missing.empty()) {
    program.Note(absl::StrCat("no record of rank ", absl::StrJoin(missing, ", ")));
  }
  return kCliOk;
}

int ShowSample(Program& program, const JobSamplesFlags& flags, const LedgerFiles& files) {
  nlohmann::json uses = nlohmann::json::array();
  Table table({{"STEP", true}, {"EPOCH", true}, {"RANK", true}});
  for (const SampleUse& use : UsesOf(CountedRuns(files.runs), flags.sample)) {
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
  const std::string directory = absl::StrCat(checkpoint.directory(), "/", job.id());
  const absl::StatusOr<LedgerFiles> files = ReadSampleLedger(directory);
  if (!files.ok()) {
    return program.Fail(absl::Status(
        files.status().code(),
        absl::StrCat(files.status().message(),
                     "; the job writes it with its first step: run this where that directory is "
                     "mounted, and as a user who may read it")));
  }
  if (flags.step >= 0) return ShowStep(program, flags.step, *files);
  return flags.sample >= 0 ? ShowSample(program, flags, *files)
                           : ShowSummary(program, flags, *files);
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
  step->excludes(sample)->excludes(epoch);
  RunWith(*verb, program, flags, ShowSamples);
}

}  // namespace paceline
