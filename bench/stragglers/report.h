// The figures of an evaluation, for people and as JSON.
#ifndef BENCH_STRAGGLERS_REPORT_H_
#define BENCH_STRAGGLERS_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/stragglers/evaluation.h"

namespace paceline::detect {

// Tables: every row for Paceline, then sums by claim and over all rows for it and the peers.
std::string EvaluationTable(const std::vector<RowFigures>& rows);

// {"seeds": [first, last], "tuning_seeds": …, "reporting_seeds": …, "rows": [{"row", "spec",
// "claim", "rules": {NAME: figures}}], "totals": {CLAIM, "10 % and more, all rows" or "all": {NAME:
// figures}}}. Those "all rows" are of every lasting slowdown of so much, harder ones included.
nlohmann::json EvaluationJson(const std::vector<RowFigures>& rows, const Seeds& seeds);

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_REPORT_H_
