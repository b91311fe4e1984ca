#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/core/utf8_prefix.h"
#include "common/job_spec/problem_list.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace paceline {
namespace {

using absl::StrCat;

constexpr int kMostArguments = 256;
constexpr size_t kSha256Digits = 64;

// What a job with a command may say besides.
constexpr absl::string_view kGoWithCommand[] = {
    "name",         "ranks",   "device",      "threads_per_rank",  "steps",
    "max_restarts", "queue",   "priority",    "placement",         "stall_warning_s",
    "stragglers",   "command", "environment", "working_directory", "venv",
    "stop_grace_s", "watch",   "code",
};
// What only such a job may say.
constexpr absl::string_view kNeedCommand[] = {
    "working_directory", "environment", "venv", "stop_grace_s", "watch", "code",
};

constexpr absl::string_view kSetByPaceline[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_NAME",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "CUDA_VISIBLE_DEVICES",
    "VIRTUAL_ENV",
};

template <size_t N>
bool Has(const absl::string_view (&names)[N], absl::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::vector<const google::protobuf::FieldDescriptor*> Given(const v1::JobSpec& spec) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  spec.GetReflection()->ListFields(spec, &fields);
  return fields;
}

std::string Remedy(absl::string_view field) {
  if (field == "recovery") return "a lost rank ends the training; give max_restarts instead";
  if (field == "checkpoint" || field == "resume_from" || field == "export_final") {
    return "the program saves and finds its own checkpoints";
  }
  return "the program decides that itself; take it out";
}

bool IsVariableName(absl::string_view name) {
  const auto allowed = [](char c) { return absl::ascii_isalnum(c) || c == '_'; };
  return !name.empty() && !absl::ascii_isdigit(name[0]) &&
         std::all_of(name.begin(), name.end(), allowed);
}

void CheckEnvironment(const v1::JobSpec& spec, ProblemList& problems) {
  for (const auto& [name, value] : spec.environment()) {
    const std::string field = StrCat("environment.", name);
    if (!IsVariableName(name)) {
      problems.Add("environment",
                   StrCat("has the name \"", absl::Utf8SafeCHexEscape(Utf8Prefix(name, 80)),
                          "\"; allowed are letters, digits and _, no digit first"));
    } else if (IsRankVariable(name)) {
      problems.Add("environment",
                   StrCat("has ", name, ", which Paceline sets for each rank; take it out"));
    }
    if (absl::StrContains(value, '\0')) {
      problems.Add(field, "has a NUL in its value, which no environment can hold");
    }
  }
}

void CheckCode(const v1::Code& code, const std::string& prefix, ProblemList& problems) {
  const auto is_digit = [](char c) { return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'); };
  if (code.sha256().size() != kSha256Digits ||
      !std::all_of(code.sha256().begin(), code.sha256().end(), is_digit)) {
    problems.Add(prefix + "sha256", "is no SHA-256: 64 of 0-9 and a-f");
  }
  problems.CheckRange(prefix + "bytes", code.bytes(), 1, kMaxCodeBytes);
  problems.CheckRange(prefix + "files", code.files(), 0, kMaxCodeFiles);
}

}  // namespace

std::vector<SpecProblem> CheckCode(const v1::Code& code) {
  ProblemList problems;
  CheckCode(code, "code.", problems);
  return problems.Take();
}

bool IsRankVariable(absl::string_view name) {
  return Has(kSetByPaceline, name) || absl::StartsWith(name, "PACELINE_") ||
         absl::StartsWith(name, "TORCHELASTIC_");
}

void CheckNoCommand(const v1::JobSpec& spec, ProblemList& problems) {
  for (const auto* field : Given(spec)) {
    if (Has(kNeedCommand, field->name())) {
      problems.Add(field->name(), "is given without command; give the program that each rank is");
    }
  }
}

void CheckCommand(const v1::JobSpec& spec, ProblemList& problems) {
  for (const auto* field : Given(spec)) {
    if (Has(kGoWithCommand, field->name())) continue;
    problems.Add(field->name(), StrCat("does not go with command: ", Remedy(field->name())));
  }
  problems.CheckRange("command", spec.command_size(), 1, kMostArguments);
  for (int i = 0; i < spec.command_size(); ++i) {
    const std::string& argument = spec.command(i);
    if (absl::StrContains(argument, '\0')) {
      problems.Add(StrCat("command[", i, "]"), "has a NUL, which no argument can hold");
    }
  }
  if (spec.command(0).empty()) problems.Add("command[0]", "is empty; give the program's name");
  if (spec.has_code()) {
    CheckCode(spec.code(), "code.", problems);
    if (!spec.working_directory().empty()) {
      problems.Add("working_directory",
                   "is given beside code, in whose folder the command starts; give one of them");
    }
  } else if (spec.working_directory().empty()) {
    problems.Add("working_directory", "is missing; give the folder where the command starts");
  }
  CheckEnvironment(spec, problems);
  problems.CheckAtLeast("steps", spec.steps(), 0);
  if (spec.stop_grace_s() != 0) {
    problems.CheckAbove("stop_grace_s", spec.stop_grace_s(), 0);
  }
  if (spec.stall_warning_s() != 0) {
    problems.CheckAbove("stall_warning_s", spec.stall_warning_s(), 0);
  }
  if (spec.stragglers().mode() == v1::STRAGGLER_MODE_AUTO) {
    problems.Add("stragglers.mode",
                 "is auto, whose remedies a command cannot take; allowed are off and advise");
  }
}

}  // namespace paceline
