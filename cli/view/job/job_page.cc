#include "cli/view/job/job_page.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/job_file/job_file.h"
#include "cli/text/sanitize.h"
#include "cli/text/table.h"
#include "cli/view/checkpoint/checkpoint_text.h"
#include "cli/view/job/figures_text.h"
#include "cli/view/job/job_text.h"
#include "cli/view/job/strategy_text.h"
#include "cli/view/numbers.h"
#include "common/job_spec/job_spec.h"
#include "common/job_spec/ladder_text.h"
#include "proto/status.pb.h"

namespace paceline {
namespace {

// As wide as the labels of lines.
constexpr absl::string_view kMargin = "            ";

// So many replicas that are on several nodes are named.
constexpr size_t kReplicasReported = 4;

std::string EvaluationText(const v1::EvaluationResult& result) {
  return absl::StrCat(
      result.has_accuracy() ? absl::StrCat("accuracy ", PercentText(result.accuracy()), ", ") : "",
      "loss ", LossText(result.loss()), " on ", result.samples(), " samples after step ",
      result.step());
}

// Adds labels and description, whose further lines are below the first.
void AddAbout(std::string* page, const v1::JobSpec& spec) {
  AddLine(page, "Labels", SanitizeLine(LabelsText(spec)));
  const std::string lines = Indented(spec.description(), kMargin);
  AddLine(page, "About", absl::StripSuffix(absl::StripPrefix(lines, kMargin), "\n"));
}

// Adds a block of text unless it is empty.
void AddBlock(std::string* page, absl::string_view heading, const std::string& text) {
  if (!text.empty()) absl::StrAppend(page, "\n", heading, ":\n", text);
}

std::string PlanText(const v1::Job& job) {
  const v1::JobPlan& plan = job.plan();
  std::string text = absl::StrCat("version ", plan.version());
  if (plan.active_version() == plan.version()) {
    absl::StrAppend(&text, " since step ", plan.active_since_step());
  } else if (HasEnded(job.state())) {
    absl::StrAppend(&text, " was never taken up");
    if (plan.active_version() > 0) {
      absl::StrAppend(&text, ", version ", plan.active_version(), " since step ",
                      plan.active_since_step());
    }
  } else if (plan.active_version() > 0) {
    absl::StrAppend(&text, " is being prepared, version ", plan.active_version(), " since step ",
                    plan.active_since_step());
  }
  const std::string failure = PlanFailureText(job);
  if (!failure.empty()) absl::StrAppend(&text, "; ", failure);
  return text;
}

std::string ProgressFacts(const v1::Job& job) {
  const v1::JobProgress& progress = job.progress();
  std::string text = absl::StrCat("step ", StepsDoneText(job, " of "));
  if (progress.step() == 0) return text;
  absl::StrAppend(&text, ", ");
  if (const std::string loss = KnownLossText(progress.loss()); !loss.empty()) {
    absl::StrAppend(&text, "loss ", loss, ", ");
  }
  if (const std::string pace = PaceText(job); !pace.empty()) {
    absl::StrAppend(&text, pace, ", ");
  }
  if (progress.has_mfu()) absl::StrAppend(&text, "MFU ", PercentText(progress.mfu()), ", ");
  absl::StrAppend(&text, DurationText(progress.training_s()), " of training");
  return text;
}

// One line for each file that the job trains on; of a mixture, with its weight.
void AddData(const v1::Data& data, std::vector<std::string>* lines) {
  constexpr int kHashShown = 12;
  const auto add = [lines](const std::string& path, double weight, const std::string& hash) {
    std::string line = absl::StrCat("data ", path);
    if (weight != 0) absl::StrAppend(&line, ", weight ", weight);
    if (!hash.empty()) absl::StrAppend(&line, ", hash ", hash.substr(0, kHashShown));
    lines->push_back(line);
  };
  if (!data.train().empty()) add(data.train(), 0, data.train_hash());
  for (const v1::DataSource& source : data.sources()) {
    add(source.path(), source.weight(), source.hash());
  }
}

// Adds the checkpoint, or else the weights, that the job began with, and its data. Its code has a
// line of its own.
void AddOrigin(std::string* page, const v1::Job& job) {
  std::vector<std::string> lines;
  if (job.has_made_from()) {
    const v1::JobOrigin& origin = job.made_from();
    const std::string saved = origin.job().empty() ? ""
                                                   : absl::StrCat(origin.job(), "/", origin.step(),
                                                                  ".g", origin.generation(), ", ");
    lines.push_back(absl::StrCat("checkpoint ", saved, origin.directory()));
  }
  const v1::JobSpec& spec = job.spec();
  if (!spec.init_from().empty()) lines.push_back(absl::StrCat("weights ", spec.init_from()));
  AddData(spec.data(), &lines);
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string line = SanitizeLine(lines[i]);
    if (i == 0) {
      AddLine(page, "Made from", line);
    } else {
      absl::StrAppend(page, kMargin, line, "\n");
    }
  }
}

// What the job's scripts have made, by name; empty: nothing. Hashes in full only if it is wide.
std::string ArtifactTable(const v1::Job& job, const PageStyle& style) {
  if (job.artifacts().empty()) return "";
  constexpr int kHashShown = 12;
  Table table({{"NAME"}, {"STEP", true}, {"SIZE", true}, {"SHA256"}, {"NODE"}, {"PATH"}});
  for (const v1::Artifact& artifact : job.artifacts()) {
    const std::string& sha256 = artifact.sha256();
    const bool settled = !sha256.empty() || !artifact.error().empty();
    table.Add({artifact.name(), absl::StrCat(artifact.step()),
               sha256.empty() ? "" : BytesText(artifact.bytes()),
               !settled     ? "not known yet"
               : style.wide ? sha256
                            : sha256.substr(0, kHashShown),
               artifact.node(),
               absl::StrCat(artifact.path(), artifact.directory() ? "/" : "",
                            artifact.error().empty() ? "" : ": ", artifact.error())});
  }
  std::string text = table.Rendered(style.width, style.colours);
  if (job.artifacts_left_out()) {
    absl::StrAppend(&text, "  and more names, of which only ", job.artifacts_size(), " are kept\n");
  }
  return text;
}

// What a rank that is heard of is doing: "forward"; "rehearses forward" of a spare that makes a
// step before it is ready, as no other rank that starts is in a phase. Empty: nothing that is
// known.
std::string DoingText(const v1::Rank& rank) {
  if (rank.state() == v1::TRAINER_RUNNING) return PhaseText(rank.progress());
  const bool rehearses =
      rank.state() == v1::TRAINER_STARTING && rank.progress().phase() != v1::IDLE;
  return rehearses ? absl::StrCat("rehearses ", PhaseText(rank.progress())) : "";
}

std::string RankTable(const v1::Job& job, absl::Time now, const PageStyle& style,
                      ReportedOnce* reported) {
  Table table({{"RANK", true},
               {"NODE"},
               {"PID", true},
               {"STATE"},
               {"STEP", true},
               {"PHASE"},
               {"FOR", true},
               {"LOSS", true},
               {"SAMPLES/S", true},
               {"EXIT"}});
  const auto add = [&](const std::string& name, const v1::Rank& rank) {
    const bool unreachable = rank.has_last_heard();  // Its report dates from then.
    const bool trains = rank.state() == v1::TRAINER_RUNNING && !unreachable;
    const std::string doing = unreachable ? "" : DoingText(rank);
    const bool stepped =
        rank.progress().step_s() > 0 && !unreachable;  // The rank itself made steps.
    const bool failed = rank.exit().failure() != v1::FAILURE_KIND_UNSPECIFIED;
    table.Add({name,
               rank.node(),
               rank.pid() == 0 ? "" : absl::StrCat(rank.pid()),
               {unreachable ? LastHeardText(rank.last_heard(), now) : StateText(rank.state()),
                failed        ? Colour::kRed
                : unreachable ? Colour::kYellow
                              : Colour::kNone},
               absl::StrCat(rank.progress().step()),
               doing,
               doing.empty() ? "" : DurationText(rank.progress().phase_s()),
               stepped ? KnownLossText(rank.progress().loss()) : "",
               stepped && trains ? RateText(rank.progress().samples_per_s()) : "",
               rank.has_exit() ? TellOnce(reported, ExitText(rank.exit())) : ""});
  };
  for (const v1::Rank& rank : job.ranks()) add(absl::StrCat(rank.rank()), rank);
  for (const v1::Rank& spare : job.spares()) add("spare", spare);
  return table.Rendered(style.width, style.colours);
}

// Adds the collectives that its ranks are in, and since when that is known.
void AddCollectives(std::string* page, const v1::Job& job, absl::Time now) {
  if (!job.has_collectives()) return;
  const v1::JobCollectives& collectives = job.collectives();
  AddLine(page, "Collective",
          absl::StrCat(collectives.findings().empty() ? "no rank waits in one, " : "", "as of ",
                       MomentText(TimeOf(true, collectives.time()), now)));
  for (const std::string& finding : collectives.findings()) {
    absl::StrAppend(page, "  ", SanitizeLine(finding), "\n");
  }
}

// Adds what copies in host memory protect, and since when.
void AddCopies(std::string* page, const v1::Job& job, absl::Time now) {
  if (!job.has_copies() || HasEnded(job.state())) return;
  const v1::JobCopies& copies = job.copies();
  std::string text;
  if (copies.has_time()) {
    text = absl::StrCat("since ", MomentText(TimeOf(true, copies.time()), now), ": ");
  }
  absl::StrAppend(&text, SanitizeLine(copies.protection()));
  AddLine(page, "Protected", text);
}

// The same of a sharded job, of which no rank has all weights.
std::string PlaceOfShards(const v1::Job& job) {
  if (job.checkpoints().complete() == 0) {
    return "not kept: the job is sharded, and no checkpoint of it is complete";
  }
  const int64_t step = job.checkpoints().newest_step();
  const std::string behind =
      step < job.spec().steps() ? absl::StrCat(" (after step ", step, ", the newest)") : "";
  return absl::StrCat("in shards, in a checkpoint", behind, ": paceline checkpoint export ",
                      SanitizeLine(job.id()), "/", step, " --to FILE.safetensors");
}

// Where the weights are at the end, for people.
std::vector<std::string> PlacesOfWeights(const v1::Job& job) {
  const v1::JobSpec& spec = job.spec();
  if (!KeepsWeights(spec)) {
    return {"not kept, as the job file has neither checkpoint.directory nor export_final"};
  }
  if (spec.shards() > 1) return {PlaceOfShards(job)};
  std::vector<std::string> places;
  // They are beside the last checkpoint.
  const v1::SaveOrderStatus& order = job.checkpoints().order();
  const bool elsewhere = !order.directory().empty() && order.step() == spec.steps() &&
                         order.state() == v1::SaveOrderStatus::COMPLETE;
  const std::string& base = elsewhere ? order.directory() : spec.checkpoint().directory();
  if (!base.empty()) {
    places.push_back(
        absl::StrCat(SanitizeLine(base), "/", SanitizeLine(job.id()), "/final.safetensors"));
  }
  if (!spec.export_final().empty()) {
    const std::string name = SanitizeLine(absl::StripSuffix(spec.export_final(), ".safetensors"));
    const int ranks = RanksNow(job);
    const std::string last = absl::StrCat(" to ", ".rank", ranks - 1, ".safetensors");
    places.push_back(absl::StrCat(name, ".rank0.safetensors", ranks > 1 ? last : std::string()));
  }
  return places;
}

}  // namespace

