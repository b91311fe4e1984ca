#include "cli/view/job/series_page.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/text/sparkline.h"
#include "cli/text/table.h"
#include "cli/view/numbers.h"
#include "cli/view/straggler/straggler_text.h"

namespace paceline {
namespace {

// Columns of the table without the pictures, and columns of the pictures.
constexpr int kNumberColumns = 18 + 3 * 11;
constexpr int kPictureColumns = 40;
constexpr int kFewestColumns = 8;

using Value = double (*)(const v1::SeriesPoint&);
using Text = std::string (*)(double);

struct Row {
  const char* name;
  Value value;  // NaN or 0: not known.
  Text text;
};

std::string ShareText(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

// A share of 0 is drawn as next to nothing wherever there are steps.
double ShareOf(double share, double step_s) { return step_s > 0 ? std::max(share, 1e-9) : NAN; }

constexpr Row kRows[] = {
    {"step time", [](const v1::SeriesPoint& p) { return p.step_s(); }, StepText},
    {"samples/s", [](const v1::SeriesPoint& p) { return p.samples_per_s(); }, RateText},
    {"tokens/s", [](const v1::SeriesPoint& p) { return p.tokens_per_s(); }, RateText},
    {"loss", [](const v1::SeriesPoint& p) { return p.loss(); }, LossText},
    {"MFU", [](const v1::SeriesPoint& p) { return p.has_mfu() ? p.mfu() : NAN; }, ShareText},
    {"wait for others",
     [](const v1::SeriesPoint& p) { return ShareOf(p.wait_share(), p.step_s()); }, ShareText},
    {"wait for data",
     [](const v1::SeriesPoint& p) { return ShareOf(p.data_wait_share(), p.step_s()); }, ShareText},
};

bool IsKnown(double value) { return std::isfinite(value) && value > 0; }

std::string SpanText(const v1::JobSeries& series) {
  const double seconds = series.points_size() * series.period_s();
  return absl::StrCat("LAST ", absl::AsciiStrToUpper(DurationText(seconds)));
}

std::string NumberText(double value) {
  return std::isnan(value) ? "nan" : absl::StrFormat("%.6g", value);
}

// What the ranks' scripts report; empty: nothing.
std::string ReportedTable(const v1::JobSeries& series, const PageStyle& style) {
  if (series.reported().empty()) return "";
  Table table({{series.has_end_time() ? "LAST REPORTED" : "REPORTED"},
               {"MEAN", true},
               {"LEAST", true, true},
               {"MOST", true, true},
               {"RANKS", true},
               {"STEP", true}});
  for (const v1::JobNumber& number : series.reported()) {
    table.Add({number.name(), NumberText(number.mean()), NumberText(number.least()),
               NumberText(number.most()), absl::StrCat(number.ranks()),
               absl::StrCat(number.step())});
  }
  return table.Rendered(style.width, style.colours);
}

}  // namespace

std::string SeriesPage(const v1::JobSeries& series, const PageStyle& style, bool utf8) {
  const int room = style.width > 0
                       ? std::clamp(style.width - kNumberColumns, kFewestColumns, kPictureColumns)
                       : kPictureColumns;
  const char* const newest = series.has_end_time() ? "AT END" : "NOW";
  Table table({{""}, {newest, true}, {"LEAST", true}, {"MOST", true}, {SpanText(series)}});
  bool any = false;
  for (const Row& row : kRows) {
    std::vector<double> values;
    std::vector<double> known;
    for (const v1::SeriesPoint& point : series.points()) {
      values.push_back(row.value(point));
      if (IsKnown(values.back())) known.push_back(values.back());
    }
    if (known.empty()) continue;
    any = true;
    table.Add(
        {row.name, row.text(known.back()), row.text(*std::min_element(known.begin(), known.end())),
         row.text(*std::max_element(known.begin(), known.end())), Sparkline(values, room, utf8)});
  }
  const std::string measured = any ? table.Rendered(style.width, style.colours) : "";
  const std::string reported = ReportedTable(series, style);
  return absl::StrCat(measured, measured.empty() || reported.empty() ? "" : "\n", reported);
}

}  // namespace paceline
