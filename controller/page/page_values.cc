#include "controller/page/page_values.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "controller/rpc/convert.h"
#include "controller/rpc/convert_node.h"

namespace paceline {

using nlohmann::json;

double Short(double value) {
  double rounded = 0;
  return absl::SimpleAtod(absl::StrFormat("%.4g", value), &rounded) ? rounded : 0;
}

json Known(double value) { return value > 0 ? json(Short(value)) : json(); }

json Known(absl::Time time) {
  return time == absl::InfinitePast() ? json() : json(absl::ToUnixSeconds(time));
}

std::string Words(absl::string_view name, absl::string_view prefix) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(absl::StripPrefix(name, prefix)), {{"_", " "}});
}

std::string NameOfState(JobState state) { return Words(v1::JobState_Name(ToProto(state))); }

std::string NameOfState(NodeState state) {
  return Words(v1::NodeState_Name(ToProto(state)), "NODE_");
}

}  // namespace paceline