std::string FailureText(const v1::Job& job, const PageStyle& style, ReportedOnce* reported) {
  if (!job.has_failure()) return "";
  const v1::JobFailure& failure = job.failure();
  const v1::TrainerExit& exit = failure.exit();
  const std::string what =
      absl::StrCat("rank ", failure.rank(), " on node ", SanitizeLine(failure.node()),
                   " failed: ", TellOnce(reported, ExitText(exit)));
  std::string text = absl::StrCat(Painted(what, Colour::kRed, style.colours), "\n");
  const bool trained = exit.step() > 0 || exit.phase() != v1::IDLE;
  if (trained) {
    absl::StrAppend(&text, "  in step ", exit.step(), ", phase ", PhaseText(exit.phase()), " for ",
                    DurationText(exit.phase_s()), "\n");
  }
  if (!exit.log_tail().empty()) {
    absl::StrAppend(&text, "  its last log lines:\n", Indented(exit.log_tail(), "    "));
  }
  return text;
}

bool KeepsWeights(const v1::JobSpec& spec) {
  return !spec.command().empty() || !spec.checkpoint().directory().empty() ||
         !spec.export_final().empty();
}

// "4 ready", "3 ready, 1 importing", "none: its imports open /dev/nvidia0": standby interpreters of
// a command; empty: nothing is known of them.
std::string StandbyText(const v1::Job& job) {
  std::map<std::string, int> counts;
  for (const v1::Rank& rank : job.ranks()) {
    if (!rank.standby().empty()) ++counts[SanitizeLine(rank.standby())];
  }
  if (counts.size() == 1 && absl::StartsWith(counts.begin()->first, "none")) {
    return counts.begin()->first;
  }
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& one) {
    absl::StrAppend(out, one.second, " ", one.first);
  });
}

