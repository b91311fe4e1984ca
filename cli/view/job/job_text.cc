#include "cli/view/job/job_text.h"

#include <string.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/text/sanitize.h"
#include "cli/text/table.h"
#include "cli/view/numbers.h"
#include "common/core/checkpoint_key.h"
#include "common/job_spec/enum_name.h"
#include "common/job_spec/job_spec.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

std::string Words(const google::protobuf::EnumDescriptor& type, int number) {
  return absl::StrReplaceAll(EnumName(type, number), {{"_", " "}});
}

std::string ChangedRanksText(const v1::MembershipChange& change) {
  if (change.ranks_before() == change.ranks_after()) return absl::StrCat(change.ranks_after());
  return absl::StrCat(change.ranks_before(), " to ", change.ranks_after());
}

int64_t PassesOf(const v1::JobSpec& spec) { return std::max(1, spec.accumulation_steps()); }

// "128 (4 ranks x 16 x 2)".
std::string BatchText(const v1::JobSpec& spec) {
  return absl::StrCat(GlobalBatch(spec), " (", spec.ranks(), spec.ranks() == 1 ? " rank" : " ranks",
                      " x ", spec.batch_per_rank(), " x ", PassesOf(spec), ")");
}

// Flags each of which alone would keep the global batch.
std::vector<std::string> FlagsThatKeep(int64_t batch, const v1::JobSpec& after,
                                       const v1::ResumeJobRequest& request) {
  std::vector<std::string> flags;
  const auto add = [&](bool free, const char* flag, int64_t others) {
    if (free && others > 0 && batch % others == 0) {
      flags.push_back(absl::StrCat(flag, " ", batch / others));
    }
  };
  const int64_t ranks = after.ranks();
  add(request.accumulation_steps() == 0, "--accumulation-steps", ranks * after.batch_per_rank());
  add(request.batch_per_rank() == 0, "--batch-per-rank", ranks * PassesOf(after));
  return flags;
}

// `Rank` is a Progress or RankTelemetry.
template <typename Rank>
std::string PhaseOf(const Rank& rank) {
  std::string text = PhaseText(rank.phase());
  if (rank.phase() == v1::EVALUATING) {
    absl::StrAppend(&text, " ", rank.evaluated_batches(), "/", rank.evaluation_batches(),
                    " batches");
  }
  return text;
}

}  // namespace

std::string JobNameText(const v1::Job& job) {
  return absl::StrCat(SanitizeLine(job.spec().name()), " (", SanitizeLine(job.id()), ")");
}

bool HasEnded(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED || state == v1::CANCELLED;
}

std::string StateText(v1::JobState state) {
  if (state == v1::JOB_STATE_UNSPECIFIED || !v1::JobState_IsValid(state)) {
    return absl::StrCat("state ", static_cast<int>(state));
  }
  return v1::JobState_Name(state);
}

std::string StateText(v1::TrainerState state) {
  if (state == v1::TRAINER_STATE_UNSPECIFIED) return "placed";
  if (!v1::TrainerState_IsValid(state)) return absl::StrCat("state ", static_cast<int>(state));
  return Words(*v1::TrainerState_descriptor(), state);
}

std::string StateText(v1::NodeState state) {
  if (state == v1::NODE_STATE_UNSPECIFIED || !v1::NodeState_IsValid(state)) {
    return absl::StrCat("state ", static_cast<int>(state));
  }
  return ShortEnumName(*v1::NodeState_descriptor(), state);
}

std::string PhaseText(v1::Phase phase) {
  if (!v1::Phase_IsValid(phase)) return absl::StrCat("phase ", static_cast<int>(phase));
  return Words(*v1::Phase_descriptor(), phase);
}

std::string PhaseText(const v1::Progress& progress) { return PhaseOf(progress); }

std::string PhaseText(const v1::RankTelemetry& rank) { return PhaseOf(rank); }

Colour StateColour(v1::JobState state) {
  switch (state) {
    case v1::RUNNING:
    case v1::STARTING:
      return Colour::kCyan;
    case v1::SUCCEEDED:
      return Colour::kGreen;
    case v1::FAILED:
      return Colour::kRed;
    case v1::QUEUED:
    case v1::STOPPING:
    case v1::RECOVERING:
      return Colour::kYellow;
    default:
      return Colour::kNone;
  }
}

Colour StateColour(v1::NodeState state) {
  switch (state) {
    case v1::NODE_READY:
      return Colour::kGreen;
    case v1::NODE_CORDONED:
    case v1::NODE_DRAINING:
    case v1::NODE_DRAINED:
      return Colour::kYellow;
    default:
      return Colour::kRed;
  }
}

std::string SignalText(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", name);
}

