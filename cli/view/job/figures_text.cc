#include "cli/view/job/figures_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/text/sanitize.h"
#include "cli/text/table.h"
#include "cli/view/job/job_text.h"
#include "cli/view/numbers.h"
#include "common/job_spec/enum_name.h"
#include "proto/job_spec.pb.h"
#include "proto/plan.pb.h"
#include "proto/status.pb.h"

namespace paceline {
namespace {

struct FigureColumn {
  const char* heading;
  // Returns an empty string if the rank has no such figure.
  std::string (*text)(const v1::RankFigures& figures);
};

// With the source of their number.
std::string FlopsText(const v1::RankFigures& figures) {
  if (figures.flops_source() == v1::FLOPS_SOURCE_UNSPECIFIED) return "";
  return absl::StrCat(FlopRateText(figures.flops_per_s()), ", ",
                      EnumName(*v1::FlopsSource_descriptor(), figures.flops_source()));
}

std::string NormText(double norm) { return std::isnan(norm) ? "" : LossText(norm); }

const FigureColumn kColumns[] = {
    {"TOKENS/S",
     [](const v1::RankFigures& f) {
       return f.tokens_per_s() > 0 ? RateText(f.tokens_per_s()) : std::string();
     }},
    {"MFU", [](const v1::RankFigures& f) { return f.has_mfu() ? PercentText(f.mfu()) : ""; }},
    {"FLOPS", [](const v1::RankFigures& f) { return FlopsText(f); }},
    {"LR", [](const v1::RankFigures& f) { return absl::StrCat(f.learning_rate()); }},
    {"GRAD NORM", [](const v1::RankFigures& f) { return NormText(f.grad_norm()); }},
    {"DATA WAIT", [](const v1::RankFigures& f) { return PercentText(f.data_wait_share()); }},
    {"RSS", [](const v1::RankFigures& f) { return BytesText(f.memory().rss()); }},
    {"RSS PEAK", [](const v1::RankFigures& f) { return BytesText(f.memory().rss_peak()); }},
    {"GPU PEAK",
     [](const v1::RankFigures& f) {
       const v1::MemoryFigures& memory = f.memory();
       if (!memory.has_reserved_peak()) return std::string();
       return absl::StrCat(BytesText(memory.reserved_peak()), " of ", BytesText(memory.capacity()));
     }},
    {"RETRIES",
     [](const v1::RankFigures& f) {
       return f.memory().alloc_retries() > 0 ? absl::StrCat(f.memory().alloc_retries()) : "";
     }},
    {"OOMS",
     [](const v1::RankFigures& f) {
       return f.memory().ooms() > 0 ? absl::StrCat(f.memory().ooms()) : "";
     }},
    {"SKIPPED",
     [](const v1::RankFigures& f) {
       return f.skipped_steps() > 0 ? absl::StrCat(f.skipped_steps()) : "";
     }},
    {"DRIFT",
     [](const v1::RankFigures& f) {
       // With Slipstream it is a figure of the rounds (strategy_text.h).
       return f.drift() > 0 && !f.has_slipstream() ? LossText(f.drift()) : "";
     }},
};

// Whether the figures are current: those of a rank whose node no longer answers are old.
bool HasFigures(const v1::Rank& rank) { return rank.has_figures() && !rank.has_last_heard(); }

bool AnyFigures(const v1::Job& job, bool (*is_so)(const v1::RankFigures& figures)) {
  return std::any_of(job.ranks().begin(), job.ranks().end(), [is_so](const v1::Rank& rank) {
    return HasFigures(rank) && is_so(rank.figures());
  });
}

// Why a job whose FLOPs are known has no MFU; empty: it has.
std::string NoMfuText(const v1::Job& job) {
  if (job.progress().has_mfu()) return "";
  const bool has_peak =
      AnyFigures(job, [](const v1::RankFigures& figures) { return figures.peak_flops() > 0; });
  return has_peak ? "; no MFU, as it would be above 100 %: check flops_per_sample and peak_flops"
                  : "; no MFU without the device's peak (peak_flops)";
}

// Whether each of the job's steps had the global batch of its spec, as far as known here. Not in a
// sharded session, whose ranks may share their samples (tensor parallelism), nor if ranks that keep
// their batch may have become fewer or more.
bool HadGlobalBatch(const v1::Job& job) {
  if (job.spec().session() && job.spec().shards() > 1) return false;
  const v1::Recovery& recovery = job.spec().recovery();
  if (recovery.batch() != v1::KEEP_RANK_BATCH) return true;
  const bool may_shrink = recovery.min_ranks() > 0 && recovery.min_ranks() < job.spec().ranks();
  return recovery.max_ranks() == 0 && !(may_shrink && !job.membership_changes().empty());
}

const v1::Rank* FindRank(const v1::Job& job, int rank) {
  for (const v1::Rank& candidate : job.ranks()) {
    if (candidate.rank() == rank) return &candidate;
  }
  return nullptr;
}

std::vector<Table::Cell> ProfileRow(const v1::Job& job, int number) {
  const v1::Rank* const rank = FindRank(job, number);
  const std::string node = rank == nullptr ? "" : SanitizeLine(rank->node());
  if (!HasAnswered(job, number)) {
    return {absl::StrCat(number), node, "", "", "", "", HasEnded(job.state()) ? "none" : "awaited"};
  }
  const v1::ProfileResult& result = rank->profile();
  if (!result.error().empty()) {
    return {
        absl::StrCat(number), node, "", "", "", "", {SanitizeLine(result.error()), Colour::kRed}};
  }
  const std::string files =
      result.memory().empty() ? result.trace() : absl::StrCat(result.trace(), " ", result.memory());
  return {absl::StrCat(number),
          node,
          absl::StrCat(result.first_step(), "-", result.first_step() + result.steps() - 1),
          BytesText(result.trace_bytes()),
          DurationText(result.dump_s()),
          SanitizeLine(files),
          ""};
}

}  // namespace

double TokensPerSecond(const v1::Job& job) {
  if (job.progress().tokens_per_s() > 0) return job.progress().tokens_per_s();
  if (!job.spec().model().has_llama()) return 0;  // A module may also train on images.
  return job.progress().samples_per_s() * static_cast<double>(job.spec().data().sequence_length());
}

double StepsPerSecond(const v1::Job& job) {
  const v1::JobProgress& progress = job.progress();
  if (progress.samples_per_s() <= 0) return 0;
  double sum = 0;
  int ranks = 0;
  for (const v1::Rank& rank : job.ranks()) {
    const v1::RankFigures& figures = rank.figures();
    if (!HasFigures(rank) || figures.training_s() <= 0) continue;
    sum += static_cast<double>(figures.steps()) / figures.training_s();
    ++ranks;
  }
  if (ranks > 0) return sum / ranks;
  if (progress.training_s() <= 0) return 0;
  return static_cast<double>(progress.step() - StepsBefore(job)) / progress.training_s();
}

std::string PaceText(const v1::Job& job) {
  v1::JobProgress progress = job.progress();
  progress.set_tokens_per_s(TokensPerSecond(job));
  const v1::JobSpec& spec = job.spec();
  if (HasEnded(job.state()) && progress.step() > 0 && progress.training_s() > 0 &&
      HadGlobalBatch(job)) {
    const double samples = static_cast<double>(progress.step() - StepsBefore(job)) *
                           static_cast<double>(GlobalBatch(spec));
    progress.set_samples_per_s(samples / progress.training_s());
    if (progress.tokens_per_s() > 0) {
      progress.set_tokens_per_s(progress.samples_per_s() *
                                static_cast<double>(spec.data().sequence_length()));
    }
  }
  if (progress.tokens_per_s() > 0) {
    return absl::StrCat(RateText(progress.tokens_per_s()), " tokens/s");
  }
  if (progress.samples_per_s() <= 0) return "";
  return absl::StrCat(RateText(progress.samples_per_s()), " samples/s");
}

std::string FlopsFacts(const v1::Job& job) {
  const v1::JobProgress& progress = job.progress();
  const char* source = "";
  switch (progress.flops_source()) {
    case v1::FLOPS_FORMULA:
      source = "by the model's formula";
      break;
    case v1::FLOPS_COUNTED:
      source = job.spec().model().has_compiled() ? "counted at the export of the model"
                                                 : "counted in their first step";
      break;
    case v1::FLOPS_GIVEN:
      source = "by flops_per_sample of the job file";
      break;
    default:
      return AnyFigures(job, [](const v1::RankFigures& figures) { return figures.steps() > 0; })
                 ? "neither counted nor given: the ranks' logs say why"
                 : "";
  }
  return absl::StrCat(FlopRateText(progress.flops_per_s()), " of all ranks, ", source,
                      NoMfuText(job));
}

std::string FigureTable(const v1::Job& job, int width, bool colours) {
  std::vector<Table::Column> columns = {{"RANK", true}};
  std::vector<const FigureColumn*> shown;
  bool any = false;
  for (const FigureColumn& column : kColumns) {
    for (const v1::Rank& rank : job.ranks()) {
      any = any || HasFigures(rank);
      if (!HasFigures(rank) || column.text(rank.figures()).empty()) continue;
      columns.push_back({column.heading, true});
      shown.push_back(&column);
      break;
    }
  }
  if (!any) return "";
  Table table(std::move(columns));
  for (const v1::Rank& rank : job.ranks()) {
    if (!HasFigures(rank)) continue;
    std::vector<Table::Cell> row = {absl::StrCat(rank.rank())};
    for (const FigureColumn* column : shown) row.emplace_back(column->text(rank.figures()));
    table.Add(std::move(row));
  }
  return table.Rendered(width, colours);
}

bool HasAnswered(const v1::Job& job, int rank) {
  const v1::Rank* const found = FindRank(job, rank);
  return found != nullptr && found->profile().id() == job.profile().request().id();
}

std::string ProfileTable(const v1::Job& job, int width, bool colours) {
  Table table({{"RANK", true},
               {"NODE"},
               {"STEPS", true},
               {"SIZE", true},
               {"DUMP", true},
               {"FILE"},
               {"ERROR"}});
  for (const int rank : job.profile().ranks()) table.Add(ProfileRow(job, rank));
  return table.Rendered(width, colours);
}

}  // namespace paceline