// Of a sharded job: "2 of 4 ranks each, 1 on one node; replica 1 is on a, b".
std::string ReplicasText(const v1::Job& job) {
  const int shards = job.spec().shards();
  if (shards <= 1 || job.ranks_size() == 0) return "";
  std::map<int, std::set<std::string>> nodes;  // By replica.
  for (const v1::Rank& rank : job.ranks()) nodes[rank.rank() / shards].insert(rank.node());
  const auto on_one = std::count_if(nodes.begin(), nodes.end(),
                                    [](const auto& entry) { return entry.second.size() == 1; });
  std::string text =
      absl::StrCat(nodes.size(), " of ", shards, " ranks each, ", on_one, " on one node");
  size_t left = kReplicasReported;
  for (const auto& [replica, names] : nodes) {
    if (names.size() == 1) continue;
    if (left-- == 0) return absl::StrCat(text, "; and so on");
    absl::StrAppend(&text, "; replica ", replica, " is on ", absl::StrJoin(names, ", "));
  }
  return text;
}

std::string SummaryText(const v1::Job& job, absl::Time now, const PageStyle& style,
                        ReportedOnce* reported) {
  const v1::JobProgress& progress = job.progress();
  std::string text =
      absl::StrCat(JobNameText(job), " ",
                   Painted(StateText(job.state()), StateColour(job.state()), style.colours));
  if (MakesSteps(job)) absl::StrAppend(&text, ": ", StepsDoneText(job, " of "), " steps");
  const double run = RunSeconds(job, now);
  const int64_t before = StepsBefore(job);
  if (run >= 0 && before > 0 && progress.step() > before)
    absl::StrAppend(&text, ", the last ", progress.step() - before);
  if (run >= 0) absl::StrAppend(&text, " in ", DurationText(run));
  if (const std::string pace = PaceText(job); !pace.empty()) {
    absl::StrAppend(&text, ", ", pace);
  }
  if (HasAccuracy(job)) {
    absl::StrAppend(&text, ", accuracy ", PercentText(job.evaluation().accuracy()));
  }
  absl::StrAppend(&text, "\n");
  // The failure includes the reason.
  if (job.state() != v1::SUCCEEDED && !job.has_failure() && !job.reason().empty()) {
    absl::StrAppend(&text, "  ", TellOnce(reported, SanitizeLine(job.reason())), "\n");
  }
  if (job.state() == v1::SUCCEEDED && HasEngine(job.spec())) {
    for (const std::string& place : PlacesOfWeights(job)) {
      absl::StrAppend(&text, "  weights: ", place, "\n");
    }
  }
  return text;
}