std::string ExitText(const v1::TrainerExit& exit) {
  const std::string message = SanitizeLine(exit.message());
  std::string text;
  if (exit.failure() == v1::FAILURE_KIND_UNSPECIFIED) {
    if (!message.empty()) return message;
    return exit.signal() != 0 ? absl::StrCat("stopped by ", SignalText(exit.signal())) : "finished";
  }
  if (exit.signal() != 0) {
    text = absl::StrCat("killed by ", SignalText(exit.signal()));
  } else if (exit.failure() == v1::FAILURE_LOST) {
    text = "lost";
  } else if (exit.failure() == v1::FAILURE_START ||
             (exit.failure() == v1::FAILURE_INPUT && exit.exit_code() == 0)) {
    text = "did not start";
  } else {
    text = absl::StrCat("exit code ", exit.exit_code());
  }
  if (exit.failure() == v1::FAILURE_OUT_OF_MEMORY) absl::StrAppend(&text, " (out of memory)");
  // A message that only repeats the same is left out.
  const bool known = exit.signal() != 0
                         ? absl::StrContains(message, SignalText(exit.signal())) &&
                               absl::StartsWith(message, "ended by signal")
                         : message == absl::StrCat("exited with code ", exit.exit_code());
  if (!message.empty() && !known) absl::StrAppend(&text, ": ", message);
  return text;
}

namespace {

// The script that an interpreter runs, else the program, which is how a shell user would call it.
std::string CommandName(const v1::JobSpec& spec) {
  const auto base = [](const std::string& path) {
    return SanitizeLine(path.substr(path.rfind('/') + 1));
  };
  const auto& command = spec.command();
  for (int i = 1; i < command.size() && absl::StrContains(command[0], "python"); ++i) {
    if (command[i] == "-m" && i + 1 < command.size()) return SanitizeLine(command[i + 1]);
    if (!absl::StartsWith(command[i], "-")) return base(command[i]);
  }
  return base(command[0]);
}

}  // namespace

std::string LabelsText(const v1::JobSpec& spec) {
  const std::map<std::string, std::string> by_key(spec.labels().begin(), spec.labels().end());
  return absl::StrJoin(by_key, ",", absl::PairFormatter("="));
}

std::string CommandText(const v1::JobSpec& spec) {
  return SanitizeLine(
      absl::StrCat(absl::StrJoin(spec.command(), " "), " in ",
                   spec.has_code() ? "the folder of its code" : spec.working_directory()));
}

std::string CodeText(const v1::Code& code) {
  return absl::StrCat(code.files(), code.files() == 1 ? " file, " : " files, ",
                      BytesText(code.bytes()));
}

bool MakesSteps(const v1::Job& job) { return HasEngine(job.spec()) || job.progress().step() > 0; }

std::string StepsDoneText(const v1::Job& job, absl::string_view of) {
  if (!MakesSteps(job)) return "";
  const int64_t steps = job.spec().steps();
  return steps > 0 ? absl::StrCat(job.progress().step(), of, steps)
                   : absl::StrCat(job.progress().step());
}

std::string ModelText(const v1::JobSpec& spec) {
  if (!spec.command().empty()) return CommandName(spec);
  const v1::Model& model = spec.model();
  if (model.has_resnet18()) return "resnet18";
  if (model.has_torchscript()) return "torchscript";
  if (model.has_compiled()) return "compiled";
  if (model.has_llama()) {
    return absl::StrCat("llama ", EnumName(*v1::LlamaPreset_descriptor(), model.llama().preset()));
  }
  if (!model.has_mlp()) return "";
  std::string text = "mlp ";
  for (int i = 0; i < model.mlp().hidden_size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "-", model.mlp().hidden(i));
  }
  return text;
}

