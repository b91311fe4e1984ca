#include "cli/view/job/curves_page.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "cli/text/sparkline.h"
#include "cli/text/table.h"

namespace paceline {
namespace {

// Columns of the table without the pictures, and columns of the pictures.
constexpr int kNumberColumns = 22 + 4 * 12;
constexpr int kPictureColumns = 40;
constexpr int kFewestColumns = 8;

std::string ValueText(double value) { return absl::StrFormat("%.6g", value); }

// With all digits that a double has.
std::string ExactText(double value) { return absl::StrFormat("%.17g", value); }

struct Extremes {
  double least = INFINITY;
  double most = -INFINITY;
};

Extremes ExtremesOf(const v1::Curve& curve) {
  Extremes extremes;
  for (const v1::CurvePoint& point : curve.points()) {
    if (point.values() == 0) continue;
    extremes.least = std::min(extremes.least, point.least());
    extremes.most = std::max(extremes.most, point.most());
  }
  return extremes;
}

std::string SinceText(const v1::JobCurves& curves) {
  const absl::Time since = absl::FromUnixSeconds(curves.since().seconds());
  return absl::StrCat(
      "since step ", curves.since_step(), ", ",
      absl::FormatTime("%Y-%m-%d %H:%M:%S", since, absl::LocalTimeZone()),
      "; curves begin anew when the controller restarts or another one takes over\n",
      curves.left_out() ? "some numbers have no curve: there was no room for them\n" : "");
}

}  // namespace

std::string CurvesPage(const v1::JobCurves& curves, const PageStyle& style, bool utf8) {
  if (curves.curves().empty()) return "";
  const int room = style.width > 0
                       ? std::clamp(style.width - kNumberColumns, kFewestColumns, kPictureColumns)
                       : kPictureColumns;
  Table table({{"NAME"}, {"LAST", true}, {"LEAST", true}, {"MOST", true}, {"STEP", true}, {"RUN"}});
  for (const v1::Curve& curve : curves.curves()) {
    if (curve.points().empty()) continue;
    std::vector<double> means;
    for (const v1::CurvePoint& point : curve.points()) {
      means.push_back(point.values() > 0 ? point.mean() : NAN);
    }
    const v1::CurvePoint& last = curve.points(curve.points_size() - 1);
    const Extremes extremes = ExtremesOf(curve);
    const bool any = extremes.least <= extremes.most;
    table.Add({curve.reported() ? absl::StrCat("reported: ", curve.name()) : curve.name(),
               last.values() > 0 ? ValueText(last.mean()) : "nan",
               any ? ValueText(extremes.least) : "", any ? ValueText(extremes.most) : "",
               absl::StrCat(last.step()), Sparkline(means, room, utf8)});
  }
  return absl::StrCat(table.Rendered(style.width, style.colours), "\n", SinceText(curves));
}

std::string CurvesCsv(const v1::JobCurves& curves) {
  std::string csv = "job,name,reported,step,mean,least,most,values,not_finite\n";
  for (const v1::Curve& curve : curves.curves()) {
    for (const v1::CurvePoint& point : curve.points()) {
      const bool any = point.values() > 0;
      absl::StrAppend(&csv, curves.job_id(), ",", curve.name(), ",",
                      curve.reported() ? "true" : "false", ",");
      absl::StrAppend(&csv, point.step(), ",", any ? ExactText(point.mean()) : "", ",",
                      any ? ExactText(point.least()) : "", ",");
      absl::StrAppend(&csv, any ? ExactText(point.most()) : "", ",", point.values(), ",",
                      point.not_finite(), "\n");
    }
  }
  return csv;
}

}  // namespace paceline