std::string JobFileText(const v1::JobSpec& spec, const PageStyle& style) {
  const auto shown = style.wide ? ShownKeys::kAll : ShownKeys::kGiven;
  return absl::StrCat("Job file",
                      style.wide ? ":" : ", without defaults (-o wide shows them):", "\n",
                      Indented(SpecAsJobFile(spec, shown), "  "));
}

std::string JobPage(const v1::Job& job, absl::Time now, const PageStyle& style) {
  ReportedOnce once;
  ReportedOnce* const reported = style.wide ? nullptr : &once;
  std::string page;
  AddLine(&page, "Name", SanitizeLine(job.spec().name()));
  AddLine(&page, "Id", SanitizeLine(job.id()));
  AddLine(&page, "State", Painted(StateText(job.state()), StateColour(job.state()), style.colours));
  AddLine(&page, "Reason", TellOnce(reported, SanitizeLine(job.reason())));
  AddLine(&page, "Submitter", SanitizeLine(job.submitter()));
  AddAbout(&page, job.spec());
  AddLine(&page, "Created", MomentText(TimeOf(job.has_create_time(), job.create_time()), now));
  if (job.has_start_time()) {
    AddLine(&page, "Started", MomentText(TimeOf(true, job.start_time()), now));
  }
  if (job.has_end_time()) AddLine(&page, "Ended", MomentText(TimeOf(true, job.end_time()), now));
  const double run = RunSeconds(job, now);
  if (run >= 0) AddLine(&page, "Ran", DurationText(run));
  if (job.generation() > 0) AddLine(&page, "Generation", absl::StrCat(job.generation()));
  if (const std::string other = OtherRanksText(job); !other.empty()) {
    AddLine(&page, job.ranks_size() > job.spec().ranks() ? "Grown" : "Shrunk", other);
  }
  if (const std::string replicas = ReplicasText(job); !replicas.empty()) {
    AddLine(&page, "Replicas", SanitizeLine(replicas));
  }
  if (!job.spec().command().empty()) AddLine(&page, "Command", CommandText(job.spec()));
  if (job.spec().has_code()) {
    AddLine(&page, "Code",
            SanitizeLine(absl::StrCat(CodeText(job.spec().code()), ", sha256 ",
                                      job.spec().code().sha256())));
  }
  AddOrigin(&page, job);
  if (const std::string standby = StandbyText(job); !standby.empty()) {
    AddLine(&page, "Standby", standby);
  }
  AddCollectives(&page, job, now);
  AddCopies(&page, job, now);
  if (job.plan().version() > 0 && HasEngine(job.spec())) {
    AddLine(&page, "Strategy", StrategyInUse(job.spec().strategy(), job.plan().strategy()));
    AddLine(&page, "Plan", PlanText(job));
    AddLine(&page, "Rounds", RoundsText(job));
  }
  AddCheckpointLines(&page, job, now, reported);
  if (MakesSteps(job)) AddLine(&page, "Progress", ProgressFacts(job));
  if (HasEngine(job.spec())) AddLine(&page, "FLOPs", FlopsFacts(job));
  if (job.has_evaluation()) AddLine(&page, "Evaluation", EvaluationText(job.evaluation()));
  if (job.has_failure()) absl::StrAppend(&page, "\n", FailureText(job, style, reported));
  if (job.ranks_size() > 0) AddBlock(&page, "Ranks", RankTable(job, now, style, reported));
  AddBlock(&page, "Changes of membership",
           ChangeTable(job, now, style.width, style.colours, reported));
  AddBlock(&page, "Figures", FigureTable(job, style.width, style.colours));
  AddBlock(&page, "Rounds", RoundTable(job, style.width, style.colours));
  AddBlock(&page, "Artifacts", ArtifactTable(job, style));
  if (job.has_profile()) {
    absl::StrAppend(&page, "\nProfile ", job.profile().request().id(), ":\n",
                    ProfileTable(job, style.width, style.colours));
  }
  absl::StrAppend(&page, "\n", JobFileText(job.spec(), style));
  return page;
}

}  // namespace paceline
