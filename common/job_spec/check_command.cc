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
#include "common/job_spec/job_key.h"
#include "common/job_spec/problem_list.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace paceline {
namespace {

using absl::StrCat;
using google::protobuf::FieldDescriptor;

constexpr int kMostArguments = 256;
constexpr size_t kSha256Digits = 64;

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

std::vector<const FieldDescriptor*> Given(const google::protobuf::Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields;
}

// Why a field may not be given, and what to do.
std::string WhyNot(const FieldDescriptor& given, const v1::JobSpec& spec) {
  const std::string& field = given.name();
  if (spec.command().empty()) {
    return "is given without command; give the program that each rank is";
  }
  if (spec.session()) {
    return StrCat("does not go with session: ",
                  field == "watch" ? "its steps are measured anyway; take it out"
                  : field == "export_final"
                      ? "give checkpoint.directory, or save the weights in the program"
                      : "the program decides that itself; take it out");
  }
  const bool session = KeyOf(given).scope() == v1::JobKey::ENGINE;
  return StrCat("does not go with command: ",
                field == "recovery" ? "a lost rank ends the training; give max_restarts instead"
                : field == "checkpoint" || field == "resume_from" || field == "export_final"
                    ? "the program saves and finds its own checkpoints"
                    : "the program decides that itself; take it out",
                session ? ", or give session: true if it calls paceline.init()" : "");
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
                   StrCat("has ", name, ", which is Paceline's to set; take it out"));
    }
    if (absl::StrContains(value, '\0')) {
      problems.Add(field, "has a NUL in its value, which no environment can hold");
    }
  }
}

void CheckCode(const v1::Code& code, ProblemList& problems) {
  const auto is_digit = [](char c) { return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'); };
  if (code.sha256().size() != kSha256Digits ||
      !std::all_of(code.sha256().begin(), code.sha256().end(), is_digit)) {
    problems.Add("code.sha256", "is no SHA-256: 64 of 0-9 and a-f");
  }
  if (code.bytes() == 0) problems.Add("code.bytes", "is missing; give how many bytes they are");
}

}  // namespace

std::vector<SpecProblem> CheckCode(const v1::Code& code) {
  ProblemList problems;
  CheckKeys(code, "code.", problems);
  CheckCode(code, problems);
  return problems.Take();
}

bool IsRankVariable(absl::string_view name) {
  return std::find(std::begin(kSetByPaceline), std::end(kSetByPaceline), name) !=
             std::end(kSetByPaceline) ||
         absl::StartsWith(name, "PACELINE_") || absl::StartsWith(name, "TORCHELASTIC_");
}

void CheckGiven(const v1::JobSpec& spec, ProblemList& problems) {
  for (const FieldDescriptor* field : Given(spec)) {
    if (!GoesWith(spec, KeyOf(*field))) problems.Add(field->name(), WhyNot(*field, spec));
  }
  // Without a directory there is nothing that the other values could be about.
  if (!HasEngine(spec) || !spec.checkpoint().directory().empty()) return;
  for (const FieldDescriptor* field : Given(spec.checkpoint())) {
    problems.Add(StrCat("checkpoint.", field->name()),
                 "needs checkpoint.directory, which is missing");
  }
}

void CheckCommand(const v1::JobSpec& spec, ProblemList& problems) {
  problems.CheckRange("command", spec.command_size(), 1, kMostArguments);
  for (int i = 0; i < spec.command_size(); ++i) {
    const std::string& argument = spec.command(i);
    if (absl::StrContains(argument, '\0')) {
      problems.Add(StrCat("command[", i, "]"), "has a NUL, which no argument can hold");
    }
  }
  if (spec.command(0).empty()) problems.Add("command[0]", "is empty; give the program's name");
  if (spec.has_code()) {
    CheckCode(spec.code(), problems);
    if (!spec.working_directory().empty()) {
      problems.Add("working_directory",
                   "is given beside code, in whose folder the command starts; give one of them");
    }
  } else if (spec.working_directory().empty()) {
    problems.Add("working_directory", "is missing; give the folder where the command starts");
  }
  CheckEnvironment(spec, problems);
  if (spec.stragglers().mode() == v1::STRAGGLER_MODE_AUTO && !HasEngine(spec)) {
    problems.Add(
        "stragglers.mode",
        "is auto, whose remedies a command cannot take unless it is a session; allowed are "
        "off and advise");
  }
}

}  // namespace paceline
