#include "cli/drill/card_json.h"

#include "absl/time/time.h"
#include "cli/drill/core/judge.h"
#include "nlohmann/json.hpp"

namespace paceline {
namespace {

nlohmann::json JsonOf(const DrillFinding& finding) {
  nlohmann::json json = {{"check", finding.check},
                         {"verdict", VerdictWord(finding.verdict)},
                         {"found", finding.found},
                         {"mend", finding.mend},
                         {"job", finding.job}};
  if (finding.verdict == DrillVerdict::kNotRehearsed) return json;
  json["pause_s"] = absl::ToDoubleSeconds(finding.times.pause);
  json["rejoin_s"] = absl::ToDoubleSeconds(finding.times.rejoin);
  json["first_step_s"] = absl::ToDoubleSeconds(finding.times.first_step);
  if (finding.first_difference.has_value()) json["first_difference"] = *finding.first_difference;
  return json;
}

nlohmann::json JsonOf(const TimeoutLine& line) {
  return {{"key", line.key},
          {"too_short", line.is_too_short()},
          {"given_s", absl::ToDoubleSeconds(line.given)},
          {"least_s", absl::ToDoubleSeconds(line.least)},
          {"proposed_s", absl::ToDoubleSeconds(line.proposed)},
          {"seen", line.seen}};
}

}  // namespace

std::string CardJson(const ReportCard& card) {
  nlohmann::json checks = nlohmann::json::array();
  for (const DrillFinding& finding : card.findings) checks.push_back(JsonOf(finding));
  nlohmann::json timeouts = nlohmann::json::array();
  for (const TimeoutLine& line : card.timeouts) timeouts.push_back(JsonOf(line));
  const nlohmann::json json = {{"job", card.job},
                               {"ranks", card.ranks},
                               {"steps", card.steps},
                               {"where", card.where},
                               {"took_s", absl::ToDoubleSeconds(card.took)},
                               {"passed", FailuresOf(card) == 0},
                               {"checks", checks},
                               {"timeouts", timeouts}};
  return json.dump(1);
}

}  // namespace paceline
