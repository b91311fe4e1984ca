#include "controller/api/services/node_requests.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "controller/core/node/automation.h"
#include "controller/wire/convert.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

constexpr size_t kMaxOwner = 64;
constexpr size_t kMaxReason = 500;

bool IsOneLine(const std::string& text) {
  for (const char c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

void Append(std::vector<SpecProblem>& problems, std::vector<SpecProblem> more) {
  problems.insert(problems.end(), more.begin(), more.end());
}

}  // namespace

std::vector<SpecProblem> CheckOwner(const std::string& owner, bool person) {
  if (owner.empty() || owner.size() > kMaxOwner || !IsOneLine(owner)) {
    return {{"owner", absl::StrCat("must be a name of 1 to ", kMaxOwner, " characters")}};
  }
  if (owner == kBrakeOwner || owner == "controller" || (person && owner == kAutomationOwner)) {
    return {{"owner", absl::StrCat("\"", owner, "\" is no person: give a person's name")}};
  }
  return {};
}

std::vector<SpecProblem> CheckReason(const std::string& reason) {
  if (!absl::StripAsciiWhitespace(reason).empty() && reason.size() <= kMaxReason &&
      IsOneLine(reason)) {
    return {};
  }
  return {
      {"reason", absl::StrCat("must say why, in one line of 1 to ", kMaxReason, " characters")}};
}

grpc::Status RequestError(const std::vector<SpecProblem>& problems) {
  if (problems.empty()) return grpc::Status::OK;
  return FieldsError("REQUEST_INVALID", "this cannot be asked", problems);
}

grpc::Status CheckRequest(const v1::CordonNodeRequest& request, absl::Time wall_now) {
  std::vector<SpecProblem> problems = CheckOwner(request.owner(), /*person=*/false);
  Append(problems, CheckReason(request.reason()));
  if (request.has_until() && FromProto(request.until()) <= wall_now) {
    problems.push_back({"until", "must lie in the future"});
  }
  return RequestError(problems);
}

grpc::Status CheckRequest(const v1::DrainNodeRequest& request) {
  std::vector<SpecProblem> problems = CheckOwner(request.owner(), /*person=*/false);
  Append(problems, CheckReason(request.reason()));
  if (request.mode() < v1::DRAIN_MODE_UNSPECIFIED || request.mode() > v1::DRAIN_NOW) {
    problems.push_back({"mode", absl::StrCat(static_cast<int>(request.mode()), " is unknown")});
  }
  if (!std::isfinite(request.deadline_s())) {
    problems.push_back({"deadline_s", "must be a number of seconds; negative: never"});
  }
  if (request.replace() && request.mode() != v1::DRAIN_SWAP &&
      request.mode() != v1::DRAIN_MODE_UNSPECIFIED) {
    problems.push_back({"replace", "goes with mode DRAIN_SWAP only"});
  }
  return RequestError(problems);
}

grpc::Status CheckRequest(const v1::DeclareNodeLostRequest& request) {
  std::vector<SpecProblem> problems = CheckOwner(request.owner(), /*person=*/true);
  Append(problems, CheckReason(request.reason()));
  return RequestError(problems);
}

}  // namespace paceline
