#include "bench/stragglers/report.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/stragglers/exact_bounds.h"
#include "bench/stragglers/history_spec.h"

namespace paceline::detect {
namespace {

using nlohmann::json;
using Line = std::array<std::string, 15>;

const Line kHead = {"",      "million",  "found",   "recall",     "precision",
                    "wrong", "per 10^6", "SUSPECT", "PERSISTENT", "wrong",
                    "wrong", "wrong",    "class",   "cause",      "95 %"};
const Line kHead2 = {"",        "steps",  "",         "[95 %]",   "[95 %]",
                     "SUSPECT", "(95 %)", "p50, p99", "p50, p99", "drain",
                     "GROUP",   "end",    "right",    "right",    "holds"};

struct ClaimName {
  Claim claim;
  const char* name;
};
constexpr ClaimName kClaims[] = {{Claim::kTenPercent, "10 % and more"},
                                 {Claim::kFivePercent, "5 %"},
                                 {Claim::kHarder, "harder"},
                                 {Claim::kNotStraggler, "not a straggler"}};

double Share(int64_t part, int64_t all) {
  return all == 0 ? 1 : static_cast<double>(part) / static_cast<double>(all);
}

double PerMillion(double events, int64_t rank_steps) {
  return rank_steps == 0 ? 0 : 1e6 * events / static_cast<double>(rank_steps);
}

std::string Percent(int64_t part, int64_t all) {
  if (all == 0) return "-";
  const Interval interval = ClopperPearson(part, all);
  return absl::StrFormat("%.2f [%.2f, %.2f]", 100 * Share(part, all), 100 * interval.low,
                         100 * interval.high);
}

std::string Quantiles(const Delays& delays) {
  if (delays.count() == 0) return "-";
  return absl::StrFormat("%d, %d", delays.Quantile(0.5), delays.Quantile(0.99));
}

Line Describe(const std::string& name, const Figures& f) {
  const int64_t suspects = f.right_suspects + f.wrong_suspects;
  return {name,
          absl::StrFormat("%.1f", static_cast<double>(f.rank_steps) / 1e6),
          f.positives == 0 ? "-" : absl::StrFormat("%d/%d", f.found, f.positives),
          Percent(f.found, f.positives),
          Percent(f.right_suspects, suspects),
          absl::StrFormat("%d", f.wrong_suspects),
          absl::StrFormat("%.3f (%.3f)",
                          PerMillion(static_cast<double>(f.wrong_suspects), f.rank_steps),
                          PerMillion(PoissonUpper(f.wrong_suspects), f.rank_steps)),
          Quantiles(f.to_suspect),
          Quantiles(f.to_persistent),
          absl::StrFormat("%d", f.wrong_drains),
          absl::StrFormat("%d", f.wrong_groups),
          absl::StrFormat("%d", f.wrong_ends),
          f.classed == 0 ? "-" : absl::StrFormat("%.2f", 100 * Share(f.classed_right, f.classed)),
          f.causes == 0 ? "-" : absl::StrFormat("%.1f", 100 * Share(f.causes_right, f.causes)),
          f.intervals == 0 ? "-"
                           : absl::StrFormat("%.1f", 100 * Share(f.intervals_right, f.intervals))};
}

std::string Format(const std::vector<Line>& lines) {
  std::array<size_t, std::tuple_size<Line>::value> widths{};
  for (const Line& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      const int width = static_cast<int>(widths[i]) * (i == 0 ? -1 : 1);
      text += absl::StrFormat("%*s%s", width, line[i], i + 1 < line.size() ? "  " : "\n");
    }
  }
  return text;
}

json DelaysJson(const Delays& delays) {
  if (delays.count() == 0) return nullptr;
  return {{"count", delays.count()},
          {"median", delays.Quantile(0.5)},
          {"p99", delays.Quantile(0.99)},
          {"max", delays.Quantile(1)}};
}

json Proportion(int64_t part, int64_t all) {
  const Interval interval = ClopperPearson(part, all);
  return {{"part", part},
          {"of", all},
          {"share", all == 0 ? json() : json(Share(part, all))},
          {"low", interval.low},
          {"high", interval.high}};
}

json Rate(int64_t events, int64_t rank_steps) {
  return {{"count", events},
          {"per_million", PerMillion(static_cast<double>(events), rank_steps)},
          {"per_million_upper", PerMillion(PoissonUpper(events), rank_steps)}};
}

json AsJson(const Figures& f) {
  return {{"histories", f.histories},
          {"rank_steps", f.rank_steps},
          {"recall", Proportion(f.found, f.positives)},
          {"precision", Proportion(f.right_suspects, f.right_suspects + f.wrong_suspects)},
          {"wrong_suspects", Rate(f.wrong_suspects, f.rank_steps)},
          {"steps_to_suspect", DelaysJson(f.to_suspect)},
          {"steps_to_persistent", DelaysJson(f.to_persistent)},
          {"wrong_drains", Rate(f.wrong_drains, f.rank_steps)},
          {"wrong_groups", f.wrong_groups},
          {"wrong_ends", f.wrong_ends},
          {"transients_found", Proportion(f.transients_found, f.transients)},
          {"class_right", Proportion(f.classed_right, f.classed)},
          {"cause_right", Proportion(f.causes_right, f.causes)},
          {"interval_right", Proportion(f.intervals_right, f.intervals)}};
}

json AsJson(const std::vector<RuleFigures>& rules) {
  json object = json::object();
  for (const RuleFigures& rule : rules) object[rule.name] = AsJson(rule.figures);
  return object;
}

// Whether ranks are permanently slowed by 10 % or more, with any noise.
bool IsTenPercent(const SweepRow& row) {
  const HistorySpec spec = ParseSpec(row.spec).value();
  return row.claim != Claim::kNotStraggler && spec.faults > 0 && spec.factor >= 1.1;
}

// Sums with their names; those over all rows come last.
std::vector<std::pair<std::string, std::vector<RuleFigures>>> Totals(
    const std::vector<RowFigures>& rows) {
  std::vector<std::pair<std::string, std::vector<RuleFigures>>> totals;
  const auto add = [&](const std::string& name, const auto& belongs) {
    std::vector<RowFigures> some;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(some),
                 [&](const RowFigures& row) { return belongs(row.row); });
    if (!some.empty()) totals.emplace_back(name, Total(some));
  };
  for (const auto& [claim, name] : kClaims) {
    add(name, [claim = claim](const SweepRow& row) { return row.claim == claim; });
    if (claim == Claim::kTenPercent) add(absl::StrCat(name, ", all rows"), IsTenPercent);
  }
  totals.emplace_back("all", Total(rows));
  return totals;
}

