#include "cli/verbs/job/ship.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/rpc/error_text.h"
#include "cli/verbs/job/code_folder.h"
#include "cli/view/job/job_text.h"
#include "common/core/status_macros.h"
#include "common/job_spec/code_files.h"
#include "common/job_spec/job_spec.h"

namespace paceline {
namespace {

constexpr size_t kNamed = 3;

// "a.py, b.py and 7 more".
std::string Some(const std::vector<std::string>& paths) {
  std::string text;
  for (size_t i = 0; i < std::min(kNamed, paths.size()); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", ShownCodePath(paths[i]));
  }
  if (paths.size() > kNamed) absl::StrAppend(&text, " and ", paths.size() - kNamed, " more");
  return text;
}

// Refuses a file that the command names and that exists, but stays behind.
absl::Status CheckCommand(const v1::JobSpec& spec, const PackedCode& packed) {
  const std::filesystem::path folder(spec.working_directory());
  for (const std::string& argument : spec.command()) {
    const std::filesystem::path path(argument);
    std::error_code none;
    if (path.is_absolute() || !std::filesystem::is_regular_file(folder / path, none)) continue;
    const std::string name = path.lexically_normal().string();
    if (packed.paths.count(name) > 0) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the command names ", ShownCodePath(name), ", which would not travel with the job: ",
        packed.by_git ? "git does not track it, or it is elsewhere: git add it"
                      : "take it out of the .pacelineignore, or put it into the folder"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> Ship(Program& program, v1::JobSpec* spec) {
  if (spec->command().empty()) {
    return absl::InvalidArgumentError(
        "--ship goes with a command: models and data of a job without one are named by paths that "
        "every node has");
  }
  if (spec->has_code()) {
    return absl::InvalidArgumentError("the job file has code already: take it out, or --ship");
  }
  const std::string folder = spec->working_directory();
  PACELINE_ASSIGN_OR_RETURN(PackedCode packed, PackFolder(folder));
  PACELINE_RETURN_IF_ERROR(CheckCommand(*spec, packed));
  *spec->mutable_code() = packed.code;
  spec->clear_working_directory();
  program.Note(absl::StrCat("with the job travel ", CodeText(packed.code), " of ",
                            ShownCodePath(folder),
                            packed.by_git ? ", tracked by git, as they are on disk" : ""));
  if (!packed.untracked.empty()) {
    program.Note(absl::StrCat("  not tracked by git, and left behind: ", Some(packed.untracked)));
  }
  if (!packed.missing.empty()) {
    program.Note(absl::StrCat("  tracked by git, and not there: ", Some(packed.missing)));
  }
  return std::move(packed.bytes);
}

grpc::Status SubmitShipped(Program& program, const v1::SubmitJobRequest& request,
                           const std::string& code, v1::Job* job) {
  grpc::Status status = program.client().Call(methods::kJobSubmit, request, job);
  if (code.empty() || ErrorReason(status) != "CODE_NOT_FOUND") return status;
  v1::UploadCodeRequest part;
  *part.mutable_code() = request.spec().code();
  while (true) {
    v1::UploadCodeResponse reply;
    status = program.client().Call(methods::kJobUploadCode, part, &reply);
    if (!status.ok()) return status;
    const auto received = static_cast<size_t>(std::max<int64_t>(reply.received(), 0));
    if (received >= code.size()) return program.client().Call(methods::kJobSubmit, request, job);
    part.set_offset(reply.received());
    part.set_data(code.substr(received, kMaxCodePart));
  }
}

}  // namespace paceline
