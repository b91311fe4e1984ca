#include "controller/core/steps/job_steps.h"

#include <algorithm>

namespace paceline {
namespace {

constexpr int32_t kMeanSteps = 20;

// How many consecutive rows of the table are shown as one.
int RowsTogether(int rows, int max_rows) { return (rows + max_rows - 1) / std::max(1, max_rows); }

}  // namespace

JobSteps::JobSteps(int ranks, int ranks_per_row)
    : ranks_(ranks),
      ranks_per_row_(ranks_per_row),
      rows_((ranks + ranks_per_row - 1) / ranks_per_row),
      columns_(kStepsKept),
      cells_(static_cast<size_t>(kStepsKept) * rows_),
      means_(static_cast<size_t>(ranks)) {}

void JobSteps::Begin(Generation generation) {
  generation_ = generation;
  reported_ = false;
  std::fill(means_.begin(), means_.end(), RankMeans());
}

void JobSteps::Add(int rank, const StepTimes& times) {
  const double own = OwnSeconds(times);
  RankMeans& means = means_[static_cast<size_t>(rank)];
  means.steps = std::min(means.steps + 1, kMeanSteps);
  const float weight = 1.0F / static_cast<float>(means.steps);
  means.step_s += weight * (static_cast<float>(times.total_s) - means.step_s);
  means.own_s += weight * (static_cast<float>(own) - means.own_s);
  means.data_wait_s += weight * (static_cast<float>(times.data_wait_s) - means.data_wait_s);

  newest_ = reported_ ? std::max(newest_, times.step) : times.step;
  reported_ = true;
  if (times.step <= newest_ - kStepsKept) return;
  const int number = ColumnOf(times.step);
  Column& column = columns_[static_cast<size_t>(number)];
  Cell* cells = CellsOf(number);
  if (column.step != times.step || column.generation != generation_) {
    column = {times.step, generation_};
    std::fill(cells, cells + rows_, Cell());
  }
  Cell& cell = cells[rank / ranks_per_row_];
  const StepCode code = EncodeSeconds(own);
  if (code >= cell.own) cell = {EncodeSeconds(times.total_s), code};
}

int64_t JobSteps::FirstStep(int steps) const {
  int64_t first = newest_ + 1;
  const int64_t wanted = steps <= 0 ? kStepsKept : std::min(steps, kStepsKept);
  for (int64_t step = newest_; step >= 0 && step > newest_ - wanted; --step) {
    if (columns_[static_cast<size_t>(ColumnOf(step))].step == step) first = step;
  }
  return first;
}

StepTable JobSteps::View(int steps, int max_rows) const {
  StepTable table;
  table.ranks = ranks_;
  const int together = RowsTogether(rows_, max_rows);
  table.ranks_per_row = together * ranks_per_row_;
  table.first_step = FirstStep(steps);
  table.steps = static_cast<int>(newest_ + 1 - table.first_step);
  table.rows.resize(static_cast<size_t>((rows_ + together - 1) / together));
  for (size_t r = 0; r < table.rows.size(); ++r) {
    StepTable::Row& row = table.rows[r];
    row.first_rank = static_cast<int>(r) * table.ranks_per_row;
    row.step_s.resize(static_cast<size_t>(table.steps));
    row.own_s.resize(static_cast<size_t>(table.steps));
  }
  std::vector<StepCode> owns;
  for (int c = 0; c < table.steps; ++c) {
    const int64_t step = table.first_step + c;
    if (columns_[static_cast<size_t>(ColumnOf(step))].step != step) continue;
    const Cell* cells = CellsOf(ColumnOf(step));
    for (size_t r = 0; r < table.rows.size(); ++r) {
      const int first = static_cast<int>(r) * together;
      const Cell worst =
          *std::max_element(cells + first, cells + std::min(first + together, rows_),
                            [](const Cell& a, const Cell& b) { return a.own < b.own; });
      if (worst.own == 0) continue;
      table.rows[r].step_s[static_cast<size_t>(c)] = static_cast<float>(DecodeSeconds(worst.step));
      table.rows[r].own_s[static_cast<size_t>(c)] = static_cast<float>(DecodeSeconds(worst.own));
      owns.push_back(worst.own);
    }
  }
  // The codes are ordered like the times.
  if (!owns.empty()) {
    const auto middle = owns.begin() + owns.size() / 2;
    std::nth_element(owns.begin(), middle, owns.end());
    table.median_own_s = DecodeSeconds(*middle);
  }
  return table;
}

}  // namespace paceline