absl::Time TimeOf(bool set, const google::protobuf::Timestamp& timestamp) {
  if (!set) return absl::InfinitePast();
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

std::string LastHeardText(const google::protobuf::Timestamp& heard, absl::Time now) {
  const absl::Duration age = std::max(now - TimeOf(true, heard), absl::ZeroDuration());
  return absl::StrCat("last heard ", DurationText(absl::ToDoubleSeconds(age)), " ago");
}

std::string LocalTimeText(absl::Time moment, const char* format) {
  if (moment == absl::InfinitePast()) return "-";
  const time_t seconds = absl::ToTimeT(moment);
  struct tm local = {};
  localtime_r(&seconds, &local);
  char text[32] = "";
  strftime(text, sizeof(text), format, &local);
  return text;
}

std::string MomentText(absl::Time moment, absl::Time now) {
  if (moment == absl::InfinitePast()) return "-";
  const std::string ago = DurationText(absl::ToDoubleSeconds(now - moment));
  return absl::StrCat(LocalTimeText(moment, kDateAndTime),
                      ago == "-" ? "" : absl::StrCat(" (", ago, " ago)"));
}

double RunSeconds(const v1::Job& job, absl::Time now) {
  if (!job.has_start_time()) return -1;
  const absl::Time start = TimeOf(true, job.start_time());
  const absl::Time end = job.has_end_time() ? TimeOf(true, job.end_time()) : now;
  return absl::ToDoubleSeconds(end - start);
}

bool HasAccuracy(const v1::Job& job) {
  return job.evaluation().has_accuracy() && job.evaluation().step() <= job.progress().step();
}

int64_t StepsBefore(const v1::Job& job) {
  const absl::string_view directory = job.restored_from();
  const auto key = ParseCheckpointName(directory.substr(directory.rfind('/') + 1));
  return key.has_value() ? key->step : 0;
}

std::string OtherRanksText(const v1::Job& job) {
  const int more = job.ranks_size() - job.spec().ranks();
  if (job.ranks().empty() || more == 0) return "";
  if (more > 0) {
    return absl::StrCat(job.ranks_size(), " ranks, ", more, " more than the ", job.spec().ranks(),
                        " wanted");
  }
  return absl::StrCat(job.ranks_size(), " of ", job.spec().ranks(), " ranks");
}

int RanksNow(const v1::Job& job) {
  return job.ranks().empty() ? job.spec().ranks() : job.ranks_size();
}

std::string RanksText(const v1::Job& job) {
  const int wanted = job.spec().ranks();
  const int ranks = RanksNow(job);
  const v1::Recovery& recovery = job.spec().recovery();
  if (recovery.max_ranks() > 0) {
    return absl::StrCat(ranks, " (", recovery.min_ranks(), "..", recovery.max_ranks(), ")");
  }
  return ranks == wanted ? absl::StrCat(ranks) : absl::StrCat(ranks, " of ", wanted);
}

std::string ChangeTable(const v1::Job& job, absl::Time now, int width, bool colours,
                        ReportedOnce* reported) {
  if (job.membership_changes().empty()) return "";
  Table table({{"GENERATION", true},
               {"AGO", true},
               {"TOOK", true},
               {"RANKS"},
               {"STEP", true},
               {"KIND"},
               {"WHY"}});
  for (const v1::MembershipChange& change : job.membership_changes()) {
    const bool newest = change.generation() == job.generation() && !HasEnded(job.state());
    const absl::Time begun = TimeOf(true, change.begin_time());
    const bool done = change.has_end_time();
    const double took = done ? absl::ToDoubleSeconds(TimeOf(true, change.end_time()) - begun) : 0;
    table.Add({absl::StrCat(change.generation()), DurationText(absl::ToDoubleSeconds(now - begun)),
               done     ? ShortDurationText(took)
               : newest ? "under way"
                        : "not done",
               ChangedRanksText(change), done ? absl::StrCat(change.step()) : "",
               change.planned() ? "planned" : "failure",
               TellOnce(reported, SanitizeLine(change.reason()))});
  }
  return table.Rendered(width, colours);
}

std::string RestartCause(const v1::Job& job) {
  absl::string_view cause = job.restart_reason();
  const std::string number = absl::StrCat("restart ", job.restarts());
  if (!absl::ConsumePrefix(&cause, absl::StrCat(number, " of ", job.spec().max_restarts(), ": "))) {
    absl::ConsumePrefix(&cause, absl::StrCat(number, ": "));
  }
  return SanitizeLine(cause);
}

std::string RestartsOf(const v1::Job& job) {
  // Without max_restarts the recovery's own budget applies.
  if (job.spec().max_restarts() == 0) return absl::StrCat(job.restarts());
  return absl::StrCat(job.restarts(), " of ", job.spec().max_restarts());
}

int64_t GlobalBatch(const v1::JobSpec& spec) {
  return int64_t{spec.ranks()} * spec.batch_per_rank() * PassesOf(spec);
}

std::string BatchChangeText(const v1::JobSpec& before, const v1::JobSpec& after,
                            const v1::ResumeJobRequest& request) {
  const int64_t batch = GlobalBatch(before);
  if (GlobalBatch(after) == batch) return "";
  const std::vector<std::string> flags = FlagsThatKeep(batch, after, request);
  return absl::StrCat(
      "the global batch was ", BatchText(before), " and is now ", BatchText(after), "; ",
      flags.empty()
          ? absl::StrCat("--ranks x --batch-per-rank x --accumulation-steps = ", batch, " keeps it")
          : absl::StrCat(absl::StrJoin(flags, " or "), " keeps it"));
}

}  // namespace paceline
