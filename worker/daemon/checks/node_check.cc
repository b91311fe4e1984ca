#include "worker/daemon/checks/node_check.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/log.h"

namespace paceline {
namespace {

constexpr size_t kMaxErrorBytes = 300;  // Of the program's stderr.

// Adds the line's measurement or error. Returns false when the probe did not write the line.
bool TakeLine(absl::string_view line, v1::NodeCheckResult& result,
              std::vector<std::string>& errors) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return false;
  if (const auto error = object.find("error"); error != object.end() && error->is_string()) {
    errors.push_back(error->get<std::string>());
    return true;
  }
  const auto name = object.find("name");
  const auto value = object.find("value");
  const auto unit = object.find("unit");
  const auto more = object.find("more_is_better");
  if (name == object.end() || !name->is_string() || value == object.end() || !value->is_number() ||
      unit == object.end() || !unit->is_string() || more == object.end() || !more->is_boolean()) {
    return false;
  }
  v1::NodeMeasurement& measurement = *result.add_measurements();
  measurement.set_name(name->get<std::string>());
  measurement.set_value(value->get<double>());
  measurement.set_unit(unit->get<std::string>());
  measurement.set_more_is_better(more->get<bool>());
  return true;
}

}  // namespace

v1::NodeCheckResult ToCheckResult(const absl::StatusOr<ProgramEnd>& end, int trainers) {
  v1::NodeCheckResult result;
  if (!end.ok()) {
    result.set_error(std::string(end.status().message()));
    return result;
  }
  std::vector<std::string> errors;
  for (const absl::string_view line : absl::StrSplit(end->out, '\n', absl::SkipEmpty())) {
    if (TakeLine(line, result, errors)) continue;
    // The last line of a killed probe may be incomplete.
    if (!end->timed_out) errors.push_back(absl::StrCat("not understood: ", line.substr(0, 80)));
  }
  if (end->timed_out) {
    errors.emplace_back("the probe took too long and was ended");
  } else if (end->exit_code != 0) {
    errors.push_back(end->exit_code < 0
                         ? "the probe was ended by a signal"
                         : absl::StrCat("the probe exited with code ", end->exit_code));
  }
  const std::string said = end->err.substr(0, std::min(end->err.find('\n'), kMaxErrorBytes));
  if (!errors.empty() && !said.empty()) errors.push_back(said);
  result.set_error(absl::StrJoin(errors, "; "));
  if (trainers > 0 && result.measurements_size() > 0) {
    v1::NodeMeasurement& beside = *result.add_measurements();
    beside.set_name("trainers_beside");
    beside.set_value(trainers);
  }
  return result;
}

NodeCheck::NodeCheck(Options options, SideThreads& threads, std::function<int()> trainers,
                     std::function<void()> on_result)
    : options_(std::move(options)),
      threads_(threads),
      trainers_(std::move(trainers)),
      on_result_(std::move(on_result)) {}

void NodeCheck::SetWanted(std::optional<v1::NodeCheckRequest> wanted) {
  wanted_ = std::move(wanted);
  if (!wanted_.has_value() || (result_.has_value() && result_->id() != wanted_->id())) {
    result_.reset();
  }
  StartNext();
}

void NodeCheck::StartNext() {
  if (running_ || !wanted_.has_value() || result_.has_value()) return;
  running_ = true;
  std::vector<std::string> arguments = {options_.program, "--dir", options_.dir};
  if (!wanted_->peer_address().empty()) {
    arguments.insert(arguments.end(), {"--peer", wanted_->peer_address()});
  }
  const int64_t id = wanted_->id();
  const int trainers = trainers_();
  PACELINE_LOG(INFO) << "check_started id=" << id << " trainers_beside=" << trainers;
  const auto end = std::make_shared<absl::StatusOr<ProgramEnd>>();
  threads_.Run(
      [arguments, environment = options_.environment, limit = options_.limit,
       end](const std::atomic<bool>& stop) {
        *end = RunProgram(arguments, environment, {limit}, stop);
      },
      [this, id, trainers, end] {
        running_ = false;
        v1::NodeCheckResult result = ToCheckResult(*end, trainers);
        result.set_id(id);
        result.mutable_time()->set_seconds(absl::ToUnixSeconds(absl::Now()));
        PACELINE_LOG(INFO) << "check_done id=" << id
                           << " measurements=" << result.measurements_size() << " error=\""
                           << result.error() << "\"";
        if (wanted_.has_value() && wanted_->id() == id) {
          result_ = std::move(result);
          on_result_();
        }
        StartNext();
      });
}

}  // namespace paceline