json AsJson(const Seeds& seeds) { return {seeds.first, seeds.last}; }

}  // namespace

std::string EvaluationTable(const std::vector<RowFigures>& rows) {
  std::vector<Line> lines = {kHead, kHead2};
  for (const RowFigures& row : rows) {
    if (!row.rules.empty()) lines.push_back(Describe(row.row.name, row.rules[0].figures));
  }
  for (const auto& [name, rules] : Totals(rows)) {
    lines.push_back({});
    for (const RuleFigures& rule : rules) {
      lines.push_back(Describe(name + ": " + rule.name, rule.figures));
    }
  }
  return Format(lines);
}

json EvaluationJson(const std::vector<RowFigures>& rows, const Seeds& seeds) {
  json object = {{"seeds", AsJson(seeds)},
                 {"tuning_seeds", AsJson(kTuningSeeds)},
                 {"reporting_seeds", AsJson(kReportingSeeds)},
                 {"rows", json::array()},
                 {"totals", json::object()}};
  for (const RowFigures& row : rows) {
    const auto* const claim =
        std::find_if(std::begin(kClaims), std::end(kClaims),
                     [&](const ClaimName& name) { return name.claim == row.row.claim; });
    object["rows"].push_back({{"row", row.row.name},
                              {"spec", row.row.spec},
                              {"claim", claim->name},
                              {"rules", AsJson(row.rules)}});
  }
  for (const auto& [name, rules] : Totals(rows)) object["totals"][name] = AsJson(rules);
  return object;
}

}  // namespace paceline::detect
