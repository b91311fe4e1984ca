#include "cli/view/checkpoint/checkpoint_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/text/sanitize.h"
#include "cli/text/table.h"
#include "cli/view/job/job_text.h"
#include "cli/view/numbers.h"
#include "common/job_spec/enum_name.h"

namespace paceline {
namespace {

std::string AgeText(absl::Time moment, absl::Time now) {
  // A node's clock may be ahead.
  return DurationText(absl::ToDoubleSeconds(std::max(now - moment, absl::ZeroDuration())));
}

std::string StateOfSaves(const v1::Job& job, absl::Time now) {
  const v1::JobCheckpoints& checkpoints = job.checkpoints();
  if (checkpoints.complete() == 0) return "none yet";
  return absl::StrCat("step ", NewestText(job, now), "; ", checkpoints.complete(), " complete, ",
                      BytesText(checkpoints.bytes()));
}

std::string SavingText(const v1::JobCheckpoints& checkpoints) {
  std::vector<std::string> saves;
  for (const int64_t step : checkpoints.in_progress()) saves.push_back(absl::StrCat("step ", step));
  const v1::SaveOrderStatus& order = checkpoints.order();
  if (order.state() == v1::SaveOrderStatus::PENDING) {
    saves.push_back(order.reason().empty()
                        ? "one more was asked for"
                        : absl::StrCat("one more, ", SanitizeLine(order.reason())));
  }
  return absl::StrJoin(saves, ", ");
}

std::string NextText(const v1::JobCheckpoints& checkpoints, absl::Time now) {
  if (!checkpoints.has_next_time()) return "";
  const double left = absl::ToDoubleSeconds(TimeOf(true, checkpoints.next_time()) - now);
  return absl::StrCat(left > 0 ? absl::StrCat("in ", DurationText(left)) : "now", ", every ",
                      DurationText(checkpoints.interval_s()));
}

std::string TroubleText(const v1::JobCheckpoints& checkpoints) {
  std::vector<std::string> troubles;
  if (checkpoints.failed() > 0) troubles.push_back(absl::StrCat(checkpoints.failed(), " failed"));
  if (checkpoints.skipped() > 0) {
    troubles.push_back(absl::StrCat(checkpoints.skipped(), " left out"));
  }
  if (troubles.empty()) return "";
  return absl::StrCat(checkpoints.committed(), " complete, ", absl::StrJoin(troubles, ", "));
}

}  // namespace

std::string StateText(v1::CheckpointState state) {
  if (state == v1::CHECKPOINT_STATE_UNSPECIFIED || !v1::CheckpointState_IsValid(state)) {
    return absl::StrCat("state ", static_cast<int>(state));
  }
  return ShortEnumName(*v1::CheckpointState_descriptor(), state);
}

Colour StateColour(v1::CheckpointState state) {
  switch (state) {
    case v1::CHECKPOINT_COMPLETE:
      return Colour::kGreen;
    case v1::CHECKPOINT_DAMAGED:
      return Colour::kRed;
    default:
      return Colour::kYellow;
  }
}

std::string CheckpointNameText(const v1::Checkpoint& checkpoint) {
  return absl::StrCat(SanitizeLine(checkpoint.job_name()), "/", checkpoint.step());
}

std::string CheckpointTable(const v1::ListCheckpointsResponse& checkpoints,
                            const std::vector<std::string>& names, absl::Time now,
                            const PageStyle& style) {
  std::vector<Table::Column> columns = {
      {"CHECKPOINT"}, {"STEP", true}, {"GEN", true, true}, {"RANKS", true, true},
      {"SIZE", true}, {"AGE", true},  {"STATE"},           {"PINNED"}};
  if (style.wide) columns.push_back({"DIRECTORY"});
  Table table(std::move(columns));
  for (int i = 0; i < checkpoints.checkpoints_size(); ++i) {
    const v1::Checkpoint& checkpoint = checkpoints.checkpoints(i);
    std::vector<Table::Cell> row = {
        names[static_cast<size_t>(i)],
        absl::StrCat(checkpoint.step()),
        absl::StrCat(checkpoint.generation()),
        absl::StrCat(checkpoint.ranks()),
        BytesText(checkpoint.bytes()),
        checkpoint.has_create_time() ? AgeText(TimeOf(true, checkpoint.create_time()), now) : "",
        {StateText(checkpoint.state()), StateColour(checkpoint.state())},
        checkpoint.pinned() ? "yes" : ""};
    if (style.wide) row.emplace_back(checkpoint.directory());
    table.Add(std::move(row));
  }
  return table.Rendered(style.width, style.colours, style.headings);
}

std::string NewestText(const v1::Job& job, absl::Time now) {
  const v1::JobCheckpoints& checkpoints = job.checkpoints();
  if (checkpoints.complete() == 0) return "";
  std::string text = absl::StrCat(checkpoints.newest_step());
  if (checkpoints.has_newest_time()) {
    absl::StrAppend(&text, " (", AgeText(TimeOf(true, checkpoints.newest_time()), now), " ago)");
  }
  return text;
}

std::string SaveTroubleText(const v1::Job& job, absl::Time now) {
  const v1::JobCheckpoints& checkpoints = job.checkpoints();
  if (HasEnded(job.state()) || checkpoints.last_error().empty()) return "";
  std::string newest = "there is none";
  if (checkpoints.complete() > 0) {
    newest = absl::StrCat("newest: step ", checkpoints.newest_step());
    if (checkpoints.has_newest_time()) {
      absl::StrAppend(&newest, ", ", AgeText(TimeOf(true, checkpoints.newest_time()), now), " old");
    }
  }
  return absl::StrCat("checkpoints cannot be saved (", newest,
                      "): ", SanitizeLine(checkpoints.last_error()));
}

std::string CopyTroubleText(const v1::Job& job) {
  return HasEnded(job.state()) ? "" : SanitizeLine(job.copies().trouble());
}

std::string SaveCostText(const v1::JobCheckpoints& checkpoints) {
  if (checkpoints.durable_s() <= 0) return "";
  return absl::StrCat("training stood still for ", ShortDurationText(checkpoints.blocked_s()),
                      ", durable after ", ShortDurationText(checkpoints.durable_s()));
}

void AddCheckpointLines(std::string* page, const v1::Job& job, absl::Time now,
                        ReportedOnce* reported) {
  const std::string why = TellOnce(reported, RestartCause(job));
  if (job.restarts() > 0 || job.spec().max_restarts() > 0 || !why.empty()) {
    AddLine(page, "Restarts",
            absl::StrCat(RestartsOf(job),
                         why.empty() ? " after failures" : absl::StrCat(", last: ", why)));
  }
  AddLine(
      page, "Resumed",
      job.restored_from().empty() ? "" : absl::StrCat("from ", SanitizeLine(job.restored_from())));
  if (!job.has_checkpoints()) return;
  const v1::JobCheckpoints& checkpoints = job.checkpoints();
  AddLine(page, "Checkpoint", StateOfSaves(job, now));
  AddLine(page, "Saving", TellOnce(reported, SavingText(checkpoints)));
  AddLine(page, "Last save", SaveCostText(checkpoints));
  AddLine(page, "Next save", NextText(checkpoints, now));
  AddLine(page, "Saves", TroubleText(checkpoints));
  AddLine(page, "Save error", TellOnce(reported, SanitizeLine(checkpoints.last_error())));
}

}  // namespace paceline
