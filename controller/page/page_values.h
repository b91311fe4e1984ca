// Values as the page shows them (page_state.h).
#ifndef CONTROLLER_PAGE_PAGE_VALUES_H_
#define CONTROLLER_PAGE_PAGE_VALUES_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "controller/core/job.h"
#include "controller/core/node.h"

namespace paceline {

// Four digits are as many as a page shows.
double Short(double value);

// Null of what is not known: no positive value, or the infinite past. Times are seconds since 1970.
nlohmann::json Known(double value);
nlohmann::json Known(absl::Time time);

// "host pause" of CAUSE_HOST_PAUSE without the prefix CAUSE_.
std::string Words(absl::string_view name, absl::string_view prefix = "");

std::string NameOfState(JobState state);
std::string NameOfState(NodeState state);

}  // namespace paceline

#endif  // CONTROLLER_PAGE_PAGE_VALUES_H_
